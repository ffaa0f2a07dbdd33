"""TCP: listens, dials, dials again, and decides which connection becomes the link.

A connection is a link once both ends have greeted each other (`hello`); it ends when either end closes it, when it
breaks, or when nothing was heard for too long. Then whoever dialled it dials again, after a pause that grows, with
jitter.

**Who keeps which connection.** Two nodes may dial each other at once. Of two connections between the same two
processes, that dialled by the node with the larger number is kept; of two in the same direction, the newer one.
When another process comes under a number that is linked already, the old link is asked for a sign of life first:
if it answers, the newcomer is refused.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import random
import socket
import ssl
from asyncio import BaseEventLoop
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Final

import msgspec

from antecast.core import AntecastError, ConfigurationError, NodeId
from antecast.live.links.address import Address
from antecast.live.links.connection import DUPLICATE, Connection
from antecast.live.links.hello import BadHello, Hello, LostState, check_hello, hello_of
from antecast.live.links.link import Transport
from antecast.live.links.options import TcpOptions
from antecast.live.links.seldom import Seldom
from antecast.live.node import Node
from antecast.live.security import PeerRefused, Unsecured

__all__ = ["Address", "Connection", "Tcp", "TcpOptions"]

log = logging.getLogger("antecast.live.tcp")

_NEXT_ADDRESS: Final = 0.25
"""Seconds before the next address of a name is tried beside the one that does not answer."""


_INLET: Final = 1 << 18
"""Bytes that are read from a connection at a time, at most."""

_OUT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_troubles = Seldom(log, most=3)


def _in_trouble(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Where a connection cannot be taken for want of descriptors, asyncio says so with a traceback, a hundred
    times per second, for as long as it lasts."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno in _OUT_OF:
        _troubles.warning("no connection can be taken now: %s", error.strerror)
    elif not isinstance(error, ValueError) or "_start_serving" not in str(context.get("handle")):
        loop.default_exception_handler(context)  # that is asyncio trying again when the node has stopped


class Tcp(Transport):
    """Listens, dials the peers it was told of, and dials again when a connection ends."""

    def __init__(
        self,
        *,
        listen: Address | str | None = None,
        peers: Sequence[Address | str] = (),
        options: TcpOptions | None = None,
    ) -> None:
        self.listen = Address.parse(listen, field="listen") if isinstance(listen, str) else listen
        self.peers = [Address.parse(each, field="peer") if isinstance(each, str) else each for each in peers]
        self.options = options if options is not None else TcpOptions()
        self.connections: set[Connection] = set()
        self.inlet = memoryview(bytearray(_INLET))
        """Where the bytes of any connection arrive: they are taken from it before another one is read. Memory that
        is asked for anew at each read, as much as there may be, would cost several times the read itself."""
        self.doorsteps: dict[Doorstep, None] = {}
        """Handshakes under way, the oldest first."""
        self.strangers = Seldom(log)
        """The log of what strangers do."""
        self.aside: Callable[[Connection, bytes], None] | None = None
        """Who takes the words of an overlay."""
        self._dialling: dict[Address, asyncio.Task[None]] = {}
        self._own: set[tuple[str, int]] = set()
        """Where this node was found when it dialled."""
        self._unreached: dict[Address, str] = {}
        """Why there was no connection to a peer, the last time."""
        self._server: asyncio.Server | None = None
        self._stopping = False

    async def start(self, node: Node) -> None:
        self.node, self._stopping = node, False
        self.hello = hello_of(node.identity, node.life, node.instance)
        self.loop = asyncio.get_running_loop()
        self._staggered = _staggered(self.loop)
        if self.loop.get_exception_handler() is None:
            self.loop.set_exception_handler(_in_trouble)
        if isinstance(node.security, Unsecured):
            self._stay_on_loopback()
        elif not isinstance(self.loop, BaseEventLoop):
            # uvloop reads from a new connection though it was told to pause: handshakes would lose their begin.
            given = type(self.loop).__module__
            raise ConfigurationError(
                f"a group with keys needs an event loop of asyncio; the one that runs is {given}",
                field="transports",
            )
        else:  # now: the file of the keys may be taken away once the node runs
            node.security.server_context()
            node.security.client_context()
        if self.listen is not None:
            try:
                self._server = await self.loop.create_server(
                    self._take, self.listen.host, self.listen.port, backlog=128
                )
            except OSError as error:
                reason = error.strerror or error
                raise ConfigurationError(f"cannot listen on {self.listen}: {reason}", field="listen") from None
            if not self._server.sockets:  # asyncio passes over what cannot even be a socket, IPv6 for instance
                problem = f"cannot listen on {self.listen}: no socket can be made for it on this machine"
                raise ConfigurationError(problem, field="listen")
            self.listen = Address(self.listen.host, self._server.sockets[0].getsockname()[1])
            log.info("node %d listens on %s", node.number, self.listen)
        for address in self.peers:
            self.dial(address)

    @property
    def open(self) -> bool:
        """Whether anyone is let in: a node that has failed still listens until it is stopped."""
        engine = self.node.running
        return not self._stopping and engine is not None and not engine.stopped

    @property
    def places(self) -> list[Address]:
        """Where it listens, by number: a name may have addresses of both families, each with a socket."""
        sockets = [] if self._server is None else self._server.sockets
        return [Address(*each.getsockname()[:2]) for each in sockets]

    def greeting(self, by: NodeId | None = None) -> Hello:
        """What this node says of itself now, and who has introduced it."""
        return msgspec.structs.replace(
            self.hello,
            serial=self.node.security.serial,
            by=-1 if by is None else by,
            position=self.node.lives.position,
        )

    def share_bulletin(self) -> None:
        """Hand the newest bulletin to all who are linked."""
        for connection in self.connections:
            if connection.up:
                connection.send_bulletin()

    def _stay_on_loopback(self) -> None:
        listens = [("listen", self.listen)] if self.listen is not None else []
        for field, address in (*listens, *(("peer", each) for each in self.peers)):
            if not address.loopback:
                raise ConfigurationError(
                    f"a node without keys stays on this machine, and {address} is not on it; "
                    "give it the keys of a group (antecast group new)",
                    field=field,
                )

    def _take(self) -> asyncio.BaseProtocol:
        if not self.open:
            return _Closed()
        context = self.node.security.server_context()
        return Connection(self) if context is None else Doorstep(self, context)

    def dial(self, address: Address) -> None:
        """Connect to an address, and again whenever there is no link to the node behind it."""
        if address not in self._dialling and not self._stopping:
            task = self._dialling[address] = self.loop.create_task(self._keep_dialling(address))
            task.add_done_callback(self._dialled)

    def _dialled(self, task: asyncio.Task[None]) -> None:
        """Nothing that goes wrong with a connection ends the dialling; a mistake in this program must not hide."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("node %d dials an address no longer: %r", self.node.number, error, exc_info=error)

    def forget(self, address: Address) -> None:
        """Dial an address no longer; a link that is up stays."""
        task = self._dialling.pop(address, None)
        self._unreached.pop(address, None)
        if task is not None:
            task.cancel()

    def reaches(self, address: Address) -> bool:
        """Whether a connection that was dialled there is a link."""
        return any(each.up and each.place == address for each in self.connections)

    async def _keep_dialling(self, address: Address) -> None:
        """Dial again at once after a link that has lasted, else after a pause. A link that ends as soon as it is
        up, with a node that does not fit for instance, would else come and go hundreds of times per second."""
        options, wait = self.options, self.options.retry_least
        lasting = min(1.0, options.retry_most)
        peer: int | None = None
        while True:
            if peer is None or peer not in self.node.links:
                host = await self._host_behind(address)
                if host is None:
                    log.warning("node %d: %s is this node itself", self.node.number, address)
                    return
                connection = await self._connect(address, host=host)
                if connection is not None:
                    await connection.outcome
                    if connection.itself:
                        continue
                    peer = peer if connection.number is None else connection.number
            if peer is not None and peer in self.node.links:
                link = self.node.links[peer]
                if not isinstance(link, Connection):
                    await asyncio.sleep(wait)
                    continue
                await link.ended.wait()
                if link.age >= lasting:
                    wait = options.retry_least
                    continue
            await asyncio.sleep(wait * (0.5 + random.random()))
            wait = min(2 * wait, options.retry_most)

    async def _host_behind(self, address: Address) -> str | None:
        """What to dial of a name: where it stands for several nodes, this one among them, one of the others."""
        if not self._own:
            return address.host
        try:
            found = await self.loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except OSError:
            return address.host
        others = [each[0] for *_, each in found if each[:2] not in self._own]
        return str(random.choice(others)) if others else None

    async def connect_once(self, address: Address, by: NodeId | None = None) -> NodeId | None:
        """Try to connect, introduced by a neighbour; who is linked then, or this node itself, or nobody."""
        connection = await self._connect(address, by)
        if connection is None:
            return None
        if await connection.outcome:
            return connection.peer
        return self.node.number if connection.itself else None

    async def _connect(
        self, address: Address, by: NodeId | None = None, *, host: str | None = None
    ) -> Connection | None:
        try:
            context = self.node.security.client_context()
            async with asyncio.timeout(self.options.greeting):
                _, connection = await self.loop.create_connection(
                    lambda: Connection(self, dialled=address, by=by),
                    host or address.host,
                    address.port,
                    ssl=context,
                    server_hostname="" if context is not None else None,
                    **self._staggered,
                )
        except ssl.SSLError as error:
            self.failed_handshake(f"at {address}", error)
            return None
        except (OSError, TimeoutError, ValueError, AntecastError) as error:  # a host that is none is a ValueError
            self.node.counters["dial_failures"] += 1
            self._say_unreached(address, str(error) or "it does not answer")
            return None
        self._unreached.pop(address, None)
        return connection

    def _say_unreached(self, address: Address, why: str) -> None:
        """Once for a peer that is dialled over and over, until something else is the matter."""
        if address in self._dialling and self._unreached.get(address) != why:
            self._unreached[address] = why
            log.info("node %d: cannot connect to %s: %s; it tries again", self.node.number, address, why)

    def failed_handshake(self, where: str, error: Exception) -> None:
        from antecast.live.groups.tls import explain

        self.node.counters["refused_identity"] += 1
        self.strangers.warning("node %d: refused the node %s: %s", self.node.number, where, explain(error))

    # Which connection becomes the link.

    async def decide(self, connection: Connection, theirs: Hello) -> str | None:
        """Why a connection that has greeted is not taken; None if it is."""
        silent: Connection | None = None
        while True:  # what was found out before a wait may be another thing after it: a revocation, for instance
            if (reason := self._unfit(connection, theirs)) is not None:
                return reason
            before = self.node.links.get(theirs.number)
            if not isinstance(before, Connection) or before.hello is None or before is silent:
                return None
            if before.hello.instance == theirs.instance:
                if before.dialled == connection.dialled:
                    return None  # its other end has given the old one up
                larger_dials = connection.dialled == (self.node.number > theirs.number)
                if larger_dials:
                    return None
                self.node.counters["refused_duplicate"] += 1
                return DUPLICATE
            if await before.is_alive(self.options.proof):
                self.node.counters["refused_in_use"] += 1
                return f"number {theirs.number} is in use by another process"
            silent = before

    def _unfit(self, connection: Connection, theirs: Hello) -> str | None:
        """Why a node may not be linked to this one, if so."""
        counters, lives = self.node.counters, self.node.lives
        if theirs.instance == self.node.instance:
            self._tell_itself(connection)
            counters["refused_hello"] += 1
            return f"both ends are node {self.node.number}"
        try:
            self.node.security.identify(connection.ssl_object, theirs.number)
        except PeerRefused as fault:
            counters["refused_identity"] += 1
            return str(fault)
        try:
            check_hello(self.hello, theirs, *lives.known_of(theirs.number, theirs.instance))
        except BadHello as fault:
            if isinstance(fault, LostState):
                lives.refused(theirs.number, theirs.life, theirs.instance, theirs.position)
            counters["refused_in_use" if isinstance(fault, LostState) else "refused_hello"] += 1
            return str(fault)
        return None

    def _tell_itself(self, taken: Connection) -> None:
        """This process has dialled itself. Another one under the same number is a mistake that can be mended: its
        address is dialled again."""
        for each in self.connections:
            if each.dialled and each.near == taken.far:
                each.itself = True
                self._own.add(each.far[:2])

    async def stop(self) -> None:
        self._stopping = True
        dialling = list(self._dialling.values())
        self._dialling.clear()
        self._unreached.clear()
        self._own.clear()
        for task in dialling:
            task.cancel()
        if self._server is not None:
            self._server.close()
        for doorstep in list(self.doorsteps):
            doorstep.end()
        try:
            await asyncio.gather(*dialling, return_exceptions=True)
            for connection in list(self.connections):
                connection.finish("the node stops")
            now = asyncio.get_running_loop().time
            deadline = now() + 2.0
            while self.connections and now() < deadline:
                await asyncio.sleep(0.002)
        finally:
            for connection in list(self.connections):
                connection.close("the node stops")

    def describe(self) -> dict[str, Any]:
        return {
            "kind": "tcp",
            "listen": None if self.listen is None else str(self.listen),
            "dialling": [str(address) for address in self._dialling],
            "connections": len(self.connections),
        }


def _staggered(loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    """Not every event loop can try the addresses of a name side by side: uvloop tries one after the other."""
    try:
        known = signature(loop.create_connection).parameters
    except (TypeError, ValueError):  # written in C
        return {}
    return {"happy_eyeballs_delay": _NEXT_ADDRESS} if "happy_eyeballs_delay" in known else {}


class _Closed(asyncio.Protocol):
    """For whoever comes to a node that does not run."""

    def connection_made(self, transport: Any) -> None:
        transport.abort()


class Doorstep(asyncio.Protocol):
    """A connection whose TLS handshake is under way. There are only so many at a time, and each has its time."""

    def __init__(self, owner: Tcp, context: ssl.SSLContext) -> None:
        self._owner, self._context = owner, context
        self._task: asyncio.Task[None] | None = None
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        owner = self._owner
        if not owner.open:  # it has stopped since the connection was taken
            transport.abort()
            return
        if len(owner.doorsteps) >= owner.options.unknown:
            # The oldest goes. An honest handshake takes milliseconds, so it is hardly one of those that wait; if
            # newcomers were refused instead, a few silent strangers could keep everyone out.
            next(iter(owner.doorsteps)).make_room()
        transport.pause_reading()  # until TLS reads
        owner.doorsteps[self] = None
        self._transport = transport
        self._task = owner.loop.create_task(self._shake_hands(transport))

    def make_room(self) -> None:
        owner = self._owner
        owner.node.counters["refused_room"] += 1
        owner.strangers.warning("node %d: refused a connection: too many handshakes at once", owner.node.number)
        self.end()

    def end(self) -> None:
        self._owner.doorsteps.pop(self, None)
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def _shake_hands(self, transport: Any) -> None:
        owner = self._owner
        try:
            connection = Connection(owner)
            secured = await owner.loop.start_tls(
                transport,
                connection,
                self._context,
                server_side=True,
                ssl_handshake_timeout=owner.options.greeting,
            )
        except (OSError, TimeoutError) as error:
            owner.failed_handshake("that connected", error)
            transport.abort()
            # What the traceback holds, a quarter of a mebibyte of buffers, goes now and not at some collection.
            error.__traceback__ = None
            return
        except asyncio.CancelledError:  # by `end`; kept by the task, it would hold as much
            return
        except AntecastError:  # the node has failed meanwhile
            transport.abort()
            return
        finally:
            owner.doorsteps.pop(self, None)
            self._task = self._transport = None
        connection.connection_made(secured)
