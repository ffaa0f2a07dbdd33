"""Findings: one figure or statement of a paper, ours beside it, and whether they agree.

A figure agrees if it lies within the item's tolerance of the paper's, or if the paper's lies within the
confidence interval of ours. One that differs has a reason; where nobody knows one, it says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from antecast.history.confidence import Estimate

Unit: TypeAlias = Literal["count", "number", "s", "ut", "share", "bytes", "statement"]
"""`ut` is the unit of time of a paper that names none; a share is shown in per cent."""

TOLERANCE = 0.15
UNEXPLAINED = "not explained"


class Mark(StrEnum):
    AGREES = "agrees"
    DIFFERS = "differs"
    INCOMPARABLE = "cannot be compared"


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
    mark: Mark
    claim: str = ""
    """What the paper says, where it says it in words."""
    observed: str = ""
    """What we saw of it, in words."""
    reason: str = ""
    """Why ours differs or cannot be compared."""

    @property
    def off(self) -> float | None:
        """How far ours is from the paper's, as a share of it."""
        return None if self.paper is None or self.ours is None or not self.paper else self.ours / self.paper - 1


def figure(
    item: str,
    quantity: str,
    setting: str,
    unit: Unit,
    *,
    paper: float | None,
    ours: Estimate | None,
    tolerance: float = TOLERANCE,
    reason: str = "",
) -> Finding:
    """A number of the paper beside ours; without one of the two it cannot be compared, and `reason` says why."""
    if ours is None or paper is None:
        mark = Mark.INCOMPARABLE
    else:
        near = abs(ours.mean - paper) <= tolerance * abs(paper)
        inside = ours.low is not None and ours.high is not None and ours.low <= paper <= ours.high
        mark = Mark.AGREES if near or inside else Mark.DIFFERS
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
        mark=mark,
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
    """What a reader should know of how it was made: sizes, fits, cuts."""

    def summary(self) -> dict[str, Any]:
        """How many findings have which mark, and the notes."""
        marks = {str(mark): count for mark, count in count_marks(self.findings).items()}
        return {"study": self.study, "marks": marks, "notes": list(self.notes)}

    def to_pandas(self) -> Any:
        """A row for each finding, as a pandas DataFrame."""
        return as_table(self.findings).to_pandas()

    def __repr__(self) -> str:
        marks = ", ".join(f"{count} {mark}" for mark, count in self.summary()["marks"].items())
        return f"Results({self.study}: {marks})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_pandas().to_html(index=False)}"


SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("item", "quantity", "setting", "unit")),
        *((name, pa.float64()) for name in ("paper", "ours", "low", "high")),
        ("runs", pa.int64()),
        *((name, pa.string()) for name in ("mark", "claim", "observed", "reason")),
    ]
)


def as_table(findings: Iterable[Finding]) -> pa.Table:
    """Findings as an Arrow table, one row each."""
    rows = [{name: getattr(each, name) for name in SCHEMA.names} for each in findings]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def from_table(table: pa.Table) -> list[Finding]:
    """What `as_table` made of them."""
    return [Finding(**row | {"mark": Mark(row["mark"])}) for row in table.select(SCHEMA.names).to_pylist()]


def count_marks(findings: Iterable[Finding]) -> dict[Mark, int]:
    counts = dict.fromkeys(Mark, 0)
    for each in findings:
        counts[each.mark] += 1
    return counts
