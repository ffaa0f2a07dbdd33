"""A member of a live group that keeps to no rule: what it sends to the sockets of the others.

`testing.sockets` lists the kinds of its inputs, and judges what comes of them.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import msgspec

from antecast.core import AntecastError, Frame, NodeId, RemoteFault
from antecast.core.wire import UNDECODABLE
from antecast.live import Node
from antecast.live.groups import GroupSecurity
from antecast.live.groups.packets import decode_packet
from antecast.live.links.hello import encode_hello, hello_of
from antecast.testing.frames import FrameMaker, claims, entries

HONEST = (0, 1, 2)
HOSTILE = 3
NAMES = ("ada", "bob", "cat", "eve")

_HEARD = 400
"""Packets that it remembers of the others, and of its own."""

PATIENCE = 20.0
"""Seconds that an honest node may keep a connection waiting."""

_KEEPS = ("frame", "frame", "frame", "frame", "again", "again", "again", "replay", "word")
"""Inputs that a link survives, most of the time."""

_ENDS = ("changed", "forged", "noise", "length")
"""Inputs that cost the hostile node its link, most of the time."""


class Fault(Exception):
    """The live nodes do not withstand what was done to them."""


@dataclass
class Tally:
    """What was sent, by kind, and the links that the hostile member has had."""

    inputs: Counter[str] = field(default_factory=Counter)
    links: int = 0

    @property
    def sent(self) -> int:
        return sum(self.inputs.values())


def address_of(node: Node) -> str:
    (transport,) = node.transports
    return str(transport.describe()["listen"])


class Attacker:
    """The hostile member."""

    def __init__(self, protocol: str, nodes: list[Node], path: Path, *, seed: object, tally: Tally) -> None:
        self._nodes, self._tally = nodes, tally
        self._draw = Random(f"{protocol}/{seed}")
        self._keys = GroupSecurity.load(path, protocol)
        self._codec = nodes[0].codec
        self._maker = FrameMaker(self._codec, self._draw, HONEST, HOSTILE, forge=False)
        self._broadcasts: Counter[NodeId] = Counter()
        """How many messages each honest node has broadcast."""
        self._heard: list[bytes] = []
        """Packets that honest nodes have sent."""
        self._said: list[bytes] = []
        """Packets of its own that it has sent."""
        hello = hello_of(
            replace(nodes[0].identity, number=HOSTILE), secrets.token_bytes(16), secrets.token_bytes(8)
        )
        # Of its journal it claims the most, so that nothing it says of it later is further.
        self._hello = encode_hello(msgspec.structs.replace(hello, position=(1 << 62) - 1))
        self._makers = {
            "frame": self._frame, "again": self._again, "replay": self._replay,
            "changed": self._changed, "forged": self._forged,
            "noise": lambda: self._draw.randbytes(self._draw.randrange(1, 400)), "length": self._length,
            "word": self._word,
        }  # fmt: skip

    async def round(
        self, inputs: int, broadcasts: Counter[NodeId], speak: Callable[[Node], Awaitable[object]]
    ) -> None:
        """Send this many inputs. Now and then an honest node is made to `speak`, which counts in `broadcasts`."""
        self._broadcasts, tally = broadcasts, self._tally
        end = tally.sent + inputs
        while tally.sent < end:
            if self._draw.random() < 0.3:
                await speak(self._draw.choice(self._nodes))
            node = self._draw.choice(self._nodes)
            way = self._draw.random()
            try:
                async with asyncio.timeout(PATIENCE):
                    if way < 0.05:
                        await self._stranger(node)
                    elif way < 0.1:
                        await self._wrong_greeting(node)
                    else:
                        await self._talk(node, end - tally.sent)
            except TimeoutError:
                raise Fault(f"node {node.number} keeps a hostile connection waiting") from None
            except (OSError, EOFError):
                continue  # it was shown the door

    async def _stranger(self, node: Node) -> None:
        self._tally.inputs["stranger"] += 1
        reader, writer = await self._dial(node, secured=False)
        data = self._draw.randbytes(self._draw.randrange(1, 600))
        if self._draw.random() < 0.5:
            data = b"\x16\x03\x01" + len(data).to_bytes(2, "big") + b"\x01\x00" + data
        await self._end(reader, writer, data)

    async def _wrong_greeting(self, node: Node) -> None:
        self._tally.inputs["greeting"] += 1
        reader, writer = await self._dial(node)
        data = len(self._hello).to_bytes(4, "big") + self._hello
        await self._end(
            reader, writer, self._damaged(data) if self._draw.random() < 0.7 else self._draw.randbytes(90)
        )

    async def _end(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> None:
        """Say something and hang up."""
        writer.write(data)
        with suppress(OSError):
            await writer.drain()
            if self._draw.random() < 0.5:
                async with asyncio.timeout(0.05):
                    await reader.read(100)
        writer.transport.abort()

    async def _talk(self, node: Node, most: int) -> None:
        """Become a link, and send what keeps it for a while, and at last what ends it."""
        reader, writer = await self._dial(node)
        writer.write(len(self._hello).to_bytes(4, "big") + self._hello)
        if not await _packet(reader):
            return
        self._tally.links += 1
        listening = asyncio.ensure_future(self._listen(reader))
        try:
            length = self._draw.choice((1, 5, 20, 100))
            for _ in range(self._draw.randrange(1, 5)):
                for _ in range(min(most, self._draw.randrange(1, 2 * length + 1))):
                    self._say(writer, self._draw.choice(_KEEPS))
                await writer.drain()
                await asyncio.sleep(0)
                if listening.done() or writer.is_closing() or self._draw.random() < 0.1:
                    return
            self._say(writer, self._draw.choice(_ENDS))
            await writer.drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await asyncio.shield(listening)
        finally:
            listening.cancel()
            writer.transport.abort()

    def _say(self, writer: asyncio.StreamWriter, kind: str) -> None:
        data = self._makers[kind]()
        self._tally.inputs[kind] += 1
        writer.write(data if kind in ("length", "word") else len(data).to_bytes(4, "big") + data)

    async def _dial(
        self, node: Node, *, secured: bool = True
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = address_of(node).rpartition(":")
        context = self._keys.client_context() if secured else None
        return await asyncio.open_connection(
            host, int(port), ssl=context, server_hostname="" if secured else None, limit=1 << 22
        )

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Learn from what an honest node sends."""
        with suppress(OSError, EOFError):
            while True:
                packet = await _packet(reader)
                if len(self._heard) >= _HEARD and self._draw.random() < 0.9:
                    continue  # mostly what it has heard before
                try:
                    frame = self._codec.decode(self._keys.split(packet))
                    self._keys.verify(frame, packet, 0)
                except RemoteFault:
                    continue  # a bulletin, or a heartbeat
                self._maker.overhear(frame)
                self._keep(self._heard, packet)

    def _keep(self, packets: list[bytes], packet: bytes) -> None:
        if len(packets) < _HEARD:
            packets.append(packet)
        else:
            packets[self._draw.randrange(_HEARD)] = packet

    # Packets.

    def _frame(self) -> bytes:
        self._maker.now = time.time_ns()
        while True:
            frame = self._maker.make()
            if not self._tells_of_more(frame):
                with suppress(AntecastError, msgspec.MsgspecError):  # too large, or of a source that has no key
                    packet = self._keys.seal(frame, self._codec.encode(frame))
                    self._keep(self._said, packet)
                    return packet

    def _tells_of_more(self, frame: Frame) -> bool:
        """Whether it claims messages that honest nodes are still to broadcast: a neighbour's word for what is gone
        is believed, and not signed by those who would know better (docs/threat-model.md)."""
        return any(number > self._broadcasts[source] for source, number in claims(frame) if source in HONEST)

    def _again(self) -> bytes:
        return self._draw.choice(self._said) if self._said else self._frame()

    def _replay(self) -> bytes:
        return self._draw.choice(self._heard) if self._heard else self._frame()

    def _changed(self) -> bytes:
        return self._damaged(self._replay() if self._draw.random() < 0.5 else self._frame())

    def _damaged(self, data: bytes) -> bytes:
        draw, changed = self._draw, bytearray(data)
        for _ in range(draw.choice((1, 1, 2, 5))):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        way = draw.random()
        if way < 0.2:
            return bytes(changed[: draw.randrange(1, len(changed) + 1)])
        return bytes(changed) + draw.randbytes(draw.randrange(1, 50)) if way < 0.4 else bytes(changed)

    def _forged(self) -> bytes:
        """A message in the name of an honest node, with what signatures there are."""
        frame = next((each for each in map(self._maker.make, [None] * 200) if any(entries(each))), None)
        if frame is None:
            return self._changed()
        name = self._draw.choice(HONEST)
        number = self._broadcasts[name] + self._draw.choice((0, 1, 1, 2))
        packet = decode_packet(self._replay())
        forged = [msgspec.structs.replace(entry, origin=name, seq=max(1, number)) for entry in entries(frame)]
        with suppress(AntecastError, msgspec.MsgspecError):
            data = self._codec.encode(forged[0])
            return msgspec.msgpack.encode(
                [[self._keys.identity.endorsement], packet.signatures or [bytes(64)], data]
            )
        return self._changed()

    def _word(self) -> bytes:
        """What is no packet: signs of life, lives, positions, the bulletin; now and then damaged."""
        draw = self._draw
        flag, said = draw.choice(
            (
                (0, b""),
                (1 << 29, msgspec.msgpack.encode(draw.getrandbits(draw.randrange(1, 63)))),
                (
                    1 << 29,
                    msgspec.msgpack.encode([(draw.randrange(100, 200), draw.randbytes(8)) for _ in range(9)]),
                ),
                (1 << 31, self._keys.bulletin),
            )
        )
        if said and draw.random() < 0.05:
            damaged = self._damaged(said) or b"x"
            said = said if raises_an_alarm(damaged) else damaged
        elif not said and draw.random() < 0.5:
            return b"\xff" * 4
        return (len(said) | flag).to_bytes(4, "big") + said

    def _length(self) -> bytes:
        draw = self._draw
        return draw.choice((0xFFFFFFFE, 1 << 31, 1 << 30, 1 << 29 | 50, 1 << 24, 5 << 20, 1000)).to_bytes(
            4, "big"
        ) + draw.randbytes(50)


def raises_an_alarm(word: bytes) -> bool:
    """Whether it tells of another life of an honest node, which says so in its log, at once and rightly: what is
    said of lives is not signed (docs/threat-model.md)."""
    try:
        lives = msgspec.msgpack.decode(word, type=list[tuple[int, bytes]])
    except UNDECODABLE:
        return False
    return any(number in HONEST for number, _ in lives)


async def _packet(reader: asyncio.StreamReader) -> bytes:
    """The next packet; empty for a heartbeat."""
    length = int.from_bytes(await reader.readexactly(4), "big")
    return b"" if length == 0xFFFFFFFF else await reader.readexactly(length & 0x1FFFFFFF)
