"""What the tasks of contact detection do: Arrow batches in, parcels out. No Spark in here.

A parcel is a row with many segments or intervals in it, as the bytes of a NumPy array. To Spark a row costs the
same whatever is in it, so packed by the thousand they cost next to nothing to shuffle. Nodes are numbers, in
the order of their names, until the last task puts the names back.

    Measure   rows of trajectories     -> what a plan needs to know, and the names of the nodes
    Send      rows of trajectories     -> segments, to every part that they matter to
    Search    segments of some parts   -> contacts, to the range of time in which they start; those that may go on
                                          in another part, to the bucket of their pair
    Join      intervals of some pairs  -> contacts, to their range; whole ones pass
    Finish    contacts of a range      -> rows, sorted
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecast.spark.batching import groups, settle_in
from antecast.traces.contact_detection import (
    QUANTILES,
    Plan,
    Segments,
    Survey,
    place,
    read_motion,
    search_part,
)
from antecast.traces.contact_kernels import Longs, join
from antecast.traces.schema import TRAJECTORIES, node_order

PARCELS = "part int, body binary"
"""The schema of parcels, for Spark."""

Batches: TypeAlias = Iterable[pa.RecordBatch]

_SCHEMA = pa.schema([("part", pa.int32()), ("body", pa.binary())])

_MOTION = [("t0", "i8"), ("x0", "f8"), ("y0", "f8"), ("t1", "i8"), ("x1", "f8"), ("y1", "f8")]
_SEGMENT = np.dtype([("slab", "i4"), ("bx", "i4"), ("by", "i4"), ("node", "i4"), *_MOTION])
"""Blocks fit: no coordinate is more than 10⁸ cells away."""
_INTERVAL = np.dtype([("a", "i4"), ("b", "i4"), ("start", "i8"), ("end", "i8")])

_READ_ROWS = 1 << 18
"""Segments that are placed together; with fewer, the cost of a batch shows."""

_PARCEL_BYTES = 1 << 20
"""The most of a parcel: the JVM handles many of these better than a few large ones."""

_SAMPLE = 1 << 13
"""Segments of a task that stand for all of its segments where a plan is made."""

_SHOWN_ROWS = 1 << 16
"""Contacts per batch of the result."""


@dataclass
class Measured:
    """What some tasks know of a trace."""

    segments: int = 0
    travelled: float = 0.0
    lasted: float = 0.0
    furthest: float = 0.0
    names: set[str] = field(default_factory=set)
    sample: list[tuple[int, NDArray[np.float64]]] = field(default_factory=list)
    """Some segments, as rows of t0, x0 and y0, and how many segments each of them stands for."""
    problem: str | None = None

    def add(self, other: Measured) -> None:
        self.segments += other.segments
        self.travelled += other.travelled
        self.lasted += other.lasted
        self.furthest = max(self.furthest, other.furthest)
        self.names |= other.names
        self.sample += other.sample
        self.problem = min(filter(None, (self.problem, other.problem)), default=None)

    def survey(self) -> Survey:
        """What a plan needs to know; quantiles are those of the sample."""
        if not self.segments:
            return Survey(0, 0.0, 0.0, 0.0, (), 0.0)
        rows = np.concatenate([some for _, some in self.sample])
        weights = np.concatenate([np.full(len(some), float(each)) for each, some in self.sample])
        starts = _quantiles(rows[:, 0], weights, [each / QUANTILES for each in range(QUANTILES + 1)])
        inner = [_quantiles(rows[:, axis], weights, [0.05, 0.95]) for axis in (1, 2)]
        wide = max(float(high - low) for low, high in inner)
        return Survey(
            self.segments, self.travelled, self.lasted, self.furthest, [int(each) for each in starts], wide
        )

    def sorted_names(self) -> list[str]:
        return sorted(self.names, key=lambda name: (node_order(name), name))


def _quantiles(values: NDArray[np.float64], weights: NDArray[np.float64], shares: Sequence[float]) -> Any:
    order = np.argsort(values)
    upto = np.cumsum(weights[order])
    return values[order][np.minimum(np.searchsorted(upto, np.array(shares) * upto[-1]), len(values) - 1)]


@dataclass(frozen=True)
class Measure:
    """One row per task with its pickled `Measured`."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        total, step = Measured(), 1
        kept: list[NDArray[np.float64]] = []
        for rows in _tables(batches):
            total.problem = wrong_segment(rows)
            if total.problem is not None:
                break
            motion = read_motion(rows)
            t0, x0, y0, t1, x1, y1 = motion
            total.segments += len(t0)
            total.travelled += float(np.hypot(x1 - x0, y1 - y0).sum())
            total.lasted += float((t1 - t0).astype(np.float64).sum())
            total.furthest = max(total.furthest, *(float(np.abs(each).max()) for each in (x0, y0, x1, y1)))
            total.names.update(pc.unique(rows["node"]).to_pylist())
            kept.append(np.stack([t0, x0, y0], axis=1)[::step])
            while sum(map(len, kept)) > 2 * _SAMPLE:
                kept, step = [np.concatenate(kept)[::2]], 2 * step
        total.sample = [(step, np.concatenate(kept))] if kept else []
        yield from _parcels([(0, pickle.dumps(total, protocol=5))])


def wrong_segment(rows: pa.Table) -> str | None:
    """What is wrong with the first segment that cannot be used, if there is one."""
    lost = reduce(pc.or_, (pc.is_null(rows[name]) for name in TRAJECTORIES.names))
    backwards = pc.less(rows["t1"], rows["t0"])
    astray = pc.invert(reduce(pc.and_, (pc.is_finite(rows[name]) for name in ("x0", "y0", "x1", "y1"))))
    for wrong, what in (
        (lost, "a value is missing"),
        (backwards, "the segment ends before it starts"),
        (astray, "the segment has no finite coordinates"),
    ):
        row = pc.index(wrong, True).as_py()
        if row >= 0:
            return f"node {rows['node'][row].as_py() or '?'}: {what}"
    return None


@dataclass(frozen=True)
class Send:
    """Segments to the parts that they matter to; a task searches the parts that share a number."""

    plan: Plan
    names: pa.Array
    tasks: int

    @cached_property
    def _ranks(self) -> dict[str, int]:
        return {name: rank for rank, name in enumerate(self.names.to_pylist())}

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for table in _tables(batches):
            motion = read_motion(table)
            rows, parts = place(motion, self.plan)
            segments = np.empty(len(rows), _SEGMENT)
            segments["node"] = self._numbers(table["node"])[rows]
            for name, column in zip(("slab", "bx", "by"), parts.T, strict=True):
                segments[name] = column
            for (name, _), column in zip(_MOTION, motion, strict=True):
                segments[name] = column[rows]
            yield from _dealt(segments, _task_of(parts, self.tasks), self.tasks)

    def _numbers(self, nodes: pa.ChunkedArray) -> Longs:
        encoded = nodes.combine_chunks().dictionary_encode()
        ranks = np.array([self._ranks[name] for name in encoded.dictionary.to_pylist()], np.int64)
        numbers: Longs = ranks[encoded.indices.to_numpy()]
        return numbers


def _task_of(parts: Longs, tasks: int) -> Longs:
    """Neighbours in time and space go to different tasks, so that a busy hour or place is shared."""
    task: Longs = (parts[:, 0] + 7919 * parts[:, 1] + 104_729 * parts[:, 2]) % tasks
    return task


@dataclass(frozen=True)
class Search:
    """The contacts of some parts, cut where the parts are.

    Those that touch no edge of their part are whole: they are addressed to their range of time, `buckets` on, and
    the next task has only to hand them on. The others go to the bucket of their pair.
    """

    plan: Plan
    buckets: int
    ranges: tuple[int, ...]
    moments: tuple[int, ...] = ()
    """Instants that divide a part further, so that what is searched together fits into the caches, which tasks
    share. They are the same in all blocks, since on them depends in which one a pair is compared."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        segments = _together(batches, _SEGMENT)
        order = np.lexsort((segments["by"], segments["bx"], segments["slab"]))
        keys = np.stack([segments[name][order] for name in ("slab", "bx", "by")], axis=1)
        borders = np.flatnonzero(np.any(np.diff(keys, axis=0), axis=1)) + 1
        for members in np.split(order, borders) if len(order) else []:
            part = segments[members]
            motion = [np.ascontiguousarray(part[name]) for name, _ in _MOTION]
            slab, bx, by = (int(part[name][0]) for name in ("slab", "bx", "by"))
            moving = Segments([], part["node"].astype(np.int64), *motion)
            for found in self._pieces(moving, slab, bx, by):
                yield from _dealt(
                    _packed(found), self._bound_for(found, slab), self.buckets + len(self.ranges) + 1
                )
        settle_in()

    def _pieces(self, moving: Segments, slab: int, bx: int, by: int) -> Iterator[Longs]:
        """The contacts of a part, one short time after another; last, those that reach from one to the next."""
        low, high = self.plan.window(slab)
        plan = replace(self.plan, slabs=(low, *(each for each in self.moments if low < each < high), high))
        cut = [np.empty((0, 4), np.int64)]
        for number in range(1, len(plan.slabs)):
            since, until = plan.window(number)
            there = np.flatnonzero((moving.t0 < until) & (moving.t1 > since))
            found = search_part(moving.take(there), plan, number, bx, by).intervals
            reaching = (found[:, 2] == since) | (found[:, 3] == until)
            cut.append(found[reaching])
            yield found[~reaching]
        yield _joined(np.concatenate(cut))

    def _bound_for(self, found: Longs, slab: int) -> Longs:
        low, high = self.plan.window(slab)
        # A pair that moves from block to block leaves a piece of its contact in each.
        cut = np.full(len(found), True) if self.plan.block else (found[:, 2] == low) | (found[:, 3] == high)
        bound = self.buckets + _range_of(found[:, 2], self.ranges)
        bound[cut] = _mixed(found[cut]) % self.buckets
        return bound


def _joined(found: Longs) -> Longs:
    return join(found[np.lexsort((found[:, 2], _pair(found)))])


def _range_of(starts: Longs, ranges: tuple[int, ...]) -> Longs:
    number: Longs = np.searchsorted(np.array(ranges, np.int64), starts, side="right")
    return number


def _pair(intervals: Longs) -> Longs:
    """The nodes of a pair as one number, in the order of the pairs: a key less to sort by."""
    both: Longs = intervals[:, 0] << 32 | intervals[:, 1]
    return both


def _by_start(rows: NDArray[Any]) -> NDArray[np.intp]:
    """The order of contacts: by start, end and pair. Only the few that start together need all keys."""
    order = np.argsort(rows["start"])
    start = rows["start"][order]
    same = start[1:] == start[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    among = rows[order[tied]]
    order[tied] = order[tied][np.lexsort([among[name] for name in ("b", "a", "end", "start")])]
    return order


def _mixed(intervals: Longs) -> Longs:
    """A number of a pair; those of neighbouring pairs are far apart."""
    mixed = intervals[:, 0].astype(np.uint64) << np.uint64(32) | intervals[:, 1].astype(np.uint64)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(33)).astype(np.int64)


@dataclass(frozen=True)
class Join:
    """One interval for those of a pair that touch; whole contacts pass."""

    buckets: int
    ranges: tuple[int, ...]
    """The instants between which a contact starts decide where it goes."""

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        cut: list[pa.RecordBatch] = []
        for batch in batches:
            is_cut = pc.less(batch["part"], self.buckets)
            cut.append(batch.filter(is_cut))
            passing = batch.filter(pc.invert(is_cut))
            yield passing.set_column(
                0, _SCHEMA[0], pc.subtract(passing["part"], pa.scalar(self.buckets, pa.int32()))
            )
        whole = _joined(_intervals(cut))
        yield from _dealt(_packed(whole), _range_of(whole[:, 2], self.ranges), len(self.ranges) + 1)


@dataclass(frozen=True)
class Finish:
    """Contacts as rows, in order."""

    names: pa.Array

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        rows = _together(batches, _INTERVAL)
        order = _by_start(rows)
        for first in range(0, len(rows), _SHOWN_ROWS):
            shown = rows[order[first : first + _SHOWN_ROWS]]
            a, b, start, end = (pa.array(np.ascontiguousarray(shown[name])) for name in _INTERVAL.names or ())
            columns = [self.names.take(a), self.names.take(b), start, end]
            yield pa.RecordBatch.from_arrays(columns, names=["a", "b", "start", "end"])


def _tables(batches: Batches) -> Iterator[pa.Table]:
    """The same rows, in tables of about as many as are placed together."""
    for held in groups(batches, _READ_ROWS):
        yield pa.Table.from_batches(held).combine_chunks()


def _dealt(rows: NDArray[Any], to: Longs, parts: int) -> Iterator[pa.RecordBatch]:
    """Parcels of rows, each to the part it is for."""
    small = to.astype(np.uint16 if parts <= 1 << 16 else np.int64)
    order = np.argsort(small, kind="stable")  # by counting, where these are small numbers
    counts = np.bincount(to, minlength=parts)
    ends = np.cumsum(counts)
    rows = rows[order]
    most = _PARCEL_BYTES // rows.itemsize
    yield from _parcels(
        (part, rows[start : min(start + most, ends[part])].tobytes())
        for part in np.flatnonzero(counts).tolist()
        for start in range(ends[part] - counts[part], ends[part], most)
    )


def _parcels(bodies: Iterable[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
    rows = list(bodies)
    if rows:
        columns = zip(*rows, strict=True)
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, each.type) for column, each in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
        )


def _together(batches: Batches, kind: np.dtype[Any]) -> NDArray[Any]:
    bodies = [body.as_buffer() for batch in batches for body in batch.column("body")]
    return np.concatenate([np.empty(0, kind), *(np.frombuffer(body, kind) for body in bodies)])


def _packed(intervals: Longs) -> NDArray[Any]:
    packed = np.empty(len(intervals), _INTERVAL)
    for name, column in zip(_INTERVAL.names or (), intervals.T, strict=True):
        packed[name] = column
    return packed


def _intervals(batches: Batches) -> Longs:
    """Rows of node, node, start, end."""
    packed = _together(batches, _INTERVAL)
    return np.stack([packed[name].astype(np.int64) for name in _INTERVAL.names or ()], axis=1)
