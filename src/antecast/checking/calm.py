"""When nothing goes wrong any more, everything has to come to a good end.

From each world in which nothing is under way the search lets the network heal, and then lets things take their
course: crashed nodes recover, links come back, frames arrive as they were sent, and when none is under way the
timer that is due first fires. This is one fair schedule, and it has to end with

- *agreement*: what one node that is there has delivered, all have that were there from the start;
- *termination*: nothing held back but what depends on messages that are gone with their node, no link unsafe,
  and, asked once more (`probes`), a broadcast of each node reaches all. If the same world comes back but for the
  time, or no timer is left, it never will; if so many timers have fired as the scope allows (`calm`), that is told
  too.

Where a protocol may give messages up (`retain` or `capacity` is less than what is broadcast, newcomers start with
what is to come), what was broadcast before the calm need not reach everyone, nor need probes that are under way
together; a further probe of each node, one at a time, must.

Worlds that have been seen to end well are remembered, so a calm that runs into the path of another ends there.
"""

from __future__ import annotations

from antecast.checking.machine import ABSENT
from antecast.checking.records import Problem
from antecast.checking.wires import UP
from antecast.checking.world import GO_ON, Action, World, Worlds
from antecast.core import LinkSafety, NodeId
from antecast.protocols.registry import Guarantee

HELD_BACK = (
    "pending", "held", "buffered",
    "host_sent_buffer", "host_received_buffer", "station_sent_buffer", "station_received_buffer",
)  # fmt: skip
"""Gauges of messages that wait for something; empty when all is delivered."""

HOLDS = "station_hosts"
"""The gauge of hosts that a station holds: in the end each host is held by one."""


STORM = 5_000
"""Things that may happen by themselves, one after the other, before it is said that they never end."""


class Calm:
    """The judgement of worlds at rest."""

    def __init__(self, worlds: Worlds) -> None:
        self.worlds = worlds
        self._fine: set[tuple[World, int, int]] = set()
        self._agree = Guarantee.AGREEMENT in worlds.promises
        safe = worlds.scope.safe_links
        self._safe = self._agree if safe is None else safe
        self._scarce = _is_scarce(worlds)

    def is_quiet(self, world: World) -> bool:
        """Whether nothing is under way, and nothing has still to be noticed."""
        worlds = self.worlds
        busy = worlds.wires.busy
        under_way = any(busy[number] for number in world[3 * worlds.n : worlds.CELLS])
        return not (under_way or worlds.values[world[worlds.AIR]])

    def judge(self, world: World) -> tuple[Problem, list[Action]] | None:
        """What does not come to a good end from here, and the way there."""
        way: list[Action] = []
        passed: list[tuple[World, int, int]] = []
        rounds = self._rounds(world)
        stage, excused = 0, self.broadcast_so_far(world)
        while True:
            place = (world, stage, excused)
            if place in self._fine:
                break
            passed.append(place)
            ended, problem = self._rest(world, excused, way)
            if problem is not None:
                return problem, way
            if stage == len(rounds):
                break
            world = ended
            for node in rounds[stage]:
                probe = self.worlds.label("broadcast", node, 0, GO_ON)
                way.append(probe)
                world, problem = self.worlds.perform(world, probe, free=True)
                if problem is not None:
                    return problem, way
            excused = self.excused(ended, world, len(rounds[stage]))
            stage += 1
        self._fine.update(passed)
        return None

    def _rounds(self, world: World) -> list[list[NodeId]]:
        """Who broadcasts once more, together with whom."""
        if not self.worlds.scope.probes:
            return []
        everyone = self._members(world, down=True)
        return [everyone, *([node] for node in everyone)] if self._scarce else [everyone]

    def _rest(self, world: World, excused: int, way: list[Action]) -> tuple[World, Problem | None]:
        """Let things take their course until all is well; or what keeps them from it."""
        firings, last_firing, seen = 0, len(way), set()
        while True:
            action = self._next(world)
            if action is not None:
                if len(way) - last_firing == STORM:
                    del way[last_firing:]  # a replay goes on by itself
                    words = self.lacking(world, excused) or "nodes never stop talking"
                    return world, Problem("termination", f"{words}; frames go to and fro without an end")
            else:
                lacking = self.lacking(world, excused)
                if lacking is None:
                    return world, None
                action = self._timer(world)
                if action is None:
                    words = f"{lacking}; nothing is under way and no timer is set"
                    return world, Problem("termination", words)
                relative = self._without_time(world)
                if relative in seen:
                    return world, Problem("termination", f"{lacking}; from here on everything repeats")
                seen.add(relative)
                firings, last_firing = firings + 1, len(way)
                if firings > self.worlds.scope.calm:
                    words = f"{lacking}, after {firings - 1} timers have fired in a network where all is well"
                    return world, Problem("termination", words)
            way.append(action)
            world, problem = self.worlds.perform(world, action, free=True)
            if problem is not None:
                return world, problem

    def rest(self, world: World, excused: int) -> Problem | None:
        """What keeps a world from a good end, if things take their course."""
        return self._rest(world, excused, [])[1]

    def _next(self, world: World) -> Action | None:
        """What happens by itself: a recovery, a link that returns, an end that notices, a frame that arrives."""
        chosen: Action | None = None
        for action in self.worlds.actions(world):
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
        return worlds.label("timer", node, token, GO_ON)

    def _without_time(self, world: World) -> World:
        worlds, now = self.worlds, world[self.worlds.NOW]
        relative = list(world)
        for node in worlds.nodes:
            place = 2 * worlds.n + node
            timers = worlds.values[world[place]]
            relative[place] = worlds.value(("ahead", *((token, at - now) for token, at in timers)))
        relative[worlds.NOW] = 0
        return tuple(relative)

    def _members(self, world: World, *, down: bool = False) -> list[NodeId]:
        """The nodes with an application that are there to stay."""
        worlds = self.worlds
        found = worlds.hosts if down else worlds.protocols(world)
        return [n for n in found if n in worlds.hosts and world[n] and worlds.may_speak(world, n)]

    def excused(self, before: World, after: World, probes: int) -> int:
        """What need not reach everyone once probes are under way: what there was before them, and where messages
        may be given up, several probes too."""
        return self.broadcast_so_far(after if self._scarce and probes > 1 else before)

    def broadcast_so_far(self, world: World) -> int:
        """All messages that there are."""
        bits = 0
        for node in self.worlds.hosts:
            for bit, _ in self.worlds.record(world, node).pasts:
                bits |= bit
        return bits

    def lacking(self, world: World, excused: int) -> str | None:
        """What is not as it should be at the end, in words. Newcomers, and where messages may be given up all
        nodes, need not have what is excused."""
        worlds = self.worlds
        members = self._members(world)
        for together in self._connected(world, members) if self._agree else ():
            had = 0
            for node in together:
                had |= worlds.record(world, node).delivered
            for node in together:
                lacks = had & ~worlds.record(world, node).delivered
                if self._scarce or node >= worlds.scope.nodes:
                    lacks &= ~excused
                if lacks:
                    name = worlds.machine.messages[(lacks & -lacks).bit_length() - 1]
                    return f"node {node} never delivers {name}"
        unsafe = self._unsafe(world) if self._safe else None
        return unsafe or (self._held_back(world, len(members)) if self._agree else None)

    def _connected(self, world: World, members: list[NodeId]) -> list[set[NodeId]]:
        """Members by the part of the network that they are in: whoever leaves may take links along."""
        worlds = self.worlds
        if worlds.cells:
            return [set(members)]
        parts: list[set[NodeId]] = [{node} for node in members]
        for (low, high), place in worlds.links.items():
            if worlds.wires.is_whole(world[place]):
                joined = [part for part in parts if low in part or high in part]
                parts = [part for part in parts if part not in joined] + [set().union(*joined)]
        return [part for part in parts if part]

    def _held_back(self, world: World, members: int) -> str | None:
        worlds, held = self.worlds, 0
        for node, protocol in worlds.protocols(world).items():
            gauges = protocol.gauges()
            held += gauges.get(HOLDS, 0)
            for gauge in HELD_BACK:
                if gauges.get(gauge, 0) > self._undeliverable(world) and not self._scarce:
                    return f"node {node} holds {gauges[gauge]} back ({gauge})"
        if worlds.cells and held != members:
            return f"stations hold {held} hosts, and there are {members}"
        return None

    def _undeliverable(self, world: World) -> int:
        """How many messages depend on one that nobody has any more: it is gone with the node that broadcast it."""
        worlds = self.worlds
        if not worlds.scope.leaves:
            return 0
        there = gone = 0
        for node in worlds.hosts:
            record = worlds.record(world, node)
            if world[node] != ABSENT:
                there |= record.delivered
            else:
                for bit, _ in record.pasts:
                    gone |= bit
        lost = gone & ~there
        records = (worlds.record(world, node) for node in worlds.hosts)
        return sum(bool((bit | past) & lost) and not bit & there for each in records for bit, past in each.pasts)

    def _unsafe(self, world: World) -> str | None:
        for node, protocol in self.worlds.protocols(world).items():
            if isinstance(protocol, LinkSafety) and not self.worlds.cells:
                for peer in self.worlds.hosts:
                    if self._linked(world, node, peer) and not protocol.safe(peer):
                        return f"the link from node {node} to node {peer} never becomes safe"
        return None

    def _linked(self, world: World, node: NodeId, peer: NodeId) -> bool:
        worlds = self.worlds
        if (node, peer) not in worlds.place:
            return False
        place, high = worlds.place[node, peer]
        return any((life.low if high else life.high) == UP for life in worlds.wires.values[world[place]].lives)


def _is_scarce(worlds: Worlds) -> bool:
    """Whether a protocol may give messages up that others lack."""
    settings, scope = worlds.settings, worlds.scope
    messages = scope.broadcasts + scope.answers + len(worlds.hosts)
    kept = [getattr(settings, name, None) for name in ("retain", "capacity")]
    few = any(isinstance(each, int) and each < messages for each in kept)
    return few or getattr(settings, "newcomers", "kept") == "now"
