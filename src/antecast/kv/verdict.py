"""What a check of a key-value history says: an outcome per level, the violations it rests on, and witnesses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import pyarrow as pa

from antecast.kv.levels import LEVELS, Level, Outcome
from antecast.kv.witness import Witness
from antecast.text.wording import escaped, plural

EXIT_CODES: dict[Outcome, int] = {"kept": 0, "violated": 1, "inconclusive": 3}
"""What the command line exits with; 2 is for a history that cannot be read."""

SCHEMA = pa.schema(
    [
        pa.field("anomaly", pa.string()),
        pa.field("pattern", pa.string()),
        pa.field("level", pa.string()),
        pa.field("session", pa.string()),
        pa.field("txn", pa.string()),
        pa.field("operation", pa.string()),
        pa.field("file", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("other", pa.string()),
        pa.field("other_file", pa.string()),
        pa.field("other_line", pa.int64()),
        pa.field("txns", pa.list_(pa.string())),
    ]
)
"""Columns of the table of violations. `level` is the weakest level that forbids the anomaly; `other` is the write
in question, null if there is none; `txns` are the transactions that it takes to see the violation."""


@dataclass(frozen=True, eq=False)
class KvVerdict:
    """The result of a check. `violations` lists at most a limited number of rows of each anomaly."""

    levels: Mapping[Level, Outcome]
    required: tuple[Level, ...]
    operations: int
    transactions: int
    sessions: int
    counts: Mapping[str, int]
    """How often each anomaly was found; cycles are counted up to a number."""
    violations: pa.Table
    witnesses: tuple[Witness, ...]
    """The smallest witness of the first finding of each anomaly."""
    missing: tuple[str, ...]
    """What the history lacks for a verdict, and what would settle it."""
    assumptions: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        """Of the levels that are required, all of them by default."""
        outcomes = {self.levels[level] for level in self.required}
        if "violated" in outcomes:
            return "violated"
        return "inconclusive" if "inconclusive" in outcomes else "kept"

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]

    @property
    def witness(self) -> Witness | None:
        """The smallest witness of all."""
        return min(self.witnesses, key=lambda each: len(each.ops)) if self.witnesses else None

    @property
    def stories(self) -> tuple[Witness, ...]:
        """The witnesses, by the name that the other models have for theirs."""
        return self.witnesses

    def summary(self) -> dict[str, Any]:
        """The verdict as plain values, ready for JSON."""
        return {
            "verdict": self.outcome,
            "levels": dict(self.levels),
            "required": list(self.required),
            "operations": self.operations,
            "transactions": self.transactions,
            "sessions": self.sessions,
            "counts": dict(self.counts),
            "witness": None if self.witness is None else str(self.witness),
            "stories": [each.summary() for each in self.witnesses],
            "missing": list(self.missing),
            "assumptions": list(self.assumptions),
        }

    def to_pandas(self) -> Any:
        """The violations listed, as a pandas DataFrame."""
        return self.violations.to_pandas()

    def __repr__(self) -> str:
        return f"KvVerdict({self._headline()})"

    def _repr_html_(self) -> str:
        headline, _, rest = str(self).partition("\n")
        return f"<p><b>{escape(headline)}</b></p>" + (f"<pre>{escape(rest)}</pre>" if rest else "")

    def _headline(self) -> str:
        size = f"{plural(self.operations, 'operation')} in {plural(self.transactions, 'transaction')}"
        return f"{self.outcome}: {size} of {plural(self.sessions, 'session')}"

    def __str__(self) -> str:
        """The verdict for people: the outcome first, then what it rests on."""
        lines = [self._headline()]
        for outcome in ("kept", "violated", "inconclusive"):
            levels = [level for level in LEVELS if self.levels[level] == outcome]
            if levels:
                lines.append(f"  {outcome}: {', '.join(levels)}")
        lines += [f"  {count} {name}" for name, count in self.counts.items() if count]
        cut = sum(self.counts.values()) - len(self.violations)
        if cut > 0:
            lines.append(f"  {len(self.violations)} violations are listed, {cut} are not")
        lines += [f"  missing: {each}" for each in self.missing]
        lines += [f"  assumed: {each}" for each in self.assumptions]
        lines = [escaped(line) for line in lines]
        for witness in self.witnesses:
            lines += ["", str(witness)]
        return "\n".join(lines)
