"""The messages that a node carries for others, and the names of those that it has seen.

A cache holds `capacity` messages. When it is full, one makes room: the oldest here, a random one, or the one that
expires first. A message that has been dropped is remembered as seen.

Messages with a deadline are kept until it has passed on the local clock. Their names are remembered for as long
again as the longest of them lived here: a late copy is recognised and ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Literal, TypeAlias

from antecast.core import Message, NodeId, State
from antecast.protocols.runs import Runs

Policy: TypeAlias = Literal["oldest", "random", "expire-first"]

Name: TypeAlias = tuple[NodeId, int]
"""A message's source and number."""

PURGE_SHARE = 64
"""Without contacts, expired messages stay for up to this part of a lifetime: at most 1.6 % more of them."""

_MOST_REFUSED = 1 << 16
"""So many names are remembered of messages that had expired before they came."""

_LONG_AGO = -(1 << 62) - 1
_MASK = (1 << 64) - 1


def scrambled(names: Sequence[Name], salt: int) -> list[Name]:
    """Names in an order that is different for each salt."""
    return [names[place] for place in sorted(range(len(names)), key=_keys(names, salt).__getitem__)]


def _keys(names: Sequence[Name], salt: int) -> list[int]:
    """A number for each name, made for all at once: a call for each would take longer than the sorting."""
    return [
        ((z := (origin * 0x9E3779B97F4A7C15 ^ seq * 0xC2B2AE3D27D4EB4F ^ salt) & _MASK) ^ z >> 30)
        * 0xBF58476D1CE4E5B9
        & _MASK
        for origin, seq in names
    ]


class MessageCache:
    def __init__(self, node: NodeId, *, capacity: int | None, policy: Policy) -> None:
        self._node = node
        self._capacity = capacity
        self._policy = policy
        self.messages: dict[Name, Message[Any]] = {}
        self.seen = Runs()
        """What was received, except what has expired."""
        self.held = self.seen if capacity is None else Runs()
        """What is in the cache. Where nothing is dropped for lack of room, that is what was seen."""
        self.expired: set[Name] = set()
        """What has expired here lately."""
        self.dropped = 0
        self._expired_in_turn: deque[tuple[int, Name]] = deque()
        self._refused: dict[Name, None] = {}
        """What had expired before it came, in turn."""
        self._forgotten = _LONG_AGO
        """Names of messages with deadlines up to this one are no longer remembered."""
        self._deadlines: list[tuple[int, Name]] = []
        self._deadline_of: dict[Name, int] = {}
        """Only where the policy needs it."""
        self._longest = 0
        """The longest time that a message had left to live."""

    def keep(self, name: Name, message: Message[Any], deadline: int | None, now: int) -> None:
        """Take in a message that is noted as seen."""
        if self._capacity is None:
            self.messages[name] = message
        elif self._capacity > 0:
            if len(self.messages) >= self._capacity:
                self._make_room()
            self.messages[name] = message
            self.held.add(*name)
            if self._policy == "expire-first" and deadline is not None:
                self._deadline_of[name] = deadline
        if deadline is not None:
            heappush(self._deadlines, (deadline, name))
            left = deadline - now
            if left > self._longest:
                self._longest = left

    def _make_room(self) -> None:
        """Drop one message, by the policy."""
        if self._policy == "oldest":
            victim = next(iter(self.messages))
        elif self._policy == "random":
            names = list(self.messages)
            keys = _keys(names, self.dropped << 20 ^ self._node)
            victim = names[min(range(len(names)), key=keys.__getitem__)]
        else:
            victim = min(self.messages, key=lambda name: (self._deadline_of.get(name, 0), *name))
        self._remove(victim)
        self.dropped += 1

    def _remove(self, name: Name) -> None:
        if self.messages.pop(name, None) is not None and self.held is not self.seen:
            self.held.discard(*name)
            self._deadline_of.pop(name, None)

    def purge(self, now: int) -> None:
        """Drop what has expired, and forget what expired long ago."""
        deadlines, in_turn = self._deadlines, self._expired_in_turn
        while deadlines and deadlines[0][0] < now:
            entry = heappop(deadlines)
            name = entry[1]
            self.seen.discard(*name)
            if self.held is self.seen:
                self.messages.pop(name, None)
            else:
                self._remove(name)
            self.expired.add(name)
            in_turn.append(entry)
        while in_turn and in_turn[0][0] + self._longest < now:
            deadline, name = in_turn.popleft()
            self.expired.discard(name)
            if deadline > self._forgotten:
                self._forgotten = deadline

    def next_purge(self) -> int | None:
        """When expired messages should be dropped, if nothing happens before."""
        return self._deadlines[0][0] + 1 + self._longest // PURGE_SHARE if self._deadlines else None

    def forgot(self, deadline: int | None) -> bool:
        """Whether a message with this deadline may have been here, and have expired, and is no longer remembered.
        It can come again only where the clock has gone back."""
        return deadline is not None and deadline <= self._forgotten

    def never_seen(self, name: Name, deadline: int | None) -> bool:
        """Whether a message has surely never been here."""
        remembered = not self.forgot(deadline)
        return remembered and name not in self.seen and name not in self.expired and name not in self._refused

    def refuse(self, name: Name) -> None:
        """A message had expired before it came: its end is told once, and not again with every copy."""
        if len(self._refused) >= _MOST_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._refused[name] = None

    def snapshot(self) -> State:
        return {
            "seen": {origin: list(runs) for origin, runs in self.seen.spans.items()},
            "deadlines": sorted([deadline, *name] for deadline, name in self._deadlines),
            "expired": [[deadline, *name] for deadline, name in self._expired_in_turn],
            "refused": list(self._refused),
            "forgotten": self._forgotten,
            "longest": self._longest,
            "dropped": self.dropped,
        }

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self.seen.spans = {origin: tuple(runs) for origin, runs in state["seen"].items()}
        self._deadlines = [(deadline, (origin, seq)) for deadline, origin, seq in state["deadlines"]]
        heapify(self._deadlines)
        self._expired_in_turn = deque((deadline, (origin, seq)) for deadline, origin, seq in state["expired"])
        self.expired.clear()
        self.expired.update(name for _, name in self._expired_in_turn)
        self._refused = dict.fromkeys((origin, seq) for origin, seq in state["refused"])
        self._forgotten, self._longest, self.dropped = state["forgotten"], state["longest"], state["dropped"]
        for message in messages:
            self.messages[message.origin, message.seq] = message
            self.held.add(message.origin, message.seq)
        if self._policy == "expire-first":
            self._deadline_of = {name: at for at, name in self._deadlines if name in self.messages}
