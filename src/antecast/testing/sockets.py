"""Hostile bytes against live nodes: a group on real sockets, and a member of it that keeps to no rule.

    python -m antecast.testing.sockets PROTOCOL --inputs 1000000 --seed 1
    python -m antecast.testing.sockets all --inputs 10000000

Three honest nodes are linked over TLS on loopback. The hostile one has keys of its own, so whatever it signs is
signed as the others' messages are. An *input* is one of these:

- `stranger`: arbitrary bytes to a socket, before any handshake; the first bytes of a real handshake, changed;
- `greeting`: after the handshake, a greeting that was changed, or bytes instead of one;
- `frame`: a frame made from the declared types of the protocol (`testing.frames`), signed as far as it can be;
- `again`: such a frame that it has sent before, at another time or to another node;
- `replay`: a packet that an honest node has sent, at another time;
- `changed`: a packet of any of these kinds with bytes changed, cut off or added;
- `forged`: a message in the name of another, or with a signature that belongs to something else;
- `word`: what is no packet: signs of life, lives, positions, bulletins, some of them damaged;
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
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from antecast.core import AntecastError, ConfigurationError, MessageId, NodeId
from antecast.live import Node
from antecast.live.groups import GroupSecurity, new_group
from antecast.live.links.tcp import Tcp, TcpOptions
from antecast.protocols import specifications
from antecast.protocols.registry import Guarantee, Need, Specification, specification
from antecast.testing.hostile_member import HONEST, HOSTILE, NAMES, Attacker, Fault, Tally, address_of
from antecast.testing.judging import order_faults
from antecast.testing.record import Event

ROUND = 2_000
"""Inputs between two looks at the honest nodes."""

PART = 20_000
"""Inputs for one group; then another begins."""

_PAYLOAD = b"honest"

START = 60.0
"""Seconds that honest nodes have to find each other before the first attack."""

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


def can_be_attacked(spec: Specification) -> bool:
    """Whether it runs over connections; cells need a shared medium."""
    return Need.CELLS not in spec.needs(spec.configure({}))


@dataclass
class Campaign:
    """A group under attack."""

    spec: Specification
    seed: int = 1
    tally: Tally = field(default_factory=Tally)
    growth: int = 0
    """Bytes by which the process has grown since a quarter of the inputs."""

    @property
    def sent(self) -> int:
        return self.tally.sent

    async def run(self, inputs: int) -> None:
        """Attack with this many inputs; raises `Fault`."""
        self.growth = await run_together([self], inputs)

    async def _run(self, inputs: int, unhandled: list[str], after_part: Callable[[Campaign], None]) -> None:
        while self.sent < inputs:
            await self._attack(min(PART, inputs - self.sent), unhandled)
            after_part(self)

    async def _attack(self, inputs: int, unhandled: list[str]) -> None:
        """Attack a group of its own."""
        end = self.sent + inputs
        with tempfile.TemporaryDirectory() as folder:
            async with _group(self.spec, Path(folder)) as nodes, _Witness(self.spec, nodes) as witness:
                keys, seed = Path(folder) / f"{NAMES[HOSTILE]}.node", f"{self.seed}/{self.sent}"
                attacker = Attacker(self.spec.name, nodes, keys, seed=seed, tally=self.tally)
                while self.sent < end:
                    try:
                        await attacker.round(min(ROUND, end - self.sent), witness.broadcasts, witness.speak)
                        await witness.rest()
                    except Fault:
                        if not unhandled:
                            raise
                    if unhandled:  # says more than what came of it
                        raise Fault(unhandled[0])

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.tally.inputs.items()))
        return f"{self.spec.name}: {self.sent:,} inputs over {self.tally.links:,} links ({kinds})"


async def run_together(campaigns: list[Campaign], inputs: int, *, tell: bool = False) -> int:
    """Attack each with this many inputs, side by side: while one group comes to rest, others are attacked.

    Raises `Fault`; returns by how many bytes the process has grown since a quarter of the inputs.
    """
    unhandled: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(str(context)))
    base = 0

    def after_part(campaign: Campaign) -> None:
        nonlocal base
        if not base and all(each.sent * 4 >= inputs for each in campaigns):
            base = _memory()
        if tell:
            print(f"{campaign.spec.name}: {campaign.sent:,} inputs", file=sys.stderr, flush=True)

    with _only_grave(unhandled):
        tasks = [asyncio.ensure_future(each._run(inputs, unhandled, after_part)) for each in campaigns]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    growth = _memory() - base
    if growth > GROWTH:
        raise Fault(f"the process has grown by {growth >> 20} MiB under attack")
    return growth


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
            peers = [address_of(node) for node in (nodes if complete else nodes[-1:])]
            keys = GroupSecurity.load(folder / f"{NAMES[number]}.node", spec.name)
            transport = Tcp(listen="127.0.0.1:0", peers=peers, options=_QUICK)
            node = Node(
                number, spec, settings=settings, members=len(NAMES), security=keys, transports=[transport],
                durability="none",
            )  # fmt: skip
            await node.start()
            nodes.append(node)
        async with asyncio.timeout(START):
            while any(len(node.links) < (2 if complete or node.number == 1 else 1) for node in nodes):
                await asyncio.sleep(0.01)
        yield nodes
    finally:
        for node in nodes:
            await node.stop()


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
        names = [await self.speak(node) for node in self._nodes]
        try:
            async with asyncio.timeout(seconds):
                while self._lacking(names):
                    await asyncio.sleep(0.005)
        except TimeoutError:
            return self._lacking(names)  # nothing, if the machine was so busy that nobody looked in time
        return None

    def _lacking(self, names: Sequence[MessageId]) -> str | None:
        for number, known in self._known.items():
            for name in names:
                if name not in known:
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
    return attack(able, options.seed, -(-options.inputs // len(able)))


def attack(specs: list[Specification], seed: int, inputs: int) -> int:
    """Campaigns from the command line; 1 if one ended in a fault."""
    campaigns = [Campaign(spec, seed) for spec in specs]
    begin, fault, growth = time.monotonic(), None, 0
    try:
        growth = asyncio.run(run_together(campaigns, inputs, tell=True))
    except Fault as found:
        fault = found
    for campaign in campaigns:
        print(campaign)
    total = f"{sum(each.sent for each in campaigns):,} inputs in {time.monotonic() - begin:.0f} s"
    print(f"{total}: {f'fault: {fault}' if fault else f'no faults, {growth >> 20} MiB more memory'}")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
