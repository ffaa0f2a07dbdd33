"""A space-time diagram as a value and as a plot: lines of nodes, messages from broadcast to delivery, time across.

A diagram is a table of events (`TABLE`) with the roles that its messages play. The plot is Vega-Lite; a click on a
mark, or the choice above it, picks one message. `witness_diagram` makes one of the story of a violation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from antecast.history.log import iter_events
from antecast.history.witness import Witness
from antecast.reporting.figures import SCHEMA
from antecast.text.wording import time_unit

_ROW_HEIGHT = 34
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

    def spec(self) -> dict[str, Any]:
        return _spec(self)


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


def _spec(diagram: Diagram) -> dict[str, Any]:
    """Lines of nodes, lines of messages, and a mark for each event; a click on a mark picks its message."""
    place = {node: row for row, node in enumerate(diagram.nodes)}
    rows = diagram.table.to_pylist()
    size, unit = (1.0, "")
    if diagram.timed:
        ns, unit = time_unit(1e9 * max((row["seconds"] for row in rows), default=0.0))
        size = ns / 1e9
    for row in rows:
        row["at"], row["line"] = row["seconds"] / size, place[row["node"]]
        row["event"] = f"node {row['node']}: {row['verb']} {row['message']} @{row['pos']}"
        if row["sent"] is not None:
            row["from"], row["fromline"] = row["sent"] / size, place[row["sent_at"]]
    names = list(dict.fromkeys(row["message"] for row in sorted(rows, key=lambda row: row["seconds"])))
    title = f"simulated time ({unit})" if diagram.timed else "order"
    labels = "[" + ",".join(f"'node {_quoted(node)}'" for node in diagram.nodes) + "][datum.value]"
    y_axis = {
        "values": list(range(len(diagram.nodes))),
        "labelExpr": labels,
        "grid": True,
        "gridOpacity": 1,
        "ticks": False,
        "domain": False,
        "labelPadding": 8,
        "labelLimit": 120,
    }
    scale = {"domain": [-0.6, len(diagram.nodes) - 0.4], "reverse": True, "nice": False, "zero": False}
    x = {
        "field": "at",
        "type": "quantitative",
        "title": title,
        "scale": {"zero": False, "nice": False, "padding": 12},
        "axis": {"grid": False, "tickCount": 6} | ({} if diagram.timed else {"labels": False, "ticks": False}),
    }
    y = {"field": "line", "type": "quantitative", "title": None, "scale": scale, "axis": y_axis}
    order, colours = [role for role, _ in diagram.roles], [shade for _, shade in diagram.roles]
    tint = {
        "field": "role",
        "type": "nominal",
        "scale": {"domain": order, "range": colours},
        "legend": {"title": None, "symbolType": "circle"},
    }
    fade = {"opacity": {"condition": {"param": "picked", "value": 0.95}, "value": 0.1}}
    tip = [
        {"field": "event", "type": "nominal", "title": "event"},
        {"field": "at", "type": "quantitative", "title": title},
    ]
    lines = {
        "transform": [{"filter": "isValid(datum.from)"}],
        "mark": {"type": "rule", "cursor": "pointer"},
        "encoding": {
            "x": x | {"field": "from"},
            "x2": {"field": "at"},
            "y": y | {"field": "fromline"},
            "y2": {"field": "line"},
            "color": tint,
            "strokeWidth": {"condition": {"test": "datum.role == 'further past'", "value": 0.8}, "value": 1.7},
            **fade,
        },
    }
    dots = {
        "mark": {"type": "point", "filled": True, "cursor": "pointer", "stroke": "var(--paper)", "strokeWidth": 1},
        "encoding": {
            "x": x,
            "y": y,
            "color": tint,
            "shape": {
                "field": "verb",
                "type": "nominal",
                "scale": {"domain": ["broadcast", "deliver"], "range": ["circle", "triangle-right"]},
                "legend": {"title": None, "symbolFillColor": "var(--soft)", "symbolStrokeColor": "var(--soft)"},
            },
            "size": {"condition": {"test": "datum.verb == 'broadcast'", "value": 110}, "value": 85},
            "tooltip": tip,
            **fade,
        },
        "params": [
            {
                "name": "picked",
                "select": {"type": "point", "fields": ["message"], "on": "click", "clear": "dblclick"},
                "bind": {
                    "input": "select",
                    "options": [None, *names],
                    "labels": ["all messages", *names],
                    "name": "Show",
                },
            }
        ],
    }
    text: dict[str, Any] = {
        "transform": [{"filter": "datum.verb == 'broadcast'"}],
        "mark": {"type": "text", "dy": -12, "fontSize": 11, "fontWeight": 600},
        "encoding": {"x": x, "y": y, "text": {"field": "message"}, "color": tint, **fade},
    }
    halo = text | {"mark": text["mark"] | {"stroke": "var(--paper)", "strokeWidth": 4, "strokeJoin": "round"}}
    return {
        "$schema": SCHEMA,
        "data": {"values": rows},
        "width": "container",
        "height": _ROW_HEIGHT * len(diagram.nodes) + 20,
        "layer": [*([lines] if any("from" in row for row in rows) else []), dots, halo, text],
    }


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
