"""BonnMotion's `.movements.gz`: a line for each node, of waypoints `t x y`; the node is at (x, y) at time t.

The number of dimensions is not in this file but in the `.params` beside it, and a waypoint may also be of four
numbers: `t x y z` in space, `t x y state` in disaster areas. Where the number of words on every line allows
both, the one in which time never runs backwards counts; if that is true of both, the plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn, TextIO

import numpy as np
import pyarrow as pa

from antecast.traces.assemble import counted, join_points
from antecast.traces.spelling import Pieces, counting_names, legend, plain, put, seconds, spelled
from antecast.traces.text import NUMBER, IntArray, Rows, Text, numbers, times
from antecast.traces.trace import Format, Trace, one_of, share

GRAMMAR = "t x y t x y …"


def score(lines: Sequence[str]) -> float:
    """The share of lines that are waypoints in the order of time.

    An x without a fraction is less convincing, and most lines must have several waypoints of four numbers: one
    alone looks like the rows of many formats.
    """
    fractions = any("." in word for line in lines for word in line.split()[1:2])
    several = share(lines, lambda words: len(words) >= 8) >= 0.5
    if not fractions and all(len(line.split()) < 6 for line in lines):
        return 0.0
    flat = share(lines, lambda words: _rises(words, 3))
    spatial = share(lines, lambda words: _rises(words, 4)) if several else 0.0
    return (1.0 if fractions else 0.9) * max(flat, spatial)


def _rises(words: Sequence[str], width: int) -> bool:
    if len(words) % width or not all(NUMBER.fullmatch(word) for word in words):
        return False
    waypoints = [float(word) for word in words[::width]]
    return all(before <= after for before, after in pairwise(waypoints))


def read(text: Text, *, dimensions: int | None = None) -> Trace:
    """Movement from waypoints; nodes are named by their place in the file, from 0."""
    rows = text.rows(GRAMMAR)
    width = _width(rows) if dimensions is None else dimensions + 1
    rows.refuse(rows.lengths % width != 0)
    row = np.repeat(np.arange(len(rows)), rows.lengths // width)
    words = rows.words.flatten()

    def column(which: int) -> pa.Array:
        return words.take(pa.array(np.arange(which, len(words), width)))

    def fail(index: int, problem: str) -> NoReturn:
        rows.fail(int(row[index]), problem)

    t = times(column(0), fail)
    if (back := (np.diff(t) < 0) & (np.diff(row) == 0)).any():
        index = int(np.argmax(back)) + 1
        waypoint = index - int(np.argmax(row == row[index])) + 1
        before, after = spelled(t[index - 1 : index + 1])
        fail(
            index, f"expected waypoints in the order of time; number {waypoint} is at {after} s, after {before} s"
        )
    x, y = numbers(column(1), fail), numbers(column(2), fail)
    nodes = _nodes(text)
    names = [str(index) for index in range(int(nodes[-1]) + 1)]
    until = int(t.max())
    table, alone = join_points(names, nodes[rows.lines - 1][row], t, x, y, until=until)
    still = f"with one waypoint, standing there until {seconds(until)} s"
    notes = counted([(alone, f"node {still}", f"nodes {still}")])
    return Trace(
        "movement",
        table,
        "bonnmotion",
        notes if width == 3 else (*notes, "the fourth number of each waypoint ignored"),
    )


def _width(rows: Rows) -> int:
    """How many numbers a waypoint has."""
    flat, spatial = ((rows.lengths % width == 0) for width in (3, 4))
    if flat.all() and spatial.all():
        lines = rows.words.to_pylist()
        return 3 if all(_rises(words, 3) for words in lines) or not all(_rises(words, 4) for words in lines) else 4
    return 4 if spatial.mean() > flat.mean() else 3


def _nodes(text: Text) -> IntArray:
    """Which node each line belongs to: a line without waypoints counts too, a comment does not."""
    comment = np.array([line.lstrip().startswith("#") for line in text.content.split("\n")])
    nodes: IntArray = np.maximum(np.cumsum(~comment) - 1, 0)
    return nodes


def write(table: pa.Table, file: TextIO) -> tuple[str, ...]:
    """Movement as waypoints, a line for each node."""
    pieces = Pieces.of(table)
    names, notes = counting_names(pieces.names)
    node, t, x, y = pieces.points()
    waypoints = [" ".join(words) for words in zip(spelled(t), plain(x), plain(y), strict=True)]
    bounds = np.searchsorted(node, np.arange(len(names) + 1)).tolist()
    put(file, legend(pieces.names, names))
    put(file, (" ".join(waypoints[begin:end]) for begin, end in pairwise(bounds)))
    return (*notes, *pieces.absence_notes())


FORMAT = Format(
    name="bonnmotion",
    title="BonnMotion",
    holds=("movement",),
    score=score,
    read=read,
    write=write,
    suffixes=("movements", "bonnmotion"),
    reading={"dimensions": one_of(2, 3)},
)
