"""A stage for the cellular protocol: nothing arrives but what the story lets through.

Stations are 100, 101, … and are called A, B, …; hosts are 0, 1, …. Frames on a wire wait in their order, frames in
the air one by one. `settle` lets everything arrive that is not held back, `tick` lets time pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from antecast.core import (
    Accepted,
    CancelTimer,
    Deliver,
    Discard,
    Effect,
    Frame,
    NodeId,
    Send,
    SetTimer,
    Timer,
    Transmit,
)
from antecast.protocols import specification

MS = 10**6
A, B, C = 100, 101, 102

Name: TypeAlias = tuple[NodeId, int]


@dataclass
class Packet:
    sender: NodeId
    to: NodeId
    frame: Frame


def called(node: NodeId) -> str:
    return f"host {node}" if node < A else f"station {'ABC'[node - A]}"


def written(name: Name) -> str:
    return f"{name[0]}:{name[1]}"


class Cells:
    def __init__(self, *wires: tuple[NodeId, NodeId], **settings: object) -> None:
        self.spec = specification("cellular")
        self.settings = self.spec.configure({"evict": 0} | settings)
        self.now = 0
        self.nodes: dict[NodeId, Any] = {}
        self.timers: dict[tuple[NodeId, Timer], int] = {}
        self.cell: dict[NodeId, NodeId] = {}
        self.saved: dict[NodeId, tuple[bytes, NodeId]] = {}
        self.wires: dict[tuple[NodeId, NodeId], list[Frame]] = defaultdict(list)
        self.closed: set[tuple[NodeId, NodeId]] = set()
        self.air: list[Packet] = []
        self.delivered: dict[NodeId, list[Name]] = defaultdict(list)
        self.log: list[tuple[str, NodeId, Name]] = []
        self.discarded: list[Name] = []
        assert self.spec.make_station is not None
        for station in sorted({end for wire in wires for end in wire} or {A}):
            self.nodes[station] = self.spec.make_station(station, self.settings)
        for a, b in wires:
            self.perform(a, self.nodes[a].link_up(b, self.now))
            self.perform(b, self.nodes[b].link_up(a, self.now))

    def perform(self, node: NodeId, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to=to, frame=frame):
                    self.wires[node, to].append(frame)
                case Transmit(frame=frame):
                    heard = [host for host, cell in self.cell.items() if cell == node]
                    self.air += [Packet(node, to, frame) for to in (heard if node >= A else [self.cell[node]])]
                case Deliver(message=message):
                    self.delivered[node].append((message.origin, message.seq))
                    self.log.append(("deliver", node, (message.origin, message.seq)))
                case Accepted(id=name):
                    self.log.append(("broadcast", node, (name.origin, name.seq)))
                case Discard(id=name):
                    self.discarded.append((name.origin, name.seq))
                case SetTimer(token=token, at=at):
                    self.timers[node, token] = at
                case CancelTimer(token=token):
                    self.timers.pop((node, token), None)

    # Frames.

    def hold(self, kind: str, sender: NodeId | None = None, to: NodeId | None = None) -> list[Packet]:
        """Take the packets of a kind out of the air; `put` brings them back."""

        def fits(packet: Packet) -> bool:
            named = type(packet.frame).__name__ == kind
            return named and sender in (None, packet.sender) and to in (None, packet.to)

        held = [packet for packet in self.air if fits(packet)]
        self.air = [packet for packet in self.air if not fits(packet)]
        return held

    lose = hold

    def put(self, packets: Iterable[Packet]) -> None:
        """Let held packets arrive, now, wherever their hosts have gone."""
        for packet in packets:
            self.perform(packet.to, self.nodes[packet.to].receive(packet.frame, packet.sender, self.now))

    def close(self, a: NodeId, b: NodeId) -> None:
        """Hold back what travels over the wire from a to b."""
        self.closed.add((a, b))

    def open(self, a: NodeId, b: NodeId) -> None:
        self.closed.discard((a, b))

    def wire(self) -> None:
        """Let everything on open wires arrive, and what it causes there."""
        moved = True
        while moved:
            moved = False
            for (a, b), frames in list(self.wires.items()):
                if frames and (a, b) not in self.closed:
                    self.perform(b, self.nodes[b].receive(frames.pop(0), a, self.now))
                    moved = True

    def settle(self) -> None:
        """Let everything arrive, on open wires and in the air."""
        self.wire()
        while self.air:
            packet = self.air.pop(0)
            if packet.to in self.nodes and (packet.to >= A or self.cell.get(packet.to) == packet.sender):
                self.put([packet])
            self.wire()

    def tick(self, ms: int = 3000) -> None:
        """Let time pass, with everything arriving at once."""
        self.settle()
        until = self.now + ms * MS
        while due := [(at, *who) for who, at in self.timers.items() if at <= until]:
            at, node, token = min(due)
            self.now = max(self.now, at)
            self.fire(node, token)
            self.settle()
        self.now = until

    def fire(self, node: NodeId, token: Timer) -> None:
        """Let one timer fire, early if need be."""
        del self.timers[node, token]
        self.perform(node, self.nodes[node].timer(token, self.now))

    # Hosts.

    def enter(self, host: NodeId, station: NodeId) -> None:
        """A host begins, and its first frame is in the air."""
        self.nodes[host] = self.spec.make(host, self.settings)
        self.move(host, station)

    def at(self, station: NodeId, *hosts: NodeId) -> None:
        """Hosts that are established with a station."""
        for host in hosts:
            self.enter(host, station)
            self.tick(10)
            assert self.nodes[host].established

    def move(self, host: NodeId, station: NodeId | None) -> None:
        before = self.cell.pop(host, None)
        if before is not None:
            self.perform(host, self.nodes[host].link_down(before, self.now))
        if station is not None:
            self.cell[host] = station
            self.perform(host, self.nodes[host].link_up(station, self.now))

    def crash(self, host: NodeId) -> None:
        self.saved[host] = (msgspec.msgpack.encode(self.nodes.pop(host).snapshot()), self.cell.pop(host))
        self.timers = {who: at for who, at in self.timers.items() if who[0] != host}

    def recover(self, host: NodeId) -> None:
        state, station = self.saved.pop(host)
        self.nodes[host] = self.spec.make(host, self.settings)
        self.nodes[host].restore(msgspec.msgpack.decode(state, strict=False))
        self.move(host, station)

    def broadcast(self, host: NodeId) -> Name:
        effects = self.nodes[host].broadcast(b"payload", self.now)
        self.perform(host, effects)
        return next((effect.id.origin, effect.id.seq) for effect in effects if isinstance(effect, Accepted))

    def leave(self, host: NodeId) -> None:
        self.perform(host, self.nodes[host].leave(self.now))

    # What is known.

    def kept(self, station: NodeId) -> list[Name]:
        """The messages that a station keeps."""
        return [(message.origin, message.seq) for message in self.nodes[station].kept]

    def wrong(self) -> list[str]:
        """What is wrong when all is said and done."""
        for pair in list(self.closed):
            self.open(*pair)
        self.tick(30_000)
        hosts = [node for node in self.nodes if node < A and not self.nodes[node].left]
        faults = []
        for host in hosts:
            names = self.delivered[host]
            faults += [
                f"{called(host)} delivers {written(name)} twice"
                for name in sorted({name for name in names if names.count(name) > 1})
            ]
            everything = {name for kind, _, name in self.log if kind == "broadcast"}
            faults += [
                f"{called(host)} never delivers {written(name)}" for name in sorted(everything - set(names))
            ]
        past: dict[Name, set[Name]] = {}
        seen: dict[NodeId, set[Name]] = defaultdict(set)
        for kind, node, name in self.log:
            if kind == "broadcast":
                past[name] = set(seen[node])
            seen[node] |= {name} | past.get(name, set())
        for host in hosts:
            order = list(dict.fromkeys(self.delivered[host]))
            for index, name in enumerate(order):
                faults += [
                    f"{called(host)} delivers {written(late)} after {written(name)}"
                    for late in order[index:]
                    if late in past[name]
                ]
        for station, node in self.nodes.items():
            if station < A:
                continue
            if node.gauges()["station_sent_buffer"]:
                kept = ", ".join(map(written, self.kept(station)))
                faults.append(f"{called(station)} keeps {kept or 'what nobody there lacks'}")
            for host, record in node.records.items():
                if not record.held:
                    faults.append(f"{called(station)} is stuck with a handoff of {called(host)}")
                elif host not in hosts or self.cell[host] != station:
                    faults.append(f"{called(station)} still holds {called(host)}")
        faults += [
            f"{called(host)} is not taken in by any station" for host in hosts if not self.nodes[host].established
        ]
        return faults
