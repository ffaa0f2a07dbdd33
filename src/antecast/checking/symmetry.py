"""Symmetry of nodes: worlds that differ only in the numbers of nodes are looked at once.

A *renaming* is a permutation of the nodes that leaves the beginning as it is. What a renaming makes of a local
state, a frame or a timer is found without knowing what is in it: each came about by a call on an earlier state,
and its image by the renamed call on the image of that state. So the image of a state is made by the real protocol,
from renamed calls, and the images of what a call sends are what the renamed call sends in the same place.

This is a symmetry of the protocol if it agrees for every call, not only for the one by which a state first came
about. `broken` verifies that for all local calls of the search, crashes included: with renamed arguments on the
image of the state, the image of the result. What is judged of a state without a call, such as its gauges, has to
be the same for its image, too. Protocols that look at numbers themselves (trees over a cube, orders by number,
waits that differ from node to node) fail it, or have no renaming to begin with; they are searched without.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import TYPE_CHECKING, Any

from antecast.checking.hidden import Raised
from antecast.checking.records import Record
from antecast.checking.steps import Step
from antecast.checking.wires import Life, Link
from antecast.core import Leaving, LinkSafety, MessageId

if TYPE_CHECKING:
    from antecast.checking.world import World, Worlds


class NotSymmetric(Exception):
    """A renamed call does something else."""


class Renaming:
    """One permutation of the nodes, and what it makes of everything."""

    def __init__(self, worlds: Worlds, nodes: tuple[int, ...]) -> None:
        self.worlds = worlds
        self.nodes = nodes
        self._states: dict[int, int] = {0: 0}
        self._frames: dict[int, int] = {}
        self._tokens: dict[tuple[int, str], str] = {}
        self._links: dict[tuple[int, bool], int] = {}
        self._records: dict[int, int] = {}
        self._timers: dict[tuple[int, int], int] = {}
        self._any_order = not (worlds.wires.fifo or (worlds.inside and worlds.scope.crashes))
        """Whether it makes no difference in which order a call sends."""
        n = worlds.n
        self._places = [(2 * n + i, i) for i in range(n)]
        self._moved = []
        for (low, high), place in worlds.links.items():
            a, b = nodes[low], nodes[high]
            self._moved.append((place, worlds.links[min(a, b), max(a, b)], a > b))

    def world(self, world: World) -> World:
        """The image of a world."""
        n, nodes = self.worlds.n, self.nodes
        new = list(world)
        states, records, timers, links = self._states, self._records, self._timers, self._links
        for node in range(n):
            to = nodes[node]
            state = world[node]
            image = states.get(state)
            new[to] = self.state(state) if image is None else image
            record = world[n + node]
            image = records.get(record)
            new[n + to] = self.record(record) if image is None else image
            key = (node, world[2 * n + node])
            image = timers.get(key)
            new[2 * n + to] = self.timers(*key) if image is None else image
        for place, to, flip in self._moved:
            link = (world[place], flip)
            image = links.get(link)
            new[to] = self.link(*link) if image is None else image
        return tuple(new)

    def state(self, state: int) -> int:
        found = self._states.get(state)
        if found is None:
            found = self._states[state] = self._state(state)
        return found

    def _state(self, state: int) -> int:
        machine, cause = self.worlds.machine, self.worlds.machine.first[state]
        if cause[0] == "start":
            return machine.start(self.nodes[cause[1]])
        return self.step(cause).state

    def step(self, key: tuple[Any, ...]) -> Step:
        """The renamed call."""
        with self.worlds.machine.judging():
            return self._step(key)

    def _step(self, key: tuple[Any, ...]) -> Step:
        machine = self.worlds.machine
        state, now, method, *arguments = key
        node = machine.node(state)
        if method == "recover":
            return machine.recover(self.state(state), self.nodes[node], now)
        if method == "crash":
            return self._crash(state, *arguments)
        return machine.step(
            self.state(state), self.nodes[node], now, method, *self._arguments(node, method, arguments)
        )

    def _crash(self, state: int, owed: tuple[int, ...]) -> Step:
        machine, image = self.worlds.machine, self.state(state)
        try:
            stopped = machine.crash(image, machine.node(image), tuple(map(self.message, owed)))
        except Raised:
            raise NotSymmetric from None
        return Step(stopped, ())

    def _arguments(self, node: int, method: str, arguments: list[Any]) -> tuple[Any, ...]:
        match method:
            case "receive":
                return self.frame(arguments[0]), self.nodes[arguments[1]]
            case "link_up" | "link_down":
                return (self.nodes[arguments[0]],)
            case "timer":
                return (self.token(node, arguments[0]),)
            case _:
                return tuple(arguments)

    def frame(self, frame: int) -> int:
        found = self._frames.get(frame)
        if found is None:
            key, place = self.worlds.machine.first_sent[frame]
            effects = self.step(key).effects
            if place >= len(effects) or effects[place][0] != "send":
                raise NotSymmetric
            found = self._frames[frame] = effects[place][2]
        return found

    def token(self, node: int, token: str) -> str:
        found = self._tokens.get((node, token))
        if found is None:
            first = self.worlds.machine.first_set.get((node, token))
            if first is None:
                return token
            effects = self.step(first[0]).effects
            if first[1] >= len(effects) or effects[first[1]][0] != "timer":
                raise NotSymmetric
            found = self._tokens[node, token] = effects[first[1]][1]
        return found

    def message(self, message: int) -> int:
        machine = self.worlds.machine
        name = machine.messages[message]
        return machine.message(MessageId(self.nodes[name.origin], name.seq))

    def _bits(self, bits: int) -> int:
        image = 0
        while bits:
            image |= 1 << self.message((bits & -bits).bit_length() - 1)
            bits &= bits - 1
        return image

    def record(self, record: int) -> int:
        records = self.worlds.records
        delivered, covered, pasts, discarded = records.values[record]
        renamed = tuple((self._bits(bit), self._bits(past)) for bit, past in pasts)
        image = Record(self._bits(delivered), self._bits(covered), renamed, self._bits(discarded))
        found = self._records[record] = records.number(image)
        return found

    def timers(self, node: int, timers: int) -> int:
        worlds = self.worlds
        renamed = sorted((self.token(node, token), at) for token, at in worlds.values[timers])
        found = self._timers[node, timers] = worlds.value(tuple(renamed))
        return found

    def link(self, link: int, flip: bool) -> int:
        wires = self.worlds.wires
        value = wires.values[link]
        lives = tuple(self._life(life, flip) for life in value.lives)
        found = self._links[link, flip] = wires.number(Link(value.belongs, lives))
        return found

    def _life(self, life: Life, flip: bool) -> Life:
        in_order = self.worlds.wires.in_order
        to_low, to_high = (in_order(tuple(map(self.frame, queue))) for queue in (life.to_low, life.to_high))
        if flip:
            return Life(life.broken, life.high, life.low, to_high, to_low)
        return Life(life.broken, life.low, life.high, to_low, to_high)

    def agrees(self, key: tuple[Any, ...], step: Step) -> bool:
        """Whether the renamed call does the renamed thing."""
        image = self.step(key)
        if image.problem is not None or step.problem is not None:
            return (image.problem is None) == (step.problem is None)
        if len(image.effects) != len(step.effects) or bool(image.refused) != bool(step.refused):
            return False
        to = self.nodes[self.worlds.machine.node(key[0])]
        ours, others = step.effects, image.effects
        if self._any_order:
            sent = sorted((self._peer(peer), self.frame(frame)) for peer, frame in step.sends)
            if sent != sorted(image.sends):
                return False
            ours, others = (tuple(e for e in effects if e[0] != "send") for effects in (ours, others))
        for effect, renamed in zip(ours, others, strict=True):
            if effect[0] != renamed[0] or not self._same(to, effect, renamed):
                return False
        return image.state == self.state(step.state)

    def looks_alike(self, state: int, judged: Iterable[str]) -> bool:
        """Whether what is judged of a node is the same for the image of its state: gauges, which links are safe,
        and whether others have let it go."""
        worlds = self.worlds
        image = self.state(state)
        first, second = worlds.machine.protocol(state), worlds.machine.protocol(image)
        if first is None or second is None:
            return first is second
        try:
            gauges, others = worlds.gauges(state), worlds.gauges(image)
        except Raised:
            return False
        if any(gauges.get(name) != others.get(name) for name in judged):
            return False
        one: object = first
        other: object = second
        if isinstance(one, LinkSafety) and isinstance(other, LinkSafety):
            peers = [peer for peer in worlds.hosts if peer != first.node]
            if any(one.safe(peer) != other.safe(self.nodes[peer]) for peer in peers):
                return False
        if isinstance(one, Leaving) and isinstance(other, Leaving):
            return one.left == other.left
        return True

    def _peer(self, peer: int) -> int:
        """Who gets what is sent to a peer, or to everybody."""
        return peer if peer < 0 else self.nodes[peer]

    def _same(self, to: int, effect: tuple[Any, ...], renamed: tuple[Any, ...]) -> bool:
        match effect[0]:
            case "send":
                return bool(renamed[1] == self._peer(effect[1]) and renamed[2] == self.frame(effect[2]))
            case "timer":
                node = self.nodes.index(to)
                return bool(renamed[1] == self.token(node, effect[1]) and renamed[2] == effect[2])
            case _:
                return bool(renamed[1] == self.message(effect[1]) and renamed[2:] == effect[2:])


class Symmetry:
    """The renamings of a check."""

    def __init__(self, worlds: Worlds, beginning: World, judged: Iterable[str] = ()) -> None:
        self.worlds = worlds
        self.judged = tuple(judged)
        """Gauges that promises and limits are about."""
        self.renamings: list[Renaming] = []
        self._agreed = 0
        """Calls for which the renamings are known to agree."""
        self._alike = 0
        """Local states that are known to look like their images to whoever judges a world at rest."""
        scope = worlds.scope
        if worlds.cells or len(set(scope.clocks)) > 1 or (scope.clocks and len(scope.clocks) < scope.nodes):
            return
        later = tuple(range(scope.nodes, worlds.n))
        for nodes in permutations(range(scope.nodes)):
            renaming = Renaming(worlds, (*nodes, *later))
            if nodes == tuple(range(scope.nodes)) or not self._keeps_links(nodes):
                continue
            try:
                if renaming.world(beginning) == beginning:
                    self.renamings.append(renaming)
            except NotSymmetric:
                continue

    def _keeps_links(self, nodes: tuple[int, ...]) -> bool:
        """Whether links lead to links, and unsteady ones to unsteady ones."""
        scope = self.worlds.scope
        for links in (set(scope.links()), {pair for pair in scope.unsteady if max(pair) < scope.nodes}):
            if any((min(nodes[a], nodes[b]), max(nodes[a], nodes[b])) not in links for a, b in links):
                return False
        return True

    def representative(self, world: World) -> World:
        """The same world for all that are images of each other."""
        best = world
        for renaming in self.renamings:
            image = renaming.world(world)
            if image < best:
                best = image
        return best

    def broken(self) -> bool:
        """Whether a renaming turned out not to be a symmetry of the protocol, by all calls and states so far."""
        with self.worlds.machine.judging():
            return self._broken()

    def _broken(self) -> bool:
        memo = self.worlds.machine.memo
        try:
            while self._agreed < len(memo):  # images make calls of their own, which have to agree too
                for key, step in list(memo.items())[self._agreed :]:
                    if not all(renaming.agrees(key, step) for renaming in self.renamings):
                        return True
                    self._agreed += 1
            states = self.worlds.machine.states
            while self._alike < len(states):
                if not all(renaming.looks_alike(self._alike, self.judged) for renaming in self.renamings):
                    return True
                self._alike += 1
        except NotSymmetric:
            return True
        return False
