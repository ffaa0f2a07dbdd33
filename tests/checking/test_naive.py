"""PC-broadcast with one rule taken away is caught, and the counterexample does not break the real one."""

from dataclasses import replace

import naive
import pytest

from antecast.checking.check import check
from antecast.checking.counterexample import replay
from antecast.checking.limits import Limits
from antecast.checking.scope import Scope
from antecast.checking.walks import walk
from antecast.checking.world import Worlds
from antecast.protocols import specification
from antecast.protocols.preventive import past
from antecast.protocols.preventive.pc import PreventiveBroadcast

PC = specification("pc-broadcast")
LINE = {"nodes": 3, "topology": "line"}

QUICK = [
    (naive.OnlyLinkIsSafe, "growing", {}, {"broadcasts": 1, "breaks": 1, "appears": 1}),
    (naive.LinksAreReused, "growing", {}, {"broadcasts": 2, "breaks": 1, "appears": 1}),
    (naive.OldLinkStays, "growing", {}, {"broadcasts": 2, "breaks": 1}),
    (naive.SafeAfterCrash, "growing", {}, {"broadcasts": 2, "crashes": 1}),
    (naive.DeliverFirst, "breadth", {}, {"broadcasts": 1, "answers": 1, "nested": True}),
    (naive.PingsAnyWay, "overtaking", {}, {"broadcasts": 2, "breaks": 1, "appears": 1, "probes": False}),
    (naive.NeverRefuses, "walk", {"retain": 1}, {"broadcasts": 4, "breaks": 1, "appears": 1}),
]

SLOW = [
    (naive.NoTimeOut, "growing", {}, {"broadcasts": 1, "breaks": 1, "appears": 1}),
    (naive.BuffersAreSets, "growing", {}, {"broadcasts": 2, "appears": 1}),
    (naive.StartNeedNotBeHeld, "overtaking", {"retain": 1}, {"broadcasts": 4, "breaks": 1, "appears": 1}),
    (naive.UnknownIsNew, "walk", {"founders": 3}, {"broadcasts": 3, "joins": 1, "leaves": 1, "breaks": 1}),
    (naive.NoPatience, "walk", {"retain": 1}, {"broadcasts": 4, "breaks": 1}),
    (
        naive.DeliveredNothingIsEmpty,
        "walk",
        {"newcomers": "now"},
        {"broadcasts": 3, "appears": 1, "breaks": 1, "joins": 1},
    ),
    (
        naive.NoBirths,
        "walk",
        {"retain": 2, "founders": 3},
        {"topology": "ring", "broadcasts": 5, "breaks": 4, "joins": 2, "leaves": 1, "probes": False},
    ),
    (naive.BaseKeepsLinks, "walk", {"retain": 1}, {"broadcasts": 4, "appears": 1, "breaks": 2}),
    (
        naive.AnyPong,
        "overtaking",
        {},
        {"broadcasts": 3, "breaks": 1, "appears": 1, "probes": False, "unsteady": [(0, 2)]},
    ),
    (
        naive.ListsAreIgnored,
        "breadth",
        {"retain": 0, "tries": 0, "founders": 1},
        {"broadcasts": 2, "appears": 1, "leaves": 1, "probes": False},
    ),
]


def assert_noticed(make, strategy, settings, scope):
    weak = replace(PC, name=make.__name__, make=make)
    wanted = Scope(**LINE | scope)
    done = check(weak, wanted, settings=settings, strategy=strategy, limits=Limits(cpu=60))
    assert done.found.verdict == "violated"
    assert replay(done.counterexample, weak).problem is not None
    assert replay(done.counterexample, PC).problem is None


@pytest.mark.parametrize("rule", QUICK, ids=lambda rule: rule[0].__name__)
def test_a_rule_that_is_missing_is_noticed(rule):
    assert_noticed(*rule)


@pytest.mark.parametrize("rule", SLOW, ids=lambda rule: rule[0].__name__)
def test_a_rule_that_is_missing_is_noticed_in_the_long_run(rule, request):
    if not request.config.getoption("--soak"):
        pytest.skip("takes a while: --soak")
    assert_noticed(*rule)


def walked(make):
    """What came of the same walks, in which bases are taken from processes that know of departures."""
    settings = {"retain": 0, "tries": 0, "founders": 1, "patience": "1ms"}
    scope = Scope(**LINE, broadcasts=2, appears=1, leaves=1, timeouts=2, probes=False)
    spec = replace(PC, make=make)
    worlds = Worlds(spec, spec.configure(settings), scope)
    found = walk(worlds, walks=400)
    taken = [each for each in worlds.machine.states if isinstance(each, PreventiveBroadcast)]
    rebased = sum(each.gauges()["rebases"] > 0 and bool(each.gauges()["forgotten"]) for each in taken)
    return found.verdict, found.transitions, len(worlds.machine.states), rebased


def test_what_is_given_as_asked_needs_more_departures_than_any_scope_has():
    """`GivenAsAsked` leaves out sources that the taker has heard of since it asked. The giver names all those that
    have gone within the base and that it remembers, and a source is missing in a base only because it went. So the
    rule matters only to one that has forgotten a departure, after 1,024 of them; a scope has at most 115 nodes.
    (`tests/protocols/test_preventive_restless.py` catches it where nobody remembers.)"""
    assert len(Scope(nodes=16, joins=99).hosts) < past.TOMBSTONES
    weak, real = walked(naive.GivenAsAsked), walked(PreventiveBroadcast)
    assert weak == real
    assert real[-1] > 0
