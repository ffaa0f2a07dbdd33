"""The wires of a station: where it passes frames on, and which wire leads to a station that was heard of."""

from __future__ import annotations

from antecast.core import Effect, Frame, NodeId, RemoteFault, Send

_MOST_STATIONS = 1 << 16
"""More than any tree of stations has; routes to more are not kept."""


class Wires:
    def __init__(self, node: NodeId) -> None:
        self._node = node
        self.peers: list[NodeId] = []
        self.routes: dict[NodeId, NodeId] = {}
        """For a station heard of, the wire that leads to it. Wires make a tree, so there is one."""
        self._doubted: set[NodeId] = set()
        """Stations whose wire has been down since they were heard of. They may be behind another one by now; until
        they are heard of again, frames for them go the way they went before, if it is there again."""

    def up(self, peer: NodeId) -> None:
        self.peers.append(peer)

    def down(self, peer: NodeId) -> None:
        self.peers.remove(peer)
        self._doubted.update(station for station, wire in self.routes.items() if wire == peer)

    def restore(self, routes: dict[NodeId, NodeId]) -> None:
        self.routes = routes
        self._doubted = set(routes)

    def check(self, station: NodeId, peer: NodeId) -> None:
        """Refuse a frame that claims to come from a station which is behind another wire."""
        if station == self._node:
            raise RemoteFault(f"station {peer} sent a frame of this station, {station}")
        known = None if station in self._doubted else self.routes.get(station)
        if known is not None and known != peer:
            raise RemoteFault(f"a frame of station {station} came from {peer}, but it is behind {known}")
        if known is None and len(self.routes) - len(self._doubted) >= _MOST_STATIONS:
            raise RemoteFault(f"more than {_MOST_STATIONS} stations are heard of")

    def learn(self, station: NodeId, peer: NodeId) -> None:
        self.routes[station] = peer
        self._doubted.discard(station)
        if len(self.routes) > _MOST_STATIONS:
            self._forget_doubted()

    def _forget_doubted(self) -> None:
        for station in self._doubted:
            del self.routes[station]
        self._doubted.clear()

    def flood(self, frame: Frame, came_from: NodeId | None, out: list[Effect]) -> None:
        out += [Send(peer, frame) for peer in self.peers if peer != came_from]

    def pass_on(self, station: NodeId, frame: Frame, out: list[Effect]) -> None:
        """A frame on its way to another station."""
        if station not in self.routes:
            raise RemoteFault(f"nobody has heard of a station {station} here")
        self.send(station, frame, out)

    def send(self, station: NodeId, frame: Frame, out: list[Effect]) -> None:
        """To a station heard of before; if its wire is gone, there is no way to it."""
        wire = self.routes.get(station)
        if wire in self.peers:
            out.append(Send(wire, frame))
