"""Places for texts beside their marks, so that none covers another.

A text is tried right of its mark, left, above and below (or above first), then further away in widening rings; it
takes the first place that is free and inside of the plot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

LINE = 14.0
"""Pixels that a line of text takes."""
_NEAR = 9.0
_RING = 12.0
_RINGS = 16


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


def place(texts: Sequence[Wanted], room: Box, taken: Sequence[Box] = ()) -> list[Box | None]:
    """A box for each text, in the order given; None where no place is free."""
    full, found = list(taken), list[Box | None]()
    for text in texts:
        free = (box for box in _tries(text) if box.inside(room) and not any(map(box.meets, full)))
        box = next(free, None)
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
