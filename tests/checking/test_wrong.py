"""What is wrong in any way is found; what is right is not taken for wrong."""

from dataclasses import replace

import pytest
import wrong
from small import SPEC

from antecast.checking.check import check
from antecast.checking.counterexample import replay
from antecast.checking.limits import Limits
from antecast.checking.scope import Scope
from antecast.core import ConfigurationError
from antecast.core.settings import Offset
from antecast.protocols import Guarantee, Need

CAUSAL = frozenset({Guarantee.CAUSAL, Guarantee.INTEGRITY, Guarantee.AGREEMENT})


def spec_of(make):
    return replace(SPEC, name=make.__name__, make=make, guarantees=CAUSAL)


@pytest.mark.parametrize(
    ("make", "scope"),
    [
        (wrong.Flood, Scope(nodes=3, broadcasts=1, answers=1)),
        (wrong.Flood, Scope(nodes=2, broadcasts=1, answers=1, crashes=1)),
        (wrong.Flood, Scope(nodes=2, broadcasts=1, answers=1, breaks=1)),
        (wrong.Asks, Scope(nodes=3, broadcasts=1)),
        (wrong.Asks, Scope(nodes=3, broadcasts=1, fifo=True)),
        (wrong.LooksForItsTime, Scope(nodes=2, broadcasts=2)),
    ],
)
def test_what_is_right_is_exhausted(make, scope):
    found = check(spec_of(make), scope).found
    assert (found.verdict, found.problem) == ("exhausted", None)


@pytest.mark.parametrize(
    ("make", "scope", "broken", "words"),
    [
        (wrong.WithoutPayload, Scope(nodes=2, broadcasts=1), "integrity", "with another payload"),
        (
            wrong.OldPayload,
            Scope(nodes=2, broadcasts=2, fifo=True, probes=False),
            "integrity",
            "0:2 with another payload",
        ),
        (wrong.AcceptsAndForgets, Scope(nodes=2, broadcasts=1), "termination", "never delivers"),
        (wrong.ForgetsToReturn, Scope(nodes=2, broadcasts=1), "exception", "receive raised TypeError"),
        (wrong.RaisesLate, Scope(nodes=2, broadcasts=1), "exception", "RuntimeError: too late"),
        (wrong.NotAFrame, Scope(nodes=2, broadcasts=1), "contract", "broadcast gave a Send, which cannot be"),
        (wrong.NotAMessage, Scope(nodes=2, broadcasts=1), "contract", "receive gave a Deliver, which cannot be"),
        (wrong.UnknownFrame, Scope(nodes=2, broadcasts=1), "contract", "not a frame of this protocol"),
        (wrong.CannotSave, Scope(nodes=2, broadcasts=1, crashes=1), "exception", "snapshot raised IndexError"),
        (wrong.SavesItself, Scope(nodes=2, broadcasts=1, crashes=1), "exception", "snapshot raised TypeError"),
        (wrong.CannotCount, Scope(nodes=2, broadcasts=2), "exception", "gauges raised ZeroDivisionError"),
        (
            wrong.CannotCountWhatWaits,
            Scope(nodes=3, broadcasts=1, answers=1),
            "exception",
            "gauges raised KeyError",
        ),
        (wrong.CountsNothing, Scope(nodes=2, broadcasts=1), "exception", "pending is not a whole number"),
        (wrong.SavesLessWithoutLinks, Scope(nodes=2, broadcasts=1, breaks=1, crashes=1), "integrity", "as 1:1"),
        (wrong.HoldsItsOwnBack, Scope(nodes=3, broadcasts=1), "termination", "node 2 holds 1 back"),
        (wrong.RaisesAtTheStart, Scope(nodes=2, broadcasts=1), "exception", "no links today"),
        (wrong.DownTwice, Scope(nodes=2, broadcasts=1, breaks=1), "contract", "told that its link to 1 is gone"),
        (wrong.Talks, Scope(nodes=3, broadcasts=2), "termination", "everything repeats"),
        (wrong.Talks, Scope(nodes=3, broadcasts=2, fifo=True), "termination", "everything repeats"),
        (wrong.Ticks, Scope(nodes=2, broadcasts=1), "termination", "is set again for ever, without an effect"),
        (wrong.TakesTurns, Scope(nodes=2, broadcasts=1), "termination", "everything repeats"),
        (wrong.SecondFirst, Scope(nodes=3, broadcasts=1, probes=False), "termination", "never delivers"),
    ],
)
def test_what_is_wrong_is_told_and_can_be_played_again(make, scope, broken, words):
    done = check(spec_of(make), scope)
    assert (done.found.verdict, done.found.problem.property) == ("violated", broken)
    assert words in done.found.problem.words
    assert replay(done.counterexample, spec_of(make)).problem.property == broken


@pytest.mark.parametrize(("late", "clocks", "broken"), [(False, [], False), (True, [], True), (True, [1], False)])
def test_a_delivery_after_the_longest_lifetime_breaks_the_deadline(late, clocks, broken):
    spec = replace(spec_of(wrong.DeliversLate if late else wrong.Expires), lifetime=lambda settings: 10**9)
    spec = replace(spec, guarantees=frozenset({Guarantee.DEADLINE, Guarantee.INTEGRITY}))
    scope = Scope(nodes=2, broadcasts=1, ticks=2, clocks=[Offset(each * 10**9) for each in clocks])
    done = check(spec, scope)
    assert (done.found.verdict == "violated") is broken
    if broken:
        assert done.found.problem.words == "node 1 delivered 0:1 2 s after its broadcast; 1 s are allowed"
        assert replay(done.counterexample, spec).problem == done.found.problem


def test_what_has_expired_at_a_node_is_not_delivered_there():
    """The clock of node 2 is ahead, so in true time nothing is late."""
    guarantees = frozenset({Guarantee.DEADLINE, Guarantee.INTEGRITY})
    spec = replace(spec_of(wrong.ForgetsThatItExpired), guarantees=guarantees, lifetime=lambda settings: 10**9)
    done = check(spec, Scope(nodes=3, broadcasts=1, clocks=[Offset(0), Offset(0), Offset(2 * 10**9)]))
    assert done.found.problem.words == "node 2 delivered 0:1, which it had discarded"
    assert replay(done.counterexample, spec).problem == done.found.problem


@pytest.mark.parametrize(
    ("make", "verdict"),
    [(wrong.GivesUp, "exhausted"), (wrong.TakesItBack, "violated"), (wrong.DiscardsCopies, "exhausted")],
)
@pytest.mark.parametrize("reduce", [True, False])
def test_what_was_discarded_is_not_delivered_later(make, verdict, reduce):
    spec = replace(spec_of(make), guarantees=frozenset({Guarantee.CAUSAL, Guarantee.INTEGRITY}))
    done = check(spec, Scope(nodes=3, broadcasts=1, answers=1, timeouts=1, probes=False), reduce=reduce)
    assert done.found.verdict == verdict
    if verdict == "violated":
        assert done.found.problem[:2] == ("contract", "node 2 delivered 1:1, which it had discarded")
        assert "at node 2 the timer wait fires: discards 1:1" in done.counterexample.steps
        assert replay(done.counterexample, spec).problem == done.found.problem


@pytest.mark.parametrize(
    ("make", "declared", "ends"),
    [
        (wrong.Beats, False, "after 300 timers have fired"),
        (wrong.BeatsAlike, False, "everything repeats"),
        (wrong.ResendsForEver, False, "everything repeats"),
        (wrong.ResendsBesideBeats, True, "everything repeats"),
        (wrong.DropsAcknowledgements, False, "everything repeats"),
        (wrong.StartsAStorm, True, "without an end"),
        (wrong.Beats, True, None),
        (wrong.BeatsAlike, True, None),
        (wrong.ResendsUntilHeard, False, None),
    ],
)
def test_when_all_is_done_nothing_is_sent_for_ever_but_signs_of_life(make, declared, ends):
    spec = replace(spec_of(make), heartbeats=lambda settings: (wrong.Ping,) if declared else ())
    done = check(spec, Scope(nodes=2, broadcasts=1))
    assert done.found.verdict == ("violated" if ends else "exhausted")
    if ends:
        assert done.found.problem.property == "termination"
        assert done.found.problem.words.endswith(ends)
        assert replay(done.counterexample, spec).problem.property == "termination"


def test_heartbeats_are_types_of_frames():
    spec = replace(spec_of(wrong.Beats), heartbeats=lambda settings: ("Ping",))
    with pytest.raises(ConfigurationError, match="'Ping' is not a type of frames"):
        check(spec, Scope(nodes=2, broadcasts=1))


def test_a_deadline_is_not_judged_where_messages_do_not_expire():
    with pytest.raises(ConfigurationError, match="nothing is ever late"):
        check(spec_of(wrong.Flood), Scope(broadcasts=1), promises=frozenset({Guarantee.DEADLINE}))


def test_what_order_does_not_need_of_the_calm_is_left_out():
    """It breaks when nodes broadcast once more; that node 1 does, too, has nothing to do with it."""
    spec = replace(spec_of(wrong.NumbersTheOtherWay), guarantees=frozenset({Guarantee.FIFO}))
    done = check(spec, Scope(nodes=2, broadcasts=1))
    verbs = [action[:2] for action in done.found.actions]
    assert verbs == [("broadcast", 0), ("receive", 1), ("broadcast", 0), ("receive", 1)]
    assert replay(done.counterexample, spec).problem == done.found.problem


def test_the_order_of_a_source_is_that_of_its_broadcasts_whatever_their_numbers():
    spec = replace(spec_of(wrong.NumbersTheOtherWay), guarantees=frozenset({Guarantee.FIFO}))
    done = check(spec, Scope(nodes=2, broadcasts=2, probes=False))
    assert done.found.problem.words == "node 1 delivered 0:2 after 0:1"
    assert len(done.found.actions) == 4


@pytest.mark.parametrize(("make", "verdict"), [(wrong.Talks, "violated"), (wrong.Asks, "exhausted")])
def test_lassos_are_looked_for_in_all_worlds_where_many_share_them(make, verdict):
    found = check(spec_of(make), Scope(nodes=3, broadcasts=2), jobs=2, share_from=20).found
    assert found.verdict == verdict
    assert "that frames come to rest was seen in all worlds, not by local calls alone" in found.reduction


@pytest.mark.parametrize("strategy", ["walk", "overtaking", "patient"])
def test_random_walks_notice_that_nodes_never_stop_talking(strategy):
    scope = Scope(nodes=3, broadcasts=2)
    done = check(spec_of(wrong.Talks), scope, strategy=strategy, limits=Limits(cpu=60))
    assert done.found.problem.words == "nodes never stop talking; frames go to and fro without an end"
    assert replay(done.counterexample, spec_of(wrong.Talks)).problem.property == "termination"


def test_the_search_without_reduction_finds_lassos_too():
    found = check(spec_of(wrong.Talks), Scope(nodes=3, broadcasts=2), reduce=False, exact=True).found
    assert found.problem.words.endswith("everything repeats")


def test_what_is_lost_twice_takes_a_timer_before_all_is_calm():
    """The resend is lost, too. Without a timer in between it is never sent while frames can still be lost."""
    spec = replace(spec_of(wrong.ResendsOnce), needs=lambda settings: frozenset({Need.STATIC_MEMBERS}))
    calm, early = (check(spec, Scope(nodes=2, broadcasts=1, losses=2, timeouts=each)) for each in (0, 1))
    assert (calm.found.verdict, calm.calm_timers) == ("exhausted", True)
    assert (early.found.problem.property, early.calm_timers) == ("termination", False)
