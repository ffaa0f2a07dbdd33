"""Worlds, and what happens in them.

A world is a tuple of numbers: for each node its local state, its record and its timers; for every two nodes what
is between them; then the cells, what is in the air, what is left of the budget, and the time. What happens is an
*action*, a tuple of plain values that names the nodes and places it is about, so that a list of actions can be
written to a file and played again; `perform` carries one out. What can happen is in `checking.world`.

Time stands still but for timers that fire (to their time, if it has not come yet) and ticks that pass. So a frame
that is under way for long is one that arrives after a timer.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final, TypeAlias

from antecast.checking.hidden import FAULTS, Raised
from antecast.checking.machine import ABSENT, EVERYBODY, Machine
from antecast.checking.records import Problem, Record, Records
from antecast.checking.scope import BUDGET, UNREST, Scope
from antecast.checking.steps import Down, Step
from antecast.checking.wires import Wires
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

A_DAY: Final = 86_400 * 10**9
"""Nanoseconds that pass at once where timers are late."""

LEAVING: Final = "\0leaving"
GONE_FOR_GOOD: Final = "\0gone"
"""Marks among the timers of a node that is about to leave, or has left: no protocol has timers of these names."""

CALLS: Final = ("receive", "hear", "broadcast", "timer", "up", "late", "down")
PLACE = {name: place for place, name in enumerate(BUDGET)}


class Performing:
    """What is common to all worlds of a check, and the rules by which one follows another."""

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
        self.machine.latest = self._latest()
        self.wires = Wires(fifo=fifo, contents=self.machine.frame_bytes)
        self.records = Records(self.machine.messages, self.promises)
        count = len(self.nodes)
        self.n = count
        self.pairs = list(combinations(self.nodes, 2))
        first = 3 * count
        self.links = {pair: first + place for place, pair in enumerate(self.pairs)}
        """Where in a world each link is."""
        self.place = {
            (a, b): (first + i, flip)
            for i, (x, y) in enumerate(self.pairs)
            for a, b, flip in ((x, y, 1), (y, x, 0))
        }
        """Where the link of a sender and a receiver is, and whether it sends to the higher end."""
        self.CELLS, self.AIR, self.BUDGET, self.NOW = (first + len(self.pairs) + place for place in range(4))
        self._tables: dict[Any, int] = {}
        self.values: list[Any] = []
        self._labels: dict[Any, Action] = {}
        self._all = sum(getattr(scope, name) for name in BUDGET)
        self.lifetimes: tuple[int | None, ...] = tuple(map(int, scope.lifetimes)) or (None,)
        self._gauges: dict[int, dict[str, int]] = {}
        self.inside = scope.inside
        """Whether crashes come between two effects of a call, too."""
        self.restless = any(getattr(scope, name) for name in UNREST)
        self.effects: tuple[tuple[Any, ...], ...] = ()
        """Of the last call that was performed without anything that goes with it."""

    def _latest(self) -> int | None:
        """How long after its broadcast a message may be delivered, if that is promised. A deadline is the source's
        time, judged by the receiver's, and sources push it up by a nanosecond where their clocks stand still."""
        longest = self.spec.lifetime(self.settings)
        if Guarantee.DEADLINE not in self.promises or longest is None:
            return None
        scope = self.scope
        ahead = [*map(int, scope.clocks), *[0] * (len(self.nodes) - len(scope.clocks))]
        return longest + max(ahead) - min(ahead) + scope.broadcasts + scope.answers + 2 * len(self.nodes)

    def value(self, thing: Any) -> int:
        """Timers, cells, frames in the air and budgets, by number."""
        found = self._tables.get(thing)
        if found is None:
            found = self._tables[thing] = len(self.values)
            self.values.append(thing)
        return found

    def label(self, *action: Any) -> Action:
        """One tuple per action, however often it is possible."""
        return self._labels.setdefault(action, action)

    # What happens.

    def perform(self, world: World, action: Action, *, free: bool = False) -> tuple[World, Problem | None]:
        """The world after an action, and what it broke. `free` actions cost nothing: all has calmed down."""
        new = list(world)
        self.effects = ()
        try:
            problem: Problem | None = getattr(self, f"_do_{action[0]}")(new, *action[1:])
        except Raised as error:
            return world, Problem("exception", str(error))
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
        then = action[-1] if action[0] in CALLS else GO_ON
        if cost is None and then == GO_ON:
            return
        left = list(self.values[world[self.BUDGET]])
        if cost is not None:
            left[PLACE[cost]] -= 1
        if then == ANSWER:
            left[PLACE["answers"]] -= 1
        elif then >= 0:
            left[PLACE["crashes"]] -= 1
        world[self.BUDGET] = self.value(tuple(left))

    def _step(self, world: list[int], node: NodeId, method: str, *arguments: Any) -> Step:
        return self.machine.step(world[node], node, world[self.NOW], method, *arguments)

    def _run(self, world: list[int], node: NodeId, step: Step, then: int = GO_ON) -> Problem | None:
        """Carry out the effects of a call, and what goes with it."""
        if step.problem is not None:
            return Problem(step.kind, f"node {node}: {step.problem}")
        if step.refused and not self.cells:  # by radio, much may come late
            return Problem("refused", f"node {node} refused a frame of an honest node: {step.refused}")
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
        return self._run(world, node, self._broadcast(world, node, 0))

    def _broadcast(self, world: list[int], node: NodeId, which: int) -> Step:
        said = len(self.records.values[world[self.n + node]].pasts)
        return self._step(world, node, "broadcast", self.lifetimes[which], said)

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
            count, past = self._past(world, effect[1])
            if past is not None and effect[2] not in (None, count):
                words = f"node {node} delivered {self.machine.messages[effect[1]]} with another payload"
                return Problem("integrity", words, (node, effect[1]))
            if len(effect) > 3:
                late, allowed = effect[3] / 1e9, (self.machine.latest or 0) / 1e9
                words = f"node {node} delivered {self.machine.messages[effect[1]]} {late:g} s after its broadcast"
                return Problem("deadline", f"{words}; {allowed:g} s are allowed", (node, effect[1]))
            made = self.records.deliver(world[place], node, effect[1], past)
        elif kind == "discard":
            made = self.records.discard(world[place], effect[1])
        else:
            made = self.records.broadcast(world[place], node, effect[1])
        if isinstance(made, Problem):
            return made
        world[place] = made
        return None

    def _past(self, world: list[int], message: int) -> tuple[int, int | None]:
        """How many its source had broadcast before a message, and what happened before it; None if it was not
        broadcast."""
        origin = self.machine.messages[message].origin
        if not 0 <= origin < self.n:
            return -1, None
        bit = 1 << message
        for count, (each, past) in enumerate(self.records.values[world[self.n + origin]].pasts):
            if each == bit:
                return count, past
        return -1, None

    def _send(self, world: list[int], node: NodeId, to: NodeId, frame: int) -> Problem | None:
        if to == EVERYBODY:
            cells = dict(self.values[world[self.CELLS]])
            heard = (
                [cells[node]] if node in cells else [host for host, station in cells.items() if station == node]
            )
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
        return self._run(world, node, self._broadcast(world, node, which), then)

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

    _do_late = _do_up

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

    def _do_wait(self, world: list[int]) -> None:
        world[self.NOW] += A_DAY

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
        leaving = tuple(each for each in self.values[world[2 * self.n + node]] if each[0] == LEAVING)
        world[2 * self.n + node] = self.value(((GONE_FOR_GOOD, 0),) if for_good else leaving)
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
        states = self.machine.states
        everyone = [each for each in self.hosts if each != node and states[world[each]] is not None]
        for each in everyone if Need.COMPLETE_GRAPH in self.needs else [peer]:
            place, _ = self.place[node, each]
            down = isinstance(states[world[each]], Down)
            world[place] = self.wires.due(world[place]) if down else self.wires.begun(world[place])
        return None

    def _do_leave(self, world: list[int], node: NodeId) -> Problem | None:
        protocol: object = self.machine.protocol(world[node])
        if not isinstance(protocol, Leaving):
            self._stop(world, node, ABSENT, for_good=True)
            return None
        step = self._step(world, node, "leave")
        self._set_timer(world, node, LEAVING, 1 << 62)
        return self._run(world, node, step)

    def _let_go(self, world: list[int], node: NodeId) -> Problem | None:
        """A node that is leaving stops once the others have heard it."""
        if self.scope.leaves and any(token == LEAVING for token, _ in self.values[world[2 * self.n + node]]):
            protocol: object = self.machine.protocol(world[node])
            if isinstance(protocol, Leaving) and protocol.left:
                self._stop(world, node, ABSENT, for_good=True)
        return None

    # What can be seen of a world.

    def frame_under_way(self, world: World, node: NodeId, peer: NodeId, life: int, position: int) -> int:
        """The number of a frame that a link is carrying."""
        place, high = self.place[peer, node]
        found = self.wires.values[world[place]].lives[life]
        return (found.to_high if high else found.to_low)[position]

    def protocols(self, world: World) -> dict[NodeId, Protocol]:
        """The nodes that are up."""
        found = {node: self.machine.protocol(world[node]) for node in self.nodes}
        return {node: each for node, each in found.items() if each is not None}

    def gauges(self, state: int) -> dict[str, int]:
        """What a node in a local state keeps; nothing if it is not up."""
        found = self._gauges.get(state)
        if found is None:
            protocol = self.machine.protocol(state)
            try:
                found = {} if protocol is None else protocol.gauges()
            except FAULTS as error:
                raise Raised(f"gauges raised {type(error).__name__}: {error}") from None
            if self.machine.settled:
                self._gauges[state] = found
        return found

    def record(self, world: World, node: NodeId) -> Record:
        return self.records.values[world[self.n + node]]
