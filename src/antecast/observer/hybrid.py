"""Hybrid logical clocks ("Logical physical clocks and consistent snapshots in globally distributed
databases", Kulkarni, Demirbas, Madappa, Avva and Leone) as a source of timestamps.

A hybrid clock is a pair (l, counter): l is the largest physical clock reading in the causal past,
which is the very M = r + c of a bounded timestamp, and the counter tells events of one l apart. So a
hybrid stamp is a timestamp with c = l − physical time and the counter as its only element, and its
order is exact: e → f implies (l, counter) of e < that of f. With ε = δ = n = 10 it takes two bytes
(`encoding`), where ⟨r, c, kn⟩ takes seven or more.
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
        self.resets = 0
        self.refused = 0

    def local(self, now: int) -> None:
        self._event(now, None)

    def send(self, now: int) -> Timestamp:
        self._event(now, None)
        stamp = Timestamp(now, self._latest - now, (self._counter,), self._before)
        self._before = now if self._before is None else max(self._before, now)
        return stamp

    def receive(self, stamp: Timestamp, now: int) -> bool:
        """A message is received; False if its stamp was impossible and only the event counts."""
        learned = acceptable(stamp, now, self.bounds, 1, self.bounds.most_hybrid)
        self.refused += not learned
        self._event(now, stamp if learned else None)
        return learned

    def _event(self, now: int, stamp: Timestamp | None) -> None:
        if not self._possible(now):
            self.resets += 1
            self._latest, self._counter, self._before = now, 0, None
        latest = max(self._latest, now)
        counter = self._counter + 1 if latest == self._latest else 0
        if stamp is not None:
            self._before = later(self._before, later(stamp.before, stamp.r))
            if stamp.latest > latest:
                latest, counter = stamp.latest, stamp.kn[0] + 1
            elif stamp.latest == latest:
                counter = max(counter, stamp.kn[0] + 1)
        self._latest, self._counter = latest, counter

    def _possible(self, now: int) -> bool:
        most = self.bounds.most_hybrid
        return (
            self._latest <= now + self.bounds.epsilon
            and self._counter >= 0
            and (most is None or self._counter <= most)
            and (self._before is None or self._before <= self._latest)
        )
