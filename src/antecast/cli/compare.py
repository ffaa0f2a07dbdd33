"""`antecast compare`: one network, every protocol that can run on it, and which one to take."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from antecast.cli.console import Exit, Json, OutFolder, Overrides, Quiet, err, out
from antecast.cli.progress import sweep_progress
from antecast.core import ConfigurationError

if TYPE_CHECKING:
    from antecast.comparison.demands import Demands
    from antecast.comparison.result import Comparison
    from antecast.comparison.standings import Standing

COMPARISONS = Path("comparisons")
"""Where comparisons go that are not told where to go."""

_WIDE = 120
"""Columns of a window that has room for the whole table."""

_STYLES = {"guaranteed": "green", "kept here, not promised": "yellow"}


def compare(
    scenario: Annotated[
        Path, typer.Argument(metavar="SCENARIO.toml", help="The network to choose for.", show_default=False)
    ],
    protocols: Annotated[
        list[str] | None,
        typer.Option("--protocol", metavar="NAME", help="Compare only these. Repeatable; all, if not said."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="NAME.KEY=VALUE", help="A protocol's setting: delta.lifetime=20min."),
    ] = None,
    overrides: Overrides = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=1000, help="Runs of each protocol, from the scenario's seed on.")
    ] = 3,
    max_violations: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Share of deliveries out of order, such as 0.1%, or a number a run."),
    ] = None,
    max_latency: Annotated[
        str | None, typer.Option(metavar="TIME", help="99th percentile of delivery latency, such as 200ms.")
    ] = None,
    max_bytes: Annotated[
        float | None, typer.Option(metavar="BYTES", min=0, help="Control bytes a delivery, such as 64.")
    ] = None,
    min_delivery: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Least share of messages delivered; nearly the most, if not said."),
    ] = None,
    out_folder: OutFolder = None,
    master: Annotated[
        str | None, typer.Option("--master", help="A Spark master or sc:// address; all cores here, if not said.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Make the runs on Spark, or one by one in this process.")
    ] = True,
    run_timeout: Annotated[
        str | None,
        typer.Option("--run-timeout", metavar="TIME", help="Fail runs that take longer, such as 10min."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run every protocol that can run on a scenario's network, compare them, and recommend one.

    All get the same network, seeds and broadcasts; the auditor judges each run. Ends in a table and a report
    in comparisons/NAME; call it again to go on after an interrupt, or to try other limits on the same runs.
    Limits are judged by the bad end of the 95 % interval over the seeds. Exits with 1 if none qualifies,
    or one broke a promise.
    """
    from antecast.comparison.candidates import (
        base_scenario,
        comparison_study,
        describe_network,
        find_candidates,
        parse_settings,
    )
    from antecast.report.compare import compare_page
    from antecast.report.page import write
    from antecast.sim.scenario import override, read_toml
    from antecast.spark.compare import compare as run_comparison
    from antecast.spark.task import Limits

    if master is not None and not spark:
        raise ConfigurationError("names where Spark is, which --no-spark leaves out", field="--master")
    demands = _demands(max_violations, max_latency, max_bytes, min_delivery)
    timeout = _parsed("--run-timeout", run_timeout, lambda text: _latency(text) / 1e9)
    values = override(read_toml(scenario), overrides or ())
    base = base_scenario(values, scenario.parent, source=str(scenario))
    candidates = find_candidates(
        base, own=values.get("protocol"), chosen=protocols or (), given=parse_settings(settings or ())
    )
    if all(each.lacks for each in candidates):
        reasons = "; ".join(f"{each.name} needs {' and '.join(each.lacks)}" for each in candidates)
        raise ConfigurationError(f"no protocol can run on this network: {reasons}", field="--protocol")
    study = comparison_study(
        values, candidates, name=base.name, folder=scenario.parent, seeds=seeds, source=str(scenario)
    )
    folder = out_folder or COMPARISONS / base.name.replace(" ", "-")
    try:
        first = "starting Spark" if spark else ""
        with sweep_progress(f"compare {base.name}", first, quiet=quiet or as_json) as on_progress:
            result = run_comparison(
                study,
                candidates,
                demands,
                out=folder,
                local=not spark,
                master=master,
                limits=Limits(seconds=timeout),
                on_progress=on_progress,
            )
    except KeyboardInterrupt:
        err.print(f"interrupted; finished runs are kept in {folder}, the same command goes on", style="yellow")
        raise typer.Exit(Exit.INTERRUPTED) from None
    report = folder / "report.html"
    command = _command(scenario, protocols, settings, overrides, seeds, demands)
    write(compare_page(result, network=describe_network(base), command=command), report)
    if as_json:
        print(json.dumps(result.plain() | {"report": str(report)}, indent=2))
    else:
        _show(result, report, quiet=quiet)
    if result.judgement.recommended is None or any(each.broken for each in result.standings):
        raise typer.Exit(Exit.VIOLATION)


def _demands(violations: str | None, latency: str | None, size: float | None, delivery: str | None) -> Demands:
    from antecast.comparison.demands import Demands, parse_share, parse_violations

    tolerated = _parsed("--max-violations", violations, parse_violations)
    return Demands(
        violations=None if tolerated is None else tolerated[0],
        violations_relative=True if tolerated is None else tolerated[1],
        latency=_parsed("--max-latency", latency, _latency),
        bytes=size,
        delivery=_parsed("--min-delivery", delivery, parse_share),
    )


def _latency(text: str) -> float:
    from antecast.comparison.demands import parse_latency

    return parse_latency(text)


def _parsed(option: str, text: str | None, parse: Callable[[str], Any]) -> Any:
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        raise ConfigurationError(str(error), field=option) from None


def _command(
    scenario: Path,
    protocols: list[str] | None,
    settings: list[str] | None,
    overrides: list[str] | None,
    seeds: int,
    demands: Demands,
) -> str:
    """The command that makes the page again."""
    words = ["antecast", "compare", str(scenario)]
    for option, values in (("--protocol", protocols), ("--with", settings), ("--set", overrides)):
        words += [word for value in values or () for word in (option, value)]
    words += ["--seeds", str(seeds)]
    words += [word for aspect in demands.stated for word in demands.option(aspect).split(" ")]
    return shlex.join(words)


# Results.


def _show(result: Comparison, report: Path, *, quiet: bool) -> None:
    from antecast.text.wording import listed

    judgement = result.judgement
    if not quiet:
        _show_table(result)
        for each in result.standings:
            if each.failed:
                text = f"{each.name}: {each.failed} of {each.failed + each.runs} runs failed: {each.error}"
                err.print(text, style="red", markup=False, soft_wrap=True)
            if each.broken:
                text = f"{each.name} broke what it promises: {listed(each.broken)}"
                err.print(text, style="red", markup=False, soft_wrap=True)
    style = "bold red" if judgement.recommended is None else "bold green"
    out.print(judgement.headline, style=style, markup=False)
    if not quiet:
        for reason in judgement.reasons:
            out.print(reason, markup=False)
        if judgement.demands.stated and judgement.qualified:
            out.print(f"Qualified: {listed(judgement.qualified)}.", markup=False)
    out.print(f"report: {report}", style="dim", markup=False, soft_wrap=True)


def _show_table(result: Comparison) -> None:
    """As many columns as fit: intervals and assumptions want a wide window, and go below the table elsewhere."""
    from antecast.comparison.words import with_interval
    from antecast.text.wording import number, share_text, time_text

    judgement, wide = result.judgement, out.width >= _WIDE
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    columns = ("out of\norder", "p99\nlatency", "control\nbytes", "frames", "memory", "deliv-\nered")
    table.add_column("protocol", no_wrap=True)
    table.add_column("causal\norder", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    if wide:
        table.add_column("assumes")
    for each in sorted(result.standings, key=standing_key):
        order = each.order.split(",")[0] if each.runs else "no run"
        dim = bool(judgement.demands.stated) and each.name not in judgement.qualified
        latency, control, frames = each.latency_p99, each.control_bytes, each.frames
        cells = [
            f"{'→' if each.name == judgement.recommended else ' '} {each.name}",
            f"[{_STYLES.get(each.order, 'red')}]{order}[/]",
            share_text(each.violation_share.mean) if each.violation_share else "–",
            with_interval(latency, time_text) if wide else time_text(latency.mean) if latency else "–",
            with_interval(control) if wide else number(control.mean) if control else "–",
            with_interval(frames) if wide else number(frames.mean) if frames else "–",
            number(each.messages_peak.mean) if each.messages_peak else "–",
            share_text(each.delivered.mean) if each.delivered else "–",
        ]
        table.add_row(*cells, *([_assumed(each)] if wide else []), style="dim" if dim else None)
    out.print(table)
    if not wide:
        for needs in dict.fromkeys(map(_assumed, result.standings)):
            who = [each.name for each in result.standings if _assumed(each) == needs]
            out.print(f"assume {needs}: {', '.join(who)}", style="dim", markup=False)
    if result.excluded:
        out.print("cannot run here:")
        for lacks in dict.fromkeys(other.lacks for other in result.excluded):
            who = [other.name for other in result.excluded if other.lacks == lacks]
            verb = "needs" if len(who) == 1 else "need"
            out.print(f"  {', '.join(who)} {verb} {', and '.join(lacks)}", style="dim", markup=False)
    out.print(
        "Out of order is a share of deliveries; control bytes and frames are a delivery's; memory is the most"
        " messages that a node kept.",
        style="dim",
        markup=False,
    )


def _assumed(each: Standing) -> str:
    return ", ".join(each.assumes) or "nothing"


def standing_key(each: Standing) -> tuple[int, float]:
    """The order of the table: by what became of causal order, then by latency."""
    return each.order.rank, each.latency_p99.mean if each.latency_p99 else float("inf")
