"""A frontier that is shared between processes finds what one process finds."""

import os
from functools import partial

import pytest
from hypothesis import given
from hypothesis import settings as examples
from small import SPEC, Notes, Whim, spec_of
from test_noted import memories
from test_reduction import promises, scopes, tables

from antecast.checking.check import check
from antecast.checking.counterexample import replay
from antecast.checking.limits import Limits
from antecast.checking.scope import Scope, fitting
from antecast.checking.translation import Common, Incoming, Outgoing
from antecast.checking.ways import LocalFrontier, Order, explore_ways
from antecast.checking.world import Worlds
from antecast.core.settings import plain_settings
from antecast.protocols import Guarantee, Need, specification

CAUSAL = frozenset({Guarantee.CAUSAL, Guarantee.INTEGRITY, Guarantee.AGREEMENT})


def counted(found):
    return found.verdict, found.states, found.transitions, found.depth, found.reduction


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("vector", Scope(nodes=2, broadcasts=1, answers=1, crashes=1)),
        ("pc-broadcast", Scope(nodes=3, broadcasts=1, answers=2)),
        ("vcube", Scope(nodes=3, broadcasts=1, answers=1)),
        ("barrier", Scope(nodes=2, broadcasts=1, answers=1, breaks=1)),
        ("cellular", Scope(nodes=2, broadcasts=1, answers=0, moves=1)),
    ],
)
def test_an_exhausted_search_counts_alike_however_many_share_it(name, scope):
    spec = specification(name)
    scope = fitting(spec, spec.configure({}), scope)
    alone = check(spec, scope).found
    shared = [check(spec, scope, jobs=jobs, share_from=30).found for jobs in (2, 3)]
    assert alone.verdict == "exhausted"
    assert [counted(each) for each in shared] == [counted(alone)] * 2


@pytest.mark.parametrize(
    ("spec", "scope", "broken"),
    [
        (specification("fifo"), Scope(broadcasts=2, answers=1), "causal"),
        (SPEC, Scope(nodes=3, broadcasts=1, breaks=1), "termination"),
    ],
)
def test_a_counterexample_is_as_short_and_the_same_however_many_share_it(spec, scope, broken):
    done = [check(spec, scope, promises=CAUSAL, jobs=jobs, share_from=5) for jobs in (1, 2, 3)]
    assert {each.found.problem.property for each in done} == {broken}
    alone = ("link", "recover")  # happen by themselves: which of them a way has depends on who is taken for whom
    steps = [each.counterexample.actions[: each.found.calm] for each in done]
    assert len({sum(action[0] not in alone for action in way) for way in steps}) == 1
    assert done[1].counterexample.actions == done[2].counterexample.actions
    for each in done:
        assert replay(each.counterexample, spec).problem.property == broken


@examples(max_examples=8)
@given(table=tables, scope=scopes(), promised=promises)
def test_any_small_protocol_gets_the_same_verdict_from_two_processes(table, scope, promised):
    make = type("Drawn", (Whim,), {"table": table})
    spec = spec_of(make, guarantees=frozenset(promised), needs=lambda settings: frozenset({Need.RELIABLE_LINKS}))
    alone = check(spec, scope, limits=Limits(states=3000)).found
    if alone.verdict == "not exhausted":
        return
    shared = check(spec, scope, jobs=2, share_from=1).found
    assert shared.verdict == alone.verdict
    if alone.verdict == "exhausted":
        assert counted(shared) == counted(alone)


@examples(max_examples=8)
@given(tables, memories, scopes(), promises)
def test_notes_make_no_difference_to_what_two_processes_find(table, memory, scope, promised):
    make = type("Drawn", (Notes,), {"table": table, **memory})
    spec = spec_of(make, guarantees=frozenset(promised), needs=lambda settings: frozenset({Need.RELIABLE_LINKS}))
    alone = check(spec, scope, limits=Limits(states=3000)).found
    if alone.verdict == "not exhausted":
        return
    shared = check(spec, scope, jobs=2, share_from=1).found
    assert shared.verdict == alone.verdict
    if alone.verdict == "exhausted":
        assert counted(shared) == counted(alone)


def test_a_shared_search_that_may_not_see_everything_says_so():
    found = check(
        specification("vector"), Scope(broadcasts=3), jobs=2, share_from=30, limits=Limits(states=400)
    ).found
    assert (found.verdict, found.why) == ("not exhausted", "more than 400 states")
    assert found.states > 400
    assert found.frontier > 0


def test_a_shared_search_ends_when_it_is_interrupted():
    asked = []

    def interrupted():
        asked.append(1)
        return len(asked) > 3

    found = check(
        specification("vector"), Scope(broadcasts=3), jobs=2, share_from=30, interrupted=interrupted
    ).found
    assert (found.verdict, found.why) == ("not exhausted", "interrupted")


def test_a_worker_that_dies_ends_the_search_with_what_is_known():
    here = os.getpid()

    def kills_workers(view):
        if os.getpid() != here:
            os._exit(1)

    found = check(SPEC, Scope(nodes=3, broadcasts=2), properties=(kills_workers,), jobs=2, share_from=10).found
    assert (found.verdict, found.why) == ("not exhausted", "a worker process died")
    assert found.states >= 10


def test_a_world_means_the_same_in_a_process_that_has_made_none_of_its_states():
    """Told by the calls that it came from, to one that has other numbers for everything."""
    spec = specification("pc-broadcast")
    scope = Scope(nodes=3, broadcasts=2, crashes=1, breaks=1)
    one, other = (Worlds(spec, spec.configure({}), scope) for _ in range(2))
    common = Common(one)
    world, seen = one.beginning(), []
    for _ in range(30):
        after = list(one.expand(world))
        if not after:
            break
        seen += [each for _, each, problem in after if problem is None]
        world = after[len(after) // 2][1]
    assert len(seen) > 50
    parcel = Outgoing(one, common).parcel(reversed(seen))
    told = list(Incoming(other, common).worlds(parcel))
    from antecast.checking.fingerprints import Fingerprints

    here, there = Fingerprints(one), Fingerprints(other)
    assert [there.of(each) for each in told] == [here.of(each) for each in reversed(seen)]
    assert told != seen[::-1]


def order_of(name, scope, promises=None):
    spec = specification(name)
    return Order(
        protocol=name,
        settings={},
        scope=plain_settings(scope),
        promises=tuple(spec.guarantees if promises is None else promises),
    )


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("vector", Scope(nodes=2, broadcasts=1, answers=1, crashes=1)),
        ("pc-broadcast", Scope(nodes=2, broadcasts=1, answers=1, breaks=1)),
        ("vcube", Scope(nodes=3, broadcasts=1, answers=1)),
        ("barrier", Scope(nodes=2, broadcasts=1, answers=1, breaks=1)),
    ],
)
def test_worlds_that_are_told_by_their_ways_are_the_same(name, scope):
    alone = check(specification(name), scope).found
    told = explore_ways(order_of(name, scope), partial(LocalFrontier, tasks=2))
    assert (told.verdict, told.states, told.transitions, told.depth) == counted(alone)[:4]


def test_tasks_that_know_nothing_of_each_other_find_the_same_violation():
    scope = Scope(broadcasts=1, answers=1)
    alone = check(specification("fifo"), scope, promises=CAUSAL).found
    told = explore_ways(order_of("fifo", scope, CAUSAL), partial(LocalFrontier, tasks=2))
    assert told.problem.property == alone.problem.property == "causal"
    assert len(told.actions) == len(alone.actions)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["pc-broadcast", "barrier"])
def test_a_search_on_spark_sees_what_one_process_sees(spark, name):
    from antecast.spark.checking import check_on_spark

    scope = Scope(nodes=3, broadcasts=1, answers=1)
    alone = check(specification(name), scope).found
    found = check_on_spark(spark, order_of(name, scope), here=4)
    assert (found.verdict, found.states, found.transitions, found.depth) == counted(alone)[:4]
