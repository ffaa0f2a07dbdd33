"""`antecast demonstrate`: what the papers left open, played by their rules and by ours."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from antecast.cli.completion import demonstration_names
from antecast.cli.console import Exit, Json, out
from antecast.cli.tables import show
from antecast.cli.texts import say
from antecast.core import ConfigurationError

if TYPE_CHECKING:
    from antecast.papers.demonstration import Demonstration, Played


def demonstrate(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME|STUDY|all]...",
            help="Which ones. Default: list them.",
            autocompletion=demonstration_names,
        ),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print them as a page of documentation.")] = False,
    as_json: Json = False,
) -> None:
    """Play the cases in which a rule of a paper fails and ours holds.

    Each is played by the rule as printed and by its replacement. Exits with 1 if one of them does not end as
    described.
    """
    from antecast.papers.left_open import as_markdown, demonstrations

    if not names and not (markdown or as_json):
        _list(demonstrations())
        return
    played = [each.play() for each in _chosen(names or ["all"], demonstrations())]
    if as_json:
        print(json.dumps([_as_json(each) for each in played], indent=2))
    elif markdown:
        print(as_markdown(played), end="")
    elif len(played) == 1:
        _tell(played[0])
    else:
        _summarise(played)
    raise typer.Exit(Exit.OK if all(each.as_claimed for each in played) else Exit.VIOLATION)


def _chosen(names: list[str], known: tuple[Demonstration, ...]) -> list[Demonstration]:
    for name in names:
        if name != "all" and not any(name in (each.name, each.study) for each in known):
            studies = ", ".join(dict.fromkeys(each.study for each in known))
            message = f"unknown demonstration {name!r}; `antecast demonstrate` lists them, by paper: {studies}"
            raise ConfigurationError(message, field="NAME")
    return [each for each in known if {each.name, each.study, "all"} & set(names)]


def _list(known: tuple[Demonstration, ...]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("study", "name", "what it shows"):
        table.add_column(column, no_wrap=column != "what it shows")
    for each in known:
        table.add_row(each.study, each.name, each.title)
    show(table)
    out.print("Play them: antecast demonstrate NAME, a study, or all", style="dim")


def _tell(played: Played) -> None:
    told = played.demonstration
    out.print(f"{told.study}: {told.title}", style="bold")
    out.print(f"\n{told.story}\n")
    for heading, rule, outcome in (
        ("As printed", told.printed, played.paper),
        ("Here", told.ours, played.ours),
    ):
        style = "red" if outcome.broken else "green"
        out.print(heading, style="bold")
        out.print(rule)
        out.print(outcome.words, style=style)
        say(f"\n{outcome.diagram}\n" if outcome.diagram else "")


def _summarise(played: list[Played]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("study", "name", "as printed", "here"):
        table.add_column(column, no_wrap=column in ("study", "name"))
    for each in played:
        marks = [
            Text("fails", style="red") if outcome.broken else Text("holds", style="green")
            for outcome in (each.paper, each.ours)
        ]
        table.add_row(each.demonstration.study, each.demonstration.name, *marks)
    show(table)
    claimed = sum(each.as_claimed for each in played)
    out.print(f"{claimed} of {len(played)} end as described: the printed rule fails, ours holds", style="bold")


def _as_json(played: Played) -> dict[str, object]:
    told = played.demonstration
    texts = {name: getattr(told, name) for name in ("name", "study", "title", "story", "printed", "ours")}
    outcomes = {"by_paper": asdict(played.paper), "by_us": asdict(played.ours)}
    return texts | outcomes | {"as_claimed": played.as_claimed}
