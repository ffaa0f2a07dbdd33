"""Live nodes with keys, over TLS on loopback."""

from __future__ import annotations

import asyncio

import pytest

from antecast.live import Node
from antecast.live.groups import GroupSecurity
from antecast.live.links.tcp import Tcp, TcpOptions

QUICK = TcpOptions(retry_least=0.02, retry_most=0.1)


def make(tmp_path, name, *, listen="127.0.0.1:0", peers=(), protocol="vector", journal=True):
    security = GroupSecurity.load(tmp_path / f"{name}.node", protocol)
    return Node(
        security.number,
        protocol,
        members=3,
        journal=tmp_path / f"{name}.journal" if journal else None,
        durability="normal",
        security=security,
        transports=[Tcp(listen=listen, peers=list(peers), options=QUICK)],
    )


def place(node):
    return node.transports[0].listen


async def take(node, count):
    """The first deliveries of a node."""
    taken = []
    async for each in node.deliveries():
        taken.append((each.origin, each.seq))
        if len(taken) == count:
            return taken
    return taken


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("protocol", ["vector", "barrier", "pc-broadcast"])
def test_messages_reach_a_node_that_is_linked_to_a_relay_only(group, tmp_path, protocol):
    group.invite("cat", tmp_path / "cat.node")

    async def main():
        async with (
            make(tmp_path, "bob", protocol=protocol) as bob,
            make(tmp_path, "ada", peers=[place(bob)], protocol=protocol) as ada,
            make(tmp_path, "cat", peers=[place(bob)], protocol=protocol) as cat,
        ):
            await until(lambda: len(bob.links) == 2)
            await ada.broadcast(b"question")
            assert await asyncio.wait_for(take(cat, 1), 10) == [(0, 1)]
            await cat.broadcast(b"answer")
            assert await asyncio.wait_for(take(ada, 2), 10) == [(0, 1), (2, 1)]
            assert cat.security.names == {1: "bob"}

    asyncio.run(main())


@pytest.mark.parametrize("killed", [False, True])
def test_a_relay_that_restarts_still_has_the_signatures(group, tmp_path, killed):
    """After a clean stop they come from its snapshot; after a crash from the packets in its journal."""
    group.invite("cat", tmp_path / "cat.node")

    async def main():
        async with make(tmp_path, "bob") as bob, make(tmp_path, "ada", peers=[place(bob)]) as ada:
            await ada.broadcast(b"question")
            await asyncio.wait_for(take(bob, 1), 10)
            files = {path: path.read_bytes() for path in tmp_path.glob("bob.journal*") if path.is_file()}
        if killed:  # the journal as it was on the disk while the node ran
            for path in tmp_path.glob("bob.journal*"):
                path.unlink()
            for path, data in files.items():
                path.write_bytes(data)
        async with make(tmp_path, "bob") as bob, make(tmp_path, "cat", peers=[place(bob)]) as cat:
            assert await asyncio.wait_for(take(cat, 1), 10) == [(0, 1)]

    asyncio.run(main())
