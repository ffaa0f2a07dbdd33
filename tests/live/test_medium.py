"""Stations and hosts on a shared medium over UDP multicast, on loopback: losses, handoffs, restarts."""

import asyncio
import socket
from random import Random

import pytest

from antecast.core import ConfigurationError, LocalMisuse
from antecast.live import Node
from antecast.live.links.medium import Medium, MediumOptions
from antecast.live.links.tcp import Tcp, TcpOptions


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def multicast() -> bool:
    try:
        medium = Medium(f"239.255.77.77:{free_port()}")
        from antecast.live.links.medium import _join

        _join(medium.group).close()
    except OSError:
        return False
    return True


pytestmark = pytest.mark.skipif(not multicast(), reason="no multicast on loopback")

QUICK = TcpOptions(retry_least=0.01, retry_most=0.1)


class Field:
    """Two stations with a wire between them, and hosts."""

    def __init__(self, folder, *, loss: float = 0.0) -> None:
        self.folder, self.place = folder, f"239.255.77.77:{free_port()}"
        self.random, self.loss = Random(1), loss
        self.nodes: dict[int, Node] = {}

    def medium(self) -> Medium:
        lose = (lambda: self.random.random() < self.loss) if self.loss else None
        return Medium(self.place, options=MediumOptions(beacon=0.05, silence=1.0, lose=lose))

    async def station(self, number: int, *peers: Node) -> Node:
        tcp = Tcp(listen="127.0.0.1:0", peers=[each.transports[0].listen for each in peers], options=QUICK)
        return await self._start(number, "station", [tcp, self.medium()])

    async def host(self, number: int, station: int | None = None) -> Node:
        medium = self.medium()
        node = await self._start(number, "host", [medium])
        if station is not None:
            medium.move(station)
        return node

    async def _start(self, number, role, transports) -> Node:
        journal = self.folder / str(number)
        node = Node(number, "cellular", role=role, journal=journal, durability="normal", transports=transports)
        await node.start()
        self.nodes[number] = node
        return node

    async def stop(self) -> None:
        for node in self.nodes.values():
            await node.stop()


async def read(node: Node, count: int) -> list[bytes]:
    found = []
    async for each in node.deliveries():
        found.append(each.payload)
        if len(found) == count:
            return found
    return found


async def read_until(node: Node, payload: bytes) -> list[bytes]:
    found = []
    async for each in node.deliveries():
        found.append(each.payload)
        if each.payload == payload:
            return found
    return found


async def in_session(node: Node) -> None:
    """Wait until a host takes part: its own message comes back through its station."""
    await node.broadcast(b"here")
    await read_until(node, b"here")


def run(main) -> None:
    async def limited() -> None:
        async with asyncio.timeout(40):
            await main()

    asyncio.run(limited())


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_hosts_of_two_cells_hear_each_other_in_order(tmp_path, loss):
    async def main():
        field = Field(tmp_path, loss=loss)
        one = await field.station(100)
        await field.station(101, one)
        ada, ben = await field.host(0, 100), await field.host(1, 101)
        await in_session(ada)
        await in_session(ben)  # what is broadcast before, a newcomer need not hear
        await ada.broadcast(b"question")
        assert (await read_until(ben, b"question"))[-1] == b"question"
        await ben.broadcast(b"answer")
        heard = await read_until(ada, b"answer")
        assert heard.index(b"question") < heard.index(b"answer")
        await field.stop()

    run(main)


def test_a_host_that_changes_its_cell_misses_nothing(tmp_path):
    async def main():
        field = Field(tmp_path)
        one = await field.station(100)
        await field.station(101, one)
        ada, ben = await field.host(0, 100), await field.host(1, 101)
        await in_session(ben)
        await ada.broadcast(b"before")
        await read_until(ben, b"before")
        ben.transports[0].move(None)
        ben.transports[0].move(100)
        await ada.broadcast(b"after")
        heard = await read_until(ben, b"after")
        assert [each for each in heard if each != b"here"] == [b"before", b"after"]
        await field.stop()

    run(main)


def test_a_host_finds_a_cell_by_its_beacon_and_comes_back_from_its_journal(tmp_path):
    async def main():
        field = Field(tmp_path)
        await field.station(100)
        ada = await field.host(0)
        await ada.broadcast(b"one")
        assert await read(ada, 1) == [b"one"]
        await ada.stop()
        again = await field.host(0)
        await again.broadcast(b"two")
        assert await read(again, 2) == [b"one", b"two"]
        await field.stop()

    run(main)


def test_noise_on_the_medium_is_counted_and_nothing_else(tmp_path):
    async def main():
        field = Field(tmp_path)
        station = await field.station(100)
        ada = await field.host(0, 100)
        medium = ada.transports[0]
        noise = Random(2)
        for size in (0, 5, 16, 17, 40, 400):
            medium._transport.sendto(noise.randbytes(size), (medium.group.host, medium.group.port))
            medium._put(0, 100, noise.randbytes(size))
        await ada.broadcast(b"still here")
        assert await read(ada, 1) == [b"still here"]
        assert station.counters["dropped_malformed"] > 0
        ada.transmit([bytes(70_000)])
        assert ada.counters["dropped_oversize"] == 1
        await field.stop()

    run(main)


def test_a_node_with_keys_refuses_the_medium():
    class Keys:
        number, protocol, group, overhead, serial, bulletin = 0, "cellular", "g", 0, 0, b""

        def __getattr__(self, name):
            return lambda *_: b""

    async def main():
        with pytest.raises(ConfigurationError, match="a shared medium has no keys yet"):
            await Node(0, "cellular", security=Keys(), transports=[Medium()]).start()

    run(main)


def test_a_message_that_fits_in_no_datagram_is_refused_and_holds_up_nothing(tmp_path):
    async def main():
        field = Field(tmp_path)
        await field.station(100)
        ada, ben = await field.host(0, 100), await field.host(1, 100)
        await in_session(ada)
        with pytest.raises(LocalMisuse, match="70000 bytes exceeds the limit of 60000 on a shared medium"):
            await ada.broadcast(bytes(70_000))
        await ada.broadcast(bytes(60_000))
        await ada.broadcast(b"after")
        assert list(map(len, await read_until(ben, b"after")))[-2:] == [60_000, 5]
        assert not any(each.counters["dropped_oversize"] for each in field.nodes.values())
        await field.stop()

    run(main)
