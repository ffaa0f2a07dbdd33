"""PC-broadcast where nothing stays: order in every run, completeness once things come to rest."""

import naive
import pytest
from hypothesis import given
from hypothesis import strategies as st
from restless import LINKS, restless_run

from antecast.core import AntecastError
from antecast.protocols.preventive import past
from antecast.protocols.preventive.pc import PreventiveBroadcast

seeds = st.integers(0, 2**48)

SETTINGS = [
    {},
    {"retain": 0},
    {"retain": 1},
    {"retain": 2, "patience": "100ms"},
    {"retain": 3, "timeout": "10s"},
    {"retain": 4, "founders": 2},
    {"retain": 5, "founders": 1, "patience": "3s"},
    {"retain": 20, "timeout": "50ms", "patience": "1s"},
    {"tries": 0, "retain": 10},
    {"newcomers": "now"},
    {"newcomers": "now", "retain": 3, "founders": 2},
]
settings = pytest.mark.parametrize("settings", SETTINGS, ids=lambda each: ",".join(map(str, each)) or "defaults")


def assert_in_order_and_complete(net):
    net.assert_order()
    net.assert_complete()
    net.assert_forgotten()
    net.assert_live()
    net.assert_order()


@settings
@given(seed=seeds)
def test_order_always_and_completeness_at_rest(settings, seed):
    """Churn, links added and removed, each end at its own moment, crashes with memory and without, partitions that
    heal, delays over three orders of magnitude, buffers of any size, pings and pongs that get lost or come by
    another way. And at rest: whoever has left is forgotten, and what anybody broadcasts reaches all."""
    assert_in_order_and_complete(restless_run(seed, **settings))


@pytest.mark.parametrize("settings", SETTINGS[1::3], ids=lambda each: ",".join(map(str, each)))
@given(seed=seeds)
def test_the_counters_that_stay_are_those_of_the_sources_there_are(settings, seed):
    """Most come and go; those who went without a word are retired in the end."""
    net = restless_run(seed, kinds=[*LINKS, *["join", "leave"] * 5, "die", "crash", "recover", "part"], **settings)
    net.retire_the_silent()
    net.assert_order()
    net.assert_complete()
    for protocol in net.nodes.values():
        known = protocol.snapshot()["past"]["vector"].keys()
        assert known <= net.nodes.keys() | set(range(net.founders))
        assert protocol.gauges()["sources"] <= net.founders + len(net.nodes)


@settings
@given(seed=seeds)
def test_the_same_while_all_processes_stay(settings, seed):
    assert_in_order_and_complete(restless_run(seed, kinds=LINKS, **settings))


@given(seed=seeds)
def test_births_tell_who_has_gone_when_nobody_remembers(seed):
    """With no memory of departures, order must hold; what cannot be told may cost messages, never order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(past, "TOMBSTONES", 0)
        restless_run(seed, retain=4, founders=1, patience="2s", rest=False).assert_order()


def fails(seed, rule, **settings):
    try:
        net = restless_run(seed, make=rule, **{"lag": 0, "nested": True} | settings)
        net.assert_order()
        net.assert_complete()
    except (AssertionError, AntecastError):
        return True
    return False


RULES = [
    (naive.AnyPong, {}),
    (naive.OnlyLinkIsSafe, {}),
    (naive.DeliveredNothingIsEmpty, {"newcomers": "now"}),
    (naive.LinksAreReused, {}),
    (naive.OldLinkStays, {"lag": 3}),
    (naive.SafeAfterCrash, {}),
    (naive.DeliverFirst, {}),
    (naive.BuffersAreSets, {}),
    (naive.StartNeedNotBeHeld, {"retain": 1}),
    (naive.PingsAnyWay, {}),
    (naive.NeverRefuses, {"retain": 1}),
    (naive.ListsAreIgnored, {"retain": 1}),
    (naive.BaseKeepsLinks, {"retain": 1}),
    (naive.NoPatience, {"retain": 1}),
    (naive.NoTimeOut, {}),
    (naive.UnknownIsNew, {}),
    (naive.NoBirths, {"retain": 5, "founders": 1, "patience": "3s"}),
]


@pytest.mark.parametrize(("rule", "settings"), RULES, ids=lambda each: getattr(each, "__name__", ""))
def test_without_the_rule_it_fails_and_with_it_it_does_not(rule, settings):
    found = next((seed for seed in range(1000) if fails(seed, rule, **settings)), None)
    assert found is not None
    assert not fails(found, PreventiveBroadcast, **settings)


def test_births_count_for_sources_heard_of_since_a_base_was_asked_for():
    """It takes a giver that has forgotten a departure. With the memory of them taken away, one run shows it."""
    churn = {"retain": 1, "founders": 1, "patience": "100ms", "kinds": [*LINKS, *["join", "leave"] * 5]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(past, "TOMBSTONES", 0)
        restless_run(1950, rest=False, **churn).assert_order()
        with pytest.raises(AssertionError, match="delivered too late"):
            restless_run(1950, make=naive.GivenAsAsked, rest=False, **churn).assert_order()
