"""What a member of an overlay keeps: its options, its links, and the arcs that are on their way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from antecast.core import NodeId
from antecast.live.overlay.view import Arc
from antecast.live.overlay.words import State, Word


@dataclass(frozen=True)
class SprayOptions:
    every: float = 10.0
    """Seconds between two exchanges that a member starts, with jitter."""
    patience: float = 20.0
    """Seconds that a new connection may take to become safe before it is dropped."""
    linger: float = 1.0
    """Seconds for which neither end needs a connection before it is closed."""


class Ground(Protocol):
    """What a member asks of its transport."""

    def dial(self, place: str, by: NodeId | None) -> None:
        """Try once to connect, introduced by a neighbour; ends in `Member.linked` and `Member.dialled`."""

    def part(self, peer: NodeId) -> None:
        """Close a connection."""

    def tell(self, peer: NodeId, word: Word) -> None: ...

    def safe(self, peer: NodeId) -> bool:
        """Whether the way to a neighbour is safe."""


@dataclass(slots=True)
class Neighbour:
    """A link, and what its other end has said."""

    dialled: bool
    place: str | None = None
    near: frozenset[NodeId] = frozenset()
    safe: bool = False
    """Whether its way to this member is safe."""
    needed: bool = True
    """Whether it needs the connection."""
    said: State | None = None
    free: float | None = None
    """Since when neither needs it."""
    exchanged: float = -1e9
    joined: bool = False


@dataclass(slots=True)
class Loan:
    """An arc on its way to `borrower`; without an arc, a newcomer that a neighbour is asked to take."""

    borrower: NodeId
    peer: NodeId
    place: str
    arc: Arc | None
    until: float
    referred: bool = False
    """Whether it is `borrower` who is the newcomer, and `peer` another contact for it."""


@dataclass(slots=True)
class Opening:
    """An arc that is being taken over, from `by`."""

    place: str
    by: NodeId | None
    token: int
    until: float
    hops: int | None
    """Where it is a contact in place of `by`: how often it may name another in turn."""


@dataclass(slots=True)
class Asked:
    """The exchange that this member has started."""

    token: int
    peer: NodeId
    arc: Arc
    loans: list[int] = field(default_factory=list)
    until: float = 0.0
