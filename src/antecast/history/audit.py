"""The auditor: does a log keep causal order?

Theory of operation. For a node j let reach_j(x) be the largest position at j of any message in the
causal past of x, x included. Along a topological order it is the maximum of the position of x at j and
of reach_j(d) for the direct dependencies d of x. Message m came too early at j exactly when reach_j(m)
exceeds its position, for then, and only then, something of its past came later: the message at the
position that reach_j(m) names. A message that j never got has no position but it has a reach, so order
is carried across what was lost, which a test of direct dependencies alone would miss. The mirror pass,
smallest positions against the topological order, gives the messages that came too late. If nothing is
early then nothing is late, and it is skipped.

Nodes are independent. They are checked in blocks: a matrix of positions, a row per message and a column
per node of the block, so that the inner loop runs over neighbouring numbers. A block takes 8 bytes per
message and node, and its time is that of reading one row per dependency. Runs are independent too, and
a block looks only at the messages of its own.

`audit` does it all in one process. Everything it calls works on parts: `MessageIndex.read` on the
broadcasts, then for the rows of some nodes `read_histories`, `sketch`, `reduce` and `check_block`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.history.dependencies import Dependencies, cycle_error, direct_dependencies, topological_order
from antecast.history.histories import LIMIT, Clock, Histories, read_histories
from antecast.history.joints import with_joints
from antecast.history.messages import MessageIndex, Name
from antecast.history.rows import Events, IntArray, LongArray, rereadable
from antecast.history.verdict import Verdict
from antecast.history.violations import (
    Problem,
    Tallies,
    Tally,
    add_tallies,
    merge_violations,
    violation_schema,
    violation_table,
)
from antecast.history.witness import find_witness

MEMORY = 256 << 20
"""Bytes for the matrices of a block. More nodes in a block do not make it faster than this does."""

LANES = 16
"""Positions in a cache line. Blocks have whole lines where they can, and small runs share one."""

_ABSENT = np.uint32(0xFFFFFFFF)
"""No position. As a signed number it is -1, less than any position; as an unsigned one, more than any."""


@dataclass(frozen=True, eq=False)
class BlockCheck:
    """What the check of some nodes found."""

    tally: Tally
    violations: pa.Table
    runs: Tallies = field(default_factory=dict)
    """Early and late messages by run, if the log has runs."""


def audit(
    events: Events,
    *,
    clock: Clock = "local",
    pairs: bool = False,
    limit: int = LIMIT,
    memory: int = MEMORY,
) -> Verdict:
    """Judge a log: its broadcasts and deliveries say all.

    `clock="global"` says that times of different nodes compare, and checks that nothing is delivered before
    its broadcast. `pairs` counts every pair in the wrong order, which can take far longer than all
    the rest. `limit` bounds the violations of each kind that are listed; all are counted. `memory` bounds the
    matrices; besides, the log takes 12 bytes per event.

    Raises `BrokenLog` if the log contradicts itself.
    """
    batches = rereadable(events)
    index = MessageIndex.read(batches(), timed=clock == "global")
    reading = read_histories(batches(), index, clock=clock, limit=limit)
    histories = reading.histories
    direct = direct_dependencies(histories, index)
    matrix = Dependencies.gather([with_joints(direct, histories, index)])
    order, cycle = topological_order(matrix)
    if cycle:  # told by what nodes have seen, without joints
        raise cycle_error(topological_order(direct)[1], histories, index)
    tally, runs, tables = reading.tally, reading.runs, [reading.violations]
    for block in blocks(histories, index, memory):
        check = check_block(block, index, matrix, order, pairs=pairs, limit=limit)
        tally += check.tally
        runs = add_tallies(runs, check.runs) if check.runs else runs
        tables.append(check.violations)
    violations = merge_violations(tables, limit)
    return Verdict(
        messages=len(index),
        tally=tally,
        pairs=tally.pairs if pairs else None,
        violations=violations,
        unknown_examples=reading.unknown_examples,
        witness=find_witness(violations, histories, index),
        runs=runs,
    )


def block_width(messages: int, memory: int) -> int:
    """Nodes whose two matrices fit into so many bytes; at least one, and whole cache lines where possible."""
    width = max(1, memory // (8 * max(1, messages)))
    return width - width % LANES if width > LANES else width


def blocks(histories: Histories, index: MessageIndex, memory: int = MEMORY) -> Iterator[Histories]:
    """Cut histories so that the matrices of each block fit into so many bytes."""
    spans = [index.runs.get(name.run, (0, 0)) for name in histories.names]
    start = 0
    for stop in range(1, len(histories) + 1):
        if stop < len(histories):
            width, messages = stop + 1 - start, spans[stop][1] - spans[start][0]
            shared = spans[stop] != spans[start]
            if width <= block_width(messages, memory) and (width <= LANES or not shared):
                continue
        yield histories.block(start, stop)
        start = stop


def check_block(
    block: Histories,
    index: MessageIndex,
    matrix: Dependencies,
    order: IntArray,
    *,
    pairs: bool = False,
    limit: int = LIMIT,
) -> BlockCheck:
    """Early and late messages at some nodes, given the dependencies and the topological order of all messages."""
    spans = [index.runs[run] for run in {name.run for name in block.names} if run in index.runs]
    low, high = (min(span[0] for span in spans), max(span[1] for span in spans)) if spans else (0, 0)
    indptr, deps, place = matrix.between(low, high)
    order = matrix.renumbered(order[place], low, high)
    position = _positions(block.indptr, block.codes, low, low + len(order), block.sources, index.origin)
    reach = np.empty_like(position)
    early = np.zeros(len(block), np.int64)
    _reach_back(position, order, indptr, deps, reach, early)
    if not early.any():
        return BlockCheck(Tally(), violation_schema(index.types).empty_table())
    tables = [_list(block, index, "early", low, position, reach, early, limit)]
    own = _early_broadcasts(block, index, low, position, reach)
    wrong = 0
    if pairs:
        early_message, early_node = np.nonzero((position >= 0) & (reach > position))
    late = np.zeros(len(block), np.int64)
    unsigned, future = position.view(np.uint32), reach.view(np.uint32)
    np.copyto(future, unsigned)
    _reach_forward(unsigned, order, indptr, deps, future, late)
    tables.append(_list(block, index, "late", low, unsigned, future, late, limit))
    if pairs:
        is_late = ((unsigned != _ABSENT) & (future < unsigned)).any(axis=1)
        suspects = np.flatnonzero(is_late)
        wrong = _count_pairs(position, order, indptr, deps, suspects, early_message, early_node)
    tally = Tally(early=int(early.sum()), early_broadcasts=own, late=int(late.sum()), pairs=wrong)
    runs: Tallies = {}
    for row in np.flatnonzero(early + late).tolist() if index.types.run is not None else ():
        found = Tally(early=int(early[row]), late=int(late[row]))
        runs[block.names[row].run] = runs.get(block.names[row].run, Tally()) + found
    return BlockCheck(tally, merge_violations(tables, limit), runs)


def _early_broadcasts(block: Histories, index: MessageIndex, low: int, position: IntArray, reach: IntArray) -> int:
    """Early messages whose position is that of their broadcast, since their node delivers none of its own."""
    count = 0
    for row, source in enumerate(block.sources.tolist()):
        codes = block.codes[block.span(row)]
        if source < len(index.nodes) and not (index.origin[codes[codes >= 0]] == source).any():
            own = slice(int(index.offsets[source]) - low, int(index.offsets[source + 1]) - low)
            here = position[own, row]
            count += int(((here >= 0) & (reach[own, row] > here)).sum())
    return count


def _list(
    block: Histories,
    index: MessageIndex,
    problem: Problem,
    low: int,
    position: NDArray[np.integer],
    reach: NDArray[np.integer],
    counts: LongArray,
    limit: int,
) -> pa.Table:
    """The first violations by node and position; the cause is the event of the node that reach points to.

    Row 0 of the matrices is message `low`.
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
        columns.append((positions[at[found]], found + low, history[other[found]], positions[other[found]]))
    pos, message, cause, cause_pos = (np.concatenate(each) for each in zip(*columns, strict=True))
    return violation_table(index, problem, names, pos, message, cause, cause_pos)


@compiled
def _positions(
    indptr: LongArray, codes: IntArray, low: int, high: int, sources: IntArray, origin: IntArray
) -> IntArray:
    """Ranks of messages at nodes: of the first delivery, or of the broadcast at nodes that log no delivery of
    their own messages. A node that does has not delivered those whose delivery is not there. Joints have none."""
    position = np.full((high - low, len(indptr) - 1), -1, np.int32)
    for row in range(len(indptr) - 1):
        delivers_own = False
        for i in range(indptr[row], indptr[row + 1]):
            delivers_own |= codes[i] >= 0 and origin[codes[i]] == sources[row]
        for i in range(indptr[row], indptr[row + 1]):
            if codes[i] >= 0:
                position[codes[i] - low, row] = i - indptr[row]
            elif not delivers_own:
                position[~codes[i] - low, row] = i - indptr[row]
    return position


@compiled
def _reach_back(
    position: IntArray, order: IntArray, indptr: LongArray, deps: IntArray, reach: IntArray, early: LongArray
) -> None:
    nodes = position.shape[1]
    for k in range(len(order)):
        m = order[k]
        here, far = position[m], reach[m]
        far[:] = here
        for e in range(indptr[m], indptr[m + 1]):
            behind = reach[deps[e]]
            for j in range(nodes):
                far[j] = max(far[j], behind[j])
        for j in range(nodes):
            early[j] += (here[j] >= 0) & (far[j] > here[j])


@compiled
def _reach_forward(
    position: NDArray[np.uint32],
    order: IntArray,
    indptr: LongArray,
    deps: IntArray,
    reach: NDArray[np.uint32],
    late: LongArray,
) -> None:
    """`reach` comes as a copy of `position`; each message hands what it has on to its dependencies."""
    nodes = position.shape[1]
    for k in range(len(order) - 1, -1, -1):
        m = order[k]
        here, soon = position[m], reach[m]
        for e in range(indptr[m], indptr[m + 1]):
            behind = reach[deps[e]]
            for j in range(nodes):
                behind[j] = min(behind[j], soon[j])
        for j in range(nodes):
            late[j] += (here[j] != _ABSENT) & (soon[j] < here[j])


@compiled
def _count_pairs(
    position: IntArray,
    order: IntArray,
    indptr: LongArray,
    deps: IntArray,
    suspects: LongArray,
    early_message: LongArray,
    early_node: LongArray,
) -> int:
    """Pairs in the wrong order: x is late somewhere and m early there, so only these are looked at.

    64 suspects at a time: a pass marks, in a bit each, which of them happened before each message.
    """
    bit = np.zeros(len(order), np.uint64)
    total = 0
    for start in range(0, len(suspects), 64):
        some = suspects[start : start + 64]
        past = np.zeros(len(order), np.uint64)
        for b in range(len(some)):
            bit[some[b]] = np.uint64(1) << np.uint64(b)
        for k in range(len(order)):
            m = order[k]
            for e in range(indptr[m], indptr[m + 1]):
                past[m] |= past[deps[e]] | bit[deps[e]]
        for v in range(len(early_message)):
            m, j = early_message[v], early_node[v]
            if past[m] != 0:
                for b in range(len(some)):
                    if past[m] >> np.uint64(b) & np.uint64(1) and position[some[b], j] > position[m, j]:
                        total += 1
        for b in range(len(some)):
            bit[some[b]] = 0
    return total
