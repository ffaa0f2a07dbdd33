"""A station: it numbers messages, gives them to its cell and passes them on over the tree of wires.

Every message gets the next number of this station, whichever way it came, and is passed on over all other
wires. Wires are FIFO and make a tree, so the order in which a station numbers messages is a causal one, and so
is every host's order of delivery, which follows the numbers.

The parts: `downlink.py` sends the cell what its hosts lack, `uplink.py` takes what they broadcast,
`membership.py` knows who is here, `handoffs.py` and `searches.py` bring hosts from one station to the next.
All of them work on one set of records, one per host (`record.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, cast

import msgspec

from antecast.core import Codec, Effect, Frame, LocalMisuse, Message, NodeId, Protocol, RemoteFault, State, Timer
from antecast.protocols.cellular.downlink import RESEND, Downlink
from antecast.protocols.cellular.frames import (
    CODEC,
    Ack,
    Addressed,
    Carried,
    Data,
    Delete,
    Echo,
    Init,
    Join,
    Leave,
    Left,
    Req1,
    Stamp,
)
from antecast.protocols.cellular.handoffs import Costs, Handoffs
from antecast.protocols.cellular.membership import LOOK
from antecast.protocols.cellular.passed_on import PassedOn, check_number
from antecast.protocols.cellular.record import Record
from antecast.protocols.cellular.rules import Rules
from antecast.protocols.cellular.settings import CellularSettings
from antecast.protocols.cellular.uplink import ACKS, Uplink
from antecast.protocols.cellular.wires import Wires
from antecast.protocols.dither import Dither


class Station(Protocol):
    codec: ClassVar[Codec] = CODEC  # type: ignore[misc]

    def __init__(self, node: NodeId, settings: CellularSettings) -> None:
        self.node = node
        rules, dither = Rules.of(settings.published), Dither(node)
        self._records: dict[NodeId, Record] = {}
        self._wires = Wires(node)
        self._passed_on = PassedOn(rules)
        self._downlink = Downlink(settings, rules, self._records, dither)
        self._uplink = Uplink(settings, rules, self._records, dither)
        self._handoffs = Handoffs(
            node, settings, rules, self._records, self._wires, self._downlink, self._passed_on
        )
        self._membership = self._handoffs.membership

    @property
    def records(self) -> Mapping[NodeId, Record]:
        """The hosts that the station knows, for a look from outside."""
        return self._records

    @property
    def kept(self) -> list[Data]:
        """The messages that some host of the cell may still need."""
        return list(self._downlink.buffer.messages)

    @property
    def searching(self) -> int:
        """Requests that have passed here and not been answered yet."""
        return len(self._handoffs.searches.open)

    # The driver's side.

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        raise LocalMisuse("a station has no application; hosts broadcast")

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        """A wire to another station. Stations and wires are there from the start, and stay."""
        out = self.link_down(peer, now)
        self._wires.up(peer)
        return out

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        if peer in self._wires.peers:
            self._wires.down(peer)
            self._handoffs.searches.wire_down(peer, now, out)
        return out

    def snapshot(self) -> State:
        buffer, handoffs = self._downlink.buffer, self._handoffs
        state = {
            "records": [[host, record] for host, record in self._records.items()],
            "low": buffer.low,
            "messages": list(buffer.messages),
            "sent_upto": buffer.sent_upto,
            "owed": list(self._uplink.owed),
            "floors": self._membership.floors.snapshot(),
            "passed_on": self._passed_on.snapshot(),
            "routes": [[station, wire] for station, wire in self._wires.routes.items()],
            "requests": handoffs.requests,
            "costs": handoffs.costs,
        }
        return cast("State", msgspec.to_builtins(state, builtin_types=(bytes,)))

    def restore(self, state: State) -> None:
        """Requests under way through this station are lost with their wires; those who asked ask again."""
        for host, record in state["records"]:
            self._records[host] = msgspec.convert(record, Record, strict=False)
        buffer, handoffs = self._downlink.buffer, self._handoffs
        buffer.low = state["low"]
        for message in state["messages"]:
            buffer.append(msgspec.convert(message, Message[Stamp]), 0)
        buffer.sent_upto = state["sent_upto"]
        self._uplink.owed.update(dict.fromkeys(state["owed"]))
        self._membership.floors.restore(state["floors"])
        self._passed_on.restore(state["passed_on"])
        self._wires.restore({station: wire for station, wire in state["routes"]})  # noqa: C416
        handoffs.requests = state["requests"]
        handoffs.costs = msgspec.convert(state["costs"], Costs)

    def resume(self, now: int) -> list[Effect]:
        out: list[Effect] = []
        self._downlink.set_resend(now, out, anew=True)
        self._uplink.set_timer(now, out)
        self._membership.set_timer(now, out)
        return out

    def timer(self, token: Timer, now: int) -> list[Effect]:
        out: list[Effect] = []
        if token == RESEND:
            self._downlink.resend(now, out)
        elif token == ACKS:
            self._uplink.acknowledge(out)
        elif token == LOOK:
            self._membership.look(now, out)
            self._handoffs.look(now, out)
        return out

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        if sender in self._wires.peers:
            self._from_wire(frame, sender, now, out)
        else:
            self._from_radio(frame, sender, now, out)
        return out

    # From the cell.

    def _from_radio(self, frame: Frame, host: NodeId, now: int, out: list[Effect]) -> None:
        if isinstance(frame, Ack):
            self._acknowledged(frame, host, now, out)
        elif isinstance(frame, Message):
            self._app(frame, host, now, out)
        elif isinstance(frame, Init):
            self._handoffs.init(frame, host, now, out)
        elif isinstance(frame, Join):
            self._membership.join(frame, host, now, out)
        elif isinstance(frame, Leave):
            self._membership.leave(frame, host, now, out)
        else:
            raise RemoteFault(f"a host does not send {type(frame).__name__}")

    def _app(self, message: Data, host: NodeId, now: int, out: list[Effect]) -> None:
        """A host's own message: passed on in the host's order."""
        if message.origin != host:
            raise RemoteFault(f"host {host} sent a message of {message.origin} as its own")
        if message.stamp is not None:
            raise RemoteFault(f"host {host} sent a message with a stamp; stations give them")
        record = self._records.get(host)
        if record is None or not self._uplink.accepts(record):
            return
        self._downlink.heard(record, now, out)
        if message.seq >= record.expected:  # a late copy does not show that the host knows it was given up
            record.fresh = False
        for due in self._uplink.take(message, record):
            self._disseminate(due, None, now, out)
        self._uplink.set_timer(now, out)

    def _acknowledged(self, frame: Ack, host: NodeId, now: int, out: list[Effect]) -> None:
        record = self._records.get(host)
        if record is None:
            self._membership.say_gone(frame.ses, host, now, out)
        elif record.held and record.session == frame.ses:
            self._downlink.check(frame, record, host)
            self._downlink.acknowledged(frame, host, record, now, out)

    # From other stations.

    def _from_wire(self, frame: Frame, peer: NodeId, now: int, out: list[Effect]) -> None:
        if isinstance(frame, Message):
            if frame.stamp is None:
                check_number(frame.origin, frame.seq)
                self._disseminate(frame, peer, now, out)
            elif isinstance(frame.stamp, Carried):
                self._handoffs.carried(frame, frame.stamp, peer, out)
            else:
                raise RemoteFault(f"station {peer} sent a message with the stamp of a cell over a wire")
        elif isinstance(frame, Req1):
            self._handoffs.request(frame, peer, now, out)
        elif isinstance(frame, Echo):
            self._handoffs.searches.check(frame, peer)
            self._handoffs.searches.echoed(frame, peer, now, out)
        elif isinstance(frame, Delete):
            self._membership.delete(frame, peer, now, out)
        elif isinstance(frame, Left):
            self._membership.left(frame, peer, now, out)
        elif isinstance(frame, Addressed):
            self._handoffs.addressed(frame, peer, now, out)
        else:
            raise RemoteFault(f"a station does not send {type(frame).__name__}")

    def _disseminate(self, message: Data, came_from: NodeId | None, now: int, out: list[Effect]) -> None:
        """Pass a message on over the other wires, and send it to the cell: once."""
        if not self._passed_on.is_new(message):
            return
        self._passed_on.add(message)
        self._wires.flood(message, came_from, out)
        self._downlink.add(message, now, out)
        self._membership.make_room(now, out)

    def gauges(self) -> dict[str, int]:
        records, costs = self._records.values(), self._handoffs.costs
        return {
            "station_sent_buffer": len(self._downlink.buffer) + sum(len(record.catch_up) for record in records),
            "station_received_buffer": sum(len(record.early) for record in records),
            "station_hosts": len(records),
            "station_floors": len(self._membership.floors),
            "station_passed_on": len(self._passed_on),
            "station_handoffs": costs.handoffs,
            "handoff_listed": costs.listed,
            "handoff_carried": costs.carried,
            "handoff_skipped": costs.skipped,
            "handoff_meanwhile": costs.meanwhile,
            "handoff_longest": costs.longest,
        }
