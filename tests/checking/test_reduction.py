"""The reduced search and the full one agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import Whim, spec_of

from antecast.checking.check import check
from antecast.checking.counterexample import replay
from antecast.checking.limits import Limits
from antecast.checking.reduction import Images, inherited
from antecast.checking.scope import Scope
from antecast.protocols import Guarantee, Need, specification

entries = st.tuples(st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 2), st.integers(0, 1))
tables = st.fixed_dictionaries({(state, kind): entries for state in range(3) for kind in range(2)})
promises = st.sets(st.sampled_from([Guarantee.FIFO, Guarantee.CAUSAL, Guarantee.AGREEMENT]))


@st.composite
def scopes(draw):
    nodes = draw(st.integers(2, 3))
    kinds = ["breaks", "crashes", "answers", "answers", "partitions", "timeouts", "joins", "leaves"]
    unrest = draw(st.lists(st.sampled_from(kinds[: 7 + nodes // 3]), min_size=1, max_size=2, unique=True))
    return Scope(
        nodes=nodes,
        broadcasts=draw(st.integers(1, 2 if nodes == 2 else 1)),
        topology=draw(st.sampled_from(["complete", "line"])),
        fifo=draw(st.booleans()),
        probes=draw(st.booleans()),
        **dict.fromkeys(unrest, 1),
    )


habits = st.fixed_dictionaries(
    {"numbered": st.booleans(), "greets": st.booleans(), "waits": st.sampled_from([None, None, 1, 2])}
)


@given(table=tables, habit=habits, scope=scopes(), promised=promises)
def test_reduced_and_full_search_agree_on_any_small_protocol(table, habit, scope, promised):
    make = type("Drawn", (Whim,), {"table": table, **habit})
    spec = spec_of(make, guarantees=frozenset(promised), needs=lambda settings: frozenset({Need.RELIABLE_LINKS}))
    limits = Limits(states=4000)
    full = check(spec, scope, reduce=False, exact=True, limits=limits)
    if full.found.verdict == "not exhausted":
        return
    reduced = check(spec, scope)
    assert reduced.found.verdict == full.found.verdict
    if full.found.verdict == "exhausted":  # what is seen before a violation depends on the order of the search
        assert reduced.found.states <= full.found.states
    for each in (full, reduced):
        if each.counterexample is not None:
            assert replay(each.counterexample, spec).problem.property == each.found.problem.property


@pytest.mark.parametrize("name", ["vector", "fifo", "pc-broadcast", "vcube"])
def test_reduced_and_full_search_agree_on_protocols_of_antecast(name):
    scope = Scope(nodes=3, broadcasts=1, answers=1)
    causal = frozenset({Guarantee.CAUSAL, Guarantee.INTEGRITY, Guarantee.AGREEMENT})
    full = check(specification(name), scope, promises=causal, reduce=False, exact=True).found
    reduced = check(specification(name), scope, promises=causal).found
    assert reduced.verdict == full.verdict == ("violated" if name == "fifo" else "exhausted")
    assert reduced.states < full.states or name == "vcube"  # whose trees depend on numbers


def test_reduction_saves_more_than_five_times_the_states():
    scope = Scope(nodes=3, broadcasts=2)
    full, reduced = (check(specification("vector"), scope, reduce=reduce).found for reduce in (False, True))
    assert full.states > 5 * reduced.states
    assert reduced.reduction[-1] == "3 ways to number the nodes"


class Grudges(Whim):
    """A copy of a message means nothing, unless the node has broadcast since."""

    def receive(self, frame, sender, now):
        if frame.id in self.had and self.seq == 0:
            return []
        self.had.add(frame.id)
        from antecast.core import Deliver

        return [Deliver(frame)]

    def broadcast(self, payload, now, *, lifetime=None):
        effects = super().broadcast(payload, now)
        return [*effects[:-1], *effects]


def test_a_frame_that_means_something_later_is_not_left_out():
    """Node 1 gets each message twice. The copy means nothing until node 1 has broadcast: then it is delivered."""
    spec = spec_of(Grudges, guarantees=frozenset({Guarantee.INTEGRITY}))
    done = check(spec, Scope(nodes=2, broadcasts=2, probes=False))
    assert done.found.problem.words.endswith("twice")


def test_protocols_that_look_at_numbers_have_no_interchangeable_nodes():
    make = type("Numbered", (Whim,), {"table": {(s, k): (s, True, True, 0, 0) for s in range(3) for k in (0, 1)}})
    even = check(spec_of(make), Scope(nodes=2, broadcasts=1)).found
    assert "2 ways to number the nodes" in even.reduction
    table = {(s, k): ((s + 1) % 3, True, True, 2 * (s == 0), k) for s in range(3) for k in (0, 1)}
    odd = type("Odd", (Whim,), {"table": table, "numbered": True})
    found = check(spec_of(odd), Scope(nodes=2, broadcasts=2)).found
    assert "the nodes turned out not to be interchangeable" in found.reduction


def test_what_is_assumed_in_a_state_is_assumed_in_its_images_and_in_what_follows_these():
    images = Images()
    images.nodes = ((1, 0),)
    images.states = {b"0": (b"1",), b"1": (b"0",), b"2": (b"3",)}
    images.frames = {b"f": (b"g",), b"g": (b"f",)}
    followed = {(b"1", b"2", None), (b"2", b"4", 0), (b"2", b"5", 1)}
    held = inherited(followed, {b"0": {(0, 1, b"f")}}, images)
    assert held == {
        b"0": {(0, 1, b"f")},
        b"1": {(1, 0, b"g")},
        b"2": {(1, 0, b"g")},
        b"5": {(1, 0, b"g")},  # in state 4 the link is gone, and nobody has been in state 3
    }
