"""How links begin, and where a check begins."""

from small import SPEC, Direct, spec_of

from antecast.checking.calm import Calm
from antecast.checking.check import check
from antecast.checking.counterexample import replay
from antecast.checking.scope import Scope
from antecast.checking.world import GO_ON, Worlds
from antecast.core import Codec, Frame, Message, Send
from antecast.protocols import specification


class Hello(Frame, frozen=True, tag=1):
    pass


def played(worlds, world, *actions):
    for action in actions:
        assert worlds.is_possible(world, action), action
        world, problem = worlds.perform(world, action)
        assert problem is None
    return world


def test_an_end_may_come_up_after_its_link_has_broken_or_never():
    """Node 0 has seen it come up, sent a message, and seen it go down, before node 2 hears of it."""
    worlds = Worlds(SPEC, SPEC.configure({}), Scope(nodes=3, topology="line", broadcasts=1, appears=1, breaks=1))
    begun = played(
        worlds, worlds.beginning(), ("appear", 0, 2), ("up", 0, 2, 0, GO_ON), ("broadcast", 0, 0, GO_ON)
    )
    over = played(worlds, begun, ("break", 0, 2), ("down", 0, 2, 0, GO_ON), ("receive", 1, 0, 0, 0, GO_ON))
    assert Calm(worlds).is_quiet(over)
    late = played(worlds, over, ("late", 2, 0, 0, GO_ON), ("receive", 2, 0, 0, 0, GO_ON))
    assert not Calm(worlds).is_quiet(late)
    assert worlds.record(late, 2).delivered == worlds.record(late, 1).delivered != 0
    assert Calm(worlds).is_quiet(played(worlds, late, ("down", 2, 0, 0, GO_ON)))
    skipped = played(worlds, over, ("link", 0, 2), ("up", 2, 0, 1, GO_ON))
    assert not worlds.record(skipped, 2).delivered
    assert not worlds.is_possible(skipped, ("late", 2, 0, 0, GO_ON))


def test_a_check_can_begin_at_rest():
    greeted = [
        check(specification("barrier"), Scope(nodes=3, broadcasts=1, at_rest=each), reduce=False)
        for each in (True, False)
    ]
    assert [each.found.verdict for each in greeted] == ["exhausted", "exhausted"]
    assert 10 * greeted[0].found.states < greeted[1].found.states


def test_a_network_that_never_comes_to_rest_cannot_begin_there():
    class Greets(Direct):
        """Answers a greeting, and the answer."""

        codec = Codec([Message[None], Hello])

        def link_up(self, peer, now):
            return [*super().link_up(peer, now), Send(peer, Hello())]

        def receive(self, frame, sender, now):
            return [Send(sender, frame)] if isinstance(frame, Hello) else super().receive(frame, sender, now)

    done = check(spec_of(Greets), Scope(nodes=2, broadcasts=1, at_rest=True))
    assert done.found.problem.words == "nodes never stop talking; frames go to and fro without an end"
    assert replay(done.counterexample, spec_of(Greets)).problem == done.found.problem
