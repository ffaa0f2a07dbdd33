"""Searches for a host: a request goes around all stations, and echoes bring back whether one of them has it.

Each station passes `Req1` on and answers (`Echo`) when all stations behind it have; `found` says whether one of
them has the host. If none has, the host has been given up. The echoes come after everything that any station had
sent on before, so the one that asked then has all that the host ever delivered.

A station that awaits the host itself, in an older session, answers when it knows how that ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from antecast.core import Effect, NodeId, RemoteFault, Send
from antecast.protocols.cellular.frames import Echo, Req1
from antecast.protocols.cellular.record import Handoff
from antecast.protocols.cellular.wires import Wires

Name: TypeAlias = tuple[NodeId, int]
"""The station that asks, and its count of requests."""


@dataclass(slots=True)
class Search:
    """A request on its way through this station: who still has to answer, and what was said so far."""

    parent: NodeId | None
    """The wire that it came over; None at the station that asks."""
    waiting: set[NodeId]
    """The wires that it went out on and has not come back over."""
    undecided: bool
    """Whether it waits for what becomes of this station's own request for the host."""
    found: bool


_MOST_OPEN = 1 << 16
"""The most requests under way at once. There are more only where somebody does not answer."""


class Searches:
    def __init__(self, wires: Wires, nobody: Callable[[int, int, list[Effect]], None]) -> None:
        self._wires = wires
        self._nobody = nobody
        """Called when a search of this station has ended and nobody has the host."""
        self.open: dict[Name, Search] = {}

    def spread(
        self, request: Req1, parent: NodeId | None, *, found: bool, undecided: bool, now: int, out: list[Effect]
    ) -> None:
        """Pass a request on to all stations behind this one, and answer it when they have."""
        self._wires.flood(request, parent, out)
        name = request.who, request.wave
        waiting = {peer for peer in self._wires.peers if peer != parent}
        self.open[name] = Search(parent, waiting, undecided, found)
        self._end_if_answered(name, now, out)

    def check_request(self, request: Req1) -> None:
        if (request.who, request.wave) in self.open:
            raise RemoteFault(f"request {request.wave} of station {request.who} comes a second time")
        if len(self.open) >= _MOST_OPEN:
            raise RemoteFault(f"{_MOST_OPEN} requests wait for their echo")

    def check(self, frame: Echo, peer: NodeId) -> None:
        search = self.open.get((frame.who, frame.wave))
        if search is None or peer not in search.waiting:
            raise RemoteFault(f"echo of request {frame.wave} of {frame.who}, which was not sent to {peer}")

    def echoed(self, frame: Echo, peer: NodeId, now: int, out: list[Effect]) -> None:
        name = frame.who, frame.wave
        search = self.open[name]
        search.waiting.discard(peer)
        search.found = search.found or frame.found
        self._end_if_answered(name, now, out)

    def wire_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        """No echo comes back over this wire. Whether a station behind it has the host is not known, so nobody may
        say that it was given up."""
        for name, search in list(self.open.items()):
            if search.parent == peer:
                del self.open[name]
            elif peer in search.waiting:
                search.waiting.discard(peer)
                search.found = True
                self._end_if_answered(name, now, out)

    def decide(self, handoff: Handoff, found: bool, now: int, out: list[Effect]) -> None:
        """Answer the requests that waited for what becomes of this station's own."""
        waits, handoff.waits = handoff.waits, []
        for name in waits:
            search = self.open.get(name)
            if search is not None:
                search.undecided = False
                search.found = search.found or found
                self._end_if_answered(name, now, out)

    def _end_if_answered(self, name: Name, now: int, out: list[Effect]) -> None:
        search = self.open[name]
        if search.waiting or search.undecided:
            return
        del self.open[name]
        who, number = name
        if search.parent is not None:
            out.append(Send(search.parent, Echo(who, number, search.found)))
        elif not search.found:
            self._nobody(number, now, out)
