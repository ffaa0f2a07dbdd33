"""Live nodes with keys, over TLS on loopback."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
from asyncio.sslproto import SSLProtocol
from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest

from antecast.core import MAX_PAYLOAD, ConfigurationError, LocalMisuse
from antecast.live import Node, NodeStopped
from antecast.live.groups import GroupSecurity, load_identity, new_group
from antecast.live.groups.authority import read_bulletin_file
from antecast.live.links.hello import encode_hello, hello_of
from antecast.live.links.seldom import Seldom
from antecast.live.links.tcp import Tcp, TcpOptions

QUICK = TcpOptions(retry_least=0.02, retry_most=0.1)


def make(tmp_path, name, *, listen="127.0.0.1:0", peers=(), protocol="vector", journal=True, options=QUICK):
    security = GroupSecurity.load(tmp_path / f"{name}.node", protocol)
    return Node(
        security.number,
        protocol,
        members=3,
        journal=tmp_path / f"{name}.journal" if journal else None,
        durability="normal",
        security=security,
        transports=[Tcp(listen=listen, peers=list(peers), options=options)],
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


def test_a_revocation_spreads_and_ends_links(group, tmp_path):
    """In a line, from one end: ada is told, and cat at the other end hears it from bob."""
    for name in ("cat", "eve"):
        group.invite(name, tmp_path / f"{name}.node")

    async def main():
        async with (
            make(tmp_path, "bob") as bob,
            make(tmp_path, "ada", peers=[place(bob)]) as ada,
            make(tmp_path, "cat", peers=[place(bob)]) as cat,
            make(tmp_path, "eve", peers=[place(cat)]) as eve,
        ):
            await until(lambda: len(bob.links) == 2 and 3 in cat.links)
            group.revoke("eve")
            ada.take_bulletin(read_bulletin_file(group.bulletin_path))
            await until(lambda: cat.security.serial == ada.security.serial)
            await until(lambda: 3 not in cat.links and not eve.links)
            await until(lambda: cat.counters["refused_identity"] >= 2)  # it dials again, and is refused
            assert load_identity(tmp_path / "cat.node").bulletin.revoked.keys() == {3}

    asyncio.run(main())


def test_what_is_encrypted_stays_so_until_it_is_delivered(tmp_path):
    secret = new_group(tmp_path / "secret.group", "secret", encrypt=True)
    for name in ("bob", "ada", "cat"):
        secret.invite(name, tmp_path / f"{name}.node")

    async def main():
        async with make(tmp_path, "bob") as bob, make(tmp_path, "ada", peers=[place(bob)]) as ada:
            await until(lambda: bob.links)
            await ada.broadcast(b"the treasure is under the oak")
            async for each in bob.deliveries():
                assert (each.payload, each.problem) == (b"the treasure is under the oak", "")
                break
            secret.rotate()
            ada.take_bulletin(read_bulletin_file(secret.bulletin_path))
            await until(lambda: bob.security.serial == ada.security.serial)
        written = b"".join(path.read_bytes() for path in tmp_path.glob("*.journal*"))
        assert written and b"treasure" not in written

    asyncio.run(main())


def test_of_several_messages_one_that_is_too_long_for_a_group_keeps_all_back(group, tmp_path):
    async def main():
        async with make(tmp_path, "ada") as ada:
            with pytest.raises(LocalMisuse, match="in a group"):
                await ada.broadcast_all([b"first", bytes(MAX_PAYLOAD)])
            assert await ada.broadcast(b"second") == (0, 1)

    asyncio.run(main())


def test_a_node_without_the_key_says_so(tmp_path):
    secret = new_group(tmp_path / "secret.group", "secret", encrypt=True)
    for name in ("bob", "ada"):
        secret.invite(name, tmp_path / f"{name}.node")

    async def main():
        async with make(tmp_path, "ada") as ada:
            await ada.broadcast(b"before cat came")
            secret.rotate()
            secret.invite("cat", tmp_path / "cat.node", history=False)
            async with make(tmp_path, "cat", peers=[place(ada)]) as cat:
                async for each in cat.deliveries():
                    assert each.payload == b""
                    assert "encrypted with group key 1, which this node does not have; it has 2" in each.problem
                    break
                assert cat.counters["unreadable"] == 1

    asyncio.run(main())


@pytest.mark.parametrize("by_the_peer", [False, True])
def test_a_link_that_is_ended_twice_stops_neither_broadcasts_nor_the_node(group, tmp_path, by_the_peer):
    """An overlay ends a link that nobody needs at every look, until it is gone."""

    async def main():
        async with make(tmp_path, "bob") as bob, make(tmp_path, "ada", peers=[place(bob)]) as ada:
            await until(lambda: ada.links and bob.links)
            link = bob.links[0]
            if by_the_peer:
                link._transport.close()  # as asyncio does when the peer ends the connection
            else:
                link.finish("nobody needs it")
            link.finish("nobody needs it")
            assert link.waiting >= 0
            await bob.broadcast(b"goes on")
            link.finish("nobody needs it")

    asyncio.run(main())


def test_a_forged_packet_costs_its_sender_the_link_and_nobody_else(group, tmp_path):
    group.invite("cat", tmp_path / "cat.node")

    async def main():
        async with (
            make(tmp_path, "bob") as bob,
            make(tmp_path, "ada", peers=[place(bob)]) as ada,
            make(tmp_path, "cat", peers=[place(bob)]) as cat,
        ):
            await until(lambda: len(bob.links) == 2)
            cat.security.seal = lambda frame, data: msgspec.msgpack.encode([[], [], data])
            link = bob.links[2]
            await cat.broadcast(b"unsigned")
            await until(lambda: link.closed)
            assert bob.counters["dropped_forged"] >= 1
            await ada.broadcast(b"still here")
            assert await asyncio.wait_for(take(bob, 1), 10) == [(0, 1)]

    asyncio.run(main())


def test_who_is_refused_at_the_door_has_a_counter_and_a_line(group, tmp_path, caplog):
    others = new_group(tmp_path / "others.group", "friends")
    for name in ("x", "y"):
        others.invite(name, tmp_path / f"{name}.node")

    async def main():
        async with make(tmp_path, "bob") as bob, make(tmp_path, "y", peers=[place(bob)]) as stranger:
            await until(lambda: stranger.counters["refused_identity"] and bob.counters["refused_identity"])
            reader, writer = await asyncio.open_connection(place(bob).host, place(bob).port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await reader.read()
            writer.close()

    asyncio.run(main())
    assert "its certificate is not signed by the authority of this group" in caplog.text
    assert "refused the node that connected: it broke the handshake off" in caplog.text
    assert "it speaks HTTP, not TLS" in caplog.text


def test_a_second_process_with_the_same_file_is_refused(group, tmp_path):
    async def main():
        async with (
            make(tmp_path, "bob") as bob,
            make(tmp_path, "ada", peers=[place(bob)]),
            make(tmp_path, "ada", peers=[place(bob)], journal=False) as copy,
        ):
            await until(lambda: bob.counters["refused_in_use"])
            assert not copy.links

    asyncio.run(main())


def test_silent_strangers_cannot_keep_a_member_out(group, tmp_path):
    """They fill the room for handshakes, and have seconds; a member needs milliseconds."""
    few = replace(QUICK, unknown=4, greeting=30.0)

    async def main():
        async with make(tmp_path, "bob", options=few) as bob:
            silent = [await asyncio.open_connection(place(bob).host, place(bob).port) for _ in range(12)]
            async with make(tmp_path, "ada", peers=[place(bob)]):
                await until(lambda: 0 in bob.links)
            assert bob.counters["refused_room"] >= 8
            for _, writer in silent:
                writer.transport.abort()

    asyncio.run(main())


async def hang_up(host, port, eve):
    _, writer = await asyncio.open_connection(host, port)
    await asyncio.sleep(0.005)
    writer.transport.abort()


async def say_nothing(host, port, eve):
    """Until others take its place."""
    reader, _ = await asyncio.open_connection(host, port)
    with suppress(OSError):
        await reader.read()


async def speak_http(host, port, eve):
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    with suppress(OSError):
        await reader.read()
    writer.close()


async def shake_hands(host, port, eve):
    """A TLS connection of which every byte is in the hands of the test."""
    out = ssl.MemoryBIO()
    incoming = ssl.MemoryBIO()
    tls = eve.wrap_bio(incoming, out)
    reader, writer = await asyncio.open_connection(host, port)
    while True:
        try:
            tls.do_handshake()
            return tls, out, reader, writer
        except ssl.SSLWantReadError:
            writer.write(out.read())
            incoming.write(await reader.read(1 << 16))


async def greet_wrongly_and_stay(host, port, eve):
    """Refused by word, and silent from then on: the goodbye of TLS is never answered."""
    tls, out, reader, writer = await shake_hands(host, port, eve)
    tls.write(b"\0\0\0\5hello")
    writer.write(out.read())
    with suppress(OSError):
        while await reader.read(1 << 16):
            pass


async def greet_wrongly(host, port, eve):
    reader, writer = await asyncio.open_connection(host, port, ssl=eve, server_hostname="")
    writer.write(b"\0\0\0\5hello")
    with suppress(OSError):
        await reader.read()
    writer.close()


@pytest.mark.parametrize("attempt", [hang_up, say_nothing, speak_http, greet_wrongly, greet_wrongly_and_stay])
def test_a_stranger_leaves_nothing_behind(group, tmp_path, attempt):
    """A connection over TLS has buffers of 256 KiB. They go with it: a node that holds much collects seldom."""
    group.invite("eve", tmp_path / "eve.node")

    def held() -> int:
        return sum(isinstance(each, SSLProtocol) and each._server_side for each in gc.get_objects())

    async def main():
        eve = GroupSecurity.load(tmp_path / "eve.node", "vector").client_context()
        async with make(tmp_path, "bob", options=replace(QUICK, unknown=4)) as bob:
            gc.collect()
            gc.disable()
            host, port = place(bob).host, place(bob).port
            attempts = []
            for _ in range(30):
                attempts.append(asyncio.create_task(attempt(host, port, eve)))
                await asyncio.sleep(0.01)  # its handshake begins
            await until(lambda: sum(each.done() for each in attempts) >= 26)
            await until(lambda: held() <= 4)
            for each in attempts:
                each.cancel()

    try:
        asyncio.run(main())
    finally:
        gc.enable()


async def become_a_link(bob, eve):
    """The hostile end of a link to bob, and what encrypts its words."""
    tls, out, _, writer = await shake_hands(place(bob).host, place(bob).port, eve.client_context())
    hello = hello_of(replace(bob.identity, number=eve.number), bytes(16), bytes(8))
    data = encode_hello(hello)
    tls.write(len(data).to_bytes(4, "big") + data)
    writer.write(out.read())
    await until(lambda: eve.number in bob.links)
    return tls, out, writer


def test_nonsense_and_the_end_at_once_cost_the_link_and_asyncio_has_nothing_to_say(group, tmp_path):
    """They come while the node does not read: it finds the nonsense when the connection has ended."""
    group.invite("eve", tmp_path / "eve.node")
    unhandled = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        async with make(tmp_path, "bob") as bob:
            tls, out, writer = await become_a_link(bob, GroupSecurity.load(tmp_path / "eve.node", "vector"))
            (link,) = bob.links.values()
            link.pause()
            tls.write(b"\x40\0\0\0")
            writer.write(out.read())
            writer.write_eof()
            await until(lambda: link._transport._ssl_protocol._eof_received)
            link.resume()
            await until(lambda: not bob.transports[0].connections)
            assert bob.counters["dropped_oversize"] == 1
            writer.close()

    asyncio.run(main())
    assert not unhandled


def test_a_goodbye_of_one_that_does_not_read_ends_the_link_and_fills_no_log(group, tmp_path, caplog):
    group.invite("eve", tmp_path / "eve.node")

    async def main():
        async with make(tmp_path, "bob", options=replace(QUICK, silence=1000.0, heartbeat=500.0)) as bob:
            tls, out, writer = await become_a_link(bob, GroupSecurity.load(tmp_path / "eve.node", "vector"))
            writer.transport.pause_reading()
            (link,) = bob.links.values()
            while link.waiting < 1 << 20:
                await bob.broadcast(bytes(60_000))
            with suppress(ssl.SSLWantReadError):
                tls.unwrap()
            writer.write(out.read())
            await until(lambda: not bob.links)
            writer.close()

    asyncio.run(main())
    assert "SSL connection is closed" not in caplog.text


def test_whoever_comes_to_a_node_that_has_failed_is_turned_away(group, tmp_path):
    unhandled = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        async with make(tmp_path, "bob") as bob:
            bob.engine.fail(NodeStopped("the disk is full"))
            reader, writer = await asyncio.open_connection(place(bob).host, place(bob).port)
            with suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()

    asyncio.run(main())
    gc.collect()
    assert not unhandled


def test_a_connection_that_is_taken_while_the_node_stops_is_not_kept(group, tmp_path):
    async def main():
        async with make(tmp_path, "bob") as bob:
            step = bob.transports[0]._take()
        ours, theirs = socket.socketpair()
        theirs.settimeout(10)
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: step, ours)
        assert await loop.run_in_executor(None, theirs.recv, 1) == b""
        theirs.close()

    asyncio.run(main())


def test_strangers_cannot_fill_the_log(caplog):
    clock = [0.0]
    seldom = Seldom(logging.getLogger("antecast.live.tcp"), most=3, clock=lambda: clock[0])
    for number in range(10):
        seldom.warning("refused %d", number)
    clock[0] = 61.0
    seldom.warning("refused again")
    first = [f"refused {number}" for number in range(3)]
    assert caplog.messages == [*first, "7 more refusals were not logged", "refused again"]


def test_a_member_that_never_greets_keeps_nobody_out(group, tmp_path):
    group.invite("eve", tmp_path / "eve.node")
    few = replace(QUICK, unknown=4, greeting=30.0)

    async def main():
        eve = GroupSecurity.load(tmp_path / "eve.node", "vector").client_context()
        async with make(tmp_path, "bob", options=few) as bob:
            host, port = place(bob).host, place(bob).port
            silent = [await asyncio.open_connection(host, port, ssl=eve, server_hostname="") for _ in range(8)]
            async with make(tmp_path, "ada", peers=[place(bob)]):
                await until(lambda: 0 in bob.links)
            for _, writer in silent:
                writer.transport.abort()

    asyncio.run(main())


def test_a_group_key_that_is_rotated_while_a_node_is_away_costs_no_message(group, tmp_path):
    group.rotate()
    group.invite("cat", tmp_path / "cat.node")
    for name in ("ada", "bob"):
        identity = load_identity(tmp_path / f"{name}.node")
        identity.updated(read_bulletin_file(group.bulletin_path)).save()

    async def main():
        async with make(tmp_path, "bob") as bob:
            ada, cat = (make(tmp_path, name, peers=[place(bob)]) for name in ("ada", "cat"))
            async with ada, cat:
                await until(lambda: len(bob.links) == 2)
                cat.transports[0].forget(place(bob))
                bob.links[cat.number].close("a partition")
                await until(lambda: not cat.links)
                group.rotate()
                ada.take_bulletin(read_bulletin_file(group.bulletin_path))
                await ada.broadcast(b"with the new key")
                await cat.broadcast(b"with the old key")
                cat.transports[0].dial(place(bob))
                for node in (ada, bob, cat):
                    read = []
                    async for each in node.deliveries():
                        read.append((each.payload, each.problem))
                        if len(read) == 2:
                            break
                    assert sorted(read) == [(b"with the new key", ""), (b"with the old key", "")]

    asyncio.run(main())


def test_an_event_loop_on_which_handshakes_would_be_lost_is_refused(group, tmp_path, monkeypatch):
    monkeypatch.setattr("antecast.live.links.tcp.BaseEventLoop", int)  # that of asyncio is now of another kind

    async def main():
        with pytest.raises(ConfigurationError, match="needs an event loop of asyncio"):
            await make(tmp_path, "bob").start()

    asyncio.run(main())


def test_the_keys_of_another_node_are_refused_before_anything_is_begun(group, tmp_path):
    keys = GroupSecurity.load(tmp_path / "bob.node", "vector")
    with pytest.raises(ConfigurationError, match=f"those of node {keys.number}, not of node 77"):
        Node(77, security=keys)


def test_keys_that_sign_for_another_protocol_are_refused_before_anything_is_begun(group, tmp_path):
    """Each message would cost an honest peer's link."""
    keys = GroupSecurity.load(tmp_path / "bob.node", "fifo")
    with pytest.raises(ConfigurationError, match="sign messages of fifo, not of vector"):
        Node(keys.number, "vector", security=keys)


def test_a_node_whose_file_is_taken_away_once_it_runs_goes_on(group, tmp_path):
    async def main():
        async with make(tmp_path, "bob") as bob:
            (tmp_path / "bob.node").unlink()  # before anyone has connected
            async with make(tmp_path, "ada", peers=[place(bob)]) as ada:
                await ada.broadcast(b"question")
                assert await asyncio.wait_for(take(bob, 1), 10) == [(0, 1)]

    asyncio.run(main())
