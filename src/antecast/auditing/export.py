"""Logs written again for other tools: ShiViz, OTLP in JSON, CSV and Parquet; whole, or cut to a witness.

What is written can be read again by the importers here. A log that has no vector clocks gets them from its causes,
for ShiViz; one that is no trace gets a span of no length per event, for OTLP.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from antecast.core.errors import ConfigurationError, OutputError
from antecast.history.log_files import Log
from antecast.importers.clock_events import ClockLog
from antecast.importers.source import Place
from antecast.importers.span_table import SpanLog
from antecast.kv import History

Form: TypeAlias = Literal["shiviz", "otlp", "csv", "parquet"]

SUFFIXES: dict[str, str] = {"shiviz": ".log", "otlp": ".json", "csv": ".csv", "parquet": ".parquet"}

MOST_EVENTS = 2_000_000
"""Events of a table of broadcasts that are written for ShiViz or OTLP: each carries a clock or an id."""

DELIMITER = "=== {} ==="
"""The line before each execution; ShiViz takes `^=== (?<trace>.*) ===$`, and so does `--delimiter`."""

_KINDS = {"": 0, "internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}


@dataclass(frozen=True)
class Event:
    """An event with its causes, by their numbers in the same list."""

    host: str
    text: str
    causes: tuple[int, ...]
    place: Place | None = None
    run: str = ""


def export(data: Any, form: Form, file: Path, *, only: Collection[Place] | None = None) -> None:
    """Write what an importer or `open_log` gave. `only` keeps the events at some places."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if form in ("csv", "parquet"):
            table = table_of(data, only)
            pq.write_table(table, file) if form == "parquet" else pa_csv.write_csv(table, file)
            return
        lines = shiviz_lines(data, only) if form == "shiviz" else otlp_lines(data, only)
        with file.open("w", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror or error}", path=file) from error


def table_of(data: Any, only: Collection[Place] | None = None) -> pa.Table:
    """The events as a table that the same model can read again."""
    if isinstance(data, ClockLog):
        chosen = _chosen(data, only)
        places = [data.place(each) for each in chosen]
        return pa.table(
            {
                "run": [data.executions[data.execution_of[data.host[each]]] for each in chosen],
                "host": [data.hosts[data.host[each]] for each in chosen],
                "clock": [json.dumps(data.clock(each), ensure_ascii=False) for each in chosen],
                "event": [data.texts[each] for each in chosen],
                "file": [place.file for place in places],
                "line": pa.array([place.line for place in places], pa.int64()),
            }
        )
    if isinstance(data, SpanLog):
        chosen, edges = _chosen(data, only), _edges_of(data)
        parents = [edges.get(each, _Edges()) for each in chosen]
        places = [data.place(each) for each in chosen]
        return pa.table(
            {
                "trace_id": [data.traces[data.trace[each]] for each in chosen],
                "span_id": [data.ids[each] for each in chosen],
                "parent_id": [each.parent for each in parents],
                "span_links": [json.dumps(each.links) if each.links else "" for each in parents],
                "service": [data.services[data.service[each]] for each in chosen],
                "name": [data.names[each] for each in chosen],
                "kind": [data.kind_of(each) for each in chosen],
                "start_time_ns": pa.array([int(data.start[each]) for each in chosen], pa.int64()),
                "end_time_ns": pa.array([int(data.end[each]) for each in chosen], pa.int64()),
                "file": [place.file for place in places],
                "line": pa.array([place.line for place in places], pa.int64()),
            }
        )
    if isinstance(data, Log):
        return _rows_of(data, only)
    if isinstance(data, History):
        rows = data.operations()
        where = zip(rows["file"].to_pylist(), rows["line"].to_pylist(), strict=True)
        return rows if only is None else rows.filter(pa.array([Place(*each) in only for each in where]))
    raise ConfigurationError("this log cannot be written as a table", field="--export")


def _rows_of(log: Log, only: Collection[Place] | None) -> pa.Table:
    tables, wanted = [], None if only is None else set(only)
    for file in log.files:
        row = 0
        for batch in log.read(file):
            table = pa.Table.from_batches([batch])
            if wanted is not None:
                lines = (
                    [log.format.place(file.path, row + each) for each in range(len(batch))]
                    if _near(wanted, str(file.path))
                    else []
                )
                keep = [Place(str(file.path), line) in wanted for line in lines] or [False] * len(batch)
                table = table.filter(pa.array(keep, pa.bool_()))
            tables.append(table)
            row += len(batch)
    plain = [table.cast(pa.schema([(each.name, _plain(each.type)) for each in table.schema])) for table in tables]
    return pa.concat_tables(plain)


def _near(wanted: set[Place], file: str) -> bool:
    return any(place.file == file for place in wanted)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _chosen(data: ClockLog | SpanLog, only: Collection[Place] | None) -> list[int]:
    if only is None:
        return list(range(len(data)))
    wanted = set(only)
    return [each for each in range(len(data)) if data.place(each) in wanted]


@dataclass
class _Edges:
    """The parent of a span and what it links to, as pairs of a trace and a span."""

    parent: str = ""
    links: list[tuple[str, str]] = field(default_factory=list)


def _edges_of(log: SpanLog) -> dict[int, _Edges]:
    """Formats have one parent per span: further ones, such as those of a commit, become links."""
    found: dict[int, _Edges] = {}
    for edge, child in enumerate(log.child.tolist()):
        mine = found.setdefault(child, _Edges())
        if not mine.parent and not log.link[edge]:
            mine.parent = log.parent_ids[edge]
        else:
            mine.links.append((log.traces[log.parent_trace[edge]], log.parent_ids[edge]))
    return found


def shiviz_lines(data: Any, only: Collection[Place] | None = None) -> Iterator[str]:
    """Two lines per event, the clock first; executions apart."""
    if isinstance(data, ClockLog):
        rows: Iterable[tuple[str, str, dict[str, int], str]] = (
            (
                data.executions[data.execution_of[data.host[each]]],
                data.hosts[data.host[each]],
                data.clock(each),
                text,
            )
            for each in sorted(_chosen(data, only), key=lambda each: int(data.execution_of[data.host[each]]))
            for text in [data.texts[each]]
        )
    else:
        rows = _clocked(causal_events(data, only))
    several, current, words = _several(data), None, _Words()
    for run, host, clock, text in rows:
        if several and run != current:
            yield DELIMITER.format(run)
            current = run
        named = {words[name]: value for name, value in clock.items()}
        yield f"{words[host]} {json.dumps(named, ensure_ascii=False)}"
        yield _line(text)


def _several(data: Any) -> bool:
    return isinstance(data, ClockLog) and len(data.executions) > 1


_ROUND = str.maketrans("{}", "()")


class _Words(dict[str, str]):
    """Hosts as ShiViz takes them, by their names: each is one word of its own, without the braces of a clock."""

    def __missing__(self, host: str) -> str:
        plain = "_".join(host.split()) or "unknown"
        plain = plain.translate(_ROUND)
        taken = set(self.values())
        spare = (f"{plain}_{number}" for number in count(2))
        self[host] = word = plain if plain not in taken else next(each for each in spare if each not in taken)
        return word


def _line(text: str) -> str:
    return " ".join(text.split()) or "-"


def _clocked(events: list[Event]) -> Iterator[tuple[str, str, dict[str, int], str]]:
    """Events in an order that respects their causes, with the vector clocks that follow from them."""
    clocks: list[dict[str, int]] = [{} for _ in events]
    last: dict[tuple[str, str], dict[str, int]] = {}
    for number in in_causal_order(events):
        event = events[number]
        own = dict(last.get((event.run, event.host), {}))
        for cause in event.causes:
            for name, value in clocks[cause].items():
                own[name] = max(own.get(name, 0), value)
        own[event.host] = own.get(event.host, 0) + 1
        clocks[number] = last[event.run, event.host] = own
        yield event.run, event.host, own, event.text


def in_causal_order(events: list[Event]) -> Iterator[int]:
    """Numbers of events, causes first, else in the order given; on a cycle, one goes before its causes."""
    waiting = [len(event.causes) for event in events]
    effects: dict[int, list[int]] = {}
    for number, event in enumerate(events):
        for cause in event.causes:
            effects.setdefault(cause, []).append(number)
    ready = [number for number, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    first = 0
    while True:
        while first < len(events) and waiting[first] <= 0:
            first += 1
        if not ready and first == len(events):
            return
        number = heapq.heappop(ready) if ready else first
        waiting[number] = -1
        yield number
        for effect in effects.get(number, ()):
            waiting[effect] -= 1
            if not waiting[effect]:
                heapq.heappush(ready, effect)


def causal_events(data: Any, only: Collection[Place] | None = None) -> list[Event]:
    """The events of a log with their direct causes."""
    if isinstance(data, SpanLog):
        return _span_events(data, only)
    if isinstance(data, Log):
        return _broadcast_events(data, only)
    raise ConfigurationError("this log cannot be written in this form", field="--export")


def _span_events(log: SpanLog, only: Collection[Place] | None) -> list[Event]:
    """The starts of spans in the order of their times; a child is caused by its parent."""
    chosen = sorted(_chosen(log, only), key=lambda each: int(log.start[each]))
    number = {span: place for place, span in enumerate(chosen)}
    causes: dict[int, list[int]] = {}
    for parent, child in zip(log.parent.tolist(), log.child.tolist(), strict=True):
        if parent in number and child in number and parent != child:
            causes.setdefault(child, []).append(number[parent])
    return [
        Event(
            log.services[log.service[span]] or "unknown",
            f"{log.names[span] or log.ids[span]} ({log.ids[span]})",
            tuple(causes.get(span, ())),
            log.place(span),
        )
        for span in chosen
    ]


def _broadcast_events(log: Log, only: Collection[Place] | None) -> list[Event]:
    """Broadcasts and deliveries, each after the one before it at its node, a delivery after its broadcast."""
    table = _rows_of(log, only)
    if len(table) > MOST_EVENTS:
        problem = f"{len(table):,} events are too many for this form; at most {MOST_EVENTS:,} are written"
        raise ConfigurationError(problem, field="--export")
    rows = [row for row in table.to_pylist() if row["kind"] in ("broadcast", "deliver")]
    rows.sort(key=lambda row: row["pos"])
    sent: dict[tuple[object, ...], int] = {}
    before: dict[tuple[object, object], int] = {}
    causes: list[list[int]] = []
    for number, row in enumerate(rows):
        if row["kind"] == "broadcast":
            sent[_message(row)] = number
        previous = before.get((row.get("run"), row["node"]))
        causes.append([] if previous is None else [previous])
        before[row.get("run"), row["node"]] = number
    events = []
    for row, own in zip(rows, causes, strict=True):
        source = sent.get(_message(row)) if row["kind"] == "deliver" else None
        name = row.get("message") or f"{row.get('origin')}:{row.get('seq')}"
        run = "" if row.get("run") is None else str(row["run"])
        because = (*own, *([] if source is None or source in own else [source]))
        host = f"{run}/{row['node']}" if run else str(row["node"])
        events.append(Event(host, f"{row['kind']} {name}", because))
    return events


def _message(row: dict[str, Any]) -> tuple[object, ...]:
    if row.get("message") is not None:
        return (row.get("run"), row["message"])
    return (row.get("run"), row.get("origin"), row.get("seq"))


def otlp_lines(data: Any, only: Collection[Place] | None = None) -> Iterator[str]:
    """A document of OTLP per service, one a line."""
    spans: dict[str, list[dict[str, Any]]] = {}
    if isinstance(data, SpanLog):
        edges = _edges_of(data)
        for each in _chosen(data, only):
            mine = edges.get(each, _Edges())
            spans.setdefault(data.services[data.service[each]], []).append(
                {
                    "traceId": data.traces[data.trace[each]],
                    "spanId": data.ids[each],
                    "parentSpanId": mine.parent,
                    "name": data.names[each],
                    "kind": _KINDS[data.kind_of(each)],
                    "startTimeUnixNano": str(int(data.start[each])),
                    "endTimeUnixNano": str(int(data.end[each])),
                    "links": [{"traceId": trace, "spanId": span} for trace, span in mine.links],
                }
            )
    else:
        events = _of_clocks(data, only) if isinstance(data, ClockLog) else causal_events(data, only)
        for step, number in enumerate(in_causal_order(events)):
            event = events[number]
            first, *more = [_id(f"{event.run}/{cause}", 8) for cause in event.causes] or [""]
            trace = _id(event.run, 16)
            spans.setdefault(event.host, []).append(
                {
                    "traceId": trace,
                    "spanId": _id(f"{event.run}/{number}", 8),
                    "parentSpanId": first,
                    "name": event.text,
                    "kind": 1,
                    "startTimeUnixNano": str(step * 1000),
                    "endTimeUnixNano": str(step * 1000),
                    "links": [{"traceId": trace, "spanId": each} for each in more],
                }
            )
    for service, some in spans.items():
        attributes = [{"key": "service.name", "value": {"stringValue": service}}]
        scope = {"scope": {"name": "antecast"}, "spans": some}
        document = {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [scope]}]}
        yield json.dumps(document, ensure_ascii=False)


def _id(text: str, size: int) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()


def _of_clocks(log: ClockLog, only: Collection[Place] | None) -> list[Event]:
    """Events with the newest event that each component of their clock knows."""
    chosen = _chosen(log, only)
    at: dict[tuple[int, int], int] = {}
    own: list[int] = []
    for number, each in enumerate(chosen):
        row = slice(log.indptr[each], log.indptr[each + 1])
        mine = np.flatnonzero(log.component[row] == log.host[each])
        own.append(int(log.value[row][mine[0]]) if len(mine) else 0)
        at[int(log.host[each]), own[-1]] = number
    events = []
    for number, each in enumerate(chosen):
        row = slice(log.indptr[each], log.indptr[each + 1])
        pairs = zip(log.component[row].tolist(), log.value[row].tolist(), strict=True)
        host = int(log.host[each])
        causes = [at.get((part, value - (part == host)), -1) for part, value in pairs]
        known = tuple(sorted({cause for cause in causes if cause >= 0 and cause != number}))
        run = log.executions[log.execution_of[host]]
        events.append(Event(log.hosts[host], log.texts[each], known, log.place(each), run))
    return events
