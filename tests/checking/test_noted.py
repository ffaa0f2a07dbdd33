"""Frames that their receiver only notes arrive at once, where that hides nothing."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import SPEC, Direct, Note, Notes, spec_of
from test_reduction import habits, promises, scopes, tables

from antecast.checking.check import check
from antecast.checking.counterexample import replay
from antecast.checking.limits import Limits
from antecast.checking.scope import Scope
from antecast.core import Codec, Deliver, Message, Send
from antecast.protocols import Need, specification

interest = st.sampled_from(["", "", "", "broadcast", "deliver", "up", "down", "next"])
memories = st.fixed_dictionaries(
    {
        "thanks": st.booleans(),
        "most": st.integers(1, 3),
        "kept": st.sampled_from([False, False, True]),
        "saved": st.sampled_from([False, False, True]),
        "dated": st.sampled_from([False, False, True]),
        "matters": interest,
    }
)


@given(tables, habits, memories, scopes(), promises, st.booleans())
def test_reduced_and_full_search_agree_whatever_notes_are_for(table, habit, memory, scope, promised, lossy):
    make = type("Drawn", (Notes,), {"table": table, **habit, **memory})
    needs = frozenset() if lossy else frozenset({Need.RELIABLE_LINKS})
    spec = spec_of(make, guarantees=frozenset(promised), needs=lambda settings: needs)
    scope = msgspec.structs.replace(scope, losses=int(lossy))
    full = check(spec, scope, reduce=False, exact=True, limits=Limits(states=4000))
    if full.found.verdict == "not exhausted":
        return
    reduced = check(spec, scope)
    assert reduced.found.verdict == full.found.verdict
    if full.found.verdict == "exhausted":
        assert reduced.found.states <= full.found.states
    for each in (full, reduced):
        if each.counterexample is not None:
            assert replay(each.counterexample, spec).problem.property == each.found.problem.property


class Greets(Direct):
    """Notes who has greeted it over a link, as long as that lives. Copies go to those who come late."""

    codec = Codec([Message[None], Note])

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.noted = []
        self.log = []

    def broadcast(self, payload, now, *, lifetime=None):
        effects = super().broadcast(payload, now)
        self.log.append(effects[-1].message)
        return effects

    def receive(self, frame, sender, now):
        if isinstance(frame, Note):
            self.noted = sorted({*self.noted, sender})
            return []
        effects = super().receive(frame, sender, now)
        self.log += [each.message for each in effects]
        return effects

    def link_up(self, peer, now):
        self.link_down(peer, now)
        self.links.append(peer)
        return [Send(peer, Note()), *(Send(peer, message) for message in self.log)]

    def link_down(self, peer, now):
        self.noted = [each for each in self.noted if each != peer]
        return super().link_down(peer, now)

    def snapshot(self):
        return super().snapshot() | {"log": [[each.origin, each.seq, each.payload] for each in self.log]}

    def restore(self, state):
        super().restore(state)
        self.log = [Message(*each, None) for each in state["log"]]


def both(make, scope):
    """The full search and the reduced one, which agree."""
    spec = spec_of(make, guarantees=SPEC.guarantees)
    full = check(spec, scope, reduce=False, exact=True).found
    reduced = check(spec, scope).found
    assert reduced.verdict == full.verdict
    if full.problem is not None:
        assert reduced.problem.property == full.problem.property
    return full, reduced


@pytest.mark.parametrize("fifo", [True, False])
@pytest.mark.parametrize("fault", ["breaks", "crashes", "partitions", "timeouts"])
def test_greetings_cost_nothing(fault, fifo):
    full, reduced = both(Greets, Scope(nodes=2, broadcasts=1, fifo=fifo, **{fault: 1}))
    greeted = check(spec_of(Greets), Scope(nodes=2, broadcasts=1, at_rest=True, fifo=fifo, **{fault: 1})).found
    assert full.verdict == "exhausted"
    assert 2 * greeted.states < full.states
    assert reduced.states <= greeted.states + 1


class GreetsLate(Greets):
    """A greeting behind a message is taken for a second arrival of it."""

    def receive(self, frame, sender, now):
        if isinstance(frame, Note) and self.got and self.links:
            return [Deliver(self.log[-1])]
        return super().receive(frame, sender, now)


class Trusts(Greets):
    """Broadcasts go to those alone who have greeted."""

    def broadcast(self, payload, now, *, lifetime=None):
        return [
            each for each in super().broadcast(payload, now) if not isinstance(each, Send) or each.to in self.noted
        ]


class Shuns(Greets):
    """Who has not greeted before the link is gone is not sent what it missed."""

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.shunned = []

    def link_up(self, peer, now):
        shunned = peer in self.shunned
        effects = super().link_up(peer, now)
        return effects[:1] if shunned else effects

    def link_down(self, peer, now):
        if peer in self.links and peer not in self.noted:
            self.shunned = sorted({*self.shunned, peer})
        return super().link_down(peer, now)


class TrustsOldFriends(Greets):
    """After a crash, whoever had not greeted before is not sent what it missed."""

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.friends = None

    def link_up(self, peer, now):
        effects = super().link_up(peer, now)
        return effects if self.friends is None or peer in self.friends else effects[:1]

    def snapshot(self):
        return super().snapshot() | {"friends": self.noted}

    def restore(self, state):
        super().restore(state)
        self.friends = state["friends"]


@pytest.mark.parametrize(
    ("make", "scope"),
    [
        (GreetsLate, Scope(nodes=2, broadcasts=1, fifo=False, probes=False)),
        (Trusts, Scope(nodes=2, broadcasts=1, probes=False)),
        (Shuns, Scope(nodes=2, broadcasts=1, breaks=1, probes=False)),
        (TrustsOldFriends, Scope(nodes=2, broadcasts=1, crashes=1, probes=False)),
    ],
)
def test_a_greeting_that_makes_a_difference_is_not_only_noted(make, scope):
    full, _ = both(make, scope)
    assert full.verdict == "violated"


class Waits(Greets):
    """Has something to hand over to each who has not greeted yet."""

    def gauges(self):
        return {"pending": len({*self.links} - {*self.noted})}


def test_what_may_be_lost_is_not_noted_at_once():
    """That a greeting is lost is a shorter way to something wrong than that a message is."""
    spec = spec_of(Waits, needs=lambda settings: frozenset())
    assert check(spec, Scope(nodes=2, broadcasts=1)).found.verdict == "exhausted"
    found = check(spec, Scope(nodes=2, broadcasts=1, losses=1)).found
    assert "holds 1 back (pending)" in found.problem.words


@pytest.mark.parametrize("reduce", [True, False])
def test_a_gauge_with_a_limit_is_looked_at_before_a_note_arrives(reduce):
    for limit, verdict in ((1, "exhausted"), (0, "violated")):
        scope = Scope(nodes=2, broadcasts=1)
        assert check(spec_of(Waits), scope, bounds={"pending": limit}, reduce=reduce).found.verdict == verdict


def test_a_property_of_ones_own_sees_every_world():
    def no_news_before_greetings(view):
        late = (node for node, each in view.nodes.items() if each.got and not each.noted)
        return next((f"node {node} has heard nothing but news" for node in late), None)

    no_news_before_greetings.local = True
    scope = Scope(nodes=2, broadcasts=1, probes=False)
    found = check(spec_of(Greets), scope, properties=(no_news_before_greetings,)).found
    assert found.verdict == "violated"


@pytest.mark.parametrize(
    "scope",
    [
        Scope(nodes=2, broadcasts=1, answers=1, breaks=1),
        Scope(nodes=2, broadcasts=1, crashes=1),
        Scope(nodes=3, broadcasts=1, answers=1, topology="line"),
    ],
)
def test_offers_cost_little(scope):
    """The full search and the reduced one agree on a protocol of Antecast that begins with offers."""
    spec = specification("barrier")
    full = check(spec, scope, reduce=False, exact=True).found
    reduced = check(spec, scope).found
    assert full.verdict == reduced.verdict == "exhausted"
    assert 5 * reduced.states < full.states
