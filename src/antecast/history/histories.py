"""Histories: what each node broadcast and delivered, in the order of its positions, as one int32 an event.

Theory of operation. A history is an array of codes: the delivery of message m is `m`, its broadcast is
`~m` (negative). The place in the array is the event's rank; ranks order a node's events as positions do,
and being dense they fit into 32 bits and lead back to the message. A history holds first deliveries
only: repeated ones are violations of integrity, reported here, and order is judged on the first.
Deliveries of unknown messages are counted here and take no part in anything that follows, since a
message without a broadcast has no past.

Nodes are independent, so the histories of some nodes can be read without the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.history.messages import MessageIndex
from antecast.history.names import UNKNOWN, Names
from antecast.history.rows import Batches, BrokenLog, IntArray, LongArray, read_rows
from antecast.history.violations import Tallies, Tally, merge_violations, violation_schema, violation_table

Clock: TypeAlias = Literal["global", "local"]
"""Whether times of different nodes can be compared: true in simulated logs, rarely elsewhere."""

LIMIT = 10_000
"""Violations of a kind that are listed one by one: more than anyone reads, a few MB."""

EXAMPLES = 5
"""Deliveries of unknown messages that are named."""

CHANGED = "the log changed while it was read; audit a copy of it, or follow it with --follow"
"""Said where a second pass over the files meets other rows than the first."""

_NO_MESSAGE = np.iinfo(np.int32).min
"""Code of the delivery of an unknown message, until it is dropped."""


@dataclass(frozen=True, eq=False)
class Histories:
    """The histories of some nodes, one after the other by name; `indptr` bounds each."""

    names: Names
    sources: IntArray
    """The node's code in the message index; a code past the sources' is a node that broadcast nothing."""
    indptr: LongArray
    codes: IntArray
    pos: NDArray[np.integer]
    """Looked up only to tell of violations; empty where nobody does."""

    def __len__(self) -> int:
        return len(self.names)

    def span(self, row: int) -> slice:
        """Where the history of the node in this row lies."""
        return slice(int(self.indptr[row]), int(self.indptr[row + 1]))

    def messages(self, row: int) -> IntArray:
        """The message of each event of a node."""
        codes = self.codes[self.span(row)]
        return np.where(codes < 0, ~codes, codes)

    def only(self, messages: IntArray) -> Histories:
        """The events of some messages."""
        kept = np.isin(np.where(self.codes < 0, ~self.codes, self.codes), messages)
        before = np.concatenate(([0], np.cumsum(kept)))
        return Histories(self.names, self.sources, before[self.indptr], self.codes[kept], self.pos[kept])

    @classmethod
    def gather(cls, parts: Sequence[Histories]) -> Histories:
        """The histories of all parts."""
        lengths = np.concatenate([np.empty(0, np.int64), *(np.diff(part.indptr) for part in parts)])
        return cls(
            Names.gather([part.names for part in parts]),
            np.concatenate([np.empty(0, np.int32), *(part.sources for part in parts)]),
            np.concatenate(([0], np.cumsum(lengths))),
            np.concatenate([np.empty(0, np.int32), *(part.codes for part in parts)]),
            np.concatenate([np.empty(0, np.int32), *(part.pos for part in parts)]),
        )

    def block(self, start: int, stop: int) -> Histories:
        """The nodes in rows `start` up to `stop`, without a copy of their events."""
        low, high = self.indptr[start], self.indptr[min(stop, len(self))]
        return Histories(
            self.names[start:stop],
            self.sources[start:stop],
            self.indptr[start : stop + 1] - low,
            self.codes[low:high],
            self.pos[low:high],
        )

    def chosen(self, rows: Sequence[int]) -> Histories:
        """The nodes in some rows, in ascending order; without a copy of events if they are neighbours."""
        if not rows or rows[-1] - rows[0] == len(rows) - 1:
            return self.block(rows[0], rows[-1] + 1) if rows else self.block(0, 0)
        starts, lengths = self.indptr[rows], np.diff(self.indptr)[rows]
        indptr = np.concatenate(([0], np.cumsum(lengths)))
        events = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Histories(
            self.names.take(rows),
            self.sources[rows],
            indptr,
            self.codes[events],
            self.pos[events] if len(self.pos) else self.pos,
        )


@dataclass(frozen=True, eq=False)
class Reading:
    """Histories, and what reading them brought to light."""

    histories: Histories
    tally: Tally
    violations: pa.Table
    unknown_examples: tuple[str, ...]
    runs: Tallies
    """The tally by run; empty if the log has no runs."""


class Coded(NamedTuple):
    """Events as numbers: the node, the code of the event, and its position."""

    node: IntArray
    codes: IntArray
    pos: NDArray[np.integer]


def read_histories(
    batches: Batches, index: MessageIndex, *, clock: Clock = "local", limit: int = LIMIT
) -> Reading:
    """The histories of all nodes whose rows are in the batches; every row of such a node must be there.

    Memory: 8 bytes per event (12 while reading), and 8 bytes per message of the log.
    """
    reader = HistoryReader(index, clock=clock, limit=limit)
    parts = [reader.read(batch) for batch in batches]
    counts = np.zeros(len(reader.nodes), np.int64)
    for part in parts:
        counts += np.bincount(part.node, minlength=len(counts))
    wide = any(part.pos.dtype == np.int64 for part in parts)

    def emptied() -> Iterator[Coded]:
        while parts:
            yield parts.pop(0)

    return reader.reading(reader.settle(emptied(), counts, wide=wide))


class HistoryReader:
    """Reads rows into codes, batch by batch; when all are read, brings those of some nodes into order.

    On the way it counts the events and lists what is wrong with them.
    """

    def __init__(self, index: MessageIndex, *, clock: Clock = "local", limit: int = LIMIT) -> None:
        self.nodes = index.nodes.copy()
        self._index = index
        self._timed = clock == "global"
        self._limit = limit
        self._tally = Tally()
        self._runs: Tallies = {}
        self._by_node: dict[str, LongArray] = {}
        self._examples: list[str] = []
        self._tables = [violation_schema(index.types).empty_table()]
        self._too_soon: list[tuple[IntArray, LongArray, IntArray]] = []

    def read(self, batch: pa.RecordBatch) -> Coded:
        """The events of a batch."""
        index, nodes = self._index, self.nodes
        rows = read_rows(batch, ("broadcast", "deliver"), timed=self._timed)
        node = nodes.encode(rows.run, rows.node, add=True)
        message = index.find_rows(rows)
        delivered = rows.kind == 1
        missing = message == UNKNOWN
        self._count("deliveries", node[delivered])
        self._count("unknown", node[missing])
        for i in np.flatnonzero(missing)[: EXAMPLES - len(self._examples)]:
            where = f"delivered at node {nodes.names[node[i]].node}, position {rows.pos[i]}"
            named = None if rows.message is None else rows.message[i].as_py()
            self._examples.append(f"{named or f'{rows.origin[i].as_py()}:{rows.seq[i]}'} {where}")
        if rows.t is not None and index.t is not None:
            soon = np.flatnonzero(delivered & ~missing)
            soon = soon[rows.t[soon] < index.t[message[soon]]]
            listed = soon[: max(0, self._limit - self._tally.before_broadcast)]
            self._count("before_broadcast", node[soon])
            if len(listed):
                self._too_soon.append((node[listed], rows.pos[listed], message[listed]))
        codes = np.where(delivered, message, ~message)
        codes[missing] = _NO_MESSAGE
        fits = len(rows) == 0 or rows.pos.max() < np.iinfo(np.int32).max
        return Coded(node, codes, rows.pos.astype(np.int32) if fits else rows.pos)

    def _count(self, what: str, chosen: IntArray) -> None:
        """Count events, and by node for the counts of runs."""
        if len(chosen):
            self._tally += Tally(**{what: len(chosen)})
        if self._index.types.run is not None:
            found = np.bincount(chosen, minlength=len(self.nodes))
            known = self._by_node.get(what, found[:0])
            found[: len(known)] += known
            self._by_node[what] = found

    def settle(self, events: Iterable[Coded], counts: LongArray, *, wide: bool) -> Histories:
        """The histories of some nodes from all their events, of which node n has `counts[n]`.

        `wide` says that there are positions of more than 32 bits.
        """
        read = _in_order(_by_node(events, counts, self.nodes.names, wide=wide), self._index)
        lengths = np.diff(read.indptr)
        histories, duplicates, repeats = _first_deliveries(read, self._index, self._limit)
        self._tables.append(repeats)
        self._tally += Tally(nodes=len(histories), duplicates=duplicates)
        if self._index.types.run is not None:
            dropped = lengths - np.diff(histories.indptr)
            runs, run = histories.names.runs, histories.names.run
            found = {
                "nodes": np.bincount(run, minlength=len(runs)),
                "duplicates": _totals(dropped, run, len(runs)),
            }
            for what, by_node in self._by_node.items():
                counts = np.zeros(len(self.nodes), np.int64)
                counts[: len(by_node)] = by_node  # nodes that came later have none
                found[what] = _totals(counts[histories.sources], run, len(runs))
            found["duplicates"] -= found.get("unknown", 0)
            for each in np.flatnonzero(found["nodes"]).tolist():
                tally = Tally(**{what: int(totals[each]) for what, totals in found.items()})
                self._runs[runs[each]] = self._runs.get(runs[each], Tally()) + tally
        return histories

    def reading(self, histories: Histories) -> Reading:
        """All that reading brought to light, after everything is settled."""
        for node, pos, message in self._too_soon:
            names = [self.nodes.names[code] for code in node]
            self._tables.append(violation_table(self._index, "before-broadcast", names, pos, message))
        self._too_soon.clear()
        violations = merge_violations(self._tables, self._limit)
        return Reading(histories, self._tally, violations, tuple(self._examples), self._runs)


def _totals(counts: LongArray, run: IntArray, runs: int) -> LongArray:
    """Counts of nodes, added up by run."""
    totals = np.zeros(runs, np.int64)
    np.add.at(totals, run, counts)
    return totals


def _by_node(events: Iterable[Coded], counts: LongArray, names: Names, *, wide: bool) -> Histories:
    """Bring the events of each node together, in the order in which they were read."""
    present = np.flatnonzero(counts).astype(np.int32)
    present = present[names.take(present).order()]
    indptr = np.concatenate(([0], np.cumsum(counts[present])))
    codes, pos = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.int64 if wide else np.int32)
    cursor = np.zeros(len(names), np.int64)
    cursor[present] = indptr[:-1]
    end = cursor + counts
    for node, some_codes, some_pos in events:
        if not _scatter(node, some_codes, some_pos, cursor, end, codes, pos):
            raise BrokenLog(CHANGED)
    if not np.array_equal(cursor, end):
        raise BrokenLog(CHANGED)
    return Histories(names.take(present), present, indptr, codes, pos)


def _in_order(histories: Histories, index: MessageIndex) -> Histories:
    """Sort, in place, the histories that do not stand in the order of positions."""
    for row in np.flatnonzero(_disordered(histories.indptr, histories.pos)).tolist():
        span = histories.span(row)
        order = np.argsort(histories.pos[span], kind="stable")
        codes, pos = histories.codes[span][order], histories.pos[span][order]
        same = np.flatnonzero(np.diff(pos) == 0)
        if len(same):
            rank = same[0]
            events = " and ".join(_event(index, int(code)) for code in codes[rank : rank + 2])
            run, node = histories.names[row]
            raise BrokenLog(f"two events at one position: {events}", run=run, node=node, pos=int(pos[rank]))
        histories.codes[span], histories.pos[span] = codes, pos
    return histories


def _event(index: MessageIndex, code: int) -> str:
    if code == _NO_MESSAGE:
        return "delivery of a message without broadcast"
    return f"delivery of {index.name(code)}" if code >= 0 else f"broadcast of {index.name(~code)}"


def _first_deliveries(histories: Histories, index: MessageIndex, limit: int) -> tuple[Histories, int, pa.Table]:
    """Drop repeated deliveries and unknown messages; the number of repeats and, within the limit, which."""
    room = min(limit, len(histories.codes))
    repeats = np.empty((room, 4), np.int64)
    indptr, count, broken = _settle(
        histories.indptr,
        histories.sources,
        histories.codes,
        histories.pos,
        index.offsets,
        len(index),
        repeats,
    )
    if broken[0] >= 0:
        row, message, pos = (int(value) for value in broken)
        run, node = histories.names[row]
        problem = (
            f"delivers its own {index.name(message)} before it broadcasts it at position {index.pos[message]}"
        )
        raise BrokenLog(problem, run=run, node=node, pos=pos, **index.keys(message))
    row, pos, message, first = repeats[:count].T
    names = [histories.names[each] for each in row]
    table = violation_table(index, "duplicate", names, pos, message, message, first)
    end = indptr[-1]
    kept = Histories(histories.names, histories.sources, indptr, histories.codes[:end], histories.pos[:end])
    return kept, int(count), table


@compiled
def _scatter(
    node: IntArray,
    some_codes: IntArray,
    some_pos: NDArray[np.integer],
    cursor: LongArray,
    end: LongArray,
    codes: IntArray,
    pos: NDArray[np.integer],
) -> bool:
    """Whether there was room for all events."""
    for i in range(len(node)):
        if node[i] >= len(end) or cursor[node[i]] == end[node[i]]:
            return False
        place = cursor[node[i]]
        codes[place] = some_codes[i]
        pos[place] = some_pos[i]
        cursor[node[i]] = place + 1
    return True


@compiled
def _disordered(indptr: LongArray, pos: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Nodes whose positions do not grow strictly."""
    disordered = np.zeros(len(indptr) - 1, np.bool_)
    for row in range(len(indptr) - 1):
        for i in range(indptr[row] + 1, indptr[row + 1]):
            if pos[i] <= pos[i - 1]:
                disordered[row] = True
                break
    return disordered


@compiled
def _settle(
    indptr: LongArray,
    sources: IntArray,
    codes: IntArray,
    pos: NDArray[np.integer],
    offsets: LongArray,
    messages: int,
    repeats: LongArray,
) -> tuple[LongArray, int, tuple[int, int, int]]:
    """Close the gaps that dropped events leave, in place.

    Gives the new bounds, the number of repeats, and (row, message, pos) of a message that its origin
    delivers before it broadcasts it, or -1. `first[m]` is where m was first delivered; an entry left by
    an earlier node lies before the start of the present one, so nothing is reset between nodes.
    """
    bounds = np.zeros(len(indptr), np.int64)
    first = np.full(messages, -1, np.int64)
    count = 0
    end = 0
    for row in range(len(indptr) - 1):
        start = end
        source = sources[row]
        next_own = own_end = 0
        if source < len(offsets) - 1:
            next_own = offsets[source]
            own_end = offsets[source + 1]
        for i in range(indptr[row], indptr[row + 1]):
            code = codes[i]
            if code == _NO_MESSAGE:
                continue
            if code < 0:
                next_own = ~code + 1  # a source's messages are numbered in the order of their broadcasts
            else:
                if next_own <= code < own_end:
                    return bounds, count, (row, code, pos[i])
                if first[code] >= start:
                    if count < len(repeats):
                        repeats[count, 0] = row
                        repeats[count, 1] = pos[i]
                        repeats[count, 2] = code
                        repeats[count, 3] = pos[first[code]]
                    count += 1
                    continue
                first[code] = end
            codes[end] = code
            pos[end] = pos[i]
            end += 1
        bounds[row + 1] = end
    return bounds, count, (-1, -1, -1)
