"""Findings: one figure or statement of a paper, ours beside it, and whether they agree.

A figure agrees if ours lies within a tolerance of the paper's. The paper's file states it, with an argument from
the paper itself: how it rounds, how much its own numbers scatter, how many cases they come from. Our confidence
interval decides nothing: a wide one would agree with everything.

A share is judged by its smaller side: 98.8 % against 95.2 % is 1.2 % against 4.8 % that is missing, a quarter, and
the same mark results whichever side the paper prints. One that differs has a reason; where none is known, it
says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from math import sqrt
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import pyarrow as pa

from antecast.core.settings import Settings
from antecast.history.confidence import Estimate

Unit: TypeAlias = Literal["count", "number", "s", "ut", "share", "bytes", "statement"]
"""`ut` is the unit of time of a paper that names none; a share is shown in per cent."""

UNEXPLAINED = "not explained"
_ROUNDING = 1e-9
"""The rounding error of decimal fractions in binary, as a share."""


def argued(why: str) -> None:
    """Refuse a limit without an argument."""
    if len(why.split()) < 3:
        raise ValueError(f"a limit needs an argument in words, from the paper itself: why = {why!r} is none")


class Tolerance(Settings, frozen=True, kw_only=True):
    """How far ours may be from the paper's, by the largest of these bounds, and the argument for it.

    Without any, ours has to be the same; a count may always be off by half, since it is printed whole.
    """

    share: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """A share of the paper's number, of the smaller side if that is a share itself: its own spread."""
    off: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """In the unit of the figure: how exactly it is printed or can be read."""
    sample: Annotated[int, msgspec.Meta(gt=0)] | None = None
    """How many cases the paper's share or count comes from: two standard deviations of such a sample."""
    why: str
    """The argument, from the paper itself: how it prints, how its own numbers scatter, what it counted."""

    def __post_init__(self) -> None:
        argued(self.why)

    def around(self, paper: float, unit: Unit, reading: float = 0.0) -> float:
        """How far ours may be from this number of the paper, given how exactly it is printed.

        >>> Tolerance(share=0.5, why="only an example").around(0.98, "share")
        0.01...
        >>> Tolerance(sample=100, why="only an example").around(0.5, "share")
        0.1
        """
        scale = min(abs(paper), abs(1 - paper)) if unit == "share" else abs(paper)
        sampling = 0.0
        if self.sample is not None:
            part = paper if unit == "share" else paper / self.sample
            deviation = sqrt(max(0.0, part * (1 - part)) / self.sample)
            sampling = 2 * deviation * (1 if unit == "share" else self.sample)
        return max(self.share * scale, self.off, sampling, reading, 0.5 if unit == "count" else 0.0)


class Mark(StrEnum):
    AGREES = "agrees"
    DIFFERS = "differs"
    OURS_ONLY = "ours only"
    """The paper has no number for it."""
    PAPER_ONLY = "paper only"
    """Nothing of ours stands beside it, with the reason: it was not run, or there was nothing to measure."""


_WORDS = {
    Mark.AGREES: ("agrees", "agree"),
    Mark.DIFFERS: ("differs", "differ"),
    Mark.OURS_ONLY: ("is ours only", "are ours only"),
    Mark.PAPER_ONLY: ("is the paper's only", "are the paper's only"),
}
"""Marks of one finding and of several, for people."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    item: str
    """The table or figure of the paper, such as `Table II`."""
    quantity: str
    setting: str
    unit: Unit
    paper: float | None
    """The paper's number; None for statements, and where the paper has none."""
    ours: float | None
    low: float | None = None
    high: float | None = None
    runs: int = 1
    within: float | None = None
    """How far ours may be from the paper's to agree."""
    mark: Mark
    claim: str = ""
    """What the paper says, where it says it in words."""
    observed: str = ""
    """What we saw, in words."""
    why: str = ""
    """The argument for the limit."""
    reason: str = ""
    """Why ours differs, or why there is none of the paper's or of ours."""

    @property
    def off(self) -> float | None:
        """How far ours is from the paper's, as a share of it."""
        return None if self.paper is None or self.ours is None or not self.paper else self.ours / self.paper - 1

    @property
    def open(self) -> bool:
        """Whether more runs could change the mark: our confidence interval holds values that have another."""
        if self.paper is None or self.within is None or self.low is None or self.high is None:
            return False
        least, most = self.paper - self.within, self.paper + self.within
        if self.mark is Mark.AGREES:
            return self.low < least or self.high > most
        return self.low <= most and self.high >= least


def clearly_less(a: Estimate, b: Estimate) -> bool:
    """Whether a lies below b by more than chance: their intervals, if there are any, do not meet.

    >>> clearly_less(Estimate(1, 0.5, 1.5, 3), Estimate(2, 1.6, 2.4, 3))
    True
    >>> clearly_less(Estimate(1, 0.5, 1.7, 3), Estimate(2, 1.6, 2.4, 3))
    False
    """
    return (a.mean if a.high is None else a.high) < (b.mean if b.low is None else b.low)


def figure(
    item: str,
    quantity: str,
    setting: str,
    unit: Unit,
    *,
    paper: float | None,
    ours: Estimate | None,
    tolerance: Tolerance | None = None,
    reading: float = 0.0,
    reason: str = "",
) -> Finding:
    """A number of the paper beside ours; without one of the two there is nothing to judge, and `reason` says why.

    Where there are both, there must be a tolerance. `reading` is what rounding in print may hide of the paper's.
    """
    within = None
    if ours is None or paper is None:
        mark = Mark.OURS_ONLY if paper is None else Mark.PAPER_ONLY
    elif tolerance is None:
        raise ValueError(f"{item}, {quantity}: a number cannot be judged without a tolerance")
    else:
        within = tolerance.around(paper, unit, reading)
        near = abs(ours.mean - paper) <= within + _ROUNDING * abs(paper)
        mark = Mark.AGREES if near else Mark.DIFFERS
    return Finding(
        item=item,
        quantity=quantity,
        setting=setting,
        unit=unit,
        paper=paper,
        ours=None if ours is None else ours.mean,
        low=None if ours is None else ours.low,
        high=None if ours is None else ours.high,
        runs=0 if ours is None else ours.runs,
        within=within,
        mark=mark,
        why="" if within is None or tolerance is None else tolerance.why,
        reason="" if mark is Mark.AGREES else reason or UNEXPLAINED,
    )


def statement(
    item: str,
    quantity: str,
    setting: str,
    *,
    claim: str,
    holds: bool,
    observed: str,
    why: str = "",
    reason: str = "",
    runs: int = 1,
) -> Finding:
    """What the paper says in words, whether it holds here, and what was seen."""
    return Finding(
        item=item,
        quantity=quantity,
        setting=setting,
        unit="statement",
        paper=None,
        ours=None,
        runs=runs,
        mark=Mark.AGREES if holds else Mark.DIFFERS,
        claim=claim,
        observed=observed,
        why=why,
        reason="" if holds else reason or UNEXPLAINED,
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class Results:
    """What a study has found."""

    study: str
    findings: Sequence[Finding]
    figures: Mapping[str, pa.Table] = field(default_factory=dict)
    """The points of each figure, by the name of its file; the first columns name the curve."""
    notes: Sequence[str] = ()
    """What a reader should know about how it was made: sizes, fits, cuts."""

    def summary(self) -> dict[str, Any]:
        """The headline, how many findings have which mark, and the notes."""
        found = headline(self.findings)
        marks = {str(mark): count for mark, count in found.marks.items()}
        return {"study": self.study, "headline": found.text, "marks": marks, "notes": list(self.notes)}

    def to_pandas(self) -> Any:
        """A row for each finding, as a pandas DataFrame."""
        return as_table(self.findings).to_pandas()

    def __repr__(self) -> str:
        marks = ", ".join(f"{count} {mark}" for mark, count in self.summary()["marks"].items() if count)
        return f"Results({self.study}: {marks})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_pandas().to_html(index=False)}"


SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("item", "quantity", "setting", "unit")),
        *((name, pa.float64()) for name in ("paper", "ours", "low", "high")),
        ("runs", pa.int64()),
        ("within", pa.float64()),
        *((name, pa.string()) for name in ("mark", "claim", "observed", "why", "reason")),
    ]
)


def as_table(findings: Iterable[Finding]) -> pa.Table:
    """Findings as an Arrow table, one row each."""
    rows = [{name: getattr(each, name) for name in SCHEMA.names} for each in findings]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def from_table(table: pa.Table) -> list[Finding]:
    """What `as_table` made of them."""
    known = {str(mark) for mark in Mark}
    strange = set(table["mark"].to_pylist()) - known if "mark" in table.column_names else set()
    if missing := [name for name in SCHEMA.names if name not in table.column_names]:
        raise ValueError(f"findings of another version, without {missing[0]!r}: make the study again")
    if strange:
        raise ValueError(f"findings of another version, with the mark {min(strange)!r}: make the study again")
    return [Finding(**row | {"mark": Mark(row["mark"])}) for row in table.select(SCHEMA.names).to_pylist()]


def count_marks(findings: Iterable[Finding]) -> dict[Mark, int]:
    counts = dict.fromkeys(Mark, 0)
    for each in findings:
        counts[each.mark] += 1
    return counts


@dataclass(frozen=True)
class Headline:
    """A summary of all findings together."""

    marks: Mapping[Mark, int]
    mark: Mark
    """`agrees` if all that was judged agrees, `differs` if one thing does not; else that of what is there."""
    text: str


def headline(findings: Sequence[Finding]) -> Headline:
    """Marks counted, and one for all of them, which is never better than the worst."""
    counts = count_marks(findings)
    order = (Mark.DIFFERS, Mark.AGREES, Mark.OURS_ONLY, Mark.PAPER_ONLY)
    mark = next((each for each in order if counts[each]), Mark.PAPER_ONLY)
    known = [f"{counts[each]:,} {words[counts[each] > 1]}" for each, words in _WORDS.items() if counts[each]]
    undecided = sum(each.open for each in findings)
    text = f"Of {len(findings):,} figures and statements {', '.join(known) or 'none'}."
    if undecided:
        text += f" More runs could change {undecided:,} of these marks."
    return Headline(counts, mark, text)
