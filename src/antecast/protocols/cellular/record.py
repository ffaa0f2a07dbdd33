"""What a station knows of one host."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from antecast.core import MessageId, NodeId
from antecast.protocols.cellular.frames import Data, Req1


@dataclass(slots=True)
class Record:
    """A host's session with this station.

    *Not ready*: the station has asked for the host and waits for the one that holds it. *Ready*: it holds the
    host. *Locked*: it is handing it over, and does nothing else for it any more.
    """

    ses: int
    pos: int
    """The host has delivered all numbers below; the station keeps those from here on."""
    heard: int
    """When the host last spoke."""
    next: int
    """The number of the host's first message that it had never sent."""
    ready: bool = False
    lock: int = 0
    """The session it is being handed over to."""
    seqh: int = 1
    """The number of the next message expected from the host."""
    early: dict[int, Data] = field(default_factory=dict)
    skip: set[int] = field(default_factory=set)
    """Numbers that the host delivered elsewhere."""
    catch_up: deque[Data] = field(default_factory=deque)
    """What it has to deliver before them, acknowledged ones gone."""
    top: int = 0
    holes: frozenset[int] = frozenset()
    """Of the numbers below `top` the host has those that are not holes, delivered or not."""
    caught_up: int = 0
    """How many of them it has acknowledged in this session."""
    catch_up_at: int = 0
    """When they were last sent."""
    fresh: bool = False
    owes: int = 0
    """When a message came that it had to acknowledge, while it had all before."""
    # While it is handed over.
    stash: list[Req1] = field(default_factory=list)
    waits: list[tuple[NodeId, int]] = field(default_factory=list)
    """Requests whose echo waits for what becomes of this record."""
    wave: int = 0
    served: bool = False
    missing: list[MessageId] = field(default_factory=list)
    mark: int = 0
    """The station's next number when `Rsp1` was sent or came."""

    @property
    def holds(self) -> bool:
        """Whether the station does anything for the host."""
        return self.ready and not self.lock

    def deliver_upto(self, co: int, seqc: int) -> None:
        """The host has delivered so many catch-up messages, and all numbers below `seqc`."""
        while self.caught_up < co and self.catch_up:
            self.catch_up.popleft()
            self.caught_up += 1
        self.pos = max(self.pos, seqc)
        self.step_over()

    def step_over(self) -> None:
        """Go past what was delivered elsewhere."""
        while self.pos in self.skip:
            self.skip.remove(self.pos)
            self.pos += 1

    def raise_to(self, ses: int) -> None:
        """A new session with the same station: what is left to catch up is counted anew."""
        self.ses = ses
        self.caught_up = 0
        self.top = 0
        self.holes = frozenset()

    def lacks(self, window: int) -> set[int]:
        """Numbers that the host has not acknowledged in any way, as far as it takes them."""
        end = self.pos + window
        missing = {*self.holes, *range(max(self.pos, self.top), end)} - self.skip
        return {number for number in missing if self.pos <= number < end}
