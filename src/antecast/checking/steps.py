"""What a local call does, in numbers, and what is left of a node that has crashed."""

from __future__ import annotations

from typing import Any, NamedTuple

from antecast.core import NodeId


class Down(NamedTuple):
    """A node that has crashed: what it saved, and deliveries that were not handed on."""

    node: NodeId
    saved: bytes
    owed: tuple[int, ...]


class Step:
    """What a call does: the next state, and its effects in numbers."""

    __slots__ = (
        "aside",
        "effects",
        "idle",
        "kind",
        "named",
        "plain",
        "problem",
        "quiet",
        "refused",
        "sends",
        "state",
    )

    def __init__(
        self,
        state: int,
        effects: tuple[tuple[Any, ...], ...],
        *,
        problem: str | None = None,
        kind: str = "exception",
    ) -> None:
        self.state = state
        self.effects = effects
        """In their order: ("send", peer, frame), ("timer", token, at or None), ("accepted", message), ("discard",
        message), and ("deliver", message, which broadcast of its source has the payload, and if it is too late,
        how long ago that was)."""
        self.sends = tuple((each[1], each[2]) for each in effects if each[0] == "send")
        self.named = tuple(each[1] for each in effects if each[0] == "accepted")
        self.problem = problem
        self.kind = kind
        """Of the problem: an exception, or a breach of the contract."""
        self.refused = ""
        """Why a frame was not taken."""
        self.quiet = False
        """Whether the call had no effect: it changed the state of its node at most."""
        self.idle = False
        """Whether the call left everything as it was."""
        self.aside = False
        """Whether it was made to judge or to verify something alone, not as part of the search."""
        self.plain = len(self.sends) == len(effects) and problem is None
