"""`antecast protocols`: what there is to choose from."""

import json

from rich.table import Table

from antecast.cli.console import Json, out


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
    table = Table(title="Protocols", title_justify="left", show_lines=True)
    table.add_column("name", min_width=max(len(each.name) for each in specifications()))
    for column in ("guarantees", "needs", "control a message", "memory a node", "work a delivery"):
        table.add_column(column)
    for each in specifications():
        needs = ", ".join(sorted(each.needs(each.settings()))) or "nothing"
        if each.loss_settings:
            needs += f"; bears loss with {', '.join(each.loss_settings)}"
        table.add_row(
            f"[bold]{each.name}[/bold]\n{each.title}",
            ", ".join(sorted(each.guarantees)),
            needs,
            each.control,
            each.memory,
            each.delivery,
        )
    out.print(table)
    out.print("N is the number of sources. Settings and references: antecast protocols --json", style="dim")
