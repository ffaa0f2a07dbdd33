"""Places for texts beside their marks, so that none covers another.

A text is tried right of its mark, left, above and below (or above first), then further away in widening rings; it
takes the first place that is free and inside of the plot. Close to its mark, it keeps clear of lines if it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import cos, pi, sin

LINE = 14.0
"""Pixels that a line of text takes."""
_NEAR = 9.0
_RING = 12.0
_RINGS = 16
_CLOSE = 8 * 3
"""How many places are looked at for one that no line crosses: those of the first rings."""


@dataclass(frozen=True)
class Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)

    def inside(self, other: Box) -> bool:
        across = other.left <= self.left and self.right <= other.right
        return across and other.top <= self.top and self.bottom <= other.bottom

    def crossed(self, line: tuple[float, float, float, float]) -> bool:
        """Whether a straight line goes through."""
        x, y, x2, y2 = line
        enters, leaves = 0.0, 1.0
        for start, way, low, high in ((x, x2 - x, self.left, self.right), (y, y2 - y, self.top, self.bottom)):
            if not way:
                if not low < start < high:
                    return False
                continue
            near, far = sorted(((low - start) / way, (high - start) / way))
            enters, leaves = max(enters, near), min(leaves, far)
        return enters < leaves


@dataclass(frozen=True)
class Wanted:
    """A text that wants a place: its mark and its width."""

    x: float
    y: float
    width: float
    away: float = _NEAR
    """How far from the middle of its mark it must stay."""
    above: bool = False
    """Whether above is tried before all else."""


def place(
    texts: Sequence[Wanted],
    room: Box,
    taken: Sequence[Box] = (),
    lines: Sequence[tuple[float, float, float, float]] = (),
) -> list[Box | None]:
    """A box for each text, in the order given; None where no place is free."""
    full, found = list(taken), list[Box | None]()
    for text in texts:
        close = (box for box in islice(_tries(text), _CLOSE) if not any(map(box.crossed, lines)))
        tries = chain(close, _tries(text))
        box = next((box for box in tries if box.inside(room) and not any(map(box.meets, full))), None)
        found.append(box)
        full += [] if box is None else [box]
    return found


def _tries(text: Wanted) -> Iterator[Box]:
    half = LINE / 2
    turns = (0.5, 1.5, 0.0, 1.0) if text.above else (0.0, 1.0, 0.5, 1.5)
    for ring in range(_RINGS):
        reach = text.away + ring * _RING
        for turn in (*turns, 0.25, 1.75, 0.75, 1.25):
            across, down = cos(turn * pi), -sin(turn * pi)
            x, y = text.x + reach * across, text.y + (reach + half) * down
            left = x if across > 0.1 else x - text.width if across < -0.1 else x - text.width / 2
            yield Box(left, y - half, left + text.width, y + half)
