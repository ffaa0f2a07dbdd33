"""Nodes in one process: killed, waited for, read from."""

import asyncio

from antecast.live import Node


class Killed(Exception):
    """The process is gone."""


async def kill(node: Node) -> None:
    """End a node as kill -9 does: nothing more is written, sent or said."""
    engine = node._engine
    engine.stopped = True
    engine._timers.stop()
    links = list(node.links.values())
    engine.links.clear()
    for link in links:
        link.close("its process was killed")
    engine._writer.stop()
    if engine._recorder.active:
        engine._recorder._writer._sink.abandon()
    engine.journal.close()


async def settled(*nodes: Node) -> None:
    """Until nothing is uncommitted or in flight."""
    quiet = 0
    while quiet < 5:
        await asyncio.sleep(0.001)
        busy = any(not node._engine.idle or any(link.waiting for link in node.links.values()) for node in nodes)
        quiet = 0 if busy else quiet + 1


async def read(node: Node, count: int, after: int | None = None) -> list[bytes]:
    found = []
    async for each in node.deliveries(after=after):
        found.append(each.payload)
        if len(found) == count:
            break
    return found


def run(main) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(limited())
