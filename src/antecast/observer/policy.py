"""Delivery policies: when an observer lets a message go, and what it compares
("Approximate causal observer", sections 3.2, 4 and 6.5).

A message m is *due* at a reading of the observer's clock and is let go when the clock has **passed** it,
at the end of that tick: a message may still arrive during it, and letting go at its start breaks the
order. Dues are whole ticks. With W = δ + ε, the modes are:

| mode           | due                  | looks at the queue | at 100 % |
|----------------|----------------------|--------------------|----------|
| `exact`        | r + c + W            | no                 | exact    |
| `earlier-send` | before + W           | no                 | exact, and sooner where messages are rare |
| `dapw`         | r + p (c + W)        | no                 | exact    |
| `cbd`          | r + p (c + W)        | yes                | exact    |
| `margin`       | r + c + p W          | no                 | exact    |
| `paced`        | r + c + w            | yes                | as exact as its target |

`cbd` (check before delivery) never lets a message go before another in its queue whose timestamp is
smaller: one heap by timestamp, from which the top goes when it is due. That is the paper's rule without
its scans. What goes at one reading of the clock goes in the order of the timestamps, in every mode.

What is compared is the timestamp: `bounded` with all or some elements of kn (none: DPC2), `hybrid`, or
`physical` time alone (DPC1). Only whole timestamps and hybrid clocks are exact.

Why `exact` is exact: everything before m was sent when its sender's clock was at most r + c of m, so it has
arrived once that clock is past r + c + δ, which is so when any clock is past r + c + δ + ε. `earlier-send` uses
the largest clock reading of an earlier *send* in the same way.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from antecast.core.settings import Settings
from antecast.observer.bounds import Bounds
from antecast.observer.timestamps import FURTHEST, Timestamp

Mode: TypeAlias = Literal["exact", "earlier-send", "dapw", "cbd", "margin", "paced"]
Stamps: TypeAlias = Literal["bounded", "hybrid", "physical"]
Longs: TypeAlias = NDArray[np.int64]
N = TypeVar("N", int, Longs)

MODES: tuple[Mode, ...] = ("exact", "earlier-send", "dapw", "cbd", "margin", "paced")


class Policy(Settings, frozen=True, kw_only=True):
    """How to observe.

    >>> policy = Policy(bounds=Bounds(epsilon=10, delta=10), mode="cbd", percent=40)
    >>> policy.due(100, 5, 0)
    110
    """

    bounds: Bounds
    mode: Mode = "cbd"
    percent: Annotated[int, msgspec.Meta(ge=0, le=100)] = 100
    """How much of the exact waiting time to wait, in percent: c of the paper."""
    stamps: Stamps = "bounded"
    elements: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """How many elements of kn a bounded timestamp has; default: all ε + 1."""
    violations: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    """The share of violations to allow, in the mode `paced`."""

    def __post_init__(self) -> None:
        if self.elements is not None and self.stamps != "bounded":
            raise ValueError(f"elements of kn are for bounded timestamps, but stamps is {self.stamps!r}")
        if self.elements is not None and self.elements > self.bounds.epsilon + 1:
            raise ValueError(f"elements must be at most {self.bounds.epsilon + 1} (ε + 1), got {self.elements}")
        if self.mode in ("exact", "earlier-send", "paced") and self.percent != 100:
            raise ValueError(f"{self.mode!r} waits as long as it must; percent is for dapw, cbd and margin")
        if (self.mode == "paced") != (self.violations is not None):
            raise ValueError("only the mode 'paced' takes, and needs, a share of violations to allow")
        if self.mode == "earlier-send" and self.stamps == "physical":
            raise ValueError("'earlier-send' needs `before`, which physical time alone does not give")

    @property
    def width(self) -> int:
        """How many elements a timestamp has."""
        if self.stamps == "bounded":
            return self.bounds.epsilon + 1 if self.elements is None else self.elements
        return 1 if self.stamps == "hybrid" else 0

    @property
    def most(self) -> int | None:
        """The largest value of an element."""
        return self.bounds.most_hybrid if self.stamps == "hybrid" else self.bounds.most

    @property
    def queued(self) -> bool:
        """Whether a message waits for those in the queue whose timestamps are smaller."""
        return self.mode in ("cbd", "paced")

    def due(self, r: N, c: N, before: N) -> N:
        """The reading of the observer's clock after which messages go: numbers or arrays of them."""
        wait = self.bounds.delta + self.bounds.epsilon
        if self.mode == "earlier-send":
            return before + wait
        if self.mode == "margin":
            return r + c + -(-self.percent * wait // 100)
        return r + -(-self.percent * (c + wait) // 100)

    def before(self, stamp: Timestamp) -> int:
        """`before` of a timestamp; where none is known, a reading so old that it changes nothing."""
        return stamp.latest - self.bounds.longest if stamp.before is None else stamp.before

    def excused(self, r: N, before: N, arrived: N) -> Any:
        """Whether messages that go after larger timestamps were still in time: flags, or arrays of them.

        Only `earlier-send` delivers concurrent messages out of the order of their timestamps. What depends on a
        message has a `before` no smaller than the message's own r and `before`, and goes W after that. So a
        message that came by then goes before all that depends on it.
        """
        if self.mode != "earlier-send":
            return arrived != arrived
        in_time = arrived - self.bounds.delta - self.bounds.epsilon
        return (in_time <= r) | (in_time <= before)

    def fault(self, stamp: Timestamp) -> str | None:
        """What is wrong with a timestamp at any time, or None."""
        if not -FURTHEST <= stamp.r <= FURTHEST:
            return OUT_OF_RANGE
        if stamp.c < 0:
            return NEGATIVE_C
        if stamp.c > self.bounds.epsilon:
            return LARGE_C
        if len(stamp.kn) != self.width:
            return WRONG_LENGTH
        most = self.most
        if any(count < 0 or (most is not None and count > most) for count in stamp.kn):
            return WRONG_COUNT
        if stamp.before is not None and stamp.before > stamp.latest:
            return WRONG_BEFORE
        return None


NEGATIVE_C = "c is negative"
LARGE_C = "c is larger than ε"
WRONG_LENGTH = "kn has the wrong length"
WRONG_COUNT = "a count of kn is out of its range"
WRONG_BEFORE = "before is later than r + c"
FUTURE = "r is far in the future"
OUT_OF_RANGE = "r is beyond 2⁶² ticks"
