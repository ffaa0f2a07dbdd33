"""Order by explicit dependencies once more, written to be obviously right: sets, lists and scans, row by row.

Rows are dictionaries with `id`, `needs` and `at`, and `when` where they wait by their own time. What is promised
on docs/data-sources.md is what is here; nothing is shared with the code under test, but for the words of its
reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass
class Oracle:
    """One group. `left` has what left, in order: the row, its position or None, late, reason and missing."""

    most: int = 1000
    remember: int = 1000
    wait: int | None = None
    give_up: str = "release"
    late: str = "deliver"
    rank: Callable[[Any], Any] | None = None
    """Which of the ids that a row goes without is forgotten first."""
    clock: int = 0
    position: int = 0
    waiting: list[Row] = field(default_factory=list)
    gone: list[Any] = field(default_factory=list)
    without: list[Any] = field(default_factory=list)
    left: list[tuple[Row, int | None, bool | None, str | None, list[Any] | None]] = field(default_factory=list)

    def now(self, clock: int) -> None:
        """The watermark has come so far. Rows that came without a time before there was any wait from now on."""
        if not self.clock:
            self.waiting = [{**row, "since": row["since"] or clock} for row in self.waiting]
        self.clock = max(self.clock, clock)

    def step(self, rows: Sequence[Row], *, order: Callable[[Row], Any] | None = None, flush: bool = False) -> None:
        """A micro-batch: new rows in the order of arrival; then those whose time is over are given up."""
        for row in sorted(rows, key=order or (lambda row: row["at"])):
            self._come(row)
        for row in list(self.waiting):
            over = flush or (self.wait is not None and row["since"] + self.wait <= self.clock)
            if any(row is each for each in self.waiting) and (over or len(self.waiting) > self.most):
                self._give_up(row, over=over)
        self.gone, self.without = self.gone[-self.remember :], self.without[-self.remember :]

    def _come(self, row: Row) -> None:
        own = row.get("when")
        row = {**row, "since": self.clock if own is None else own}
        needs = row["needs"] or []
        if row["id"] is None:
            return self._refuse(row, "the id is missing")
        if None in needs:
            return self._refuse(row, "one of the ids that it needs is missing")
        if row["id"] in self.gone or row["id"] in [each["id"] for each in self.waiting]:
            return self._refuse(row, "a row with the same key has come before")
        if row["id"] in needs:
            return self._refuse(row, "it needs itself")
        if self.late == "refuse" and row["id"] in self.without:
            return self._refuse(row, "came too late to be put in its place")
        row["unmet"] = [each for each in needs if each not in self.gone]
        self.waiting.append(row)
        return self._let_go()

    def _let_go(self) -> None:
        """Again and again the one that came first of those that can go."""
        while ready := [row for row in self.waiting if not row["unmet"]]:
            self._go(ready[0])

    def _go(self, row: Row, missing: list[Any] | None = None) -> None:
        self.waiting = [each for each in self.waiting if each is not row]
        self.gone.append(row["id"])
        late = row["id"] in self.without
        self.without = [each for each in self.without if each != row["id"]]
        self.left.append((row, self.position, late, None, missing))
        self.position += 1
        for each in self.waiting:
            each["unmet"] = [need for need in each["unmet"] if need != row["id"]]

    def _give_up(self, row: Row, *, over: bool) -> None:
        if self.give_up == "quarantine":
            self.waiting = [each for each in self.waiting if each is not row]
            reason = "what it needs did not come in time" if over else "too many rows wait"
            return self._refuse(row, reason, sorted(set(row["unmet"])))
        return self._release(row, [])

    def _release(self, row: Row, above: list[Row]) -> None:
        """What it needs among those that wait goes first, but for what it is released for."""
        while here := [
            each
            for each in self.waiting
            if each["id"] in row["unmet"] and not any(each is one for one in (*above, row))
        ]:
            self._release(here[0], [*above, row])
        if any(row is each for each in self.waiting):
            missing = sorted(set(row["unmet"]))
            self.without += [each for each in sorted(missing, key=self.rank) if each not in self.without]
            row["unmet"] = []
            self._go(row, missing or None)
            self._let_go()

    def _refuse(self, row: Row, reason: str, missing: list[Any] | None = None) -> None:
        self.left.append((row, None, None, reason, missing))
