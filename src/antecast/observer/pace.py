"""How long to wait for a chosen level of violations: the mode `paced`.

A message goes when the clock has passed r + c + w, and never before one in the queue whose timestamp is smaller.
How small w may be is measured on the stream itself. Say that x arrives at reading a, and y arrived before it with
a larger timestamp, r + c = M. If M + w < a, y has gone: x comes too late and y went too early. So the pair is in
order if and only if w ≥ a − M, whatever w was at the time. Every arrival shows what *each* w would have done:

- x would be too late with every w below the largest a − M of such y;
- y would be too early with every w below the largest a − M of such x.

Two histograms of these, which forget as rows go by, give the rate for each w; the paper's measure is the mean of
both shares. The smallest w whose rate is below the target, by a margin, is taken for the next row. Where rows are
dense, one straggler can make many rows too early at once, so the margin has room for one more of the largest such
clump there has been. Until there are enough rows to tell, and while more rows have gone wrong than the target
allows, recently or in all, w is δ + ε, which is exact.

No histogram foretells growing delays. Two rules guard against them:

- *Never risk more than can be lost.* A row that went at w can still be overtaken until δ + ε have passed: at n
  rows per tick, n (δ + ε − w) are at risk at any time. w is never so small that losing all of them would lift the
  rate, over all rows so far, above the target. n is the largest there has been of late: while most sources are cut
  off few rows come, and the many that will come are those at risk.
- *What is already waiting waits longer too.* When w grows, the dues of rows that have not gone yet are raised with
  it. So once stragglers are seen, only rows that were gone by then can still go wrong.

What is measured is the order of the timestamps, of which causal order is a part: true violations are as many or
fewer. Where rows carry `before`, pairs are left out that cannot depend on each other: if x → y then y's `before`
is at least x's r and x's own `before`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.observer.policy import Longs, Policy

Waiting: TypeAlias = tuple[Longs, Longs]
"""Rows that wait: r + c of each, and when it is due."""
UNKNOWN = -(1 << 63)
"""`before` where none is known."""
STEPS = 64
"""The number of steps from 0 to δ + ε among which the wait is chosen."""
MARGIN = 0.75
"""The part of the target to aim at: the future is not quite like the past."""
MEMORY = 10
"""How many violations' worth of rows are remembered, at the target rate."""
WINDOWS = 20
"""And at least this many times the rows that can still be overtaken."""

_LOW, _BEFORE, _ARRIVED, _DUE, _STEP, _WRONG = range(6)
_FIELDS = 6
_ROWS, _LATE, _EARLY, _ALL_ROWS, _ALL_LATE, _ALL_EARLY = range(6)


def _counts() -> NDArray[np.float64]:
    return np.zeros(6)


@dataclass(eq=False)
class Pace:
    """What is remembered of a stream: recent rows, the two histograms, and how many rows went wrong."""

    keys: Longs
    recent: Longs = field(default_factory=lambda: np.zeros((0, _FIELDS), np.int64))
    needs: NDArray[np.float64] = field(default_factory=lambda: np.zeros((3, STEPS + 2)))
    """For too late and too early: how many rows need this step of the wait. Then, the most rows that have needed
    it or more because of one straggler; and in the place of step 0, the most that came within δ + ε ticks."""
    counts: NDArray[np.float64] = field(default_factory=_counts)
    wait: int = 0
    """The wait chosen last."""

    @classmethod
    def start(cls, policy: Policy) -> Pace:
        return cls(np.zeros((0, policy.width + 2), np.int64))

    @property
    def rows(self) -> int:
        return int(self.counts[_ALL_ROWS])

    @property
    def rate(self) -> float:
        """The share of rows that went too late or too early, the mean of both, of all so far."""
        rows = self.counts[_ALL_ROWS]
        return float((self.counts[_ALL_LATE] + self.counts[_ALL_EARLY]) / (2 * rows)) if rows else 0.0

    def copy(self) -> Pace:
        return Pace(self.keys.copy(), self.recent.copy(), self.needs.copy(), self.counts.copy())

    def follow(
        self, policy: Policy, keys: Longs, r: Longs, before: Longs, arrived: Longs, waiting: Waiting | None = None
    ) -> Longs:
        """Rows have arrived at these readings of the clock, in this order; returns when each is due. The dues of
        rows that wait already are raised in place where the wait has grown before they went."""
        assert policy.violations is not None
        bounds, size = policy.bounds, len(self.keys)
        low = np.where(before == UNKNOWN, r, np.maximum(r, before))
        blank = np.zeros(len(r), np.int64)
        new = np.column_stack([low, before, arrived, blank, blank, blank])
        self.keys, self.recent = np.concatenate([self.keys, keys]), np.concatenate([self.recent, new])
        order = np.lexsort(self.keys.T[::-1])
        rank = np.empty(len(order), np.int64)
        # Equal timestamps are not out of order, whichever comes first.
        step = (self.keys[order[1:]] != self.keys[order[:-1]]).any(axis=1) if len(order) else np.zeros(0, bool)
        rank[order] = np.append(0, np.cumsum(step))[: len(order)]
        wait, target = bounds.delta + bounds.epsilon, policy.violations
        latest, source = np.ascontiguousarray(self.keys[:, 0]), np.ascontiguousarray(self.keys[:, -1])
        held, dues = (np.zeros(0, np.int64), np.zeros(0, np.int64)) if waiting is None else waiting
        self.wait = learn(
            rank, latest, source, self.recent, size, self.needs, self.counts, wait, target, bounds.longest,
            UNKNOWN, held, dues,
        )  # fmt: skip
        due = self.recent[size:, _DUE].copy()
        if len(arrived):
            near = self.recent[:, _ARRIVED] >= arrived[-1] - 2 * bounds.longest
            self.keys, self.recent = self.keys[near], self.recent[near]
        return due

    def dump(self) -> bytes:
        parts = (self.keys.astype("<i8"), self.recent.astype("<i8"), self.needs.astype("<f8"), self.counts)
        return len(self.keys).to_bytes(4, "big") + b"".join(each.tobytes() for each in parts)

    @classmethod
    def load(cls, data: bytes, policy: Policy) -> Pace:
        size, width = int.from_bytes(data[:4], "big"), policy.width + 2
        cells = np.frombuffer(data, "<i8", size * (width + _FIELDS), 4).astype(np.int64)
        rest = np.frombuffer(data, "<f8", -1, 4 + 8 * len(cells)).astype(np.float64)
        return cls(
            cells[: size * width].reshape(size, width),
            cells[size * width :].reshape(size, _FIELDS),
            rest[: 3 * (STEPS + 2)].reshape(3, STEPS + 2),
            rest[3 * (STEPS + 2) :].copy(),
        )


def measured_by(dump: bytes) -> tuple[float, float]:
    """How many rows a dumped pace has seen, and how many went wrong, as the mean of too late and too early."""
    rows, late, early = np.frombuffer(dump[-24:], "<f8")
    return float(rows), float(late + early) / 2


@compiled
def learn(
    rank: Longs,
    latest: Longs,
    source: Longs,
    recent: Longs,
    size: int,
    needs: NDArray[np.float64],
    counts: NDArray[np.float64],
    wait: int,
    target: float,
    longest: int,
    unknown: int,
    held: Longs,
    dues: Longs,
) -> int:
    """Go through rows from `size` on, and write when each is due into `recent`; returns the wait chosen last."""
    first = 0
    near = 0
    before = -1
    clump = np.zeros(STEPS + 2)
    for row in range(size, len(rank)):
        now = recent[row, 2]
        while recent[first, 2] < now - 2 * longest:
            first += 1
        keep = 1.0 - 1.0 / max(MEMORY / target, WINDOWS * (row - first + 1.0))
        needs *= keep
        while recent[near, 2] < now - wait:
            near += 1
        needs[2, 0] = max(needs[2, 0], row - near + 1.0)
        counts[:3] *= keep
        need = 0
        late = False
        for other in range(first, row):
            lag = now - latest[other]
            if lag <= 0 or rank[other] <= rank[row]:
                continue
            known = recent[other, 1]
            if known != unknown and known < recent[row, 0] and source[other] != source[row]:
                continue
            step = STEPS + 1 if lag > wait else -(-lag * STEPS // wait)
            need = max(need, step)
            clump[step] += 1.0
            if step > recent[other, 4]:
                needs[1, recent[other, 4]] -= 1.0
                needs[1, step] += 1.0
                recent[other, 4] = step
            if recent[other, 3] < now:
                late = True
                if recent[other, 5] == 0:
                    recent[other, 5] = 1
                    counts[2] += 1.0
                    counts[5] += 1.0
        at_least = 0.0
        for step in range(need, 0, -1):
            at_least += clump[step]
            clump[step] = 0.0
            needs[2, step] = max(needs[2, step], at_least)
        needs[0, need] += 1.0
        needs[1, 0] += 1.0
        counts[0] += 1.0
        counts[3] += 1.0
        if late:
            counts[1] += 1.0
            counts[4] += 1.0
        chosen = STEPS
        fine = counts[1] + counts[2] <= 2.0 * target * counts[0]
        fine = fine and counts[4] + counts[5] <= 2.0 * target * counts[3]
        if fine and counts[3] >= 2.0 * (row - first + 1.0):
            above = (needs[0, STEPS + 1] + needs[1, STEPS + 1]) / 2.0
            allowed = MARGIN * target * counts[0] - 0.5
            spare = 2.0 * target * counts[3] - counts[4] - counts[5]
            at_risk = needs[2, 0] / STEPS  # for each step less than all
            while chosen > 0 and (STEPS - chosen + 1) * at_risk <= spare:
                above += (needs[0, chosen] + needs[1, chosen]) / 2.0
                if above + max(1.0, needs[2, chosen]) / 2.0 > allowed:
                    break
                chosen -= 1
        chosen = -(-chosen * wait // STEPS)
        recent[row, 3] = max(now, latest[row] + chosen)
        if chosen > before:
            for other in range(first, row):
                if recent[other, 3] >= now:
                    recent[other, 3] = max(recent[other, 3], latest[other] + chosen)
            for each in range(len(held)):
                if dues[each] >= now:
                    dues[each] = max(dues[each], held[each] + chosen)
        before = chosen
    return before
