"""`antecast emulate`: a scenario on real processes and real connections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from antecast.cli.console import Exit, Json, OutFolder, Overrides, Quiet, note, out
from antecast.cli.progress import progress
from antecast.cli.report import Report, report_at_end
from antecast.cli.tables import show
from antecast.core import ConfigurationError
from antecast.core.guarantees import Guarantee

if TYPE_CHECKING:
    from antecast.sim.scenario import Scenario


def emulate(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="The scenario to emulate.")],
    speed: Annotated[
        float, typer.Option(min=0.01, help="Seconds of the scenario per second of real time.")
    ] = 60.0,
    overrides: Overrides = None,
    seed: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="The seed, instead of the scenario's.")
    ] = None,
    folder: OutFolder = None,
    reported: Report = True,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run every node of a scenario as a process on loopback, in scaled time.

    The simulator runs the scenario first. Its broadcasts, contacts, partitions, crashes and churn are then carried
    out on live nodes: connections are opened and cut, processes killed and started again. The folder gets the
    journals and event logs of the nodes, the verdict, the comparison of the two runs, and a report.

    Exits with 0 if both runs have the same verdict and no promise is broken, 1 if causal order is promised and
    violated, 2 for wrong usage, 3 if the verdicts differ otherwise.
    """
    from antecast.auditing.outcome import Audit
    from antecast.emulation.emulate import emulate as carry_out
    from antecast.sim.scenario import load_scenario
    from antecast.sim.sense import idle

    changes = [*(overrides or ()), *(() if seed is None else [f"seed={seed}"])]
    loaded = load_scenario(scenario, changes)
    if nothing := idle(loaded):
        raise ConfigurationError(nothing[1], field=nothing[0], source=str(scenario))
    for text in _differences(loaded):
        if not quiet:
            note(text)
    chosen = folder or Path("emulations") / loaded.name.replace(" ", "-")
    with progress("emulate", "the simulator's run", quiet=quiet or as_json) as show:
        result = carry_out(loaded, chosen, speed=speed, show=lambda share, state: show("emulate", share, state))
    compared, verdict = result.comparison(), result.verdict
    Audit(result.log, verdict).write(chosen)
    (chosen / "emulation.json").write_text(json.dumps(compared, indent=2) + "\n", encoding="utf-8")
    page = report_at_end(chosen, "audit", wanted=reported)
    if as_json:
        print(json.dumps(compared | {"folder": str(chosen)}, indent=2))
    elif not quiet:
        _show(compared, chosen, page)
    elif verdict.outcome == "violated":
        out.print("causal order violated in the emulation", style="bold red")
    if verdict.outcome == "violated" and Guarantee.CAUSAL in loaded.specification.guarantees:
        raise typer.Exit(Exit.VIOLATION)
    if not compared["same_verdict"]:
        raise typer.Exit(Exit.INCONCLUSIVE)


def _differences(scenario: Scenario) -> list[str]:
    """What real connections on one machine do not do as the scenario says."""
    network = scenario.network
    found = ["connections on loopback are quick: the delays of the scenario are not kept"]
    if network.loss or network.queue_limit is not None or any(link.loss for link in network.links):
        found.append("TCP loses nothing: the losses of the scenario are not kept")
    return found


def _show(compared: dict[str, Any], folder: Path, page: Path | None) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("simulator", "emulation"):
        table.add_column(name, justify="right")
    for what in ("verdict", "messages", "deliveries"):
        table.add_row(what, str(compared[what]["simulator"]), str(compared[what]["emulation"]))
    show(table)
    counts = compared["deliveries"]
    if compared["same_deliveries"]:
        out.print("the same messages were delivered at the same nodes")
    else:
        words = f"{counts['both']} in both runs, {counts['only_simulator']} only in the simulator"
        out.print(f"deliveries: {words}, {counts['only_emulation']} only in the emulation")
    out.print(f"{compared['nodes']} processes, {compared['speed']:g} times as fast as the scenario's clock")
    out.print(f"event logs: {folder / 'events'}", soft_wrap=True)
    if page is not None:
        out.print(f"report: {page}", soft_wrap=True)
