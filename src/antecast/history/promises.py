"""What a protocol promised, and what a run kept of it: the one judgement for runs, sweeps, comparisons and tests.

| promise | broken by |
|---|---|
| integrity | a second delivery, one of something never broadcast, or one before the broadcast |
| fifo | a delivery after a message that the same source broadcast later |
| causal | a delivery before something of its causal past that is delivered there too |
| deadline | a delivery after the longest lifetime, or at a node where the message has expired |
| agreement | a node that should have a message, as another has, and never delivers it |

All but agreement are promises of safety: they hold in every run, whatever the network does, so they are judged in
every run, also where the network does not meet the protocol's needs. Agreement takes time and a network that meets
them, and only the maker of the run knows which nodes had both: it is judged only where these nodes are named.

A promise is *kept* only where something was at stake. If no node delivered anything of another node, there was no
order to keep and no message to repeat: the promise was not put to the test, and is reported so.

A log is taken to be whole: a message without a broadcast in it was never broadcast. That holds for runs that we
made; logs from elsewhere are audited, and no protocol is blamed for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import pyarrow as pa

from antecast.core.guarantees import Guarantee
from antecast.history import checks
from antecast.history.verdict import Outcome, Verdict
from antecast.history.violations import Tally


class State(StrEnum):
    KEPT = "kept"
    BROKEN = "broken"
    UNTRIED = "not put to the test"
    UNJUDGED = "not judged"


@dataclass(frozen=True)
class Promises:
    """What became of each promise of a protocol in a run."""

    states: Mapping[Guarantee, State]
    elsewhere: int
    """Deliveries at other nodes than the message's own."""
    words: str = ""
    """How often they were broken, such as `3 too early, 1 twice`; empty if they were not."""
    example: str = ""
    """The first delivery that broke a promise which the auditor's witness does not show."""

    @property
    def broken(self) -> list[str]:
        """The promises that were broken, in alphabetical order."""
        return sorted(promise.value for promise, state in self.states.items() if state is State.BROKEN)

    @property
    def untried(self) -> bool:
        """Nothing was delivered that could have broken a promise."""
        return not self.elsewhere and not self.broken

    def outcome(self, verdict: Verdict) -> Outcome:
        """The auditor's outcome, except that order is not kept where nothing could have broken it."""
        return "inconclusive" if verdict.outcome == "causal" and self.untried else verdict.outcome

    def __str__(self) -> str:
        return f"broken: {', '.join(self.broken)}: {self.words}" if self.broken else "nothing broken"


def judge_promises(
    promised: Collection[Guarantee],
    tally: Tally,
    events: Callable[[], pa.Table],
    *,
    elsewhere: int,
    latest: int | None = None,
    agreeing: Collection[int] | None = None,
) -> Promises:
    """Judge a run by what the auditor counted, and by its log where that is not enough.

    `elsewhere` counts deliveries at other nodes than the message's own. `latest` is how long after its broadcast
    a message may be delivered, by the clock of the log. `agreeing` names the nodes that must have delivered the
    same; None where the run, or a network that does not meet the protocol's needs, cannot tell.
    """
    counts = {
        "too early": tally.early,
        "too late": tally.late,
        "twice": tally.duplicates,
        "before their broadcast": tally.before_broadcast,
        "never broadcast": tally.unknown,
    }
    fresh = State.KEPT if elsewhere else State.UNTRIED
    states: dict[Guarantee, State] = {}
    example = ""

    def note(promise: Guarantee, broken: bool, otherwise: State = fresh) -> None:
        states[promise] = State.BROKEN if broken else otherwise

    def check(promise: Guarantee, how: str, found: checks.Check) -> None:
        nonlocal example
        counts[how] = found.count
        example = example or found.example or ""
        note(promise, not found.ok)

    if Guarantee.INTEGRITY in promised:
        note(Guarantee.INTEGRITY, bool(tally.duplicates or tally.before_broadcast or tally.unknown))
    if Guarantee.CAUSAL in promised:
        note(Guarantee.CAUSAL, bool(tally.early))
    if Guarantee.FIFO in promised:
        if tally.early:
            check(Guarantee.FIFO, "out of their source's order", checks.fifo_order(events()))
        else:
            note(Guarantee.FIFO, False)  # the order of a source is part of causal order
    if Guarantee.DEADLINE in promised:
        if latest is None:
            note(Guarantee.DEADLINE, False, State.UNJUDGED)
        else:
            check(Guarantee.DEADLINE, "after their deadline", checks.deadlines(events(), latest))
    if Guarantee.AGREEMENT in promised:
        if agreeing is None:
            note(Guarantee.AGREEMENT, False, State.UNJUDGED)
        else:
            check(Guarantee.AGREEMENT, "missing", checks.agreement_among(events(), agreeing))
    words = ", ".join(f"{count:,} {how}" for how, count in counts.items() if count)
    return Promises(states, elsewhere, words, example)


@dataclass(frozen=True)
class Told:
    """What became of causal order, in a sentence whose first words are the headline."""

    tone: Literal["good", "bad", "plain"]
    headline: str
    rest: str

    def __str__(self) -> str:
        return f"{self.headline}{self.rest}"


def tell(name: str, promises: Promises, verdict: Verdict) -> Told:
    """Say what a protocol of this name kept, and whose fault it is if it did not."""
    order = "causal order violated" if verdict.outcome == "violated" else "promise broken"
    if promises.broken:
        what = f" by {name}, a broken promise ({', '.join(promises.broken)}): deliveries {promises.words}"
        return Told("bad", order, what)
    if verdict.outcome == "violated":
        return Told("bad", order, f" by {name}, which it does not promise to keep: deliveries {promises.words}")
    if promises.untried:
        return Told("plain", "nothing to judge", f": with {name}, no node delivered a message of another node")
    if verdict.outcome == "inconclusive":
        lost = f"{verdict.tally.unknown:,} deliveries of messages whose broadcast is not in the log"
        return Told("plain", "inconclusive", f": {lost}")
    return Told("good", "causal order kept", f" by {name}")
