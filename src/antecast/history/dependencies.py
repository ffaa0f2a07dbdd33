"""Direct dependencies: a sparse matrix whose transitive closure is happened-before.

Theory of operation. m → m' when m was broadcast or delivered at the origin of m' before m' was
broadcast. Taken literally, a message depends on everything its origin ever saw. A few of these say it
all, since what came earlier is behind them. They are found a node at a time, in rounds, so that nodes
can be walked in parallel; between rounds their results are gathered into one matrix.

1. *Sketch.* A message depends on its origin's previous broadcast and on what its origin delivered
   since. Only the last few of these are kept: the most recent ones cover most of the others.
2. *Reduce.* Walk the history with a set S of messages. A delivery of x takes out of S what the
   dependencies of x (from the round before) cover, then puts x in; of the messages of one source only
   the one broadcast last stays. A broadcast of m records S as its dependencies and leaves S = {m}.

Nothing is lost. All edges are true: S holds only messages that the node has seen. When d leaves S on
account of x, d happened before x and x is in S; should x leave later, then on account of something
that follows x. So whatever the node has seen is in S or happened before a member of S, and by
induction along happened-before the closure of the matrix is all of it. The argument needs no
causal delivery, and it keeps cycles: if happened-before has one, then each message on it has a dependency
on it, because what takes the place of a message between two others of a cycle is on a cycle with them.

Nothing is left over in a log that keeps causal order and in which nodes deliver the whole past of what
they deliver. Any matrix with the right closure contains the transitive reduction R, hence so does the first
reduction. Let e be in S when m is broadcast, and e → y → m for some y. There is such a y with e in
R(y), and the node has seen y after e. If it was its own broadcast, S was emptied of e; if it was a
delivery, e was among the dependencies of y and taken out. So a second round leaves exactly R(m).
Elsewhere (losses, violations) some edges may be superfluous, which costs time and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from antecast.core.compiled import compiled
from antecast.history.histories import Histories
from antecast.history.messages import MessageIndex
from antecast.history.rows import BrokenLog, IntArray, LongArray

SKETCH_WIDTH = 8
"""Deliveries before a broadcast that its sketch keeps. More only speeds up the first reduction."""

WHOLE_WIDTH = 16
"""The same where no broadcast has more: then the sketch is all there is, and nothing is left to reduce."""

ROUNDS = 2
"""Reductions: the second is exact where the log is causal (see above)."""


MOST_ROWS = np.iinfo(np.int32).max
"""Messages, and joints between them, have numbers of 32 bits."""

ENOUGH = 32
"""Dependencies per message above which a second round is worth a pass over the log; checking is cheaper."""


@dataclass(frozen=True, eq=False)
class Dependencies:
    """Rows of the matrix: row i depends on `deps[indptr[i]:indptr[i + 1]]`.

    Rows are those of `messages`, then those of joints (`antecast.history.joints`), if there are any. Where the
    dependencies of all messages are gathered, row m is message m, and joints have the numbers that follow. In the
    part of some nodes a dependency on the part's joint k is ~k.
    """

    messages: IntArray
    indptr: LongArray
    deps: IntArray
    joints: IntArray = field(default_factory=lambda: np.empty(0, np.int32))
    """The first message of each joint's run, in ascending order once gathered."""
    cut: bool = False
    """Whether a sketch has left out something that a message depends on."""

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def of(self, row: int) -> IntArray:
        return self.deps[self.indptr[row] : self.indptr[row + 1]]

    @classmethod
    def gather(cls, parts: Sequence[Dependencies]) -> Dependencies:
        """The rows of all parts by message, then the joints by run."""
        messages = np.concatenate([np.empty(0, np.int32), *(part.messages for part in parts)])
        joints = np.concatenate([np.empty(0, np.int32), *(part.joints for part in parts)])
        if len(messages) + len(joints) > MOST_ROWS:
            raise BrokenLog(f"{len(messages):,} messages and {len(joints):,} joints are more than {MOST_ROWS:,}")
        by_run = np.argsort(joints, kind="stable")
        number = np.empty(len(joints), np.int32)
        number[by_run] = len(messages) + np.arange(len(joints))
        place = _places(messages)
        indptr = np.zeros(len(messages) + len(joints) + 1, np.int64)
        rows, first, done = [], 0, 0
        for part in parts:
            own = place[first : first + len(part.messages)], number[done : done + len(part.joints)]
            rows.append(np.concatenate(own))
            indptr[rows[-1] + 1] = np.diff(part.indptr)
            first, done = first + len(part.messages), done + len(part.joints)
        np.cumsum(indptr, out=indptr)
        deps = np.empty(indptr[-1], np.int32)
        done = 0
        for part, own_rows in zip(parts, rows, strict=True):
            _put_rows(own_rows, part.indptr, part.deps, number[done : done + len(part.joints)], indptr, deps)
            done += len(part.joints)
        gathered = np.empty_like(messages)
        gathered[place] = messages
        return cls(gathered, indptr, deps, joints[by_run], any(part.cut for part in parts))


@dataclass(frozen=True, eq=False)
class Ordered:
    """The same matrix with its rows in topological order: row k depends on rows before k only."""

    indptr: LongArray
    deps: IntArray
    place: IntArray
    """The row of each message, then that of each joint."""
    messages: int
    """How many messages there are."""

    @classmethod
    def of(cls, matrix: Dependencies, order: IntArray) -> Ordered:
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        indptr = np.concatenate(([0], np.cumsum(np.diff(matrix.indptr)[order])))
        return cls(indptr, _rows_in_order(order, place, matrix.indptr, matrix.deps), place, len(matrix.messages))

    @cached_property
    def row_of(self) -> IntArray:
        """The message of each row; numbers past those of messages are joints."""
        found = np.empty(len(self.place), np.int32)
        found[self.place] = np.arange(len(self.place), dtype=np.int32)
        return found


def _places(messages: IntArray) -> IntArray:
    """Where each of some messages stands among them; all messages of a log have their own numbers for that."""
    if len(messages) and messages.max() == len(messages) - 1:
        return messages
    place = np.empty(len(messages), np.int32)
    place[np.argsort(messages)] = np.arange(len(messages), dtype=np.int32)
    return place


def direct_dependencies(histories: Histories, index: MessageIndex) -> Dependencies:
    """All rounds in one process, for the histories of all nodes."""
    matrix = Dependencies.gather([sketch(histories, index)])
    for _ in range(ROUNDS):
        matrix = Dependencies.gather([reduce(histories, index, matrix)])
    return matrix


def sketch(histories: Histories, index: MessageIndex, *, width: int = SKETCH_WIDTH) -> Dependencies:
    """First round, for the messages of some nodes. Memory: 4 (width + 1) bytes per message.

    Where nothing was left out (`Dependencies.cut`), the closure is that of happened-before already.
    """
    messages = _own_messages(histories, index)
    own = histories.indptr, histories.sources, histories.codes
    lengths, deps, cut = _sketch(*own, index.offsets, index.origin, len(messages), max(width, WHOLE_WIDTH))
    if cut:
        lengths, deps, cut = _sketch(*own, index.offsets, index.origin, len(messages), width)
    return Dependencies(messages, np.concatenate(([0], np.cumsum(lengths))), deps, cut=cut)


def reduce(histories: Histories, index: MessageIndex, matrix: Dependencies) -> Dependencies:
    """One more round, for the messages of some nodes, given the gathered result of the one before."""
    messages = _own_messages(histories, index)
    lengths, deps = _reduce(
        histories.indptr,
        histories.sources,
        histories.codes,
        len(index.nodes),
        index.origin,
        matrix.indptr,
        matrix.deps,
        index.origin[matrix.deps],
        len(messages),
    )
    return Dependencies(messages, np.concatenate(([0], np.cumsum(lengths))), deps)


def topological_order(matrix: Dependencies, index: MessageIndex | None = None) -> tuple[IntArray, list[int]]:
    """All rows, each after its dependencies, and an empty list; or else a cycle, from cause to effect.

    Runs stand one after the other, as their messages are numbered. Given their index, the messages of a run stand
    by how many others they come after, which is close to the order in which nodes deliver them; without it, those
    that follow from one message stand together.
    """
    rows = np.arange(len(matrix) + 1)
    if index is not None:
        firsts = np.array([first for first, _ in index.runs.values()], np.int64)
        rows = np.concatenate((np.sort(firsts), rows[len(matrix.messages) :]))
    order, waiting = _kahn(matrix.indptr, matrix.deps, rows)
    if len(order) == len(matrix):
        return order, []
    # What could not be placed waits for something that could not be placed either: walk back until
    # the walk meets itself.
    step = int(np.flatnonzero(waiting)[0])
    walk: dict[int, int] = {}
    while step not in walk:
        walk[step] = len(walk)
        deps = matrix.of(step)
        step = int(deps[np.flatnonzero(waiting[deps])[0]])
    return order, list(walk)[walk[step] :][::-1]


def cycle_error(cycle: list[int], histories: Histories, index: MessageIndex, *, most: int = 8) -> BrokenLog:
    """The error for a cycle, in words; the histories of the origins of its first `most` messages suffice."""
    rows = {int(source): row for row, source in enumerate(histories.sources)}
    steps = []
    for before, after in zip([cycle[-1], *cycle], cycle[:most], strict=False):
        row = rows[int(index.origin[after])]
        rank = np.flatnonzero(histories.messages(row) == before)[0]
        pos = histories.pos[histories.span(row)][rank]
        steps.append(
            f"node {histories.names[row].node} had {index.name(before)} at position {pos} "
            f"before it broadcast {index.name(after)} at position {index.pos[after]}"
        )
    if len(cycle) > most:
        steps.append(f"and {len(cycle) - most} steps more")
    first = cycle[0]
    run, origin = index.nodes.names[index.origin[first]]
    return BrokenLog(
        f"happened-before has a cycle of {len(cycle)} messages: {'; '.join(steps)}",
        run=run,
        node=origin,
        pos=int(index.pos[first]),
        **index.keys(first),
    )


def _own_messages(histories: Histories, index: MessageIndex) -> IntArray:
    """The messages of these nodes, in the order in which a walk of the histories meets their broadcasts."""
    sources = histories.sources[histories.sources < len(index.nodes)]
    lengths = index.offsets[sources + 1] - index.offsets[sources]
    before = np.cumsum(lengths) - lengths
    own = np.repeat(index.offsets[sources] - before, lengths) + np.arange(int(lengths.sum()))
    return own.astype(np.int32)


@compiled
def _sketch(
    indptr: LongArray,
    sources: IntArray,
    codes: IntArray,
    offsets: LongArray,
    origin: IntArray,
    messages: int,
    width: int,
) -> tuple[LongArray, IntArray, bool]:
    lengths = np.zeros(messages, np.int64)
    deps = np.empty(messages * (width + 1), np.int32)
    row = 0
    end = 0
    cut = False
    for node in range(len(sources)):
        for i in range(indptr[node], indptr[node + 1]):
            if codes[i] >= 0:
                continue
            start = end
            k = i - 1
            while k >= indptr[node] and codes[k] >= 0:
                if origin[codes[k]] != sources[node]:  # its own messages are behind its last broadcast
                    if end - start == width:
                        cut = True
                        if width == WHOLE_WIDTH:
                            return lengths, deps[:0].copy(), cut
                        break
                    deps[end] = codes[k]
                    end += 1
                k -= 1
            if ~codes[i] > offsets[sources[node]]:
                deps[end] = ~codes[i] - 1
                end += 1
            lengths[row] = end - start
            row += 1
    return lengths, deps[:end].copy(), cut


@compiled
def _reduce(
    indptr: LongArray,
    sources: IntArray,
    codes: IntArray,
    source_count: int,
    origin: IntArray,
    old_indptr: LongArray,
    old_deps: IntArray,
    old_sources: IntArray,
    messages: int,
) -> tuple[LongArray, IntArray]:
    """S is `newest`: the member of S from each source, or -1; `touched` lists the sources to look at."""
    lengths = np.zeros(messages, np.int64)
    deps = np.empty(4 * messages + source_count, np.int32)
    newest = np.full(source_count, -1, np.int32)
    touched = np.empty(source_count, np.int32)
    listed = np.zeros(source_count, np.bool_)
    count = 0
    row = 0
    end = 0
    for node in range(len(sources)):
        for k in range(count):
            newest[touched[k]] = -1
            listed[touched[k]] = False
        count = 0
        for i in range(indptr[node], indptr[node + 1]):
            broadcast = codes[i] < 0
            message = ~codes[i] if broadcast else codes[i]
            source = origin[message]
            if broadcast:
                if end + count > len(deps):
                    larger = np.empty(2 * len(deps) + count, np.int32)
                    larger[:end] = deps[:end]
                    deps = larger
                start = end
                for k in range(count):
                    if newest[touched[k]] >= 0:
                        deps[end] = newest[touched[k]]
                        end += 1
                    newest[touched[k]] = -1
                    listed[touched[k]] = False
                count = 0
                lengths[row] = end - start
                row += 1
            elif source == sources[node]:
                continue
            else:
                for e in range(old_indptr[message], old_indptr[message + 1]):
                    # Older messages of the same source are covered too; they have smaller numbers.
                    # Written without a branch, since no processor could predict it.
                    held = newest[old_sources[e]]
                    newest[old_sources[e]] = -1 if held <= old_deps[e] else held
            if newest[source] < message:
                newest[source] = message
            if not listed[source]:
                listed[source] = True
                touched[count] = source
                count += 1
    return lengths, deps[:end].copy()


@compiled
def _put_rows(
    rows: IntArray, indptr: LongArray, deps: IntArray, joints: IntArray, whole_indptr: LongArray, whole: IntArray
) -> None:
    """Copy the rows of a part to where they belong; `joints` has the rows of its joints in the whole."""
    for k in range(len(rows)):
        place = whole_indptr[rows[k]]
        for e in range(indptr[k], indptr[k + 1]):
            whole[place] = deps[e] if deps[e] >= 0 else joints[~deps[e]]
            place += 1


@compiled
def _rows_in_order(order: IntArray, place: IntArray, indptr: LongArray, deps: IntArray) -> IntArray:
    moved = np.empty(len(deps), np.int32)
    end = 0
    for k in range(len(order)):
        for e in range(indptr[order[k]], indptr[order[k] + 1]):
            moved[end] = place[deps[e]]
            end += 1
    return moved


@compiled
def _kahn(indptr: LongArray, deps: IntArray, bounds: LongArray) -> tuple[IntArray, IntArray]:
    """The messages that can be placed, in order, and for each message how many dependencies stay unplaced.

    Rows from one of the bounds to the next, and all that follows from these alone, stand together.
    """
    size = len(indptr) - 1
    waiting = np.empty(size, np.int32)
    starts = np.zeros(size + 1, np.int64)
    for m in range(size):
        waiting[m] = indptr[m + 1] - indptr[m]
        for e in range(indptr[m], indptr[m + 1]):
            starts[deps[e] + 1] += 1
    for m in range(size):
        starts[m + 1] += starts[m]
    cursor = starts[:-1].copy()
    followers = np.empty(len(deps), np.int32)
    for m in range(size):
        for e in range(indptr[m], indptr[m + 1]):
            followers[cursor[deps[e]]] = m
            cursor[deps[e]] += 1
    order = np.empty(size, np.int32)
    placed = 0
    done = 0
    for k in range(len(bounds) - 1):
        for root in range(bounds[k], bounds[k + 1]):
            if indptr[root] == indptr[root + 1]:
                order[placed] = root
                placed += 1
        while done < placed:
            m = order[done]
            done += 1
            for e in range(starts[m], starts[m + 1]):
                waiting[followers[e]] -= 1
                if waiting[followers[e]] == 0:
                    order[placed] = followers[e]
                    placed += 1
    return order[:placed], waiting
