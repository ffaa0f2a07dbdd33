"""The fault proxy: every connection between two members runs through it, in user space.

A *road* leads from a node that dials to one that listens. It has a port of its own, whatever port the listening
node has in its present life, and a *weather* that applies to the bytes of its connections, both ways:

`delay`      bytes arrive so many seconds later, in order; roads with different delays reorder each other's frames
`rate`       bytes per second
`silent`     connections stay open and nothing arrives any more: half-open, as after a pulled cable
`closed`     new connections are cut at once

`cut` ends the connections of a road, at once or in the middle of the next frame. What is drawn at random is drawn
by whoever gives the orders; the proxy itself draws nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

CHUNK = 1 << 14


@dataclass
class Weather:
    delay: float = 0.0
    rate: float = 0.0
    silent: bool = False
    closed: bool = False


class _Frames:
    """Follows the lengths in a stream, to know where frames begin. With keys these are the records of TLS."""

    def __init__(self, *, secured: bool) -> None:
        self._secured = secured
        self._head_size = 5 if secured else 4
        self._head = b""
        self._left = 0

    def middle(self, data: bytes) -> int | None:
        """The middle of the first frame that begins in these bytes; None if none does. Takes note of the bytes."""
        found, place = None, 0
        while place < len(data):
            if self._left:
                step = min(self._left, len(data) - place)
                self._left, place = self._left - step, place + step
                continue
            missing = self._head_size - len(self._head)
            self._head += data[place : place + missing]
            place += missing
            if len(self._head) < self._head_size:
                break
            self._left, self._head = self._length(), b""
            if self._left and found is None:
                found = min(len(data), place + self._left // 2)
        return found

    def _length(self) -> int:
        if self._secured:
            return int.from_bytes(self._head[3:], "big")
        length = int.from_bytes(self._head, "big")
        return 0 if length == (1 << 32) - 1 else length & 0x7FFF_FFFF


class _Passage:
    """One connection through the proxy: two streams of bytes."""

    def __init__(self, road: Road, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.road, self.near, self.far = road, near, far
        self.cut_in_frame = False

    def end(self) -> None:
        for writer in (self.near, self.far):
            writer.transport.abort()

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Bytes of one direction. Reading goes on while earlier bytes wait for their time."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)
        writing = loop.create_task(self._write(queue, writer))
        frames, counts = _Frames(secured=self.road.proxy.secured), self.road.proxy.counts
        try:
            while data := await reader.read(CHUNK):
                middle = frames.middle(data)
                if self.cut_in_frame and middle is not None:
                    counts["cut in a frame"] += 1
                    writer.write(data[:middle])
                    await asyncio.sleep(0)
                    break
                await queue.put((loop.time() + self.road.weather.delay, data))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writing.cancel()
            self.end()

    async def _write(self, queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        weather = self.road.weather
        with suppress(OSError):
            while True:
                due, data = await queue.get()
                if (wait := due - loop.time()) > 0:
                    await asyncio.sleep(wait)
                while weather.silent:
                    await asyncio.sleep(0.02)
                if weather.rate:
                    await self._trickle(data, writer)
                else:
                    writer.write(data)
                    await writer.drain()

    async def _trickle(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        step = max(1, int(self.road.weather.rate / 50))
        for place in range(0, len(data), step):
            writer.write(data[place : place + step])
            await writer.drain()
            if self.road.weather.rate:
                await asyncio.sleep(step / self.road.weather.rate)


class Road:
    """The way from one node that dials to one that listens."""

    def __init__(self, proxy: Proxy, start: int, end: int) -> None:
        self.proxy, self.start, self.end = proxy, start, end
        self.weather = Weather()
        self.passages: set[_Passage] = set()
        self.port = 0
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self.proxy.ports.get(self.end)
        if port is None or self.weather.closed:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        passage = _Passage(self, writer, far_writer)
        self.passages.add(passage)
        try:
            await asyncio.gather(passage.pump(reader, far_writer), passage.pump(far_reader, writer))
        except asyncio.CancelledError:
            pass  # the group is over; nobody waits for this
        finally:
            self.passages.discard(passage)

    def cut(self, *, in_frame: bool = False) -> None:
        """End every connection: now, or in the middle of the next frame."""
        for passage in list(self.passages):
            if in_frame:
                passage.cut_in_frame = True
            else:
                self.proxy.counts["cut"] += 1
                passage.end()

    def clear(self) -> None:
        """Good weather. Connections that were silent have lost nothing: their bytes come late."""
        self.weather.delay = self.weather.rate = 0.0
        self.weather.silent = self.weather.closed = False

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for passage in list(self.passages):
            passage.end()


class Proxy:
    """All roads of a group."""

    def __init__(self, *, secured: bool = False) -> None:
        self.secured = secured
        """Whether its connections are those of nodes with keys."""
        self.roads: dict[tuple[int, int], Road] = {}
        self.ports: dict[int, int] = {}
        """Where each node listens in its present life."""
        self.counts: Counter[str] = Counter()

    async def open(self, start: int, end: int) -> int:
        """A road, and the port where it begins."""
        road = self.roads[start, end] = Road(self, start, end)
        await road.open()
        return road.port

    def clear(self) -> None:
        for road in self.roads.values():
            road.clear()

    def of(self, node: int) -> list[Road]:
        return [road for ends, road in self.roads.items() if node in ends]

    def close(self) -> None:
        for road in self.roads.values():
            road.close()
