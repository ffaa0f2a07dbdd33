"""The demonstration: one network, four protocols, and a verdict on each.

A small study runs on an embedded Spark: 64 nodes on a random network, the same traffic for every
protocol. Its event logs are read back as one DataFrame, audited on Spark, and the verdicts are printed
side by side, with what each protocol costs. Run it with `make demo`.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from antecast.spark import metrics
from antecast.spark.audit import audit
from antecast.spark.session import spark_session
from antecast.spark.sweep import SweepProgress, read_sweep, sweep

STUDY = Path(__file__).parent / "studies" / "demo.toml"
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
        tables = read_sweep(spark, result.folder)
        latency = metrics.summarise(metrics.delivery_latency(tables.events), "latency", by="protocol_name")
        means = {row["protocol_name"]: row["mean"] / 1e9 for row in latency.collect()}
        costs = {
            row["protocol_name"]: row for row in metrics.overhead(tables.events, by="protocol_name").collect()
        }
        table = Table(title="One network, four protocols: 64 nodes, 2 seeds", title_justify="left")
        for column in ("protocol", "verdict", "too early", "mean latency (s)", "control bytes a message"):
            table.add_column(column, justify="left" if column in ("protocol", "verdict") else "right")
        witness = None
        for protocol in ("r-broadcast", "fifo", "vector", "vector-changes"):
            verdict = audit(tables.events.where(tables.events.protocol_name == protocol), clock="global")
            witness = witness or verdict.witness
            table.add_row(
                protocol,
                "[green]causal[/green]" if verdict.outcome == "causal" else f"[red]{verdict.outcome}[/red]",
                f"{verdict.tally.early:,}",
                f"{means[protocol]:.3f}",
                f"{costs[protocol]['control_bytes_per_broadcast']:,.0f}",
            )
    console.print(table)
    if witness is not None:
        console.print("What a violation looks like:", style="bold")
        console.print(str(witness), markup=False)
    console.print("Next: antecast run --help, antecast sweep --help, antecast audit --help", style="dim")


if __name__ == "__main__":
    main()
