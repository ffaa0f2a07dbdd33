"""A bench: nodes of any protocol on a small network in virtual time, driven by the rules of `core.protocol`.

It keeps that contract and no more, so what a protocol gets away with here it must bear anywhere: the two ends
of a link come up and go down at moments of their own, frames wait for an end that is not up yet and are dropped
once it is gone, a link that broke may or may not let through what was on its way, a crash may come between two
effects of a call. Frames are encoded and decoded on their way, and a snapshot goes through MessagePack.

What breaks the contract ends in `ContractBroken`: a `Send` to a peer without a link, a `broadcast` that gives
no delivery or two, a refused frame that changed something. All else is for the test to judge, from `log`.

Tests that choose each step use the verbs one by one (`link`, `broadcast`, `transfer`, `drop`, `fire`,
`pass_time`); those that let things take their course draw delays and call `run`.

    >>> from antecast.protocols import specification
    >>> bench = Bench(specification("vector"), nodes=2)
    >>> bench.broadcast(0)
    MessageId(origin=0, seq=1)
    >>> _ = bench.link(0, 1)
    >>> _ = bench.transfer()
    >>> bench.delivered[1]
    [MessageId(origin=0, seq=1)]
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, NamedTuple, TypeAlias

import msgspec

from antecast.core import (
    Accepted,
    Alert,
    CancelTimer,
    Deliver,
    Discard,
    Effect,
    Frame,
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
from antecast.protocols.registry import Need, Specification

STORM = 100_000
"""Frames without time passing that no network of this size sends, unless something goes round in circles."""


class ContractBroken(AssertionError):
    """A protocol did what the contract forbids; `kind` is a word for it."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


@dataclass(eq=False, slots=True)
class Link:
    """One life of a link. Each end is first to come, then up, then gone."""

    ends: tuple[NodeId, NodeId]
    up: set[NodeId] = field(default_factory=set)
    gone: set[NodeId] = field(default_factory=set)
    lost: set[NodeId] = field(default_factory=set)
    """Ends that nothing reaches any more: the link broke."""
    held: list[Flight] = field(default_factory=list)
    """Frames that wait for an end to come up."""
    latest: dict[NodeId, int] = field(default_factory=dict)
    """When the last frame towards an end arrives."""

    def other(self, node: NodeId) -> NodeId:
        return self.ends[self.ends[0] == node]


class Flight(NamedTuple):
    """A frame on its way; over the radio if there is no link."""

    at: int
    number: int
    sender: NodeId
    to: NodeId
    frame: Frame
    link: Link | None


class Event(NamedTuple):
    """What an auditor sees: a broadcast or a delivery."""

    kind: str
    node: NodeId
    id: MessageId
    t: int


Delay: TypeAlias = Callable[[Random], int]


class Bench:
    """A network of nodes, of links between them, and of strangers: peers without a protocol, whose part the test
    plays itself (`inject`, `inbox`)."""

    def __init__(
        self,
        spec: Specification,
        *,
        nodes: int | Iterable[NodeId] = 0,
        stations: Iterable[NodeId] = (),
        strangers: Iterable[NodeId] = (),
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        delay: Delay | int = 0,
        fifo: bool | None = None,
        loss: float = 0.0,
        radio_loss: float = 0.0,
        offsets: Mapping[NodeId, int] | None = None,
        watch: bool = False,
        record: bool = False,
        make: Callable[[NodeId, Any], Protocol] | None = None,
        on_deliver: Callable[[NodeId, Message[Any]], None] | None = None,
        on_send: Callable[[Flight], None] | None = None,
    ) -> None:
        numbers = list(range(nodes)) if isinstance(nodes, int) else list(nodes)
        self.spec = spec
        self.settings: Any = spec.fit(spec.configure(settings or {}), len(numbers))
        self.random = Random(seed)
        self.delay: Delay = (lambda _: delay) if isinstance(delay, int) else delay
        self.fifo = Need.FIFO_LINKS in spec.needs(self.settings) if fifo is None else fifo
        self.loss, self.radio_loss = loss, radio_loss
        self.watch, self.record = watch, record
        self.on_deliver, self.on_send = on_deliver, on_send
        self._make, self._offsets = make or spec.make, dict(offsets or {})
        self.now = 0
        self._count = count().__next__
        self.flying: list[Flight] = []
        self._agenda: list[tuple[int, int, Callable[[], object]]] = []
        self.nodes: dict[NodeId, Protocol] = {}
        self.links: dict[NodeId, dict[NodeId, Link]] = defaultdict(dict)
        """The links that are up at each node's end."""
        self.cells: dict[NodeId, NodeId] = {}
        """The station in whose cell a host is."""
        self.timers: dict[NodeId, dict[Timer, int]] = defaultdict(dict)
        """When each timer fires, on the clock of its node."""
        self.saved: dict[NodeId, tuple[bytes, list[Message[Any]]]] = {}
        self.inbox: dict[NodeId, list[Frame]] = {number: [] for number in strangers}
        self.log: list[Event] = []
        self.delivered: dict[NodeId, list[MessageId]] = defaultdict(list)
        self.discarded: dict[NodeId, list[MessageId]] = defaultdict(list)
        self.refused: Counter[NodeId] = Counter()
        self.refusals: list[str] = []
        self.alerts: dict[NodeId, list[str]] = defaultdict(list)
        self.calls: dict[NodeId, list[tuple[str, tuple[Any, ...], list[Effect]]]] = defaultdict(list)
        self.doomed: dict[NodeId, int] = {}
        """Nodes that crash in their next call, when so many of its effects have been carried out."""
        self._busy = False
        self._asked: deque[tuple[NodeId, bytes]] = deque()
        self._stations = frozenset(stations)
        for number in (*numbers, *self._stations):
            self.start(number)

    def clock(self, node: NodeId) -> int:
        return self.now + self._offsets.get(node, 0)

    # Nodes.

    def start(self, node: NodeId) -> None:
        if node in self._stations:
            assert self.spec.make_station is not None
            self.nodes[node] = self.spec.make_station(node, self.settings)
        else:
            self.nodes[node] = self._make(node, self.settings)

    def crash(self, node: NodeId, *, notice: Callable[[], int] = lambda: 0) -> None:
        """Stop a node between two calls; its links break, which the others notice at once or later."""
        self._stop(node, self._save(node), [], notice)

    def _save(self, node: NodeId) -> bytes:
        return msgspec.msgpack.encode(self.nodes[node].snapshot())

    def _state(self, node: NodeId) -> bytes:
        try:
            return self._save(node)
        except LocalMisuse:
            return b""

    def _stop(
        self, node: NodeId, saved: bytes, undelivered: list[Message[Any]], notice: Callable[[], int] = lambda: 0
    ) -> None:
        self.saved[node] = saved, undelivered
        self.kill(node, notice=notice)

    def kill(self, node: NodeId, *, notice: Callable[[], int] = lambda: 0) -> None:
        """Stop a node for good: its state is lost."""
        del self.nodes[node]
        self.timers.pop(node, None)
        self.cells.pop(node, None)
        self.doomed.pop(node, None)
        for peer, link in self.links.pop(node, {}).items():
            link.up.discard(node)
            link.gone.add(node)
            self.after(notice(), lambda peer=peer, link=link: self.down(peer, link))  # type: ignore[misc]

    def recover(self, node: NodeId) -> None:
        """A new object, the state, what was not handed on, `resume`. Links are up to the caller."""
        saved, undelivered = self.saved.pop(node)
        self.start(node)
        self.nodes[node].restore(msgspec.msgpack.decode(saved, strict=False))
        if self.record:
            self.calls[node].append(("restore", (saved,), []))
        self._carry_out(node, [Deliver(message) for message in undelivered])
        self.call(node, "resume")

    def rebirth(self, node: NodeId, number: NodeId) -> None:
        """A node has lost its state, and comes back as a newcomer."""
        if node in self.nodes:
            self.kill(node)
        self.saved.pop(node, None)
        self.start(number)

    # Links.

    def link(self, a: NodeId, b: NodeId, *, notice: tuple[int, int] = (0, 0)) -> Link:
        """A new link; each end notices at once or after a time. An end that has a link loses that one."""
        link = Link((a, b))
        for node, after in zip((a, b), notice, strict=True):
            self.after(after, lambda node=node: self.up(node, link))  # type: ignore[misc]
        return link

    def unlink(self, a: NodeId, b: NodeId, *, notice: tuple[int, int] = (0, 0)) -> None:
        """Whatever link each has to the other breaks, which each notices at once or after a time."""
        for node, peer, after in ((a, b, notice[0]), (b, a, notice[1])):
            link = self.links[node].get(peer)
            if link is not None:
                self.after(after, lambda node=node, link=link: self.down(node, link))  # type: ignore[misc]

    def up(self, node: NodeId, link: Link) -> None:
        """This end of a link comes up. What has come for it is received next."""
        peer = link.other(node)
        if node in link.gone:
            return
        if node not in self.nodes and node not in self.inbox:  # it has crashed meanwhile
            link.gone.add(node)
            self.down(peer, link)
            return
        if (old := self.links[node].get(peer)) is not None:
            old.up.discard(node)
            old.gone.add(node)
        self.links[node][peer] = link
        link.up.add(node)
        if node in self.nodes:
            self.call(node, "link_up", peer)
        held, link.held = link.held, []
        for flight in held:
            if flight.to == node:
                heapq.heappush(self.flying, flight._replace(at=self.now, number=self._count()))
            else:
                link.held.append(flight)

    def down(self, node: NodeId, link: Link) -> None:
        """This end of a link goes down. One that never came up goes without a call."""
        link.up.discard(node)
        link.gone.add(node)
        peer = link.other(node)
        if self.links[node].get(peer) is link:
            del self.links[node][peer]
            if node in self.nodes:
                self.call(node, "link_down", peer)

    def meet(self, a: NodeId, b: NodeId) -> int:
        """A contact long enough for everything to be exchanged."""
        self.link(a, b)
        travelled = self.transfer()
        self.unlink(a, b)
        return travelled

    def move(self, host: NodeId, station: NodeId | None) -> None:
        """A host enters the cell of a station, or leaves all."""
        if (before := self.cells.pop(host, None)) is not None and host in self.nodes:
            self.call(host, "link_down", before)
        if station is not None:
            self.cells[host] = station
            if host in self.nodes:
                self.call(host, "link_up", station)

    # Calls and effects.

    def broadcast(self, node: NodeId, payload: bytes = b"x", **options: Any) -> MessageId | None:
        """The name of the message; None if the call is only made after the one in progress."""
        if self._busy:
            self._asked.append((node, payload))
            return None
        return self.call(node, "broadcast", payload, **options)

    def inject(self, sender: NodeId, to: NodeId, frame: Frame) -> None:
        """A frame of a stranger arrives, over a link, by radio, or from out of nowhere."""
        self.call(to, "receive", frame, sender)

    def call(self, node: NodeId, method: str, *arguments: Any, **options: Any) -> MessageId | None:
        """Make one call and carry out its effects, then what the application asked for meanwhile."""
        protocol, now = self.nodes[node], self.clock(node)
        before = self._state(node) if self.watch and method == "receive" else b""
        try:
            effects = getattr(protocol, method)(*arguments, now, **options)
        except RemoteFault as fault:
            if method != "receive":
                raise ContractBroken("raised", f"node {node}: {method} raised {fault!r}") from fault
            self.refused[node] += 1
            self.refusals.append(f"node {node} refused {_shown(arguments[0])} of {arguments[1]}: {fault}")
            if self.watch and self._state(node) != before:
                raise ContractBroken(
                    "changed", f"node {node}: refused {_shown(arguments[0])}, and changed"
                ) from fault
            return None
        if len(effects) > STORM:
            raise ContractBroken("effects", f"node {node}: {method} gave {len(effects)} effects")
        if self.record:
            self.calls[node].append((method, (*arguments, now), effects))
        name = self._named(node, effects) if method == "broadcast" else None
        self._carry_out(node, effects)
        while self._asked:
            asking, payload = self._asked.popleft()
            if asking in self.nodes:
                self.call(asking, "broadcast", payload)
        return name

    def _named(self, node: NodeId, effects: list[Effect]) -> MessageId:
        names = [effect.id for effect in effects if isinstance(effect, Accepted)]
        names += [each.message.id for each in effects if isinstance(each, Deliver) and each.message.origin == node]
        if len(names) != 1:
            raise ContractBroken("names", f"node {node}: a broadcast gave {names}; exactly one is due")
        self.log.append(Event("broadcast", node, names[0], self.now))
        return names[0]

    def _carry_out(self, node: NodeId, effects: list[Effect]) -> None:
        dies_after = self.doomed.pop(node, None) if effects else None
        saved, rest = b"", []
        if dies_after is not None:
            saved, rest, effects = self._save(node), effects[dies_after:], effects[:dies_after]
        self._busy = True
        try:
            for effect in effects:
                self._perform(node, effect)
        finally:
            self._busy = False
        if dies_after is not None:
            self._stop(node, saved, [effect.message for effect in rest if isinstance(effect, Deliver)])

    def _perform(self, node: NodeId, effect: Effect) -> None:
        match effect:
            case Send(to=to, frame=frame):
                self._send(node, to, frame)
            case Transmit(frame=frame):
                self._transmit(node, frame)
            case Deliver(message=message):
                self.delivered[node].append(message.id)
                self.log.append(Event("deliver", node, message.id, self.now))
                if self.on_deliver is not None:
                    self.on_deliver(node, message)
            case Discard(id=name):
                self.discarded[node].append(name)
            case SetTimer(token=token, at=at):
                self.timers[node][token] = at
            case CancelTimer(token=token):
                self.timers[node].pop(token, None)
            case Alert(text=text):
                self.alerts[node].append(text)
            case Accepted():
                pass
            case _:
                raise ContractBroken("effects", f"node {node}: {effect!r} is not an effect")

    def _send(self, node: NodeId, to: NodeId, frame: Frame) -> None:
        link = self.links[node].get(to)
        if link is None:
            raise ContractBroken(
                "stray send", f"node {node} sends {_shown(frame)} to {to}, to which it has no link"
            )
        if self.loss and self.random.random() < self.loss:
            return
        at = self.now + self.delay(self.random)
        if self.fifo:
            at = link.latest[to] = max(at, link.latest.get(to, 0))
        self._launch(at, node, to, frame, link)

    def _transmit(self, node: NodeId, frame: Frame) -> None:
        """Over the radio: to the cell, or up to its station; now and then twice."""
        heard = [self.cells[node]] if node in self.cells else [h for h, s in self.cells.items() if s == node]
        for to in heard:
            for _ in range(1 + (self.random.random() < self.radio_loss / 4)):
                if self.random.random() >= self.radio_loss:
                    self._launch(self.now + self.delay(self.random), node, to, frame, None)

    def _launch(self, at: int, sender: NodeId, to: NodeId, frame: Frame, link: Link | None) -> None:
        codec = self.nodes[sender].codec
        try:
            copy = codec.decode(codec.encode(frame))
        except (RemoteFault, LocalMisuse) as error:
            raise ContractBroken(
                "undecodable", f"node {sender} sends {_shown(frame)}, which nobody takes: {error}"
            ) from error
        if copy != frame:
            raise ContractBroken("undecodable", f"node {sender}: {frame!r} comes out of the wire as {copy!r}")
        flight = Flight(at, self._count(), sender, to, copy, link)
        heapq.heappush(self.flying, flight)
        if self.on_send is not None:
            self.on_send(flight)

    def _arrive(self, flight: Flight) -> None:
        _, _, sender, to, frame, link = flight
        if link is not None:
            if to not in link.gone and to not in link.up:
                link.held.append(flight)
                return
            if sender in link.gone and to not in link.lost and self.random.random() < 0.5:
                link.lost.add(to)
            if to in link.gone or to in link.lost:
                return
        elif to in self.nodes and self.cells.get(to, self.cells.get(sender)) not in (sender, to):
            return
        if to in self.inbox:
            self.inbox[to].append(frame)
        elif to in self.nodes:
            self.call(to, "receive", frame, sender)

    # Time.

    def after(self, delay: int, action: Callable[[], object]) -> None:
        if delay:
            heapq.heappush(self._agenda, (self.now + delay, self._count(), action))
        else:
            action()

    def transfer(self) -> int:
        """Let everything in flight arrive, and what it causes, whatever time it takes; how many frames."""
        travelled = 0
        while self.flying:
            flight = heapq.heappop(self.flying)
            self.now = max(self.now, flight.at)
            self._arrive(flight)
            travelled += 1
            if travelled > STORM:
                raise ContractBroken("storm", "frames go round in circles")
        return travelled

    def drop(self) -> list[Flight]:
        """Lose everything in flight."""
        dropped, self.flying = sorted(self.flying), []
        return dropped

    def fire(self, node: NodeId, token: Timer) -> None:
        del self.timers[node][token]
        self.call(node, "timer", token)

    def _next_timer(self) -> tuple[int, NodeId, Timer] | None:
        due = [
            (max(self.now, at - self._offsets.get(node, 0)), node, token)
            for node, timers in self.timers.items()
            for token, at in timers.items()
        ]
        return min(due, default=None)

    def pass_time(self, until: int, *, frames: bool = False) -> None:
        """Let the clock run, and fire timers on the way; frames stay where they are unless told otherwise."""
        calls = 0
        while True:
            timer = self._next_timer()
            times = [timer[0] if timer else until + 1, self._agenda[0][0] if self._agenda else until + 1]
            times.append(self.flying[0].at if frames and self.flying else until + 1)
            soonest = min(times)
            if soonest > until:
                break
            calls = calls + 1 if soonest <= self.now else 0
            if calls > STORM:
                raise ContractBroken("storm", "time stands still: timers or frames come without end")
            self.now = max(self.now, soonest)
            if times[2] == soonest:
                self._arrive(heapq.heappop(self.flying))
            elif times[1] == soonest:
                heapq.heappop(self._agenda)[2]()
            elif timer is not None:
                self.fire(timer[1], timer[2])
        self.now = max(self.now, until)

    def run(self, duration: int) -> None:
        """Let everything take its course for a while."""
        self.pass_time(self.now + duration, frames=True)


def _shown(frame: object) -> str:
    text = repr(frame)
    return text if len(text) <= 200 else f"{text[:200]}…"
