"""Nodes that find each other on a network, here the loopback interface."""

import asyncio
import socket
from types import SimpleNamespace

import pytest

from antecast.core import ConfigurationError
from antecast.live import Node
from antecast.live.links.lan import Lan, found
from antecast.live.links.tcp import Tcp, TcpOptions

pytest.importorskip("zeroconf")

QUICK = TcpOptions(retry_least=0.01, retry_most=0.1)


def node(number: int, protocol: str = "barrier") -> Node:
    tcp = Tcp(listen="127.0.0.1:0", options=QUICK)
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
def test_nodes_find_each_other_and_exchange_what_was_said_before():
    async def main():
        async with asyncio.timeout(30):
            async with node(0) as ada:
                await ada.broadcast(b"before they met")
                async with node(1) as ben:
                    async for each in ben.deliveries():
                        assert each.payload == b"before they met"
                        break
                    assert [str(each) for each in ben.transports[1].known.values()] == [
                        str(ada.transports[0].listen)
                    ]

    asyncio.run(main())


def announcement(**changes):
    values = {"group": b"g", "number": b"1"} | changes
    properties = {key.encode(): value for key, value in values.items()}
    return SimpleNamespace(properties=properties, port=7000, parsed_addresses=lambda: ["192.0.2.7"])


def test_only_members_with_smaller_numbers_are_dialled():
    assert str(found(announcement(), "g", 5)) == "192.0.2.7:7000"
    for strange in ({"group": b"other"}, {"number": b"5"}, {"number": b"9"}, {"number": b"x"}, {"number": None}):
        assert found(announcement(**strange), "g", 5) is None


def test_a_node_that_does_not_listen_has_nothing_to_announce():
    async def main():
        tcp = Tcp()
        with pytest.raises(ConfigurationError, match="has to listen somewhere"):
            await Node(0, transports=[tcp, Lan(tcp)]).start()

    asyncio.run(main())
