"""Plots as SVG, for a width. What is drawn needs no script: it is there on paper and wherever HTML is shown.

Each chart of a page is drawn for a wide and for a narrow place, and the page shows the one that fits, so texts
keep their size and ticks their distance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from html import escape
from itertools import groupby

from antecast.reporting.labels import LINE, Box, Wanted, place
from antecast.reporting.plot import AnyMark, Area, Axis, Bar, Dot, Label, Limit, Line, Mark, Plot, Segment, Series
from antecast.reporting.scale import (
    TICK_FONT,
    TITLE_FONT,
    Scale,
    across,
    domain,
    middle,
    spaced,
    text_width,
    thinned,
    upwards,
    wrap,
)

WIDE, HALF, NARROW = 760, 470, 344
"""Pixels of a chart as wide as the page, of one beside another, and of one on a phone."""

_LABEL_FONT = 11.5
_FEW_DOTS = 60
"""Points of a line that have dots of their own."""


def draw(plot: Plot, width: int) -> str:
    """The inside of an SVG element, and its height."""
    return _Drawing(plot, width).svg()


class _Drawing:
    def __init__(self, plot: Plot, width: int) -> None:
        self.plot, self.width = plot, width
        x_ends, y_ends = _ends(plot.x, plot.widths), _ends(plot.y, plot.heights)
        self.above = plot.y.names and max(map(text_width, plot.y.names)) > 0.34 * width
        y_ticks = _named(plot.y) or upwards(
            *y_ends, plot.height, log=plot.y.log, share=plot.y.share, whole=plot.y.whole
        )
        left = 4.0 if self.above else max([text_width(text) for _, text in y_ticks], default=0.0) + 9
        self.title = wrap(plot.y.title, width) if plot.y.title else []
        self.top = 10.0 + LINE * len(self.title) + (4 if self.title else 0)
        self.foot = wrap(plot.x.title, width - left) if plot.x.title else []
        right = width - 12.0
        rows = len(plot.y.names)
        tall = plot.height + (LINE * rows if self.above else 0)  # a line of its own for each name
        self.area = Box(left, self.top, right, self.top + tall)
        self.x = Scale(*x_ends, left, right, plot.x.log)
        self.y = Scale(*y_ends, self.area.bottom, self.top, plot.y.log)
        if plot.y.names:  # names are read from the top
            down = LINE / 2 if self.above else 0
            self.y = Scale(-0.5, rows - 0.5, self.top + down, self.area.bottom + down)
        self.x_ticks = self._fitted(x_ends)
        self.y_ticks = y_ticks
        self.height = self.area.bottom + (20 if self.x_ticks else 6) + LINE * len(self.foot) + 4

    def _fitted(self, ends: tuple[float, float]) -> list[tuple[float, str]]:
        axis = self.plot.x
        if axis.names:
            return thinned(_named(axis), self.x, self.width)
        if axis.ticks is not None:
            return spaced(axis.ticks, self.x, self.width)
        return across(*ends, self.width, self.x, log=axis.log, share=axis.share, whole=axis.whole)

    def svg(self) -> str:
        parts = [*self._axes(), *self._flat(), *self._dots(), *self._labels()]
        return f'viewBox="0 0 {self.width} {_n(self.height)}">{"".join(parts)}'

    # Axes.

    def _axes(self) -> Iterable[str]:
        area, plot = self.area, self.plot
        for row, text in enumerate(self.title):
            yield _text(0, 12 + row * LINE, text, font=TITLE_FONT, kind="title")
        for value, text in self.y_ticks:
            y = self.y(value)
            if plot.y.grid:
                yield f'<path class="grid" d="M{_n(area.left)} {_n(y)}H{_n(area.right)}"/>'
            if self.above:
                yield _text(area.left, y - 0.5 * plot.height / len(plot.y.names) - 2, text, kind="tick")
            else:
                yield _text(area.left - 7, y + 4, text, anchor="end", kind="tick")
        for value, text in self.x_ticks:
            x = self.x(value)
            yield f'<path class="stroke" d="M{_n(x)} {_n(area.bottom)}v4"/>'
            yield _text(middle(x, text, self.width), area.bottom + 16, text, anchor="middle", kind="tick")
        yield f'<path class="stroke" d="M{_n(area.left)} {_n(area.bottom)}H{_n(area.right)}"/>'
        start = self.height - 6 - LINE * (len(self.foot) - 1)
        for row, text in enumerate(self.foot):
            yield _text(area.right, start + row * LINE, text, anchor="end", font=TITLE_FONT, kind="title")

    # Marks.

    def _flat(self) -> Iterable[str]:
        """Lines, areas and bars, cut off at the ends of the axes."""
        area = self.area
        x, y = _n(area.left - 2), _n(area.top - 2)
        width, height = _n(area.right - area.left + 4), _n(area.bottom - area.top + 4)
        yield f'<svg x="{x}" y="{y}" width="{width}" height="{height}" viewBox="{x} {y} {width} {height}">'
        kept = [mark for mark in self.plot.marks if isinstance(mark, Line | Area | Bar | Segment | Limit)]
        for (kind, *_), group in groupby(
            kept, key=lambda mark: (type(mark), mark.series, mark.key, mark.tip, _width(mark))
        ):
            marks = list(group)
            shape: Callable[[AnyMark], str] = self._outline
            yield self._element(kind, marks[0], "".join(map(shape, marks)))
        yield "</svg>"

    def _element(self, kind: type[AnyMark], mark: AnyMark, path: str) -> str:
        look, tip = self.plot.look(mark.series), _tip(mark.tip)
        end = f">{tip}</path>" if tip else "/>"
        if isinstance(mark, Limit):
            return f'<path class="limit" d="{path}"{end}'
        if isinstance(mark, Area | Bar):
            opacity = mark.opacity if isinstance(mark, Area) else look.opacity
            shade = f' fill-opacity="{opacity:g}"' if opacity < 1 else ""
            return f'<path{self._key(mark)} fill="{look.colour}"{shade} d="{path}"{end}'
        ink = (mark.dash or look.dash) if isinstance(mark, Line) else ""
        dash = f' stroke-dasharray="{ink}"' if ink else ""
        return (
            f'<path{self._key(mark)} class="{"line" if isinstance(mark, Line) else "segment"}" fill="none"'
            f' stroke="{look.colour}" stroke-width="{_width(mark):g}"{dash} d="{path}"{end}'
        )

    def _outline(self, mark: AnyMark) -> str:
        x, y = self.x, self.y
        match mark:
            case Line():
                return _path(_thin([(x(a), y(b)) for a, b in mark.points]), step=mark.step)
            case Area():
                there = _path([(x(a), y(b)) for a, b, _ in mark.points], step=mark.step)
                back = [(x(a), y(c)) for a, _, c in mark.points]
                if mark.step:
                    back = [
                        each
                        for i, (a, c) in enumerate(back)
                        for each in ((a, c), (back[min(i + 1, len(back) - 1)][0], c))
                    ]
                return there + "L" + _path(back[::-1])[1:] + "Z"
            case Bar():
                left, right = sorted((x(mark.x), x(mark.x2)))
                top, bottom = sorted((y(mark.y), y(mark.y2)))
                return f"M{_n(left)} {_n(top)}H{_n(right)}V{_n(bottom)}H{_n(left)}Z"
            case Segment():
                shift = mark.shift
                return f"M{_n(x(mark.x))} {_n(y(mark.y) + shift)}L{_n(x(mark.x2))} {_n(y(mark.y2) + shift)}"
            case Limit() if mark.x is not None:
                return f"M{_n(x(mark.x))} {_n(self.area.top)}V{_n(self.area.bottom)}"
            case Limit() if mark.y is not None:
                return f"M{_n(self.area.left)} {_n(y(mark.y))}H{_n(self.area.right)}"
        return ""

    def _dots(self) -> Iterable[str]:
        for mark in self.plot.marks:
            look = self.plot.look(mark.series)
            if isinstance(mark, Dot):
                at = self.x(mark.x), self.y(mark.y) + mark.shift
                look = replace(look, shape=mark.shape) if mark.shape else look
                yield _dot(*at, mark.size, look, self._key(mark), _tip(mark.tip))
            elif isinstance(mark, Line) and mark.dots and len(mark.points) <= _FEW_DOTS:
                for a, b in mark.points:
                    if self.area.top - 1 <= self.y(b) <= self.area.bottom + 1:
                        yield _dot(self.x(a), self.y(b), 3.2, look, self._key(mark), _tip(self._said(mark, a, b)))

    def _said(self, mark: Line, x: float, y: float) -> str:
        axes = self.plot.x, self.plot.y
        places = [
            f"{axis.title}: {f'{100 * value:.4g} %' if axis.share else f'{value:,.4g}'}"
            for axis, value in zip(axes, (x, y), strict=True)
        ]
        return "; ".join([mark.series, *places] if mark.series else places)

    def _labels(self) -> Iterable[str]:
        taken, wanted = list[Box](), list[tuple[AnyMark, str, Wanted, bool]]()
        for mark in self.plot.marks:
            if isinstance(mark, Dot):
                x, y, r = self.x(mark.x), self.y(mark.y), mark.size
                taken.append(Box(x - r, y - r, x + r, y + r))
        reach = {(mark.x, mark.y): mark.size for mark in self.plot.marks if isinstance(mark, Dot)}
        for mark in self.plot.marks:
            if isinstance(mark, Label):
                away = reach.get((mark.x, mark.y), 4.0) + (1.0 if mark.above else 5.0)
                at = Wanted(self.x(mark.x), self.y(mark.y), _long(mark.text), away, mark.above)
                wanted.append((mark, mark.text, at, mark.needed))
            elif isinstance(mark, Limit):
                x = self.area.left + 3 if mark.x is None else self.x(mark.x)
                y = self.area.top + 10 if mark.y is None else self.y(mark.y)
                wanted.append((mark, mark.text, Wanted(x, y, _long(mark.text), 8.0), True))
        room = replace(self.area, top=self.area.top - 8)  # there is nothing but the title above it
        boxes = place([each[2] for each in wanted], room, taken, self._crossing())
        texts = []
        for (mark, text, at, needed), box in zip(wanted, boxes, strict=True):
            if box is None and not needed:
                continue
            box = box or Box(at.x, at.y - LINE / 2, at.x + at.width, at.y + LINE / 2)
            key = self._key(mark)
            yield self._leader(at, box, key) if isinstance(mark, Label) else ""
            key += f' style="fill: {self.plot.look(mark.series).colour}"' if mark.series else ""
            centre, foot = (box.left + box.right) / 2, box.bottom - 3.5
            texts.append(_text(centre, foot, text, anchor="middle", kind="label", font=_LABEL_FONT, more=key))
        yield from texts  # above all lines that lead to them

    def _crossing(self) -> list[tuple[float, float, float, float]]:
        """Lines that texts keep clear of, where there are few."""
        x, y = self.x, self.y
        segments = [mark for mark in self.plot.marks if isinstance(mark, Segment)]
        if len(segments) > _FEW_DOTS:
            return []
        return [(x(a.x), y(a.y) + a.shift, x(a.x2), y(a.y2) + a.shift) for a in segments]

    def _leader(self, at: Wanted, box: Box, key: str) -> str:
        x, y = min(max(at.x, box.left), box.right), min(max(at.y, box.top), box.bottom)
        if (x - at.x) ** 2 + (y - at.y) ** 2 <= (at.away + 8) ** 2:
            return ""
        return f'<path{key} class="leader" d="M{_n(at.x)} {_n(at.y)}L{_n(x)} {_n(y)}"/>'

    def _key(self, mark: Mark) -> str:
        name = mark.key or mark.series
        picked = self.plot.choices or self.plot.stepped or (self.plot.pick and len(self.plot.series) > 1)
        return f' data-key="{escape(name)}"' if name and picked else ""


def swatch(look: Series) -> str:
    """The sign of a series in a legend."""
    shade = f' fill-opacity="{look.opacity:g}"' if look.opacity < 1 else ""
    match look.swatch:
        case "dot":
            inside = _dot(11, 7, 4.5, look, "", "")
        case "fill":
            inside = f'<rect x="4" y="2" width="14" height="10" fill="{look.colour}"{shade}/>'
        case _:
            dash = f' stroke-dasharray="{look.dash}"' if look.dash else ""
            inside = f'<path d="M0 7H22" stroke="{look.colour}" stroke-width="2.5"{dash}/>'
    return f'<svg class="swatch" viewBox="0 0 22 14" aria-hidden="true">{inside}</svg>'


def _ends(axis: Axis, values: list[float]) -> tuple[float, float]:
    if axis.names:
        return -0.5, len(axis.names) - 0.5
    return domain(values, log=axis.log, zero=axis.zero, low=axis.low, high=axis.high)


def _named(axis: Axis) -> list[tuple[float, str]]:
    return [(float(i), name) for i, name in enumerate(axis.names)] if axis.names else list(axis.ticks or ())


def _width(mark: Mark) -> float:
    return mark.width if isinstance(mark, Segment) else 2.0


def _long(text: str) -> float:
    return text_width(text, _LABEL_FONT) + 2


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of many points in one column of pixels the first, lowest, highest and last: it looks the same."""
    if len(points) < 400:
        return points
    kept: list[tuple[float, float]] = []
    for _, group in groupby(points, key=lambda point: int(point[0])):
        column = list(group)
        ends = {0, len(column) - 1, *(pick(range(len(column)), key=lambda i: column[i][1]) for pick in (min, max))}
        kept += [column[i] for i in sorted(ends)]
    return kept


def _path(points: Sequence[tuple[float, float]], *, step: bool = False) -> str:
    if not points:
        return ""
    start, *rest = points
    ways = (f"H{_n(x)}V{_n(y)}" if step else f"L{_n(x)} {_n(y)}" for x, y in rest)
    return f"M{_n(start[0])} {_n(start[1])}{''.join(ways)}"


def _dot(x: float, y: float, r: float, look: Series, key: str, tip: str) -> str:
    at = f"{_n(x)} {_n(y)}"
    if look.shape in ("circle", "ring"):
        paint = (
            f'fill="{look.colour}"' if look.shape == "circle" else f'fill="var(--paper)" stroke="{look.colour}"'
        )
        start = f'<circle{key} class="dot {look.shape}" {paint} cx="{_n(x)}" cy="{_n(y)}" r="{r:g}"'
        return f"{start}>{tip}</circle>" if tip else f"{start}/>"
    ways = {
        "diamond": f"m0 {-1.3 * r:g}l{1.3 * r:g} {1.3 * r:g}l{-1.3 * r:g} {1.3 * r:g}l{-1.3 * r:g} {-1.3 * r:g}z",
        "triangle": f"m0 {-1.2 * r:g}l{1.2 * r:g} {2.2 * r:g}h{-2.4 * r:g}z",
        "square": f"m{-r:g} {-r:g}h{2 * r:g}v{2 * r:g}h{-2 * r:g}z",
        "forward": f"m{-r:g} {-r:g}l{2 * r:g} {r:g}l{-2 * r:g} {r:g}z",
        "cross": f"m{-r:g} {-0.4 * r:g}h{0.6 * r:g}v{-0.6 * r:g}h{0.8 * r:g}v{0.6 * r:g}h{0.6 * r:g}v{0.8 * r:g}"
        f"h{-0.6 * r:g}v{0.6 * r:g}h{-0.8 * r:g}v{-0.6 * r:g}h{-0.6 * r:g}z",
    }
    start = f'<path{key} class="dot {look.shape}" fill="{look.colour}" d="M{at}{ways[look.shape]}"'
    return f"{start}>{tip}</path>" if tip else f"{start}/>"


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


def _text(
    x: float, y: float, text: str, *, anchor: str = "", font: float = TICK_FONT, kind: str = "", more: str = ""
) -> str:
    side = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text{more} class="{kind}" x="{_n(x)}" y="{_n(y)}" font-size="{font:g}"{side}>{escape(text)}</text>'


def _n(value: float) -> str:
    """
    >>> _n(12.0), _n(0.25), _n(-0.01)
    ('12', '0.2', '0')
    """
    text = f"{value:.1f}"
    return "0" if text in ("0.0", "-0.0") else text.removesuffix(".0")
