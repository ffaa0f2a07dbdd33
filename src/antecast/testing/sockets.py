"""Hostile bytes against live nodes: a group on real sockets, and a member of it that keeps to no rule.

    python -m antecast.testing.sockets PROTOCOL --inputs 1000000 --seed 1
    python -m antecast.testing.sockets all --inputs 10000000

Three honest nodes are linked over TLS on loopback. The hostile one has keys of its own, so whatever it signs is
signed as the others' messages are. An *input* is one of these:

- `stranger`: arbitrary bytes to a socket, before any handshake; the first bytes of a real handshake, changed;
- `greeting`: after the handshake, a greeting that was changed, or bytes instead of one;
- `frame`: a frame made from the declared types of the protocol (`testing.frames`), signed as far as it can be;
- `replay`: a packet that an honest node has sent, at another time;
- `changed`: a packet of any of these kinds with bytes changed, cut off or added;
- `forged`: a message in the name of another, or with a signature that belongs to something else;
- `noise`: arbitrary bytes in place of a packet;
- `length`: a length that is too large, or larger than what follows.

Meanwhile the honest nodes broadcast now and then, and after each round, when the hostile one has gone. A fault
is: a node that has stopped or does not answer in time, an exception that nobody handled, a message of theirs
that does not arrive, or arrives out of order, and memory that grows.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import resource
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import msgspec

from antecast.core import AntecastError, ConfigurationError, Frame, MessageId, NodeId, RemoteFault
from antecast.live import Node
from antecast.live.groups import GroupSecurity, new_group
from antecast.live.groups.packets import decode_packet
from antecast.live.links.hello import encode_hello, hello_of
from antecast.live.links.tcp import Tcp, TcpOptions
from antecast.protocols import specifications
from antecast.protocols.registry import Guarantee, Need, Specification, specification
from antecast.testing.frames import FrameMaker, claims, entries
from antecast.testing.judging import order_faults
from antecast.testing.record import Event

HONEST = (0, 1, 2)
HOSTILE = 3
NAMES = ("ada", "bob", "cat", "eve")

ROUND = 500
"""Inputs between two looks at the honest nodes."""

PART = 20_000
"""Inputs for one group; then another begins."""

REST = 20.0
"""Seconds that honest nodes have to come to rest after an attack."""

GROWTH = 64 << 20
"""Bytes by which the process may grow after a quarter of the inputs: buffers and caches are full by then."""

_QUICK = TcpOptions(retry_least=0.01, retry_most=0.1, greeting=1.0, unknown=16, proof=0.5)

_SETTINGS = {
    "retain": 500, "capacity": 500,
    "patience": "300ms", "timeout": "200ms", "diagnosis": "100ms", "repair": "300ms",
}  # fmt: skip
"""Short times, since these are real ones, and bounds that an attack can fill."""

_PAYLOAD = b"honest"

_ENDS = ("changed", "forged", "noise", "length")
"""Inputs that cost the hostile node its link, most of the time."""


class Fault(Exception):
    """The live nodes do not withstand what was done to them."""


def can_be_attacked(spec: Specification) -> bool:
    """Whether it runs over connections; cells need a shared medium."""
    return Need.CELLS not in spec.needs(spec.configure({}))


@dataclass
class Campaign:
    """A group under attack."""

    spec: Specification
    seed: int = 1
    inputs: Counter[str] = field(default_factory=Counter)
    links: int = 0
    """Links that the hostile node has had."""
    growth: int = 0

    @property
    def sent(self) -> int:
        return sum(self.inputs.values())

    async def run(self, inputs: int, *, tell: bool = False) -> None:
        """Attack with this many inputs; raises `Fault`."""
        unhandled: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: unhandled.append(str(context)))
        base = 0
        with _only_grave(unhandled):
            while self.sent < inputs:
                await self._attack(min(PART, inputs - self.sent), unhandled)
                if not base and self.sent * 4 >= inputs:
                    base = _memory()
                if tell:
                    print(f"{self.spec.name}: {self.sent:,} inputs", file=sys.stderr, flush=True)
        self.growth = _memory() - base
        if self.growth > GROWTH:
            raise Fault(f"the process has grown by {self.growth >> 20} MiB under attack")

    async def _attack(self, inputs: int, unhandled: list[str]) -> None:
        """Attack a group of its own."""
        end = self.sent + inputs
        with tempfile.TemporaryDirectory() as folder:
            async with _group(self.spec, Path(folder)) as nodes, _Witness(self.spec, nodes) as witness:
                attacker = Attacker(self, nodes, Path(folder) / f"{NAMES[HOSTILE]}.node")
                while self.sent < end:
                    try:
                        await attacker.round(min(ROUND, end - self.sent), witness)
                        await witness.rest()
                    except Fault:
                        if not unhandled:
                            raise
                    if unhandled:  # says more than what came of it
                        raise Fault(unhandled[0])

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.inputs.items()))
        return f"{self.spec.name}: {self.sent:,} inputs over {self.links:,} links ({kinds})"


@asynccontextmanager
async def _group(spec: Specification, folder: Path) -> AsyncIterator[list[Node]]:
    """Honest nodes, linked as the protocol needs it."""
    group = new_group(folder / "keys.group", "keys")
    for name in NAMES:
        group.invite(name, folder / f"{name}.node")
    settings = {name: value for name, value in _SETTINGS.items() if name in spec.settings.__struct_fields__}
    complete = Need.COMPLETE_GRAPH in spec.needs(spec.configure({}))
    nodes: list[Node] = []
    try:
        for number in HONEST:
            peers = [_address(node) for node in (nodes if complete else nodes[-1:])]
            keys = GroupSecurity.load(folder / f"{NAMES[number]}.node", spec.name)
            transport = Tcp(listen="127.0.0.1:0", peers=peers, options=_QUICK)
            node = Node(
                number, spec, settings=settings, members=len(NAMES), security=keys, transports=[transport],
                durability="none",
            )  # fmt: skip
            await node.start()
            nodes.append(node)
        async with asyncio.timeout(REST):
            while any(len(node.links) < (2 if complete or node.number == 1 else 1) for node in nodes):
                await asyncio.sleep(0.01)
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


def _address(node: Node) -> str:
    (transport,) = node.transports
    return str(transport.describe()["listen"])


class _Witness:
    """Reads what the honest nodes deliver, and judges it."""

    def __init__(self, spec: Specification, nodes: list[Node]) -> None:
        self._spec, self._nodes = spec, nodes
        self.broadcasts: Counter[NodeId] = Counter()
        """How many messages each honest node has broadcast."""
        self._delivered: dict[NodeId, list[MessageId]] = {node.number: [] for node in nodes}
        self._known: dict[NodeId, set[MessageId]] = {node.number: set() for node in nodes}
        self._forgeries: list[str] = []

    async def __aenter__(self) -> _Witness:
        self._tasks = [asyncio.ensure_future(self._read(node)) for node in self._nodes]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, node: Node) -> None:
        async for each in node.deliveries():
            if each.origin in HONEST:
                if each.payload != _PAYLOAD:
                    self._forgeries.append(
                        f"node {node.number} delivered {each.id}, which its source did not broadcast"
                    )
                self._delivered[node.number].append(each.id)
                self._known[node.number].add(each.id)
            node.acknowledge(each.number)

    async def rest(self) -> None:
        """Everyone broadcasts, twice: where little is kept, the first may only show that something is missing."""
        await self._round(REST / 4)
        lacking = await self._round(REST)
        if lacking:
            raise Fault(f"after an attack {lacking}")
        if self._forgeries:
            raise Fault(self._forgeries[0])
        promised = self._spec.guarantees
        log = list(self._log())
        for problem in order_faults(log, fifo=Guarantee.FIFO in promised, causal=Guarantee.CAUSAL in promised):
            raise Fault(problem)

    async def speak(self, node: Node) -> MessageId:
        """An honest node broadcasts."""
        self.broadcasts[node.number] += 1
        try:
            async with asyncio.timeout(REST):
                return await node.broadcast(_PAYLOAD)
        except TimeoutError:
            raise Fault(f"node {node.number} does not take a broadcast") from None
        except AntecastError as error:
            raise Fault(f"node {node.number} has stopped: {error}") from error

    async def _round(self, seconds: float) -> str | None:
        """A broadcast of each; who lacks what after a time, if anyone does."""
        names = []
        try:
            async with asyncio.timeout(seconds):
                for node in self._nodes:
                    names.append(await self.speak(node))
                while any(name not in known for known in self._known.values() for name in names):
                    await asyncio.sleep(0.005)
        except TimeoutError:
            number, name = next((n, m) for n, known in self._known.items() for m in names if m not in known)
            return f"node {number} does not deliver {name}"
        return None

    def _log(self) -> Iterator[Event]:
        """What was delivered, in an order in which it can have happened; own deliveries are broadcasts."""
        place, told = dict.fromkeys(self._delivered, 0), set[MessageId]()
        moved = True
        while moved:
            moved = False
            for node, names in self._delivered.items():
                while place[node] < len(names):
                    name = names[place[node]]
                    if name.origin == node and name not in told:
                        told.add(name)
                        yield Event("broadcast", node, name, 0)
                    elif name not in told:
                        break
                    yield Event("deliver", node, name, 0)
                    place[node] += 1
                    moved = True


class Attacker:
    """The hostile member."""

    def __init__(self, campaign: Campaign, nodes: list[Node], path: Path) -> None:
        self._campaign, self._nodes = campaign, nodes
        self._draw = Random(f"{campaign.spec.name}/{campaign.seed}/{campaign.sent}")
        self._keys = GroupSecurity.load(path, campaign.spec.name)
        self._codec = nodes[0].codec
        self._maker = FrameMaker(self._codec, self._draw, HONEST, HOSTILE, forge=False)
        self._broadcasts: Counter[NodeId] = Counter()
        self._heard: list[bytes] = []
        """Packets that honest nodes have sent."""
        hello = hello_of(
            replace(nodes[0].identity, number=HOSTILE), secrets.token_bytes(16), secrets.token_bytes(8)
        )
        self._hello = encode_hello(hello)
        self._makers = {
            "frame": self._frame, "replay": self._replay, "changed": self._changed, "forged": self._forged,
            "noise": lambda: self._draw.randbytes(self._draw.randrange(1, 400)), "length": self._length,
        }  # fmt: skip

    async def round(self, inputs: int, witness: _Witness) -> None:
        self._broadcasts, inputs_then = witness.broadcasts, self._campaign.sent
        while self._campaign.sent < inputs_then + inputs:
            if self._draw.random() < 0.3:
                await witness.speak(self._draw.choice(self._nodes))
            node = self._draw.choice(self._nodes)
            way = self._draw.random()
            try:
                async with asyncio.timeout(REST):
                    if way < 0.05:
                        await self._stranger(node)
                    elif way < 0.1:
                        await self._wrong_greeting(node)
                    else:
                        await self._talk(node, inputs_then + inputs - self._campaign.sent)
            except TimeoutError:
                raise Fault(f"node {node.number} keeps a hostile connection waiting") from None
            except (OSError, EOFError):
                continue  # it was shown the door

    async def _stranger(self, node: Node) -> None:
        self._campaign.inputs["stranger"] += 1
        reader, writer = await self._dial(node, secured=False)
        data = self._draw.randbytes(self._draw.randrange(1, 600))
        if self._draw.random() < 0.5:
            data = b"\x16\x03\x01" + len(data).to_bytes(2, "big") + b"\x01\x00" + data
        await self._end(reader, writer, data)

    async def _wrong_greeting(self, node: Node) -> None:
        self._campaign.inputs["greeting"] += 1
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
        self._campaign.links += 1
        listening = asyncio.ensure_future(self._listen(reader))
        try:
            for _ in range(self._draw.randrange(1, 4)):
                for _ in range(min(most, self._draw.randrange(1, 24))):
                    self._say(writer, "frame" if self._draw.random() < 0.8 else "replay")
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
        self._campaign.inputs[kind] += 1
        writer.write(data if kind == "length" else len(data).to_bytes(4, "big") + data)

    async def _dial(
        self, node: Node, *, secured: bool = True
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = _address(node).rpartition(":")
        context = self._keys.client_context() if secured else None
        return await asyncio.open_connection(
            host, int(port), ssl=context, server_hostname="" if secured else None, limit=1 << 22
        )

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Learn from what an honest node sends."""
        with suppress(OSError, EOFError):
            while True:
                packet = await _packet(reader)
                try:
                    frame = self._codec.decode(self._keys.split(packet))
                    self._keys.verify(frame, packet, 0)
                except RemoteFault:
                    continue  # a bulletin, or a heartbeat
                self._maker.overhear(frame)
                if len(self._heard) < 400:
                    self._heard.append(packet)
                else:
                    self._heard[self._draw.randrange(400)] = packet

    # Packets.

    def _frame(self) -> bytes:
        self._maker.now = time.time_ns()
        while True:
            frame = self._maker.make()
            if not self._tells_of_more(frame):
                with suppress(AntecastError, msgspec.MsgspecError):  # too large, or of a source that has no key
                    return self._keys.seal(frame, self._codec.encode(frame))

    def _tells_of_more(self, frame: Frame) -> bool:
        """Whether it claims messages that honest nodes are still to broadcast: a neighbour's word for what is gone
        is believed, and not signed by those who would know better (docs/threat-model.md)."""
        return any(number > self._broadcasts[source] for source, number in claims(frame) if source in HONEST)

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

    def _length(self) -> bytes:
        draw = self._draw
        return draw.choice((0xFFFFFFFE, 1 << 31, 1 << 30, 1 << 24, 5 << 20, 1000)).to_bytes(
            4, "big"
        ) + draw.randbytes(50)


async def _packet(reader: asyncio.StreamReader) -> bytes:
    """The next packet; empty for a heartbeat."""
    length = int.from_bytes(await reader.readexactly(4), "big")
    return b"" if length == 0xFFFFFFFF else await reader.readexactly(length & 0x7FFFFFFF)


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class _only_grave(logging.Handler):  # noqa: N801  # used as a context
    """Takes the log of live nodes: an attack fills it with warnings, but nothing worse may stand in it."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        self._faults.append(self.format(record))

    def __enter__(self) -> None:
        self._log = logging.getLogger("antecast.live")
        self._before = self._log.propagate
        self._log.addHandler(self)
        self._log.propagate = False

    def __exit__(self, *_: object) -> None:
        self._log.removeHandler(self)
        self._log.propagate = self._before


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m antecast.testing.sockets", description=__doc__.split("\n")[0])
    parser.add_argument("protocol", help="a name, or all for each in turn")
    parser.add_argument("--inputs", type=int, default=20_000, help="hostile inputs to send (default: 20,000)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        specs = specifications() if options.protocol == "all" else [specification(options.protocol)]
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    able = [spec for spec in specs if can_be_attacked(spec)]
    if not able:
        print(f"{options.protocol} needs a shared medium, which this test does not have", file=sys.stderr)
        return 2
    return max(attack(spec, options.seed, -(-options.inputs // len(able))) for spec in able)


def attack(spec: Specification, seed: int, inputs: int) -> int:
    """A campaign from the command line; 1 if it ended in a fault."""
    campaign = Campaign(spec, seed)
    begin = time.monotonic()
    try:
        asyncio.run(campaign.run(inputs, tell=True))
    except Fault as fault:
        print(f"{campaign}\nfault: {fault}")
        return 1
    print(f"{campaign}, no faults, {campaign.growth >> 20} MiB more memory, {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
