"""What happens in a counterexample, as a drawing shows it: marks at nodes, and frames between them, by step."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from antecast.checking.machine import ABSENT
from antecast.checking.records import Problem
from antecast.checking.world import CALLS, Action, World, Worlds
from antecast.core import NodeId


class Mark(NamedTuple):
    """Something at a node."""

    step: int
    node: NodeId
    verb: str
    """broadcast, deliver, receive, timer, or what befalls a node: crash, recover, up, down, join, leave, move."""
    what: str


class Flight(NamedTuple):
    """A frame, from the step in which it was sent to the one in which it arrived or was lost."""

    sent: int
    sender: NodeId
    step: int
    receiver: NodeId
    what: str
    lost: bool = False


class Story:
    """Follows a replay, and notes what happens."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds
        self.marks: list[Mark] = []
        self.flights: list[Flight] = []
        self._under_way: dict[tuple[NodeId, NodeId, int], list[int]] = defaultdict(list)
        """For a sender, a receiver and a frame: the steps in which it was sent, and has not arrived from."""

    def begin(self, world: World) -> None:
        self._sent(0, Counter(), self._frames(world))

    def step(self, number: int, before: World, action: Action, after: World, problem: Problem | None) -> None:
        worlds, verb = self._worlds, action[0]
        had, has = self._frames(before), self._frames(after)
        if verb in ("receive", "hear", "lose", "fade"):
            node, peer = action[1:3]
            frame = self._frame(before, action)
            had[peer, node, frame] -= 1
            waiting = self._under_way[peer, node, frame]
            lost = verb in ("lose", "fade")
            what = type(worlds.machine.frames[frame]).__name__
            if waiting:
                self.flights.append(Flight(waiting.pop(0), peer, number, node, what, lost))
            self.marks.append(Mark(number, node, "lose" if lost else "receive", what))
        elif verb not in ("broadcast", "tick", "wait", "break", "link", "appear", "cut"):
            what = str(action[2]) if verb in ("up", "late", "down", "timer", "move") else ""
            self.marks.append(Mark(number, action[1], verb, what))
        for place, node in enumerate(action[1:3]) if verb in ("break", "link", "appear") else ():
            self.marks.append(Mark(number, node, verb, str(action[2 - place])))
        for node in worlds.hosts:
            old, new = worlds.record(before, node), worlds.record(after, node)
            known = {bit for bit, _ in old.pasts}
            own = [bit for bit, _ in new.pasts if bit not in known]
            delivered = [bit for bit in _bits(new.delivered & ~old.delivered) if bit not in own]
            if problem is not None and problem.delivery is not None and problem.delivery[0] == node:
                delivered.append(1 << problem.delivery[1])
            self.marks += [Mark(number, node, "deliver", self._name(bit)) for bit in delivered]
            self.marks += [Mark(number, node, "broadcast", self._name(bit)) for bit in own]
            stopped = before[node] and after[node] == ABSENT and verb != "leave"
            if stopped:
                self.marks.append(Mark(number, node, "leave", ""))
        if verb in CALLS and action[-1] >= 0:
            self.marks.append(Mark(number, action[1], "crash", ""))
        self._sent(number, had, has)

    def _sent(
        self, number: int, had: Counter[tuple[NodeId, NodeId, int]], has: Counter[tuple[int, int, int]]
    ) -> None:
        for flight, count in has.items():
            self._under_way[flight] += [number] * (count - had[flight])
        for flight, count in had.items():  # dropped with their link
            gone = count - has[flight]
            if gone > 0:
                del self._under_way[flight][:gone]

    def _frame(self, world: World, action: Action) -> int:
        worlds = self._worlds
        if action[0] in ("hear", "fade"):
            return int(worlds.values[world[worlds.AIR]][action[3]][2])
        return worlds.frame_under_way(world, *action[1:5])

    def _frames(self, world: World) -> Counter[tuple[NodeId, NodeId, int]]:
        """All frames that are under way."""
        worlds = self._worlds
        found = Counter((by, to, frame) for to, by, frame in worlds.values[world[worlds.AIR]])
        for (low, high), place in worlds.links.items():
            for life in worlds.wires.values[world[place]].lives:
                found.update((high, low, frame) for frame in life.to_low)
                found.update((low, high, frame) for frame in life.to_high)
        return found

    def _name(self, bit: int) -> str:
        return str(self._worlds.machine.messages[bit.bit_length() - 1])


def _bits(number: int) -> list[int]:
    return [1 << place for place in range(number.bit_length()) if number >> place & 1]
