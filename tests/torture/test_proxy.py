"""The fault proxy on real sockets."""

import asyncio

import pytest

from antecast.torture.proxy import Proxy, _Frames

FRAME = b"\x00\x00\x00\x08abcdefgh"


class Ends:
    """A connection through a proxy: `near` has dialled, `far` has listened."""

    def __init__(self, proxy, server, near, far):
        self.proxy, self.server, self.near, self.far = proxy, server, near, far
        self.road = proxy.roads[1, 0]

    async def send(self, data, *, back=False):
        writer = (self.far if back else self.near)[1]
        writer.write(data)
        await writer.drain()

    async def arrives(self, size, *, back=False, within=5.0):
        reader = (self.near if back else self.far)[0]
        async with asyncio.timeout(within):
            return await reader.readexactly(size)


def through_a_proxy(test):
    async def run():
        arrived = asyncio.Queue()
        server = await asyncio.start_server(lambda *ends: arrived.put_nowait(ends), "127.0.0.1", 0)
        proxy = Proxy()
        proxy.ports[0] = server.sockets[0].getsockname()[1]
        port = await proxy.open(1, 0)
        near = await asyncio.open_connection("127.0.0.1", port)
        ends = Ends(proxy, server, near, await arrived.get())
        while not ends.road.passages:
            await asyncio.sleep(0)
        try:
            await test(ends)
        finally:
            proxy.close()
            server.close()

    asyncio.run(run())


def test_in_good_weather_bytes_pass_both_ways():
    async def test(ends):
        await ends.send(FRAME)
        assert await ends.arrives(12) == FRAME
        await ends.send(FRAME, back=True)
        assert await ends.arrives(12, back=True) == FRAME

    through_a_proxy(test)


def test_a_cut_in_a_frame_lets_the_frames_before_it_pass_and_half_of_it():
    async def test(ends):
        await ends.send(FRAME)
        await ends.arrives(12)
        ends.road.cut(in_frame=True)
        await ends.send(FRAME)
        with pytest.raises(asyncio.IncompleteReadError) as broken:
            await ends.arrives(12)
        assert broken.value.partial == FRAME[:8]
        assert ends.proxy.counts["cut in a frame"] == 1

    through_a_proxy(test)


def test_a_cut_ends_both_sides():
    async def test(ends):
        ends.road.cut()
        for back in (False, True):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await ends.arrives(1, back=back)

    through_a_proxy(test)


def test_a_half_open_connection_stays_and_nothing_arrives_until_it_clears():
    async def test(ends):
        ends.road.weather.silent = True
        await ends.send(FRAME)
        with pytest.raises(TimeoutError):
            await ends.arrives(12, within=0.1)
        ends.road.clear()
        assert await ends.arrives(12) == FRAME

    through_a_proxy(test)


def test_late_and_slow_bytes_arrive_in_order_and_not_before_their_time():
    async def test(ends):
        loop = asyncio.get_running_loop()
        ends.road.weather.delay, ends.road.weather.rate = 0.05, 2_000
        begun = loop.time()
        await ends.send(FRAME[:6])
        await ends.send(FRAME[6:] + bytes(100))
        assert (await ends.arrives(112))[:12] == FRAME
        assert loop.time() - begun >= 0.09

    through_a_proxy(test)


def test_a_closed_road_takes_no_connections():
    async def test(ends):
        ends.road.weather.closed = True
        reader, _ = await asyncio.open_connection("127.0.0.1", ends.road.port)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)

    through_a_proxy(test)


def test_the_middle_of_a_record_of_tls_is_found_wherever_reads_end():
    record = b"\x17\x03\x03\x00\x06abcdef"
    for cut in range(1, len(record)):
        frames = _Frames(secured=True)
        assert (frames.middle(record[:cut]) is None) == (cut < 5)  # its length is not known yet
        assert frames.middle(record[cut:] + record) == (8 if cut < 5 else 8 + len(record)) - cut
