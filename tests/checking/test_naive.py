"""PC-broadcast with one rule taken away is caught, and the counterexample does not break the real one."""

from dataclasses import replace

import naive
import pytest

from antecast.checking.check import check
from antecast.checking.counterexample import replay
from antecast.checking.limits import Limits
from antecast.checking.scope import Scope
from antecast.protocols import specification

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
    (naive.StartNeedNotBeHeld, "walk", {"retain": 1}, {"broadcasts": 4, "breaks": 1, "appears": 1}),
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
