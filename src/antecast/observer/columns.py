"""What `batch` works on: timestamps, the state of an observer and the outcome of a call, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antecast.observer.front import Front
from antecast.observer.pace import UNKNOWN, Pace
from antecast.observer.policy import Longs, Policy
from antecast.observer.timestamps import Timestamp

Flags: TypeAlias = NDArray[np.bool_]

__all__ = ["UNKNOWN", "Batch", "Carried", "Flags", "Stamps"]


@dataclass(frozen=True, eq=False)
class Stamps:
    """Timestamps as columns."""

    r: Longs
    c: Longs
    kn: Longs
    """One row per message, one column per element."""
    before: Longs
    source: Longs
    """Numbers that tell sources apart. They only break ties among concurrent messages: hashes will do."""

    def __len__(self) -> int:
        return len(self.r)

    @classmethod
    def make(cls, r: Longs, source: Longs, *, c: Longs | None = None, kn: Longs | None = None) -> Stamps:
        """Stamps without `before`; also without c and kn, unless they are given."""
        size = len(r)
        c = np.zeros(size, np.int64) if c is None else c
        kn = np.zeros((size, 0), np.int64) if kn is None else kn.reshape(size, -1)
        return cls(r, c, kn, np.full(size, UNKNOWN), source)

    @classmethod
    def gather(cls, stamps: Sequence[tuple[Timestamp, int]], width: int) -> Stamps:
        """Single stamps with their sources, as columns."""
        size = len(stamps)
        kn = np.array([stamp.kn for stamp, _ in stamps], np.int64).reshape(size, width)
        rest = [(s.r, s.c, UNKNOWN if s.before is None else s.before, source) for s, source in stamps]
        r, c, before, source = np.array(rest, np.int64).reshape(size, 4).T
        return cls(r, c, kn, before, source)

    def take(self, rows: Longs | slice) -> Stamps:
        return Stamps(self.r[rows], self.c[rows], self.kn[rows], self.before[rows], self.source[rows])

    def __add__(self, other: Stamps) -> Stamps:
        both = zip(self._columns(), other._columns(), strict=True)
        return Stamps(*(np.concatenate(pair) for pair in both))

    def _columns(self) -> tuple[Longs, ...]:
        return self.r, self.c, self.kn, self.before, self.source

    def keys(self) -> Longs:
        """What is compared, one row per message: r + c, the elements, the source."""
        return np.column_stack([self.r + self.c, self.kn, self.source])

    def at(self, row: int) -> Timestamp:
        before = int(self.before[row])
        kn = tuple(self.kn[row].tolist())
        return Timestamp(int(self.r[row]), int(self.c[row]), kn, None if before == UNKNOWN else before)


@dataclass(frozen=True, eq=False)
class Carried:
    """What an observer keeps from call to call. Rows: first the buffer, then doubted stamps."""

    stamps: Stamps
    arrived: Longs
    due: Longs
    held: int = 0
    """How many of the rows, at the end, are doubted."""
    now: int | None = None
    position: int = 0
    top: Longs | None = None
    late: int = 0
    resets: int = 0
    front: Front = field(default_factory=Front)
    pace: Pace | None = None
    """For the mode `paced`."""

    def __len__(self) -> int:
        return len(self.arrived)

    @classmethod
    def nothing(cls, policy: Policy) -> Carried:
        none = np.zeros(0, np.int64)
        stamps = Stamps(none, none, none.reshape(0, policy.width), none, none)
        return cls(stamps, none, none, pace=Pace.start(policy) if policy.mode == "paced" else None)


@dataclass(frozen=True, eq=False)
class Batch:
    """The outcome of a call. Rows are numbered consecutively: the carried ones, then the new ones."""

    delivered: Longs
    """Rows in the order of their delivery."""
    first: int
    """The position of the first of them."""
    waited: Longs
    late: Flags
    refused: Longs
    reason: Longs
    """For each refused row, an index into `REASONS`."""
    kept: Longs
    """Rows that are carried on, in the order of `carried`."""
    carried: Carried
