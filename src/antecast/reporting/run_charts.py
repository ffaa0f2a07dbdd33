"""The plots of a run: how long messages took, how many arrived, what that cost, and what nodes kept.

Each is a section of a page, with its numbers in words and its table beside the page; None where the log holds
nothing of the kind. `Units` are chosen once, so that a quantity has the same unit in every text and plot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from antecast.history.log import iter_samples
from antecast.history.measure import Measures, gauges_over_time
from antecast.reporting import figures
from antecast.reporting.folders import Beside
from antecast.reporting.page import Block, Chart, Section, TableBlock, Text
from antecast.reporting.plot import SMALL, Axis
from antecast.reporting.units import Unit, size_for, time_for
from antecast.text.wording import number, plural, share_text, time_unit


@dataclass(frozen=True)
class Units:
    """The units of a run's page."""

    latency: Unit
    simulated: Unit
    wire: Unit
    """Bytes of the whole run."""
    message: Unit
    """Bytes per message."""
    delivery: Unit
    """Bytes per delivery."""

    @classmethod
    def of(cls, measures: Measures, ended_ns: float | None) -> Units:
        quantiles, cost = dict(measures.delivery.quantiles), measures.cost
        parts = [cost.payload_bytes, cost.control_bytes]
        return cls(
            latency=time_for([quantiles.get(0.5), measures.delivery.max]),
            simulated=Unit(*time_unit(ended_ns)) if ended_ns else Unit(10**9, "s"),
            wire=size_for([cost.bytes]),
            message=size_for([part / cost.broadcasts for part in parts] if cost.broadcasts else []),
            delivery=size_for([part / cost.deliveries for part in parts] if cost.deliveries else []),
        )

    def at(self, seconds: float) -> float:
        """A moment of the simulation on an axis."""
        return self.simulated.of(1e9 * seconds)

    def axis(self, what: str) -> Axis:
        return Axis(title=f"{what} ({self.simulated.sign})")


def latency(measures: Measures, units: Units, beside: Beside) -> Section | None:
    if not len(measures.latency):
        return None
    where = beside.write("latency", measures.latency)
    unit = units.latency
    rows = [
        {"what": what, "time": 0.0, "share": 0.0} for what in dict.fromkeys(measures.latency["what"].to_pylist())
    ]
    rows += [row | {"time": unit.of(1e9 * row["seconds"])} for row in measures.latency.to_pylist()]
    rows.sort(key=lambda row: (str(row["what"]), float(row["time"])))
    both = measures.counts["receive"] > 0
    plot = figures.curves(
        rows,
        figures.time_axis(f"time since the broadcast ({unit.sign})", [row["time"] for row in rows]),
        Axis(title="share of node and message", share=True, high=1.0),
        ("time", "share"),
        series="what",
        step=True,
        dashed=["received"],
    )
    quantiles = dict(measures.delivery.quantiles)
    if quantiles:
        words = (
            f"Half of the deliveries come within {unit(quantiles[0.5])} of their broadcast, 95 % within "
            f"{unit(quantiles[0.95])}, the slowest after {unit(measures.delivery.max)}."
        )
        words += " The gap between received and delivered is the wait for what comes first." if both else ""
    else:
        words = "Messages were received, and none of them was delivered by another node."
    chart = Chart("How long until a message is delivered", [plot], words, f"{_sampled(measures)}Data: {where}.")
    return Section("Latency", [chart])


def _sampled(measures: Measures) -> str:
    if measures.step == 1:
        return ""
    return f"Cut: every {measures.step}th message is measured, {len(measures.index):,} were broadcast. "


def ratio(measures: Measures, units: Units, beside: Beside) -> Section | None:
    if not len(measures.ratios):
        return None
    where = beside.write("delivery", measures.ratios)
    lowest = pc.min(measures.ratios["low"]).as_py()
    plot = figures.curves(
        [row | {"at": units.at(row["seconds"])} for row in measures.ratios.to_pylist()],
        units.axis("time of the broadcast"),
        Axis(title="delivered by", share=True, low=0.0, high=1.0),
        ("at", "mean"),
        band=("low", "high"),
        height=SMALL,
    )
    words = (
        f"{share_text(measures.ratio)} of all deliveries that other nodes could make were made; "
        f"the message that reached fewest was delivered by {share_text(lowest)} of them."
    )
    if lowest == 1:
        words = "Every message was delivered by every other node."
    note = (
        f"The line is the mean over the messages of a step, the band spans all. {_sampled(measures)}Data: {where}."
    )
    chart = Chart("How many nodes deliver a message, by the time of its broadcast", [plot], words, note)
    return Section("Delivery ratio", [chart])


def overhead(measures: Measures, units: Units, beside: Beside, summary: str) -> Section | None:
    if not measures.has_frames:
        text = 'The log holds no frames (log.events is "order"), so it does not tell what went over the wire.'
        return Section("Overhead", [Text(text)])
    cost = measures.cost
    where = beside.write("wire", measures.wire)
    width = measures.wire["seconds"][1].as_py() if len(measures.wire) > 1 else 1.0
    steps = measures.wire.to_pylist()
    unit = size_for([max((row["payload_bytes"] + row["control_bytes"]) / width for row in steps)] if steps else [])
    rows = [
        {"at": units.at(row["seconds"]), "what": what, "rate": unit.of(row[column] / width)}
        for row in steps
        for what, column in (("payload", "payload_bytes"), ("control", "control_bytes"))
    ]
    plot = figures.stacked(
        rows,
        units.axis("simulated time"),
        Axis(title=f"sent ({unit.sign}/s)"),
        ("at", "rate"),
        series="what",
        order=["payload", "control"],
    )
    part = cost.control_bytes / cost.bytes if cost.bytes else 0.0
    words = (
        f"{units.wire(cost.bytes)} went over the wire in {plural(cost.frames, 'frame')}, {share_text(part)} of it "
        f"control information."
    )
    chart = Chart("Bytes on the wire", [plot], words, f"Data: {where}.")
    forms = units.wire, units.message, units.delivery
    table = TableBlock(
        "",
        ("", "in all", "per message", "per delivery"),
        [
            ("frames", *_each(cost.frames, measures, (number, number, number))),
            ("payload", *_each(cost.payload_bytes, measures, forms)),
            ("control", *_each(cost.control_bytes, measures, forms)),
        ],
        [f"A message counts with all its hops. Data: {summary}."],
    )
    return Section("Overhead", [chart, table])


def _each(total: int, measures: Measures, forms: tuple[Callable[[float], str], ...]) -> list[str]:
    counts = 1, measures.cost.broadcasts, measures.cost.deliveries
    return [form(total / count) if count else "–" for form, count in zip(forms, counts, strict=True)]


def buffers(folder: Path, units: Units, beside: Beside) -> Section | None:
    series = gauges_over_time(lambda: iter_samples(folder, ["t", "gauge", "value"]))
    if not len(series):
        return None
    where = beside.write("gauges", series)
    blocks: list[Block] = []
    flat: list[str] = []
    for gauge in dict.fromkeys(series["gauge"].to_pylist()):
        rows = series.filter(pc.equal(series["gauge"], gauge)).to_pylist()
        most = max(row["high"] for row in rows)
        name = gauge.replace("_", " ")
        if not most:
            flat.append(name)
            continue
        plot = figures.curves(
            [row | {"at": units.at(row["seconds"])} for row in rows],
            units.axis("simulated time"),
            Axis(title="entries at a node"),
            ("at", "mean"),
            band=("low", "high"),
            height=SMALL,
        )
        mean = sum(row["mean"] for row in rows) / len(rows)
        words = f"{name.capitalize()}: at most {number(most)} at a node, {number(mean)} on average over time."
        blocks.append(Chart(name, [plot], words, f"Data: {where}.", small=True))
    text = "The line is the mean over all nodes, the band spans the smallest and the largest."
    if flat:
        text += f" Empty all the time: {', '.join(flat)}."
    return Section("Buffers", [Text(text), *blocks])
