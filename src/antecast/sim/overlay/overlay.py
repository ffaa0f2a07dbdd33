"""The seam between a run and its overlay.

The engine makes links and processes come and go; an overlay decides which links there should be. It acts
through a `Network` and is told what happens to it. Neither knows the other's kind.

A *connection* is a pair of links, one each way, and each way has its own safety: whether the protocol may use
that link and keep causal order (`core.LinkSafety`). A protocol that does not bring its links into use one by
one has all of them safe at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, cast

from antecast.core import LinkSafety, NodeId, Timer
from antecast.sim.host import Host
from antecast.sim.links import Parcel
from antecast.sim.scheduler import Action, Scheduler


@cache
def says_what_is_safe(kind: type) -> bool:
    """Whether protocols of a kind are `LinkSafety`; kept, since it is asked often and slow to find out."""
    return issubclass(kind, LinkSafety)


class Overlay(ABC):
    """Decides who is linked with whom while a run goes on."""

    @abstractmethod
    def start(self) -> Iterable[tuple[NodeId, NodeId]]:
        """The connections of the first instant, smaller process first, sorted; schedules what comes later."""

    @abstractmethod
    def join(self, node: NodeId, contact: NodeId | None) -> None:
        """A new process has appeared and knows one other, or should find one itself."""

    @abstractmethod
    def leave(self, node: NodeId) -> None:
        """A process has gone for good; its links are down already."""

    @abstractmethod
    def broke(self, a: NodeId, b: NodeId) -> None:
        """A connection has gone down, by a fault or because the overlay closed it."""

    @abstractmethod
    def became_safe(self, a: NodeId, b: NodeId) -> None:
        """The link from a to b, which the overlay watches, has become safe."""

    @abstractmethod
    def gauges(self, node: NodeId) -> dict[str, int]:
        """What the overlay says of a process, to be sampled beside the gauges of its protocol."""


class WatchedHost(Host):
    """A host that says when a link it was asked to watch has become safe."""

    __slots__ = ("on_safe", "watched")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.watched: dict[NodeId, None] = {}
        self.on_safe: Callable[[NodeId, NodeId], None] | None = None

    def receive(self, parcel: Parcel, sender: NodeId) -> None:
        super().receive(parcel, sender)
        if self.watched:
            self._look()

    def _fire(self, what: tuple[Timer, int]) -> None:
        super()._fire(what)
        if self.watched:
            self._look()

    def _look(self) -> None:
        protocol = cast("LinkSafety", self.protocol)
        assert self.on_safe is not None
        for peer in [peer for peer in self.watched if protocol.safe(peer)]:
            if self.watched.pop(peer, self) is None:
                self.on_safe(self.node, peer)


class Network:
    """What an overlay may ask of its run."""

    def __init__(
        self,
        scheduler: Scheduler,
        hosts: dict[NodeId, Host],
        meet: Callable[[tuple[NodeId, NodeId], NodeId | None, int], None],
        part: Callable[[tuple[NodeId, NodeId]], None],
    ) -> None:
        self._scheduler = scheduler
        self._hosts = hosts
        self._meet = meet
        self._part = part
        self._opened = 1
        """Connections are numbered, from 2 on: those of the start are 1. The number names their random streams,
        and a kernel that opens the same connections in the same order can count along."""

    @property
    def now(self) -> int:
        return self._scheduler.now

    def at(self, time: int, action: Action, argument: Any) -> None:
        self._scheduler.at(time, action, argument)

    def up(self, node: NodeId) -> bool:
        return node in self._hosts and self._hosts[node].up

    def present(self) -> list[NodeId]:
        """The processes that are up, sorted."""
        return sorted(node for node, host in self._hosts.items() if host.up)

    def connect(self, a: NodeId, b: NodeId, by: NodeId | None = None) -> bool:
        """Open a connection, introduced by a neighbour of both; whether the two are linked now."""
        self._opened += 1
        self._meet((a, b), by, self._opened)
        return self.linked(a, b)

    def disconnect(self, a: NodeId, b: NodeId) -> None:
        """Close a connection; nothing happens where there is none."""
        self._part((a, b))

    def linked(self, a: NodeId, b: NodeId) -> bool:
        return a in self._hosts and b in self._hosts[a].links

    def safe(self, a: NodeId, b: NodeId) -> bool:
        """Whether the two are linked and both ways are safe."""
        return self.linked(a, b) and self.link_safe(a, b) and self.link_safe(b, a)

    def link_safe(self, a: NodeId, b: NodeId) -> bool:
        """Whether the link from a to b is safe."""
        protocol = self._hosts[a].protocol
        return not says_what_is_safe(type(protocol)) or bool(cast("LinkSafety", protocol).safe(b))

    def watch(self, a: NodeId, b: NodeId, on_safe: Callable[[NodeId, NodeId], None]) -> None:
        """Call back when a link that is not safe yet becomes so, either way."""
        for node, peer in ((a, b), (b, a)):
            host = self._hosts[node]
            if not self.link_safe(node, peer):
                assert isinstance(host, WatchedHost)
                host.watched[peer] = None
                host.on_safe = on_safe

    def unwatch(self, a: NodeId, b: NodeId) -> None:
        for node, peer in ((a, b), (b, a)):
            host = self._hosts[node]
            assert isinstance(host, WatchedHost)
            host.watched.pop(peer, None)

    def links(self, node: NodeId) -> list[NodeId]:
        """Whom a process is linked with."""
        return list(self._hosts[node].links)
