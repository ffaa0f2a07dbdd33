"""A paper's own figures, from the TOML file of its study, with what each is judged by.

    title = "…"
    authors = "…"
    quick = "one network stands for five"   # why marks of the quick size may differ from the full one's

    [items."Table II"]
    title = "message processing in the city bus scenario"
    layout = "grid"                     # quantities down, settings across (see `layout`)
    tolerance = { share = 0.05, why = "five runs of the paper differ by so much" }

    [items."Table II".quantities.received]
    unit = "count"
    values = { "none" = 106580, "120'" = 98610 }
    tolerance = { off = 5, why = "printed in tens" }   # instead of the item's
    reason = "why ours differs, if it does"

    [items."Table II".quantities.buffers]
    unit = "statement"
    claim = "a few dozen at most"
    limits = { "a few dozen" = { at = 36, why = "a few are three" } }
    words = ["much"]                    # those that mean the same everywhere: [words] of the file

Every number has a tolerance (`findings.Tolerance`), every word that the judgement measures has a limit, and both
have an argument from the paper itself (`why`), so that nobody chooses them after the runs: a file without one is
refused. Times are numbers of seconds or in the papers' own notation: `11h47'`, `43'50"`, `1'24"`, `4 ms`; then
half of the last digit printed is always allowed, as half a unit is for counts.

The points that the paper gives of a plot are rows with the columns of its chart:

    points = [ { "series" = "R-broadcast, 1,000", "delay" = 1, "value" = 2.74 } ]

One without a place along x is a level; one with `from` and `to` instead of the column of y is a range.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias

from antecast.core.settings import Settings, read_settings
from antecast.history.confidence import Estimate
from antecast.papers.findings import Finding, Tolerance, Unit, argued, figure, statement

Layout: TypeAlias = Literal["grid", "spread", "list"]


class Limit(Settings, frozen=True, kw_only=True):
    """What a word of the paper means in numbers, and the argument for it."""

    at: float
    why: str

    def __post_init__(self) -> None:
        argued(self.why)


class Quantity(Settings, frozen=True, kw_only=True):
    """A quantity of a table or figure, with the paper's value in each setting."""

    unit: Unit
    values: dict[str, float | str] = {}
    tolerance: Tolerance | None = None
    """How far ours may be off. Default: the item's."""
    limits: dict[str, Limit] = {}
    """What words of the claim mean in numbers, by name."""
    words: list[str] = []
    """Words of the claim that have one meaning in all of the paper (`Paper.words`)."""
    claim: str = ""
    """What the paper says in words, where it gives no number."""
    reason: str = ""
    """Why ours differs, if it does."""
    reasons: dict[str, str] = {}
    """The same for single settings."""
    fitted: list[str] = []
    """The settings whose figures were used to fit ours: that they agree says little."""

    def __post_init__(self) -> None:
        if self.unit == "statement" and (self.values or self.tolerance is not None):
            raise ValueError("a statement has a claim and limits, no values or tolerance")
        if self.unit != "statement" and (self.limits or self.words):
            raise ValueError("limits are those of a statement; a number has a tolerance")


class Chart(Settings, frozen=True, kw_only=True):
    """How the points of a figure are drawn: which column goes where."""

    kind: Literal["line", "points", "bars", "cells", "spans"]
    x: str
    y: str
    x_title: str
    y_title: str
    end: str = ""
    """Where spans end, along x."""
    series: str = ""
    series_title: str = ""
    facet: str = ""
    """A plot for each value of this column, with an x axis of its own; with `free` also a y axis."""
    free: bool = False
    weight: str = ""
    """The column that gives cells their colour."""
    weight_title: str = ""
    low: str = ""
    high: str = ""
    """A band around the line, such as a confidence interval."""
    x_log: bool = False
    y_log: bool = False
    words: str = ""
    """What the chart shows, for those who cannot see it."""


class Item(Settings, frozen=True, kw_only=True):
    """A table or figure of a paper."""

    title: str
    layout: Layout = "list"
    tolerance: Tolerance | None = None
    """How far ours may be off, for all quantities that do not say it themselves."""
    quantities: dict[str, Quantity] = {}
    chart: Chart | None = None
    points: list[dict[str, float | str]] = []
    """What the paper gives of the plot in its text or tables."""

    def __post_init__(self) -> None:
        for name, quantity in self.quantities.items():
            if quantity.values and quantity.tolerance is None and self.tolerance is None:
                raise ValueError(
                    f"{name!r} has values and no tolerance; give one to it or to the item, such as"
                    ' { share = 0.05, why = "the paper\'s runs differ by so much" }'
                )
        for point in self.points:
            self._check(point)

    def _check(self, point: dict[str, float | str]) -> None:
        if self.chart is None:
            raise ValueError("points are those of a chart, and the item has none")
        chart = self.chart
        known = {chart.x, chart.y, chart.series, chart.facet, "from", "to"} - {""}
        if unknown := point.keys() - known:
            raise ValueError(f"no column {min(unknown)!r} in a point; there are {', '.join(sorted(known))}")
        if (chart.y in point) == ({"from", "to"} <= point.keys()):
            raise ValueError(f"a point has {chart.y!r}, or a range with 'from' and 'to': {point}")


class Paper(Settings, frozen=True, kw_only=True):
    """What a paper found."""

    title: str
    authors: str
    quick: str = ""
    """What the quick size of the study leaves out, as the reason for marks that are not those of the full size."""
    words: dict[str, Limit] = {}
    """What words mean wherever the paper uses them."""
    items: dict[str, Item]

    def __post_init__(self) -> None:
        for name, item in self.items.items():
            for quantity, what in item.quantities.items():
                if unknown := set(what.words) - set(self.words):
                    raise ValueError(f"{name}, {quantity}: {min(unknown)!r} is not among the words of the paper")

    def value(self, item: str, quantity: str, setting: str) -> float | None:
        """The paper's number, times in seconds; None if it has none."""
        found = self.items[item].quantities[quantity].values.get(setting)
        return seconds(found) if isinstance(found, str) else found

    def reading(self, item: str, quantity: str, setting: str) -> float:
        """What rounding may hide of a time in the paper's notation: half of the last digit that it prints."""
        found = self.items[item].quantities[quantity].values.get(setting)
        return last_digit(found) / 2 if isinstance(found, str) else 0.0

    def figure(self, item: str, quantity: str, setting: str, ours: Estimate | None, reason: str = "") -> Finding:
        """Ours beside the paper's; the reason given here goes before those of the file."""
        what = self.items[item].quantities[quantity]
        return figure(
            item,
            quantity,
            setting,
            what.unit,
            paper=self.value(item, quantity, setting),
            ours=ours,
            tolerance=self.tolerance(item, quantity),
            reading=self.reading(item, quantity, setting),
            reason=reason or what.reasons.get(setting) or what.reason,
        )

    def tolerance(self, item: str, quantity: str) -> Tolerance | None:
        """How far ours may be off; None where the paper has no number."""
        return self.items[item].quantities[quantity].tolerance or self.items[item].tolerance

    def limit(self, item: str, quantity: str, name: str) -> float:
        """What a word of a claim means in numbers."""
        return self._limits(item, quantity)[name].at

    def _limits(self, item: str, quantity: str) -> dict[str, Limit]:
        what = self.items[item].quantities[quantity]
        return {name: self.words[name] for name in what.words} | what.limits

    def points(self, item: str) -> list[dict[str, float | str]]:
        """What the paper gives of a plot, in the columns of its chart."""
        return list(self.items[item].points)

    def statement(
        self, item: str, quantity: str, setting: str, *, holds: bool, observed: str, runs: int = 1
    ) -> Finding:
        """Whether what the paper says in words holds here."""
        what, limits = self.items[item].quantities[quantity], self._limits(item, quantity)
        return statement(
            item,
            quantity,
            setting,
            claim=what.claim,
            holds=holds,
            observed=observed,
            why="; ".join(f"{name}: {limit.at:g}, since {limit.why}" for name, limit in limits.items()),
            reason=what.reasons.get(setting) or what.reason,
            runs=runs,
        )


@cache
def load_paper(study: str) -> Paper:
    """The figures of the paper that a study is about."""
    file = resources.files("antecast.papers") / study / "paper.toml"
    values: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    return read_settings(values, Paper)


_TIME = re.compile(r"(?:(\d+)h)?\s*(?:(\d+)')?\s*(?:([\d.]+)\")?\s*(?:([\d.]+)\s*ms)?")


def seconds(text: str) -> float:
    """A time in the papers' notation.

    >>> seconds("11h47'"), seconds("43'50\\""), seconds("4 ms"), seconds("0.5\\"")
    (42420.0, 2630.0, 0.004, 0.5)
    """
    match = _TIME.fullmatch(text.strip())
    if match is None or not text.strip():
        raise ValueError(f"expected a time such as 43'50\" or 4 ms, got {text!r}")
    hours, minutes, rest, milliseconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + rest + milliseconds / 1000


_UNITS = (3600.0, 60.0, 1.0, 0.001)


def last_digit(text: str) -> float:
    r"""What one more in the last digit of a time in the papers' notation would add, in seconds.

    >>> last_digit("11h47'"), last_digit("43'50\""), last_digit('0.5"'), last_digit("62 ms")
    (60.0, 1.0, 0.1, 0.001)
    """
    match = _TIME.fullmatch(text.strip())
    assert match is not None, text
    number, unit = next(
        (part, unit) for part, unit in zip(match.groups()[::-1], _UNITS[::-1], strict=True) if part
    )
    return unit / float(10 ** len(number.partition(".")[2]))
