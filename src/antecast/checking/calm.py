"""When nothing goes wrong any more, everything has to come to a good end.

From each world in which nothing is under way the search lets the network heal, and then lets things take their
course: crashed nodes recover, links come back, frames arrive, and when none is under way the timer that is due
first fires. It has to end with

- *agreement*: what one node that is there has broadcast or delivered, all deliver that were there from the start;
- *termination*: nothing held back but what depends on messages that are gone with their node, no link unsafe,
  and, asked once more (`probes`), a broadcast of each node reaches all. If the same world comes back but for the
  time, however late its timers fire, or no timer is left, it never will; if so many timers have fired as the
  scope allows (`calm`), that is told too. When all is done, nodes fall silent (`checking.silence`).

The search itself lets frames arrive in every order. What it does not see is what timers set off once all is
quiet: that is looked at in every order, too (`_every_order`), as long as this takes no more than `ROOM` worlds.
Healing and probes follow a few *fair schedules* (`SCHEDULES`), in which no frame waits for ever.

Where a protocol may give messages up (`retain` or `capacity` is less than what is broadcast, newcomers start with
what is to come), what was broadcast before the calm need not reach everyone, nor need probes that are under way
together; a further probe of each node, one at a time, must.

Worlds that have been seen to end well are remembered, so a calm that runs into the path of another ends there.
"""

from __future__ import annotations

from collections.abc import Iterator

from antecast.checking.hidden import Raised
from antecast.checking.lassos import BY_ITSELF, ENDLESS, REPEATS, STORM
from antecast.checking.machine import ABSENT
from antecast.checking.performing import LEAVING
from antecast.checking.records import Problem
from antecast.checking.silence import heartbeats_of, noise
from antecast.checking.wires import UP
from antecast.checking.world import GO_ON, Action, World, Worlds
from antecast.core import LinkSafety, NodeId
from antecast.protocols.registry import Guarantee

HELD_BACK = (
    "pending", "held", "buffered",
    "host_sent_buffer", "host_received_buffer", "station_sent_buffer", "station_received_buffer",
)  # fmt: skip
"""Gauges of messages that wait for something; empty when all is delivered."""

NOTHING_LEFT = "nothing is under way and no timer is set"

HOLDS = "station_hosts"
"""The gauge of hosts that a station holds: in the end each host is held by one."""


ROOM = 2_000
"""Worlds that are looked at to see what timers set off, in every order, from a world at rest."""

SCHEDULES = 3
"""Ways to let things take their course. In all of them the link whose turn was longest ago goes first: of several
the first, and what nodes notice before frames; the last, and frames before what nodes notice; or, as long as
others have something, nothing that goes to the first node."""

LAST = ("last",)
"""How many turns there have been."""


class Calm:
    """The judgement of worlds at rest."""

    def __init__(self, worlds: Worlds) -> None:
        self.worlds = worlds
        self._fine: tuple[set[tuple[World, int, int]], ...] = tuple(set() for _ in range(SCHEDULES))
        self._fine_in_any_order: set[tuple[World, int]] = set()
        self.cut_short = False
        """Whether there was a world at rest from which not every order was looked at."""
        self._agree = Guarantee.AGREEMENT in worlds.promises
        safe = worlds.scope.safe_links
        self._safe = self._agree if safe is None else safe
        self.heartbeats = heartbeats_of(worlds.spec, worlds.settings)
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
        try:
            problem = self.stray(world) or self._every_order(world, self.broadcast_so_far(world), way)
            for schedule in range(SCHEDULES) if problem is None else ():
                way.clear()
                problem = self._judge(world, schedule, way)
                if problem is not None:
                    break
        except Raised as error:
            problem = Problem("exception", str(error))
        return None if problem is None else (problem, way)

    def _judge(self, world: World, schedule: int, way: list[Action]) -> Problem | None:
        """The same by one schedule."""
        fine = self._fine[schedule]
        passed: list[tuple[World, int, int]] = []
        rounds = self._rounds(world)
        stage, excused = 0, self.broadcast_so_far(world)
        while True:
            place = (world, stage, excused)
            if place in fine:
                break
            passed.append(place)
            ended, problem = self._rest(world, excused, way, schedule)
            if problem is None and stage == len(rounds):
                problem = noise(self, ended, way)
            if problem is not None:
                return problem
            if stage == len(rounds):
                break
            world = ended
            for node in rounds[stage]:
                probe = self.worlds.label("broadcast", node, 0, GO_ON)
                way.append(probe)
                world, problem = self.worlds.perform(world, probe, free=True)
                if problem is not None:
                    return problem
            excused = self.excused(ended, world, len(rounds[stage]))
            stage += 1
        fine.update(passed)
        return None

    def _rounds(self, world: World) -> list[list[NodeId]]:
        """Who broadcasts once more, together with whom."""
        if not self.worlds.scope.probes:
            return []
        everyone = self._members(world, down=True)
        return [everyone, *([node] for node in everyone)] if self._scarce else [everyone]

    def _rest(self, world: World, excused: int, way: list[Action], schedule: int) -> tuple[World, Problem | None]:
        """Let things take their course until all is well; or what keeps them from it."""
        firings, last_firing, seen = 0, len(way), set()
        turns: dict[Action, int] = {}
        waited = False
        while True:
            action = self.next(world, schedule, turns)
            if action is not None:
                if len(way) - last_firing >= STORM and schedule:  # the first alone leaves nothing waiting for ever
                    schedule, last_firing = 0, len(way)
                elif len(way) - last_firing >= STORM:
                    del way[last_firing:]  # a replay goes on by itself
                    words = self.lacking(world, excused) or "nodes never stop talking"
                    return world, Problem("termination", f"{words}; {ENDLESS}")
            else:
                lacking = self.lacking(world, excused)
                if lacking is None:
                    return world, None
                action = next(self.timers(world, schedule), None)
                if action is None:
                    words = f"{lacking}; {NOTHING_LEFT}"
                    return world, Problem("termination", words)
                relative = self.without_time(world)
                if relative not in seen:
                    waited = False
                elif waited:
                    return world, Problem("termination", f"{lacking}; {REPEATS}")
                else:  # what waits for a time, and looks again and again whether it has come, is not stuck
                    action, waited = self.worlds.label("wait"), True
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
        """What keeps a world from a good end, if things take their course. On real objects this is done once."""
        try:
            ended, problem = self._rest(world, excused, [], 0)
            return problem or noise(self, ended, [])
        except Raised as error:
            return Problem("exception", str(error))

    def stray(self, world: World) -> Problem | None:
        """That a link is gone which is not up means nothing to a node (rule 6 of `core.protocol`)."""
        worlds = self.worlds
        if worlds.cells or not worlds.restless:
            return None
        for node in worlds.protocols(world):
            for peer in worlds.hosts:
                if peer != node and not self._linked(world, node, peer):
                    step = worlds.machine.step(world[node], node, world[worlds.NOW], "link_down", peer)
                    if step.problem is not None or step.effects or step.state != world[node]:
                        words = step.problem or "link_down of a link that is not up did something"
                        return Problem("contract", f"node {node}, told that its link to {peer} is gone: {words}")
        return None

    def _every_order(self, start: World, excused: int, way: list[Action]) -> Problem | None:
        """What timers set off in a world at rest in which something is lacking has to end well, in every order.
        Timers that are due at the same time fire in any order; before the next, all frames have arrived."""
        if self._free(start) or self.lacking(start, excused) is None:
            return None
        fine, done, looked = self._fine_in_any_order, [], 0
        at_rest: list[World] = []  # those on the way, but for their time
        stack: list[tuple[World, Iterator[Action]]] = []
        world: World | None = start
        while True:
            if world is not None and (world, excused) not in fine:
                looked += 1
                actions = self._free(world)
                resting = not actions
                lacking = self.lacking(world, excused) if resting else None
                if resting and lacking is not None:
                    actions = list(self.timers(world, -1))
                    relative = self.without_time(world)
                    if not actions or at_rest.count(relative) > 1:
                        words = REPEATS if actions else NOTHING_LEFT
                        return Problem("termination", f"{lacking}; {words}")
                    if relative in at_rest:
                        actions = [self.worlds.label("wait")]
                    at_rest.append(relative)
                if looked > ROOM or len(at_rest) > self.worlds.scope.calm:
                    self.cut_short = True
                    way.clear()
                    return None
                stack.append((world, iter(actions)))
                done.append(resting and lacking is not None)
            world = None
            while stack and world is None:
                last, actions_left = stack[-1]
                action = next(actions_left, None)
                if action is None:
                    stack.pop()
                    fine.add((last, excused))
                    if done.pop():
                        at_rest.pop()
                    if way:
                        way.pop()
                    continue
                way.append(action)
                world, problem = self.worlds.perform(last, action, free=True)
                if problem is not None:
                    return problem
                if (world, excused) in fine:
                    way.pop()
                    world = None
            if world is None:
                return None

    def _free(self, world: World) -> list[Action]:
        """What happens by itself."""
        return [each for each in self.worlds.actions(world) if each[0] in BY_ITSELF]

    def next(self, world: World, schedule: int, turns: dict[Action, int]) -> Action | None:
        """What happens by itself next: a recovery, a link that returns, an end that notices, a frame that arrives.
        `turns` says when each link last had its turn."""
        arriving: list[Action] = []
        noticed: list[Action] = []
        for action in self.worlds.actions(world):
            if action[0] in ("receive", "hear"):
                arriving.append(action)
            elif action[0] in BY_ITSELF:
                if schedule != 1:
                    return action
                noticed.append(action)
        if not arriving:
            return noticed[-1] if noticed else None
        if schedule == 1:
            arriving.reverse()
        elif schedule == 2:
            first = self.worlds.hosts[0]
            arriving = [each for each in arriving if each[1] != first] or arriving
        if self.worlds.wires.fifo:
            frames: dict[Action, Action] = {}
        else:  # of the frames of a link, too, each has its turn
            frames = {each: (*each[1:3], number) for each, number in self._contents(world, arriving).items()}
        chosen = min(arriving, key=lambda each: (turns.get(each[1:3], 0), turns.get(frames.get(each, ()), 0)))
        turns[LAST] = turns.get(LAST, 0) + 1
        turns[chosen[1:3]] = turns[frames.get(chosen, chosen[1:3])] = turns[LAST]
        return chosen

    def _contents(self, world: World, arriving: list[Action]) -> dict[Action, int]:
        worlds = self.worlds
        air = worlds.values[world[worlds.AIR]]
        return {
            each: air[each[3]][2] if each[0] == "hear" else worlds.frame_under_way(world, *each[1:5])
            for each in arriving
        }

    def timers(self, world: World, schedule: int) -> Iterator[Action]:
        """The timers that are due first: of several, one by the schedule, or all."""
        worlds = self.worlds
        timers = sorted(
            (at, node, token)
            for node in worlds.nodes
            if worlds.machine.protocol(world[node]) is not None
            for token, at in worlds.values[world[2 * worlds.n + node]]
            if token != LEAVING
        )
        now = world[worlds.NOW]
        due = [each for each in timers if max(each[0], now) == max(timers[0][0], now)]
        for _, node, token in reversed(due) if schedule == 1 else due:
            yield worlds.label("timer", node, token, GO_ON)

    def without_time(self, world: World) -> World:
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
        for node, lacks in self._undelivered(world, members) if self._agree else ():
            if self._scarce or node >= worlds.scope.nodes:
                lacks &= ~excused
            if lacks:
                name = worlds.machine.messages[(lacks & -lacks).bit_length() - 1]
                return f"node {node} never delivers {name}"
        unsafe = self._unsafe(world) if self._safe else None
        return unsafe or (self._held_back(world, len(members)) if self._agree else None)

    def all_delivered(self, world: World) -> bool:
        """Whether nobody lacks anything, excused or not: a node may go on for ever to look for what it lacks."""
        return not any(lacks for _, lacks in self._undelivered(world, self._members(world)))

    def _undelivered(self, world: World, members: list[NodeId]) -> Iterator[tuple[NodeId, int]]:
        """What each member has not delivered of what those have that it is connected to."""
        for together in self._connected(world, members):
            records = {node: self.worlds.record(world, node) for node in together}
            had = 0
            for record in records.values():
                had |= record.delivered | sum(bit for bit, _ in record.pasts)
            yield from ((node, had & ~record.delivered) for node, record in records.items())

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
        for node in worlds.protocols(world):
            gauges = worlds.gauges(world[node])
            held += gauges.get(HOLDS, 0)
            for gauge in HELD_BACK:
                if gauges.get(gauge, 0) > self._undeliverable(world, node) and not self._scarce:
                    return f"node {node} holds {gauges[gauge]} back ({gauge})"
        if worlds.cells and held != members:
            return f"stations hold {held} hosts, and there are {members}"
        return None

    def _undeliverable(self, world: World, node: NodeId) -> int:
        """How many messages depend on one that nobody has any more to whom a node is connected: it is gone with
        those who left, or where these have cut the network in two."""
        worlds = self.worlds
        if not worlds.scope.leaves:
            return 0
        present = [each for each in worlds.hosts if world[each] != ABSENT]
        parts = (part for part in self._connected(world, present) if node in part or worlds.cells)
        there = 0
        for each in next(parts, ()):
            record = worlds.record(world, each)
            there |= record.delivered | sum(bit for bit, _ in record.pasts)
        lost = self.broadcast_so_far(world) & ~there
        records = (worlds.record(world, each) for each in worlds.hosts)
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
