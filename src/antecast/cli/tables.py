"""Tables that are shown whole, however narrow the window is: too many columns go into several tables.

No figure is cut. Columns that are words may wrap; those that are figures stay as they are, and move below where
they do not fit beside the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from antecast.cli.console import out

_LEAST_WORDS = 16
"""Columns that words are wrapped into at the least."""

_GAP = 2


@dataclass(frozen=True)
class Column:
    """One column: its heading, whether its cells are figures, and whether they are words that may wrap."""

    title: str
    right: bool = False
    wraps: bool = False


def show(table: RenderableType) -> None:
    """Print a table; outside a terminal without the spaces that fill up its lines."""
    if out.is_terminal:
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table)
    for line in captured.get().splitlines():
        out.print(Text(line.rstrip()), soft_wrap=True)


def show_pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Labels, and what there is to say beside each; long texts wrap within their column."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, Text(text))
    show(table)


def show_columns(
    columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], styles: Sequence[str | None] = ()
) -> None:
    """A table whose first column names its rows, in as many parts as the window makes of it."""
    cells = [[each if isinstance(each, Text) else Text(each) for each in row] for row in rows]
    widths = [_width(column.title, (row[index] for row in cells)) for index, column in enumerate(columns)]
    for number, part in enumerate(_parts(columns, widths, out.width)):
        if number:
            out.print()
        table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), collapse_padding=True)
        for index in part:
            column = columns[index]
            table.add_column(
                column.title,
                justify="right" if column.right else "left",
                no_wrap=not column.wraps,
                overflow="fold",
                min_width=None if column.wraps else widths[index],
            )
        for row, style in zip(cells, styles or [None] * len(cells), strict=True):
            table.add_row(*(row[index] for index in part), style=style)
        show(table)


def _width(title: str, cells: Iterable[Text]) -> int:
    return max(cell_len(line) for text in (title, *(cell.plain for cell in cells)) for line in text.split("\n"))


def _parts(columns: Sequence[Column], widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Columns by number, the first in every part, as many in each as fit."""
    part, taken = [0], widths[0]
    for index in range(1, len(columns)):
        least = min(widths[index], _LEAST_WORDS) if columns[index].wraps else widths[index]
        if len(part) > 1 and taken + _GAP + least > room:
            yield part
            part, taken = [0], widths[0]
        part.append(index)
        taken += _GAP + least
    yield part
