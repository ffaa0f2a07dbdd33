"""What an audit says: the outcome, the counts and violations it rests on, and a witness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from antecast.history.violations import Tally
from antecast.history.witness import Witness
from antecast.text.wording import escaped

Outcome: TypeAlias = Literal["causal", "violated", "inconclusive"]

MOST_RUNS = 10
"""Runs that are named in words; all of them are in `Verdict.runs`."""

EXIT_CODES: dict[Outcome, int] = {"causal": 0, "violated": 1, "inconclusive": 3}
"""What the command line exits with; 2 is for a log that cannot be judged at all (`BrokenLog`)."""


def _count(count: int, word: str, many: str = "") -> str:
    return f"{count} {word if count == 1 else many or word + 's'}"


def outcome_of(tally: Tally, unsettled: Sequence[str] = ()) -> Outcome:
    if tally.violations:
        return "violated"
    return "inconclusive" if unsettled or tally.unknown or not tally.deliveries else "causal"


@dataclass(frozen=True, eq=False)
class Verdict:
    """The result of an audit. `violations` lists at most a limited number of rows of each problem."""

    messages: int
    tally: Tally
    pairs: int | None
    violations: pa.Table
    unknown_examples: tuple[str, ...] = ()
    witness: Witness | None = None
    runs: Mapping[object, Tally] = field(default_factory=dict)
    """The counts of each run, if the log has runs."""
    unsettled: tuple[str, ...] = ()
    """Why nothing can be said for sure though nothing is wrong: rows that seem to be missing."""
    assumed: str = ""
    """What was taken for granted about rows that are not in the log."""

    @property
    def outcome(self) -> Outcome:
        """Violations are real whatever is missing: an unknown message can only hide further ones.

        Where nothing was delivered there was no order to keep.
        """
        return outcome_of(self.tally, self.unsettled)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.outcome]

    @property
    def counts(self) -> dict[str, int | None]:
        """All counts by name; `pairs` is None if they were not asked for."""
        return asdict(self.tally) | {"messages": self.messages, "pairs": self.pairs}

    @property
    def outcomes(self) -> dict[object, Outcome]:
        """The verdict on each run. Rows that may be missing leave all of them open."""
        return {run: outcome_of(tally, self.unsettled) for run, tally in self.runs.items()}

    @property
    def cut(self) -> int:
        """Violations that were counted but are not in the table."""
        return self.tally.violations - len(self.violations)

    def summary(self) -> dict[str, Any]:
        """The verdict as plain values, ready for JSON."""
        return {
            "verdict": self.outcome,
            "counts": self.counts,
            "witness": None if self.witness is None else str(self.witness),
            "unknown_examples": list(self.unknown_examples),
            "unsettled": list(self.unsettled),
            "assumed": self.assumed,
            "runs": {
                str(run): {"verdict": self.outcomes[run]} | asdict(tally) for run, tally in self.runs.items()
            },
        }

    def to_pandas(self) -> Any:
        """The violations listed, as a pandas DataFrame."""
        return self.violations.to_pandas()

    def __repr__(self) -> str:
        found = f", {self.tally.violations} violations" if self.tally.violations else ""
        return f"Verdict({self.outcome}: {self.tally.deliveries} deliveries of {self.messages} messages{found})"

    def _repr_html_(self) -> str:
        headline, _, rest = str(self).partition("\n")
        return f"<p><b>{escape(headline)}</b></p>" + (f"<pre>{escape(rest)}</pre>" if rest else "")

    def __str__(self) -> str:
        """The verdict for people: the outcome first, then what it rests on."""
        tally = self.tally
        scope = f"{_count(tally.deliveries, 'delivery', 'deliveries')} of {_count(self.messages, 'message')}"
        scope += f" at {_count(tally.nodes, 'node')}"
        lines = [f"{self.outcome}: {scope}"]
        found = {
            "delivered too early": tally.early - tally.early_broadcasts,
            "broadcast before something of their past was delivered": tally.early_broadcasts,
            "delivered too late": tally.late,
            "pairs in the wrong order": self.pairs or 0,
            "delivered again": tally.duplicates,
            "delivered before broadcast": tally.before_broadcast,
            "without a broadcast in the log": tally.unknown,
        }
        lines += [f"  {count} {words}" for words, count in found.items() if count]
        if self.unknown_examples:
            lines.append(f"  for example {'; '.join(self.unknown_examples)}")
        if self.cut:
            lines.append(f"  {len(self.violations)} violations are listed, {self.cut} are not")
        lines += [f"  {each}" for each in self.unsettled]
        if len(self.runs) > 1:
            lines += [f"  {line}" for line in self._run_lines()]
        if self.assumed:
            lines.append(f"  assumed: {self.assumed}")
        lines = [escaped(line) for line in lines]
        return "\n".join(lines if self.witness is None else [*lines, "", str(self.witness)])

    def _run_lines(self) -> list[str]:
        """How many runs have each verdict, and the first runs that are not causal."""
        outcomes = self.outcomes
        counts = Counter(outcomes.values())
        lines = [f"runs: {', '.join(f'{counts[each]:,} {each}' for each in EXIT_CODES if counts[each])}"]
        wrong = [(run, each) for run, each in outcomes.items() if each != "causal"]
        lines += [f"  run {run}: {each}" for run, each in wrong[:MOST_RUNS]]
        return [*lines, f"  and {len(wrong) - MOST_RUNS:,} more"] if len(wrong) > MOST_RUNS else lines
