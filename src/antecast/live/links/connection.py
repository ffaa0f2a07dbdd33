"""One TCP connection: a stranger until it has greeted, then a link.

Bytes that are no greeting, and greetings that come late, end it before it was a link.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any, Final

from antecast.core import AntecastError, NodeId, RemoteFault
from antecast.live import faults
from antecast.live.links.address import Address
from antecast.live.links.framing import ASIDE, BULLETIN, HEARTBEAT, LENGTH, LIVES, PING, PING_LENGTH, flag_of
from antecast.live.links.hello import (
    MAX_HELLO,
    BadHello,
    Hello,
    Refusal,
    decode_hello,
    encode_hello,
    encode_refusal,
)
from antecast.live.links.link import Link
from antecast.live.lives import encode_refused
from antecast.text.wording import escaped

if TYPE_CHECKING:
    from antecast.live.links.tcp import Tcp

log = logging.getLogger("antecast.live.tcp")

DUPLICATE: Final = "another connection between the two nodes is kept"
_TELL: Final = 0.2
"""Seconds between two words of how far the journal has come, while there is something to send."""


class Connection(asyncio.BufferedProtocol, Link):
    """Bytes in and out, the greeting, signs of life."""

    def __init__(self, owner: Tcp, *, dialled: Address | None = None, by: NodeId | None = None) -> None:
        self.owner, self.node = owner, owner.node
        self.dialled, self.place = dialled is not None, dialled
        self.peer = -1
        self._by = by
        """The neighbour of both through whom it comes about."""
        self.hello: Hello | None = None
        self.number: int | None = None
        """Who the other end says it is, also where it refuses."""
        self.itself = False
        """Whether the other end is this process."""
        self.outcome: asyncio.Future[bool] = owner.loop.create_future()
        """Whether it became a link."""
        self.ended = asyncio.Event()
        self.ssl_object: Any = None
        self._transport: Any = None
        self._buffer = bytearray()
        self._wanted = 0
        """How many bytes must be in the buffer before there is something to do: what comes in small pieces is put
        together once."""
        self._up = self._closed = self._paused = self._deciding = self._finishing = False
        self._reason = "the connection ended"
        codec = owner.node.codec
        self._largest = codec.max_frame + owner.node.security.overhead
        self._made = self._heard = self._spoke = owner.loop.time()
        self._tell_at = 0.0
        self._tick: asyncio.TimerHandle | None = None
        self._second, self._budget = 0, owner.options.bytes_per_second
        self._proofs: list[asyncio.Future[bool]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    # Made and lost.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        owner = self.owner
        waiting = [each for each in owner.connections if not each._up and not each.dialled]
        if len(waiting) >= owner.options.unknown and not self.dialled:
            # The oldest makes room: whoever means to greet does so at once.
            owner.node.counters["refused_room"] += 1
            owner.strangers.warning(
                "node %d: refused a connection: too many that have not greeted", self.node.number
            )
            min(waiting, key=lambda each: each._made).cut_off("made room for another")
        owner.connections.add(self)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ssl_object = transport.get_extra_info("ssl_object")
        transport.set_write_buffer_limits(high=1 << 20)
        self._tick = owner.loop.call_later(owner.options.greeting, self._greet_late)
        if self.dialled:
            self._put(encode_hello(owner.greeting(self._by)))
        elif self._buffer:  # came with the end of the TLS handshake
            owner.loop.call_soon(self.data_received, b"")

    def _greet_late(self) -> None:
        if self._closed:  # it was refused, and its end does not take the goodbye
            self.cut_off(self._reason)
        elif not self._up:
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
        # The TLS of asyncio holds on to its protocol, and 256 KiB of buffers: nothing here may hold on to it.
        self._transport = self.ssl_object = None
        if self._up:
            self._up = False
            self.node.link_down(self, str(error) if error is not None else self._reason)

    def finish(self, reason: str) -> None:
        """Take nothing more to send, and close when all that was written has been sent."""
        if self.closed:
            return
        if self._up:
            self.node.lives.tell_position(self)
        self._finishing, self._reason = True, reason
        self._close_transport()

    def _close_transport(self) -> None:
        """A TLS transport that is closed twice, once perhaps by its peer, can no longer be asked or aborted."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    def close(self, reason: str) -> None:
        if self._closed:
            return
        self._closed, self._reason = True, reason
        if self.ssl_object is not None:
            # The TLS of asyncio does not bear it while it hands over what came before an end.
            self.owner.loop.call_soon(self._transport.abort)
        elif self._transport is not None:
            self._transport.abort()
        if self._up:  # down at this end from now on, whatever is still in the pipe
            self._up = False
            self.node.link_down(self, reason)

    def cut_off(self, reason: str) -> None:
        """Close it at once, also if it is taking its leave. Over TLS that takes two."""
        if self._closed and self._transport is not None:
            self._transport.abort()
        self.close(reason)

    @property
    def closed(self) -> bool:
        return self._closed or self._finishing

    @property
    def age(self) -> float:
        """Seconds since it was made."""
        return self.owner.loop.time() - self._made

    @property
    def near(self) -> Any:
        """The address of this end."""
        return self._transport.get_extra_info("sockname")

    @property
    def far(self) -> Any:
        """The address of the other end."""
        return self._transport.get_extra_info("peername")

    @property
    def up(self) -> bool:
        """Whether it is a link."""
        return self._up

    @property
    def waiting(self) -> int:
        return 0 if self._closed else int(self._transport.get_write_buffer_size())

    # Packets out.

    def write(self, packets: list[bytes]) -> None:
        if self._closed or self._finishing:
            return
        if faults.armed is not None:
            faults.write_in_steps(packets, self._transport.write, faults.armed)
            return
        parts = packets * 2
        parts[::2] = map(LENGTH.pack, map(len, packets))
        parts[1::2] = packets
        data = b"".join(parts)
        self.node.counters["bytes_sent"] += len(data)
        self._spoke = now = self.owner.loop.time()
        if now > self._tell_at:
            self._tell_at = now + _TELL
            self.node.lives.tell_position(self)
        self._transport.write(data)

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

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.owner.inlet

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self.owner.inlet[:nbytes]))

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        if self._transport is None:
            self._buffer += data
            return
        self._heard = self.owner.loop.time()
        for proof in self._proofs:
            if not proof.done():
                proof.set_result(True)
        if not self._up:
            self._greet(data)
            return
        buffer = self._buffer
        if buffer:
            buffer += data
            if len(buffer) < self._wanted:
                return
            data = bytes(buffer)
            buffer.clear()
        self._wanted = 0
        packets: list[bytes] = []
        unpack = LENGTH.unpack_from
        place, end, largest, asked = 0, len(data), self._largest, False
        while end - place >= 4:
            (length,) = unpack(data, place)
            if 0 < length <= largest:  # a packet
                following = place + 4 + length
                if following > end:
                    self._wanted = following - place
                    break
                packets.append(data[place + 4 : following])
                place = following
                continue
            if not length:
                place += 4
                continue
            if length == PING_LENGTH:
                place, asked = place + 4, True
                continue
            flag = flag_of(length)
            if flag:
                length ^= flag
                if end - place - 4 < length:
                    self._wanted = 4 + length
                    break
                self._take_special(flag, data[place + 4 : place + 4 + length])
                if self.closed:
                    return
                place += 4 + length
                continue
            self.node.counters["dropped_oversize"] += 1
            self.node.wrongs.warning("node %d: node %d announced %d bytes", self.node.number, self.peer, length)
            if packets:
                self.node.received(self, packets)
            self.close(f"announced a packet of {length} bytes; the largest is {largest}")
            return
        if place < end:
            buffer += data[place:] if place else data
        if asked and not self._transport.get_write_buffer_size():  # else what waits there is a sign of life
            self._transport.write(HEARTBEAT)
        if packets and faults.armed is not None:
            faults.take_in_steps(packets, lambda packet: self.node.received(self, [packet]), faults.armed)
        elif packets:
            self.node.received(self, packets)
        self._throttle(end)

    def _take_special(self, flag: int, data: bytes) -> None:
        if flag == BULLETIN:
            self._take_bulletin(data)
        elif flag == ASIDE:
            self._take_aside(data)
        else:
            self._take_lives(data)

    def _take_bulletin(self, data: bytes) -> None:
        try:
            self.node.take_bulletin(data)
        except AntecastError as error:
            self.node.counters["refused_identity"] += 1
            self.node.wrongs.warning(
                "node %d: node %d sent a bad bulletin: %s", self.node.number, self.peer, error
            )
            self.close(f"sent a bad bulletin: {error}")

    def send_bulletin(self) -> None:
        """Hand over the newest bulletin of the group's authority."""
        data = self.node.security.bulletin
        if data:
            self._write_special(BULLETIN, data)

    def _write_special(self, flag: int, data: bytes) -> None:
        """Send what is no packet of the protocol. A peer that asks and does not read loses its link."""
        if self._closed or self._finishing:
            return
        self._transport.write((len(data) | flag).to_bytes(4, "big") + data)
        if self.waiting > self.node.limits.sending_most:
            self.node.reads_slowly(self)

    def _take_lives(self, data: bytes) -> None:
        try:
            self.node.lives.take(self, data)
        except RemoteFault as fault:
            self._close_for(fault)

    def write_lives(self, data: bytes) -> None:
        self._write_special(LIVES, data)

    def _take_aside(self, data: bytes) -> None:
        """A word of the overlay, for whoever has one."""
        try:
            if self.owner.aside is None:
                raise BadHello("it speaks of an overlay, and this node has none")
            self.owner.aside(self, data)
        except RemoteFault as fault:
            self._close_for(fault)

    def _close_for(self, fault: RemoteFault) -> None:
        self.node.counters["dropped_malformed"] += 1
        self.node.wrongs.warning("node %d: closed the link to %d: %s", self.node.number, self.peer, fault)
        self.close(str(fault))

    def write_aside(self, data: bytes) -> None:
        """Send a word of the overlay."""
        self._write_special(ASIDE, data)

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
        """The other end says nothing more, so the link is down. To wait until it has read what it was sent, as the
        transport does by itself, would be to wait for one that does not read."""
        if self._transport is not None and not self._finishing:
            self.close(self._reason)
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
            self.number, reason = theirs.number, escaped(theirs.reason)
            if self.dialled and reason != DUPLICATE:
                self.owner.strangers.warning("node %d: refused by the other end: %s", self.node.number, reason)
            self.close(reason)
            return
        self.hello, self.number = theirs, theirs.number
        self._deciding = True
        self._transport.pause_reading()
        task = self.owner.loop.create_task(self._decide(theirs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refuse(self, reason: str) -> None:
        self.node.counters["refused_hello"] += 1
        self.owner.strangers.warning("node %d: refused a connection: %s", self.node.number, reason)
        self._end_with(reason)

    def _end_with(self, reason: str) -> None:
        """Say why, then close."""
        if not self._closed:
            if not self.dialled:
                self._put(encode_refusal(reason, self.node.number))
            elif self.hello is not None and reason != DUPLICATE:  # to the other end, this is a link already
                self._transport.write(LENGTH.pack(len(word := encode_refused(reason)) | LIVES) + word)
        self._closed, self._reason = True, reason
        self._close_transport()

    async def _decide(self, theirs: Hello) -> None:
        try:
            reason = await self.owner.decide(self, theirs)
        except AntecastError as error:
            reason = str(error)
        if self.closed:
            return
        if not self.owner.open:
            self._end_with("the node does not run")
            return
        if reason is not None:
            if reason != DUPLICATE:
                self.owner.strangers.warning(
                    "node %d: refused node %d: %s", self.node.number, theirs.number, reason
                )
            self._end_with(reason)
            return
        if not self.dialled:
            self._put(encode_hello(self.owner.greeting()))
        if theirs.serial < self.node.security.serial:
            self.send_bulletin()
        self.peer, self._up, self._deciding = theirs.number, True, False
        if self._tick is not None:
            self._tick.cancel()
        self._beat()
        if theirs.number not in self.node.lives.met:
            self.node.remember(theirs.number, theirs.life)
        self.node.lives.greeted(theirs.number, theirs.instance, theirs.position)
        by = self._by if self.dialled else theirs.by
        self.node.link_up(self, by if by in self.node.links else None)
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
        self.node.lives.tell_position(self)
        if now - self._spoke >= options.heartbeat:
            self._spoke = now
            self._transport.write(HEARTBEAT)
        self._tick = self.owner.loop.call_later(options.heartbeat / 2, self._beat)

    async def is_alive(self, seconds: float) -> bool:
        """Whether something is heard from the other end within this time."""
        if self._closed or self._paused:
            return self._paused
        proof: asyncio.Future[bool] = self.owner.loop.create_future()
        self._proofs.append(proof)
        self._transport.write(PING)
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
