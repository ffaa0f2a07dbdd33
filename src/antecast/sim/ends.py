"""The two ends of a link that notice late, each in its own time, that it came up or broke.

Without `network.notice` both ends of a link change at one instant. Real ones do not: one side has the connection
before the other, and finds out later, or earlier, that it is gone. Here a line between two nodes comes up and
breaks at one instant, and each end hears of it after a delay drawn for it. Meanwhile an end sends into a line that
is gone (what it sends is lost), or gets frames over a line that it has not heard of yet (they wait for it).

A node hears that a line broke after it has heard that it came up, and of lines to the same peer in their order.
Where the next line is there already when a node is to hear that the last one broke, every other time it only hears
of the new one: a `link_up` without a `link_down` before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from antecast.core import LinkSafety, NodeId
from antecast.history.schema import Kind
from antecast.sim.delays import Delay, sampler
from antecast.sim.host import Host
from antecast.sim.links import Parcel
from antecast.sim.scheduler import Scheduler
from antecast.sim.streams import Stream


class _End:
    """Where the frames of one line come out: at a host that may not have heard of the line yet."""

    __slots__ = ("_early", "_host", "_number", "node")

    def __init__(self, host: Host, number: int) -> None:
        self.node = host.node
        self._host = host
        self._number = number
        self._early: list[Parcel] = []

    def receive(self, parcel: Parcel, sender: NodeId) -> None:
        if self._host.links.get(sender) == self._number:
            self._host.receive(parcel, sender)
        else:
            self._early.append(parcel)

    @property
    def waiting(self) -> int:
        """Frames of a line that the host has not heard of."""
        return len(self._early)

    def take_early(self, sender: NodeId) -> None:
        early, self._early = self._early, []
        for parcel in early:
            self.receive(parcel, sender)


class LateEnds:
    """Tells hosts about their lines, late."""

    def __init__(self, delay: Delay, seed: int, scheduler: Scheduler, hosts: dict[NodeId, Host]) -> None:
        self._draw = sampler(delay, scheduler)
        self._seed = seed
        self._scheduler = scheduler
        self._hosts = hosts
        self.lines: defaultdict[NodeId, dict[NodeId, int]] = defaultdict(dict)
        """Who has a line to whom, and its number, whether the ends know or not."""
        self._heard: dict[tuple[NodeId, NodeId], int] = {}
        """When an end hears, or heard, the last news of its lines to a peer."""
        self._streams: dict[tuple[NodeId, NodeId], Stream] = {}
        self._ends: dict[tuple[NodeId, NodeId, int], _End] = {}
        """Ends that have not come up yet."""
        self.lost = 0
        """Frames that waited for a host to hear of their line, until it broke."""

    def line(self, node: NodeId, peer: NodeId, number: int) -> bool:
        """Whether a line is there, and not an older one that a node has not heard the end of."""
        return self.lines[node].get(peer) == number

    def end(self, node: NodeId, peer: NodeId, number: int) -> _End:
        """The far end, at a node, of its line to a peer."""
        end = _End(self._hosts[node], number)
        if self._hosts[node].links.get(peer) != number:
            self._ends[node, peer, number] = end
        return end

    def connect(self, a: NodeId, b: NodeId, number: int, by: NodeId | None) -> None:
        for node, peer in ((a, b), (b, a)):
            self.lines[node][peer] = number
            self._tell(node, peer, self._up, number, by)

    def disconnect(self, a: NodeId, b: NodeId) -> None:
        for node, peer in ((a, b), (b, a)):
            number = self.lines[node].pop(peer)
            early = self._ends.pop((node, peer, number), None)
            self.lost += 0 if early is None else early.waiting
            host = self._hosts[node]
            host.kill_link(peer)
            if host.up:
                self._tell(node, peer, self._down, number, None)
            else:
                host.forget_link(peer)

    def _tell(
        self,
        node: NodeId,
        peer: NodeId,
        news: Callable[[tuple[Host, int, NodeId, int, NodeId | None]], None],
        number: int,
        by: NodeId | None,
    ) -> None:
        at = max(self._scheduler.now + self._draw(self._stream(node, peer)), self._heard.get((node, peer), 0))
        self._heard[node, peer] = at
        host = self._hosts[node]
        self._scheduler.at(at, news, (host, host.arrivals, peer, number, by))

    def _stream(self, node: NodeId, peer: NodeId) -> Stream:
        stream = self._streams.get((node, peer))
        if stream is None:
            stream = self._streams[node, peer] = Stream(self._seed, "notice", node, peer)
        return stream

    def _up(self, what: tuple[Host, int, NodeId, int, NodeId | None]) -> None:
        host, arrival, peer, number, by = what
        if not host.up or host.arrivals != arrival:
            return  # it has crashed since: its new life hears of its own lines
        host.note(Kind.UP, peer=peer)
        host.forget_link(peer)
        if by is not None and isinstance(host.protocol, LinkSafety):
            host.protocol.introduce(peer, by)
        host.link_up(peer, number)
        end = self._ends.pop((host.node, peer, number), None)
        if end is not None:
            end.take_early(peer)

    def _down(self, what: tuple[Host, int, NodeId, int, NodeId | None]) -> None:
        host, arrival, peer, number, _ = what
        if not host.up or host.arrivals != arrival or host.links.get(peer) != number:
            return
        if peer in self.lines[host.node] and self._stream(host.node, peer).below(2):
            return
        host.note(Kind.DOWN, peer=peer)
        host.link_down(peer)
