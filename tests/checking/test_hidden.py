"""A search knows a protocol by its state. What is kept elsewhere is noticed, and the protocol refused."""

import random
import re
from collections import Counter

import pytest
from small import Direct, spec_of

from antecast.checking.check import check
from antecast.checking.scope import Scope
from antecast.core import ConfigurationError, Deliver, Send

elsewhere = Counter()


class Odd(Direct):
    """Delivers a message twice, now and then."""

    def receive(self, frame, sender, now):
        effects = super().receive(frame, sender, now)
        return [*effects, Deliver(frame)] if self.strikes() else effects


class Global(Odd):
    def strikes(self):
        elsewhere[self.node] += 1
        return elsewhere[self.node] == 3


class OfItsClass(Odd):
    struck = False

    def strikes(self):
        OfItsClass.struck = not OfItsClass.struck
        return OfItsClass.struck


class Draws(Odd):
    def strikes(self):
        return random.random() < 0.5


spoken = []


class Remembers(Direct):
    """Sends what it gets back to its source once node 2 has spoken twice: in this run or in any other."""

    def broadcast(self, payload, now, *, lifetime=None):
        if self.node == 2 and self.seq == 1:
            spoken[:] = [1]
        return super().broadcast(payload, now)

    def receive(self, frame, sender, now):
        known = frame.id in self.got
        return [*super().receive(frame, sender, now), *([Send(sender, frame)] if spoken and not known else [])]


class SharesWithItsClone(Direct):
    def clone(self):
        made = super().clone()
        made.got = self.got
        return made


class LeavesOut(Direct):
    def canonical(self):
        return self.seq


class SharesLate(Direct):
    """Clones share what only changes when a link goes down, hundreds of calls later."""

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.lost = []

    def clone(self):
        made = super().clone()
        made.lost = self.lost
        return made

    def link_down(self, peer, now):
        if len(self.got) == 3:
            self.lost.append(peer)
        return super().link_down(peer, now)


class SavesAndForgets(Direct):
    def snapshot(self):
        saved = super().snapshot()
        self.got.clear()
        return saved


class CountsAndForgets(Direct):
    def gauges(self):
        return {"links": len(self.links), "got": self.got.clear() or 0}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (SharesWithItsClone, "clone() shares what can change"),
        (SharesLate, "clone() shares what can change"),
        (SavesAndForgets, "snapshot() changed the state"),
        (CountsAndForgets, "gauges() changed the state"),
    ],
)
def test_what_should_only_look_changes_nothing(make, words):
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        check(spec_of(make, guarantees=frozenset()), Scope(nodes=2, broadcasts=3, breaks=1, crashes=1))


@pytest.mark.parametrize("make", [Global, OfItsClass, Draws, Remembers, LeavesOut])
def test_a_protocol_that_does_two_things_in_one_state_is_refused(make):
    random.seed(18)
    with pytest.raises(ConfigurationError, match=r"all its state is in its attributes"):
        check(spec_of(make), Scope(nodes=3, broadcasts=2))


class Dice(Direct):
    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.dice = random.Random(node)


class Numbers(Direct):
    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.numbers = (number for number in range(9))


@pytest.mark.parametrize(("make", "kind"), [(Dice, r"random\.Random"), (Numbers, r"builtins\.generator")])
def test_what_cannot_be_copied_is_named(make, kind):
    with pytest.raises(ConfigurationError, match=f"{make.__name__.lower()}: a {kind} cannot be copied"):
        check(spec_of(make), Scope(nodes=2, broadcasts=1))


class KeptInAClosure(Odd):
    def __init__(self, node, settings):
        super().__init__(node, settings)
        count = 0

        def strikes():
            nonlocal count
            count += 1
            return count == 2

        self.strikes = strikes


def test_what_a_closure_keeps_is_part_of_the_state():
    found = check(spec_of(KeptInAClosure), Scope(nodes=2, broadcasts=2)).found
    assert found.problem.words.endswith("twice")
