"""A node that is revoked at an awkward moment stays out."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

from antecast.cli.terminal import watch_keys
from antecast.live import Node
from antecast.live.groups import GroupSecurity
from antecast.live.groups.authority import read_bulletin_file
from antecast.live.links.hello import encode_hello, hello_of
from antecast.live.links.tcp import Tcp, TcpOptions


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def greet(node, eve, instance):
    """A connection of eve's to a node, under one life and in one of several processes."""
    context, place = eve.client_context(), node.transports[0].listen
    reader, writer = await asyncio.open_connection(place.host, place.port, ssl=context, server_hostname="")
    data = encode_hello(hello_of(replace(node.identity, number=eve.number), bytes(16), instance))
    writer.write(len(data).to_bytes(4, "big") + data)
    return reader, writer


def test_whoever_is_revoked_while_it_waits_to_take_over_from_an_old_link_gets_none(group, tmp_path):
    """Its number is linked already, and the old link is asked for a sign of life first."""
    group.invite("eve", tmp_path / "eve.node")

    async def main():
        eve = GroupSecurity.load(tmp_path / "eve.node", "vector")
        keys = GroupSecurity.load(tmp_path / "ada.node", "vector")
        tcp = Tcp(listen="127.0.0.1:0", options=TcpOptions(proof=5.0))
        async with Node(keys.number, security=keys, transports=[tcp]) as ada:
            _, first = await greet(ada, eve, b"process1")
            await until(lambda: eve.number in ada.links)
            reader, second = await greet(ada, eve, b"process2")
            await until(lambda: any(each._proofs for each in tcp.connections))
            group.revoke("eve")
            ada.take_bulletin(read_bulletin_file(group.bulletin_path))
            with suppress(ConnectionError, ssl.SSLError):
                assert b"was revoked" in await asyncio.wait_for(reader.read(), 10)
            await until(lambda: not tcp.connections)
            assert not ada.links
            first.close(), second.close()

    asyncio.run(main())


def test_keys_that_are_gone_for_a_while_are_told_once_and_taken_when_they_are_back(
    group, tmp_path, monkeypatch, caplog
):
    keys, away, taken = tmp_path / "ada.node", tmp_path / "away", []

    async def second(_):
        """What happens in each second that passes."""
        next(seconds)

    def play():
        keys.rename(away)
        yield
        yield
        away.rename(keys)
        yield
        raise asyncio.CancelledError

    seconds = play()
    monkeypatch.setattr("antecast.cli.terminal.asyncio.sleep", second)
    with suppress(asyncio.CancelledError):
        asyncio.run(watch_keys(SimpleNamespace(take_bulletin=taken.append), keys))
    assert len(taken) == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"{keys}: cannot be read any more: No such file or directory"
    ]
