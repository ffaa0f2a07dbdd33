"""Findings as tables for people: the paper's own layout where it has one, a list where it has none.

- `grid`: a row for each quantity, a column for each setting, as in most tables.
- `spread`: a row for each setting, a column for each quantity whose smallest, largest, mean and standard
  deviation share a cell; quantities are named `delay, min`, `delay, max` and so on.
- `list`: a row for each finding.

In grids a cell holds our figure and the paper's after it in brackets; a cell that differs has a number, and
the reason stands under the table. So does what each quantity is judged by; in lists the paper's number has the
tolerance beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from antecast.papers.findings import Finding, Mark, Results, Unit, count_marks, headline
from antecast.papers.paper import Paper

_SYMBOLS = {Mark.AGREES: "=", Mark.DIFFERS: "≠", Mark.OURS_ONLY: "○", Mark.PAPER_ONLY: "–"}


@dataclass(frozen=True)
class Grid:
    """A table ready to be shown."""

    item: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def lay_out(paper: Paper, findings: Sequence[Finding]) -> list[Grid]:
    """A table for each item of the paper, in its order."""
    known = list(paper.items)
    ordered = sorted(findings, key=lambda each: known.index(each.item))
    grids = []
    for name, group in groupby(ordered, key=lambda each: each.item):
        item = paper.items[name]
        lay = {"grid": _grid, "spread": _spread, "list": _list}[item.layout]
        grids.append(lay(name, f"{name}: {item.title}", list(group)))
    return grids


def summary(paper: Paper, findings: Sequence[Finding]) -> Grid:
    """One row for each item: how many of its figures agree, differ, or are ours only."""
    rows = []
    marks = [mark for mark in Mark if mark is not Mark.PAPER_ONLY or count_marks(findings)[mark]]
    for name, item in paper.items.items():
        own = [each for each in findings if each.item == name]
        if not own:
            continue  # not part of this run, as pedestrians are not on a timetable
        counts = count_marks(own)
        shown = [str(counts[mark] or "") for mark in marks]
        rows.append((name, item.title, str(len(own)), *shown))
    return Grid("", paper.title, ("", "what it shows", "figures", *marks), tuple(rows))


def markdown(paper: Paper, results: Results) -> str:
    """A study's results as a page."""
    parts = [f"# {results.study}: “{paper.title}” ({paper.authors})"]
    parts += [headline(results.findings).text]
    parts += ["\n".join(f"- {note}" for note in results.notes)] if results.notes else []
    parts += [_markdown(grid) for grid in (summary(paper, results.findings), *lay_out(paper, results.findings))]
    return "\n\n".join(parts) + "\n"


def _markdown(grid: Grid) -> str:
    lines = [f"## {grid.title}", "", _line(grid.header), "|" + "---|" * len(grid.header)]
    lines += map(_line, grid.rows)
    numbered = [note for note in grid.notes if not note.startswith("- ")]
    limits = [note for note in grid.notes if note.startswith("- ")]
    for part in (numbered, limits):
        lines += ["", *part] if part else []
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


class _Reasons:
    """Numbers the reasons of a table, the same reason with the same number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __call__(self, finding: Finding) -> str:
        if finding.mark is Mark.AGREES:
            return ""
        number = self._numbers.setdefault(finding.reason, len(self._numbers) + 1)
        return f" {_SYMBOLS[finding.mark]}{number}"

    def notes(self) -> tuple[str, ...]:
        return tuple(f"{number}. {reason}" for reason, number in self._numbers.items())


def _grid(item: str, title: str, findings: list[Finding]) -> Grid:
    quantities = list(dict.fromkeys(each.quantity for each in findings))
    settings = list(dict.fromkeys(each.setting for each in findings))
    cells = {(each.quantity, each.setting): each for each in findings}
    reasons = _Reasons()
    rows = tuple(
        (quantity, *(_cell(cells.get((quantity, setting)), reasons) for setting in settings))
        for quantity in quantities
    )
    return Grid(item, f"{title}; ours (paper)", ("", *settings), rows, reasons.notes() + _limits(findings))


def _cell(finding: Finding | None, reasons: _Reasons) -> str:
    if finding is None:
        return ""
    if finding.unit == "statement":
        return f"{finding.observed}{reasons(finding)}"
    return f"{shown(finding.ours, finding.unit)} ({shown(finding.paper, finding.unit)}){reasons(finding)}"


def _spread(item: str, title: str, findings: list[Finding]) -> Grid:
    """`delay, min` … `delay, stdev` in one cell, ours over the paper's."""
    settings = list(dict.fromkeys(each.setting for each in findings))
    stems = list(dict.fromkeys(_stem(each) for each in findings))
    measures = list(dict.fromkeys(each.quantity.rpartition(", ")[2] for each in findings))
    cells = {(each.quantity, each.setting): each for each in findings}
    reasons = _Reasons()

    def joined(setting: str, stem: str, pick: Callable[[Finding], float | None], marks: bool) -> str:
        own = [cells.get((f"{stem}, {measure}", setting)) for measure in measures]
        return " / ".join(
            "–" if each is None else shown(pick(each), each.unit) + (reasons(each) if marks else "")
            for each in own
        )

    rows = []
    for setting in settings:
        rows.append((setting, "ours", *(joined(setting, stem, lambda each: each.ours, True) for stem in stems)))
        rows.append(("", "paper", *(joined(setting, stem, lambda each: each.paper, False) for stem in stems)))
    return Grid(
        item,
        f"{title} ({' / '.join(measures)})",
        ("", "", *stems),
        tuple(rows),
        reasons.notes() + _limits(findings),
    )


def _stem(finding: Finding) -> str:
    return finding.quantity.rpartition(", ")[0]


def _list(item: str, title: str, findings: list[Finding]) -> Grid:
    reasons = _Reasons()
    rows = []
    for each in findings:
        if each.unit == "statement":
            paper, ours = each.claim, each.observed
        else:
            paper, ours = _with_tolerance(each), _with_interval(each)
        rows.append((each.quantity, each.setting, paper, ours, f"{each.mark}{reasons(each)}"))
    return Grid(
        item,
        title,
        ("quantity", "setting", "paper", "ours", "mark"),
        tuple(rows),
        reasons.notes() + _limits(findings),
    )


def _limits(findings: Iterable[Finding]) -> tuple[str, ...]:
    """What quantities are judged by, those with the same argument together."""
    found: dict[str, dict[str, None]] = {}
    for each in findings:
        if each.why:
            found.setdefault(each.why, {})[each.quantity] = None
    return tuple(f"- Limit of {', '.join(names)}: {why}" for why, names in found.items())


def _with_tolerance(finding: Finding) -> str:
    number = shown(finding.paper, finding.unit)
    return f"{number} ± {shown(finding.within, finding.unit)}" if finding.within else number


def _with_interval(finding: Finding) -> str:
    mean = shown(finding.ours, finding.unit)
    if finding.low is None or finding.high is None:
        return mean
    return f"{mean} [{shown(finding.low, finding.unit)}, {shown(finding.high, finding.unit)}]"


def figure_file(item: str) -> str:
    """The name of the file with a figure's points.

    >>> figure_file("Fig. 3")
    'fig-3'
    """
    return item.lower().replace(". ", "-").replace(" ", "-")


def shown(value: float | None, unit: Unit) -> str:
    """A figure for people.

    >>> shown(106580, "count"), shown(0.9999, "share"), shown(2630, "s"), shown(0.062, "s"), shown(None, "s")
    ('106,580', '99.99 %', '43\\'50"', '62 ms', '–')
    """
    if value is None:
        return "–"
    match unit:
        case "count":
            return f"{value:,.0f}"
        case "share":
            return f"{100 * value:.2f} %"
        case "s":
            return _time(value)
        case "bytes":
            return f"{value:,.0f} B"
        case "ut":
            return f"{value:,.1f}"
        case _:
            return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _time(value: float) -> str:
    """As the papers write times.

    >>> _time(42420), _time(7.64), _time(84), _time(0)
    ("11h47'", '7.6"', '1\\'24"', '0')
    """
    if value < 0:
        return f"-{_time(-value)}"
    if value < 1:
        return f"{1000 * value:.3g} ms" if value else "0"
    if value < 59.95:
        return f'{value:.1f}"'.replace(".0", "")
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}'{rest:02d}\""
    return f"{minutes // 60}h{minutes % 60:02d}'"
