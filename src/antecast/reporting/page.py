"""A page and its parts, and how they become one HTML file.

Rules:
1. What matters comes first: the title, one line of verdict, then sections that can be jumped to.
2. A chart is never alone: it has a caption, a text that says what it shows for those who cannot see it, and where
   its data lie.
3. Nothing is loaded from anywhere. The scripts of Vega are inlined once, and only if there is a chart.
4. Without scripts, or on paper, everything but the plots is still there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

from antecast.core.errors import OutputError
from antecast.version import __version__

Tone: TypeAlias = Literal["good", "bad", "plain"]


@dataclass(frozen=True)
class Text:
    """A paragraph; `pre` keeps its lines and spaces, for commands and diagrams."""

    text: str
    pre: bool = False


@dataclass(frozen=True)
class TableBlock:
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    small: bool = False
    """Two small blocks share a row where there is room."""


@dataclass(frozen=True)
class Chart:
    title: str
    spec: Mapping[str, Any]
    """Vega-Lite, with its data inside."""
    alternative: str
    """What the chart shows, in words."""
    note: str = ""
    """What was cut, and where the data lie."""
    small: bool = False


@dataclass(frozen=True)
class Figure:
    """A number that matters, for the top of a page."""

    label: str
    value: str
    note: str = ""


Block: TypeAlias = Text | TableBlock | Chart


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]
    label: str = ""
    """What the list of sections calls it, if that is not the title."""


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
    charts = [block for section in page.sections for block in section.blocks if isinstance(block, Chart)]
    return str(
        _template().render(
            page=page,
            version=__version__,
            kind=lambda block: type(block).__name__,
            numeric=_numeric,
            specs=[_script_safe(chart.spec) for chart in charts],
            scripts=_scripts() if charts else "",
        )
    )


def write(page: Page, path: Path) -> None:
    """Write the page, whole or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(render(page), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", path=path) from error


_NUMBER = re.compile(r"[-+]?[\d,.]+(e[-+]?\d+)?( ?(%|B|kB|MB|GB|ns|µs|ms|s|min|h))?|[–-]?")


def _numeric(rows: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns of a table hold numbers only: these stand flush right."""
    return [all(_NUMBER.fullmatch(cell) for cell in column) and any(column) for column in zip(*rows, strict=True)]


@cache
def _template() -> Any:
    import jinja2

    text = (resources.files("antecast.reporting") / "page.html").read_text(encoding="utf-8")
    return jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)


@cache
def _scripts() -> str:
    """Vega, Vega-Lite and Vega-Embed, to be inlined; some 900 kB.

    Bundling them takes longer than all the rest of a page, so the result is kept in the user's cache.
    """
    import vl_convert

    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "antecast"
    kept = folder / f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        return kept.read_text(encoding="utf-8")
    text = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace("</script", "<\\/script")
    with suppress(OSError):  # a cache that cannot be written only costs time
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{kept.name}.{os.getpid()}.partial"
        partial.write_text(text, encoding="utf-8")
        partial.replace(kept)
    return text


def _script_safe(spec: Mapping[str, Any]) -> str:
    """JSON that can stand in a script element, whatever names the data hold."""
    return json.dumps(spec, separators=(",", ":")).replace("<", "\\u003c").replace("\u2028", "\\u2028")
