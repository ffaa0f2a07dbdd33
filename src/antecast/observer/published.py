"""The timestamp ⟨r, c, kn⟩ in its long form, by the rule as printed and by the cured one
("Approximate causal observer", Figure 1 and the function `less`).

- `paper`: kn[t] for −ε ≤ t < ε, and ε elements kn[c] … kn[c − ε + 1] are compared, on the ground
  that c < ε. But the model lets clocks differ by exactly ε, so c = ε happens, and then an event's own
  count at kn[0] is not among those compared, and kn[ε] does not exist. Smallest case: p at clock M
  sends e; k receives it at clock M − ε, where the count of p's event would be kn[ε] and is lost; k
  then sends g, and g sorts before e although e → g.
- `cured`: kn[t] for −ε ≤ t ≤ ε, and ε + 1 elements kn[c] … kn[c − ε] are compared. The same
  order as the short form of `timestamps`, in twice the space.

Elements are indexed from −ε. Reading r − rt of a message may be negative, so nothing is shifted in place.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from antecast.observer.bounds import Bounds
from antecast.observer.timestamps import Key, Source, Timestamp

Rule: TypeAlias = Literal["cured", "paper"]


class KnowledgeClock:
    """Stamps messages with the long form: `Timestamp.kn` holds kn[−ε], kn[−ε + 1], …

    It is here for comparison; it has no guards. `shorten` and `published_key` give what is compared.

    >>> clock = KnowledgeClock(Bounds(epsilon=2, delta=5), rule="paper")
    >>> clock.send(now=3)
    Timestamp(r=3, c=0, kn=(0, 0, 1, 0), before=None)
    """

    def __init__(self, bounds: Bounds, *, rule: Rule = "cured") -> None:
        self.bounds = bounds
        self._width = 2 * bounds.epsilon + (rule == "cured")
        self._r = self._c = 0
        self._kn: tuple[int, ...] = (0,) * self._width

    def local(self, now: int) -> None:
        self._event(now, None)

    def send(self, now: int) -> Timestamp:
        self._event(now, None)
        return Timestamp(self._r, self._c, self._kn)

    def receive(self, stamp: Timestamp, now: int) -> bool:
        self._event(now, stamp)
        return True

    def _event(self, now: int, stamp: Timestamp | None) -> None:
        self._c = max(0, self._r + self._c - now, 0 if stamp is None else stamp.latest - now)
        kn = [0] * self._width
        for index in range(self._width):
            kn[index] = _at(self._kn, index + now - self._r)
            if stamp is not None:
                kn[index] = max(kn[index], _at(stamp.kn, index + now - stamp.r))
        if self._width > self.bounds.epsilon:  # ε = 0 leaves the printed array empty
            kn[self.bounds.epsilon] += 1
        self._r, self._kn = now, tuple(kn)


def shorten(stamp: Timestamp, bounds: Bounds) -> Timestamp:
    """The short form of a cured timestamp."""
    return Timestamp(stamp.r, stamp.c, _compared(stamp, bounds, bounds.epsilon + 1), stamp.before)


def published_key(stamp: Timestamp, source: Source, bounds: Bounds) -> Key:
    """What the printed `less` compares: ε elements from kn[c] down."""
    return (stamp.latest, *_compared(stamp, bounds, bounds.epsilon), source)


def _compared(stamp: Timestamp, bounds: Bounds, elements: int) -> tuple[int, ...]:
    top = stamp.c + bounds.epsilon
    return tuple(_at(stamp.kn, top - index) for index in range(elements))


def _at(kn: tuple[int, ...], index: int) -> int:
    return kn[index] if 0 <= index < len(kn) else 0
