"""What a journal holds, as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import astuple

from antecast.core import AntecastError, MessageId, NodeId
from antecast.live.calls import Group


class JournalError(AntecastError):
    """A journal that cannot be used; the text names it and says what to do."""

    def __init__(self, problem: str, *, path: Path | str) -> None:
        super().__init__(f"{path}: {problem}")
        self.problem = problem


class Durability(StrEnum):
    FULL = "full"
    NORMAL = "normal"
    NONE = "none"


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message as the application gets it. Numbers are the node's own, count from 1 and have no gaps.

    Thousands of them wait or are kept in memory, and hold nothing that could refer to them: the garbage collector
    need not walk them over and over."""

    number: int
    origin: NodeId
    seq: int
    at: int
    """The node's local time, in nanoseconds."""
    payload: bytes
    problem: str = ""
    """Why the payload cannot be read here, if it cannot: this node lacks the key. It is then empty."""

    @property
    def id(self) -> MessageId:
        return MessageId(self.origin, self.seq)

    def __iter__(self) -> Iterator[Any]:
        return iter(astuple(self))

    @property
    def row(self) -> tuple[int, NodeId, int, int, bytes]:
        """What the journal keeps of it."""
        return self.number, self.origin, self.seq, self.at, self.payload


@dataclass(frozen=True)
class Identity:
    """Whose journal it is. All of this must agree when it is opened again; `code` may change at a clean stop."""

    number: NodeId
    group: str
    protocol: str
    settings: Mapping[str, Any]
    role: str
    code: str

    @property
    def words(self) -> str:
        group = f" of group {self.group!r}" if self.group else ""
        role = "" if self.role == "host" else f" ({self.role})"
        return f"node {self.number}{role}{group} with {self.protocol}"


@dataclass
class Recovered:
    """Where a journal stands: the last snapshot, and what came after it."""

    state: bytes | None
    exact: bool
    """Whether the snapshot is of the whole object, links included; otherwise it is what survives a crash."""
    position: int
    now: int
    delivered: int
    events: int
    chain: int


@dataclass
class Commit:
    """What is written in one transaction."""

    calls: Group = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    count: int | None = None
    """How many calls there are, where they need not be kept."""
    positions: Mapping[NodeId, int] = field(default_factory=dict)
    """How far the journals of peers have come."""
