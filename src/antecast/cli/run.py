"""`antecast run`: simulate a scenario and judge its causal order."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from antecast.cli.console import (
    Engine,
    Exit,
    Force,
    Json,
    OutFolder,
    Overrides,
    Quiet,
    engine_override,
    err,
    note,
    out,
)
from antecast.cli.report import Report, report_at_end
from antecast.cli.tables import show_pairs
from antecast.cli.texts import say
from antecast.core import ConfigurationError, OutputError

if TYPE_CHECKING:
    from antecast.sim.judged import Judged
    from antecast.sim.run import Progress as RunProgress

RUNS = Path("runs")
"""Where runs go by default."""


def run(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml", help="The scenario to simulate.")],
    overrides: Overrides = None,
    seed: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="The seed, instead of the scenario's.")
    ] = None,
    engine: Engine = None,
    folder: OutFolder = None,
    force: Force = False,
    judge: Annotated[bool, typer.Option("--audit/--no-audit", help="Judge the run when it ends.")] = True,
    reported: Report = True,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a scenario and judge its causal order.

    Writes a run folder (the event log, samples of the gauges, a manifest, a report) and prints a summary. The
    same scenario and seed always make the same run.
    """
    from antecast.sim.compiled.choice import choose, what_takes_time
    from antecast.sim.needs import describe_unmet
    from antecast.sim.run import run as simulate
    from antecast.sim.scenario import load_scenario
    from antecast.sim.sense import idle

    changes = [*(overrides or ()), *(() if seed is None else [f"seed={seed}"]), *engine_override(engine)]
    loaded = load_scenario(scenario, changes)
    if nothing := idle(loaded):
        raise ConfigurationError(nothing[1], field=nothing[0], source=str(scenario))
    for text in (*describe_unmet(loaded), *loaded.notes()):
        note(text)
    if choose(loaded).engine == "compiled" and (said := what_takes_time(loaded.specification.name)):
        note(said)
    with _claimed(folder, loaded.name) as chosen, _interruptible() as stopped, _progress(quiet or as_json) as show:

        def on_progress(progress: RunProgress) -> bool:
            show(progress)
            return not stopped()

        result = simulate(loaded, out=chosen, replace=force, on_progress=on_progress)
    if folder is None:
        _point_latest(chosen)
    judged = result.judge(audited=judge)
    verdict, promises, summary = judged.verdict, judged.promises, judged.summary()
    page = report_at_end(chosen, "run", wanted=reported, verdict=verdict)
    summary["report"] = None if page is None else str(page)
    if as_json:
        print(json.dumps(summary, indent=2))
    elif not quiet:
        _show(judged, summary)
    elif judged.told is not None and judged.told.tone != "good":
        out.print(f"{judged.told.headline}{judged.told.rest}", soft_wrap=True)
    if result.interrupted:
        raise SystemExit(Exit.INTERRUPTED)
    if promises and promises.broken:
        raise typer.Exit(Exit.VIOLATION)
    if (verdict and verdict.outcome == "inconclusive") or (promises and promises.untried):
        raise typer.Exit(Exit.INCONCLUSIVE)


@contextmanager
def _claimed(folder: Path | None, name: str) -> Iterator[Path]:
    """The folder of a run: the one that was named, or a new one, which is gone again if the run fails."""
    if folder is not None:
        yield folder
        return
    path = _new_folder(name)
    try:
        yield path
    except BaseException:
        with suppress(OSError):  # it is not empty
            path.rmdir()
        raise


def _new_folder(name: str) -> Path:
    """Made and not only named, so that runs that begin in the same second have a folder each."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    first = RUNS / f"{stamp}-{name.replace(' ', '-')}"
    for number in count(1):
        path = first if number == 1 else first.with_name(f"{first.name}-{number}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise OutputError(f"cannot create the folder: {error.strerror}", path=path) from None
    raise AssertionError


def _point_latest(folder: Path) -> None:
    """Let runs/latest point at the newest run; where links cannot be made, do without."""
    link = folder.parent / "latest"
    try:
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name)
    except OSError:
        pass


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C (or SIGTERM) into a request to stop, so that the log is closed whole."""
    stop = False

    def request(signum: int, frame: FrameType | None) -> None:
        nonlocal stop
        if stop:
            raise KeyboardInterrupt
        stop = True

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[RunProgress], None]]:
    """Show simulated time passing, on standard error, to whoever is watching a terminal."""
    if quiet or not err.is_terminal:
        yield lambda progress: None
        return
    share = TextColumn("{task.percentage:>3.0f}%")
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), share, TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("simulating")

        def show(progress: RunProgress) -> None:
            described = f"simulated {progress.now / 1e9:.1f} s, {progress.events:,} events logged"
            bar.update(task, completed=progress.now, total=progress.horizon, description=described)

        yield show


def _show(judged: Judged, summary: dict[str, Any]) -> None:
    result, told = judged.result, judged.told
    if result.interrupted:
        when = f"interrupted at {result.ended / 1e9:.1f} s of simulated time"
        err.print(f"{when}; what happened so far is kept in {result.folder}", style="yellow")
    if told is not None and judged.verdict is not None and judged.promises is not None:
        colour = {"good": "green", "bad": "red", "plain": "yellow"}[told.tone]
        out.print(Text.assemble((told.headline, f"bold {colour}"), told.rest))
        if judged.verdict.witness is not None:
            say(str(judged.verdict.witness))
        elif judged.promises.broken:
            say(judged.promises.example)
    show_pairs(_rows(summary))
    out.print(f"run folder: {result.folder}", style="dim")
    if summary["report"] is not None:
        out.print(f"report: {summary['report']}", soft_wrap=True)


def _rows(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    from antecast.sim.compiled.choice import has_compiled_engine

    latency = summary["latency"]
    yield "protocol", f"{summary['protocol']}, {summary['nodes']} nodes, seed {summary['seed']}"
    ratio = summary["delivery_ratio"]
    delivered = f" (delivery ratio {ratio:.2%})" if ratio is not None else ""
    yield "messages", f"{summary['broadcasts']:,} broadcast, {summary['deliveries']:,} deliveries{delivered}"
    if latency["mean"] is not None:
        quantiles = ", ".join(f"{key} {value:.4g}" for key, value in latency.items() if key.startswith("p"))
        yield "latency (s)", f"mean {latency['mean']:.4g}, {quantiles}, max {latency['max']:.4g}"
    if summary["frames_per_delivery"] is not None:
        yield "frames per delivery", f"{summary['frames_per_delivery']:.3g}"
    if summary["control_bytes_per_broadcast"] is not None:
        yield "control bytes per message", f"{summary['control_bytes_per_broadcast']:,.0f} (all hops together)"
    for gauge, value in summary["gauges"].items():
        yield gauge.replace("_", " "), f"mean {value['mean']:.3g}, max {value['max']:,.0f}"
    if summary["dropped_frames"]:
        yield "dropped frames", f"{summary['dropped_frames']:,} (send queue full)"
    if summary["lost_frames"]:
        yield "lost frames", f"{summary['lost_frames']:,} (on links)"
    if summary["refused_frames"]:
        yield "refused frames", f"{summary['refused_frames']:,}"
    if summary["alerts"]:
        yield "alerts", f"{summary['alerts']:,}"
    if summary["astray_frames"]:
        yield "astray frames", f"{summary['astray_frames']:,} (sent to a node without a link)"
    for text in summary["troubles"]:
        yield "", text
    rate = summary["events"] / max(summary["wall"], 1e-9)
    why = summary["engine_reason"]
    if not has_compiled_engine(summary["protocol"]):
        why = f"there is no compiled one for {summary['protocol']}"
    yield "engine", f"{summary['engine']} ({why})"
    yield "run", f"{summary['simulated']:.1f} s simulated in {summary['wall']:.2f} s, {rate:,.0f} events/s"
