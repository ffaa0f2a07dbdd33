"""A shared medium over UDP multicast, for stations and hosts (`cellular`): whoever is in the cell hears.

    magic, version, kind | sender | cell | packet

A station's cell is named after its number. Stations send a beacon now and then. A host enters the first cell whose
beacon it hears, and stays while it hears it; then it looks for another one, or goes where `move` sends it.
Datagrams are lost, repeated and overtaken as the network pleases, which is what these protocols are for. Between
stations, use `Tcp`.

Nothing is encrypted, and senders are believed: the medium stays on this machine, and a node with keys refuses it.
A frame above the size of a datagram is dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from antecast.core import ConfigurationError, NodeId
from antecast.live.links.address import Address
from antecast.live.links.link import Link, Transport
from antecast.live.node import Node
from antecast.live.security import Unsecured

log = logging.getLogger("antecast.live.medium")

LARGEST: Final = 65_000
_HEAD: Final = struct.Struct(">8sBII")
_MAGIC: Final = b"antecell"
_FRAME, _BEACON = 0, 1


@dataclass(frozen=True)
class MediumOptions:
    beacon: float = 0.5
    """Seconds between two beacons of a station."""
    silence: float = 2.0
    """Seconds without a beacon after which a host has left the cell."""
    lose: Callable[[], bool] | None = None
    """For tests: whether a datagram that has arrived is lost."""


class Cell(Link):
    """A host's stay in the cell of a station. Frames are transmitted, not sent over it."""

    def __init__(self, station: NodeId) -> None:
        self.peer = station
        self._closed = self.paused = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def waiting(self) -> int:
        return 0

    def write(self, packets: list[bytes]) -> None:
        """Protocols of a shared medium transmit; what they would send over a link has nowhere to go."""

    def pause(self) -> None:
        self.paused = True  # what comes meanwhile is lost, as it may be at any time

    def resume(self) -> None:
        self.paused = False

    def close(self, reason: str) -> None:
        self._closed = True


class Medium(Transport, asyncio.DatagramProtocol):
    """One node's radio: a multicast group and port that all share."""

    largest_payload = 60_000  # with a stamp of hosts, the frame is still a datagram

    def __init__(
        self, group: Address | str = "239.255.77.77:7077", *, options: MediumOptions | None = None
    ) -> None:
        self.group = Address.parse(group, field="medium") if isinstance(group, str) else group
        self.options = options if options is not None else MediumOptions()
        self.cell: Cell | None = None
        self._chosen: NodeId | None = None
        self._heard = 0.0
        self._tick: asyncio.TimerHandle | None = None
        self._transport: Any = None

    async def start(self, node: Node) -> None:
        if not isinstance(node.security, Unsecured):
            raise ConfigurationError("a shared medium has no keys yet; use links", field="medium")
        self.node, self.loop = node, asyncio.get_running_loop()
        self._station = node.role == "station"
        try:
            listening = _join(self.group)
        except OSError as error:
            problem = f"cannot join {self.group}: {error.strerror or error}"
            raise ConfigurationError(problem, field="medium") from None
        self._transport, _ = await self.loop.create_datagram_endpoint(lambda: self, sock=listening)
        self._turn()

    def move(self, station: NodeId | None) -> None:
        """Enter the cell of a station at once, and stay with it; or, with None, leave and look for one."""
        self._leave("moved")
        self._chosen = station
        if station is not None:
            self._enter(station)

    # In and out of cells.

    def _turn(self) -> None:
        options = self.options
        if self._station:
            self._put(_BEACON, self.node.number, b"")
        elif self.cell is not None and self._chosen is None and self.loop.time() - self._heard > options.silence:
            self._leave("no beacon is heard")
        self._tick = self.loop.call_later(options.beacon, self._turn)

    def _enter(self, station: NodeId) -> None:
        self.cell = Cell(station)
        self._heard = self.loop.time()
        self.node.link_up(self.cell)

    def _leave(self, reason: str) -> None:
        if self.cell is not None:
            cell, self.cell = self.cell, None
            cell.close(reason)
            self.node.link_down(cell, reason)

    # Datagrams.

    def transmit(self, packets: list[bytes]) -> None:
        where = self.node.number if self._station else None if self.cell is None else self.cell.peer
        for packet in packets:
            if where is None:
                self.node.counters["dropped_astray"] += 1
            elif len(packet) > LARGEST:
                self.node.counters["dropped_oversize"] += 1
                log.warning("node %d: a frame of %d bytes is too large", self.node.number, len(packet))
            else:
                self._put(_FRAME, where, packet)

    def _put(self, kind: int, cell: NodeId, packet: bytes) -> None:
        head = _HEAD.pack(_MAGIC, kind, self.node.number, cell)
        self._transport.sendto(head + packet, (self.group.host, self.group.port))

    def datagram_received(self, data: bytes, address: Any) -> None:
        if len(data) < _HEAD.size or (self.options.lose is not None and self.options.lose()):
            return
        magic, kind, sender, cell = _HEAD.unpack_from(data)
        if magic != _MAGIC or sender == self.node.number:
            return
        if kind == _BEACON:
            self._take_beacon(sender)
        elif self._station and cell == self.node.number:
            self.node.heard(sender, data[_HEAD.size :])
        elif self.cell is not None and cell == sender == self.cell.peer and not self.cell.paused:
            self._heard = self.loop.time()
            self.node.heard(sender, data[_HEAD.size :])

    def _take_beacon(self, station: NodeId) -> None:
        if self._station or self._chosen is not None:
            return
        if self.cell is None:
            self._enter(station)
        elif self.cell.peer == station:
            self._heard = self.loop.time()

    async def stop(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
        self._leave("the node stops")
        if self._transport is not None:
            self._transport.close()

    def describe(self) -> dict[str, Any]:
        cell = None if self.cell is None else self.cell.peer
        return {"kind": "medium", "group": str(self.group), "cell": cell}


def _join(group: Address) -> socket.socket:
    """A socket on a multicast group of the loopback interface."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        made.bind((group.host, group.port))
        local = socket.inet_aton("127.0.0.1")
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group.host) + local)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, local)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
