"""Worlds, and what can happen in them.

A world is a tuple of numbers: for each node its local state, its record and its timers; for every two nodes what is
between them; then the cells, what is in the air, what is left of the budget, and the time. What happens is an
*action*, a tuple of plain values that names the nodes and places it is about, so that a list of actions can be
written to a file and played again. `actions` lists what can happen next, `perform` carries one out.

Time stands still but for timers that fire (to their time, if it has not come yet) and ticks that pass. So a frame
that is under way for long is one that arrives after a timer.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final, TypeAlias

from antecast.checking.machine import ABSENT, EVERYBODY, Down, Machine, Step
from antecast.checking.records import EMPTY, Problem, Record, Records
from antecast.checking.scope import BUDGET, Scope
from antecast.checking.reduction import Eager
from antecast.checking.wires import NO_LINK, Arrival, Link, Wires
from antecast.core import Leaving, NodeId, Protocol
from antecast.protocols.registry import Guarantee, Need, Specification

World: TypeAlias = tuple[int, ...]
Action: TypeAlias = tuple[Any, ...]
"""A verb and what it is about. The last entry of a call says what goes with it: see `GO_ON`."""

GO_ON: Final = -1
"""Nothing: the call is made, its effects are carried out."""
ANSWER: Final = -2
"""The application broadcasts from inside a delivery of this call. Zero or more: the node crashes when so many
effects of this call have been carried out."""

_CALLS: Final = ("receive", "hear", "broadcast", "timer", "up", "down")
_B = {name: place for place, name in enumerate(BUDGET)}


class Worlds:
    """All worlds of a check: what is common to them, and the rules by which one follows another."""

    def __init__(
        self,
        spec: Specification,
        settings: Any,
        scope: Scope,
        *,
        promises: frozenset[Guarantee] | None = None,
        machine: type[Machine] = Machine,
    ) -> None:
        self.spec, self.settings, self.scope = spec, settings, scope
        self.promises = spec.guarantees if promises is None else promises
        self.needs = spec.needs(settings)
        self.cells = bool(scope.stations)
        self.hosts = scope.hosts
        self.stations = range(len(self.hosts), len(self.hosts) + scope.stations)
        self.nodes = range(len(self.hosts) + scope.stations)
        self.machine = machine(spec, settings, stations=self.stations, clocks=tuple(scope.clocks))
        fifo = Need.FIFO_LINKS in self.needs if scope.fifo is None else scope.fifo
        self.wires = Wires(fifo=fifo, contents=self.machine.frame_bytes)
        self.records = Records(self.machine.messages, self.promises)
        count = len(self.nodes)
        self.n = count
        self.pairs = list(combinations(self.nodes, 2))
        first = 3 * count
        self.links = {pair: first + place for place, pair in enumerate(self.pairs)}
        """Where in a world each link is."""
        self.place = {
            (a, b): (first + i, flip) for i, (x, y) in enumerate(self.pairs) for a, b, flip in ((x, y, 1), (y, x, 0))
        }
        """Where the link of a sender and a receiver is, and whether it sends to the higher end."""
        self.CELLS, self.AIR, self.BUDGET, self.NOW = (first + len(self.pairs) + place for place in range(4))
        self._tables: dict[Any, int] = {}
        self.values: list[Any] = []
        self._labels: dict[Any, Action] = {}
        self._all = sum(getattr(scope, name) for name in BUDGET)
        self.lifetimes: tuple[int | None, ...] = tuple(map(int, scope.lifetimes)) or (None,)
        self.effects: tuple[tuple[Any, ...], ...] = ()
        """Of the last call that was performed without anything that goes with it."""

    def value(self, thing: Any) -> int:
        """Timers, cells, frames in the air and budgets, by number."""
        found = self._tables.get(thing)
        if found is None:
            found = self._tables[thing] = len(self.values)
            self.values.append(thing)
        return found

    # The beginning.

    def beginning(self) -> World:
        """The world before anything has been broadcast."""
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
            world[self.CELLS] = self.value(tuple(sorted({**dict(self.values[world[self.CELLS]]), host: station}.items())))
            self._must(self._run(world, host, self._step(world, host, "link_up", station)))
        return self._settled(tuple(world)) if self.cells else tuple(world)

    def _settled(self, world: World) -> World:
        """Hosts are taken in before anything else happens; those that join later are not."""
        while True:
            ready = (each for each in self.actions(world) if each[0] in ("hear", "receive"))
            action = next(ready, None)
            if action is None:
                return world
            world, problem = self.perform(world, action, free=True)
            self._must(problem)

    def _must(self, problem: Problem | None) -> None:
        if problem is not None:
            raise AssertionError(f"at the start: {problem.words}")

    # What can happen.

    def label(self, *action: Any) -> Action:
        """One tuple per action, however often it is possible."""
        return self._labels.setdefault(action, action)

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
                yield label("up" if change.up else "down", node, peer, change.life, GO_ON)
        for place, (node, peer, _) in enumerate(self.values[world[self.AIR]]):
            if node in alive and self._hears(world, node, peer):
                yield label("hear", node, peer, place, GO_ON)
        if budget[_B["broadcasts"]]:
            for node in alive:
                if node in self.hosts and self._may_speak(world, node):
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

    def _may_speak(self, world: World, node: NodeId) -> bool:
        """A node that is leaving says nothing more."""
        return not any(token == "leaving" for token, _ in self.values[world[2 * self.n + node]])

    def _hears(self, world: World, node: NodeId, peer: NodeId) -> bool:
        """A station hears what a host has sent in its cell, even if the host has moved on; a host hears the
        station of its cell."""
        return node in self.stations or dict(self.values[world[self.CELLS]]).get(node) == peer

    def _returns(self, world: World) -> Iterator[Action]:
        """Links that have broken come back."""
        for (low, high), place in self.links.items():
            link = self.wires.values[world[place]]
            if link.belongs and not self.wires.is_whole(world[place]) and self._both_up(world, low, high):
                yield self.label("link", low, high)

    def _both_up(self, world: World, low: NodeId, high: NodeId) -> bool:
        protocol = self.machine.protocol
        return protocol(world[low]) is not None and protocol(world[high]) is not None

    def _adversity(self, world: World, budget: tuple[int, ...], alive: list[NodeId]) -> Iterator[Action]:
        label, wires = self.label, self.wires
        if budget[_B["losses"]]:
            if not (self.cells and Need.RELIABLE_LINKS in self.needs):
                for (low, high), place in self.links.items():
                    for arrival in wires.losses(world[place]):
                        node, peer = (high, low) if arrival.to_high else (low, high)
                        yield label("lose", node, peer, arrival.life, arrival.position)
            for place, (node, peer, _) in enumerate(self.values[world[self.AIR]]):
                yield label("fade", node, peer, place)
        whole = [pair for pair, place in self.links.items() if wires.is_whole(world[place])]
        if budget[_B["breaks"]] and not self.cells:
            for low, high in whole:
                yield label("break", low, high)
        if budget[_B["appears"]]:
            for (low, high), place in self.links.items():
                if not wires.values[world[place]].belongs and self._both_up(world, low, high):
                    yield label("appear", low, high)
        hosts = [node for node in alive if node in self.hosts]
        if budget[_B["crashes"]]:
            for node in hosts:
                yield label("crash", node)
        if budget[_B["joins"]]:
            absent = next((n for n in range(self.scope.nodes, len(self.hosts)) if world[n] == ABSENT), None)
            if absent is not None and not self.values[world[2 * self.n + absent]]:
                yield from (label("join", absent, peer) for peer in self._doors(alive))
        if budget[_B["leaves"]] and len(hosts) > 2:
            yield from (label("leave", node) for node in hosts if self._may_speak(world, node))
        if budget[_B["partitions"]]:
            for mask in range(1, 1 << (len(alive) - 1)):
                if any(self._cut(pair, mask, alive) for pair in whole):
                    yield label("cut", *(node for place, node in enumerate(alive) if mask >> place & 1))
        if budget[_B["moves"]]:
            cells = dict(self.values[world[self.CELLS]])
            for host in hosts:
                yield from (label("move", host, each) for each in self.stations if cells.get(host) != each)
        if budget[_B["timeouts"]]:
            for node in alive:
                for token in self._due(world, node):
                    yield label("timer", node, token, GO_ON)
        if budget[_B["ticks"]]:
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
        timers = [(at, token) for token, at in self.values[world[2 * self.n + node]] if token != "leaving"]
        soonest = min((at for at, _ in timers), default=None)
        return [] if soonest is None else [token for at, token in timers if at <= max(soonest, world[self.NOW])]

    def expand(self, world: World) -> Iterator[tuple[Action, World, Problem | None]]:
        """All that can happen next, done."""
        arriving = self._arriving(world)
        budget = self.left(world)
        varied = bool(budget[_B["answers"]] or budget[_B["crashes"]])
        yield from self._receptions(world, arriving, varied)
        for action in self.actions(world, receptions=False):
            after, problem = self.perform(world, action)
            yield action, after, problem
            if varied and action[0] in _CALLS and problem is None:
                yield from self._varied(world, action)

    def without_idle(self, world: World, eager: Eager) -> tuple[World, list[Action]]:
        """The world when all frames have arrived that mean nothing to their receivers: see `checking.reduction`."""
        done: list[Action] = []
        while True:
            for node, peer, place, arrival, step in self._arriving(world):
                if step.idle and eager.may_go_first(node, peer, arrival.frame, world[node]):
                    done.append(self.label("receive", node, peer, arrival.life, arrival.position, GO_ON))
                    world = (*world[:place], arrival.after, *world[place + 1 :])
                    break
            else:
                return world, done

    def _arriving(self, world: World) -> list[tuple[NodeId, NodeId, int, Arrival, Step]]:
        """The frames that can arrive, each with what it does to its receiver."""
        now, memo, arrivals, found = world[self.NOW], self.machine.memo, self.wires.arrivals, []
        for (low, high), place in self.links.items():
            for arrival in arrivals(world[place]):
                node, peer = (high, low) if arrival.to_high else (low, high)
                step = memo.get((world[node], now, "receive", arrival.frame, peer))
                if step is None:
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
            if step.plain and not varied:
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

    # What happens.

    def perform(self, world: World, action: Action, *, free: bool = False) -> tuple[World, Problem | None]:
        """The world after an action, and what it broke. `free` actions cost nothing: all has calmed down."""
        new = list(world)
        self.effects = ()
        problem = getattr(self, f"_do_{action[0]}")(new, *action[1:])
        if not free:
            self._pay(new, action)
        return tuple(new), problem

    _COSTS: Final = {
        "broadcast": "broadcasts", "lose": "losses", "fade": "losses", "break": "breaks", "appear": "appears",
        "crash": "crashes", "join": "joins", "leave": "leaves", "cut": "partitions", "move": "moves",
        "timer": "timeouts", "tick": "ticks",
    }  # fmt: skip

    def _pay(self, world: list[int], action: Action) -> None:
        cost = self._COSTS.get(action[0])
        then = action[-1] if action[0] in _CALLS else GO_ON
        if cost is None and then == GO_ON:
            return
        left = list(self.values[world[self.BUDGET]])
        if cost is not None:
            left[_B[cost]] -= 1
        if then == ANSWER:
            left[_B["answers"]] -= 1
        elif then >= 0:
            left[_B["crashes"]] -= 1
        world[self.BUDGET] = self.value(tuple(left))

    def _step(self, world: list[int], node: NodeId, method: str, *arguments: Any) -> Step:
        return self.machine.step(world[node], node, world[self.NOW], method, *arguments)

    def _run(self, world: list[int], node: NodeId, step: Step, then: int = GO_ON) -> Problem | None:
        """Carry out the effects of a call, and what goes with it."""
        if step.problem is not None:
            kind = "contract" if "effect" in step.problem or "exactly one" in step.problem else "exception"
            return Problem(kind, f"node {node}: {step.problem}")
        world[node] = step.state
        effects = self.effects = step.effects
        if step.named or then >= 0:
            effects = self._in_turn(effects, then if then >= 0 else len(effects))
        nested = then == ANSWER and self.scope.nested
        for effect in effects:
            problem = self._carry_out(world, node, effect)
            if problem is None and nested and effect[0] == "deliver":
                problem, nested = self._answer(world, node), False
            if problem is not None:
                return problem
        if then == ANSWER and not self.scope.nested:
            return self._answer(world, node)
        if then >= 0:
            owed = tuple(each[1] for each in step.effects if each[0] == "deliver" and each not in effects)
            self._stop(world, node, self.machine.crash(world[node], node, owed))
        return self._let_go(world, node)

    def _answer(self, world: list[int], node: NodeId) -> Problem | None:
        return self._run(world, node, self._step(world, node, "broadcast", self.lifetimes[0]))

    @staticmethod
    def _in_turn(effects: tuple[tuple[Any, ...], ...], count: int) -> tuple[tuple[Any, ...], ...]:
        """The first effects of a call: that a broadcast has been made comes before all others."""
        told = [each for each in effects if each[0] == "accepted"]
        return (*told, *[each for each in effects if each[0] != "accepted"][:count])

    def _carry_out(self, world: list[int], node: NodeId, effect: tuple[Any, ...]) -> Problem | None:
        kind = effect[0]
        if kind == "send":
            return self._send(world, node, effect[1], effect[2])
        if kind == "timer":
            self._set_timer(world, node, effect[1], effect[2])
            return None
        place = self.n + node
        if kind == "deliver":
            made = self.records.deliver(world[place], node, effect[1], lambda each: self._past(world, each))
        else:
            made = self.records.broadcast(world[place], node, effect[1])
        if isinstance(made, Problem):
            return made
        world[place] = made
        return None

    def _past(self, world: list[int], message: int) -> int | None:
        """What happened before a message was broadcast; None if it was not."""
        origin = self.machine.messages[message].origin
        if not 0 <= origin < self.n:
            return None
        bit = 1 << message
        for each, past in self.records.values[world[self.n + origin]].pasts:
            if each == bit:
                return past
        return None

    def _send(self, world: list[int], node: NodeId, to: NodeId, frame: int) -> Problem | None:
        if to == EVERYBODY:
            cells = dict(self.values[world[self.CELLS]])
            heard = [cells[node]] if node in cells else [host for host, station in cells.items() if station == node]
            air = self.values[world[self.AIR]]
            flying = (*air, *((each, node, frame) for each in heard))
            data = self.machine.frame_bytes
            world[self.AIR] = self.value(tuple(sorted(flying, key=lambda each: (*each[:2], data[each[2]]))))
            return None
        place = self.place.get((node, to))
        after = -1 if place is None else self.wires.sent(world[place[0]], bool(place[1]), frame)
        if place is None or after < 0:
            shown = type(self.machine.frames[frame]).__name__
            return Problem("contract", f"node {node} sends a {shown} to node {to}, to which it has no link")
        world[place[0]] = after
        return None

    def _set_timer(self, world: list[int], node: NodeId, token: str, at: int | None) -> None:
        place = 2 * self.n + node
        timers = {**dict(self.values[world[place]])}
        timers.pop(token, None)
        if at is not None:
            timers[token] = at
        world[place] = self.value(tuple(sorted(timers.items())))

    # Verbs.

    def _do_broadcast(self, world: list[int], node: NodeId, which: int, then: int) -> Problem | None:
        return self._run(world, node, self._step(world, node, "broadcast", self.lifetimes[which]), then)

    def _do_receive(
        self, world: list[int], node: NodeId, peer: NodeId, life: int, position: int, then: int
    ) -> Problem | None:
        place, high = self.place[peer, node]
        arrivals = self.wires.arrivals(world[place])
        arrival = next(a for a in arrivals if (a.to_high, a.life, a.position) == (bool(high), life, position))
        world[place] = arrival.after
        return self._run(world, node, self._step(world, node, "receive", arrival.frame, peer), then)

    def _do_hear(self, world: list[int], node: NodeId, peer: NodeId, place: int, then: int) -> Problem | None:
        frame = self._out_of_the_air(world, place)
        return self._run(world, node, self._step(world, node, "receive", frame, peer), then)

    def _out_of_the_air(self, world: list[int], place: int) -> int:
        air = self.values[world[self.AIR]]
        world[self.AIR] = self.value(air[:place] + air[place + 1 :])
        return int(air[place][2])

    def _do_fade(self, world: list[int], node: NodeId, peer: NodeId, place: int) -> None:
        self._out_of_the_air(world, place)

    def _do_lose(self, world: list[int], node: NodeId, peer: NodeId, life: int, position: int) -> None:
        place, high = self.place[peer, node]
        losses = self.wires.losses(world[place])
        lost = next(a for a in losses if (a.to_high, a.life, a.position) == (bool(high), life, position))
        world[place] = lost.after

    def _do_up(self, world: list[int], node: NodeId, peer: NodeId, life: int, then: int) -> Problem | None:
        return self._change(world, node, peer, life, "link_up", then)

    def _do_down(self, world: list[int], node: NodeId, peer: NodeId, life: int, then: int) -> Problem | None:
        return self._change(world, node, peer, life, "link_down", then)

    def _change(
        self, world: list[int], node: NodeId, peer: NodeId, life: int, method: str, then: int
    ) -> Problem | None:
        place, high = self.place[peer, node]
        changes = self.wires.changes(world[place])
        world[place] = next(c for c in changes if (c.high, c.life) == (bool(high), life)).after
        return self._run(world, node, self._step(world, node, method, peer), then)

    def _do_timer(self, world: list[int], node: NodeId, token: str, then: int) -> Problem | None:
        at = dict(self.values[world[2 * self.n + node]])[token]
        world[self.NOW] = max(world[self.NOW], at)
        self._set_timer(world, node, token, None)
        return self._run(world, node, self._step(world, node, "timer", token), then)

    def _do_tick(self, world: list[int]) -> None:
        world[self.NOW] += int(self.scope.tick)

    def _do_link(self, world: list[int], low: NodeId, high: NodeId) -> None:
        place = self.links[low, high]
        world[place] = self.wires.begun(world[place])

    _do_appear = _do_link

    def _do_break(self, world: list[int], low: NodeId, high: NodeId) -> None:
        place = self.links[low, high]
        world[place] = self.wires.broken(world[place])

    def _do_cut(self, world: list[int], *side: NodeId) -> None:
        for (low, high), place in self.links.items():
            if (low in side) != (high in side):
                world[place] = self.wires.broken(world[place])

    def _do_move(self, world: list[int], host: NodeId, station: NodeId) -> Problem | None:
        cells = dict(self.values[world[self.CELLS]])
        before = cells.pop(host, None)
        problem = None
        if before is not None:
            world[self.CELLS] = self.value(tuple(sorted(cells.items())))
            air = self.values[world[self.AIR]]
            world[self.AIR] = self.value(tuple(each for each in air if each[0] != host))
            problem = self._run(world, host, self._step(world, host, "link_down", before))
        cells[host] = station
        world[self.CELLS] = self.value(tuple(sorted(cells.items())))
        return problem or self._run(world, host, self._step(world, host, "link_up", station))

    def _do_crash(self, world: list[int], node: NodeId) -> None:
        self._stop(world, node, self.machine.crash(world[node], node))

    def _stop(self, world: list[int], node: NodeId, state: int, *, for_good: bool = False) -> None:
        world[node] = state
        leaving = tuple(each for each in self.values[world[2 * self.n + node]] if each[0] == "leaving")
        world[2 * self.n + node] = self.value((("gone", 0),) if for_good else leaving)
        if self.cells:
            air = self.values[world[self.AIR]]
            world[self.AIR] = self.value(tuple(each for each in air if each[0] != node))
        for (low, high), place in self.links.items():
            if node in (low, high):
                world[place] = self.wires.lost_end(world[place], node == high, for_good=for_good)
        cells = dict(self.values[world[self.CELLS]])
        if for_good and cells.pop(node, None) is not None:
            world[self.CELLS] = self.value(tuple(sorted(cells.items())))

    def _do_recover(self, world: list[int], node: NodeId) -> Problem | None:
        problem = self._run(world, node, self.machine.recover(world[node], node, world[self.NOW]))
        cells = dict(self.values[world[self.CELLS]])
        if problem is None and node in cells:
            return self._run(world, node, self._step(world, node, "link_up", cells[node]))
        return problem

    def _do_join(self, world: list[int], node: NodeId, peer: NodeId) -> Problem | None:
        world[node] = self.machine.start(node)
        if self.cells:
            return self._do_move(world, node, peer)
        everyone = [each for each in self.hosts if each != node and self.machine.protocol(world[each]) is not None]
        for each in everyone if Need.COMPLETE_GRAPH in self.needs else [peer]:
            self._do_link(world, *sorted((node, each)))
        return None

    def _do_leave(self, world: list[int], node: NodeId) -> Problem | None:
        protocol = self.machine.protocol(world[node])
        if not isinstance(protocol, Leaving):
            self._stop(world, node, ABSENT, for_good=True)
            return None
        step = self._step(world, node, "leave")
        self._set_timer(world, node, "leaving", 1 << 62)
        return self._run(world, node, step)

    def _let_go(self, world: list[int], node: NodeId) -> Problem | None:
        """A node that is leaving stops once the others have heard it."""
        if self.scope.leaves and any(token == "leaving" for token, _ in self.values[world[2 * self.n + node]]):
            protocol = self.machine.protocol(world[node])
            if isinstance(protocol, Leaving) and protocol.left:
                self._stop(world, node, ABSENT, for_good=True)
        return None

    # What a search looks at.

    def variants(self, world: World, action: Action, effects: tuple[tuple[Any, ...], ...]) -> Iterator[Action]:
        """The same call with an answer from inside a delivery, or with a crash between two of its effects."""
        budget, node = self.left(world), action[1]
        if node not in self.hosts:
            return
        names = self.machine.messages
        if budget[_B["answers"]] and action[0] != "broadcast" and self._may_speak(world, node):
            if any(each[0] == "deliver" and names[each[1]].origin != node for each in effects):
                yield self.label(*action[:-1], ANSWER)
        if budget[_B["crashes"]] and self.scope.inside:
            carried = [each for each in effects if each[0] != "accepted"]
            for count in range(len(carried)):
                if any(each[0] in ("send", "deliver") for each in carried[count:]):
                    yield self.label(*action[:-1], count)

    def is_possible(self, world: World, action: Action, *, free: bool = False) -> bool:
        """Whether an action can happen in a world."""
        if action[0] in _CALLS and action[-1] != GO_ON:
            action = (*action[:-1], GO_ON)
        if free and action[0] == "timer":
            return any(token == action[2] for token, _ in self.values[world[2 * self.n + action[1]]])
        if free and action[0] == "broadcast":
            return self.machine.protocol(world[action[1]]) is not None
        return action in self.actions(world)

    def frame_under_way(self, world: World, node: NodeId, peer: NodeId, life: int, position: int) -> int:
        """The number of a frame that a link is carrying."""
        place, high = self.place[peer, node]
        found = self.wires.values[world[place]].lives[life]
        return (found.to_high if high else found.to_low)[position]

    def protocols(self, world: World) -> dict[NodeId, Protocol]:
        """The nodes that are up."""
        found = {node: self.machine.protocol(world[node]) for node in self.nodes}
        return {node: each for node, each in found.items() if each is not None}

    def record(self, world: World, node: NodeId) -> Record:
        return self.records.values[world[self.n + node]]
