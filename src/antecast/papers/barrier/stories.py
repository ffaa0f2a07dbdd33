"""Where Δ-causal order is lost: lifetimes that differ, clocks that differ, tags that stand still."""

from __future__ import annotations

from antecast.papers.demonstration import Demonstration, Outcome
from antecast.papers.stage import SECOND, Stage

_SAFE = (
    "A deadline never falls below those of the message's causal past, and a sender keeps an entry in the barrier"
    " until it has expired on every clock. Then whenever a predecessor has expired somewhere, so has all that came"
    " before it. The price: what follows a long-lived message lives as long."
)
_PRINTED = (
    "The deadline is the sender's time plus the lifetime; an entry of the barrier that has expired on the"
    " reader's clock counts as met, and a broadcast starts a new barrier with itself alone."
)


def mixed_lifetimes(rule: str) -> Outcome:
    a, e, d = range(3)
    stage = Stage("delta", "AED", rule=rule, lifetime="20s", max_lifetime="20s", clock_bound="0s")
    stage.broadcast(a)
    stage.meet(a, e)
    stage.broadcast(e, lifetime=5)
    stage.wait(1)
    stage.broadcast(e)
    stage.wait(7)
    stage.meet(e, d, without=(a, 1))
    stage.meet(a, d)
    return stage.log.outcome(d)


def clock_ahead(rule: str) -> Outcome:
    a, b, d, e = range(4)
    stage = Stage("delta", "ABDE", rule=rule, lifetime="10s", max_lifetime="10s", clock_bound="2s")
    stage.clocks[a] = 2 * SECOND
    stage.broadcast(a)
    stage.wait(0.5)
    stage.meet(a, e)
    stage.meet(a, b)
    stage.wait(1)
    stage.broadcast(e)
    stage.broadcast(b)
    stage.wait(1.5)
    stage.meet(b, e)
    stage.broadcast(e)
    stage.wait(11.2)
    stage.meet(e, d, without=(a, 1))
    stage.meet(b, d)
    return stage.log.outcome(d)


DEMONSTRATIONS = (
    Demonstration(
        name="mixed-lifetimes",
        study="barrier",
        title="Δ-causal order is lost when lifetimes differ, with perfect clocks",
        story=(
            "A broadcasts for 20 s. E delivers it, broadcasts for 5 s, and a second later for 20 s. At 7 s D"
            " meets E: the message of 5 s is gone, A's is lost on its way, E's last one arrives. Then D"
            " meets A."
        ),
        printed=_PRINTED
        + " E's last message names only E's first, which has expired: D delivers it, and then A's.",
        ours=_SAFE,
        by_paper=lambda: mixed_lifetimes("paper"),
        by_us=lambda: mixed_lifetimes("safe"),
    ),
    Demonstration(
        name="clock-ahead",
        study="barrier",
        title="Δ-causal order is lost when clocks differ, with one lifetime",
        story=(
            "All messages live for 10 s; A's clock is 2 s ahead, so that its message lives 2 s longer than"
            " the others'. E and B deliver it and broadcast; E delivers B's and broadcasts again. D meets E"
            " when everything but A's message and E's last one has expired, and then B, which still has A's."
        ),
        printed=_PRINTED,
        ours=_SAFE,
        by_paper=lambda: clock_ahead("paper"),
        by_us=lambda: clock_ahead("safe"),
    ),
)
