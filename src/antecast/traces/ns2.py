"""ns-2 movement: `$node_(0) set X_ 12.3` and `$ns_ at 1.0 "$node_(0) setdest x y speed"`.

Two ways of moving are written in these words, and the reader tells them apart:

- ns-2's own. All nodes are there from 0 until the last one has arrived. A command turns a node, from wherever
  it is, towards its target at the given speed; it stops there, or where a later command meets it.
- In steps, as sampled walkers are written: nodes come and go, each has a command every step, and the speed is
  too coarse to end the step at the target. A node is there from its first command, is at each target when its
  next command comes, and ends at its last target, one step after its last command.

A file is in steps if its commands are in the order of time, some node is first placed after commands of a time
past zero (it came while others walked), and nine in ten intervals between commands of a node are equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, NoReturn, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.traces.assemble import Tracks, counted, encode, piece_table
from antecast.traces.spelling import Pieces, integer_names, legend, plain, put, seconds, spelled
from antecast.traces.text import LATEST, SECOND, BoolArray, FloatArray, IntArray, Text, numbers, times
from antecast.traces.trace import Format, Trace, one_of

GRAMMAR = '$ns_ at time "$node_(id) setdest x y speed" or $node_(id) set X_ x'

_NODE = r"\$(?P<variable>\w+)(?:\(\s*(?P<id>[\w.:-]+)\s*\))?"
_AT = r"^\$\w+\s+at\s+(?P<t>\S+)\s+[\"{]\s*" + _NODE
_END = r"\s*[\"}]\s*;?$"
_SET = r"\s+set\s+(?P<axis>[XYZ])_\s+(?P<value>[^\s\";}]+)"
_PLACE = "^" + _NODE + _SET + r"\s*;?$"
_PLACE_AT = _AT + _SET + _END
_GO_AT = (
    _AT + r"\s+setdest\s+(?P<x>[^\s\"]+)\s+(?P<y>[^\s\"]+)\s+(?P<v>[^\s\"}]+)(?:\s+(?P<more>[^\s\"}]+))?" + _END
)
_RELEVANT = r"\ssetdest\s|\sset\s+[XYZ]_\s"

_REGULAR = 0.9
"""The share of equal intervals from which a file counts as written in steps."""
_CLOSE = 1000
"""Nanoseconds by which a rounded speed may miss the next command and still count as on time."""

Motion = Literal["auto", "ns2", "steps"]


def score(lines: Sequence[str]) -> float:
    """One line is enough: no other format has these words, and scripts have many other lines."""
    return float(any(line.startswith("$") and re.search(_RELEVANT, line) for line in lines))


@dataclass(frozen=True)
class _Lines:
    """The lines of one form: their groups, as columns, and where they stand."""

    text: Text
    groups: dict[str, pa.Array]
    lines: IntArray

    def fail(self, row: int, problem: str) -> NoReturn:
        self.text.fail(problem, int(self.lines[row]))

    def time(self) -> IntArray:
        return times(self.groups["t"], self.fail)

    def number(self, group: str) -> FloatArray:
        return numbers(self.groups[group], self.fail)

    def names(self) -> pa.Array:
        """A node's index, or the name of its variable where there is none."""
        index = self.groups["id"]
        return pc.if_else(pc.equal(index, ""), self.groups["variable"], index)


def _matching(text: Text, pattern: str, among: IntArray) -> tuple[_Lines, IntArray]:
    """Of the lines at some indices those that match, and the indices of the rest."""
    found = pc.extract_regex(text.lines.take(pa.array(among)), pattern)
    hit = np.asarray(found.is_valid()).astype(bool)
    found = found.filter(pa.array(hit))
    groups = {field.name: found.field(position) for position, field in enumerate(found.type)}
    return _Lines(text, groups, among[hit] + 1), among[~hit]


def read(text: Text, *, motion: Motion = "auto") -> Trace:
    """Movement from ns-2 commands; `motion` says how they are meant. Default: told from the file."""
    full = text.full()
    relevant = np.asarray(pc.match_substring_regex(text.lines, _RELEVANT)).astype(bool)
    rest = np.flatnonzero(relevant)
    goes, rest = _matching(text, _GO_AT, rest)
    places, rest = _matching(text, _PLACE, rest)
    jumps, rest = _matching(text, _PLACE_AT, rest)
    if len(rest):
        line = int(rest[0]) + 1
        text.fail(f"expected {GRAMMAR}, got {text.line(line)}", line)
    if not len(goes.lines) and not len(jumps.lines):
        text.fail(f"expected {GRAMMAR}, got no setdest at all")
    _refuse_heights(goes, places)

    names, (node, placed, jumped) = encode(goes.names(), places.names(), jumps.names())
    t, x, y, speed = goes.time(), goes.number("x"), goes.number("y"), goes.number("v")
    if (speed < 0).any():
        goes.fail(int(np.argmax(speed < 0)), "expected a speed of zero or more")
    starts = np.zeros((len(names), 2))
    axis = np.asarray(pc.index_in(places.groups["axis"], pa.array(["X", "Y", "Z"], pa.large_string())))
    for which in (0, 1):
        mine = axis == which
        starts[placed[mine], which] = places.number("value")[mine]
    unplaced, origin = len(np.setdiff1d(node, placed)), "at (0, 0), for want of a place"
    notes = counted(
        [
            (unplaced, f"node starts {origin}", f"nodes start {origin}"),
            (int((full & ~relevant).sum()), "other line of Tcl ignored", "other lines of Tcl ignored"),
        ]
    )
    late = bool((places.lines > _first(goes.lines, t > 0)).any())
    step = step_of(node, t) if late and (np.diff(t) >= 0).all() else None
    if motion == "steps" or (motion == "auto" and step and not len(jumped)):
        usual = step or step_of(node, t, share=0.0) or SECOND
        return _in_steps(names, node, (t, x, y), starts, usual, notes)
    table = _by_ns2(names, _commands(goes, node, (t, x, y, speed), jumps, jumped), starts)
    return Trace("movement", table, "ns2", notes)


def _refuse_heights(goes: _Lines, places: _Lines) -> None:
    """A fourth number is a height, where nodes have heights, or else BonnMotion's state of a node."""
    more = np.asarray(pc.not_equal(goes.groups["more"], "")).astype(bool)
    if more.any() and "Z" in places.groups["axis"].unique().to_pylist():
        row = int(np.argmax(more))
        goes.text.fail('expected "setdest x y speed"; movement in space is not read', int(goes.lines[row]))


def _first(lines: IntArray, mask: BoolArray) -> float:
    return float(lines[mask].min()) if mask.any() else math.inf


def step_of(node: IntArray, t: IntArray, *, share: float = _REGULAR) -> int | None:
    """The usual time between commands of a node, if it is the time between nearly all of them."""
    order = np.lexsort((t, node))
    intervals = np.diff(t[order])[np.diff(node[order]) == 0]
    if not len(intervals):
        return None
    lengths, counts = np.unique(intervals, return_counts=True)
    usual = int(lengths[np.argmax(counts)])
    return usual if usual > 0 and counts.max() >= share * len(intervals) else None


def _in_steps(
    names: list[str],
    node: IntArray,
    commands: tuple[IntArray, FloatArray, FloatArray],
    starts: FloatArray,
    step: int,
    notes: tuple[str, ...],
) -> Trace:
    """Each target is reached at the node's next command, the last one a step after its command."""
    order = np.lexsort((commands[0], node))
    overruled = (np.diff(node[order], append=-1) == 0) & (np.diff(commands[0][order], append=-1) == 0)
    order = order[~overruled]  # of two commands at one time the later counts
    node, t, x, y = node[order], commands[0][order], commands[1][order], commands[2][order]
    first = np.diff(node, prepend=-1) != 0
    last = np.roll(first, -1)
    x0, y0 = (np.where(first, starts[node, axis], np.roll(values, 1)) for axis, values in enumerate((x, y)))
    end = np.where(last, t + step, np.roll(t, -1))
    table = piece_table(names, node, (t, x0, y0), (end, x, y))
    gaps = int((end - t > step).sum())
    found = f"commands come every {seconds(step)} s" + (f" ({gaps:,} gaps)" if gaps else "")
    rule = f"{found}: nodes come and go, each target is reached at the node's next command"
    return Trace("movement", table, "ns2", (rule, *notes))


class _Command(NamedTuple):
    """What ns-2 is told to do with a node; with an axis, the node jumps to `x` along it."""

    t: int
    line: int
    node: int
    axis: str
    x: float
    y: float
    speed: float


def _commands(
    goes: _Lines,
    node: IntArray,
    moves: tuple[IntArray, FloatArray, FloatArray, FloatArray],
    jumps: _Lines,
    who: IntArray,
) -> list[_Command]:
    """All commands in the order of time, those of one time in the order of the file."""
    columns = (moves[0], goes.lines, node, *moves[1:])
    found = [_Command(t, line, each, "", *rest) for t, line, each, *rest in _rows(*columns)]
    if len(who):
        axes = jumps.groups["axis"].to_pylist()
        jumped = zip(_rows(jumps.time(), jumps.lines, who, jumps.number("value")), axes, strict=True)
        found += [_Command(t, line, each, axis, value, 0.0, 0.0) for (t, line, each, value), axis in jumped]
    return sorted(found)


def _rows(*columns: IntArray | FloatArray) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def _by_ns2(names: list[str], commands: list[_Command], starts: FloatArray) -> pa.Table:
    """Follow the commands as ns-2 would carry them out."""
    tracks = Tracks()
    for index, (x, y) in enumerate(starts.tolist()):
        tracks.place(index, 0, x, y)
    end = 0
    for (t, _, node, axis, x, y, speed), then in zip(commands, _following(commands), strict=True):
        place = tracks.position(node, t)
        assert place is not None
        tracks.stop(node)
        end = max(end, t)
        way = math.dist(place, (x, y))
        if axis:
            tracks.place(node, t, x if axis == "X" else place[0], x if axis == "Y" else place[1])
        elif speed > 0 and way > 0:
            arrival = min(t + round(min(way / speed * SECOND, LATEST)), LATEST)
            if then is not None and abs(arrival - then) <= _CLOSE:
                arrival = then
            tracks.go(node, x, y, arrival)
            end = max(end, arrival if then is None else min(arrival, then))
    for index in range(len(names)):
        tracks.position(index, end)
    return tracks.table(names)


def _following(commands: list[_Command]) -> list[int | None]:
    """For each command the time of the same node's next one."""
    found: list[int | None] = []
    seen: dict[int, int] = {}
    for command in reversed(commands):
        found.append(seen.get(command.node))
        seen[command.node] = command.t
    return found[::-1]


def write(table: pa.Table, file: TextIO) -> tuple[str, ...]:
    """Movement as ns-2 commands, in the order of time, each node placed just before its first command."""
    pieces = Pieces.of(table)
    names, notes = integer_names(pieces.names)
    first = np.diff(pieces.node, prepend=-1) != 0
    last = np.roll(first, -1)
    later = pieces.t0[pieces.t0 > 0]
    late = bool((pieces.t0[first] > later.min(initial=LATEST)).any())
    steady = len(pieces.appears()) == len(names)
    step = step_of(pieces.node, pieces.t0) if late and steady else None
    lines: list[tuple[int, int, str]] = []
    labels = [f"$node_({names[each]})" for each in pieces.node.tolist()]
    when, until = spelled(pieces.t0), spelled(pieces.t1)
    speed = plain(pieces.speed())
    x0, y0, x1, y1 = (plain(column) for column in (pieces.x0, pieces.y0, pieces.x1, pieces.y1))
    for index in pieces.appears().tolist():
        for axis, value in (("X", x0[index]), ("Y", y0[index])):
            place = f"{labels[index]} set {axis}_ {value}"
            line = place if first[index] else f'$ns_ at {when[index]} "{place}"'
            lines.append((int(pieces.t0[index]), 0, line))
    for index, t in enumerate(pieces.t0.tolist()):
        lines.append(
            (t, 1, f'$ns_ at {when[index]} "{labels[index]} setdest {x1[index]} {y1[index]} {speed[index]}"')
        )
    if step is None:
        # A node that stands at the end leaves no arrival behind: a last stop tells how long the trace is.
        still = last & (pieces.speed() == 0) & (pieces.t1 == pieces.t1.max(initial=0))
        for index in np.flatnonzero(still).tolist():
            stop = f'$ns_ at {until[index]} "{labels[index]} setdest {x1[index]} {y1[index]} 0.0"'
            lines.append((int(pieces.t1[index]), 2, stop))
    put(file, legend(pieces.names, names))
    put(file, (line for _, _, line in sorted(lines, key=lambda each: each[:2])))
    whole = (pieces.t0[first] == 0).all() and (pieces.t1[last] == pieces.t1.max(initial=0)).all()
    stepped = ((pieces.t1 - pieces.t0)[last] == step).all()
    return (*notes, *pieces.absence_notes("as standing still"), *(() if whole or stepped else (_STAY,)))


_STAY = "ns-2 nodes do not come and go: they stand where they start and where they end"

FORMAT = Format(
    name="ns2",
    title="ns-2 setdest",
    holds=("movement",),
    score=score,
    read=read,
    write=write,
    suffixes=("ns2", "tcl", "ns_movements", "tr"),
    reading={"motion": one_of("auto", "ns2", "steps")},
)
