"""A plot as a value: two axes, and marks in the units of the data.

Colours are names of the page's own (`var(--c1)`), so that they follow the reader's scheme. Each mark belongs to a
series, which gives it its look, and has a key: picking a key on the page fades all marks of other keys.
`antecast.reporting.drawing` turns a plot into SVG for a width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

HEIGHT = 260
SMALL = 170

COLOURS = tuple(f"var(--c{number})" for number in range(1, 9))
DASHES = ("", "7 3", "2 3", "9 3 2 3")

Swatch: TypeAlias = Literal["line", "fill", "dot"]
Shape: TypeAlias = Literal["circle", "diamond", "triangle", "square", "cross", "ring", "forward"]

SHAPES: tuple[Shape, ...] = ("circle", "diamond", "triangle", "square", "cross", "ring")


@dataclass(frozen=True, kw_only=True)
class Axis:
    title: str = ""
    log: bool = False
    share: bool = False
    """Values are shares, and shown in per cent."""
    zero: bool = True
    """Whether it begins at zero, where the data do not say otherwise; a logarithmic axis never does."""
    whole: bool = False
    """Values are counts: no ticks between whole numbers."""
    low: float | None = None
    high: float | None = None
    """Ends, instead of those of the data."""
    names: Sequence[str] = ()
    """Names in place of numbers; the first stands at 0, the next at 1."""
    ticks: Sequence[tuple[float, str]] | None = None
    """Ticks and their texts, instead of round numbers."""
    grid: bool = True


@dataclass(frozen=True)
class Series:
    """A look that marks share, and its name in the legend."""

    name: str
    colour: str = COLOURS[0]
    dash: str = ""
    shape: Shape = "circle"
    swatch: Swatch = "line"
    """How the legend shows it."""
    opacity: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Mark:
    series: str = ""
    key: str = ""
    """What is picked with it; the series, if empty."""
    tip: str = ""
    """What the reader sees on pointing at it."""


@dataclass(frozen=True, kw_only=True)
class Line(Mark):
    points: Sequence[tuple[float, float]]
    step: bool = False
    dots: bool = False
    dash: str = ""
    """Instead of that of its series."""


@dataclass(frozen=True, kw_only=True)
class Area(Mark):
    points: Sequence[tuple[float, float, float]]
    """Along x: from, to."""
    step: bool = False
    opacity: float = 0.18


@dataclass(frozen=True, kw_only=True)
class Dot(Mark):
    x: float
    y: float
    size: float = 4.5
    """Half its width, in pixels."""
    shift: float = 0.0
    """Pixels down from its place: dots of one name stand below each other."""
    shape: Shape | None = None
    """Instead of that of its series."""


@dataclass(frozen=True, kw_only=True)
class Segment(Mark):
    x: float
    y: float
    x2: float
    y2: float
    width: float = 2.0
    shift: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Bar(Mark):
    """From one corner to the opposite one."""

    x: float
    y: float
    x2: float
    y2: float


@dataclass(frozen=True, kw_only=True)
class Label(Mark):
    """A text beside a place; it moves, with a line back to its place, where others are in its way."""

    x: float
    y: float
    text: str
    needed: bool = True
    """Whether it is drawn over others if there is no room at all."""
    above: bool = False
    """Whether it is placed above its place rather than beside it."""


@dataclass(frozen=True, kw_only=True)
class Limit(Mark):
    """A line across the plot, and what it stands for."""

    text: str
    x: float | None = None
    y: float | None = None


AnyMark: TypeAlias = Line | Area | Dot | Segment | Bar | Label | Limit


@dataclass(frozen=True, kw_only=True)
class Plot:
    x: Axis
    y: Axis
    marks: Sequence[AnyMark]
    series: Sequence[Series] = ()
    series_title: str = ""
    pick: bool = True
    """Whether the entries of the legend pick their series."""
    choices: Sequence[str] = ()
    """Keys to choose from, for plots whose keys are not their series."""
    stepped: bool = False
    """Whether keys are numbers of steps, which the page shows one after the other."""
    title: str = ""
    """Of a panel, where a chart has several."""
    height: int = HEIGHT
    """Of the space between the axes, in pixels."""

    @property
    def widths(self) -> list[float]:
        """All places of its marks along x."""
        return [value for mark in self.marks for value in _extent(mark)[0]]

    @property
    def heights(self) -> list[float]:
        """All places of its marks along y."""
        return [value for mark in self.marks for value in _extent(mark)[1]]

    def look(self, name: str) -> Series:
        return next((each for each in self.series if each.name == name), Series(name))


def _extent(mark: AnyMark) -> tuple[list[float], list[float]]:
    match mark:
        case Line():
            return [a for a, _ in mark.points], [b for _, b in mark.points]
        case Area():
            return [a for a, _, _ in mark.points], [each for _, b, c in mark.points for each in (b, c)]
        case Bar() | Segment():
            return [mark.x, mark.x2], [mark.y, mark.y2]
        case Dot() | Label():
            return [mark.x], [mark.y]
        case Limit():
            return [] if mark.x is None else [mark.x], [] if mark.y is None else [mark.y]


def looks(names: Sequence[str], *, swatch: Swatch = "line") -> list[Series]:
    """A look for each name: eight colours, then the same colours with other dashes and shapes."""
    count = len(COLOURS)
    return [
        Series(name, COLOURS[i % count], DASHES[i // count % len(DASHES)], SHAPES[i // count % 4], swatch)
        for i, name in enumerate(names)
    ]
