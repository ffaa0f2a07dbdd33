"""A node under load for long: its memory and its journal do not grow. Hours with `--soak`, a dose without."""

import asyncio
import gc
import tracemalloc

import pytest

from antecast.live import Limits, Node
from antecast.live.links.memory import connect

MESSAGES = 4_200
SOAK = 3_000_000


@pytest.mark.parametrize("protocol", ["vector", "barrier"])
def test_memory_and_journal_stay_flat(tmp_path, request, protocol):
    soak = request.config.getoption("--soak")
    if protocol != "vector" and not soak:
        pytest.skip("with --soak")
    messages = SOAK if soak else MESSAGES
    settings = {"retain": 200} if protocol == "vector" else {"capacity": 200}
    limits = Limits(snapshot_every=200_000, history=100_000)

    async def main() -> None:
        nodes = [
            Node(n, protocol, settings=settings, journal=tmp_path / str(n), durability="normal", limits=limits)
            for n in range(2)
        ]
        for node in nodes:
            await node.start()
        link, _ = connect(*nodes)
        tasks = [asyncio.ensure_future(follow(node)) for node in nodes]
        sizes, memory = [], []
        for part in range(6):
            for n in range(messages // 60):
                await nodes[n % 2].broadcast_all([b"%0100d" % n] * 10)
            if part % 2:
                link.close("now and then")
                link, _ = connect(*nodes)
            while any(node._pacing.read < node._engine.numbered for node in nodes):
                await asyncio.sleep(0.001)
            gc.collect()
            memory.append(tracemalloc.get_traced_memory()[0])
            sizes.append((tmp_path / "0").stat().st_size)
        for task in tasks:
            task.cancel()
        for node in nodes:
            await node.stop()
        assert max(memory[3:]) < 1.25 * max(memory[:3]), memory  # caches fill up, and begin anew
        assert not soak or max(sizes) < 8 << 20, sizes  # after 600 MB of calls

    tracemalloc.start()
    try:
        asyncio.run(main())
    finally:
        tracemalloc.stop()


async def follow(node: Node) -> None:
    async for each in node.deliveries():
        if each.number % 100 == 0:
            node.acknowledge(each.number)
