"""Contacts on a local network: nodes find each other by multicast DNS, and links come and go with them.

A node announces where it listens, and connects to members of its group that it hears of, for as long as they are
announced. A contact can end at any time; the opportunistic protocols (`barrier`, `epidemic`, `delta`) exchange
what is missing whenever there is one. The links themselves are those of `Tcp`: greetings, keys and limits are
the same.

An announcement proves nothing: whoever is on the network can make one. It only says where to dial; who answers
there has to show that it is a member, and a node without keys dials nobody beyond this machine.

Announcements travel by IPv4 multicast, and name addresses of the family on which their node listens.

Needs the package zeroconf (`pip install 'antecast[lan]'`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Sequence
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Final

from antecast.core import ConfigurationError
from antecast.live.links.address import Address
from antecast.live.links.link import Transport
from antecast.live.links.tcp import Tcp
from antecast.live.node import Node
from antecast.live.security import Unsecured
from antecast.text.wording import escaped

if TYPE_CHECKING:
    from zeroconf import Zeroconf

log = logging.getLogger("antecast.live.lan")

SERVICE: Final = "_antecast._tcp.local."
MOST_KNOWN: Final = 1000
"""Announcements that are followed, and that are looked into, at a time; more are counted."""
_FAR: Final = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
"""Addresses somewhere else: from which one of its own would this machine send there?"""


class Lan(Transport):
    """Announces a node, and dials those that it hears of."""

    def __init__(self, tcp: Tcp) -> None:
        self.tcp = tcp
        self.known: dict[str, Address] = {}
        """Where the members are that are announced now, by the name of their announcement."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._zeroconf: Any = None
        self._browser: Any = None

    async def start(self, node: Node) -> None:
        """After its `Tcp`: give both to the node, in this order."""
        try:
            from zeroconf import IPVersion
            from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf
        except ImportError:
            problem = "needs the package zeroconf: pip install 'antecast[lan]'"
            raise ConfigurationError(problem, field="lan") from None
        listen = self.tcp.listen
        if listen is None:
            raise ConfigurationError("a node that announces itself has to listen somewhere", field="listen")
        self.node = node
        self.known.clear()
        self._local = isinstance(node.security, Unsecured)
        # A hash: the network need not know what the group is called.
        self._group = blake2b(node.security.group.encode(), digest_size=8).hexdigest()
        self._name = f"{node.instance.hex()}.{SERVICE}"
        self._info: Any = AsyncServiceInfo
        try:
            self._zeroconf = AsyncZeroconf(interfaces=_interfaces(self.tcp.places), ip_version=IPVersion.V4Only)
        except OSError as error:
            problem = f"this machine has no network to announce itself on: {error.strerror or error}"
            raise ConfigurationError(problem, field="lan") from None
        announced = AsyncServiceInfo(
            SERVICE,
            self._name,
            addresses=addresses_of(self.tcp.places),
            port=listen.port,
            properties={"group": self._group, "number": str(node.number)},
        )
        await self._zeroconf.async_register_service(announced)
        self._browser = AsyncServiceBrowser(self._zeroconf.zeroconf, SERVICE, handlers=[self._changed])
        log.info("node %d announces itself as %s", node.number, self._name)

    def _changed(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: Any) -> None:
        """Something was announced or is gone. Comes from the event loop."""
        if name == self._name:
            return
        if state_change.name == "Removed":
            self._gone(name)
            return
        if len(self._tasks) >= MOST_KNOWN:
            self.node.counters["refused_room"] += 1
            return
        task = asyncio.get_running_loop().create_task(self._look(zeroconf, name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self, zeroconf: Zeroconf, name: str) -> None:
        try:
            info = self._info(SERVICE, name)
            if not await info.async_request(zeroconf, 3000):
                return
            address = found(info, self._group, self.node.number)
        except Exception as error:  # anyone can announce anything, and names or records that zeroconf refuses
            log.info("node %d: an announcement that is none: %s", self.node.number, escaped(str(error)))
            return
        if address is None or (self._local and not address.loopback) or self.known.get(name) == address:
            return
        self._gone(name)
        if len(self.known) >= MOST_KNOWN and not self._make_room():
            return
        self.known[name] = address
        log.info("node %d hears of a member at %s", self.node.number, address)
        self.tcp.dial(address)

    def _make_room(self) -> bool:
        """Of the oldest announcement to which no link has come about: a member is linked in a moment."""
        self.node.counters["refused_room"] += 1
        name = next((name for name, address in self.known.items() if not self.tcp.reaches(address)), None)
        if name is not None:
            self._gone(name)
        return name is not None

    def _gone(self, name: str) -> None:
        address = self.known.pop(name, None)
        if address is not None and address not in (*self.known.values(), *self.tcp.peers):
            self.tcp.forget(address)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        zeroconf, browser, self._zeroconf, self._browser = self._zeroconf, self._browser, None, None
        if zeroconf is not None:
            try:
                if browser is not None:
                    await browser.async_cancel()
                await zeroconf.async_unregister_all_services()
            finally:
                await zeroconf.async_close()

    def describe(self) -> dict[str, Any]:
        return {"kind": "lan", "known": sorted(str(address) for address in self.known.values())}


def found(info: Any, group: str, number: int) -> Address | None:
    """Where to dial, if an announcement is one of another member; of two nodes, the larger number dials."""
    properties = {key: value or b"" for key, value in (info.properties or {}).items()}
    try:
        theirs = int(properties.get(b"number", b"-1"))
    except ValueError:
        return None
    if properties.get(b"group") != group.encode() or not 0 <= theirs < number or not info.port:
        return None
    addresses = info.parsed_addresses()
    return Address(addresses[0], info.port) if addresses else None


def addresses_of(places: Sequence[Address]) -> list[bytes]:
    """What to announce of the sockets that listen: those that share the port of the first."""
    found = [ip_address(each.host.partition("%")[0]) for each in places if each.port == places[0].port]
    return [(_own_address(each) if each.is_unspecified else each).packed for each in found]


def _own_address(everywhere: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """For a node that listens everywhere: the address from which this machine would send."""
    family = socket.AF_INET if everywhere.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_FAR[family], 9))  # nothing is sent
            return ip_address(probe.getsockname()[0])
        except OSError:
            return ip_address("127.0.0.1" if everywhere.version == 4 else "::1")


def _interfaces(places: Sequence[Address]) -> Any:
    from zeroconf import InterfaceChoice

    if all(each.loopback for each in places):
        return ["127.0.0.1"]
    hosts = [each.host for each in places if ":" not in each.host]
    return InterfaceChoice.All if not hosts or "0.0.0.0" in hosts else hosts
