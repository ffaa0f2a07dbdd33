"""A figure for a notebook: the plots of the reports, for a table of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from antecast.core.errors import ConfigurationError
from antecast.reporting.drawing import draw, swatch
from antecast.reporting.figures import curves
from antecast.reporting.plot import Axis, Plot

WIDTH = 640
_LIGHT = {
    "text": "#1c2430", "soft": "#566171", "line": "#dbe1e9", "paper": "#ffffff",
    "c1": "#2563c4", "c2": "#bd540a", "c3": "#18814f", "c4": "#8a3fc0",
    "c5": "#c2185b", "c6": "#0a7f94", "c7": "#8a6d00", "c8": "#596579",
}  # fmt: skip
_STYLE = "max-width: 640px; background: var(--paper); color: var(--text); font: 13px sans-serif; padding: 8px"
_RULES = (
    ".antecast-figure text { fill: var(--soft); font-size: 12px; } "
    ".antecast-figure .title { fill: var(--text); font-weight: 500; } "
    ".antecast-figure .grid, .antecast-figure .stroke { stroke: var(--line); fill: none; }"
)


@dataclass(frozen=True)
class Figure:
    """Curves over a column of a table; a notebook shows them."""

    plot: Plot
    title: str

    def __repr__(self) -> str:
        return f"Figure({self.title})"

    def _repr_html_(self) -> str:
        colours = "; ".join(f"--{name}: {value}" for name, value in _LIGHT.items())
        legend = " &nbsp; ".join(f"{swatch(each)} {escape(each.name)}" for each in self.plot.series)
        return (
            f'<figure class="antecast-figure" style="{colours}; {_STYLE}"><style>{_RULES}</style>'
            f"<figcaption><b>{escape(self.title)}</b><br>{legend}</figcaption>"
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {draw(self.plot, WIDTH)}</svg></figure>'
        )


def figure(
    rows: Any,
    x: str,
    y: str,
    *,
    series: str = "",
    band: tuple[str, str] | None = None,
    title: str = "",
    x_title: str | None = None,
    y_title: str | None = None,
) -> Figure:
    """A line for each value of `series` through the columns `x` and `y`, with a band between two more.

    The rows are a pandas DataFrame, an Arrow table or a list of dictionaries; in the order of `x` along each line.
    """
    if hasattr(rows, "to_pylist"):
        listed = rows.to_pylist()
    else:
        listed = rows.to_dict("records") if hasattr(rows, "to_dict") else list(rows)
    if not listed:
        raise ConfigurationError("there are no rows to draw", field="rows")
    for name in (x, y, *filter(None, (series, *(band or ())))):
        if name not in listed[0]:
            raise ConfigurationError(f"no column {name!r}; the columns are {', '.join(listed[0])}", field="rows")
    listed.sort(key=lambda row: row[x])
    plot = curves(
        listed,
        Axis(title=x if x_title is None else x_title),
        Axis(title=y if y_title is None else y_title),
        (x, y),
        series=series,
        series_title=series,
        band=band,
        points=True,
    )
    return Figure(plot, title or f"{y} by {x}")
