"""A space-time diagram as a value and as a plot: lines of nodes, messages from broadcast to delivery, time across.

A diagram is a table of events (`TABLE`) with the roles that its messages play. A click on a mark, or the choice
above it, picks one message. `witness_diagram` makes one of the story of a violation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from antecast.history.log import iter_events
from antecast.history.witness import Witness
from antecast.reporting.plot import AnyMark, Axis, Dot, Label, Limit, Plot, Segment, Series, Shape
from antecast.reporting.timeline import Timeline
from antecast.reporting.units import Unit
from antecast.text.wording import time_unit

_ROW_HEIGHT = 36
TABLE = pa.schema(
    [
        *((name, pa.string()) for name in ("message", "role", "verb", "node")),
        ("pos", pa.int64()),
        ("seconds", pa.float64()),
        ("sent_at", pa.string()),
        ("sent", pa.float64()),
    ]
)
"""A row an event: what and where, and for a delivery where and when its message was broadcast."""


@dataclass(frozen=True)
class Diagram:
    """A diagram ready to be shown: its events, in words, and what was cut."""

    title: str
    table: pa.Table
    nodes: Sequence[str]
    roles: Sequence[tuple[str, str]]
    """Roles that messages play, and their colours."""
    words: str
    cut: str
    timed: bool = True

    def plot(self, unit: Unit | None = None) -> tuple[Plot, str]:
        """As a plot, times in the unit given, and a word on the stretches of time that it leaves out."""
        return _plot(self, unit)


def witness_diagram(witness: Witness, folder: Path | None) -> Diagram:
    """The story of a violation. With the folder of its run, events stand at their times, else in order."""
    roles = {witness.chain[0]: "came too late", witness.chain[-1]: "came too early"}
    roles |= dict.fromkeys(witness.chain[1:-1], "in between")
    if len(witness.chain) == 1:
        roles = {witness.chain[0]: "the message"}
    times: dict[tuple[str, int], float] = {}
    if folder is not None:
        places = {(int(str(event.node)), event.pos) for event in witness.events}
        times = {(str(node), pos): t / 1e9 for (node, pos), t in _times(folder, places).items()}
    timed = all((str(event.node), event.pos) in times for event in witness.events)
    rows, sent = [], {}
    for place, event in enumerate(witness.events):
        at = times[str(event.node), event.pos] if timed else float(place + 1)
        if event.verb == "broadcast":
            sent[event.message] = (str(event.node), at)
        where = sent.get(event.message, (None, None)) if event.verb == "deliver" else (None, None)
        rows.append((event.message, roles[event.message], event.verb, str(event.node), event.pos, at, *where))
    columns = zip(*rows, strict=True)
    table = pa.table(
        [pa.array(list(c), field.type) for c, field in zip(columns, TABLE, strict=True)], schema=TABLE
    )
    colours = [
        ("came too early", "var(--bad)"),
        ("came too late", "var(--c1)"),
        ("in between", "var(--c8)"),
        ("the message", "var(--bad)"),
    ]
    chain = " → ".join(witness.chain)
    words = f"The events that show it, at node {witness.node} and along the chain {chain}."
    if not timed:
        words += " Events stand in a possible order, not at their times."
    return Diagram(
        title="What happened, and when" if timed else "What happened",
        table=table,
        nodes=list(dict.fromkeys(str(event.node) for event in witness.events)),
        roles=[each for each in colours if each[0] in roles.values()],
        words=words,
        cut="",
        timed=timed,
    )


def _times(folder: Path, places: set[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The times of events by node and position."""
    nodes, found = pa.array(sorted({node for node, _ in places}), pa.int32()), {}
    positions = pa.array(sorted({pos for _, pos in places}), pa.int64())
    for batch in iter_events(folder, ["node", "pos", "t"]):
        near = pc.and_(pc.is_in(batch.column("node"), nodes), pc.is_in(batch.column("pos"), positions))
        for row in batch.filter(near).to_pylist():
            if (row["node"], row["pos"]) in places:
                found[row["node"], row["pos"]] = row["t"]
    return found


def _plot(diagram: Diagram, unit: Unit | None) -> tuple[Plot, str]:
    """Lines of nodes, lines of messages, and a mark for each event; the key of all is the message."""
    place = {node: float(row) for row, node in enumerate(diagram.nodes)}
    rows = sorted(diagram.table.to_pylist(), key=lambda row: row["seconds"])
    unit = unit or Unit(*time_unit(1e9 * max((row["seconds"] for row in rows), default=0.0)))
    ends = [row["seconds"] for row in rows]
    line = Timeline.of([*ends, *(row["sent"] for row in rows if row["sent"] is not None)])
    first = diagram.roles[0][0] if diagram.roles else ""
    flights: list[AnyMark] = []
    dots: list[AnyMark] = []
    labels: list[tuple[bool, Label]] = []
    for row in rows:
        look = {"series": row["role"], "key": row["message"]}
        x, y = line.place(row["seconds"]), place[row["node"]]
        tip = f"node {row['node']}: {row['verb']} {row['message']} @{row['pos']}"
        tip += f", {unit(1e9 * row['seconds'])}" if diagram.timed else ""
        if row["sent"] is not None:
            width = 0.8 if row["role"] == "further past" else 1.7
            start = line.place(row["sent"]), place[row["sent_at"]]
            flights.append(Segment(x=start[0], y=start[1], x2=x, y2=y, width=width, **look))
        if row["verb"] == "broadcast":
            labels.append(
                (row["role"] != first, Label(x=x, y=y, text=row["message"], needed=False, above=True, **look))
            )
        shape: Shape = "circle" if row["verb"] == "broadcast" else "forward"
        dots.append(Dot(x=x, y=y, size=5.5 if shape == "circle" else 5.0, shape=shape, tip=tip, **look))
    breaks = [Limit(x=at, text=f"{unit(1e9 * length)} left out") for at, length in line.breaks]
    soft = "var(--soft)"
    title = f"simulated time ({unit.sign})" if diagram.timed else "order"
    plot = Plot(
        x=Axis(title=title, low=line.low, high=line.high, ticks=line.ticks(unit) if diagram.timed else ()),
        y=Axis(names=[f"node {node}" for node in diagram.nodes]),
        marks=[*flights, *breaks, *dots, *(label for _, label in sorted(labels, key=lambda each: each[0]))],
        series=[
            *(Series(role, colour) for role, colour in diagram.roles),
            Series("broadcast", soft, swatch="dot"),
            Series("delivery", soft, shape="forward", swatch="dot"),
        ],
        pick=False,
        choices=list(dict.fromkeys(row["message"] for row in rows)),
        height=_ROW_HEIGHT * len(diagram.nodes),
    )
    words = "Cut: at dashed lines a stretch of time in which nothing happens is left out." if line.breaks else ""
    return plot, words
