"""`antecast protocols`: what there is to choose from."""

import json

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from antecast.cli.console import Json, out
from antecast.cli.tables import show


def protocols(as_json: Json = False) -> None:
    """List the protocols: what each guarantees, what it needs, what it costs."""
    from antecast.protocols import specifications

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
            for each in specifications()
        ]
        print(json.dumps(rows, indent=2))
        return
    for each in specifications():
        needs = ", ".join(sorted(each.needs(each.settings()))) or "nothing"
        if each.loss_settings:
            needs += f"; tolerates loss with {', '.join(each.loss_settings)}"
        facts = Table(show_header=False, box=None, pad_edge=False)
        facts.add_column(style="dim", no_wrap=True, min_width=len("control per message"))
        facts.add_column(overflow="fold")
        for label, text in (
            ("guarantees", ", ".join(sorted(each.guarantees)) or "nothing"),
            ("needs", needs),
            ("control per message", each.control),
            ("memory per node", each.memory),
            ("work per delivery", each.delivery),
        ):
            facts.add_row(label, Text(text))
        out.print(Text.assemble((each.name, "bold"), f": {each.title}"))
        show(Padding(facts, (0, 0, 0, 2)))
    out.print("N is the number of sources. Settings and references: antecast protocols --json", style="dim")
