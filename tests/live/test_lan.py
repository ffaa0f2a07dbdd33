"""Nodes that find each other on a network, here the loopback interface."""

import asyncio
import errno
import secrets
import socket
from ipaddress import ip_address
from types import SimpleNamespace

import pytest

from antecast.core import ConfigurationError
from antecast.live import Node
from antecast.live.links.address import Address
from antecast.live.links.lan import Lan, addresses_of, found
from antecast.live.links.tcp import Tcp, TcpOptions

pytest.importorskip("zeroconf")

QUICK = TcpOptions(retry_least=0.01, retry_most=0.1)


@pytest.fixture(autouse=True)
def apart(monkeypatch):
    """Other nodes on this machine, those of another run of the tests too, are not found."""
    monkeypatch.setattr("antecast.live.links.lan.SERVICE", f"_t{secrets.token_hex(5)}._tcp.local.")


def node(number: int, protocol: str = "barrier", host: str = "127.0.0.1") -> Node:
    tcp = Tcp(listen=f"{host}:0", options=QUICK)
    return Node(number, protocol, transports=[tcp, Lan(tcp)])


def multicast() -> bool:
    """Whether loopback carries multicast here; in some containers it does not."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            probe.sendto(b"", ("224.0.0.251", 5353))
        except OSError:
            return False
    return True


@pytest.mark.skipif(not multicast(), reason="no multicast on loopback")
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost"])
def test_nodes_find_each_other_and_exchange_what_was_said_before(host):
    async def main():
        async with asyncio.timeout(30):
            async with node(0, host=host) as ada:
                await ada.broadcast(b"before they met")
                async with node(1) as ben:
                    async for each in ben.deliveries():
                        assert each.payload == b"before they met"
                        break
                    (known,) = ben.transports[1].known.values()
                    assert known in ada.transports[0].places

    asyncio.run(main())


def announcement(**changes):
    values = {"group": b"g", "number": b"1"} | changes
    properties = {key.encode(): value for key, value in values.items()}
    return SimpleNamespace(properties=properties, port=7000, parsed_addresses=lambda: ["192.0.2.7"])


def test_only_members_with_smaller_numbers_are_dialled():
    assert str(found(announcement(), "g", 5)) == "192.0.2.7:7000"
    for strange in ({"group": b"other"}, {"number": b"5"}, {"number": b"9"}, {"number": b"x"}, {"number": None}):
        assert found(announcement(**strange), "g", 5) is None


def test_what_is_announced_can_be_dialled():
    """Addresses of both families, under the one port; for everywhere, one of this machine's."""

    def announced(*places):
        return [str(ip_address(each)) for each in addresses_of([Address(*place) for place in places])]

    assert announced(("192.0.2.7", 7000)) == ["192.0.2.7"]
    assert announced(("fe80::1%eth0", 7000)) == ["fe80::1"]
    assert announced(("127.0.0.1", 7000), ("::1", 7000)) == ["127.0.0.1", "::1"]
    assert announced(("127.0.0.1", 7000), ("::1", 7001)) == ["127.0.0.1"]
    (four,), (six,) = announced(("0.0.0.0", 7000)), announced(("::", 7000))
    assert four != "0.0.0.0" and "." in four and six != "::" and ":" in six


def test_without_keys_an_announcement_of_somewhere_else_is_not_dialled():
    async def main():
        tcp = Tcp(listen="127.0.0.1:0", options=QUICK)
        lan = Lan(tcp)
        async with Node(5, transports=[tcp, lan]):
            info = announcement(group=lan._group.encode())
            info.async_request = lambda *_: asyncio.sleep(0, True)
            lan._info = lambda *_: info
            await lan._look(None, "someone")
            assert not lan.known
            info.parsed_addresses = lambda: ["127.0.0.1"]
            await lan._look(None, "someone")
            assert [str(each) for each in lan.known.values()] == ["127.0.0.1:7000"]

    asyncio.run(main())


def test_a_node_that_does_not_listen_has_nothing_to_announce():
    async def main():
        tcp = Tcp()
        with pytest.raises(ConfigurationError, match="has to listen somewhere"):
            await Node(0, transports=[tcp, Lan(tcp)]).start()

    asyncio.run(main())


def hearing(lan, **said):
    """Let a node hear an announcement of each name, at these addresses."""

    async def hear():
        for name, place in said.items():
            info = announcement(group=lan._group.encode())
            address = Address.parse(place)
            info.port, info.parsed_addresses = address.port, lambda address=address: [address.host]
            info.async_request = lambda *_: asyncio.sleep(0, True)
            lan._info = lambda *_, info=info: info
            await lan._look(None, name)

    return hear()


def test_announcements_of_strangers_end_no_dialling_of_others():
    async def main():
        tcp = Tcp(listen="127.0.0.1:0", peers=["127.0.0.1:1"], options=QUICK)
        lan = Lan(tcp)
        async with Node(5, transports=[tcp, lan]):
            await hearing(lan, ada="127.0.0.1:2", eve="127.0.0.1:2", mallory="127.0.0.1:1")
            await hearing(lan, eve="127.0.0.1:3")  # it was never at the place of ada
            lan._gone("mallory")  # nor is the peer gone that this node was told of
            assert [str(each) for each in tcp._dialling] == ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]
            lan._gone("ada")
            assert [str(each) for each in tcp._dialling] == ["127.0.0.1:1", "127.0.0.1:3"]

    asyncio.run(main())


def test_a_flood_of_announcements_keeps_no_member_out(monkeypatch):
    monkeypatch.setattr("antecast.live.links.lan.MOST_KNOWN", 3)

    async def main():
        tcp = Tcp(listen="127.0.0.1:0", options=QUICK)
        lan, far = Lan(tcp), Tcp(listen="127.0.0.1:0")
        async with Node(1, transports=[far]), Node(5, transports=[tcp, lan]) as node:
            await hearing(lan, **{f"eve{n}": f"127.0.0.1:{n}" for n in range(1, 8)})
            await hearing(lan, ada=str(far.listen))
            while not node.links:
                await asyncio.sleep(0.01)
            await hearing(lan, **{f"mallory{n}": f"127.0.0.1:{n}" for n in range(1, 8)})
            assert far.listen in lan.known.values()
            assert len(lan.known) == 3
            assert node.counters["refused_room"] == 12

    asyncio.run(main())


def test_an_announcement_that_is_none_is_left_aside():
    async def main():
        tcp = Tcp(listen="127.0.0.1:0", options=QUICK)
        lan = Lan(tcp)
        async with Node(5, transports=[tcp, lan]):
            await lan._look(lan._zeroconf.zeroconf, "\x1b[2J.elsewhere._tcp.local.")
            assert not lan.known

    asyncio.run(main())


def test_a_machine_without_a_network_is_one_line(monkeypatch):
    def none(**_):
        raise OSError(errno.ENODEV, "No such device")

    async def main():
        monkeypatch.setattr("zeroconf.asyncio.AsyncZeroconf", none)
        with pytest.raises(ConfigurationError, match=r"lan: this machine has no network .*: No such device"):
            await node(0).start()

    asyncio.run(main())


def test_what_was_begun_before_an_announcement_failed_is_ended(monkeypatch):
    ended = []

    class Failing:
        def __init__(self, **_):
            self.zeroconf = None

        async def async_register_service(self, info):
            raise RuntimeError("the name is taken")

        async def async_unregister_all_services(self):
            ended.append("services")

        async def async_close(self):
            ended.append("zeroconf")

    async def main():
        monkeypatch.setattr("zeroconf.asyncio.AsyncZeroconf", Failing)
        made = node(0)
        with pytest.raises(RuntimeError, match="taken"):
            await made.start()
        await made.stop()
        assert ended == ["services", "zeroconf"]

    asyncio.run(main())
