"""How the operator handles time: when a silent group's clock moves on, and when the group is forgotten.

Real time says something about a group only as far as all rows sent by then have been read. A micro-batch may be
slow, and after an outage much is waiting to be read. So:

- While rows of the group come, its clock is theirs, and real time does not count.
- Nor does it vouch for a row that leaps: in a backlog as much real time has passed, and the leap may be that of a
  wrong clock. Where all rows of a group are doubted its silence goes on, and the first micro-batch without rows
  decides.
- In a micro-batch that brought no rows at all to this task, everything there was has been read: the group's clock
  moves on by the real time that has passed since its last rows, less the slack.
- In a micro-batch that brought rows of other groups, more may be waiting. How fast it is being read shows in the
  clocks of those groups: how far they moved, and in how much real time. The group's clock moves on at that pace,
  which is that of real time where nothing waits, and slow while a backlog is read. Only differences count: groups
  may count time from different days, and some may have been read further than others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from antecast.spark.observe_group import Header

Timers: TypeAlias = Literal["none", "event", "processing"]
_MS = 10**6


@dataclass
class Timekeeper:
    """One for each task, that is, for the groups of a partition in one micro-batch."""

    timers: Timers
    tick: int
    """Nanoseconds."""
    slack: int
    """Milliseconds, as everywhere in Spark."""
    forget: int | None = None
    """For how long a group in which nothing waits may be silent before it is forgotten."""
    busy: bool = False
    """Whether this micro-batch has brought rows. How far the clocks of their groups have moved since their last
    rows, in ticks, and in how much real time:"""
    moved: int = 0
    took: int = 0

    def of_a_task(self) -> Timekeeper:
        return replace(self, busy=False, moved=0, took=0)

    def evidence(self, header: Header, real: int) -> int | None:
        """What the watermark says the clock of a group might show when rows come. Real time says nothing then:
        after an outage an hour has passed, and rows are read that were sent before it."""
        return real * _MS // self.tick if self.timers == "event" else None

    def rows_came(self, before: Header, header: Header, real: int) -> None:
        """A group has had rows, and its clock has moved with them."""
        self.busy = True
        if header.held and header.now == before.now:
            return  # all of them are doubted, or prove nothing: the silence may have been real, or not
        if before.now is not None and header.now is not None:
            self.moved += header.now - before.now
            self.took += self._ticks(real - before.fed)
        header.fed, header.looked, header.credit = real, real, 0

    def passed(self, header: Header, real: int) -> int | None:
        """The clock of a group that had no rows in this micro-batch; notes in the header that it was moved on."""
        if header.now is None:
            return None
        slack = self.slack * _MS // self.tick
        if self.timers == "event":
            return max(header.now, real * _MS // self.tick - slack)
        gone = self._ticks(real - header.fed)
        if self.busy:
            since = self._ticks(real - max(header.looked, header.fed))
            pace = min(max(self.moved / self.took, 0.0), 1.0) if self.took else 0.0
            header.credit += int(pace * since)
            gone = min(gone, header.credit)
        header.looked = real
        if gone <= slack:
            return header.now
        header.fed, header.credit = real - self.slack, slack
        return header.now + gone - slack

    def next_timer(self, header: Header, due: int | None, real: int) -> int | None:
        """When to look at a group again, in milliseconds: when a row can go, or when it can be forgotten."""
        if self.timers == "none" or header.now is None:
            return None
        if due is None:
            return None if self.forget is None else self._silent_since(header) + self.forget
        if self.timers == "event":
            return -(-due * self.tick // _MS) + self.slack + 1
        return max(header.fed + -(-(due - header.now) * self.tick // _MS) + self.slack, real) + 1

    def forgotten(self, header: Header, due: int | None, real: int) -> bool:
        """Whether a group can be dropped: nothing waits in it, and nothing has come for long."""
        if self.forget is None or due is not None or header.now is None:
            return False
        return real >= self._silent_since(header) + self.forget

    def _ticks(self, milliseconds: int) -> int:
        return max(0, milliseconds) * _MS // self.tick

    def _silent_since(self, header: Header) -> int:
        assert header.now is not None
        return header.fed if self.timers == "processing" else -(-header.now * self.tick // _MS)
