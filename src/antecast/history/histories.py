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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.history.messages import UNKNOWN, MessageIndex, Name
from antecast.history.rows import Batches, BrokenLog, IntArray, LongArray, read_rows
from antecast.history.violations import Tallies, Tally, merge_violations, violation_schema, violation_table

Clock: TypeAlias = Literal["global", "local"]
"""Whether times of different nodes can be compared: true in simulated logs, rarely elsewhere."""

LIMIT = 10_000
"""Violations of a kind that are listed one by one: more than anyone reads, a few MB."""

EXAMPLES = 5
"""Deliveries of unknown messages that are named."""

_NO_MESSAGE = np.iinfo(np.int32).min
"""Code of the delivery of an unknown message, until it is dropped."""


@dataclass(frozen=True, eq=False)
class Histories:
    """The histories of some nodes, one after the other by name; `indptr` bounds each."""

    names: list[Name]
    sources: IntArray
    """The node's code in the message index; a code past the sources' is a node that broadcast nothing."""
    indptr: LongArray
    codes: IntArray
    pos: NDArray[np.integer]

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
            [name for part in parts for name in part.names],
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


@dataclass(frozen=True, eq=False)
class Reading:
    """Histories, and what reading them brought to light."""

    histories: Histories
    tally: Tally
    violations: pa.Table
    unknown_examples: tuple[str, ...]
    runs: Tallies
    """The tally by run; empty if the log has no runs."""


def read_histories(
    batches: Batches, index: MessageIndex, *, clock: Clock = "local", limit: int = LIMIT
) -> Reading:
    """The histories of all nodes whose rows are in the batches; every row of such a node must be there.

    Memory: 8 bytes per event (12 while reading), and 8 bytes per message of the log.
    """
    nodes = index.nodes.copy()
    parts: list[tuple[IntArray, IntArray, NDArray[np.integer]]] = []
    deliveries = unknown = before = 0
    by_node: dict[str, LongArray] = {}

    def count(what: str, chosen: IntArray) -> None:
        """Count events by node, for the counts of runs."""
        if index.types.run is not None:
            found = np.bincount(chosen, minlength=len(nodes.names))
            known = by_node.get(what, found[:0])
            found[: len(known)] += known
            by_node[what] = found

    examples: list[str] = []
    too_soon: list[tuple[IntArray, LongArray, IntArray]] = []
    for batch in batches:
        rows = read_rows(batch, ("broadcast", "deliver"), timed=clock == "global")
        node = nodes.encode(rows.run, rows.node, add=True)
        message = index.find_rows(rows)
        delivered = rows.kind == 1
        deliveries += int(delivered.sum())
        missing = message == UNKNOWN
        unknown += int(missing.sum())
        count("deliveries", node[delivered])
        count("unknown", node[missing])
        for i in np.flatnonzero(missing)[: EXAMPLES - len(examples)]:
            where = f"delivered at node {nodes.names[node[i]].node}, position {rows.pos[i]}"
            named = None if rows.message is None else rows.message[i].as_py()
            examples.append(f"{named or f'{rows.origin[i].as_py()}:{rows.seq[i]}'} {where}")
        if rows.t is not None and index.t is not None:
            soon = np.flatnonzero(delivered & ~missing)
            soon = soon[rows.t[soon] < index.t[message[soon]]]
            listed = soon[: max(0, limit - before)]
            before += len(soon)
            count("before_broadcast", node[soon])
            if len(listed):
                too_soon.append((node[listed], rows.pos[listed], message[listed]))
        codes = np.where(delivered, message, ~message)
        codes[missing] = _NO_MESSAGE
        fits = len(rows) == 0 or rows.pos.max() < np.iinfo(np.int32).max
        parts.append((node, codes, rows.pos.astype(np.int32) if fits else rows.pos))

    read = _in_order(_by_node(parts, nodes.names), index)
    lengths = np.diff(read.indptr)
    histories, duplicates, repeats = _first_deliveries(read, index, limit)
    tables = [violation_schema(index.types).empty_table(), repeats]
    for node, pos, message in too_soon:
        names = [nodes.names[code] for code in node]
        tables.append(violation_table(index, "before-broadcast", names, pos, message))
    tally = Tally(
        nodes=len(histories),
        deliveries=deliveries,
        duplicates=duplicates,
        unknown=unknown,
        before_broadcast=before,
    )
    runs: Tallies = {}
    if index.types.run is not None:
        dropped = lengths - np.diff(histories.indptr)
        for row, code in enumerate(histories.sources.tolist()):
            counts = {what: int(found[code]) if code < len(found) else 0 for what, found in by_node.items()}
            again = int(dropped[row]) - counts["unknown"]
            run = histories.names[row].run
            runs[run] = runs.get(run, Tally()) + Tally(nodes=1, duplicates=again, **counts)
    return Reading(histories, tally, merge_violations(tables, limit), tuple(examples), runs)


def _by_node(parts: list[tuple[IntArray, IntArray, NDArray[np.integer]]], names: list[Name]) -> Histories:
    """Bring the events of each node together, in the order in which they were read; empties `parts`."""
    counts = np.zeros(len(names), np.int64)
    for node, _, _ in parts:
        counts += np.bincount(node, minlength=len(names))
    present = np.array(sorted(np.flatnonzero(counts).tolist(), key=lambda code: names[code].rank), np.int32)
    indptr = np.concatenate(([0], np.cumsum(counts[present])))
    wide = any(pos.dtype == np.int64 for _, _, pos in parts)
    codes, pos = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.int64 if wide else np.int32)
    cursor = np.zeros(len(names), np.int64)
    cursor[present] = indptr[:-1]
    while parts:
        node, some_codes, some_pos = parts.pop(0)
        _scatter(node, some_codes, some_pos, cursor, codes, pos)
    return Histories([names[code] for code in present], present, indptr, codes, pos)


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
    codes: IntArray,
    pos: NDArray[np.integer],
) -> None:
    for i in range(len(node)):
        place = cursor[node[i]]
        codes[place] = some_codes[i]
        pos[place] = some_pos[i]
        cursor[node[i]] = place + 1


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
