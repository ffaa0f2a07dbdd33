"""A member's view: the arcs it has, and whom it has lost. Nobody else knows either.

`Memory` is what lets the parts of an overlay find each other again (docs/overlays.md, Splits): an arc that was let
go is owed, and comes back when its member answers; one that was replaced is owed nothing, and if its member turns
out to be in another part, the arc to it is one too many, which the next loss pays for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from antecast.core import NodeId

KEPT: Final = 16
"""Members that a member remembers to have lost."""
MET: Final = 4
"""Earlier neighbours that it keeps in mind, in case the one who led to the others is lost."""


@dataclass(eq=False, slots=True)
class Arc:
    """A place in a view. Two arcs may lead to the same member."""

    peer: NodeId
    place: str
    """Where it listens."""
    age: int = 0
    lent: bool = False
    """Whether it is on its way to another member, or turns round."""


def choose(arcs: Sequence[Arc], count: int, random: Random) -> list[Arc]:
    return random.sample(arcs, min(count, len(arcs))) if count > 0 else []


class Memory:
    """Those that one member has lost, in the order in which it will try them."""

    def __init__(self) -> None:
        self._lost: dict[NodeId, tuple[str, int]] = {}
        """Where each listened, and how many arcs are owed to it."""
        self._met: dict[NodeId, str] = {}
        self.surplus = 0
        """Arcs beyond those owed, not paid for yet."""

    def __len__(self) -> int:
        return len(self._lost)

    def __contains__(self, peer: object) -> bool:
        return peer in self._lost

    @property
    def owed(self) -> int:
        return sum(owed for _, owed in self._lost.values())

    def lose(self, peer: NodeId, place: str, *, owed: int) -> None:
        """Remember a member, to be tried after all others; if there is no room, the next in turn is forgotten."""
        _, before = self._lost.pop(peer, ("", 0))
        self._lost[peer] = place, before + owed
        if len(self._lost) > KEPT:
            del self._lost[next(iter(self._lost))]

    def part(self, peer: NodeId, place: str) -> None:
        """A neighbour is no longer one, because nobody needed the connection."""
        self._met.pop(peer, None)
        self._met[peer] = place
        if len(self._met) > MET:
            del self._met[next(iter(self._met))]

    def recall(self) -> None:
        """Somebody was lost: try earlier neighbours too, as far as there is room."""
        for peer, place in self._met.items():
            if len(self._lost) < KEPT:
                self._lost.setdefault(peer, (place, 0))

    def turn(self) -> tuple[NodeId, str]:
        """Whose turn it is, and where it listened; it is tried again after all others."""
        peer = next(iter(self._lost))
        self._lost[peer] = entry = self._lost.pop(peer)
        return peer, entry[0]

    def owed_to(self, peer: NodeId) -> int:
        return self._lost[peer][1]

    def find(self, peer: NodeId) -> int:
        """A member is there again: how many arcs to it were let go."""
        return self._lost.pop(peer)[1]

    def places(self) -> list[str]:
        return [place for place, _ in self._lost.values()]

    def state(self) -> dict[str, Any]:
        return {
            "lost": [[peer, place, owed] for peer, (place, owed) in self._lost.items()],
            "surplus": self.surplus,
        }

    def load(self, state: dict[str, Any]) -> None:
        self._lost = {int(peer): (str(place), int(owed)) for peer, place, owed in state["lost"][:KEPT]}
        self.surplus = int(state["surplus"])
