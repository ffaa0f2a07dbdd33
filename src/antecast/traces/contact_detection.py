"""Contacts from movement: the exact intervals in which two nodes are within a range of each other.

Rules:
1. Two nodes are in contact while both are there and their distance is at most the range. Nodes that stand
   exactly as far apart as the range are in contact; nodes that only touch it for an instant are not.
2. An interval starts when the second of them appears or when they come into range, and ends when one of them
   disappears or when they leave it. These instants are solved for, not sampled, and rounded to the nearest
   nanosecond (a half up); an interval that is empty then is left out.
3. Intervals of one pair that touch are one contact, however many segments it lasted.

Theory of operation. Space is cut into square cells of about twice the range, and every segment of movement
into pieces that cross a cell or so (`contact_kernels.cut`). Within a cell, pieces are taken in the order of
time, and each is compared with those that begin before it ends (`contact_kernels.sweep`): nodes that never
share a cell at one time are never compared. The work is thus that of sorting the pieces, plus the pairs
that are near each other.

Large traces are divided into parts: slabs of time with about as many segments each and, where more nodes are
there at once than a part should hold, square blocks of cells. A segment goes to every part it may matter
to, a pair is compared in one part only, and intervals that were cut at the edge of a slab are joined at the
end. Since instants are exact, the division does not show in the result: one process (`find_contacts`) and
Spark (`antecast.spark.contacts`) find the same contacts to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, isfinite, sqrt
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.core.errors import AntecastError, ConfigurationError
from antecast.traces.contact_kernels import Doubles, Longs, cut, exact_interval, join, sweep
from antecast.traces.schema import CONTACTS, NAME, TRAJECTORIES, node_order

QUANTILES = 1024
"""Start times that a plan chooses the borders of its slabs from; no plan has more slabs."""

LOCAL_PART = 1 << 18
"""Segments that one process searches together: few enough for its caches, some hundred megabytes at most."""

Motions: TypeAlias = tuple[Longs, Doubles, Doubles, Longs, Doubles, Doubles]
"""The columns t0, x0, y0, t1, x1, y1."""

_EVERYWHERE = (-(1 << 31), -(1 << 31), 1 << 32)
_EARLIEST, _LATEST = -(1 << 62), 1 << 62


class BrokenTrajectories(AntecastError):
    """The trajectories lack what they need or contradict themselves."""


@dataclass(frozen=True)
class Survey:
    """What a plan needs to know about a trace."""

    segments: int
    travelled: float
    """Metres, by all nodes together."""
    lasted: float
    """Nanoseconds, of all segments together."""
    furthest: float
    """The largest coordinate, either way."""
    starts: Sequence[int]
    """Quantiles of the segments' start times."""
    wide: float
    """Side of a square that holds most of the segments."""

    @property
    def at_once(self) -> float:
        """Segments that are there at one time; strays in time do not count."""
        within = (
            self.starts[len(self.starts) * 19 // 20] - self.starts[len(self.starts) // 20] if self.starts else 0
        )
        return min(max(1, self.segments), self.lasted / max(1, within))

    def instants(self, spans: int) -> tuple[int, ...]:
        """Those that divide the trace into so many spans of time, with about as many starts in each."""
        if not self.starts:
            return ()
        return tuple(sorted({int(self.starts[len(self.starts) * each // spans]) for each in range(1, spans)}))


@dataclass(frozen=True)
class Plan:
    """How the work is divided. It decides how long it takes, never what is found."""

    reach: float
    cell: float
    """Side of a cell in metres."""
    slabs: tuple[int, ...]
    """The instants at which time is cut."""
    block: int
    """Side of a block in cells; 0 where all of space is one block."""

    def window(self, slab: int) -> tuple[int, int]:
        """The times of a slab, end not included."""
        edges = (_EARLIEST, *self.slabs, _LATEST)
        return edges[slab], edges[slab + 1]


@dataclass(frozen=True, eq=False)
class Segments:
    """The columns of trajectories as arrays; nodes are numbered in the order of their names."""

    names: list[str]
    node: Longs
    t0: Longs
    x0: Doubles
    y0: Doubles
    t1: Longs
    x1: Doubles
    y1: Doubles

    def __len__(self) -> int:
        return len(self.node)

    @property
    def motion(self) -> Motions:
        return self.t0, self.x0, self.y0, self.t1, self.x1, self.y1

    def take(self, rows: NDArray[np.integer]) -> Segments:
        return Segments(self.names, self.node[rows], *(column[rows] for column in self.motion))


@dataclass(frozen=True, eq=False)
class Found:
    """The contacts of a part, and what it took to find them."""

    intervals: Longs
    """Rows of node, node, start, end, by pair and start."""
    compared: int
    """Pairs of pieces that were compared."""
    doubtful: int
    """Pairs of pieces whose instants needed exact arithmetic."""


def find_contacts(trajectories: pa.Table, reach: float, *, a_part: int = LOCAL_PART) -> pa.Table:
    """All contacts of trajectories at a range in metres, as a table of the schema `CONTACTS`."""
    segments = read_segments(trajectories)
    found = [each.intervals for each in search(segments, make_plan(reach, survey(segments), a_part=a_part))]
    rows = np.concatenate([np.empty((0, 4), np.int64), *found])
    rows = join(rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))])
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0], rows[:, 3], rows[:, 2]))]
    names = pa.array(segments.names, pa.string())
    a, b = (pa.DictionaryArray.from_arrays(pa.array(rows[:, each], pa.int32()), names) for each in (0, 1))
    return pa.table([a.cast(NAME), b.cast(NAME), rows[:, 2], rows[:, 3]], schema=CONTACTS)


def search(segments: Segments, plan: Plan) -> Iterator[Found]:
    """The contacts of each part that has any segments, part by part."""
    rows, parts = place(segments.motion, plan)
    order = np.lexsort(parts.T)
    borders = np.flatnonzero(np.any(np.diff(parts[order], axis=0), axis=1)) + 1
    for members in np.split(order, borders) if len(order) else []:
        slab, bx, by = map(int, parts[members[0]])
        yield search_part(segments.take(rows[members]), plan, slab, bx, by)


def search_part(segments: Segments, plan: Plan, slab: int, bx: int, by: int) -> Found:
    """The contacts of one part, given the segments that matter to it."""
    block = (bx * plan.block, by * plan.block, plan.block) if plan.block else _EVERYWHERE
    rows = cut(*segments.motion, *plan.window(slab), plan.reach, plan.cell, *block)
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    found, doubtful, compared = sweep(rows, segments.node, *segments.motion, plan.reach)
    cured = list(_solve_exactly(segments, plan.reach, doubtful))
    found = np.concatenate([found, np.array(cured, np.int64).reshape(-1, 4)])
    found = found[np.lexsort((found[:, 2], found[:, 1], found[:, 0]))]
    return Found(join(found), compared, len(doubtful))


def _solve_exactly(segments: Segments, reach: float, doubtful: Longs) -> Iterator[tuple[int, int, int, int]]:
    columns = segments.motion
    for p, q, since, until in doubtful.tolist():
        one, other = (tuple(column[each].item() for column in columns) for each in (p, q))
        interval = exact_interval(one, other, reach, since, until)
        if interval is not None:
            nodes = sorted((int(segments.node[p]), int(segments.node[q])))
            yield nodes[0], nodes[1], *interval


def make_plan(reach: float, of: Survey, *, a_part: int) -> Plan:
    """Cells and parts for a trace, with about `a_part` segments per part.

    Cells are twice the range: smaller ones mean more cells for every piece, larger ones more strangers in a cell.
    Where the range is far below what a segment travels, a cell is a quarter of that, so that cutting a segment
    makes a few pieces, not thousands.
    """
    if not (isfinite(reach) and reach > 0):
        raise ConfigurationError(f"expected a range in metres above zero, got {reach:g}", field="--range")
    segments = max(1, of.segments)
    cell = max(2 * reach, of.travelled / segments / 4, of.furthest * 1e-8)
    slabs = min(QUANTILES, ceil(segments / a_part))
    blocks = ceil(sqrt((segments / slabs + of.at_once) / (2 * a_part)))  # along a side
    block = 0 if blocks == 1 else max(1, ceil(of.wide / blocks / cell))
    return Plan(reach, cell, of.instants(slabs), block)


def survey(segments: Segments) -> Survey:
    """Measure a trace for its plan."""
    if not len(segments):
        return Survey(0, 0.0, 0.0, 0.0, (), 0.0)
    fractions = np.arange(QUANTILES + 1) / QUANTILES
    starts = np.quantile(segments.t0, fractions, method="inverted_cdf")
    inner = [np.quantile(column, (0.05, 0.95)) for column in (segments.x0, segments.y0)]
    return Survey(
        segments=len(segments),
        travelled=float(np.hypot(segments.x1 - segments.x0, segments.y1 - segments.y0).sum()),
        lasted=float((segments.t1 - segments.t0).astype(np.float64).sum()),
        furthest=max(float(np.abs(each).max()) for each in (segments.x0, segments.y0, segments.x1, segments.y1)),
        starts=starts.tolist(),
        wide=max(float(high - low) for low, high in inner),
    )


def place(motion: Motions, plan: Plan) -> tuple[Longs, Longs]:
    """Which segments matter to which parts: rows of segments, and slab, x and y of the block for each."""
    slabs = np.array(plan.slabs, np.int64)
    there = np.flatnonzero(motion[3] > motion[0])
    first = np.searchsorted(slabs, motion[0][there], side="right")
    last = np.searchsorted(slabs, motion[3][there] - 1, side="right")
    which, slab = _ranges(first, last)
    rows = there[which]
    if not plan.block:
        return rows, np.stack([slab, np.zeros_like(slab), np.zeros_like(slab)], axis=1)
    t0, x0, y0, t1, x1, y1 = (column[rows] for column in motion)
    edges = np.array([_EARLIEST, *plan.slabs, _LATEST])
    span = (t1 - t0).astype(np.float64)
    u = (np.maximum(t0, edges[slab]) - t0) / span
    v = (np.minimum(t1, edges[slab + 1]) - t0) / span
    columns = []
    for start, end in ((x0, x1), (y0, y1)):
        one, other = start + (end - start) * u, start + (end - start) * v
        around = plan.reach / 2 + 1e-8 * (plan.reach + np.abs(start) + np.abs(end))  # more than `cut` takes
        for edge in (np.minimum(one, other) - around, np.maximum(one, other) + around):
            columns.append(np.floor(edge / plan.cell).astype(np.int64) // plan.block)
    left, right, bottom, top = columns
    which, bx = _ranges(left, right)
    again, by = _ranges(bottom[which], top[which])
    which, bx = which[again], bx[again]
    return rows[which], np.stack([slab[which], bx, by], axis=1)


def _ranges(first: Longs, last: Longs) -> tuple[Longs, Longs]:
    """For ranges first … last: the number of its range and the value, for every value of every range."""
    counts = last - first + 1
    which = np.repeat(np.arange(len(first)), counts)
    value = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts) + first[which]
    return which, value


def read_segments(trajectories: pa.Table) -> Segments:
    """The arrays of a table of trajectories, checked."""
    motion = read_motion(trajectories)
    column = trajectories["node"]
    if column.null_count:
        raise BrokenTrajectories("column 'node' holds nulls")
    nodes = (column if pa.types.is_dictionary(column.type) else column.dictionary_encode()).unify_dictionaries()
    found = nodes.chunk(0).dictionary.to_pylist() if nodes.num_chunks else []
    names = sorted(set(found), key=lambda name: (node_order(name), name))
    rank = {name: number for number, name in enumerate(names)}
    codes = np.array([rank[name] for name in found], np.int64)
    node = codes[np.concatenate([np.empty(0, np.int64), *(each.indices.to_numpy() for each in nodes.chunks)])]
    return Segments(names, node, *motion)


def read_motion(trajectories: pa.Table) -> Motions:
    """The columns t0, x0, y0, t1, x1, y1 of a table of trajectories, checked."""
    missing = [name for name in TRAJECTORIES.names if name not in trajectories.column_names]
    if missing:
        raise BrokenTrajectories(f"no column {missing[0]!r}; there are {', '.join(trajectories.column_names)}")
    columns = []
    for field in list(TRAJECTORIES)[1:]:
        if trajectories[field.name].null_count:
            raise BrokenTrajectories(f"column {field.name!r} holds nulls")
        values = trajectories[field.name].cast(field.type).to_numpy()
        # Arrow's arrays are read-only, and kernels would be compiled a second time for those.
        columns.append(np.require(values, requirements=("C", "W")))
    t0, x0, y0, t1, x1, y1 = columns
    astray = ~(np.isfinite(x0) & np.isfinite(y0) & np.isfinite(x1) & np.isfinite(y1))
    for wrong, what in ((t1 < t0, "ends before it starts"), (astray, "has no finite coordinates")):
        if wrong.any():
            row = int(np.argmax(wrong))
            raise BrokenTrajectories(f"row {row + 1}, node {trajectories['node'][row]}: the segment {what}")
    return t0, x0, y0, t1, x1, y1
