"""Protocols of others may do anything. A search says what is wrong, and never ends as if all were well."""

import re
from dataclasses import replace

import pytest
from small import SPEC, Direct, spec_of

from antecast.checking.check import check
from antecast.checking.scope import Scope
from antecast.core import (
    Accepted,
    CancelTimer,
    ConfigurationError,
    Deliver,
    Discard,
    Message,
    MessageId,
    Send,
    SetTimer,
)


class Leaves(Direct):
    """Does one thing more when it receives a message."""

    def receive(self, frame, sender, now):
        return [*super().receive(frame, sender, now), self.more(frame)]


def doing(name, more):
    return type(name, (Leaves,), {"more": lambda self, frame: more(frame)})


class EndsTheProgram(Direct):
    def receive(self, frame, sender, now):
        raise SystemExit(0)


class EndsItWhenSaving(Direct):
    def snapshot(self):
        raise SystemExit(0)


class EndsItWhenRecovering(Direct):
    def restore(self, state):
        raise SystemExit(0)


class EndsItWhenAsked(Direct):
    def gauges(self):
        raise SystemExit(0)


class StopsAsAGenerator(Direct):
    def receive(self, frame, sender, now):
        raise GeneratorExit


class CannotBeMade(Direct):
    def __init__(self, node, settings):
        raise ValueError("too few")


class CannotJoin(Direct):
    def __init__(self, node, settings):
        super().__init__(node, settings)
        if node == 2:
            raise ValueError("too many")


class AcceptsNothing(Direct):
    def broadcast(self, payload, now, *, lifetime=None):
        return [Accepted(None)]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (EndsTheProgram, "receive raised SystemExit: 0"),
        (EndsItWhenSaving, "snapshot raised SystemExit: 0"),
        (EndsItWhenRecovering, "recovery raised SystemExit: 0"),
        (EndsItWhenAsked, "gauges raised SystemExit: 0"),
        (StopsAsAGenerator, "receive raised GeneratorExit"),
        (CannotBeMade, "node 0 cannot be made: ValueError: too few"),
        (CannotJoin, "node 2 cannot be made: ValueError: too many"),
        (AcceptsNothing, "broadcast gave a Accepted, which cannot be carried out: None is not the name of a"),
        (
            doing("SendsToAText", lambda frame: Send("1", frame)),
            "'str' object cannot be interpreted as an integer",
        ),
        (doing("SendsToAList", lambda frame: Send([1], frame)), "'list' object cannot be interpreted"),
        (doing("SetsHalves", lambda frame: SetTimer("x", 0.5)), "'float' object cannot be interpreted"),
        (doing("SetsNumbers", lambda frame: SetTimer(5, 5)), "a timer is named by a text, not by 5"),
        (doing("CancelsNumbers", lambda frame: CancelTimer(7)), "a timer is named by a text, not by 7"),
        (doing("DiscardsNothing", lambda frame: Discard(None, "")), "None is not the name of a message"),
        (
            doing("DeliversOfSomebody", lambda frame: Deliver(Message("a", 1, b"", None))),
            "'str' object cannot be interpreted as an integer",
        ),
        (
            doing("DeliversOddly", lambda frame: Deliver(Message(1, "x", b"", None))),
            "'str' object cannot be interpreted as an integer",
        ),
        (
            doing("DeliversNumbers", lambda frame: Deliver(Message(1, 1, 5, None))),
            "the payload of a message is bytes, not 5",
        ),
        (
            doing("DiscardsOddly", lambda frame: Discard(MessageId("x", [1]), "")),
            "'str' object cannot be interpreted as an integer",
        ),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_goes_wrong_in_a_call_is_a_violation_in_words(make, words):
    scope = Scope(nodes=2, broadcasts=1, crashes=1, joins=int(make is CannotJoin))
    found = check(spec_of(make, guarantees=frozenset()), scope).found
    assert found.verdict == "violated"
    assert words in found.problem.words


class HasNoValue(Direct):
    def canonical(self):
        raise ValueError("no")


class HasNoCopy(Direct):
    def clone(self):
        raise ValueError("no")


class CopiesToNothing(Direct):
    def clone(self):
        return None


class HasNoNumber(Direct):
    def __init__(self, node, settings):
        super().__init__(node, settings)
        del self.node


def fails(settings):
    raise ValueError("no")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (spec_of(HasNoValue), "hasnovalue: canonical() raised ValueError: no"),
        (spec_of(HasNoCopy), "hasnocopy: clone() raised ValueError: no"),
        (spec_of(CopiesToNothing), "copiestonothing: clone() gave None, not a copy"),
        (spec_of(HasNoNumber), "hasnonumber: the attribute `node` of node 0 is not 0"),
        (replace(SPEC, make=lambda node, settings: None), "what makes its nodes gave None, not a Protocol"),
        (replace(SPEC, make=None), "make: direct: expected what makes a node, got None"),
        (replace(SPEC, needs=fails), "needs: direct: needs raised ValueError: no"),
        (replace(SPEC, needs=lambda settings: None), "needs: direct: expected a set of Need, got None"),
        (replace(SPEC, guarantees=None), "guarantees: direct: expected a set of Guarantee, got None"),
        (replace(SPEC, heartbeats=fails), "heartbeats: direct: heartbeats raised ValueError: no"),
        (replace(SPEC, heartbeats=lambda settings: None), "expected the classes of frames, got None"),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_what_cannot_be_checked_is_refused_in_words(spec, words):
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        check(spec, Scope(nodes=2, broadcasts=1))


@pytest.mark.parametrize("said", ["", False, ["odd"]])
def test_a_property_says_what_is_wrong_or_gives_none(said):
    """An empty text is neither: a search that took it for "all is well" would hide what the property found."""
    with pytest.raises(ConfigurationError, match="a property says in words what is wrong, or gives None"):
        check(SPEC, Scope(nodes=2, broadcasts=1), properties=(lambda view: said,))


def test_a_property_that_ends_the_program_is_named():
    def ends(view):
        raise SystemExit(0)

    with pytest.raises(ConfigurationError, match=r"ends \(test_odd_protocols.py, line \d+\) raised SystemExit: 0"):
        check(SPEC, Scope(nodes=2, broadcasts=1), properties=(ends,))
