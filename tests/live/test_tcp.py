"""Links over TCP: greetings, duplicates, strangers, broken connections. Real sockets, on loopback."""

import asyncio
import contextlib
import errno
import gc
import logging
import socket
from dataclasses import replace

import msgspec
import pytest

from antecast.core import ConfigurationError
from antecast.live import Limits, Node, NodeStopped
from antecast.live.links.hello import Hello, Refusal, decode_hello, encode_hello
from antecast.live.links.tcp import Address, Tcp, TcpOptions, _Closed

QUICK = TcpOptions(
    heartbeat=0.05, silence=5.0, greeting=0.3, proof=0.2, retry_least=0.01, retry_most=0.05, unknown=4
)


def run(main, loop_factory=None) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await main()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(limited())


@contextlib.asynccontextmanager
async def node(number, *peers, protocol="vector", journal=None, options=QUICK, listen="127.0.0.1:0", **more):
    addresses = [each.transports[0].listen for each in peers]
    made = Node(
        number,
        protocol,
        journal=journal,
        transports=[Tcp(listen=listen, peers=addresses, options=options)],
        **more,
    )
    async with made:
        yield made


async def until(condition) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def payloads(made, count):
    found = []
    async for each in made.deliveries():
        found.append(each.payload)
        if len(found) == count:
            return found
    return found


def port(made) -> int:
    return made.transports[0].listen.port


async def dial(made) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port(made))


async def answer(reader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def packet(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def greeting(made, **changes) -> Hello:
    ours = made.transports[0].hello
    values = {
        "group": ours.group,
        "number": 9,
        "protocol": ours.protocol,
        "settings": ours.settings,
        "life": bytes(16),
        "instance": bytes(8),
    }
    return Hello(**values | changes)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0"])
def test_three_nodes_tell_each_other_everything(listen):
    if "::1" in listen and not socket.has_ipv6:
        pytest.skip("no IPv6 here")

    async def main():
        async with node(0, listen=listen) as a, node(1, a, listen=listen) as b, node(2, a, b, listen=listen) as c:
            for each in (a, b, c):
                await each.broadcast(b"from %d" % each.number)
            for each in (a, b, c):
                assert sorted(await payloads(each, 3)) == [b"from 0", b"from 1", b"from 2"]

    run(main)


def test_large_messages_pass_and_keep_their_order():
    async def main():
        async with node(0) as a, node(1, a) as b:
            sent = [bytes([n]) * (1 << 20) for n in range(8)]
            reading = asyncio.ensure_future(payloads(b, 8))
            for each in sent:
                await a.broadcast(each)
            assert await reading == sent

    run(main)


def test_a_broken_connection_is_a_broken_link_and_comes_back():
    async def main():
        async with node(0) as a, node(1, a) as b:
            await until(lambda: a.links and b.links)
            for n in range(3):
                b.links[0]._transport.abort()
                await a.broadcast(b"%d" % n)
                await until(lambda n=n: a.counters["links_up"] >= n + 2 and a.links and b.links)
            assert await payloads(b, 3) == [b"0", b"1", b"2"]
            assert b.counters["links_down"] >= 3

    run(main)


@pytest.mark.parametrize(
    "says", [b"", (2 | 1 << 30).to_bytes(4, "big") + b"??"], ids=["nothing", "what it may not"]
)
def test_links_that_end_as_soon_as_they_are_up_come_ever_less_often(says):
    """With a node that does not fit, or is broken: each costs both ends a call in their journals."""
    came = []

    async def main():
        async def greet(reader, writer):
            came.append(asyncio.get_running_loop().time())
            theirs = decode_hello(await answer(reader))
            ours = msgspec.structs.replace(theirs, number=9, life=bytes(16), instance=bytes(8))
            writer.write(packet(encode_hello(ours)) + says)
            await reader.read(-1 if says else 1)
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        place = Address(*server.sockets[0].getsockname())
        options = replace(QUICK, retry_least=0.01, retry_most=10.0)
        async with Node(0, transports=[Tcp(peers=[place], options=options)]) as a:
            await until(lambda: len(came) == 7)
            assert a.counters["links_up"] >= 6
        server.close()

    run(main)
    assert came[-1] - came[0] > 0.5 * 0.01 * (2**6 - 1)  # what six pauses are at least


def test_a_link_that_has_lasted_is_dialled_again_at_once():
    async def main():
        options = replace(QUICK, retry_least=5.0, retry_most=0.05)  # a pause would be too long for this test
        async with node(0) as a, node(1, a, options=options) as b:
            await until(lambda: 0 in b.links and b.links[0].age > 0.05)
            b.links[0]._transport.abort()
            await until(lambda: a.counters["links_up"] == 2)

    asyncio.run(asyncio.wait_for(main(), 2.4))


def test_two_nodes_that_dial_each_other_keep_one_connection_each():
    async def main():
        first, second = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
        places = [f"127.0.0.1:{each.getsockname()[1]}" for each in (first, second)]
        first.close()
        second.close()
        a = Node(0, transports=[Tcp(listen=places[0], peers=[places[1]], options=QUICK)])
        b = Node(1, transports=[Tcp(listen=places[1], peers=[places[0]], options=QUICK)])
        await asyncio.gather(a.start(), b.start())
        await until(lambda: a.links and b.links)
        await asyncio.sleep(0.3)  # several rounds of dialling
        assert len(a.transports[0].connections) == len(b.transports[0].connections) == 1
        assert a.links[1].dialled != b.links[0].dialled
        ups = a.counters["links_up"]
        assert ups <= 3
        await a.broadcast(b"x")
        assert await payloads(b, 1) == [b"x"]
        assert a.counters["links_up"] == ups
        await a.stop()
        await b.stop()

    run(main)


def test_a_node_that_dials_over_two_transports_is_one_process(caplog):
    async def main():
        async with node(1) as b:
            tcps = [Tcp(peers=[b.transports[0].listen], options=QUICK) for _ in range(2)]
            async with Node(0, transports=tcps) as a:
                await until(lambda: b.counters["links_up"] == 2)  # of two in one direction, the newer one is kept
                await until(lambda: 1 in a.links and 0 in b.links)
                await a.broadcast(b"one")
                assert await payloads(b, 1) == [b"one"]
                assert not b.counters["refused_in_use"] and not b.lives.doubted

    run(main)
    assert not caplog.records


def test_a_node_that_is_started_again_dials_and_is_dialled_as_before(tmp_path):
    async def main():
        async with node(0, journal=tmp_path / "a") as a, node(1, a, journal=tmp_path / "b") as b:
            for each in (b, a):
                await until(lambda: a.links and b.links)
                await each.stop()
                await each.start()
            await until(lambda: a.links and b.links)
            await a.broadcast(b"here again")
            assert await payloads(b, 1) == [b"here again"]

    run(main)


def test_a_start_that_failed_can_be_tried_again(tmp_path):
    async def main():
        async with node(0) as a, node(1) as b:
            taken, free = a.transports[0].listen, b.transports[0].listen
            first = Tcp(listen=taken, options=QUICK)
            c = Node(2, journal=tmp_path / "c", transports=[first, Tcp(peers=[free], options=QUICK)])
            with pytest.raises(ConfigurationError, match="cannot listen on"):
                await c.start()
            first.listen = Address("127.0.0.1", 0)
            await c.start()
            await until(lambda: 2 in b.links)
            await c.stop()

    run(main)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0"])
def test_a_node_that_dials_itself_does_so_once(listen, caplog):
    async def main():
        async with node(0, listen=listen) as a:
            tcp = a.transports[0]
            tcp.dial(tcp.listen)
            await until(lambda: tcp._dialling[tcp.listen].done())

    run(main)
    assert "is this node itself" in caplog.text


def test_a_name_that_stands_for_all_nodes_leads_to_the_others(monkeypatch, caplog):
    """The system may well sort a node's own address first, as the nearest."""

    async def main():
        async with node(0) as a, node(1, listen=f"127.0.0.2:{port(a)}") as b:
            loop = asyncio.get_running_loop()

            async def resolve(host, port, **_):
                hosts = (host,) if host[0] == "1" else ("127.0.0.1", "127.0.0.2")
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in hosts]

            monkeypatch.setattr(loop, "getaddrinfo", resolve)
            a.transports[0].dial(Address("localhost", port(a)))
            await until(lambda: 1 in a.links)
            b.links[0].close("cut")
            await until(lambda: a.counters["links_up"] == 2)

    run(main)
    assert "is this node itself" not in caplog.text


def test_a_number_given_twice_by_mistake_is_dialled_again_when_that_is_mended(caplog):
    async def main():
        async with node(0) as first, node(0, first, listen=None) as second:
            place = first.transports[0].listen
            await until(lambda: first.counters["refused_hello"] > 2)
            await first.stop()
            async with node(1, listen=place):
                await until(lambda: 1 in second.links)

    run(main)
    assert "is this node itself" not in caplog.text


def test_a_number_in_use_is_refused_and_its_owner_keeps_its_link(tmp_path):
    async def main():
        async with node(0) as a, node(1, a):
            await until(lambda: 1 in a.links)
            mine = a.links[1]
            async with node(1, a):  # another journal under the same number
                await until(lambda: a.counters["refused_in_use"] >= 2)
            assert a.links[1] is mine

    run(main)


def test_a_copy_of_a_running_node_is_refused():
    """The same life, but another process: the old link gives a sign of life."""

    async def main():
        async with node(0) as a, node(1, a) as b:
            await until(lambda: 1 in a.links)
            mine = a.links[1]
            reader, writer = await dial(a)
            copy = msgspec.structs.replace(b.transports[0].hello, instance=b"another.", position=1 << 40)
            writer.write(packet(encode_hello(copy)))
            refusal = decode_hello(await answer(reader))
            assert refusal == Refusal("number 1 is in use by another process", 0)
            assert a.links[1] is mine
            writer.close()

    run(main)


def test_a_node_that_restarted_takes_over_from_its_dead_connection(tmp_path):
    """Its old connection is half open: nothing says that it is gone, and it does not answer."""

    async def main():
        async with node(0, options=TcpOptions(heartbeat=30, silence=60, proof=0.1)) as a:
            reader, writer = await dial(a)
            writer.write(packet(encode_hello(greeting(a))))
            await answer(reader)
            await until(lambda: 9 in a.links)
            old = a.links[9]
            reader2, writer2 = await dial(a)
            writer2.write(packet(encode_hello(greeting(a, instance=b"restart."))))
            assert isinstance(decode_hello(await answer(reader2)), Hello)
            await until(lambda: a.links.get(9) is not old)
            writer.close()
            writer2.close()

    run(main)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"group": "others"}, "node 9 is of group 'others', this one of ''"),
        ({"protocol": "fifo"}, "node 9 runs fifo, this one vector"),
        ({"settings": b"12345678"}, "node 9 runs vector with other settings than this one"),
        ({"number": 0}, "both ends are node 0"),
    ],
)
def test_nodes_that_do_not_belong_together_are_refused_with_the_reason(changes, problem):
    async def main():
        async with node(0) as a:
            reader, writer = await dial(a)
            writer.write(packet(encode_hello(greeting(a, **changes))))
            assert decode_hello(await answer(reader)) == Refusal(problem, 0)
            assert await reader.read() == b""
            assert (a.links, a.counters["refused_hello"]) == ({}, 1)
            writer.close()

    run(main)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(100),
        b"\xff" * 100,
        packet(b"antecast\x01\x00" + b"\x96\xa0"),
        packet(b"antecast\x07\x00"),
        packet(b"antecas"),
        b"\x7f\xff\xff\xff",
    ],
)
def test_bytes_before_the_greeting_cost_the_connection_and_nothing_else(data):
    async def main():
        async with node(0) as a, node(1, a) as b:
            await until(lambda: a.links)
            reader, writer = await dial(a)
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                await reader.read()
            await until(lambda: a.counters["refused_hello"] == 1)
            await b.broadcast(b"x")
            assert await payloads(a, 1) == [b"x"]
            writer.close()

    run(main)


def test_whoever_greets_a_node_that_has_failed_meanwhile_is_sent_away():
    unhandled = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        async with node(0) as a:
            reader, writer = await dial(a)
            await until(lambda: a.transports[0].connections)
            hello = encode_hello(greeting(a))
            a.engine.fail(NodeStopped("the disk is full"))
            writer.write(packet(hello))
            assert decode_hello(await answer(reader)) == Refusal("the node does not run", 0)
            assert await reader.read() == b""
            writer.close()

    run(main)
    gc.collect()
    assert not unhandled


def test_whoever_does_not_greet_is_dropped_in_time_and_only_so_many_wait():
    async def main():
        async with node(0) as a:
            silent = [await dial(a) for _ in range(6)]
            await until(lambda: a.counters["refused_room"] == 2)
            await until(lambda: a.counters["refused_hello"] == 4)
            await until(lambda: not a.transports[0].connections)
            for _, writer in silent:
                writer.close()

    run(main)


async def stranger(a, number=9):
    reader, writer = await dial(a)
    writer.write(packet(encode_hello(greeting(a, number=number))))
    assert isinstance(decode_hello(await answer(reader)), Hello)
    await until(lambda: number in a.links)
    return reader, writer


@pytest.mark.parametrize(
    ("data", "counter"),
    [
        ((1 << 30).to_bytes(4, "big"), "dropped_oversize"),
        (((1 << 31) + (100 << 20)).to_bytes(4, "big"), "dropped_oversize"),
        (((1 << 31) + 3).to_bytes(4, "big") + b"abc", "refused_identity"),
        (((4 << 30) - 2).to_bytes(4, "big") + b"x" * 1000, "dropped_oversize"),
        (packet(b"\x01rubbish"), "dropped_malformed"),
        (packet(b"\x09"), "dropped_malformed"),
    ],
)
def test_bytes_after_the_greeting_cost_the_link_and_nothing_else(data, counter):
    async def main():
        async with node(0) as a, node(1, a) as b:
            _, writer = await stranger(a)
            writer.write(data)
            await until(lambda: 9 not in a.links)
            assert a.counters[counter] == 1
            await b.broadcast(b"x")
            assert await payloads(a, 1) == [b"x"]
            writer.close()

    run(main)


def test_a_peer_that_has_ended_its_side_has_no_link_whether_it_reads_or_not():
    async def main():
        async with node(0, options=replace(QUICK, silence=1000.0, heartbeat=500.0)) as a:
            _, writer = await stranger(a)
            while a.links[9].waiting < 1 << 20:
                await a.broadcast(bytes(60_000))
            writer.write_eof()
            await until(lambda: not a.links)
            writer.close()

    run(main)


def test_a_peer_that_falls_silent_is_given_up():
    async def main():
        async with node(0, options=replace(QUICK, silence=0.4)) as a:
            _, writer = await stranger(a)
            await until(lambda: 9 not in a.links)
            assert a.counters["dropped_silent"] == 1
            writer.close()

    run(main)


def test_heartbeats_keep_an_idle_link():
    async def main():
        options = replace(QUICK, silence=0.5)
        async with node(0, options=options) as a, node(1, a, options=options) as b:
            await until(lambda: a.links and b.links)
            await asyncio.sleep(1.0)
            assert (a.counters["links_down"], b.counters["links_down"]) == (0, 0)

    run(main)


def test_a_peer_that_sends_too_fast_is_slowed_down():
    async def main():
        options = TcpOptions(bytes_per_second=100_000)
        async with node(0, options=options) as a, node(1, a) as b:
            await until(lambda: b.links)
            await b.broadcast_all([bytes(1000)] * 400)
            await until(lambda: a.counters["throttled"] > 0)
            assert a.counters["frames_received"] < 400

    run(main)


def test_a_node_without_keys_stays_on_loopback():
    async def main():
        for options in ({"listen": "0.0.0.0:0"}, {"peers": ["192.0.2.1:7000"]}):
            made = Node(0, transports=[Tcp(**options)])
            with pytest.raises(ConfigurationError, match="a node without keys stays on this machine"):
                await made.start()

    run(main)


@pytest.mark.parametrize(
    "given",
    [{"unknown": 0}, {"bytes_per_second": 0}, {"heartbeat": 0}, {"silence": float("nan")}, {"silence": 5.0}],
)
def test_options_with_which_no_link_would_last_are_refused(given):
    (name,) = given
    with pytest.raises(ConfigurationError, match=f"^{name}: expected more than"):
        TcpOptions(**given)


def test_a_port_in_use_is_one_line(tmp_path):
    async def main():
        async with node(0) as a:
            made = Node(1, journal=tmp_path / "b", transports=[Tcp(listen=str(a.transports[0].listen))])
            with pytest.raises(ConfigurationError, match=r"cannot listen on 127.0.0.1:\d+: "):
                await made.start()
            async with Node(1, journal=tmp_path / "b"):
                pass  # the journal was let go

    run(main)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "localhost:",
        ":80",
        "::1:80",
        "[::1]",
        "host:99999",
        "host:-1",
        "a..b:80",
        "\0:80",
        "a b:80",
        f"{'x' * 64}:80",
    ],
)
def test_addresses_that_are_none(text):
    with pytest.raises(ConfigurationError, match="expected HOST:PORT"):
        Address.parse(text)


def test_a_peer_that_is_not_there_is_told_once(caplog):
    caplog.set_level(logging.INFO)

    async def main():
        with socket.socket() as probe:  # bound, and nobody listens
            probe.bind(("127.0.0.1", 0))
            async with Node(0, transports=[Tcp(peers=[Address(*probe.getsockname())], options=QUICK)]) as a:
                await until(lambda: a.counters["dial_failures"] > 3)

    run(main)
    assert ["cannot connect" in record.getMessage() for record in caplog.records].count(True) == 1


def test_an_address_for_which_there_can_be_no_socket_is_one_line(monkeypatch):
    """For instance of IPv6, where the system has none."""

    def none(*_):
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    async def main():
        with monkeypatch.context() as without, pytest.raises(ConfigurationError, match=r"listen on \[::1\]:0: no"):
            without.setattr("asyncio.base_events.socket.socket", none)
            await Node(0, transports=[Tcp(listen="[::1]:0")]).start()

    run(main)


def test_nobody_can_be_reached_at_port_0():
    with pytest.raises(ConfigurationError, match="peer: port 0 is for listening"):
        Tcp(listen="127.0.0.1:0", peers=["127.0.0.1:0"])


def test_a_packet_in_a_thousand_pieces_is_put_together_once():
    """Otherwise a few bytes per second, of the largest packet, would keep a node's processor busy."""

    async def main():
        async with node(0) as a:
            await stranger(a)
            (link,) = a.links.values()
            copied = []

            class Counted(bytearray):
                def clear(self):
                    copied.append(len(self))
                    super().clear()

            link._buffer = Counted()
            data = packet(b"\x01" * 100_000)
            for place in range(0, len(data), 100):
                if 9 in a.links:
                    link.data_received(data[place : place + 100])
            assert sum(copied) < 2 * len(data)
            assert a.counters["dropped_malformed"] == 1  # it was put together

    run(main)


def test_packets_in_pieces_of_any_size_arrive_whole_and_in_order():
    async def main():
        async with node(0) as a, node(1) as b:
            _, writer = await stranger(a, number=9)
            _, other = await stranger(b, number=8)
            (link,) = b.links.values()
            written = []
            link._transport.write = written.append
            await b.broadcast_all([bytes([n]) * (n * 7) for n in range(60)])
            await until(lambda: b.counters["frames_sent"] >= 60)
            stream, place, size = b"".join(written), 0, 1
            while place < len(stream):
                writer.write(stream[place : place + size])
                await writer.drain()
                await asyncio.sleep(0)
                place, size = place + size, size % 97 + 1
            assert await payloads(a, 60) == [bytes([n]) * (n * 7) for n in range(60)]
            writer.close()
            other.close()

    run(main)


def test_a_peer_that_asks_for_signs_of_life_and_reads_none_makes_nothing_wait():
    async def main():
        async with node(0) as a:
            await stranger(a)
            (link,) = a.links.values()
            link._transport.get_write_buffer_size = lambda: 100  # it does not read
            written = []
            link._transport.write = written.append
            for _ in range(100):
                link.data_received(b"\xff" * 4)
            assert not written

    run(main)


def test_a_peer_that_makes_a_node_answer_and_does_not_read_loses_its_link():
    async def main():
        async with node(0, limits=Limits(sending_most=100_000)) as a:
            await stranger(a)
            (link,) = a.links.values()
            while 9 in a.links:
                link.write_aside(bytes(60_000))
            assert a.counters["dropped_slow"] == 1

    run(main)


def test_a_member_that_comes_back_again_and_again_does_not_fill_the_log(caplog):
    async def main():
        async with node(0) as a:
            for _ in range(100):
                _, writer = await stranger(a)
                writer.write(packet(b"\x09"))
                await until(lambda: 9 not in a.links)
                writer.close()
                reader, writer = await dial(a)
                writer.write(packet(encode_hello(greeting(a, number=9, life=b"x" * 16))))
                assert isinstance(decode_hello(await answer(reader)), Refusal)
                writer.close()
            assert a.counters["dropped_malformed"] == a.counters["refused_in_use"] == 100

    run(main)
    assert len(caplog.records) <= 60


def test_a_node_without_descriptors_says_so_in_a_few_lines_and_goes_on(monkeypatch, caplog):
    """asyncio says so with a traceback for each of a hundred attempts, every second."""

    async def main():
        async with node(0) as a:

            def accept(_):
                raise OSError(errno.EMFILE, "Too many open files")

            monkeypatch.setattr(socket.socket, "accept", accept)
            _, writer = await dial(a)
            await until(lambda: "Too many" in caplog.text)
            monkeypatch.undo()
            writer.close()
            assert await asyncio.wait_for(a.broadcast(b"x"), 5) == (0, 1)

    run(main)
    told = [record for record in caplog.records if "no connection can be taken now: " in record.message]
    assert 1 <= len(told) <= 3
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_of_several_addresses_one_that_does_not_answer_holds_nobody_up(monkeypatch):
    """A name that stands for an address that swallows connections, and then for the right one."""

    async def main():
        async with node(0) as a, node(1) as b:
            with socket.socket() as deaf, contextlib.ExitStack() as stack:
                deaf.bind(("127.0.0.2", port(a)))
                deaf.listen(0)
                for _ in range(2):  # its queue is full: nothing more is accepted
                    filler = stack.enter_context(socket.socket())
                    filler.setblocking(False)
                    filler.connect_ex(("127.0.0.2", port(a)))

                async def resolve(host, port, **_):
                    kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
                    return [(*kind, (each, port)) for each in ("127.0.0.2", "127.0.0.1")]

                tcp = b.transports[0]
                tcp.options = replace(QUICK, greeting=2.0)
                monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
                tcp.dial(Address("localhost", port(a)))
                async with asyncio.timeout(3):
                    await until(lambda: 0 in b.links)

    run(main)


class PlainLoop(asyncio.SelectorEventLoop):
    """It tries the addresses of a name one after the other, as uvloop does."""

    async def create_connection(self, make, host=None, port=None, *, ssl=None, server_hostname=None):
        return await super().create_connection(make, host, port, ssl=ssl, server_hostname=server_hostname)


class BrokenLoop(asyncio.SelectorEventLoop):
    async def create_connection(self, *_, **__):
        raise RuntimeError("nobody expects this")


def test_an_event_loop_that_knows_less_than_that_of_asyncio_serves_as_well():
    async def main():
        async with node(0) as a, node(1, a) as b:
            await until(lambda: a.links and b.links)

    run(main, PlainLoop)


def test_a_mistake_in_the_program_that_ends_the_dialling_does_not_hide(caplog):
    async def main():
        async with node(0) as a, node(1, a):
            await until(lambda: "nobody expects this" in caplog.text)

    run(main, BrokenLoop)
    assert "dials an address no longer" in caplog.text


class ForeignTransport:
    """One that is no `asyncio.Transport`, as those of uvloop are not."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_whoever_comes_to_a_node_that_does_not_run_is_sent_away_on_any_event_loop():
    async def main():
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_accepted_socket(asyncio.Protocol, ours)
        _Closed().connection_made(ForeignTransport(transport))
        theirs.setblocking(False)
        assert await loop.sock_recv(theirs, 1) == b""
        theirs.close()

    run(main)
