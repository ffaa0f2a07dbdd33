"""What a station knows of one host."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from antecast.core import MessageId, NodeId
from antecast.protocols.cellular.frames import Data, Req1


class HostState(Enum):
    """How far a station is with a host."""

    AWAITED = "awaited"
    """The host is here, but another station holds it, and has been asked to hand it over."""
    HELD = "held"
    """The station holds the host: only this station serves it."""
    LOCKED = "locked"
    """The host is being handed over to another station, and nothing is done for it here any more."""


@dataclass(slots=True)
class Handoff:
    """What a record needs only while its host changes stations."""

    since: int = 0
    """When the station asked for the host, or locked it."""
    partner: NodeId | None = None
    """The station that it is offered to, or that offers it."""
    wave: int = 0
    """The number of the request that it began with: this station's, or the partner's."""
    offered: bool = False
    """Whether the holder has answered it (`Rsp1`)."""
    missing: list[MessageId] = field(default_factory=list)
    """What the host has not delivered, as the holder says."""
    wanted: list[MessageId] = field(default_factory=list)
    """Those of them that this station has asked the holder for."""
    mark: int = 0
    """This station's next number when `Rsp1` was sent, or came."""
    stash: list[Req1] = field(default_factory=list)
    """Requests of other stations that wait until this one holds the host."""
    waits: list[tuple[NodeId, int]] = field(default_factory=list)
    """Requests whose echo waits for what becomes of this record."""
    to: int = 0
    """The session that the host is being handed over to."""
    offers: dict[int, int] = field(default_factory=dict)
    """Printed rules only: all sessions that it has been offered to, with the host's counter at that time."""


@dataclass(slots=True)
class Record:
    """A host's session with this station."""

    session: int
    position: int
    """The host has delivered all numbers below; the station keeps those from here on."""
    heard_at: int
    """When the host last spoke."""
    first_unsent: int
    """The number of the host's first message that it had never sent."""
    state: HostState = HostState.AWAITED
    expected: int = 1
    """The number of the next message expected from the host."""
    early: dict[int, Data] = field(default_factory=dict)
    skip: set[int] = field(default_factory=set)
    """Numbers that the host delivered elsewhere."""
    catch_up: list[Data] = field(default_factory=list)
    """What it has to deliver before them, without what it has acknowledged."""
    caught_up: int = 0
    """How many catch-up messages it has acknowledged in this session."""
    catch_up_at: int = 0
    """When they were last sent."""
    top: int = 0
    holes: frozenset[int] = frozenset()
    """The host has all numbers below `top` that are not holes, delivered or not."""
    acknowledged_at: int = 0
    """When it last acknowledged something in this session."""
    heard_turn: int = 0
    """The host has heard what was sent in this turn, or later: what it lacks from before is lost."""
    fresh: bool = False
    """Whether the host had been given up, and has not yet shown that it knows."""
    owes_since: int = 0
    """When a message came that it had to acknowledge, while it had all before."""
    handoff: Handoff = field(default_factory=Handoff)
    marked: frozenset[int] = frozenset()
    """Printed rules only: all numbers that it delivered elsewhere, including those it has stepped over (M_d)."""

    @property
    def held(self) -> bool:
        """Whether the station does anything for the host."""
        return self.state is HostState.HELD

    def delivered(self, caught_up: int, position: int) -> None:
        """The host has delivered this many catch-up messages, and all numbers below `position`."""
        if caught_up > self.caught_up:
            count = min(caught_up - self.caught_up, len(self.catch_up))
            del self.catch_up[:count]
            self.caught_up += count
        if position > self.position:
            self.position = position
            if self.skip:
                self.skip = {number for number in self.skip if number >= position}
        self.step_over()

    def step_over(self) -> None:
        """Step over what was delivered elsewhere."""
        while self.position in self.skip:
            self.skip.remove(self.position)
            self.position += 1

    def raise_to(self, session: int) -> None:
        """A new session with the same station: what is left to catch up is counted anew."""
        self.session = session
        self.caught_up = 0
        self.top = 0
        self.holes = frozenset()
        self.heard_turn = 0

    def lacks(self, window: int) -> Collection[int]:
        """Numbers that the host has not acknowledged in any way, as far as it takes them."""
        end = self.position + window
        if not self.holes and not self.skip:
            return range(max(self.position, self.top), end)
        missing = {*self.holes, *range(max(self.position, self.top), end)} - self.skip
        return {number for number in missing if self.position <= number < end}
