"""`antecast protocols`: what there is to choose from."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from antecast.cli.completion import protocol_names
from antecast.cli.console import Json, out
from antecast.cli.tables import show

if TYPE_CHECKING:
    from antecast.protocols import Specification


def protocols(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Only these, with settings, gauges and reference. Default: all.",
            autocompletion=protocol_names,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the protocols: what each promises, needs and costs."""
    from antecast.protocols import specification, specifications

    chosen = [specification(name, path="NAME") for name in names] if names else specifications()
    if as_json:
        rows = [
            {
                "name": each.name,
                "title": each.title,
                "guarantees": sorted(each.guarantees),
                "needs": sorted(each.needs(each.settings())),
                "control": each.control,
                "memory": each.memory,
                "delivery": each.delivery,
                "settings": sorted(each.settings.__struct_fields__),
                "reference": each.reference,
            }
            for each in chosen
        ]
        print(json.dumps(rows, indent=2))
        return
    for each in chosen:
        facts = Table(show_header=False, box=None, pad_edge=False)
        facts.add_column(style="dim", no_wrap=True, min_width=len("control per message"))
        facts.add_column(overflow="fold")
        for label, text in (*_facts(each), *(_details(each) if names else ())):
            facts.add_row(label, Text(text))
        out.print(Text.assemble((each.name, "bold"), f": {each.title}"))
        show(Padding(facts, (0, 0, 0, 2)))
    more = "" if names else " Settings, gauges and reference of one: antecast protocols NAME"
    out.print(f"N is the number of sources.{more}", style="dim")


def _facts(each: "Specification") -> Iterator[tuple[str, str]]:
    needs = ", ".join(sorted(each.needs(each.settings()))) or "nothing"
    if each.loss_settings:
        needs += f"; tolerates loss with {', '.join(each.loss_settings)}"
    yield "promises", ", ".join(sorted(each.guarantees)) or "nothing"
    yield "needs", needs
    yield "control per message", each.control
    yield "memory per node", each.memory
    yield "work per delivery", each.delivery


def _details(each: "Specification") -> Iterator[tuple[str, str]]:
    from antecast.core.settings import plain_settings

    values = plain_settings(each.settings()).items()
    settings = (f"{name} = {'none' if value is None else json.dumps(value)}" for name, value in values)
    yield "settings", ", ".join(settings) or "none"
    makers = [each.make, *filter(None, [each.make_station])]
    gauges = {name for make in makers for name in make(0, each.fit(each.settings(), 1)).gauges()}
    yield "gauges", ", ".join(sorted(gauges)) or "none"
    yield "reference", each.reference or "none"
