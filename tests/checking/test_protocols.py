"""Every protocol keeps its promises at small scope; `python tools/checking.py` looks further."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.checking.check import check
from antecast.checking.limits import Limits
from antecast.checking.scope import ADVERSITY, Scope, fitting
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


@pytest.mark.parametrize("name", ["fifo", "vector", "vcube-single"])
def test_what_depends_on_a_message_that_left_with_its_node_may_be_held_back_for_ever(name):
    """Its second message arrives, the first is lost with it: nobody will ever have that."""
    done = check(specification(name), Scope(nodes=3, broadcasts=2, leaves=1, bound=3, probes=False))
    assert (done.found.verdict, done.found.problem) == ("exhausted", None)


def test_what_depends_on_a_message_behind_a_node_that_left_may_be_held_back_for_ever():
    """In a line, the one in the middle leaves before it has passed a question on: its answer waits for ever."""
    done = check(specification("vector"), Scope(nodes=3, topology="line", broadcasts=1, answers=1, leaves=1))
    assert (done.found.verdict, done.found.problem) == ("exhausted", None)


def test_probes_that_are_under_way_together_may_be_given_up_where_little_is_kept():
    done = check(specification("vcube-single"), Scope(nodes=2, broadcasts=1, breaks=1), settings={"retain": 1})
    assert (done.found.verdict, done.found.problem) == ("exhausted", None)


@given(
    name=st.sampled_from([each.name for each in specifications()]),
    adversity=st.dictionaries(st.sampled_from(ADVERSITY), st.integers(1, 2), max_size=4),
    nodes=st.integers(2, 4),
    answers=st.integers(0, 1),
    topology=st.sampled_from(["complete", "line", "ring", "star"]),
    strategy=st.sampled_from(["breadth", "depth", "walk", "growing", "overtaking", "patient"]),
)
def test_no_mixture_of_faults_is_too_much(name, adversity, nodes, answers, topology, strategy):
    """However little of the space is seen in so short a time: nothing breaks, the search least of all."""
    spec = specification(name)
    scope = Scope(nodes=nodes, broadcasts=2, answers=answers, topology=topology, **adversity)
    scope = fitting(spec, spec.configure({}), scope)
    done = check(spec, scope, strategy=strategy, limits=Limits(cpu=0.2))
    assert done.found.problem is None


@pytest.mark.parametrize("name", ["epidemic", "pc-broadcast"])
def test_time_passes_while_a_node_is_down(name):
    spec = specification(name)
    done = check(spec, Scope(nodes=2, broadcasts=1, crashes=1, ticks=1, bound=3))
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
