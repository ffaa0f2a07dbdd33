"""The contract of `core.protocol`, checked for any protocol on a restless bench.

`plans(specification)` draws a small network, settings and a list of moves (`plans`). `assert_contract` plays a
plan, lets the network heal, has every link come up twice, and judges:

- integrity, and the orders that were promised, over everything that happened;
- *agreement on what is kept*: a message that everyone who delivered it still keeps is delivered by all;
- *liveness*: once the network is whole and quiet, a new broadcast of any node reaches all of them, whatever was
  lost or given up before. Where next to nothing is kept, the first may only show that something is missing, and be
  given up with it; the second must arrive;
- *deadlines* end every wait: where messages expire, nodes are cut off in the middle of a conversation and crash;
  once they are back, alone, nothing waits for longer than it lives;
- a node is a function of its calls: repeated without the refused frames, on a new object and on a clone, they give
  the same effects and end in the same canonical state;
- a state that is saved and restored does not change; frames of peers without a link are refused; a `link_down`
  of a link that is not up does nothing.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import msgspec

from antecast.core import CancelTimer, Effect, Frame, Leaving, Message, MessageId, NodeId, RemoteFault
from antecast.core.settings import Duration
from antecast.protocols.registry import Guarantee, Need, Specification
from antecast.testing.driver import Bench
from antecast.testing.judging import order_faults
from antecast.testing.plans import LEAPS, Move, Plan
from antecast.testing.settings import messages_kept
from antecast.testing.timing import ContractBroken
from antecast.testing.wiring import Flight

MS, SECOND = 10**6, 10**9
NOBODY = 4_000_000
"""The number of a node that does not exist."""

BURST = 7
"""Broadcasts made at once: more than the small values of `retain`."""


class Restless:
    """A plan being played on a bench."""

    def __init__(self, spec: Specification, plan: Plan) -> None:
        self.spec, self.plan = spec, plan
        settings = spec.configure(plan.settings)
        self.needs = spec.needs(settings)
        self.cells = Need.CELLS in self.needs
        self.stations = (NOBODY + 1, NOBODY + 2) if self.cells else ()
        self.members = list(range(plan.nodes))
        """Who belongs to the network, up or down."""
        self.leaving: set[NodeId] = set()
        self.newcomers: set[NodeId] = set()
        self.last: Frame | None = None
        self.bench = Bench(
            spec,
            nodes=plan.nodes,
            stations=self.stations,
            settings=plan.settings,
            seed=plan.seed,
            delay=(lambda draw: draw.randrange(plan.delay * MS)) if plan.delay else 0,
            loss=0.0 if self.cells else plan.loss,
            late=(lambda draw: draw.randrange(plan.late * MS)) if plan.late else 0,
            radio_loss=plan.loss,
            record=True,
            strict=False,
            on_deliver=self._answer if plan.answers else None,
            on_send=self._overhear,
        )
        durations = [value for value in map(getattr, [settings] * 99, settings.__struct_fields__)
                     if isinstance(value, Duration)]  # fmt: skip
        self.quiet = 30 * SECOND + 3 * sum(each for each in durations if each <= 60 * SECOND)
        """Long enough for every patience and retry."""
        if self.cells:
            self.bench.link(*self.stations)
            for host in self.members:
                self.bench.move(host, self.stations[host % 2])
            self.bench.run(60 * SECOND)
        else:
            for a, b in self._whole():
                self.bench.link(a, b)

    def _answer(self, node: NodeId, message: Message[Any]) -> None:
        if message.origin == node - 1 and len(message.payload) < 3 and node not in self.leaving:
            self.bench.broadcast(node, message.payload + b"a")

    def _overhear(self, flight: Flight) -> None:
        self.last = flight.frame

    def _whole(self) -> list[tuple[NodeId, NodeId]]:
        """The links of the network when nothing is wrong: all, or a line."""
        pairs = combinations if Need.COMPLETE_GRAPH in self.needs else pairwise
        return list(pairs(self.members, 2)) if pairs is combinations else list(pairwise(self.members))

    def _notice(self) -> int:
        return self.bench.random.randrange(self.plan.notice * MS) if self.plan.notice else 0

    def play(self) -> Bench:
        for move in self.plan.moves:
            self.move(move)
            self.bench.run(move.wait * MS)
        self.heal()
        self.bench.run(self.quiet)
        self._judge_delivery(self.kept(), "kept by all who have it", newcomers=False)
        if Need.STATIC_MEMBERS not in self.needs:
            self._renew()
            self._judge_delivery(
                self.kept(), "kept by all who have it, after all links came up twice", newcomers=False
            )
        if self.plan.blackout:
            self._blackout()
            self._judge_delivery(self.kept(), "kept by all who have it, after all had crashed", newcomers=False)
        together = self._round(SECOND)
        self._judge_delivery(together & self.kept(), "broadcast after all had healed")
        self._judge_delivery(self._round(self.quiet), "broadcast when all had been quiet for long", skipping=False)
        if Guarantee.DEADLINE in self.spec.guarantees:
            self._strand()
        self.judge()
        return self.bench

    def move(self, move: Move) -> None:
        bench = self.bench
        up = [node for node in self.members if node in bench.nodes and node not in self.leaving]
        down = [node for node in self.members if node in bench.saved]
        if move.verb in ("recover", "stumble") and down:
            back = down[move.node % len(down)]
            if move.verb == "stumble":
                bench.doomed[back] = move.peer
            bench.recover(back)
            if back not in bench.nodes:
                return
            if self.cells:
                bench.move(back, self.stations[move.peer % 2])
            else:
                self._connect(back)
            return
        if not up:
            return
        node = up[move.node % len(up)]
        peer = up[(move.node + 1 + move.peer) % len(up)]
        match move.verb:
            case "broadcast":
                bench.broadcast(node)
            case "burst":
                for _ in range(BURST):
                    if node in bench.nodes:
                        bench.broadcast(node)
            case "cut" if self.cells:
                bench.move(node, None)
            case "link" if self.cells:
                bench.move(node, self.stations[move.peer % 2])
            case "cut" if Need.COMPLETE_GRAPH in self.needs:
                for other in list(bench.links[node]):
                    bench.unlink(node, other, notice=(self._notice(), self._notice()))
            case "link" if Need.COMPLETE_GRAPH in self.needs:
                self._connect(node)
            case "cut" if node != peer:
                bench.unlink(node, peer, notice=(self._notice(), self._notice()))
            case "link" if node != peer:
                self._relink(node, peer)
            case "crash":
                bench.crash(node, notice=self._notice)
            case "doom":
                bench.doomed[node] = move.peer
            case "flap" if node != peer and not self.cells:  # a new link, while frames are on the old one
                bench.broadcast(node)
                self._relink(node, peer)
            case "leap" if Need.CLOCKS not in self.needs:  # while something new is being taken in
                bench.broadcast(peer)
                bench.run(bench.random.randrange(1 + 2 * self.plan.delay) * MS)
                bench.time.leap(node, LEAPS[move.peer])
            case "shock" if node != peer:  # a crash soon after something new has come
                bench.broadcast(peer)
                bench.run(bench.random.randrange(1 + 2 * self.plan.delay) * MS)
                if node in bench.nodes:
                    bench.crash(node, notice=self._notice)
            case "stranger":
                self._strange(node)
            case "rebirth" if node != 0:  # someone stays who was there from the start
                self._replace(node, move.peer)
            case "join":
                self._join(move.peer)
            case "leave" if node != 0:
                self._leave(node)

    def _blackout(self) -> None:
        bench = self.bench
        for node in self.members:
            bench.broadcast(node)
        bench.run(bench.random.randrange(1 + 2 * self.plan.delay) * MS)
        for node in self.members:
            bench.crash(node, notice=self._notice)
        self.heal()
        bench.run(self.quiet)

    def _renew(self) -> None:
        """Each link in turn comes up again at both ends without having gone down, while something new is on it."""
        for a, b in () if self.cells else self._whole():
            self.bench.broadcast(a)
            self.bench.link(a, b, notice=(self._notice(), self._notice()))
            self.bench.run(SECOND)
        for host in self.members if self.cells else ():
            station = self.bench.cells[host]
            self.bench.broadcast(host)
            self.bench.call(host, "link_up", station)
            self.bench.run(SECOND)
        self.bench.run(self.quiet)

    def _strand(self) -> None:
        """Nodes that hold back messages lose their links and crash. Only their own timers can end the wait."""
        bench, longest = self.bench, self.spec.lifetime(self.bench.settings)
        assert longest is not None
        for node in (*self.members, *self.members):
            bench.broadcast(node)
            bench.run(bench.random.randrange(1 + self.plan.delay) * MS)
        for node in self.members:
            bench.crash(node)
        for node in self.members:
            bench.recover(node)
        bench.run(2 * longest + self.quiet)
        for node in self.members:
            if held := bench.nodes[node].gauges().get("pending"):
                raise ContractBroken("waits", f"node {node} still holds back {held} messages that have expired")

    def _relink(self, a: NodeId, b: NodeId) -> None:
        if a in self.bench.nodes and b in self.bench.nodes:
            self.bench.link(a, b, notice=(self._notice(), self._notice()))

    def _connect(self, node: NodeId) -> None:
        for a, b in self._whole():
            if node in (a, b):
                self._relink(a, b)

    def _replace(self, node: NodeId, cell: int) -> None:
        """It has lost its state: a newcomer takes its place. Nobody is told that it will not come back."""
        number = max(self.members) + 1
        self.bench.rebirth(node, number)
        self.members[self.members.index(node)] = number
        self._welcome(number, cell)

    def _join(self, cell: int) -> None:
        number = max(self.members) + 1
        self.bench.start(number)
        self.members.append(number)
        self._welcome(number, cell)

    def _welcome(self, number: NodeId, cell: int) -> None:
        self.newcomers.add(number)
        if self.cells:
            self.bench.move(number, self.stations[cell % 2])
        else:
            self._connect(number)

    def _leave(self, node: NodeId) -> None:
        protocol = self.bench.nodes[node]
        if isinstance(protocol, Leaving) and node not in self.leaving:
            self.leaving.add(node)
            self.bench.call(node, "leave")

    def _strange(self, node: NodeId) -> None:
        """What the contract says of peers without a link."""
        bench = self.bench
        before = bench.nodes[node].snapshot()
        protocol, now = bench.nodes[node], bench.clock(node)
        effects = [each for each in protocol.link_down(NOBODY, now) if not self._idle(node, each)]
        if effects or protocol.snapshot() != before:
            raise ContractBroken("link_down", f"node {node}: a link_down without a link gave {effects}")
        if self.last is None or self.cells:
            return
        try:
            effects = protocol.receive(self.last, NOBODY, now)
        except RemoteFault:
            if protocol.snapshot() != before:
                raise ContractBroken("changed", f"node {node} refused {self.last!r}, and changed") from None
        else:
            raise ContractBroken("no link", f"node {node} took {self.last!r} of a peer without a link: {effects}")

    def _idle(self, node: NodeId, effect: Effect) -> bool:
        return isinstance(effect, CancelTimer) and effect.token not in self.bench.timers[node]

    def heal(self) -> None:
        """Everyone comes back, those who leave have left, and the network is whole."""
        bench = self.bench
        bench.run(10 * SECOND)  # by then everything has been noticed
        bench.doomed.clear()
        for node in [each for each in self.members if each in bench.saved]:
            bench.recover(node)
            bench.cells.pop(node, None)  # where it was when it crashed: it has to enter a cell again
        for node in self.leaving & set(self.members):
            if node in bench.nodes:
                bench.kill(node)
            self.members.remove(node)
        bench.wiring.loss = bench.wiring.radio_loss = 0.0
        for number, node in enumerate(self.members):
            if self.cells and node not in bench.cells:
                bench.move(node, self.stations[number % 2])
        for a, b in () if self.cells else self._whole():
            if (link := bench.links[a].get(b)) is None or bench.links[b].get(a) is not link:
                bench.link(a, b)

    def kept(self) -> set[MessageId]:
        """Messages that all who have delivered them still keep, and that a node of the network delivered."""
        bench, settings = self.bench, self.bench.settings
        size = messages_kept(settings, bench.delivered)
        capacity = getattr(settings, "capacity", None)
        if getattr(settings, "newcomers", "kept") == "now":  # a node without a past begins with what is to come
            return set()
        delivered = {node: list(dict.fromkeys(names)) for node, names in bench.delivered.items()}
        here = set().union(*(names for node, names in delivered.items() if node in self.members))
        if capacity is not None and len(set().union(*delivered.values())) > capacity:
            return set()
        dropped = set() if size is None else {
            name for names in delivered.values() for name in names[: max(0, len(names) - size)]
        }  # fmt: skip
        return here - dropped

    def _skipping(self) -> set[NodeId]:
        """Nodes that say they were away for longer than others keep messages, and went on without some: they need
        not have what others still keep, only what is broadcast from now on."""
        return {node for node in self.members if self.bench.nodes[node].gauges().get("skipped")}

    def _round(self, pause: int) -> set[MessageId]:
        """A new broadcast of each node, one after the other, and time for the last to arrive.

        With a short pause they are on their way together. Nodes that keep one message or none may then have to
        give some of them up; after a long one each finds everybody at rest, and must arrive.
        """
        names = set()
        for node in self.members:
            name = self.bench.broadcast(node, b"new")
            assert name is not None
            names.add(name)
            self.bench.run(pause)
        self.bench.run(self.quiet)
        return names

    # Judgement.

    def _judge_delivery(
        self, names: set[MessageId], what: str, *, newcomers: bool = True, skipping: bool = True
    ) -> None:
        """Whether all have these messages; newcomers and those that say they skip some may be excused.

        Where patience must run out on each link of the way, it takes that much longer.
        """
        members = self.members if Guarantee.AGREEMENT in self.spec.guarantees else []
        for turn in range(len(members) + 1):
            excused = (set() if newcomers else self.newcomers) | (self._skipping() if skipping else set())
            lacking = {node: sorted(names - set(self.bench.delivered[node])) for node in members}
            late = [(node, missing[0]) for node, missing in lacking.items() if missing and node not in excused]
            if not late:
                return
            if turn < len(members):
                self.bench.run(self.quiet)
        raise ContractBroken("lost", f"node {late[0][0]} never delivered {late[0][1]}, {what}")

    def judge(self) -> None:
        bench, promised = self.bench, self.spec.guarantees
        orders = {"fifo": Guarantee.FIFO in promised, "causal": Guarantee.CAUSAL in promised}
        for problem in order_faults(bench.log, **orders):
            raise ContractBroken("order", problem)
        if bench.refusals:
            raise ContractBroken("refused", f"frames of honest nodes were refused: {bench.refusals[:3]}")
        for node in bench.nodes:
            self._same_state(node)
            self._same_effects(node)

    def _same_state(self, node: NodeId) -> None:
        saved = msgspec.msgpack.encode(self.bench.nodes[node].snapshot())
        copy = self.bench.make(node)
        copy.restore(msgspec.msgpack.decode(saved, strict=False))
        again = msgspec.msgpack.decode(msgspec.msgpack.encode(copy.snapshot()))
        if again != msgspec.msgpack.decode(saved):
            raise ContractBroken("snapshot", f"node {node}: its state differs after a restore")

    def _same_effects(self, node: NodeId) -> None:
        """Repeated on a new object, and on a clone of it taken half way, the calls give the same effects and end
        in the same state."""
        calls = self.bench.calls[node]
        copies = [self.bench.make(node)]
        for place, (method, arguments, effects) in enumerate(calls):
            if place == len(calls) // 2:
                copies.append(copies[0].clone())
            for number, copy in enumerate(copies):
                if method == "restore":
                    copies[number] = self.bench.make(node)
                    copies[number].restore(msgspec.msgpack.decode(arguments[0], strict=False))
                elif (again := getattr(copy, method)(*arguments)) != effects:
                    kind = "clone" if number else "determinism"
                    raise ContractBroken(kind, f"node {node}: {method} gave {effects}, and then {again}")
        state = self.bench.nodes[node].canonical()
        for number, copy in enumerate(copies):
            if copy.canonical() != state:
                kind = "clone" if number else "canonical"
                raise ContractBroken(kind, f"node {node}: the same calls lead to a different state")


def assert_contract(spec: Specification, plan: Plan) -> Bench:
    """Play a plan and check the contract; returns the bench, for further questions."""
    return Restless(spec, plan).play()
