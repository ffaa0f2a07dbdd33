"""When nothing goes wrong any more, everything has to come to a good end.

From each world in which nothing is under way the search lets the network heal, and then lets things take their
course: crashed nodes recover, links come back, frames arrive as they were sent, and when none is under way the
timer that is due first fires. This is one fair schedule, and it has to end with

- *agreement*: what one node that is there has delivered, all have that were there from the start;
- *termination*: nothing held back, no link unsafe, and, asked once more (`probes`), a broadcast of each node
  reaches all. If the same world comes back but for the time, or no timer is left, it never will; if so many timers
  have fired as the scope allows (`calm`), that is told too.

Worlds that have been seen to end well are remembered, so a calm that runs into the path of another ends there.
"""

from __future__ import annotations

from antecast.checking.records import Problem
from antecast.checking.world import Action, World, Worlds
from antecast.core import LinkSafety, NodeId
from antecast.protocols.registry import Guarantee, Need

HELD_BACK = (
    "pending", "held", "buffered",
    "host_sent_buffer", "host_received_buffer", "station_sent_buffer", "station_received_buffer",
)  # fmt: skip
"""Gauges of messages that wait for something; empty when all is delivered."""

HOLDS = "station_hosts"
"""The gauge of hosts that a station holds: in the end each host is held by one."""


class Calm:
    """The judgement of worlds at rest."""

    def __init__(self, worlds: Worlds) -> None:
        self.worlds = worlds
        self._fine: set[tuple[World, bool]] = set()
        self.promised = Guarantee.AGREEMENT in worlds.promises
        self.steps = 0

    def is_quiet(self, world: World) -> bool:
        """Whether nothing is under way, and nothing has still to be noticed."""
        worlds = self.worlds
        busy = worlds.wires.busy
        first = 3 * worlds.n
        if any(busy[number] for number in world[first : worlds.CELLS]) or worlds.values[world[worlds.AIR]]:
            return False
        return True

    def judge(self, world: World) -> tuple[Problem, list[Action]] | None:
        """What does not come to a good end from here, and the way there."""
        way: list[Action] = []
        passed: list[tuple[World, bool]] = []
        probed = not self.worlds.scope.probes
        firings, since, seen = 0, 0, set()
        while (world, probed) not in self._fine:
            passed.append((world, probed))
            action = self._next(world)
            if action is None:
                lacking = self.lacking(world)
                if lacking is None and probed:
                    break
                if lacking is None:
                    probed, firings = True, 0
                    seen.clear()
                    for node in self._members(world):
                        probe = ("broadcast", node, 0, -1)
                        way.append(probe)
                        world, problem = self.worlds.perform(world, probe, free=True)
                        if problem is not None:
                            return problem, way
                    continue
                action = self._timer(world)
                if action is None:
                    return Problem("termination", f"{lacking}; nothing is under way and no timer is set"), way
                relative = self._without_time(world)
                if relative in seen:
                    return Problem("termination", f"{lacking}; from here on everything repeats"), way
                seen.add(relative)
                firings += 1
                if firings > self.worlds.scope.calm:
                    words = f"{lacking}, after {firings - 1} timers have fired in a network where all is well"
                    return Problem("termination", words), way
            way.append(action)
            self.steps += 1
            world, problem = self.worlds.perform(world, action, free=True)
            if problem is not None:
                return problem, way
        self._fine.update(passed)
        return None

    def _next(self, world: World) -> Action | None:
        """What happens by itself: a recovery, a link that returns, an end that notices, a frame that arrives."""
        worlds = self.worlds
        chosen: Action | None = None
        for action in worlds.actions(world):
            match action[0]:
                case "recover" | "link" | "up" | "down":
                    return action
                case "receive" | "hear" if chosen is None:
                    chosen = action
        return chosen

    def _timer(self, world: World) -> Action | None:
        worlds = self.worlds
        timers = [
            (at, node, token)
            for node in worlds.nodes
            if worlds.machine.protocol(world[node]) is not None
            for token, at in worlds.values[world[2 * worlds.n + node]]
            if token != "leaving"
        ]
        if not timers:
            return None
        _, node, token = min(timers)
        return worlds.label("timer", node, token, -1)

    def _without_time(self, world: World) -> World:
        worlds, now = self.worlds, world[self.worlds.NOW]
        relative = list(world)
        for node in worlds.nodes:
            place = 2 * worlds.n + node
            timers = worlds.values[world[place]]
            relative[place] = worlds.value(("ahead", *((token, at - now) for token, at in timers)))
        relative[worlds.NOW] = 0
        return tuple(relative)

    def _members(self, world: World) -> list[NodeId]:
        worlds = self.worlds
        return [node for node in worlds.protocols(world) if node in worlds.hosts and worlds._may_speak(world, node)]

    def lacking(self, world: World) -> str | None:
        """What is not as it should be at the end, in words."""
        worlds = self.worlds
        if not self.promised:
            return None
        members = self._members(world)
        had = 0
        for node in members:
            had |= worlds.record(world, node).delivered
        early = worlds.scope.nodes
        excused = 0
        if len(worlds.hosts) > early:  # newcomers need only have what was broadcast once all was calm
            excused = self._before_calm(world)
        for node in members:
            lacks = had & ~worlds.record(world, node).delivered
            if node >= early:
                lacks &= ~excused
            if lacks:
                name = worlds.machine.messages[(lacks & -lacks).bit_length() - 1]
                return f"node {node} never delivers {name}"
        held = 0
        for node, protocol in worlds.protocols(world).items():
            held += protocol.gauges().get(HOLDS, 0)
            gauges = protocol.gauges()
            for gauge in HELD_BACK:
                if gauges.get(gauge):
                    return f"node {node} holds {gauges[gauge]} back ({gauge})"
            if isinstance(protocol, LinkSafety) and Need.CELLS not in worlds.needs:
                for peer in worlds.hosts:
                    if self._linked(world, node, peer) and not protocol.safe(peer):
                        return f"the link from node {node} to node {peer} never becomes safe"
        if worlds.cells and held != len(members):
            return f"stations hold {held} hosts, and there are {len(members)}"
        return None

    def _before_calm(self, world: World) -> int:
        """Messages broadcast before the last one of each member."""
        mask = 0
        for node in self.worlds.hosts:
            pasts = self.worlds.record(world, node).pasts
            for bit, _ in pasts[:-1] if self._probed(world) else pasts:
                mask |= bit
        return mask

    def _probed(self, world: World) -> bool:
        worlds = self.worlds
        made = sum(len(worlds.record(world, node).pasts) for node in worlds.hosts)
        return made > worlds.scope.broadcasts + worlds.scope.answers

    def _linked(self, world: World, node: NodeId, peer: NodeId) -> bool:
        worlds = self.worlds
        if (node, peer) not in worlds.place:
            return False
        place, high = worlds.place[node, peer]
        return any((life.low if high else life.high) == 1 for life in worlds.wires.values[world[place]].lives)


