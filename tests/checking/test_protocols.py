"""Every protocol keeps its promises at small scope; `python tools/checking.py` looks further."""

import pytest

from antecast.checking.calm import Calm
from antecast.checking.check import check
from antecast.checking.scope import Scope, fitting
from antecast.checking.world import Worlds
from antecast.core import Deliver
from antecast.protocols import specification, specifications
from antecast.protocols.preventive.pc import PreventiveBroadcast

SMALL = Scope(nodes=2, broadcasts=1, answers=1, crashes=1, breaks=1, moves=1, losses=1, bound=2)


@pytest.mark.parametrize("name", [each.name for each in specifications()])
def test_two_nodes_and_one_fault(name):
    spec = specification(name)
    done = check(spec, fitting(spec, spec.configure({}), SMALL))
    assert (done.found.verdict, done.found.problem) == ("exhausted", None)


@pytest.mark.parametrize("name", ["pc-broadcast", "vcube-single"])
def test_three_nodes_and_two_answers(name):
    """Question, answer, and an answer to either, at any node, in any order of arrival."""
    found = check(specification(name), Scope(nodes=3, broadcasts=1, answers=2)).found
    assert found.verdict == "exhausted"


def test_what_a_protocol_refuses_of_an_honest_node_is_told():
    class Picky(PreventiveBroadcast):
        def receive(self, frame, sender, now):
            effects = super().receive(frame, sender, now)
            if any(isinstance(effect, Deliver) for effect in effects):
                return super().receive(frame, 99, now)
            return effects

    from dataclasses import replace

    spec = replace(specification("pc-broadcast"), name="picky", make=Picky)
    found = check(spec, Scope(nodes=2, broadcasts=1)).found
    assert found.problem.property == "refused"


@pytest.mark.parametrize("topology", ["line", "complete"])
def test_newcomers_are_announced_after_the_only_founder_has_left(topology):
    """Node 0 used to go without a word, having announced nobody; the others asked each other for ever."""
    spec, scope = specification("pc-broadcast"), Scope(nodes=3, topology=topology, broadcasts=1, leaves=1)
    done = check(spec, scope, settings={"founders": 1})
    assert (done.found.verdict, done.found.problem) == ("exhausted", None)


def test_the_only_founder_does_not_go_before_it_has_announced_a_neighbour():
    spec = specification("pc-broadcast")
    scope = Scope(nodes=3, topology="line", broadcasts=1, leaves=1)
    worlds = Worlds(spec, spec.configure({"founders": 1}), scope)
    world, problem = worlds.perform(worlds.beginning(), ("leave", 0))
    assert problem is None
    assert 0 in worlds.protocols(world)  # it waits until node 1 has heard
    assert Calm(worlds).rest(world, 0) is None
