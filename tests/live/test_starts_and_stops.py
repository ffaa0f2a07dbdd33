"""A node that is stopped at an odd moment, and started again: nothing is lost, and nothing is left behind."""

import asyncio
import threading

import pytest
from nodes import run

from antecast.live import Node, NodeStopped
from antecast.live.journal import Journal
from antecast.live.links.tcp import Tcp


async def read(node: Node, count: int) -> list[tuple[int, bytes]]:
    found = []
    async for each in node.deliveries():
        found.append((each.number, each.payload))
        if len(found) == count:
            break
    return found


def test_what_is_written_while_a_stop_is_cancelled_is_delivered_after_the_next_start(tmp_path, monkeypatch):
    written = threading.Event()
    commit = Journal.commit

    def slowly(journal, what):
        written.wait(10)
        commit(journal, what)

    async def main():
        node = Node(0, journal=tmp_path / "a")
        await node.start()
        await node.broadcast_all([b"one", b"two"])
        monkeypatch.setattr(Journal, "commit", slowly)
        broadcast = asyncio.ensure_future(node.broadcast(b"three"))
        stopping = asyncio.ensure_future(node.stop())
        await asyncio.sleep(0.01)
        stopping.cancel()
        await asyncio.sleep(0.01)
        stopping.cancel()  # it waits for the journal by now
        written.set()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        with pytest.raises(NodeStopped):
            await broadcast  # it may have been broadcast or not
        await node.start()
        await node.broadcast(b"four")
        assert await read(node, 4) == [(1, b"one"), (2, b"two"), (3, b"three"), (4, b"four")]
        await node.stop()

    run(main)


def test_a_node_that_is_stopped_while_it_starts_says_so_and_listens_no_more(tmp_path):
    async def main():
        tcp = Tcp(listen="127.0.0.1:0")
        node = Node(0, journal=tmp_path / "a", transports=[tcp])
        starting = asyncio.ensure_future(node.start())
        await asyncio.sleep(0)  # until it waits for its socket
        await node.stop()
        with pytest.raises(NodeStopped, match="while it started"):
            await starting
        assert not tcp.places
        async with node:
            await node.broadcast(b"one")

    run(main)


def test_a_file_of_somebody_else_among_the_event_logs_keeps_no_node_from_starting(tmp_path):
    (tmp_path / "node-0-copy.parquet").touch()

    async def main():
        async with Node(0, events=tmp_path) as node:
            await node.broadcast(b"one")

    run(main)
    assert {path.name for path in tmp_path.iterdir()} == {"node-0-copy.parquet", "node-0-000000000000.parquet"}
