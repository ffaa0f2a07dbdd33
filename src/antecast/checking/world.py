"""What can happen in a world: every action that is possible, and all worlds that follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antecast.checking.hidden import Raised
from antecast.checking.lassos import ENDLESS, STORM
from antecast.checking.machine import ABSENT
from antecast.checking.performing import ANSWER, CALLS, GO_ON, LEAVING, PLACE, Action, Performing, World
from antecast.checking.records import EMPTY, Problem
from antecast.checking.reduction import Eager
from antecast.checking.scope import BUDGET
from antecast.checking.steps import Down, Step
from antecast.checking.wires import NO_LINK, Arrival, Link
from antecast.core import NodeId
from antecast.protocols.registry import Need

__all__ = ["ANSWER", "CALLS", "GO_ON", "Action", "BadStart", "World", "Worlds"]


class BadStart(Exception):
    """A promise is broken before anything has happened: when the first links come up."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.words)
        self.problem = problem


class Worlds(Performing):
    """All worlds of a check, from the beginning on."""

    # The beginning.

    def beginning(self) -> World:
        """The world before anything has been broadcast."""
        try:
            return self._begun()
        except Raised as error:
            raise BadStart(Problem("exception", str(error))) from None

    def _begun(self) -> World:
        scope = self.scope
        world = [ABSENT] * (self.NOW + 1)
        present = [*range(scope.nodes), *self.stations]
        for node in self.nodes:
            if node in present:
                world[node] = self.machine.start(node)
            world[self.n + node] = self.records.number(EMPTY)
            world[2 * self.n + node] = self.value(())
        linked = scope.links()
        for pair, place in self.links.items():
            link = Link(True, ()) if pair in linked else NO_LINK
            world[place] = self.wires.number(link)
        world[self.CELLS] = self.value(())
        world[self.AIR] = self.value(())
        world[self.BUDGET] = self.value(tuple(getattr(scope, name) for name in BUDGET))
        for pair in linked:
            world[self.links[pair]] = self.wires.begun(world[self.links[pair]])
        # Each node sees its links come up in the order of the ring that starts behind it.
        for node in present:
            for peer in sorted(present, key=lambda other: (other - node) % self.n):
                if tuple(sorted((node, peer))) in linked:
                    place, high = self.place[peer, node]
                    change = next(c for c in self.wires.changes(world[place]) if c.high == bool(high))
                    world[place] = change.after
                    self._must(self._run(world, node, self._step(world, node, "link_up", peer)))
        for host in range(scope.nodes) if self.cells else ():
            station = self.stations[host % scope.stations]
            world[self.CELLS] = self.value(
                tuple(sorted({**dict(self.values[world[self.CELLS]]), host: station}.items()))
            )
            self._must(self._run(world, host, self._step(world, host, "link_up", station)))
        return self._rested(tuple(world)) if self.cells or scope.at_rest else tuple(world)

    def _rested(self, world: World) -> World:
        """All that is under way has arrived. Hosts are taken in before anything else happens, but those that join
        later."""
        for _ in range(STORM):
            ready = (each for each in self.actions(world) if each[0] in ("hear", "receive"))
            action = next(ready, None)
            if action is None:
                return world
            world, problem = self.perform(world, action, free=True)
            self._must(problem)
        raise BadStart(Problem("termination", f"nodes never stop talking; {ENDLESS}"))

    def _must(self, problem: Problem | None) -> None:
        if problem is not None:
            raise BadStart(problem)

    # What can happen.

    def actions(self, world: World, *, receptions: bool = True) -> Iterator[Action]:
        """What can happen next."""
        label, machine = self.label, self.machine
        budget = self.left(world)
        alive = [node for node in self.nodes if machine.protocol(world[node]) is not None]
        for (low, high), place in self.links.items():
            number = world[place]
            for arrival in self.wires.arrivals(number) if receptions else ():
                node, peer = (high, low) if arrival.to_high else (low, high)
                yield label("receive", node, peer, arrival.life, arrival.position, GO_ON)
            for change in self.wires.changes(number):
                node, peer = (high, low) if change.high else (low, high)
                yield label(change.verb, node, peer, change.life, GO_ON)
        for place, (node, peer, _) in enumerate(self.values[world[self.AIR]]):
            if node in alive and self._hears(world, node, peer):
                yield label("hear", node, peer, place, GO_ON)
        if budget[PLACE["broadcasts"]]:
            for node in alive:
                if node in self.hosts and self.may_speak(world, node):
                    for which in range(len(self.lifetimes)):
                        yield label("broadcast", node, which, GO_ON)
        for node in self.nodes:
            if isinstance(machine.states[world[node]], Down):
                yield label("recover", node)
        yield from self._returns(world)
        if any(budget):
            yield from self._adversity(world, budget, alive)

    def left(self, world: World) -> tuple[int, ...]:
        """What is left of the budget; nothing once the bound is reached."""
        budget: tuple[int, ...] = self.values[world[self.BUDGET]]
        bound = self.scope.bound
        return budget if bound is None or self._all - sum(budget) < bound else (0,) * len(BUDGET)

    def may_speak(self, world: World, node: NodeId) -> bool:
        """A node that is leaving says nothing more."""
        return not any(token == LEAVING for token, _ in self.values[world[2 * self.n + node]])

    def _hears(self, world: World, node: NodeId, peer: NodeId) -> bool:
        """A station hears what a host has sent in its cell, even if the host has moved on; a host hears the
        station of its cell."""
        return node in self.stations or dict(self.values[world[self.CELLS]]).get(node) == peer

    def _returns(self, world: World) -> Iterator[Action]:
        """Links that have broken come back."""
        for (low, high), place in self.links.items():
            if self.wires.torn[world[place]] and self._both_up(world, low, high):
                yield self.label("link", low, high)

    def _both_up(self, world: World, low: NodeId, high: NodeId) -> bool:
        protocol = self.machine.protocol
        return protocol(world[low]) is not None and protocol(world[high]) is not None

    def _adversity(self, world: World, budget: tuple[int, ...], alive: list[NodeId]) -> Iterator[Action]:
        label, wires = self.label, self.wires
        if budget[PLACE["losses"]]:
            if not (self.cells and Need.RELIABLE_LINKS in self.needs):
                for (low, high), place in self.links.items():
                    for arrival in wires.losses(world[place]):
                        node, peer = (high, low) if arrival.to_high else (low, high)
                        yield label("lose", node, peer, arrival.life, arrival.position)
            for place, (node, peer, _) in enumerate(self.values[world[self.AIR]]):
                yield label("fade", node, peer, place)
        whole = [pair for pair, place in self.links.items() if wires.is_whole(world[place])]
        if budget[PLACE["breaks"]] and not self.cells:
            for low, high in whole:
                if not self.scope.unsteady or (low, high) in self.scope.unsteady:
                    yield label("break", low, high)
        if budget[PLACE["appears"]]:
            for (low, high), place in self.links.items():
                if not wires.values[world[place]].belongs and self._both_up(world, low, high):
                    yield label("appear", low, high)
        hosts = [node for node in alive if node in self.hosts]
        if budget[PLACE["crashes"]]:
            for node in hosts:
                yield label("crash", node)
        if budget[PLACE["joins"]]:
            absent = next((n for n in range(self.scope.nodes, len(self.hosts)) if world[n] == ABSENT), None)
            if absent is not None and not self.values[world[2 * self.n + absent]]:
                yield from (label("join", absent, peer) for peer in self._doors(alive))
        if budget[PLACE["leaves"]] and len(hosts) > 2:
            yield from (label("leave", node) for node in hosts if self.may_speak(world, node))
        if budget[PLACE["partitions"]]:
            for mask in range(1, 1 << (len(alive) - 1)):
                if any(self._cut(pair, mask, alive) for pair in whole):
                    yield label("cut", *(node for place, node in enumerate(alive) if mask >> place & 1))
        if budget[PLACE["moves"]]:
            cells = dict(self.values[world[self.CELLS]])
            for host in hosts:
                yield from (label("move", host, each) for each in self.stations if cells.get(host) != each)
        if budget[PLACE["timeouts"]]:
            for node in alive:
                for token in self._due(world, node):
                    yield label("timer", node, token, GO_ON)
        if budget[PLACE["ticks"]]:
            yield label("tick")

    def _doors(self, alive: list[NodeId]) -> list[NodeId]:
        """Where a newcomer can come in."""
        if self.cells:
            return list(self.stations)
        return alive[:1] if Need.COMPLETE_GRAPH in self.needs else [node for node in alive if node in self.hosts]

    def _cut(self, pair: tuple[NodeId, NodeId], mask: int, alive: list[NodeId]) -> bool:
        sides = [mask >> alive.index(node) & 1 for node in pair if node in alive]
        return len(sides) == 2 and sides[0] != sides[1]

    def _due(self, world: World, node: NodeId) -> list[str]:
        """The timers of a node that fire first."""
        timers = [(at, token) for token, at in self.values[world[2 * self.n + node]] if token != LEAVING]
        soonest = min((at for at, _ in timers), default=None)
        return [] if soonest is None else [token for at, token in timers if at <= max(soonest, world[self.NOW])]

    def expand(self, world: World) -> Iterator[tuple[Action, World, Problem | None]]:
        """All that can happen next, done."""
        arriving = self._arriving(world)
        varied = self.may_vary(world)
        yield from self._receptions(world, arriving, varied)
        for action in self.actions(world, receptions=False):
            after, problem = self.perform(world, action)
            yield action, after, problem
            if varied and action[0] in CALLS and problem is None:
                yield from self._varied(world, action)

    def may_vary(self, world: World) -> bool:
        """Whether something may go with a call: an answer, or a crash in the middle."""
        budget = self.left(world)
        return bool(budget[PLACE["answers"]] or (budget[PLACE["crashes"]] and self.inside))

    def at_once(self, world: World, eager: Eager) -> tuple[World, list[Action]]:
        """The world when all has happened that may happen first without hiding anything: frames that mean nothing
        to their receivers, or are only noted, arrive, links come back, and nodes recover unless time can pass
        before."""
        done: list[Action] = []
        if self.restless:
            world = self._restored(world, eager, done)
        noting, changed = eager.noting and not self._may_lose(world), True
        while changed:
            changed = False
            for pair, place in self.links.items():
                for node, peer, arrival, state in self._without_effect(world, eager, pair, place, noting):
                    done.append(self.label("receive", node, peer, arrival.life, arrival.position, GO_ON))
                    changed |= state != world[node]
                    new = list(world)
                    new[place], new[node] = arrival.after, state
                    world = tuple(new)
        return world, done

    def settled(self, world: World, eager: Eager) -> World:
        """The same world, in less time: what is left between two nodes, and what becomes of these, depends on
        nothing else."""
        if self.restless:
            world = self._restored(world, eager, [])
        laden, now, known = self.wires.laden, world[self.NOW], eager.left_between
        noting, changed = eager.noting and not self._may_lose(world), True
        new: list[int] | None = None
        here: World | list[int] = world
        while changed:
            changed = False
            for (low, high), place in self.links.items():
                number = here[place]
                if laden[number]:
                    key = (number, here[low], here[high], low, now, noting)
                    left = known.get(key)
                    if left is None:
                        number, ends = here[place], {low: here[low], high: here[high]}
                        for node, _, arrival, state in self._without_effect(
                            tuple(here), eager, (low, high), place, noting
                        ):
                            number, ends[node] = arrival.after, state
                        left = known[key] = (number, ends[low], ends[high])
                    if left[0] != here[place]:
                        here = new = new or list(world)
                        changed |= left[1:] != (here[low], here[high])
                        here[place], here[low], here[high] = left
        return world if new is None else tuple(new)

    def _may_lose(self, world: World) -> bool:
        """Whether a frame that is under way on a link may still be lost."""
        if not self.scope.losses or (self.cells and Need.RELIABLE_LINKS in self.needs):
            return False
        return bool(self.left(world)[PLACE["losses"]])

    def _restored(self, world: World, eager: Eager, done: list[Action]) -> World:
        """Nodes have recovered and links come back."""
        while True:
            action = self._recovery(world) if self.scope.crashes and eager.alike else None
            action = action or next(self._returns(world), None)
            after, problem = (world, None) if action is None else self.perform(world, action)
            if action is None or problem is not None:
                return world
            world = after
            done.append(action)

    def _without_effect(
        self, world: World, eager: Eager, pair: tuple[NodeId, NodeId], place: int, noting: bool
    ) -> Iterator[tuple[NodeId, NodeId, Arrival, int]]:
        """The frames between two nodes that arrive at once, each after those before it, and the state of its
        receiver then."""
        now, machine, (low, high) = world[self.NOW], self.machine, pair
        states = {low: world[low], high: world[high]}
        number, waiting = world[place], True
        while waiting:
            waiting = False
            for arrival in self.wires.arrivals(number):
                node, peer = (high, low) if arrival.to_high else (low, high)
                step = machine.step(states[node], node, now, "receive", arrival.frame, peer)
                may = eager.may_go_first if step.idle else eager.may_be_noted
                if step.quiet and (noting or step.idle) and may(machine, node, peer, arrival.frame, states[node]):
                    number, states[node], waiting = arrival.after, step.state, True
                    yield node, peer, arrival, step.state
                    break

    def _recovery(self, world: World) -> Action | None:
        """A node that is down can recover at once: nobody notices when it does, unless time goes by."""
        states = self.machine.states
        down = next((node for node in self.hosts if isinstance(states[world[node]], Down)), None)
        if down is None:
            return None
        budget = self.left(world)
        return None if budget[PLACE["timeouts"]] or budget[PLACE["ticks"]] else self.label("recover", down)

    def _arriving(self, world: World) -> list[tuple[NodeId, NodeId, int, Arrival, Step]]:
        """The frames that can arrive, each with what it does to its receiver."""
        now, memo, arrivals, found = world[self.NOW], self.machine.memo, self.wires.arrivals, []
        for (low, high), place in self.links.items():
            for arrival in arrivals(world[place]):
                node, peer = (high, low) if arrival.to_high else (low, high)
                step = memo.get((world[node], now, "receive", arrival.frame, peer))
                if step is None or step.aside:
                    step = self.machine.step(world[node], node, now, "receive", arrival.frame, peer)
                found.append((node, peer, place, arrival, step))
        return found

    def _varied(self, world: World, action: Action) -> Iterator[tuple[Action, World, Problem | None]]:
        for variant in self.variants(world, action, self.effects):
            yield variant, *self.perform(world, variant)

    def _receptions(
        self, world: World, arriving: list[tuple[NodeId, NodeId, int, Arrival, Step]], varied: bool
    ) -> Iterator[tuple[Action, World, Problem | None]]:
        """All frames that can arrive. Most of what happens in a world does, so this takes the short way where a
        frame only changes its receiver and makes it send."""
        wires, place_of = self.wires, self.place
        for node, peer, place, arrival, step in arriving:
            action = self.label("receive", node, peer, arrival.life, arrival.position, GO_ON)
            new = list(world)
            new[place] = arrival.after
            if step.plain and not varied and not step.refused:
                new[node] = step.state
                for to, frame in step.sends:
                    at, up = place_of.get((node, to), (-1, 0))
                    after = wires.sent(new[at], bool(up), frame) if at >= 0 else -1
                    if after < 0:
                        break
                    new[at] = after
                else:
                    yield action, tuple(new), None
                    continue
                new = list(world)
                new[place] = arrival.after
            problem = self._run(new, node, step)
            yield action, tuple(new), problem
            if varied and problem is None:
                yield from self._varied(world, action)

    # What a search looks at.

    def variants(self, world: World, action: Action, effects: tuple[tuple[Any, ...], ...]) -> Iterator[Action]:
        """The same call with an answer from inside a delivery, or with a crash between two of its effects."""
        budget, node = self.left(world), action[1]
        if node not in self.hosts:
            return
        names = self.machine.messages
        delivers = any(each[0] == "deliver" and names[each[1]].origin != node for each in effects)
        if delivers and budget[PLACE["answers"]] and action[0] != "broadcast" and self.may_speak(world, node):
            yield self.label(*action[:-1], ANSWER)
        if budget[PLACE["crashes"]] and self.inside:
            carried = [each for each in effects if each[0] != "accepted"]
            for count in range(len(carried)):
                if any(each[0] in ("send", "deliver") for each in carried[count:]):
                    yield self.label(*action[:-1], count)

    def is_possible(self, world: World, action: Action, *, free: bool = False) -> bool:
        """Whether an action can happen in a world."""
        if action[0] in CALLS and action[-1] != GO_ON:
            action = (*action[:-1], GO_ON)
        if free and action[0] == "wait":
            return True
        if free and action[0] == "timer":
            return any(token == action[2] for token, _ in self.values[world[2 * self.n + action[1]]])
        if free and action[0] == "broadcast":
            return self.machine.protocol(world[action[1]]) is not None
        return action in self.actions(world)
