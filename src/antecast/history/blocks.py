"""Checks of some nodes at a time: which messages came too early or too late there.

Nodes are checked in blocks: a matrix of positions, a row per message and a column per node of the block, so that
the inner loop runs over neighbouring numbers. Rows stand in topological order, so what a message depends on lies
before it, most often close by.

A node is looked at only where it departs from the topological order, which is one of many orders that keep what
happened before. If m is early or late at j on account of x, one of the two has the smaller row and the later
position at j: they are *crossed*. A node that has no crossed messages keeps causal order, and no matrix is made
for it. The window of another is the rows from its first crossed message to its last one. That is enough: any chain
of dependencies between two crossed messages lies between them in topological order, hence inside the window.

Nodes with windows far apart are put into different blocks, so nodes that came and went cost what they saw, not
all messages of the log; and runs stand one after the other in topological order, so a block of one run does not
look at another's messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.history.dependencies import Ordered
from antecast.history.histories import LIMIT, Histories
from antecast.history.messages import MessageIndex
from antecast.history.names import Name
from antecast.history.rows import IntArray, LongArray
from antecast.history.violations import (
    Problem,
    Tallies,
    Tally,
    merge_violations,
    violation_schema,
    violation_table,
)

MEMORY = 256 << 20
"""Bytes for the matrices of a block. More nodes in a block do not make it faster than this does."""

LANES = 16
"""Positions in a cache line. Blocks have whole lines where they can, and nodes of small runs share one."""

_OVERHEAD = 600
"""What a block costs by itself, in rows of one cache line: a tenth of a millisecond."""

_STARTS = 64
"""Classes of windows by their start; nodes of a class stay in the order of names."""

_ABSENT = np.uint32(0xFFFFFFFF)
"""No position. As a signed number it is -1, less than any position; as an unsigned one, more than any."""


@dataclass(frozen=True, eq=False)
class BlockCheck:
    """What the check of some nodes found."""

    tally: Tally
    violations: pa.Table
    runs: Tallies = field(default_factory=dict)
    """Early and late messages by run, if the log has runs."""


def block_width(rows: int, memory: int) -> int:
    """Nodes whose two matrices fit into so many bytes; at least one, and whole cache lines where possible."""
    width = max(1, memory // (8 * max(1, rows)))
    return width - width % LANES if width > LANES else width


def blocks(
    histories: Histories, index: MessageIndex, ordered: Ordered, memory: int = MEMORY
) -> Iterator[Histories]:
    """Cut histories so that the matrices of each block fit into so many bytes, and windows are used well.

    A node joins the block before it if that costs no more than a block of its own. Costs are cache lines. Nodes
    that have nothing crossed are in no block.
    """
    low, high = _windows_of(histories, index, ordered)
    crossed = np.flatnonzero(low < high)
    step = -(-len(ordered.place) // _STARTS) or 1
    rows = crossed[np.argsort(low[crossed] // step, kind="stable")]  # nodes with windows alike, otherwise by name
    some: list[int] = []
    first = last = cost = 0
    for row, start, end in zip(rows.tolist(), low[rows].tolist(), high[rows].tolist(), strict=True):
        if some:
            least, most = min(first, start), max(last, end)
            joined = -(-(len(some) + 1) // LANES) * (most - least)
            if joined <= cost + (end - start) + _OVERHEAD and len(some) < block_width(most - least, memory):
                some.append(row)
                first, last, cost = least, most, joined
                continue
            yield histories.chosen(sorted(some))
        some, first, last, cost = [row], start, end, end - start
    if some:
        yield histories.chosen(sorted(some))


def check_block(
    block: Histories, index: MessageIndex, ordered: Ordered, *, pairs: bool = False, limit: int = LIMIT
) -> BlockCheck:
    """Early and late messages at some nodes, given the dependencies of all messages in topological order."""
    starts, ends = _windows_of(block, index, ordered)
    low, high = int(starts.min(initial=len(ordered.place))), int(ends.max(initial=0))
    low = min(low, high)
    window = ordered.indptr[low : high + 1], ordered.deps, low
    position = _positions(block.indptr, block.codes, ordered.place, low, high, block.sources, index.origin)
    reach = np.empty_like(position)
    early = np.zeros(len(block), np.int64)
    _reach_back(position, *window, reach, early)
    if not early.any():
        return BlockCheck(Tally(), violation_schema(index.types).empty_table())
    tables = [_list(block, index, "early", ordered.row_of[low:high], position, reach, early, limit)]
    own = _early_broadcasts(block, index, ordered, low, position, reach)
    wrong = 0
    if pairs:
        early_row, early_node = np.nonzero((position >= 0) & (reach > position))
    late = np.zeros(len(block), np.int64)
    unsigned, future = position.view(np.uint32), reach.view(np.uint32)
    np.copyto(future, unsigned)
    _reach_forward(unsigned, *window, future, late)
    tables.append(_list(block, index, "late", ordered.row_of[low:high], unsigned, future, late, limit))
    if pairs:
        is_late = ((unsigned != _ABSENT) & (future < unsigned)).any(axis=1)
        wrong = _count_pairs(position, *window, np.flatnonzero(is_late), early_row, early_node)
    tally = Tally(early=int(early.sum()), early_broadcasts=own, late=int(late.sum()), pairs=wrong)
    runs: Tallies = {}
    for row in np.flatnonzero(early + late).tolist() if index.types.run is not None else ():
        found = Tally(early=int(early[row]), late=int(late[row]))
        runs[block.names[row].run] = runs.get(block.names[row].run, Tally()) + found
    return BlockCheck(tally, merge_violations(tables, limit), runs)


def _early_broadcasts(
    block: Histories, index: MessageIndex, ordered: Ordered, low: int, position: IntArray, reach: IntArray
) -> int:
    """Early messages whose position is that of their broadcast, since their node delivers none of its own."""
    count = 0
    for row, source in enumerate(block.sources.tolist()):
        codes = block.codes[block.span(row)]
        if source < len(index.nodes) and not (index.origin[codes[codes >= 0]] == source).any():
            own = ordered.place[~codes[codes < 0]] - low
            own = own[(own >= 0) & (own < len(position))]
            here = position[own, row]
            count += int(((here >= 0) & (reach[own, row] > here)).sum())
    return count


def _list(
    block: Histories,
    index: MessageIndex,
    problem: Problem,
    messages: IntArray,
    position: NDArray[np.integer],
    reach: NDArray[np.integer],
    counts: LongArray,
    limit: int,
) -> pa.Table:
    """The first violations by node and position; the cause is the event of the node that reach points to.

    `messages` has the message of each row of the matrices.
    """
    names: list[Name] = []
    columns: list[tuple[NDArray[np.integer], ...]] = [(np.empty(0, np.int64),) * 4]
    for row in np.flatnonzero(counts).tolist():
        if len(names) >= limit:
            break
        at, other = position[:, row].view(np.uint32), reach[:, row].view(np.uint32)
        there = at != _ABSENT
        (found,) = np.nonzero(there & (other > at if problem == "early" else other < at))
        found = found[np.argsort(at[found])][: limit - len(names)]
        history, positions = block.messages(row), block.pos[block.span(row)]
        names += [block.names[row]] * len(found)
        columns.append((positions[at[found]], messages[found], history[other[found]], positions[other[found]]))
    pos, message, cause, cause_pos = (np.concatenate(each) for each in zip(*columns, strict=True))
    return violation_table(index, problem, names, pos, message, cause, cause_pos)


def _windows_of(histories: Histories, index: MessageIndex, ordered: Ordered) -> tuple[LongArray, LongArray]:
    return _windows(histories.indptr, histories.codes, ordered.place, histories.sources, index.origin)


@compiled
def _windows(
    indptr: LongArray, codes: IntArray, place: IntArray, sources: IntArray, origin: IntArray
) -> tuple[LongArray, LongArray]:
    """The rows in which the crossed messages of each node lie: from the first, up to the second number.

    Going by position, each message with a smaller row than one before it is crossed, and so is that with the
    largest row before it.
    """
    low = np.empty(len(indptr) - 1, np.int64)
    high = np.empty(len(indptr) - 1, np.int64)
    for row in range(len(indptr) - 1):
        delivers_own = False
        for i in range(indptr[row], indptr[row + 1]):
            delivers_own |= codes[i] >= 0 and origin[codes[i]] == sources[row]
        first, last, latest = np.int64(len(place)), np.int64(-1), np.int64(-1)
        for i in range(indptr[row], indptr[row + 1]):
            if codes[i] >= 0 or not delivers_own:
                here = np.int64(place[codes[i] if codes[i] >= 0 else ~codes[i]])
                if here < latest:
                    first, last = min(first, here), max(last, latest)
                latest = max(latest, here)
        low[row], high[row] = min(first, last + 1), last + 1
    return low, high


@compiled
def _positions(
    indptr: LongArray, codes: IntArray, place: IntArray, low: int, high: int, sources: IntArray, origin: IntArray
) -> IntArray:
    """Ranks of messages at nodes: of the first delivery, or of the broadcast at nodes that log no delivery of
    their own messages. A node that does has not delivered those whose delivery is not there. Joints have none."""
    position = np.full((high - low, len(indptr) - 1), -1, np.int32)
    for row in range(len(indptr) - 1):
        delivers_own = False
        for i in range(indptr[row], indptr[row + 1]):
            delivers_own |= codes[i] >= 0 and origin[codes[i]] == sources[row]
        for i in range(indptr[row], indptr[row + 1]):
            if codes[i] >= 0 or not delivers_own:
                here = place[codes[i] if codes[i] >= 0 else ~codes[i]]
                if low <= here < high:
                    position[here - low, row] = i - indptr[row]
    return position


@compiled
def _reach_back(
    position: IntArray, indptr: LongArray, deps: IntArray, low: int, reach: IntArray, early: LongArray
) -> None:
    """The window begins with row `low`; what is before it has no position at these nodes."""
    nodes = position.shape[1]
    for m in range(len(indptr) - 1):
        here, far = position[m], reach[m]
        far[:] = here
        for e in range(indptr[m], indptr[m + 1]):
            if deps[e] >= low:
                behind = reach[deps[e] - low]
                for j in range(nodes):
                    far[j] = max(far[j], behind[j])
        for j in range(nodes):
            early[j] += (here[j] >= 0) & (far[j] > here[j])


@compiled
def _reach_forward(
    position: NDArray[np.uint32],
    indptr: LongArray,
    deps: IntArray,
    low: int,
    reach: NDArray[np.uint32],
    late: LongArray,
) -> None:
    """`reach` comes as a copy of `position`; each message hands what it has on to its dependencies."""
    nodes = position.shape[1]
    for m in range(len(indptr) - 2, -1, -1):
        here, soon = position[m], reach[m]
        for e in range(indptr[m], indptr[m + 1]):
            if deps[e] >= low:
                behind = reach[deps[e] - low]
                for j in range(nodes):
                    behind[j] = min(behind[j], soon[j])
        for j in range(nodes):
            late[j] += (here[j] != _ABSENT) & (soon[j] < here[j])


@compiled
def _count_pairs(
    position: IntArray,
    indptr: LongArray,
    deps: IntArray,
    low: int,
    suspects: LongArray,
    early_row: LongArray,
    early_node: LongArray,
) -> int:
    """Pairs in the wrong order: x is late somewhere and m early there, so only these are looked at.

    64 suspects at a time: a pass marks, in a bit each, which of them happened before each message.
    """
    rows = len(indptr) - 1
    bit = np.zeros(rows, np.uint64)
    total = 0
    for start in range(0, len(suspects), 64):
        some = suspects[start : start + 64]
        past = np.zeros(rows, np.uint64)
        for b in range(len(some)):
            bit[some[b]] = np.uint64(1) << np.uint64(b)
        for m in range(rows):
            for e in range(indptr[m], indptr[m + 1]):
                if deps[e] >= low:
                    past[m] |= past[deps[e] - low] | bit[deps[e] - low]
        for v in range(len(early_row)):
            m, j = early_row[v], early_node[v]
            if past[m] != 0:
                for b in range(len(some)):
                    if past[m] >> np.uint64(b) & np.uint64(1) and position[some[b], j] > position[m, j]:
                        total += 1
        for b in range(len(some)):
            bit[some[b]] = 0
    return total
