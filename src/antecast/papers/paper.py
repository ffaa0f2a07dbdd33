"""A paper's own figures, from the TOML file of its study.

    title = "…"
    authors = "…"
    quick = "one network stands for five"   # why marks of the quick size may differ from the full one's

    [items."Table II"]
    title = "message processing in the city bus scenario"
    layout = "grid"                     # quantities down, settings across (see `layout`)
    tolerance = 0.15                    # how far ours may be off, as a share

    [items."Table II".quantities.received]
    unit = "count"
    values = { "none" = 106580, "120'" = 98610 }
    reason = "why ours differs, if it does"

Times are numbers of seconds or in the papers' own notation: `11h47'`, `43'50"`, `1'24"`, `4 ms`.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias

from antecast.core.settings import Settings, read_settings
from antecast.history.confidence import Estimate
from antecast.papers.findings import TOLERANCE, Finding, Unit, figure, statement

Layout: TypeAlias = Literal["grid", "spread", "list"]


class Quantity(Settings, frozen=True, kw_only=True):
    """A quantity of a table or figure, with the paper's value in each setting."""

    unit: Unit
    values: dict[str, float | str] = {}
    tolerance: float | None = None
    claim: str = ""
    """What the paper says in words, where it gives no number."""
    reason: str = ""
    """Why ours differs, if it does."""
    reasons: dict[str, str] = {}
    """The same for single settings."""
    fitted: list[str] = []
    """The settings whose figures were used to fit ours: that they agree says little."""


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
    tolerance: float = TOLERANCE
    quantities: dict[str, Quantity] = {}
    chart: Chart | None = None


class Paper(Settings, frozen=True, kw_only=True):
    """What a paper found."""

    title: str
    authors: str
    quick: str = ""
    """What the quick size of the study leaves out, as the reason for marks that are not those of the full size."""
    items: dict[str, Item]

    def value(self, item: str, quantity: str, setting: str) -> float | None:
        """The paper's number, times in seconds; None if it has none."""
        found = self.items[item].quantities[quantity].values.get(setting)
        return seconds(found) if isinstance(found, str) else found

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
            tolerance=self.items[item].tolerance if what.tolerance is None else what.tolerance,
            reason=reason or what.reasons.get(setting) or what.reason,
        )

    def statement(
        self, item: str, quantity: str, setting: str, *, holds: bool, observed: str, runs: int = 1
    ) -> Finding:
        """Whether what the paper says in words holds here."""
        what = self.items[item].quantities[quantity]
        return statement(
            item,
            quantity,
            setting,
            claim=what.claim,
            holds=holds,
            observed=observed,
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
