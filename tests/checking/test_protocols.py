"""Every protocol keeps its promises at small scope; `python tools/checking.py` looks further."""

import pytest

from antecast.checking.check import check
from antecast.checking.scope import Scope, fitting
from antecast.core import Deliver
from antecast.protocols import specification, specifications
from antecast.protocols.preventive.pc import PreventiveBroadcast

SMALL = Scope(nodes=2, broadcasts=1, answers=1, crashes=1, breaks=1, moves=1, losses=1, bound=2)


@pytest.mark.parametrize("name", [each.name for each in specifications()])
def test_two_nodes_and_one_fault(name):
    spec = specification(name)
    done = check(spec, fitting(spec, spec.configure({}), SMALL))
    assert (done.found.verdict, done.found.problem) == ("exhausted", None)


@pytest.mark.parametrize("name", [each.name for each in specifications()])
@pytest.mark.parametrize("scope", [{"nodes": 2, "joins": 1}, {"nodes": 3, "leaves": 1}], ids=str)
def test_three_nodes_one_of_which_comes_or_goes(name, scope):
    spec = specification(name)
    done = check(spec, fitting(spec, spec.configure({}), Scope(broadcasts=1, bound=2, **scope)))
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
