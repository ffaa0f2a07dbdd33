"""A page and its parts, and how they become one HTML file.

Rules:
1. What matters comes first: the title, one line of verdict, then sections that can be jumped to. Pages of many
   sections are folded, all but the first.
2. A chart is never alone: it has a caption, a text that says what it shows for those who cannot see it, and where
   its data are.
3. Nothing is loaded from anywhere, and nothing needs a script to be seen. The one script copies commands, picks
   series and unfolds.
4. Everything can be done with a keyboard.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeAlias

from antecast.core.errors import OutputError
from antecast.reporting.drawing import HALF, NARROW, WIDE, draw, swatch
from antecast.reporting.plot import Plot, Series
from antecast.version import __version__

Tone: TypeAlias = Literal["good", "mixed", "bad", "plain"]

MANY_SECTIONS = 10
"""A page of more sections than this is folded."""


@dataclass(frozen=True)
class Text:
    """A paragraph; `pre` keeps its lines and spaces, for diagrams."""

    text: str
    pre: bool = False


@dataclass(frozen=True)
class Code:
    """A command or a file, shown whole and with a button that copies it."""

    text: str


@dataclass(frozen=True)
class TableBlock:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    small: bool = False
    """Two small blocks share a row where there is room."""
    cards: bool = False
    """Where there is no room for all columns, each row becomes a card instead of scrolling sideways."""


@dataclass(frozen=True)
class Chart:
    title: str
    plots: Sequence[Plot]
    """One, or a panel each."""
    alternative: str
    """What the chart shows, in words."""
    note: str = ""
    """What was cut, and where the data lie."""
    small: bool = False
    steps: Sequence[str] = ()
    """Steps to click through, where the keys of the marks are their numbers."""

    @property
    def legend(self) -> list[Series]:
        """The series of all panels, once each; none where there is one only."""
        found = {each.name: each for plot in self.plots for each in plot.series}
        return list(found.values()) if len(found) > 1 else []


@dataclass(frozen=True)
class Figure:
    """A number that matters, for the top of a page."""

    label: str
    value: str
    note: str = ""


Block: TypeAlias = Text | Code | TableBlock | Chart


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]
    label: str = ""
    """What the list of sections calls it, if that is not the title."""
    gist: str = ""
    """The summary that a folded section shows."""


@dataclass(frozen=True, kw_only=True)
class Page:
    title: str
    verdict: str
    tone: Tone = "plain"
    lead: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    sections: Sequence[Section] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """What made the page: versions, sizes, the command that makes it again."""


def render(page: Page) -> str:
    """The page as HTML."""
    return str(
        _template().render(
            page=page,
            version=__version__,
            kind=lambda block: type(block).__name__,
            numeric=_numeric,
            lengthy=_lengthy,
            pictures=_pictures,
            swatch=swatch,
            folded=len(page.sections) > MANY_SECTIONS,
            style=_resource("page.css"),
            script=_resource("page.js"),
        )
    )


def _pictures(chart: Chart) -> list[dict[str, str]]:
    """Each panel: its title, what it shows, and its drawings for a wide and a narrow place."""
    width = HALF if chart.small or len(chart.plots) > 1 else WIDE
    return [
        {
            "title": plot.title if len(chart.plots) > 1 else "",
            "words": ": ".join(filter(None, (chart.title, plot.title, chart.alternative))),
            "wide": draw(plot, width),
            "narrow": draw(plot, NARROW),
            "width": str(width),
        }
        for plot in chart.plots
    ]


def write(page: Page, path: Path) -> None:
    """Write the page, whole or not at all."""
    if not path.name or path.is_dir():
        raise OutputError("cannot write: it is a folder; name a file", path=path)
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(render(page), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", path=path) from error


LONGEST_WORD = 16
"""Letters of a word that is never broken in a table on paper."""

_NUMBER = re.compile(r"[-+<>]? ?[\d,.]+(e[-+]?\d+)?( ± [\d,.]+)?( ?(%|B|kB|MB|GB|ns|µs|ms|s|min|h))?|[–-]?")


def _numeric(rows: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns of a table hold numbers only: these stand flush right."""
    return [all(_NUMBER.fullmatch(cell) for cell in column) and any(column) for column in zip(*rows, strict=True)]


def _lengthy(cell: str) -> bool:
    """Whether a cell has a word, such as a path, that may have to be broken to fit on paper."""
    return any(len(word) > LONGEST_WORD for word in cell.split())


@cache
def _template() -> Any:
    import jinja2

    return jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        _resource("page.html")
    )


@cache
def _resource(name: str) -> str:
    return (resources.files("antecast.reporting") / name).read_text(encoding="utf-8")
