"""The demonstration: one network, four protocols, and a verdict on each.

A small study runs on an embedded Spark: 64 nodes on a random network, the same traffic for every
protocol. Its event logs are read back as one DataFrame, audited on Spark, and the verdicts are printed
side by side, with what each protocol costs; a report with the distributions of latency goes beside the runs.
Run it with `make demo`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console
from rich.table import Table

from antecast.report.charts import chart
from antecast.report.page import Chart, Page, Section, TableBlock, Text, write
from antecast.spark import metrics
from antecast.spark.audit import audit
from antecast.spark.session import spark_session
from antecast.spark.sweep import Sweep, SweepProgress, read_sweep, sweep
from antecast.studies.paper import Chart as Look

STUDY = Path(__file__).parent / "studies" / "demo.toml"
PROTOCOLS = ("r-broadcast", "fifo", "vector", "vector-changes")
COLUMNS = ("protocol", "verdict", "too early", "mean latency (s)", "control bytes a message")
console = Console()


class Progress:
    """Says how far the sweep has come, whenever it has come further."""

    def __init__(self) -> None:
        self.said = -1

    def __call__(self, progress: SweepProgress) -> None:
        done = progress.resumed + progress.finished
        if done > self.said:
            self.said = done
            console.print(f"  {done} of {progress.total} runs", style="dim")


def main() -> None:
    console.print("Starting Spark on this machine …", style="dim")
    with spark_session("antecast demo") as spark:
        result = sweep(STUDY, spark=spark, on_progress=Progress())
        console.print(f"{len(result.runs)} runs in {result.folder}; auditing their logs on Spark …", style="dim")
        rows, witness, latencies = measure(spark, read_sweep(spark, result.folder))
    table = Table(title="One network, four protocols: 64 nodes, 2 seeds", title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("protocol", "verdict") else "right")
    for name, verdict, *figures in rows:
        table.add_row(name, f"[{'green' if verdict == 'causal' else 'red'}]{verdict}[/]", *figures)
    console.print(table)
    if witness is not None:
        console.print("What a violation looks like:", style="bold")
        console.print(str(witness), markup=False)
    report = result.folder / "report.html"
    write(page(rows, witness, latencies), report)
    console.print(f"report: {report}", style="bold", markup=False, soft_wrap=True)
    console.print("Next: antecast run --help, antecast reproduce --help, antecast audit --help", style="dim")


def measure(spark: SparkSession, tables: Sweep) -> tuple[list[list[str]], Any, Any]:
    """A row a protocol, the first witness of a violation, and the distributions of latency."""
    latency = metrics.delivery_latency(tables.events)
    summary = metrics.summarise(latency, "latency", by="protocol_name")
    means = {row["protocol_name"]: row["mean"] / 1e9 for row in summary.collect()}
    costs = {row["protocol_name"]: row for row in metrics.overhead(tables.events, by="protocol_name").collect()}
    rows, witness = [], None
    for protocol in PROTOCOLS:
        verdict = audit(tables.events.where(tables.events.protocol_name == protocol), clock="global")
        witness = witness or verdict.witness
        control = costs[protocol]["control_bytes_per_broadcast"]
        rows.append(
            [protocol, verdict.outcome, f"{verdict.tally.early:,}", f"{means[protocol]:.3f}", f"{control:,.0f}"]
        )
    curves = metrics.cdf(latency.withColumn("seconds", F.col("latency") / 1e9), "seconds", by="protocol_name")
    return rows, witness, curves.orderBy("protocol_name", "seconds").toArrow()


def page(rows: list[list[str]], witness: Any, latencies: Any) -> Page:
    broken = [name for name, verdict, *_ in rows if verdict != "causal"]
    look = Look(
        kind="line",
        x="seconds",
        y="fraction",
        series="protocol_name",
        series_title="protocol",
        x_title="seconds from broadcast to delivery",
        y_title="share of deliveries",
    )
    spec, cut = chart(latencies, look)
    words = "How long deliveries took, for each protocol: waiting for predecessors is what causal order costs."
    sections = [
        Section("Protocols", [TableBlock("", COLUMNS, rows)]),
        Section("Latency", [Chart("Delivery latency", spec, words, cut)]),
    ]
    if witness is not None:
        sections.append(
            Section("What a violation looks like", [Text(witness.words), Text(witness.diagram, pre=True)])
        )
    kept = len(rows) - len(broken)
    return Page(
        title="One network, four protocols",
        verdict=f"{kept} of {len(rows)} protocols kept causal order; {' and '.join(broken)} did not promise it.",
        lead=["64 nodes on a random network, the same traffic for every protocol, 2 seeds."],
        sections=sections,
        facts={"command": "make demo", "study": "examples/studies/demo.toml"},
    )


if __name__ == "__main__":
    main()
