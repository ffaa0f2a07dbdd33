"""`tcp-flooding`: causal broadcast in cells by flooding over FIFO connections, the baseline of `cellular`.

Stations pass messages on over their wires, and to each of their hosts over a TCP-like connection of its own.
All links are reliable and FIFO and make a tree, so flooding keeps causal order (Friedman and Manor, *Causal
ordering in deterministic overlay networks*) as long as they stay: hosts that move or crash need a new
connection, which begins where its station is, and messages on their way down the old one are lost. The protocol
therefore needs static membership. It delivers nothing twice, and nothing out of its source's order, in any run.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from antecast.core import (
    MAX_PAYLOAD,
    MAX_SOURCES,
    CancelTimer,
    Codec,
    Deliver,
    Effect,
    Frame,
    LocalMisuse,
    Message,
    NodeId,
    Protocol,
    RemoteFault,
    Send,
    SetTimer,
    State,
    Timer,
    Transmit,
)
from antecast.protocols.cellular import GAUGES
from antecast.protocols.dither import dither
from antecast.protocols.lost_state import lost_state
from antecast.protocols.registry import Guarantee, Need, Specification, register
from antecast.protocols.tcp_flooding.connection import Connection, message_of, plain
from antecast.protocols.tcp_flooding.frames import CODEC, Open, Opened, Segment, SegmentAck, TcpSettings

CONNECT: Timer = "connect"
PACE: Timer = "pace"


class TcpHost(Protocol):
    codec: ClassVar[Codec] = CODEC  # type: ignore[misc]

    def __init__(self, node: NodeId, settings: TcpSettings) -> None:
        self.node = node
        self._settings = settings
        self._seq = 0
        self._count = 0
        self._delivered: dict[NodeId, int] = {}
        """The newest message of each source. Flooding keeps their order, so an older one is a copy or late."""
        self._station: NodeId | None = None
        self._connection: Connection | None = None
        self._patience: int = settings.connect
        self._asked = 0
        self._unsent: deque[Message[None]] = deque()
        """What waits for a connection; what the last one did not complete comes first."""
        self._arrived: list[Message[None]] = []
        self._alerted = False

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        if lifetime is not None:
            raise LocalMisuse("this protocol does not support lifetimes; use one that does, such as delta")
        if len(payload) > MAX_PAYLOAD:
            raise LocalMisuse(f"payload of {len(payload)} bytes exceeds the limit of {MAX_PAYLOAD}")
        self._seq += 1
        message: Message[None] = Message(self.node, self._seq, payload, None)
        out: list[Effect] = []
        if self._connection is None:
            self._unsent.append(message)
        else:
            self._connection.send(message, now, out)
        out.append(Deliver(message))
        return out

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        out = self.link_down(self._station, now) if self._station is not None else []
        self._station = peer
        self._count += 1
        self._patience = self._settings.connect
        self._alerted = False
        return out + self._ask(now)

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        if peer != self._station:
            return []
        out: list[Effect] = [CancelTimer(CONNECT)]
        if self._connection is not None:
            # The station may have some of these: hosts that have them take them for copies.
            self._unsent.extendleft(reversed(self._connection.unacknowledged))
            out += self._connection.cancel()
        self._station = self._connection = None
        return out

    def _ask(self, now: int) -> list[Effect]:
        wait, self._patience = self._patience, min(2 * self._patience, self._settings.retransmit_most)
        self._asked += 1
        wait += dither(self.node, self._asked, wait // 2)
        return [Transmit(Open(self._count)), SetTimer(CONNECT, now + wait)]

    def timer(self, token: Timer, now: int) -> list[Effect]:
        out: list[Effect] = []
        if token == CONNECT:
            return self._ask(now) if self._station is not None and self._connection is None else []
        connection = self._connection
        if connection is not None and token == f"rto/{connection.peer}":
            connection.timed_out(now, out)
        elif connection is not None and token == f"ack/{connection.peer}":
            connection.ack_due(now, out)
        return out

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        if sender != self._station or getattr(frame, "to", self.node) != self.node:
            return out
        if isinstance(frame, Opened):
            if frame.count == self._count and self._connection is None:
                self._connection = Connection(self.node, sender, self._settings, self._arrived.append)
                out.append(CancelTimer(CONNECT))
                while self._unsent:
                    self._connection.send(self._unsent.popleft(), now, out)
        elif isinstance(frame, Segment):
            if self._connection is not None:
                self._connection.check(frame)
                self._check_sources(frame)
                self._connection.received(frame, now, out)
                arrived, self._arrived[:] = self._arrived[:], []
                for message in arrived:
                    self._deliver(message, out)
        elif isinstance(frame, SegmentAck):
            if self._connection is not None:
                self._connection.acknowledged(frame.ack, now, out, pure=True)
        else:
            raise RemoteFault(f"a station does not send {type(frame).__name__} to its cell")
        return out

    def _check_sources(self, frame: Segment) -> None:
        if len(self._delivered) + len(frame.messages) > MAX_SOURCES:
            sources = self._delivered.keys() | {message.origin for message in frame.messages}
            if len(sources) > MAX_SOURCES:
                raise RemoteFault(f"messages of more than {MAX_SOURCES} sources")

    def _deliver(self, message: Message[None], out: list[Effect]) -> None:
        if message.origin == self.node:
            if message.seq > self._seq and not self._alerted:
                self._alerted = True
                out.append(lost_state(self._station or 0, message.id))
        elif message.seq > self._delivered.get(message.origin, 0):
            self._delivered[message.origin] = message.seq
            out.append(Deliver(message))

    def snapshot(self) -> State:
        """A connection does not outlive a crash; what the host had still to send over it does."""
        unsent = [*(self._connection.unacknowledged if self._connection else ()), *self._unsent]
        delivered = [[origin, seq] for origin, seq in self._delivered.items()]
        return {
            "seq": self._seq,
            "count": self._count,
            "delivered": delivered,
            "unsent": [plain(message) for message in unsent],
        }

    def restore(self, state: State) -> None:
        self._seq, self._count = state["seq"], state["count"]
        self._delivered = {origin: seq for origin, seq in state["delivered"]}  # noqa: C416
        self._unsent = deque(map(message_of, state["unsent"]))

    def gauges(self) -> dict[str, int]:
        connection = self._connection
        return {
            "host_sent_buffer": len(self._unsent) + (connection.pending if connection else 0),
            "host_received_buffer": connection.early if connection else 0,
        }


class TcpStation(Protocol):
    codec: ClassVar[Codec] = CODEC  # type: ignore[misc]

    def __init__(self, node: NodeId, settings: TcpSettings) -> None:
        self.node = node
        self._settings = settings
        self._wires: list[NodeId] = []
        self._connections: dict[NodeId, Connection] = {}
        self._counts: dict[NodeId, int] = {}
        self._arrived: list[Message[None]] = []
        self._paced: deque[tuple[int, NodeId, Message[None]]] = deque()
        """(when, to whom, what), in the order of time: a station sends to one host after the other."""
        self._pace_set = False

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        raise LocalMisuse("a station has no application; hosts broadcast")

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        if peer not in self._wires:
            self._wires.append(peer)
        return []

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        if peer in self._wires:
            self._wires.remove(peer)
        return []

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        if sender in self._wires:
            if not isinstance(frame, Message):
                raise RemoteFault(f"a station does not send {type(frame).__name__} over a wire")
            self._flood(frame, sender, now, out)
        elif isinstance(frame, Open):
            self._open(frame, sender, out)
        elif isinstance(frame, Segment):
            self._segment(frame, sender, now, out)
        elif isinstance(frame, SegmentAck):
            if frame.to == self.node and sender in self._connections:
                self._connections[sender].acknowledged(frame.ack, now, out, pure=True)
        else:
            raise RemoteFault(f"a host does not send {type(frame).__name__}")
        return out

    def _open(self, frame: Open, host: NodeId, out: list[Effect]) -> None:
        known = self._counts.get(host)
        if known is None and len(self._counts) >= MAX_SOURCES:
            raise RemoteFault(f"a station serves {MAX_SOURCES} hosts at most")
        if frame.count > (known or 0):
            if host in self._connections:
                out += self._connections[host].cancel()
            self._counts[host] = frame.count
            self._connections[host] = Connection(self.node, host, self._settings, self._arrived.append)
        out.append(Transmit(Opened(host, frame.count)))

    def _segment(self, frame: Segment, host: NodeId, now: int, out: list[Effect]) -> None:
        if any(message.origin != host for message in frame.messages):
            raise RemoteFault(f"host {host} sent a message of another source as its own")
        connection = self._connections.get(host)
        if connection is not None and frame.to == self.node:
            connection.check(frame)
            connection.received(frame, now, out)
            arrived, self._arrived[:] = self._arrived[:], []
            for message in arrived:
                self._flood(message, host, now, out)

    def _flood(self, message: Message[None], came_from: NodeId, now: int, out: list[Effect]) -> None:
        out += [Send(peer, message) for peer in self._wires if peer != came_from]
        at = now
        for host in self._connections:
            if host != came_from:
                # Behind what waits for this host already: one order for all.
                at = max(at, self._paced[-1][0]) if self._paced else at
                self._paced.append((at, host, message))
                at += self._settings.pace
        self._send_paced(now, out)

    def _send_paced(self, now: int, out: list[Effect]) -> None:
        while self._paced and self._paced[0][0] <= now:
            _, host, message = self._paced.popleft()
            self._connections[host].send(message, now, out)
        if self._paced and not self._pace_set:
            self._pace_set = True
            out.append(SetTimer(PACE, self._paced[0][0]))

    def timer(self, token: Timer, now: int) -> list[Effect]:
        out: list[Effect] = []
        if token == PACE:
            self._pace_set = False
            self._send_paced(now, out)
            return out
        kind, _, host = token.partition("/")
        connection = self._connections[int(host)]
        if kind == "rto":
            connection.timed_out(now, out)
        else:
            connection.ack_due(now, out)
        return out

    def snapshot(self) -> State:
        return {
            "counts": [[host, count] for host, count in self._counts.items()],
            "connections": [connection.snapshot() for connection in self._connections.values()],
            "paced": [[at, host, plain(message)] for at, host, message in self._paced],
        }

    def restore(self, state: State) -> None:
        self._counts = {host: count for host, count in state["counts"]}  # noqa: C416
        for saved in state["connections"]:
            connection = Connection(self.node, saved["peer"], self._settings, self._arrived.append)
            connection.restore(saved)
            self._connections[connection.peer] = connection
        self._paced = deque((at, host, message_of(values)) for at, host, values in state["paced"])

    def resume(self, now: int) -> list[Effect]:
        out: list[Effect] = []
        for connection in self._connections.values():
            connection.resume(now, out)
        self._send_paced(now, out)
        return out

    def gauges(self) -> dict[str, int]:
        connections = self._connections.values()
        return {
            "station_sent_buffer": len(self._paced) + sum(each.pending for each in connections),
            "station_received_buffer": sum(each.early for each in connections),
            "station_hosts": len(connections),
        }


def _needs(_: TcpSettings) -> frozenset[Need]:
    return frozenset({Need.CELLS, Need.RELIABLE_LINKS, Need.FIFO_LINKS, Need.STATIC_MEMBERS})


TCP_FLOODING = register(
    Specification(
        name="tcp-flooding",
        title="causal, by flooding over a TCP connection for each host",
        reference="Nédelec, Molli and Mostéfaoui, Breaking the scalability barrier of causal broadcast for large "
        "and dynamic systems; as compared with by Wilhelm, Arantes and Sens",
        guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT, Guarantee.FIFO, Guarantee.CAUSAL}),
        needs=_needs,
        control="constant",
        memory="host: N counters; station: each message once per host, until it is acknowledged",
        delivery="constant",
        settings=TcpSettings,
        make=TcpHost,
        make_station=TcpStation,
        gauges=GAUGES,
    )
)
