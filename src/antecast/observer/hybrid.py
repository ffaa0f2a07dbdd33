"""Hybrid logical clocks ("Logical physical clocks and consistent snapshots in globally distributed
databases", Kulkarni, Demirbas, Madappa, Avva and Leone) as a source of timestamps.

A hybrid clock is a pair (l, counter): l is the largest physical clock reading in the causal past,
which is M = r + c of a bounded timestamp, and the counter tells events of one l apart. So a
hybrid stamp is a timestamp with c = l − physical time and the counter as its only element, and its
order is exact: e → f implies (l, counter) of e < that of f. With ε = δ = n = 10 it takes two bytes
(`encoding`), where ⟨r, c, kn⟩ takes seven or more.

The stamps of a process keep its own order, whatever its clock does. If the clock is set back by more than ε, r
stands still at M − ε until the clock has caught up; if there are more events in a tick than promised, M moves on
by a tick. Both are counted (`forced`). Others, whose clocks are right, refuse a process that goes on like this for
long.
"""

from __future__ import annotations

from antecast.observer.bounds import Bounds
from antecast.observer.timestamps import Timestamp, acceptable, later


class HybridClock:
    """Stamps the messages of one process. `now` is its physical clock, in ticks.

    >>> ada, ben = (HybridClock(Bounds(epsilon=2, delta=5)) for _ in range(2))
    >>> ben.receive(ada.send(now=10), now=9)
    True
    >>> ben.send(now=9)
    Timestamp(r=9, c=1, kn=(2,), before=10)
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._latest = 0
        self._counter = 0
        self._before: int | None = None
        self._read = 0
        self.resets = 0
        """How often this process's own state was impossible."""
        self.refused = 0
        """How many stamps were ignored."""
        self.forced = 0
        """How many events have an r ahead of the clock, since the process could not keep its order otherwise."""

    def local(self, now: int) -> None:
        self._event(now, None)

    def send(self, now: int) -> Timestamp:
        r = self._event(now, None)
        stamp = Timestamp(r, self._latest - r, (self._counter,), self._before)
        self._before = r if self._before is None else max(self._before, r)
        return stamp

    def receive(self, stamp: Timestamp, now: int) -> bool:
        """A message is received; False if its stamp was impossible and only the event counts."""
        most = self.bounds.most_hybrid
        # This receipt counts one more: a counter that leaves no room for it breaks somebody's promise.
        learned = acceptable(stamp, now, self.bounds, 1, None if most is None else most - 1)
        self.refused += not learned
        self._event(now, stamp if learned else None)
        return learned

    def reset(self, now: int) -> None:
        """Forget the past, for a process whose clock was ahead and has been put right. What it stamped before
        sorts after what it stamps from now on."""
        self._latest, self._counter, self._before, self._read = now, 0, None, now

    def _event(self, now: int, stamp: Timestamp | None) -> int:
        """Count an event; returns its r."""
        if not self._possible(now):
            self.resets += 1
            self.reset(now)
        latest = max(self._latest, now)
        counter = self._counter + 1 if latest == self._latest else 0
        if stamp is not None:
            self._before = later(self._before, later(stamp.before, stamp.r))
            if stamp.latest > latest:
                latest, counter = stamp.latest, stamp.kn[0] + 1
            elif stamp.latest == latest:
                counter = max(counter, stamp.kn[0] + 1)
        most = self.bounds.most_hybrid
        if most is not None and counter > most:
            latest, counter = latest + 1, 0  # borrow one tick from the future
        r = max(now, latest - self.bounds.epsilon)
        self.forced += r > now
        self._latest, self._counter, self._read = latest, counter, max(self._read, r)
        return r

    def _possible(self, now: int) -> bool:
        """Whether events can lead to this state. M may be more than ε ahead of a clock that was set back, but not
        of the largest reading there has been."""
        most = self.bounds.most_hybrid
        return (
            self._latest <= max(now, self._read) + self.bounds.epsilon
            and self._counter >= 0
            and (most is None or self._counter <= most)
            and (self._before is None or self._before <= self._latest)
        )
