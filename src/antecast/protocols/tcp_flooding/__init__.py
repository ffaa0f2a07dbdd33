"""`tcp-flooding`: causal broadcast in cells by flooding over FIFO connections, the baseline of `cellular`.

Stations pass messages on over their wires, and to each of their hosts over a TCP-like connection of its own.
All links are reliable and FIFO and make a tree, so flooding keeps causal order (Friedman and Manor, *Causal
ordering in deterministic overlay networks*) as long as they stay: hosts that move or crash need a new
connection, which begins where its station is, and messages under way on the old one are lost. The protocol
therefore needs static membership. It delivers nothing twice in any run.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from antecast.core import (
    MAX_PAYLOAD,
    Accepted,
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
from antecast.protocols.dither import dither
from antecast.protocols.received import Received
from antecast.protocols.registry import Guarantee, Need, Specification, register
from antecast.protocols.tcp_flooding.connection import Connection
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
        self._received = Received()
        self._station: NodeId | None = None
        self._connection: Connection | None = None
        self._patience: int = settings.connect
        self._asked = 0
        self._unsent: deque[Message[None]] = deque()
        self._arrived: list[Message[None]] = []

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        if lifetime is not None:
            raise LocalMisuse("this protocol knows no lifetimes; use one that does, such as delta")
        if len(payload) > MAX_PAYLOAD:
            raise LocalMisuse(f"payload of {len(payload)} bytes exceeds the limit of {MAX_PAYLOAD}")
        self._seq += 1
        message: Message[None] = Message(self.node, self._seq, payload, None)
        self._received.add(self.node, self._seq)
        out: list[Effect] = [Accepted(message.id)]
        if self._connection is None:
            self._unsent.append(message)
        else:
            self._connection.send(message, now, out)
        out.append(Deliver(message))
        return out

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        self._station = peer
        self._connection = None
        self._count += 1
        self._patience = self._settings.connect
        return self._ask(now)

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        self._station = self._connection = None
        return [CancelTimer(CONNECT)]

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
        elif self._connection is None:
            pass
        elif isinstance(frame, Segment):
            self._connection.received(frame, now, out)
            arrived, self._arrived[:] = self._arrived[:], []
            out += [Deliver(each) for each in arrived if self._received.add(each.origin, each.seq)]
        elif isinstance(frame, SegmentAck):
            self._connection.acknowledged(frame.ack, now, out, pure=True)
        else:
            raise RemoteFault(f"a station does not send {type(frame).__name__} to its cell")
        return out

    def snapshot(self) -> State:
        """Connections do not outlive a crash, nor what was under way on them."""
        upto = [[origin, seq] for origin, seq in self._received.upto.items()]
        beyond = [[origin, *sorted(numbers)] for origin, numbers in self._received.beyond.items()]
        return {"seq": self._seq, "count": self._count, "upto": upto, "beyond": beyond}

    def restore(self, state: State) -> None:
        self._seq, self._count = state["seq"], state["count"]
        self._received.upto = {origin: seq for origin, seq in state["upto"]}  # noqa: C416
        self._received.beyond = {origin: set(numbers) for origin, *numbers in state["beyond"]}

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
        """(when, to whom, what), in the order of time: what a station sends to one host after the other."""
        self._pace_set = False

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        raise LocalMisuse("a station has no application; hosts broadcast")

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        self._wires.append(peer)
        return []

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        self._wires.remove(peer)
        return []

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        if sender in self._wires:
            if not isinstance(frame, Message):
                raise RemoteFault(f"a station does not send {type(frame).__name__} over a wire")
            self._flood(frame, sender, now, out)
        elif isinstance(frame, Open):
            if frame.count > self._counts.get(sender, 0):
                self._counts[sender] = frame.count
                self._connections[sender] = Connection(self.node, sender, self._settings, self._arrived.append)
            out.append(Transmit(Opened(sender, frame.count)))
        elif (connection := self._connections.get(sender)) is None:
            pass
        elif isinstance(frame, Segment):
            connection.received(frame, now, out)
            arrived, self._arrived[:] = self._arrived[:], []
            for message in arrived:
                self._flood(message, sender, now, out)
        elif isinstance(frame, SegmentAck):
            connection.acknowledged(frame.ack, now, out, pure=True)
        else:
            raise RemoteFault(f"a host does not send {type(frame).__name__}")
        return out

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
        raise LocalMisuse("stations do not crash; what they know is not made to outlive them")

    def restore(self, state: State) -> None:
        raise LocalMisuse("stations do not crash; what they know is not made to outlive them")

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
        memory="host: N counters; station: each message once a host, until it is acknowledged",
        delivery="constant",
        settings=TcpSettings,
        make=TcpHost,
        make_station=TcpStation,
    )
)
