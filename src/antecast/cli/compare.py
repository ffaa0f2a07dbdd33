"""`antecast compare`: one network, every protocol that can run on it, and which one to take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from antecast.cli.completion import protocol_names
from antecast.cli.console import (
    Conf,
    Exit,
    Json,
    Master,
    OnSpark,
    OutFolder,
    Overrides,
    Quiet,
    check_master,
    err,
    nearby,
    note,
    out,
)
from antecast.cli.progress import sweep_progress
from antecast.cli.tables import Column, show_columns
from antecast.cli.texts import say
from antecast.core import ConfigurationError

if TYPE_CHECKING:
    from antecast.comparison.result import Comparison
    from antecast.comparison.standings import Standing

_OPTIONS = {
    name: f"--{name.replace('_', '-')}"
    for name in ("max_violations", "max_latency", "min_delivery", "run_timeout")
} | {"protocols": "--protocol"}
"""How the arguments of `antecast.compare` are spelled here."""

_LIMITS = "Limits"

_STYLES = {"guaranteed": "green", "kept here, not promised": "yellow"}


def compare(
    scenario: Annotated[
        Path, typer.Argument(metavar="SCENARIO.toml", help="The network to choose for.", show_default=False)
    ],
    protocols: Annotated[
        list[str] | None,
        typer.Option(
            "--protocol",
            metavar="NAME",
            help="Compare only this protocol. Repeatable. Default: all whose needs this network meets.",
            autocompletion=protocol_names,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="NAME.KEY=VALUE", help="A protocol's setting: delta.lifetime=20min. Repeatable."
        ),
    ] = None,
    overrides: Overrides = None,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", metavar="N", min=1, max=1000, help="Runs per protocol; the first has the scenario's seed."
        ),
    ] = 3,
    max_violations: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="Share of deliveries out of order, such as 0.1%, or a number per run.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    max_latency: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="99th percentile of delivery latency, such as 200ms.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    max_bytes: Annotated[
        float | None,
        typer.Option(
            metavar="BYTES", min=0, help="Control bytes per delivery, such as 64.", rich_help_panel=_LIMITS
        ),
    ] = None,
    min_delivery: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="The smallest share of messages delivered, such as 99%. Default: close to the best.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    out_folder: OutFolder = None,
    spark: OnSpark = True,
    master: Master = None,
    conf: Conf = None,
    run_timeout: Annotated[
        str | None,
        typer.Option("--run-timeout", metavar="TIME", help="Fail runs that take longer, such as 10min."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run every protocol that can run on a scenario's network, compare them, and recommend one.

    All get the same network, seeds and broadcasts; the auditor judges each run. Prints a table and writes a
    report to comparisons/NAME. Call it again to continue after an interrupt, or to try other limits on the same
    runs. Limits apply to the worse end of the 95% interval over the seeds. candidates/NAME.parquet has a row
    per run of a protocol. Exits with 1 if none qualifies, or one broke a promise.
    """
    from antecast.api import compare as run_comparison

    check_master(master, spark=spark)
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
                on_note=note,
            )
    except KeyboardInterrupt:
        err.print("interrupted; finished runs are kept, the same command continues", style="yellow")
        raise SystemExit(Exit.INTERRUPTED) from None
    except ConfigurationError as error:
        if error.field in _OPTIONS:
            raise ConfigurationError(error.problem, field=_OPTIONS[error.field]) from None
        raise
    report = nearby(result.report)
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
                err.print(text, style="red", soft_wrap=True)
            if each.broken:
                text = f"{each.name} broke what it promises: {listed(each.broken)}"
                err.print(text, style="red", soft_wrap=True)
    style = "bold red" if judgement.recommended is None else "bold green"
    out.print(judgement.headline, style=style)
    if not quiet:
        for reason in judgement.reasons:
            out.print(reason)
        if judgement.demands.stated and judgement.qualified:
            out.print(f"Qualified: {listed(judgement.qualified)}.")
    out.print(f"report: {report}", style="dim", soft_wrap=True)


def _show_table(result: Comparison) -> None:
    """Every figure; in a narrow window the table is split into parts."""
    from antecast.comparison.words import with_interval
    from antecast.text.wording import number, share_text, time_text

    judgement = result.judgement
    columns = [
        Column("protocol"),
        Column("causal order"),
        Column("out of\norder", right=True),
        Column("p99 latency", right=True),
        Column("control\nbytes", right=True),
        Column("frames", right=True),
        Column("memory", right=True),
        Column("delivered", right=True),
        Column("assumes", wraps=True),
    ]
    rows, styles = [], []
    for each in sorted(result.standings, key=standing_key):
        order = each.order.split(",")[0] if each.runs else "no run"
        dim = bool(judgement.demands.stated) and each.name not in judgement.qualified
        styles.append("dim" if dim else None)
        rows.append(
            (
                f"{'→' if each.name == judgement.recommended else ' '} {each.name}",
                Text(order, style=_STYLES.get(each.order, "red")),
                share_text(each.violation_share.mean) if each.violation_share else "–",
                with_interval(each.latency_p99, time_text),
                with_interval(each.control_bytes),
                with_interval(each.frames),
                number(each.messages_peak.mean) if each.messages_peak else "–",
                share_text(each.delivered.mean) if each.delivered else "–",
                _assumed(each),
            )
        )
    show_columns(columns, rows, styles)
    if result.excluded:
        out.print("cannot run here:")
        for lacks in dict.fromkeys(other.lacks for other in result.excluded):
            who = [other.name for other in result.excluded if other.lacks == lacks]
            verb = "needs" if len(who) == 1 else "need"
            say(f"  {', '.join(who)} {verb} {', and '.join(lacks)}", "dim", hanging=2)
    out.print(
        "Out of order is a share of deliveries; control bytes and frames are per delivery; memory is the most"
        " messages that a node kept.",
        style="dim",
    )


def _assumed(each: Standing) -> str:
    met = [need for need in each.assumes if need not in each.unmet]
    missing = [f"{need} (not here)" for need in each.unmet]
    return ", ".join([*met, *missing]) or "nothing"


def standing_key(each: Standing) -> tuple[int, float]:
    """The order of the table: by how well causal order was kept, then by latency."""
    return each.order.rank, each.latency_p99.mean if each.latency_p99 else float("inf")
