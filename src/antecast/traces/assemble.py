"""From rows in any order to the two tables: where contacts are joined and pieces of movement put in order.

Every reader of contacts hands its ups and downs (or the two ends of its intervals) to `join_contacts`, every
reader of positions its points to `join_points`; readers of commands drive `Tracks`. So the rules for nested,
touching, unsorted and unfinished rows are written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from antecast.traces.schema import CONTACTS, TRAJECTORIES, node_order
from antecast.traces.text import BoolArray, FloatArray, IntArray


def encode(*columns: pa.Array | pa.ChunkedArray) -> tuple[list[str], list[IntArray]]:
    """The names in several columns, in the order of nodes, and each column as indices of them."""
    texts = [column.cast(pa.large_string()) for column in columns]
    chunks = [chunk for text in texts for chunk in (text.chunks if isinstance(text, pa.ChunkedArray) else [text])]
    encoded = pa.chunked_array(chunks, pa.large_string()).combine_chunks().dictionary_encode()
    names: list[str] = encoded.dictionary.to_pylist()
    order = sorted(range(len(names)), key=lambda index: node_order(names[index]))
    rank = np.empty(len(names), np.int64)
    rank[order] = np.arange(len(names))
    codes = rank[np.asarray(encoded.indices)] if len(encoded) else np.empty(0, np.int64)
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return [names[index] for index in order], np.split(codes, ends)


def named(names: Sequence[str], *columns: IntArray) -> list[pa.Array]:
    """Columns of names from indices, sharing one dictionary that holds only names in use."""
    used, codes = np.unique(np.concatenate(columns), return_inverse=True)
    dictionary = pa.array([names[index] for index in used], pa.string())
    parts = np.split(codes.astype(np.int32), np.cumsum([len(column) for column in columns])[:-1])
    return [pa.DictionaryArray.from_arrays(pa.array(part), dictionary) for part in parts]


@dataclass(frozen=True)
class Joined:
    """What `join_contacts` met on the way."""

    nested: int
    """Ups of a pair that was up already."""
    stray: int
    """Downs of a pair that was not up, which are ignored."""
    unfinished: int
    """Contacts that no down ends, which last to the last time in the file."""
    instants: int
    """Contacts that end when they begin, which are kept as one nanosecond."""
    own: int
    """Rows of a node with itself, which are ignored."""


def join_contacts(a: pa.Array, b: pa.Array, t: IntArray, up: BoolArray) -> tuple[pa.Table, Joined]:
    """Contacts from ups and downs in any order.

    Ups are counted for each unordered pair: a contact lasts from the first up until as many downs have come.
    Rows of equal time count in the order given. Contacts of a pair that touch are one.
    """
    names, (first, second) = encode(a, b)
    last = int(t.max()) if len(t) else 0
    low, high = np.minimum(first, second), np.maximum(first, second)
    apart = low != high
    pair = (low * len(names) + high)[apart]
    order = np.lexsort((t[apart], pair))
    pair, t, up = pair[order], t[apart][order], up[apart][order]

    group = np.cumsum(np.diff(pair, prepend=-1) != 0)
    before = _depth_before(group, up)
    nested, stray = up & (before > 0), ~up & (before == 0)
    begins = np.flatnonzero(up & (before == 0))
    ends = np.flatnonzero(~up & (before == 1))
    match = np.searchsorted(ends, begins)
    place = np.append(ends, len(t))[match]
    finished = np.append(group, 0)[place] == group[begins]
    start, end, pair = t[begins], np.where(finished, np.append(t, 0)[place], last), pair[begins]

    fresh = np.ones(len(start), bool)
    fresh[1:] = (pair[1:] != pair[:-1]) | (start[1:] > end[:-1])
    start, end, pair = start[fresh], end[np.roll(fresh, -1)], pair[fresh]
    instant = start == end
    end = end + instant
    low, high = np.divmod(pair, max(len(names), 1))
    order = np.lexsort((high, low, end, start))
    columns = [*named(names, low[order], high[order]), pa.array(start[order]), pa.array(end[order])]
    counts = (nested, stray, ~finished, instant, ~apart)
    return pa.Table.from_arrays(columns, schema=CONTACTS), Joined(*(int(each.sum()) for each in counts))


def _depth_before(group: IntArray, up: BoolArray) -> IntArray:
    """How often its pair is up before each row; a down of a pair that is not up leaves it at zero."""
    step = np.where(up, 1, -1)
    height = np.cumsum(step)
    first = np.diff(group, prepend=0) != 0
    starts = np.flatnonzero(first)
    height -= np.repeat((height - step)[starts], np.diff(np.append(starts, len(group))))
    # One running minimum serves all groups: each is sunk below whatever came before it.
    sunk = group * (2 * len(group) + 2)
    floor = np.minimum(np.minimum.accumulate(height - sunk) + sunk, 0)
    return np.where(first, 0, np.roll(height - floor, 1))


def join_intervals(a: pa.Array, b: pa.Array, start: IntArray, end: IntArray) -> tuple[pa.Table, Joined]:
    """Contacts from intervals in any order; those of a pair that overlap or touch are one."""
    twice = [pa.concat_arrays([column.cast(pa.large_string())] * 2) for column in (a, b)]
    up = np.repeat([True, False], len(start))
    table, joined = join_contacts(twice[0], twice[1], np.concatenate([start, end]), up)
    return table, replace(joined, own=joined.own // 2)  # an interval is two rows there


def piece_table(
    names: Sequence[str],
    node: IntArray,
    starts: tuple[IntArray, FloatArray, FloatArray],
    ends: tuple[IntArray, FloatArray, FloatArray],
) -> pa.Table:
    """Trajectories, ordered by node and time, from pieces (t, x, y) to (t, x, y); empty ones are dropped."""
    (t0, x0, y0), (t1, x1, y1) = starts, ends
    lasting = np.flatnonzero(t1 > t0)
    order = lasting[np.lexsort((t0[lasting], node[lasting]))]
    values = [pa.array(column[order]) for column in (t0, x0, y0, t1, x1, y1)]
    return pa.Table.from_arrays([*named(names, node[order]), *values], schema=TRAJECTORIES)


def join_points(
    names: Sequence[str], node: IntArray, t: IntArray, x: FloatArray, y: FloatArray, *, until: int
) -> tuple[pa.Table, int]:
    """Trajectories from places in any order, straight from each to the node's next.

    A node that has only one place stands there until the trace ends; also returns how many do. Two places at
    one time are a jump.
    """
    order = np.lexsort((t, node))
    node, t, x, y = node[order], t[order], x[order], y[order]
    alone = np.bincount(node, minlength=len(names))[node] == 1 if len(node) else np.empty(0, bool)
    same = np.flatnonzero(node[1:] == node[:-1])
    one = np.flatnonzero(alone)
    begin, finish = np.concatenate([same, one]), np.concatenate([same + 1, one])
    end = np.concatenate([t[same + 1], np.full(len(one), until)])
    table = piece_table(names, node[begin], (t[begin], x[begin], y[begin]), (end, x[finish], y[finish]))
    return table, len(one)


class Tracks:
    """Follows nodes that are placed, sent somewhere and taken away, and keeps the pieces they move in.

    Calls for a node must come in the order of time.
    """

    def __init__(self) -> None:
        self._at: dict[int, tuple[int, float, float]] = {}
        self._going: dict[int, tuple[int, float, float]] = {}
        self._pieces: list[tuple[int, int, float, float, int, float, float]] = []

    def __contains__(self, node: int) -> bool:
        return node in self._at

    def place(self, node: int, t: int, x: float, y: float) -> None:
        """Put a node somewhere: it appears, or jumps."""
        self.position(node, t)
        self._at[node] = (t, x, y)

    def go(self, node: int, x: float, y: float, arrival: int) -> None:
        """Send a node from where it was last asked for to a target."""
        self._going[node] = (max(arrival, self._at[node][0]), x, y)

    def stop(self, node: int) -> None:
        self._going.pop(node, None)

    def position(self, node: int, t: int) -> tuple[float, float] | None:
        """Let a node's time pass until `t`; where it is then, if it is anywhere."""
        if node not in self._at:
            return None
        t0, x0, y0 = self._at[node]
        t = max(t, t0)  # it may be known only from later on
        if node in self._going:
            t1, x1, y1 = self._going[node]
            if t1 <= t:
                del self._going[node]
            else:
                part = (t - t0) / (t1 - t0)
                t1, x1, y1 = t, x0 + part * (x1 - x0), y0 + part * (y1 - y0)
            self._pieces.append((node, t0, x0, y0, t1, x1, y1))
            t0, x0, y0 = t1, x1, y1
        if t0 < t:
            self._pieces.append((node, t0, x0, y0, t, x0, y0))
        self._at[node] = (t, x0, y0)
        return x0, y0

    def remove(self, node: int, t: int) -> None:
        self.position(node, t)
        self._at.pop(node, None)
        self._going.pop(node, None)

    def arrive(self) -> None:
        """Let every node that is on its way arrive, and end there."""
        for node, (t, _, _) in list(self._going.items()):
            self.position(node, t)

    def table(self, names: Sequence[str]) -> pa.Table:
        rows = np.array(self._pieces, dtype="i8,i8,f8,f8,i8,f8,f8")
        node, t0, x0, y0, t1, x1, y1 = (rows[field] for field in rows.dtype.names or ())
        return piece_table(names, node, (t0, x0, y0), (t1, x1, y1))


def counted(counts: Iterable[tuple[int, str, str]]) -> tuple[str, ...]:
    """Notes from counts with their singular and plural; none for a count of zero.

    >>> counted([(1, "stray down ignored", "stray downs ignored"), (0, "gap", "gaps")])
    ('1 stray down ignored',)
    """
    return tuple(f"{count:,} {one if count == 1 else many}" for count, one, many in counts if count)


def joining_notes(joined: Joined, *, events: bool) -> tuple[str, ...]:
    """What a user should know about how contacts were joined."""
    instants = "contact without length kept as 1 ns", "contacts without length kept as 1 ns"
    own = "row of a node with itself ignored", "rows of a node with itself ignored"
    found = [(joined.instants, *instants), (joined.own, *own)]
    if events:
        late = "contact still up at the end, ended there", "contacts still up at the end, ended there"
        found = [
            (joined.nested, "nested up joined", "nested ups joined"),
            (joined.stray, "down without an up ignored", "downs without an up ignored"),
            (joined.unfinished, *late),
            *found,
        ]
    return counted(found)
