"""Whether a large run kept causal order, told from what each process delivered and in which order.

A message needs all that its origin had delivered when it was broadcast, and all that these need. A delivery is
*early* if something that it needs has not been delivered at that process. The needs of m messages are m² bits, and
a process is judged in one pass over its log, so a million processes take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.sim.overlay.compiled.arrays import Ints, Longs

_ONE = np.uint64(1)
_PLACE = np.uint64(63)


@dataclass(frozen=True)
class Order:
    """What was found in the order of deliveries."""

    deliveries: int
    early: int
    """Deliveries before something that they need."""
    twice: int
    """Deliveries of what had been delivered there before."""
    missed: int
    """Messages that a process did not deliver, over all processes; late ones may still have been on their way."""

    @property
    def outcome(self) -> Literal["causal", "violated", "inconclusive"]:
        """Where nothing was delivered there is nothing to judge."""
        if not self.deliveries:
            return "inconclusive"
        return "violated" if self.early or self.twice else "causal"


def judge(origins: Ints, log: Ints, logged: Ints) -> Order:
    """Judge a run: the origin of each message, and for each process its deliveries, the first `logged` of a row.
    Messages are numbered in the order of their broadcasts, each of which is a delivery at its origin."""
    needs = np.zeros((len(origins), (len(origins) + 63) // 64), np.uint64)
    tally = np.zeros(3, np.int64)
    _gather(origins, log, logged, needs)
    _count(log, logged, needs, tally)
    deliveries, early, twice = tally.tolist()
    return Order(deliveries, early, twice, len(origins) * len(logged) - (deliveries - twice))


@compiled
def _gather(origins: Ints, log: Ints, logged: Ints, needs: NDArray[np.uint64]) -> None:
    """What each message needs, as bits; of those before it that is known already."""
    for m in range(len(origins)):
        p = origins[m]
        for at in range(logged[p]):
            before = log[p, at]
            if before == m:
                break
            needs[m, before >> 6] |= _ONE << (np.uint64(before) & _PLACE)
            if before < m:
                for word in range(needs.shape[1]):
                    needs[m, word] |= needs[before, word]


@compiled
def _count(log: Ints, logged: Ints, needs: NDArray[np.uint64], tally: Longs) -> None:
    """Deliveries, early ones, and those that came twice."""
    words = needs.shape[1]
    here = np.zeros(words, np.uint64)
    for p in range(len(logged)):
        here[:] = 0
        for at in range(logged[p]):
            m = log[p, at]
            missing = False
            for word in range(words):
                if needs[m, word] & ~here[word]:
                    missing = True
            bit = _ONE << (np.uint64(m) & _PLACE)
            tally[0] += 1
            tally[1] += missing
            tally[2] += (here[m >> 6] & bit) != 0
            here[m >> 6] |= bit
