"""`antecast compare`: one network, every protocol that can run on it, and which one to take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from antecast.cli.console import Exit, Json, OutFolder, Overrides, Quiet, err, out
from antecast.cli.progress import sweep_progress
from antecast.core import ConfigurationError

if TYPE_CHECKING:
    from antecast.comparison.result import Comparison
    from antecast.comparison.standings import Standing

_OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in ("max_violations", "max_latency", "min_delivery", "run_timeout")
} | {"protocols": "--protocol"}
"""How the arguments of `antecast.compare` are spelled here."""

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
    from antecast.api import compare as run_comparison

    if master is not None and not spark:
        raise ConfigurationError("names where Spark is, which --no-spark leaves out", field="--master")
    try:
        first = "starting Spark" if spark else ""
        with sweep_progress(f"compare {scenario.stem}", first, quiet=quiet or as_json) as on_progress:
            result = run_comparison(
                scenario,
                protocols=protocols or (),
                settings=settings or (),
                overrides=overrides or (),
                seeds=seeds,
                max_violations=max_violations,
                max_latency=max_latency,
                max_bytes=max_bytes,
                min_delivery=min_delivery,
                out=out_folder,
                local=not spark,
                master=master,
                run_timeout=run_timeout,
                on_progress=on_progress,
            )
    except KeyboardInterrupt:
        err.print("interrupted; finished runs are kept, the same command goes on", style="yellow")
        raise typer.Exit(Exit.INTERRUPTED) from None
    except ConfigurationError as error:
        if error.field in _OPTIONS:
            raise ConfigurationError(error.problem, field=_OPTIONS[error.field]) from None
        raise
    here = Path.cwd()
    report = result.report.relative_to(here) if result.report.is_relative_to(here) else result.report
    if as_json:
        print(json.dumps(result.plain() | {"report": str(report)}, indent=2))
    else:
        _show(result, report, quiet=quiet)
    if result.judgement.recommended is None or any(each.broken for each in result.standings):
        raise typer.Exit(Exit.VIOLATION)


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
