"""From values to pixels, and the round numbers that an axis shows.

Texts are measured by a table of widths of a wide sans-serif face, so that what is kept apart here stays apart in
the reader's font.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TypeAlias

TICK_FONT = 11
TITLE_FONT = 12
_GAP = 10
"""Pixels between two texts of an axis."""
_SPARE = 0.03
"""Room behind the largest value, as a part of the axis: its mark is seen whole."""
_WIDTHS = {
    each: width
    for group, width in (("iljI.,:;'|!", 0.32), ("tfr()[]/- ", 0.42), ("mwMW@%", 0.98))
    for each in group
}


def text_width(text: str, font: float = TICK_FONT) -> float:
    """At most how many pixels a text takes.

    >>> text_width("ill", 10) < text_width("sea", 10) < text_width("mow", 10)
    True
    """
    return font * sum(_WIDTHS.get(each, 0.72 if each.isupper() else 0.64) for each in text)


def wrap(text: str, width: float, font: float = TITLE_FONT) -> list[str]:
    """A text in lines that fit a width; a word is never broken."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", font) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high` onto pixels from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        if self.log:
            value = max(value, self.low / 10)  # what a logarithm cannot show lies off the plot
            share = log10(value / self.low) / log10(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def domain(
    values: Sequence[float], *, log: bool, zero: bool, low: float | None, high: float | None
) -> tuple[float, float]:
    """The ends of an axis: those given, else of the values, from zero where asked for."""
    if log:
        values = [value for value in values if value > 0]
        least, most = (min(values), max(values)) if values else (1.0, 10.0)
        least, most = low or least, high or most
        return (least, most) if most > least else (least / 2, most * 2)
    least, most = (min(values), max(values)) if values else (0.0, 1.0)
    if zero:
        least, most = min(least, 0.0), max(most, 0.0)
    spare = _SPARE * (most - least)
    least, most = least if low is None else low, most + spare if high is None else high
    return (least, most) if most > least else (least, least + 1.0)


def round_steps(low: float, high: float, count: int, *, whole: bool = False) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, about `count` of them or fewer.

    >>> round_steps(0, 10, 5), round_steps(0, 2, 9, whole=True)
    ([0, 2, 4, 6, 8, 10], [0, 1, 2])
    """
    rough = (high - low) / max(1, count)
    power = 10.0 ** floor(log10(rough))
    step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough * 0.999)
    step = max(1.0, step) if whole else step
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    places = max(0, -floor(log10(step) + 1e-9))
    return [round(step * each, places) if places else round(step * each) for each in range(first, last + 1)]


def log_steps(low: float, high: float) -> list[float]:
    """Powers of ten, and 2 and 5 times these where there are few; round numbers where there are hardly any.

    >>> log_steps(1, 1000), log_steps(30, 70), log_steps(1000, 1010)
    ([1.0, 10.0, 100.0, 1000.0], [30, 40, 50, 60, 70], [1000, 1002, 1004, 1006, 1008, 1010])
    """
    powers = range(floor(log10(low) - 1e-9), ceil(log10(high) + 1e-9) + 1)
    few = log10(high / low) < 3
    found = [
        10.0**power * each
        for power in powers
        for each in ((1, 2, 5) if few else (1,))
        if low * 0.999 <= 10.0**power * each <= high * 1.001
    ]
    return found if len(found) > 2 else round_steps(low, high, 6)


def tick_text(value: float, *, share: bool = False) -> str:
    """
    >>> tick_text(1200), tick_text(0.25), tick_text(0.005, share=True), tick_text(4_300_000)
    ('1,200', '0.25', '0.5 %', '4.3M')
    """
    shown = round(value * 100, 9) if share else value
    short = f"{shown / 1e6:,.4g}M"
    if abs(shown) >= 1e6 and float(short[:-1].replace(",", "")) * 1e6 == shown:
        text = short
    elif shown and abs(shown) < 1e-4:
        text = f"{shown:.3g}"
    else:
        text = f"{shown:,.15g}"  # all digits that a step has rounded to
    return f"{text} %" if share else text


Ticks: TypeAlias = Sequence[tuple[float, str]]


def across(
    low: float, high: float, edge: float, scale: Callable[[float], float], *, log: bool, share: bool, whole: bool
) -> list[tuple[float, str]]:
    """Ticks of a horizontal axis in a picture that ends at `edge`, as many as fit beside each other."""
    if log:
        return spaced([(value, tick_text(value, share=share)) for value in log_steps(low, high)], scale, edge)
    room = scale(high) - scale(low)
    for count in range(max(2, round(room / 60)), 1, -1):
        ticks = [(value, tick_text(value, share=share)) for value in round_steps(low, high, count, whole=whole)]
        if len(thinned(ticks, scale, edge)) == len(ticks):
            return ticks
    return thinned(ticks, scale, edge)


def middle(x: float, text: str, edge: float) -> float:
    """Where the middle of a text stands, so that its ends are in the picture."""
    half = text_width(text) / 2
    return min(max(x, half), edge - half)


def thinned(ticks: Ticks, scale: Callable[[float], float], edge: float) -> list[tuple[float, str]]:
    """Every tick, or every second, third or later one, such that no text runs into another."""
    for step in range(1, len(ticks) + 1):
        kept = list(ticks[::step])
        if len(spaced(kept, scale, edge)) == len(kept):
            return kept
    return list(ticks[:1])


def spaced(ticks: Ticks, scale: Callable[[float], float], edge: float) -> list[tuple[float, str]]:
    """Those whose texts do not run into one before them."""
    kept: list[tuple[float, str]] = []
    end = float("-inf")
    for value, text in ticks:
        half = text_width(text) / 2
        at = middle(scale(value), text, edge)
        if at - half >= end:
            kept.append((value, text))
            end = at + half + _GAP
    return kept


def upwards(
    low: float, high: float, height: float, *, log: bool, share: bool, whole: bool
) -> list[tuple[float, str]]:
    """Ticks of a vertical axis."""
    values = log_steps(low, high) if log else round_steps(low, high, max(2, round(height / 42)), whole=whole)
    if log:
        room = max(2, round(height / 20))
        values = values[:: -(-len(values) // room)]
    return [(value, tick_text(value, share=share)) for value in values]
