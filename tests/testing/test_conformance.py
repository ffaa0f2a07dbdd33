"""The contract suite passes what keeps the contract, and catches each fault of a toy within a CI run."""

import pytest
import toys
from hypothesis import Phase, given, settings

from antecast.protocols import specification
from antecast.protocols.flood import Flood
from antecast.testing import ContractBroken, Move, Plan, assert_contract, plans

in_ci = settings(max_examples=150, deadline=None, database=None, derandomize=True, report_multiple_bugs=False)
at_once = settings(in_ci, phases=[Phase.generate])
"""Without making the counterexample smaller, which is Hypothesis's part."""


def check(spec, how=in_ci):
    @how
    @given(plans(spec))
    def property_of_all(plan):
        assert_contract(spec, plan)

    property_of_all()


@pytest.mark.parametrize("make", [toys.Gossip, toys.Slow])
def test_a_protocol_that_keeps_the_contract_passes(make):
    check(toys.spec_of(make))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (toys.LosesTimers, "lost"),
        (toys.Punctual, "lost"),
        (toys.Leapless, "lost"),
        (toys.Forgets, "order"),
        (toys.Reuses, "snapshot"),
        (toys.KeepsOldLink, "lost"),
        (toys.SendsIntoNowhere, "stray send"),
        (toys.TrustsStrangers, "no link"),
        (toys.NamesTwice, "names"),
        (toys.Rolls, "determinism"),
        (toys.Minds, "link_down"),
        (toys.Halves, "lost"),
    ],
)
def test_a_fault_is_caught(make, kind):
    with pytest.raises(ContractBroken) as caught:
        check(toys.spec_of(make), at_once)
    assert caught.value.kind == kind


def test_a_second_link_up_that_does_nothing_is_caught_by_the_plainest_plan(monkeypatch):
    as_it_is = Flood.link_up

    def link_up(flood, peer, now, out):
        if peer not in flood._peers:
            as_it_is(flood, peer, now, out)

    monkeypatch.setattr(Flood, "link_up", link_up)
    with pytest.raises(ContractBroken, match="after all links came up twice"):
        assert_contract(specification("vector"), Plan("vector", 2))


BEHIND_A_BASE = (Move("cut", 0), Move("broadcast", 1), Move("burst", 0), Move("link", 0))


@pytest.mark.parametrize("protocol", ["fifo", "vector", "vector-changes"])
@pytest.mark.parametrize("retain", [0, 1, 5])
def test_nobody_is_left_behind_a_base(protocol, retain):
    """A line 0, 1, 2: node 0 is apart while it broadcasts more than is kept; later all hear of each other."""
    plan = Plan(protocol, 3, BEHIND_A_BASE, {"retain": retain})
    assert_contract(specification(protocol), plan)


def test_the_same_with_more_than_twenty_messages():
    moves = (*BEHIND_A_BASE[:2], *[Move("burst", 0)] * 4, Move("link", 0))
    assert_contract(specification("vector"), Plan("vector", 3, moves, {"retain": 20}))
