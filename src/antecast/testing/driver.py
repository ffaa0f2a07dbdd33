"""A bench: nodes of any protocol on a small network in virtual time, driven by the rules of `core.protocol`.

It keeps that contract and no more, so that a protocol meets here whatever a driver may do: the two ends of a link
come up and go down independently, frames wait for an end that is not up yet and are dropped once it is gone, a
link that broke may or may not let through what was on its way, a crash may come between two effects of a call.
Frames are encoded and decoded on their way, and a snapshot goes through MessagePack.

What breaks the contract ends in `ContractBroken`: a `Send` to a peer without a link, a `broadcast` that gives no
delivery or two, a refused frame that changed something. The test judges all else, from `log`.

Tests that choose each step use the verbs one by one (`link`, `broadcast`, `transfer`, `carry`, `drop`, `fire`,
`pass_time`); those that let things take their course draw delays and call `run`. `wiring` is what lies between the
nodes, `timing` has clocks and timers; here are the nodes, their calls and the effects.

    >>> bench = Bench("vector", nodes=2)
    >>> bench.broadcast(0)
    MessageId(origin=0, seq=1)
    >>> _ = bench.link(0, 1)
    >>> _ = bench.transfer()
    >>> bench.delivered[1]
    [MessageId(origin=0, seq=1)]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from random import Random
from typing import Any

import msgspec

from antecast.core import (
    Accepted,
    Alert,
    CancelTimer,
    Deliver,
    Discard,
    Effect,
    Frame,
    LinkSafety,
    LocalMisuse,
    Message,
    MessageId,
    NodeId,
    Protocol,
    RemoteFault,
    Send,
    SetTimer,
    Timer,
    Transmit,
)
from antecast.protocols.registry import Need, Specification, specification
from antecast.testing.record import Record, shown
from antecast.testing.timing import STORM, ContractBroken, VirtualTime
from antecast.testing.wiring import Delay, Flight, Loss, Wiring, between


class Bench:
    """A network of nodes, the links between them, and strangers: peers without a protocol, whose part the test
    plays itself (`inject`, `inbox`)."""

    def __init__(
        self,
        spec: Specification | str,
        *,
        nodes: int | Iterable[NodeId] = 0,
        stations: Iterable[NodeId] = (),
        strangers: Iterable[NodeId] = (),
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        delay: Delay | int = 0,
        fifo: bool | None = None,
        loss: float | Loss = 0.0,
        radio_loss: float = 0.0,
        late: Delay | int = 0,
        offsets: Mapping[NodeId, int] | None = None,
        watch: bool = False,
        record: bool = False,
        strict: bool = True,
        nested: bool = False,
        make: Callable[[NodeId, Any], Protocol] | None = None,
        on_deliver: Callable[[NodeId, Message[Any]], None] | None = None,
        on_send: Callable[[Flight], None] | None = None,
    ) -> None:
        numbers = list(range(nodes)) if isinstance(nodes, int) else list(nodes)
        self.spec = spec = specification(spec) if isinstance(spec, str) else spec
        self.settings: Any = spec.fit(spec.configure(settings or {}), len(numbers))
        self.random = Random(seed)
        fifo = Need.FIFO_LINKS in spec.needs(self.settings) if fifo is None else fifo
        self.time = VirtualTime(offsets or {})
        self.wiring = wiring = Wiring(
            self, self.time, self.random, delay=delay, fifo=fifo, loss=loss, radio_loss=radio_loss
        )
        self.link, self.unlink, self.up, self.down = wiring.link, wiring.unlink, wiring.up, wiring.down
        self.move, self.queue, self.drop = wiring.move, wiring.queue, wiring.drop
        self.watch, self.record = watch, record
        self.strict = strict
        """Whether a node that refuses another node's frame breaks the contract; frames of strangers may be
        refused."""
        self.nested = nested
        """Whether answers are broadcast in the middle of the effects, which the contract forbids and some drivers
        do."""
        self.on_deliver, self.on_send = on_deliver, on_send
        self.nodes: dict[NodeId, Protocol] = {}
        self.links, self.cells, self.flying = wiring.links, wiring.cells, wiring.flying
        self.timers, self.clock, self.after = self.time.timers, self.time.clock, self.time.after
        self.saved: dict[NodeId, tuple[bytes, list[Message[Any]]]] = {}
        self.inbox: dict[NodeId, list[Frame]] = {number: [] for number in strangers}
        self.happened = happened = Record()
        self.log, self.delivered, self.discarded = happened.log, happened.delivered, happened.discarded
        self.alerts, self.calls = happened.alerts, happened.calls
        self.refused, self.refusals = happened.refused, happened.refusals
        self.doomed: dict[NodeId, int] = {}
        """Nodes that crash in their next call, after this many of its effects have been carried out."""
        self._late: Delay = late if callable(late) else lambda draw: late
        """How late timers fire."""
        self._make = make or spec.make
        self._busy = False
        self._asked: deque[tuple[NodeId, bytes]] = deque()
        self._stations = frozenset(stations)
        for number in (*numbers, *self._stations):
            self.start(number)

    @property
    def now(self) -> int:
        return self.time.now

    # Nodes.

    def start(self, node: NodeId) -> None:
        self.nodes[node] = self.make(node)

    def make(self, node: NodeId) -> Protocol:
        """A node as it starts; it takes no part yet."""
        make = self.spec.make_station if node in self._stations else self._make
        assert make is not None
        return make(node, self.settings)

    def crash(self, node: NodeId, *, notice: Callable[[], int] = lambda: 0) -> None:
        """Stop a node between two calls; its links break, which the others notice at once or later."""
        self.saved[node] = self.save(node), []
        self.kill(node, notice=notice)

    def save(self, node: NodeId) -> bytes:
        """The state of a node, as it would be kept."""
        return msgspec.msgpack.encode(self.nodes[node].snapshot())

    def state(self, node: NodeId) -> object:
        """What a refused frame must not change, where that is watched."""
        return self.save(node)

    def kill(self, node: NodeId, *, notice: Callable[[], int] = lambda: 0) -> None:
        """Stop a node for good: its state is lost."""
        del self.nodes[node]
        self.timers.pop(node, None)
        self.doomed.pop(node, None)
        self.wiring.cut_off(node, notice)

    def recover(self, node: NodeId) -> None:
        """A new object, the state, what was not handed on, `resume`. Links are up to the caller. A node that is
        doomed crashes again."""
        saved, undelivered = self.saved.pop(node)
        self.start(node)
        self.nodes[node].restore(msgspec.msgpack.decode(saved, strict=False))
        if self.record:
            self.calls[node].append(("restore", (saved,), []))
        self._carry_out(node, [Deliver(message) for message in undelivered])
        if node in self.nodes:
            self.call(node, "resume")

    def rebirth(self, node: NodeId, number: NodeId) -> None:
        """A node has lost its state, and comes back as a newcomer."""
        if node in self.nodes:
            self.kill(node)
        self.saved.pop(node, None)
        self.start(number)

    # Links, seen from their ends.

    def exists(self, node: NodeId) -> bool:
        return node in self.nodes or node in self.inbox

    def came_up(self, node: NodeId, peer: NodeId, by: NodeId | None) -> None:
        protocol = self.nodes.get(node)
        if protocol is not None:
            if by is not None and isinstance(protocol, LinkSafety):
                protocol.introduce(peer, by)
            self.call(node, "link_up", peer)

    def went_down(self, node: NodeId, peer: NodeId) -> None:
        if node in self.nodes:
            self.call(node, "link_down", peer)

    def meet(self, a: NodeId, b: NodeId) -> list[Flight]:
        """A contact long enough for everything to be exchanged."""
        self.link(a, b)
        travelled = self.transfer()
        self.unlink(a, b)
        return travelled

    # Calls and effects.

    def broadcast(self, node: NodeId, payload: bytes = b"x", **options: Any) -> MessageId | None:
        """The name of the message; None if the call is only made after the one in progress."""
        if self._busy and not self.nested:
            self._asked.append((node, payload))
            return None
        return self.call(node, "broadcast", payload, **options)

    def inject(self, sender: NodeId, to: NodeId, *those: Frame) -> None:
        """Frames of a stranger arrive, over a link, by radio, or from nowhere."""
        for frame in those:
            self.call(to, "receive", frame, sender)

    def call(self, node: NodeId, method: str, *arguments: Any, **options: Any) -> MessageId | None:
        """Make one call and carry out its effects, then what the application asked for meanwhile."""
        protocol, now = self.nodes[node], self.clock(node)
        before = self.state(node) if self.watch and method == "receive" else None
        try:
            effects = getattr(protocol, method)(*arguments, now, **options)
        except RemoteFault as fault:
            if method != "receive":
                raise ContractBroken("raised", f"node {node}: {method} raised {fault!r}") from fault
            frame, sender = arguments
            self.happened.refuse(node, frame, sender, fault)
            if self.watch and self.state(node) != before:
                raise ContractBroken("changed", f"node {node} refused {shown(frame)}, and changed") from fault
            return None
        if len(effects) > STORM:
            raise ContractBroken("effects", f"node {node}: {method} gave {len(effects)} effects")
        if self.record:
            self.calls[node].append((method, (*arguments, now), effects))
        name = self.happened.broadcast(node, effects, self.now) if method == "broadcast" else None
        self._carry_out(node, effects)
        while self._asked:
            asking, payload = self._asked.popleft()
            if asking in self.nodes:
                self.call(asking, "broadcast", payload)
        return name

    def _carry_out(self, node: NodeId, effects: list[Effect]) -> None:
        dies_after = self.doomed.pop(node, None) if effects else None
        saved, rest = b"", []
        if dies_after is not None:
            saved, rest, effects = self.save(node), effects[dies_after:], effects[:dies_after]
        was_busy, self._busy = self._busy, True
        try:
            for effect in effects:
                self._perform(node, effect)
        finally:
            self._busy = was_busy
        if dies_after is not None:
            self.saved[node] = saved, [effect.message for effect in rest if isinstance(effect, Deliver)]
            self.kill(node)

    def _perform(self, node: NodeId, effect: Effect) -> None:
        match effect:
            case Send(to=to, frame=frame):
                self.send(node, to, frame)
            case Transmit(frame=frame):
                for flight in self.wiring.transmit(node, self._carried(node, frame)):
                    self._sent(flight)
            case Deliver(message=message):
                self.happened.deliver(node, message, self.now)
                if self.on_deliver is not None:
                    self.on_deliver(node, message)
            case Discard(id=name):
                self.discarded[node].append(name)
            case SetTimer(token=token, at=at):
                self.timers[node][token] = at + self._late(self.random)
            case CancelTimer(token=token):
                self.timers[node].pop(token, None)
            case Alert(text=text):
                self.alerts[node].append(text)
            case Accepted():
                pass
            case _:
                raise ContractBroken("effects", f"node {node}: {effect!r} is not an effect")

    def send(self, node: NodeId, to: NodeId, frame: Frame) -> None:
        """A frame of a node goes on its way, as the wire would carry it."""
        link = self.links[node].get(to)
        if link is None:
            raise ContractBroken(
                "stray send", f"node {node} sends {shown(frame)} to {to}, to which it has no link"
            )
        self._sent(self.wiring.send(node, link, self._carried(node, frame)))

    def _sent(self, flight: Flight | None) -> None:
        if flight is not None and self.on_send is not None:
            self.on_send(flight)

    def _carried(self, node: NodeId, frame: Frame) -> Frame:
        """What a wire would carry: an encoding that is read again."""
        codec = self.nodes[node].codec
        try:
            copy = codec.decode(codec.encode(frame))
        except (RemoteFault, LocalMisuse) as error:
            detail = f"node {node} sends {shown(frame)}, which nobody accepts: {error}"
            raise ContractBroken("undecodable", detail) from error
        if copy != frame:
            raise ContractBroken("undecodable", f"node {node}: {frame!r} is decoded as {copy!r}")
        return copy

    # Frames arrive, and time passes.

    def arrive(self, flight: Flight) -> None:
        """A frame that has landed is received, if its link lets it through."""
        if not self.wiring.admits(flight):
            return
        if flight.to in self.inbox:
            self.inbox[flight.to].append(flight.frame)
        elif flight.to in self.nodes:
            refused = self.refused[flight.to]
            self.call(flight.to, "receive", flight.frame, flight.sender)
            if self.strict and self.refused[flight.to] > refused:
                raise ContractBroken("refused", f"a frame of an honest node was refused: {self.refusals[-1]}")

    def transfer(self) -> list[Flight]:
        """Let everything in flight arrive, and what it causes, whatever time it takes; returns what travelled."""
        travelled = []
        while self.flying:
            flight = self.wiring.pop()
            travelled.append(flight)
            self.time.advance(flight.at)
            self.arrive(flight)
            if len(travelled) > STORM:
                raise ContractBroken("storm", "frames go round in circles")
        return travelled

    def carry(self, *path: NodeId, most: int = STORM) -> None:
        """Let what is in flight on the links of a path arrive, link by link; the rest stays in flight."""
        for a, b in pairwise(path):
            for _ in range(min(most, len(self.queue(a, b)))):
                flight = min(filter(between(a, b), self.flying), default=None)
                if flight is not None:
                    self.arrive(*self.drop(flight.__eq__))

    def fire(self, node: NodeId, token: Timer) -> None:
        """A timer fires, as soon as it is due."""
        self.time.advance(self.time.due(node, token))
        del self.timers[node][token]
        self.call(node, "timer", token)

    def pass_time(self, until: int, *, frames: bool = False) -> None:
        """Let the clock run, and fire timers on the way; frames stay where they are unless told otherwise."""
        arrival: Callable[[], int | None] = (
            (lambda: self.flying[0].at if self.flying else None) if frames else lambda: None
        )
        self.time.pass_until(until, fire=self.fire, arrival=arrival, arrive=lambda: self.arrive(self.wiring.pop()))

    def run(self, duration: int) -> None:
        """Let everything take its course for a while."""
        self.pass_time(self.now + duration, frames=True)
