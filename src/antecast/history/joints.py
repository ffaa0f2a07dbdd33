"""Joints: what several messages depend on alike, said once.

Where all of N nodes broadcast in rounds, each message of a round depends on all N of the round before, and no
reduction helps, since these are concurrent: the matrix of dependencies is as large as the log. But what the
messages of a round depend on is nearly the same. A joint is a vertex of its own between the two rounds: it
depends on the N messages, and the next N messages depend on it.

Theory of operation. Let V(m) be what the origin of m had seen when it broadcast m, as a cut: the newest message
of each source. For a block of messages, their *floor* is the least of their V for each source. Every message of
the block depends on all that is below the floor, so the edges of a joint with the floor as its dependencies,
and from the joint to each message of the block, are all true. In turn a message keeps only the dependencies
above the floor; those that it gives up lie behind the joint, because a source's message depends on the source's
earlier ones. So the closure of the matrix is the same. A joint whose floor is nowhere below that of the joint
before depends on that joint and on what is new.

Which messages make a block decides only what is saved. They are taken in the order of how much their origins
had seen, and a block ends when its members would keep more dependencies of their own than another joint costs.

Joints are made of the messages of some nodes at a time, so nodes can be treated in parallel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecast.core.compiled import compiled
from antecast.history.dependencies import Dependencies
from antecast.history.histories import Histories
from antecast.history.messages import MessageIndex
from antecast.history.rows import IntArray, LongArray

FEW = 8
"""Dependencies per message that are not worth a joint."""

NARROW = 4
"""Joints are not tried in runs of at most so many sources, times `FEW`: a message has no more dependencies."""

SPARSE = 64
"""Joints are not tried where a message depends on fewer than one source in so many: cuts are hardly alike then."""

_CUT_BYTES = 128 << 20
"""For the cuts of the nodes that are treated together."""


def with_joints(part: Dependencies, histories: Histories, index: MessageIndex, *, few: int = FEW) -> Dependencies:
    """The same dependencies of the messages of some nodes, with joints where they save any.

    `part` has a row for each broadcast in the histories, in their order.
    """
    until = np.flatnonzero(histories.codes < 0)
    node = np.searchsorted(histories.indptr, until, side="right") - 1
    since = np.maximum(histories.indptr[node], np.concatenate(([0], until[:-1])))
    assert np.array_equal(part.messages, ~histories.codes[until])
    starts = np.concatenate((np.flatnonzero(np.diff(node, prepend=-1)), [len(node)]))
    lengths = np.diff(part.indptr)
    nothing = (np.empty(0, np.int64), np.empty(0, np.int32))
    rows, joints, anchors = [nothing], [nothing], [np.empty(0, np.int32)]
    is_wide = _widths(histories, index)[node[starts[:-1]]] > NARROW * few
    wide = np.append(np.flatnonzero(is_wide), len(is_wide))
    first = 0
    while first < len(starts) - 1:
        if not is_wide[first]:
            last = int(wide[np.searchsorted(wide, first)])
            own = slice(int(starts[first]), int(starts[last]))
            rows.append((lengths[own], part.deps[part.indptr[own.start] : part.indptr[own.stop]]))
            first = last
            continue
        low, high = index.runs[histories.names[node[starts[first]]].run]
        lowest, width = int(index.origin[low]), int(index.origin[high - 1]) + 1 - int(index.origin[low])
        last = first + 1
        while last < len(starts) - 1 and last - first < max(1, _CUT_BYTES // (4 * width)):
            if not low <= part.messages[starts[last]] < high:
                break
            last += 1
        own = slice(int(starts[first]), int(starts[last]))
        deps = part.deps[part.indptr[own.start] : part.indptr[own.stop]]
        if len(deps) > few * len(node[own]) and len(deps) * SPARSE > width * len(node[own]):
            cuts = _Cuts(histories.codes, since[own], until[own], node[own] - node[own.start])
            seen = _progress(*cuts, index.origin, lowest, index.offsets[lowest : lowest + width])
            order, done = np.argsort(seen, kind="stable"), sum(map(len, anchors))
            made = _make_joints(order, *cuts, lengths[own], deps, index.origin, lowest, width, done)
            rows.append(made[:2])
            joints.append(made[2:])
            anchors.append(np.full(len(made[2]), low, np.int32))
        else:
            rows.append((lengths[own], deps))
        first = last
    kept, edges = (np.concatenate(each) for each in zip(*rows, *joints, strict=True))
    indptr = np.concatenate(([0], np.cumsum(kept)))
    return Dependencies(part.messages, indptr, edges, np.concatenate(anchors))


def _widths(histories: Histories, index: MessageIndex) -> LongArray:
    """How many sources the run of each node has."""
    names = histories.names
    found = np.zeros(len(names.runs), np.int64)
    for run in np.unique(names.run).tolist():
        low, high = index.runs.get(names.runs[run], (0, 0))
        found[run] = index.origin[high - 1] + 1 - index.origin[low] if high > low else 0
    return found[names.run]


class _Cuts(NamedTuple):
    """What the cut of each row is made of: its node saw `codes[since:until]` after the row before."""

    codes: IntArray
    since: LongArray
    until: LongArray
    node: LongArray


@compiled
def _progress(
    codes: IntArray,
    since: LongArray,
    until: LongArray,
    node: LongArray,
    origin: IntArray,
    lowest: int,
    first: LongArray,
) -> LongArray:
    """How many messages each origin had seen when it broadcast; `first` has the first message of each source."""
    newest = first - 1
    total = 0
    progress = np.empty(len(node), np.int64)
    for row in range(len(node)):
        if row and node[row] != node[row - 1]:
            newest = first - 1
            total = 0
        for i in range(since[row], until[row]):
            message = codes[i] if codes[i] >= 0 else ~codes[i]
            source = origin[message] - lowest
            if message > newest[source]:
                total += message - newest[source]
                newest[source] = message
        progress[row] = total
    return progress


@compiled
def _make_joints(
    order: LongArray,
    codes: IntArray,
    since: LongArray,
    until: LongArray,
    node: LongArray,
    lengths: LongArray,
    deps: IntArray,
    origin: IntArray,
    lowest: int,
    width: int,
    done: int,
) -> tuple[LongArray, IntArray, LongArray, IntArray]:
    """Lengths and dependencies of the rows, then of the joints; a dependency on joint k is ~k.

    `order` is that in which rows are taken, `width` the number of sources, `done` that of joints made before.
    """
    sources = origin[deps] - lowest
    starts = np.cumsum(lengths) - lengths
    cuts = np.full((node.max() + 1, width), -1, np.int32)
    floor = np.empty(width, np.int32)
    before = np.full(width, -1, np.int32)  # the floor of the last joint
    joint_of = np.full(len(node), -1, np.int64)
    keep = np.ones(len(deps), np.bool_)
    joint_lengths = np.empty(len(node), np.int64)
    joint_deps = np.empty(max(16, len(deps) // 4), np.int32)
    joints = 0
    used = 0
    opened = 0
    cost = 0
    for k in range(len(order) + 1):
        closing = k == len(order)
        extra = 0
        if not closing:
            row = order[k]
            cut = cuts[node[row]]
            for i in range(since[row], until[row]):
                message = codes[i] if codes[i] >= 0 else ~codes[i]
                cut[origin[message] - lowest] = max(cut[origin[message] - lowest], message)
            if k > opened:
                dropped = 0
                for s in range(width):
                    dropped += cut[s] < floor[s]
                residual = 0
                for e in range(starts[row], starts[row] + lengths[row]):
                    residual += deps[e] > floor[sources[e]]
                extra = dropped * (k - opened) + residual
                closing = cost + extra > width
        if closing and k > opened:
            # A joint for order[opened:k], if it saves any.
            new = 0
            chained = joints > 0
            for s in range(width):
                chained &= floor[s] >= before[s]
            for s in range(width):
                new += floor[s] >= 0 and (not chained or floor[s] > before[s])
            saved = 0
            for i in range(opened, k):
                row_i = order[i]
                for e in range(starts[row_i], starts[row_i] + lengths[row_i]):
                    saved += deps[e] <= floor[sources[e]]
            if saved > new + 1 + (k - opened):
                if used + new + 1 > len(joint_deps):
                    larger = np.empty(2 * len(joint_deps) + new + 1, np.int32)
                    larger[:used] = joint_deps[:used]
                    joint_deps = larger
                before_it = used
                if chained:
                    joint_deps[used] = ~(done + joints - 1)
                    used += 1
                for s in range(width):
                    if floor[s] >= 0 and (not chained or floor[s] > before[s]):
                        joint_deps[used] = floor[s]
                        used += 1
                joint_lengths[joints] = used - before_it
                for i in range(opened, k):
                    row_i = order[i]
                    joint_of[row_i] = done + joints
                    for e in range(starts[row_i], starts[row_i] + lengths[row_i]):
                        keep[e] = deps[e] > floor[sources[e]]
                before[:] = floor
                joints += 1
            opened = k
        if k < len(order):
            cut = cuts[node[order[k]]]
            if k == opened:
                floor[:] = cut
                cost = 0
            else:
                for s in range(width):
                    floor[s] = min(floor[s], cut[s])
                cost += extra
    kept = np.empty(len(node), np.int64)
    out = np.empty(keep.sum() + len(node), np.int32)
    end = 0
    for row in range(len(node)):
        start = end
        if joint_of[row] >= 0:
            out[end] = ~joint_of[row]
            end += 1
        for e in range(starts[row], starts[row] + lengths[row]):
            if keep[e]:
                out[end] = deps[e]
                end += 1
        kept[row] = end - start
    return kept, out[:end].copy(), joint_lengths[:joints].copy(), joint_deps[:used].copy()
