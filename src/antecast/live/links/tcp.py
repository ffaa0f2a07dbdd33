"""TCP: a connection per link, packets with a length before them, heartbeats, reconnection.

    length (4 bytes, big endian) | packet

A length of 0 is a heartbeat; one of all ones asks for a heartbeat in return. Any other length above the largest
frame ends the connection before anything is read or kept. A connection is a link once both ends have greeted each
other (`hello`); it ends when either end closes it, when it breaks, or when nothing was heard for too long.

**Who keeps which connection.** Two nodes may dial each other at once. Of two connections between the same two
processes, that dialled by the node with the larger number is kept; of two in the same direction, the newer one.
When another process comes under a number that is linked already, the old link is asked for a sign of life first:
if it answers, the newcomer is refused.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

from antecast.core import AntecastError, ConfigurationError
from antecast.live import faults
from antecast.live.links.hello import (
    MAX_HELLO,
    BadHello,
    Hello,
    Refusal,
    check_hello,
    decode_hello,
    encode_hello,
    encode_refusal,
    hello_of,
)
from antecast.live.links.link import Link, Transport
from antecast.live.node import Node
from antecast.live.security import PeerRefused, Unsecured

log = logging.getLogger("antecast.live.tcp")

_HEARTBEAT: Final = bytes(4)
_DUPLICATE: Final = "another connection between the two nodes is kept"
_PING: Final = b"\xff" * 4
_PING_LENGTH: Final = (1 << 32) - 1


@dataclass(frozen=True)
class TcpOptions:
    heartbeat: float = 5.0
    """Seconds without anything to send before a heartbeat is sent."""
    silence: float = 15.0
    """Seconds without hearing anything before a link is given up."""
    greeting: float = 5.0
    """Seconds that a new connection has to become a link."""
    proof: float = 2.0
    """Seconds that a linked peer has to give a sign of life when another process claims its number."""
    retry_least: float = 0.05
    """Seconds before the first attempt to connect again; doubled each time, with jitter."""
    retry_most: float = 10.0
    unknown: int = 64
    """Connections that have not greeted yet, at most; more are refused."""
    bytes_per_second: int = 256 << 20
    """What one peer may send; reading from it pauses when it sends more."""


class Address:
    """Where a node listens: HOST:PORT, with brackets around IPv6 addresses."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    @classmethod
    def parse(cls, text: str, *, field: str = "address") -> Address:
        """
        >>> str(Address.parse("[::1]:7000")), str(Address.parse("localhost:80"))
        ('[::1]:7000', 'localhost:80')
        """
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        bare = host[1:-1] if bracketed else host
        if not colon or not port.isdecimal() or int(port) > 65535 or not bare or (":" in bare) != bracketed:
            problem = f"expected HOST:PORT, such as 127.0.0.1:7000 or [::1]:7000, got {text!r}"
            raise ConfigurationError(problem, field=field)
        return cls(bare, int(port))

    @property
    def loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and (self.host, self.port) == (other.host, other.port)

    def __hash__(self) -> int:
        return hash((self.host, self.port))


class Tcp(Transport):
    """Listens, dials the peers it was told of, and dials again when a connection ends."""

    def __init__(
        self,
        *,
        listen: Address | str | None = None,
        peers: Sequence[Address | str] = (),
        options: TcpOptions | None = None,
    ) -> None:
        self.listen = Address.parse(listen, field="listen") if isinstance(listen, str) else listen
        self.peers = [Address.parse(each, field="peer") if isinstance(each, str) else each for each in peers]
        self.options = options if options is not None else TcpOptions()
        self.instance = secrets.token_bytes(8)
        self.connections: set[Connection] = set()
        self._dialling: dict[Address, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self._stopping = False

    async def start(self, node: Node) -> None:
        self.node = node
        self.hello = hello_of(node.identity, node.life, self.instance)
        self.loop = asyncio.get_running_loop()
        if isinstance(node.security, Unsecured):
            self._stay_on_loopback()
        if self.listen is not None:
            try:
                self._server = await self.loop.create_server(
                    lambda: Connection(self, dialled=False),
                    self.listen.host,
                    self.listen.port,
                    ssl=node.security.server_context(),
                    ssl_handshake_timeout=self.options.greeting if node.security.server_context() else None,
                    backlog=128,
                )
            except OSError as error:
                reason = error.strerror or error
                raise ConfigurationError(f"cannot listen on {self.listen}: {reason}", field="listen") from None
            self.listen = Address(self.listen.host, self._server.sockets[0].getsockname()[1])
            log.info("node %d listens on %s", node.number, self.listen)
        for address in self.peers:
            self.dial(address)

    def _stay_on_loopback(self) -> None:
        for address in (*([self.listen] if self.listen is not None else []), *self.peers):
            if not address.loopback:
                raise ConfigurationError(
                    f"a node without keys stays on this machine, and {address} is not on it; "
                    "give it the keys of a group (antecast group new)",
                    field="address",
                )

    def dial(self, address: Address) -> None:
        """Connect to an address, and again whenever there is no link to the node behind it."""
        if address not in self._dialling and not self._stopping:
            self._dialling[address] = self.loop.create_task(self._keep_dialling(address))

    def forget(self, address: Address) -> None:
        """Dial an address no longer; a link that is up stays."""
        task = self._dialling.pop(address, None)
        if task is not None:
            task.cancel()

    async def _keep_dialling(self, address: Address) -> None:
        options, wait = self.options, self.options.retry_least
        peer: int | None = None
        while True:
            if peer is None or peer not in self.node.links:
                connection = await self._connect(address)
                if connection is not None:
                    if await connection.outcome:
                        wait = options.retry_least
                    peer = peer if connection.number is None else connection.number
                    if peer == self.node.number:
                        log.warning("node %d: %s is this node itself", self.node.number, address)
                        return
            if peer is not None and peer in self.node.links:
                link = self.node.links[peer]
                if isinstance(link, Connection):
                    await link.ended.wait()
                    wait = options.retry_least
                else:
                    await asyncio.sleep(wait)
                continue
            await asyncio.sleep(wait * (0.5 + random.random()))
            wait = min(2 * wait, options.retry_most)

    async def _connect(self, address: Address) -> Connection | None:
        context = self.node.security.client_context()
        try:
            async with asyncio.timeout(self.options.greeting):
                _, connection = await self.loop.create_connection(
                    lambda: Connection(self, dialled=True),
                    address.host,
                    address.port,
                    ssl=context,
                    server_hostname="" if context is not None else None,
                )
        except (OSError, TimeoutError) as error:
            self.node.counters["dial_failures"] += 1
            log.debug("node %d: cannot connect to %s: %s", self.node.number, address, error)
            return None
        return connection

    # Which connection becomes the link.

    async def decide(self, connection: Connection, theirs: Hello) -> str | None:
        """Why a connection that has greeted is not taken; None if it is."""
        counters = self.node.counters
        try:
            self.node.security.identify(connection.ssl_object, theirs.number)
        except PeerRefused as fault:
            counters["refused_identity"] += 1
            return str(fault)
        try:
            check_hello(self.hello, theirs, self.node.lives)
        except BadHello as fault:
            counters["refused_in_use" if "another journal" in str(fault) else "refused_hello"] += 1
            return str(fault)
        before = self.node.links.get(theirs.number)
        if not isinstance(before, Connection) or before.hello is None:
            return None
        if before.hello.instance == theirs.instance:
            if before.dialled == connection.dialled:
                return None  # its other end has given the old one up
            larger_dials = connection.dialled == (self.node.number > theirs.number)
            if larger_dials:
                return None
            counters["refused_duplicate"] += 1
            return _DUPLICATE
        if await before.is_alive(self.options.proof):
            counters["refused_in_use"] += 1
            return f"number {theirs.number} is in use by another process"
        return None

    async def stop(self) -> None:
        self._stopping = True
        for task in self._dialling.values():
            task.cancel()
        await asyncio.gather(*self._dialling.values(), return_exceptions=True)
        self._dialling.clear()
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.finish("the node stops")
        deadline = self.loop.time() + 2.0
        while self.connections and self.loop.time() < deadline:
            await asyncio.sleep(0.002)
        for connection in list(self.connections):
            connection.close("the node stops")

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "tcp",
            "listen": None if self.listen is None else str(self.listen),
            "dialling": [str(address) for address in self._dialling],
            "connections": len(self.connections),
        }


class Connection(asyncio.Protocol, Link):
    """One connection: a stranger until it has greeted, then a link."""

    def __init__(self, owner: Tcp, *, dialled: bool) -> None:
        self.owner, self.node, self.dialled = owner, owner.node, dialled
        self.peer = -1
        self.hello: Hello | None = None
        self.number: int | None = None
        """Who the other end says it is, also where it refuses."""
        self.outcome: asyncio.Future[bool] = owner.loop.create_future()
        """Whether it became a link."""
        self.ended = asyncio.Event()
        self.ssl_object: Any = None
        self._transport: Any = None
        self._buffer = bytearray()
        self._up = self._closed = self._paused = self._deciding = False
        self._reason = "the connection ended"
        codec = owner.node.codec
        self._largest = codec.max_frame + owner.node.security.overhead
        self._heard = self._spoke = owner.loop.time()
        self._tick: asyncio.TimerHandle | None = None
        self._second, self._budget = 0, owner.options.bytes_per_second
        self._proofs: list[asyncio.Future[bool]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    # Made and lost.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        owner = self.owner
        strangers = sum(1 for each in owner.connections if not each._up)
        owner.connections.add(self)
        if strangers >= owner.options.unknown and not self.dialled:
            owner.node.counters["refused_room"] += 1
            log.warning("node %d: refused a connection: too many that have not greeted", self.node.number)
            transport.abort()
            return
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ssl_object = transport.get_extra_info("ssl_object")
        transport.set_write_buffer_limits(high=1 << 20)
        self._tick = owner.loop.call_later(owner.options.greeting, self._greet_late)
        if self.dialled:
            self._put(encode_hello(owner.hello))

    def _greet_late(self) -> None:
        if not self._up:
            self.node.counters["refused_hello"] += 1
            self.close("no greeting in time")

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        if self._tick is not None:
            self._tick.cancel()
        self.owner.connections.discard(self)
        if not self.outcome.done():
            self.outcome.set_result(False)
        for proof in self._proofs:
            if not proof.done():
                proof.set_result(False)
        self.ended.set()
        if self._up:
            self._up = False
            self.node.link_down(self, str(error) if error is not None else self._reason)

    def finish(self, reason: str) -> None:
        """Close when all that was written has been sent."""
        self._reason = reason
        if self._transport is not None:
            self._transport.close()

    def close(self, reason: str) -> None:
        if self._closed:
            return
        self._closed, self._reason = True, reason
        if self._transport is not None:
            self._transport.abort()
        if self._up:  # down at this end from now on, whatever is still in the pipe
            self._up = False
            self.node.link_down(self, reason)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def waiting(self) -> int:
        return 0 if self._closed else int(self._transport.get_write_buffer_size())

    # Packets out.

    def write(self, packets: list[bytes]) -> None:
        if self._closed:
            return
        if faults.armed is not None:
            self._write_with_faults(packets, faults.armed)
            return
        parts: list[bytes] = []
        size = 0
        for packet in packets:
            length = len(packet)
            size += length + 4
            parts.append(length.to_bytes(4, "big"))
            parts.append(packet)
        self.node.counters["bytes_sent"] += size
        self._spoke = self.owner.loop.time()
        self._transport.write(b"".join(parts))

    def _write_with_faults(self, packets: list[bytes], point: Any) -> None:
        """Each frame on its own, so that a process can be killed at each boundary and in the middle."""
        for packet in packets:
            point("frame begin")
            data = len(packet).to_bytes(4, "big") + packet
            half = len(data) // 2
            self._transport.write(data[:half])
            point("frame half sent")
            self._transport.write(data[half:])
            point("frame sent")

    def _put(self, packet: bytes) -> None:
        self._transport.write(len(packet).to_bytes(4, "big") + packet)

    def pause(self) -> None:
        self._paused = True
        if self._transport is not None and not self._closed:
            self._transport.pause_reading()

    def resume(self) -> None:
        self._paused = False
        if self._closed:
            return
        self._transport.resume_reading()
        if self._buffer:
            self.owner.loop.call_soon(self.data_received, b"")

    # Bytes in.

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        self._heard = self.owner.loop.time()
        for proof in self._proofs:
            if not proof.done():
                proof.set_result(True)
        buffer = self._buffer
        if buffer:
            buffer += data
            data = bytes(buffer)
            buffer.clear()
        if not self._up:
            self._greet(data)
            return
        packets: list[bytes] = []
        place, end, largest, asked = 0, len(data), self._largest, False
        while end - place >= 4:
            length = int.from_bytes(data[place : place + 4], "big")
            if length == _PING_LENGTH:
                place, asked = place + 4, True
                continue
            if length > largest:
                self.node.counters["dropped_oversize"] += 1
                log.warning("node %d: node %d announced %d bytes", self.node.number, self.peer, length)
                if packets:
                    self.node.received(self, packets)
                self.close(f"announced a packet of {length} bytes; the largest is {largest}")
                return
            if end - place - 4 < length:
                break
            place += 4
            if length:
                packets.append(data[place : place + length])
                place += length
        if place < end:
            buffer += data[place:] if place else data
        if asked:
            self._transport.write(_HEARTBEAT)
        if packets:
            self.node.received(self, packets)
        self._throttle(end)

    def _throttle(self, size: int) -> None:
        """Bound what one peer can make this node do in a second."""
        second = int(self._heard)
        if second != self._second:
            self._second, self._budget = second, self.owner.options.bytes_per_second
        self._budget -= size
        if self._budget < 0 and not self._closed:
            self.node.counters["throttled"] += 1
            self._transport.pause_reading()
            self.owner.loop.call_later(second + 1 - self._heard, self._go_on)

    def _go_on(self) -> None:
        if not self._closed and not self._paused:
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        return False

    # The greeting.

    def _greet(self, data: bytes) -> None:
        self._buffer += data
        if self._deciding or len(self._buffer) < 4:
            if len(self._buffer) > self._largest:
                self.close("sent too much before it was a link")
            return
        length = int.from_bytes(self._buffer[:4], "big")
        if not 0 < length <= MAX_HELLO:
            self._refuse(f"expected a greeting, got a length of {length}")
            return
        if len(self._buffer) < 4 + length:
            return
        packet = bytes(self._buffer[4 : 4 + length])
        del self._buffer[: 4 + length]
        try:
            theirs = decode_hello(packet)
        except BadHello as fault:
            self._refuse(str(fault))
            return
        if isinstance(theirs, Refusal):
            self.number = theirs.number
            if self.dialled:
                level = logging.DEBUG if theirs.reason == _DUPLICATE else logging.WARNING
                log.log(level, "node %d: refused by the other end: %s", self.node.number, theirs.reason)
            self.close(theirs.reason)
            return
        self.hello, self.number = theirs, theirs.number
        self._deciding = True
        self._transport.pause_reading()
        task = self.owner.loop.create_task(self._decide(theirs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refuse(self, reason: str) -> None:
        self.node.counters["refused_hello"] += 1
        log.warning("node %d: refused a connection: %s", self.node.number, reason)
        self._end_with(reason)

    def _end_with(self, reason: str) -> None:
        """Say why, then close."""
        if not self.dialled and not self._closed:
            self._put(encode_refusal(reason, self.node.number))
        self._closed, self._reason = True, reason
        self._transport.close()

    async def _decide(self, theirs: Hello) -> None:
        try:
            reason = await self.owner.decide(self, theirs)
        except AntecastError as error:
            reason = str(error)
        if self._closed:
            return
        if reason is not None:
            level = logging.DEBUG if reason == _DUPLICATE else logging.WARNING
            log.log(level, "node %d: refused node %d: %s", self.node.number, theirs.number, reason)
            self._end_with(reason)
            return
        if not self.dialled:
            self._put(encode_hello(self.owner.hello))
        self.peer, self._up, self._deciding = theirs.number, True, False
        if self._tick is not None:
            self._tick.cancel()
        self._beat()
        if theirs.number not in self.node.lives:
            self.node.remember(theirs.number, theirs.life)
        self.node.link_up(self)
        if not self.outcome.done():
            self.outcome.set_result(self._up)
        if self._up and not self._paused:
            self.resume()

    # Signs of life.

    def _beat(self) -> None:
        options, now = self.owner.options, self.owner.loop.time()
        if self._closed:
            return
        if now - self._heard > options.silence and not self._paused:
            self.node.counters["dropped_silent"] += 1
            self.close(f"nothing was heard for {options.silence:g} s")
            return
        if now - self._spoke >= options.heartbeat:
            self._spoke = now
            self._transport.write(_HEARTBEAT)
        self._tick = self.owner.loop.call_later(options.heartbeat / 2, self._beat)

    async def is_alive(self, seconds: float) -> bool:
        """Whether something is heard from the other end within this time."""
        if self._closed or self._paused:
            return self._paused
        proof: asyncio.Future[bool] = self.owner.loop.create_future()
        self._proofs.append(proof)
        self._transport.write(_PING)
        try:
            async with asyncio.timeout(seconds):
                return await proof
        except TimeoutError:
            return False
        finally:
            self._proofs.remove(proof)

    def describe(self) -> dict[str, Any]:
        peer = self._transport.get_extra_info("peername")
        address = str(Address(peer[0], peer[1])) if isinstance(peer, tuple) else str(peer)
        quiet = self.owner.loop.time() - self._heard
        return super().describe() | {"address": address, "dialled": self.dialled, "quiet_seconds": round(quiet, 3)}
