"""What is found on a network of the barrier paper, and which of its figures and statements hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from antecast.history.confidence import Estimate
from antecast.papers.barrier import measures as queries
from antecast.papers.barrier.experiment import BUSES, CLOCKS, NO_LIFETIME, Network, Rule, experiment, rules
from antecast.papers.barrier.measured_run import OUT_OF_ORDER, measured
from antecast.papers.barrier.networks import Place
from antecast.papers.findings import Finding, figure
from antecast.papers.job import Job
from antecast.papers.layout import figure_file
from antecast.papers.paper import Paper, load_paper, seconds
from antecast.sim.contact_plan import load_plan
from antecast.sim.topology import Contacts
from antecast.spark.session import job_description
from antecast.spark.sweep import Sweep

Rows: TypeAlias = list[dict[str, Any]]

_OTHER = "measured on a network that is not the paper's"
_CLOCKS = "the paper's nodes were emulated, and their clocks agreed as far as it says"
PUBLISHED = "published"
"""The setting of what was run by the published rule, behind its lifetime; also the name of its reasons."""
_WHATEVER_RULE = ("broadcast", "received", "tdelay", "codlvdelay")
"""Quantities on which the rule for deadlines has no bearing, or which follow from others."""
_STAY = (270.0, 330.0)
"""Seconds that count as a stay of five minutes: the paper gives it in minutes."""


@dataclass(frozen=True)
class Beside:
    """Figures of a network beside the paper's; those of a network that is not the paper's stand alone."""

    network: Network
    comparable: bool
    paper: Paper = field(default_factory=lambda: load_paper("barrier"))

    def figure(
        self, item: str, quantity: str, setting: str, values: Iterable[float | None], reason: str = ""
    ) -> Finding:
        if not self.comparable:
            return self.ours(item, quantity, setting, values, _OTHER)
        return self.paper.figure(item, quantity, setting, _estimate(values), reason)

    def ours(self, item: str, quantity: str, setting: str, values: Iterable[float | None], reason: str) -> Finding:
        unit = self.paper.items[item].quantities[quantity].unit
        return figure(item, quantity, setting, unit, paper=None, ours=_estimate(values), reason=reason)

    def tables(self, counts: Rows, delays: Rows, by_rules: Rows) -> Iterator[Finding]:
        """Both tables of a network: a row per run by the safe rule and, beside it, what the other rule gives."""
        network = self.network
        for item, rows in ((network.counts, counts), (network.delays, delays)):
            for quantity, what in self.paper.items[item].quantities.items():
                for lifetime in network.lifetimes:
                    if what.values and lifetime not in what.values:
                        continue
                    own = [row[quantity] for row in rows if row["lifetime"] == lifetime]
                    yield self.figure(item, quantity, lifetime, own)
                    if not quantity.startswith(_WHATEVER_RULE):
                        yield from self._by_rules(item, quantity, lifetime, by_rules)

    def _by_rules(self, item: str, quantity: str, lifetime: str, rows: Rows) -> Iterator[Finding]:
        """The same by the published rule, and by both rules with clocks that differ."""

        def values(rule: Rule, clocks: str) -> list[float | None]:
            wanted = lifetime, rule, clocks
            return [row[quantity] for row in rows if (row["lifetime"], row["rule"], row["clocks"]) == wanted]

        published = f"{lifetime} {PUBLISHED}"
        if own := values("paper", "0s"):
            reason = self.paper.items[item].quantities[quantity].reasons.get(PUBLISHED, "")
            yield replace(self.figure(item, quantity, lifetime, own, reason), setting=published)
        names: dict[Rule, str] = {"safe": lifetime, "paper": published}
        for rule, named in names.items():
            if own := values(rule, CLOCKS):
                yield self.ours(item, quantity, f'{named}, clocks ±2"', own, _CLOCKS)


class Part:
    """What is found on one of the two networks."""

    def __init__(self, job: Job, network: Network, places: list[Place], *, comparable: bool) -> None:
        self._network = network
        self._beside = Beside(network, comparable=comparable)
        self._paper = self._beside.paper
        self._there = _presence(job, places)
        sweep = job.sweep(experiment(network, places))
        self._rules: Rows = job.map(
            f"{network.name}-rules", measured, rules(network, places, quick=job.quick), engines=["delta"]
        ).to_pylist()
        with job_description(job.spark, f"barrier: {network.name}: figures"):
            self.figures = self._query(job, sweep, places)

    def _query(self, job: Job, sweep: Sweep, places: list[Place]) -> dict[str, pa.Table]:
        """All that is asked of Spark: small tables, and the points of the figures."""
        network = self._network
        file = str(job.folder / network.name / "pairs.parquet")
        queries.pairs(sweep.events, sweep.runs).write.mode("overwrite").parquet(file)
        pairs = job.spark.read.parquet(file)
        audited = sweep.runs.select("run", F.col("early").alias(OUT_OF_ORDER))
        self._counts = _rows(queries.counts(pairs).join(F.broadcast(audited), "run"))
        self._delays = _rows(queries.delays(pairs))
        within = [seconds(name.rpartition(" within ")[2]) for name in self._quantities(network.distribution)]
        self._shares = _rows(queries.shares(pairs, sorted(set(within))))
        shown = queries.labelled(sweep.runs).filter(F.col("lifetime").isin(list(network.registers)))
        samples = sweep.samples.join(F.broadcast(shown.select("run", "lifetime")), "run")
        self._shapes = _rows(queries.shapes(samples))
        figures = {
            figure_file(network.scatter): queries.scatter(pairs).toArrow(),
            figure_file(network.distribution): queries.distributions(pairs).toArrow(),
            figure_file(network.registries): queries.registries(samples, network.watched).toArrow(),
        }
        self._movement: Rows = []
        self._stays: Rows = []
        if self._there is not None:
            one = self._there.filter(F.col("place") == self._there.agg(F.min("place")).collect()[0][0])
            figures[figure_file(network.intervals)] = _lines(one, network.shown_until).toArrow()
            contacts = _union(job, [contacts for contacts, _ in places])
            self._movement = _rows(queries.movement(self._there, contacts))
            runs = sweep.runs.select("run", _place(F.col("network_topology_presence")).alias("place"))
            near = self._there.join(F.broadcast(runs), "place").select(
                "run", F.col("number").alias("node"), "start", "end"
            )
            self._stays = _rows(queries.stays(pairs, near, *_STAY))
        return figures

    def _quantities(self, item: str) -> Iterable[str]:
        return self._paper.items[item].quantities

    # From tables to findings.

    def findings(self) -> list[Finding]:
        parts = (self._tables, self._intervals, self._scatter, self._distribution, self._registries)
        return [finding for part in parts for finding in part()]

    def _tables(self) -> Iterator[Finding]:
        yield from self._beside.tables(self._counts, self._delays, self._rules)
        if self._movement:
            item = self._network.movement
            for quantity in self._quantities(item):
                yield self._beside.figure(item, quantity, "", [row[quantity] for row in self._movement])

    def _intervals(self) -> Iterator[Finding]:
        item, limit = self._network.intervals, self._paper.limit
        if self._there is None:
            return
        spans = self._there.groupBy("place", "node").agg(
            F.count("*").alias("runs"), F.min("start").alias("start"), F.max("end").alias("end")
        )
        rows = _rows(spans.orderBy("place", "start"))
        places = len({row["place"] for row in rows})
        if self._network is BUSES:
            starts, ends = ({(row["place"], row[edge]) for row in rows} for edge in ("start", "end"))
            observed = (
                f"{len(rows) / places:.0f} buses, {len(starts) / places:.0f} starts, {len(ends) / places:.0f} ends"
            )
            several = min(len(starts), len(ends)) > limit(item, "starts and stops", "most") * len(rows)
            yield self._paper.statement(
                item, "starts and stops", "", holds=several, observed=observed, runs=places
            )
            twice = sum(row["runs"] > 1 for row in rows) / places
            text = f"{twice:.0f} buses run more than once a day"
            yield self._paper.statement(
                item,
                "school buses",
                "",
                holds=0 < twice <= limit(item, "school buses", "a few"),
                observed=text,
                runs=places,
            )
        else:
            early: dict[str, int] = {}
            first = {row["place"]: row["start"] for row in reversed(rows)}
            for row in rows:
                early[row["place"]] = early.get(row["place"], 0) + (
                    row["start"] - first[row["place"]] <= 1200 * 10**9
                )
            yield self._beside.figure(item, "nodes entering in the first 20'", "", early.values())

    def _scatter(self) -> Iterator[Finding]:
        network = self._network
        lifetimes = network.registers
        rows = [row for row in self._delays if row["lifetime"] in lifetimes]
        shares = {
            lifetime: Estimate.of(
                row["ltcy, avg"] / row["tdelay, avg"] for row in rows if row["lifetime"] == lifetime
            ).mean
            for lifetime in lifetimes
        }
        text = ", ".join(f"{share:.2%} of it with lifetime {lifetime}" for lifetime, share in shares.items())
        runs = len(rows) // len(lifetimes)
        yield self._paper.statement(
            network.scatter,
            "latency against delay",
            "",
            holds=max(shares.values()) <= self._paper.limit(network.scatter, "latency against delay", "small"),
            observed=text,
            runs=runs,
        )
        ages = {
            lifetime: max(row["codlvdelay, max"] for row in self._delays if row["lifetime"] == lifetime)
            for lifetime in network.lifetimes
            if lifetime != NO_LIFETIME
        }
        late = [lifetime for lifetime, age in ages.items() if age > seconds(lifetime)]
        observed = f"exceeded with lifetime {', '.join(late)}" if late else "in every run"
        yield self._paper.statement(
            network.scatter, "bounded by the lifetime", "", holds=not late, observed=observed, runs=runs
        )

    def _distribution(self) -> Iterator[Finding]:
        item = self._network.distribution
        for quantity, what in self._paper.items[item].quantities.items():
            verb, _, limit = quantity.partition(" within ")
            column = f"{'tdelay' if verb == 'received' else 'ltcy'} {seconds(limit)}"
            for lifetime in what.values:
                own = [row[column] for row in self._shares if row["lifetime"] == lifetime]
                yield self._beside.figure(item, quantity, lifetime, own)

    def _registries(self) -> Iterator[Finding]:
        network, item = self._network, self._network.registries

        def over(gauge: str, column: str, lifetime: str) -> float:
            """The mean over runs; drops and nodes add up over the nodes of a run."""
            own = [row for row in self._shapes if row["gauge"] == gauge and row["lifetime"] == lifetime]
            return sum(row[column] or 0 for row in own) / len(own)

        first, second = network.registers
        runs = len({row["run"] for row in self._shapes})
        say, limit = self._paper.statement, self._paper.limit
        if network is BUSES:
            grows, falls = over("clock", "drops", first), over("clock", "drops", second)
            text = f"{grows:.0f} falls in a run without, {falls:,.0f} with lifetime {second}"
            yield say(item, "co-delivered", "", holds=grows == 0 < falls, observed=text, runs=runs)
            largest, nodes = over("barrier", "largest", first), over("barrier", "nodes", first)
            text = f"at most {largest:.0f} entries at {nodes:.0f} nodes"
            yield say(item, "barrier", "", holds=largest < nodes, observed=text, runs=runs)
            one = self.figures[figure_file(item)].to_pylist()
            waiting = max(
                (row["value"] for row in one if row["gauge"] == "pending" and row["lifetime"] == first), default=0
            )
            few = waiting <= limit(item, "pending", "a few dozen")
            yield say(item, "pending", "", holds=few, observed=f"at most {waiting:,} at this node")
            return
        for quantity, column in (("received", "received"), ("co-delivered", "co-delivered")):
            for lifetime in network.registers:
                own = [row[column] for row in self._stays if row["lifetime"] == lifetime]
                yield self._beside.figure(item, f"messages {quantity} in a stay of 5'", lifetime, own)
        growth = [over("clock", "growth", lifetime) for lifetime in network.registers]
        text = f"in the last third of a stay {growth[0]:.2f} (5') and {growth[1]:.2f} (20') times the second third"
        stable = max(growth) <= limit(item, "co-delivered", "stable")
        yield say(item, "co-delivered", "", holds=stable, observed=text, runs=runs)
        peaks = [over("pending", "peak", lifetime) for lifetime in network.registers]
        text = f"largest after {peaks[0]:.0%} (5') and {peaks[1]:.0%} (20') of a stay, in the mean"
        early = max(peaks) <= limit(item, "pending", "at first")
        yield say(item, "pending", "", holds=early, observed=text, runs=runs)


def _estimate(values: Iterable[float | None]) -> Estimate | None:
    known = [float(value) for value in values if value is not None]
    return Estimate.of(known) if known else None


def _presence(job: Job, places: list[Place]) -> DataFrame | None:
    """Who is there when, with the numbers that nodes have in runs; None if nobody comes or goes."""
    files = [(contacts, there) for contacts, there in places if there is not None]
    if not files:
        return None
    parts = []
    for contacts, there in files:
        plan = load_plan(Contacts(file=str(contacts), presence=str(there)))
        numbers = job.spark.createDataFrame(list(enumerate(plan.names)), "number long, node string")
        parts.append(_union(job, [there]).join(F.broadcast(numbers), "node"))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole.select("place", "node", "number", "start", "end")


def _lines(there: DataFrame, until: float) -> DataFrame:
    """Running intervals in hours of the nodes that appear until an hour, numbered as they appear."""
    first = F.min("start").over(Window.partitionBy("node"))
    place = F.dense_rank().over(Window.orderBy("_first", "node"))
    rows = there.withColumn("_first", first).withColumn("appearance", place)
    hours = [(F.col(edge) / 3.6e12).alias(name) for edge, name in (("start", "from"), ("end", "to"))]
    return (
        rows.filter(F.col("_first") <= until * 3.6e12)
        .select("node", "appearance", *hours)
        .orderBy("appearance", "from")
    )


def _union(job: Job, files: list[Path]) -> DataFrame:
    """The rows of files, with the network they belong to as `place`."""
    rows = job.spark.read.parquet(*map(str, files))
    return rows.withColumn("place", _place(F.col("_metadata.file_path")))


def _place(file: Column) -> Column:
    return F.regexp_extract(file, r"([^/]*)-(contacts|presence)\.parquet$", 1)


def _rows(table: DataFrame) -> Rows:
    return [row.asDict() for row in table.collect()]
