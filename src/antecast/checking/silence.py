"""When all is done, nodes fall silent.

What was acknowledged is not sent again for ever, and no timer is set again and again for nothing. What may go on
are *heartbeats*: frames by which nodes learn of each other that they live, or that they lack nothing. A
`Specification` names their types; which frames have an end cannot be told from their contents.

It is judged from a world at rest in which nothing is lacking: timers fire, and what they send arrives. (Where
messages may be given up, and someone lacks one, nodes may look for it for ever, and only timers for nothing are
told.) All goes on for ever if the same world comes back but for the time, however late its timers fire. It may
never come back, since something is counted: so it is told, too, when as many timers have fired as the scope
allows (`calm`). A network is silent when all timers that were set have fired, or were cancelled, and heartbeats
alone were sent; or when there were neither frames nor such a round for as many as `IDLE` timers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from antecast.checking.lassos import ENDLESS, REPEATS, STORM
from antecast.checking.performing import LEAVING
from antecast.checking.records import Problem
from antecast.core import ConfigurationError, Frame
from antecast.protocols.registry import Specification

if TYPE_CHECKING:
    from antecast.checking.calm import Calm
    from antecast.checking.world import Action, World, Worlds
    from antecast.core import NodeId

IDLE: Final = 64
"""Timers that fire one after the other, without a frame but heartbeats, before a network is taken for silent."""


def heartbeats_of(spec: Specification, settings: Any) -> tuple[type[Frame], ...]:
    """The frames that a protocol sends for ever, as its specification names them."""
    named: tuple[Any, ...] = tuple(spec.heartbeats(settings))
    for each in named:
        if not (isinstance(each, type) and issubclass(each, Frame)):
            problem = f"{spec.name}: {each!r} is not a type of frames; name the classes of the frames"
            raise ConfigurationError(problem, field="heartbeats")
    return named


def noise(calm: Calm, world: World, way: list[Action]) -> Problem | None:
    """What goes on for ever from a world in which all is done, and the way there."""
    worlds, made = calm.worlds, len(way)
    heartbeats = calm.heartbeats if calm.all_delivered(world) else (object,)
    seen: dict[World, int] = {}
    """Worlds at rest, but for their time, and how many timers had fired when they were first seen."""
    fired = sent = spoke = began = since = 0
    """How many timers have fired: all, up to the last frame, up to the last one that is no heartbeat, and up to
    the beginning of the round; and how many frames have arrived and the like since the last."""
    due: set[tuple[NodeId, str]] | None = None
    """The timers that were set when the round began and have not fired since."""
    words, waited = "", False
    turns: dict[Action, int] = {}
    while fired - spoke <= IDLE:
        action = calm.next(world, 0, turns)
        since = 0 if action is None else since + 1
        if action is None:
            action = next(calm.timers(world, 0), None)
            timers = _timers(worlds, world)
            due = timers if due is None or spoke > began else due & timers
            if action is None or (not due and sent > began):
                break
            if spoke > began or not due:
                due, began = timers, fired
            relative = calm.without_time(world)
            if relative not in seen:
                waited = False
            elif not waited:
                action, waited = worlds.label("wait"), True
            elif sent <= seen[relative]:
                words = f"at node {action[1]} the timer {action[2]} is set again for ever, without an effect"
                return Problem("termination", f"{words}; {REPEATS}")
            elif spoke > seen[relative]:
                return Problem("termination", f"{words}; {REPEATS}")
            seen.setdefault(relative, fired)
            due.discard(action[1:3])
            fired += 1
        if fired > worlds.scope.calm or since > STORM:
            del way[made:]  # a replay goes on by itself
            ends = f"; {ENDLESS}" if since else f", after {fired - 1} timers have fired"
            return Problem("termination", f"{words or 'nodes never stop talking'}{ends}")
        way.append(action)
        world, problem = worlds.perform(world, action, free=True)
        if problem is not None:
            return problem
        for effect in worlds.effects:
            if effect[0] == "send":
                kind, sent = type(worlds.machine.frames[effect[2]]), fired
                if not issubclass(kind, heartbeats):
                    words, spoke = f"when all is done, node {action[1]} still sends a {kind.__name__}", fired
    del way[made:]
    return None


def _timers(worlds: Worlds, world: World) -> set[tuple[NodeId, str]]:
    """All timers that are set at nodes that are up."""
    up, values = worlds.protocols(world), worlds.values
    return {(node, token) for node in up for token, _ in values[world[2 * worlds.n + node]] if token != LEAVING}
