"""The plots of a run: how long messages took, how many arrived, what that cost, and what nodes kept.

Each is a section of a page, with its numbers in words and its table beside the page; None where the log holds
nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc

from antecast.history.log import iter_samples
from antecast.history.measure import Measures, gauges_over_time
from antecast.reporting import figures
from antecast.reporting.folders import Beside
from antecast.reporting.page import Block, Chart, Section, TableBlock, Text
from antecast.text.wording import number, plural, share_text, size_text, time_text, time_unit


def latency(measures: Measures, beside: Beside) -> Section | None:
    if not len(measures.latency):
        return None
    where = beside.write("latency", measures.latency)
    size, unit = time_unit(measures.delivery.max)
    rows = [
        {"what": what, "time": 0.0, "share": 0.0} for what in dict.fromkeys(measures.latency["what"].to_pylist())
    ]
    rows += [row | {"time": 1e9 * row["seconds"] / size} for row in measures.latency.to_pylist()]
    rows.sort(key=lambda row: (str(row["what"]), float(row["time"])))
    both = measures.counts["receive"] > 0
    spec = figures.curves(
        rows,
        figures.axis("time", f"time since the broadcast ({unit})"),
        figures.axis("share", "share of node and message", form=".0%"),
        series="what",
        step=True,
        dashed=["received"],
    )
    quantiles = dict(measures.delivery.quantiles)
    words = (
        f"Half of the deliveries come within {time_text(quantiles[0.5])} of their broadcast, 95 % within "
        f"{time_text(quantiles[0.95])}, the slowest after {time_text(measures.delivery.max)}."
    )
    words += " The gap between received and delivered is the wait for what comes first." if both else ""
    chart = Chart("How long until a message is delivered", spec, words, f"{_sampled(measures)}Data: {where}.")
    return Section("Latency", [chart])


def _sampled(measures: Measures) -> str:
    if measures.step == 1:
        return ""
    return f"Cut: every {measures.step}th message is measured, {len(measures.index):,} were broadcast. "


def ratio(measures: Measures, beside: Beside) -> Section | None:
    if not len(measures.ratios):
        return None
    where = beside.write("delivery", measures.ratios)
    lowest = pc.min(measures.ratios["low"]).as_py()
    spec = figures.curves(
        measures.ratios.to_pylist(),
        figures.axis("seconds", "time of the broadcast (s)"),
        figures.axis("mean", "delivered by", form=".0%", scale={"domain": [0, 1]}),
        low="low",
        high="high",
        clip=False,
        height=figures.SMALL,
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
    chart = Chart("How many nodes deliver a message, by the time of its broadcast", spec, words, note)
    return Section("Delivery ratio", [chart])


def overhead(measures: Measures, beside: Beside, summary: str) -> Section | None:
    if not measures.has_frames:
        text = 'The log holds no frames (log.events is "order"), so it does not tell what went over the wire.'
        return Section("Overhead", [Text(text)])
    cost = measures.cost
    where = beside.write("wire", measures.wire)
    width = measures.wire["seconds"][1].as_py() if len(measures.wire) > 1 else 1.0
    rows = [
        {"seconds": row["seconds"], "what": what, "rate": row[column] / width / 1000}
        for row in measures.wire.to_pylist()
        for what, column in (("payload", "payload_bytes"), ("control", "control_bytes"))
    ]
    spec = figures.stacked(
        rows,
        figures.axis("seconds", "simulated time (s)"),
        figures.axis("rate", "sent (kB/s)"),
        series="what",
        order=["payload", "control"],
    )
    part = cost.control_bytes / cost.bytes if cost.bytes else 0.0
    words = (
        f"{size_text(cost.bytes)} went over the wire in {plural(cost.frames, 'frame')}, {share_text(part)} of it "
        f"control information."
    )
    chart = Chart("Bytes on the wire", spec, words, f"Data: {where}.")
    table = TableBlock(
        "",
        ("", "in all", "a message", "a delivery"),
        [
            ("frames", number(cost.frames), *_each(cost.frames, measures, number)),
            ("payload", size_text(cost.payload_bytes), *_each(cost.payload_bytes, measures, size_text)),
            ("control", size_text(cost.control_bytes), *_each(cost.control_bytes, measures, size_text)),
        ],
        [f"A message counts with all its hops. Data: {summary}."],
    )
    return Section("Overhead", [chart, table])


def _each(total: int, measures: Measures, form: Callable[[float], str]) -> list[str]:
    cost = measures.cost
    return [form(total / count) if count else "–" for count in (cost.broadcasts, cost.deliveries)]


def buffers(folder: Path, beside: Beside) -> Section | None:
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
        spec = figures.curves(
            rows,
            figures.axis("seconds", "simulated time (s)"),
            figures.axis("mean", "entries at a node"),
            low="low",
            high="high",
            height=figures.SMALL,
        )
        mean = sum(row["mean"] for row in rows) / len(rows)
        words = f"At most {number(most)} at a node, {number(mean)} on average over time."
        blocks.append(Chart(name, spec, words, f"Data: {where}.", small=True))
    text = "The line is the mean over all nodes, the band spans the smallest and the largest."
    if flat:
        text += f" Empty all the time: {', '.join(flat)}."
    return Section("Buffers", [Text(text), *blocks])
