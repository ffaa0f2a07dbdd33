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

    def up(self, peer: NodeId) -> None:
        if peer not in self.peers:
            self.peers.append(peer)

    def down(self, peer: NodeId) -> None:
        """The stations behind this wire may be behind another one when they are heard of again."""
        if peer in self.peers:
            self.peers.remove(peer)
            self.routes = {station: wire for station, wire in self.routes.items() if wire != peer}

    def check(self, station: NodeId, peer: NodeId) -> None:
        """Refuse a frame that claims to come from a station which is behind another wire."""
        if station == self._node:
            raise RemoteFault(f"station {peer} sent a frame of this station, {station}")
        known = self.routes.get(station)
        if known is not None and known != peer:
            raise RemoteFault(f"a frame of station {station} came from {peer}, but it is behind {known}")
        if known is None and len(self.routes) >= _MOST_STATIONS:
            raise RemoteFault(f"more than {_MOST_STATIONS} stations are heard of")

    def learn(self, station: NodeId, peer: NodeId) -> None:
        self.routes[station] = peer

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
        if wire is not None:
            out.append(Send(wire, frame))
