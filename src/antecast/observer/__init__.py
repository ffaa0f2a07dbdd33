"""Approximate causal observation: stamp messages in bounded space, and put a stream of them into causal order,
exactly, or approximately and sooner ("Approximate causal observer").

    from antecast.observer import Bounds, HybridClock, Observer, Policy

    bounds = Bounds(epsilon=5, delta=50)                      # in ticks: here, of a millisecond
    clock = HybridClock(bounds)                               # one in every process
    stamp = clock.send(now)                                   # goes with a message
    clock.receive(stamp, now)                                 # at its receiver
    observer = Observer(Policy(bounds=bounds, stamps="hybrid"))
    for each in observer.receive(message, stamp, "ada", now): # at the observer
        print(each.position, each.item)

`timestamps`, `hybrid` and `published` make stamps, `encoding` puts them into bytes; `policy` says when a message
is delivered, `online` does so one message at a time, `batch` on arrays. Nothing here has a clock or does I/O.
"""

from antecast.observer.batch import REASONS, BatchObserver
from antecast.observer.bounds import Bounds
from antecast.observer.columns import UNKNOWN, Batch, Carried, Stamps
from antecast.observer.encoding import Layout, published_bits
from antecast.observer.hybrid import HybridClock
from antecast.observer.online import Observed, Observer
from antecast.observer.policy import MODES, Mode, Policy
from antecast.observer.published import KnowledgeClock, published_key, shorten
from antecast.observer.timestamps import BoundedClock, Timestamp, less

__all__ = [
    "MODES",
    "REASONS",
    "UNKNOWN",
    "Batch",
    "BatchObserver",
    "BoundedClock",
    "Bounds",
    "Carried",
    "HybridClock",
    "KnowledgeClock",
    "Layout",
    "Mode",
    "Observed",
    "Observer",
    "Policy",
    "Stamps",
    "Timestamp",
    "less",
    "published_bits",
    "published_key",
    "shorten",
]
