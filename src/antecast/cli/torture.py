"""`antecast torture`: nodes killed at every point, and nothing may be lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from antecast.cli.completion import protocol_names
from antecast.cli.console import Exit, Json, OutFolder, Quiet, make_folder, out
from antecast.cli.progress import progress
from antecast.cli.tables import show
from antecast.core import ConfigurationError

if TYPE_CHECKING:
    from antecast.torture.campaign import Summary


def torture(
    protocols: Annotated[
        list[str],
        typer.Argument(metavar="PROTOCOL...", help="Names or import paths.", autocompletion=protocol_names),
    ],
    faults: Annotated[int, typer.Option(min=0, help="How many faults, at least, over all protocols.")] = 200,
    points: Annotated[
        bool, typer.Option("--points", help="First kill nodes at every numbered fault point in turn.")
    ] = False,
    in_process: Annotated[
        bool,
        typer.Option("--in-process", help="For volume: nodes in this process, killed and cut from each other."),
    ] = False,
    seed: Annotated[int, typer.Option(help="What is done to which node is drawn from this.")] = 0,
    nodes: Annotated[int, typer.Option(min=2, max=16, help="Nodes in a group.")] = 3,
    seconds: Annotated[
        float | None, typer.Option("--for", min=0, metavar="SECONDS", help="Begin nothing new after this time.")
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Use nodes that break a rule, to see that it is noticed."),
    ] = None,
    keys: Annotated[
        bool, typer.Option("--keys", help="Nodes have keys: TLS, signed messages, encrypted payloads.")
    ] = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=VALUE", help="A setting of the protocols. Repeatable."),
    ] = None,
    folder: OutFolder = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Torture live nodes: real processes on loopback, with a fault proxy between them.

    Kills at numbered points, stopped processes, clock steps, full disks, damaged journals, and connections that
    are late, slow, cut or half-open. After each fault the nodes are started again, and their applications'
    records and event logs are compared: nothing lost that was acknowledged, nothing twice, nothing out of order.
    With --out, the summary is kept in FOLDER/torture.json, and the same command goes on from there.

    Exits with 0 if nothing was wrong, 1 if something was, 2 for wrong usage, 3 if --for ended it early.
    """
    from antecast.cli.node import read_pairs
    from antecast.torture.campaign import Campaign, plain
    from antecast.torture.controls import CONTROLS

    if control is not None and in_process:
        raise ConfigurationError("controls are real processes: leave out --in-process", field="--control")
    if control is not None and control not in CONTROLS:
        raise ConfigurationError(
            f"no such control {control!r}; there are {', '.join(CONTROLS)}", field="--control"
        )
    if folder is not None:
        make_folder(folder)
    with progress("torture", "starting", quiet=quiet or as_json) as show:

        def tell(summary: Summary, state: str) -> None:
            share = min(1.0, summary.faults / faults) if faults else 0.0
            show("torture", share, f"{summary.faults} faults, {len(summary.wrong)} wrong; {state}")

        campaign = Campaign(
            protocols, faults, seed=seed, nodes=nodes, points=points, control=control, keys=keys,
            settings=read_pairs(overrides or []), folder=folder, seconds=seconds, in_process=in_process, show=tell,
        )  # fmt: skip
        summary = campaign.run()
    if as_json:
        print(json.dumps(plain(summary), indent=1))
    elif not quiet:
        _show(summary, folder)
    elif summary.wrong:
        out.print(f"wrong: {summary.wrong[0]}", style="bold red", soft_wrap=True)
    if summary.wrong:
        raise typer.Exit(Exit.VIOLATION)
    if campaign.interrupted:
        raise typer.Exit(Exit.INTERRUPTED)
    unfinished = summary.faults < faults or (points and any(each.unhit for each in summary.protocols.values()))
    if unfinished:
        raise typer.Exit(Exit.INCONCLUSIVE)


def _show(summary: Summary, folder: Path | None) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("protocol", "faults", "kills", "points", "not hit", "messages", "deliveries", "wrong"):
        table.add_column(name, justify="left" if name == "protocol" else "right")
    for name, each in summary.protocols.items():
        values = (each.count, each.faults.get("kill", 0), each.points, len(each.unhit), each.messages)
        table.add_row(name, *map(str, (*values, each.deliveries, len(each.wrong))))
    show(table)
    kinds: dict[str, int] = {}
    for each in summary.protocols.values():
        for kind, count in each.faults.items():
            kinds[kind] = kinds.get(kind, 0) + count
    out.print("faults: " + ", ".join(f"{kind} {kinds[kind]}" for kind in sorted(kinds)))
    for text in summary.wrong[:10]:
        out.print(f"wrong: {text}", style="bold red", soft_wrap=True)
    verdict = "nothing lost, nothing twice, nothing out of order"
    out.print(f"{len(summary.wrong)} wrong" if summary.wrong else verdict)
    if folder is not None:
        out.print(f"summary: {folder / 'torture.json'}", soft_wrap=True)
