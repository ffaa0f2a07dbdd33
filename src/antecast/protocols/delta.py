"""Δ-causal order: causal order among messages whose lifetime is bounded, by causal barriers
("Causal and Δ-causal broadcast in opportunistic networks", Guidec, Launay and Mahéo, Codes 8 to 13).

A message carries its deadline, which is also its tag, and a barrier: the tags of its immediate
predecessors. It is delivered before its deadline or not at all, and after its predecessors or after
their deadlines.

Two rules, by name:

- `safe`, the default. A deadline never falls below those of the message's causal past, and a sender
  keeps an entry in its barrier until it has expired on every clock of the network (`clock_bound` is the
  largest difference between two clocks), and will have when the message can be delivered. Then, whenever a
  predecessor has expired at some node, so has everything before it, and nothing that is still accepted there can
  come too late.
- `paper`, as published: a deadline is the sender's time plus the lifetime, entries leave the barrier the
  moment they expire on the sender's clock, and expired entries are looked for only when something
  happens. It violates causal order when lifetimes or clocks differ.

Departures from the paper under both rules: tags grow strictly at a source, whatever its clock does; a
message waits under one predecessor and is looked at again when that one is delivered or expires, so
nothing is ever scanned; deadlines further ahead than the largest lifetime and clock difference allow are
bounded, so that a node with a wild clock cannot stretch everyone's lifetimes:

- A message whose deadline is further ahead than `max_lifetime + clock_bound` is *not delivered yet*. It was
  stamped by a clock out of bounds, or by a correct node that delivered such a message just when its own clock
  allowed it, and whose own deadlines must not fall below that one.
- One that is further ahead by another `clock_bound` cannot be of the second kind: it is *not taken yet*. So
  correct nodes never refuse each other's messages, and a wild clock delays what it stamps itself until its
  messages are no longer ahead of their time. `docs/opportunistic.md` has the argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Annotated, Literal, TypeAlias

import msgspec

from antecast.core import MAX_SOURCES, LocalMisuse, Message, NodeId, RemoteFault, State
from antecast.core.frames import Source
from antecast.core.settings import format_duration
from antecast.protocols.ordering import (
    AHEAD,
    ENTRY_BYTES,
    EXPIRED,
    MESSAGE_BYTES,
    NOTHING,
    UNKNOWN,
    Ordering,
    Released,
)

Rule: TypeAlias = Literal["safe", "paper"]

_LONG_AGO, _NEVER = -(1 << 62) - 1, (1 << 62) + 1
"""Before and after every tag."""

_FORGET_SHARE = 64
"""Registries are cleared after this part of a lifetime: an expired entry does no harm until then."""

_SLACK = 10**9
"""Tags are pushed up by single nanoseconds; this allows for a chain of 10⁹ such pushes."""

_PUSHES = 1000
"""This many pushes are allowed for when a message is delivered; after more of them it waits for nanoseconds."""


Tag: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]


class Stamp(msgspec.Struct, frozen=True, array_like=True, gc=False):
    deadline: Tag
    barrier: Annotated[dict[Source, Tag], msgspec.Meta(max_length=MAX_SOURCES)]


class Delta(Ordering[Stamp]):
    stamp_type = Stamp
    waits = False
    timed = True

    def __init__(
        self, node: NodeId, *, lifetime: int, max_lifetime: int, clock_bound: int, rule: Rule, prune: bool
    ) -> None:
        self._node = node
        self._lifetime = lifetime
        self._max_lifetime = max_lifetime
        self._safe = rule == "safe"
        self._reach = int(max_lifetime + clock_bound)
        self._furthest = self._reach + (_PUSHES if self._safe else _SLACK)
        """How far ahead the deadline of a message may be when it is delivered."""
        self._beyond = self._reach + clock_bound + 2 * _SLACK if self._safe else self._furthest
        """How far ahead it may be when the message is taken."""
        self._clock_bound = clock_bound
        self._prune = prune
        self._last_tag = _LONG_AGO
        """Under the safe rule, the largest tag of the causal past; under the paper's, our own last one."""
        self._own_tag = _LONG_AGO
        self._barrier: dict[NodeId, int] = {}
        self._delivered: dict[NodeId, int] = {}
        self._waiting: dict[NodeId, dict[int, list[Message[Stamp]]]] = {}
        """Messages held back, by the source and the tag of one predecessor that each waits for."""
        self._expiries: list[tuple[int, NodeId]] = []
        """A heap of these predecessors; those delivered meanwhile are removed when their turn comes."""
        self._pending = 0
        self._soonest = _NEVER
        """No held message expires before this."""
        self._forget_at = _LONG_AGO
        self._shortest = int(lifetime)
        """The shortest lifetime that a message of this node had."""
        self._forgot_at = self._last_forgotten = _LONG_AGO
        """When entries of the barrier were last forgotten, and the largest tag among all that were."""

    def stamp(self, seq: int, now: int, lifetime: int | None) -> Stamp:
        wanted = self._lifetime if lifetime is None else lifetime
        if not 0 <= wanted <= self._max_lifetime:
            longest = format_duration(self._max_lifetime)
            raise LocalMisuse(f"a lifetime of {format_duration(wanted)} is not from 0s to max_lifetime, {longest}")
        tag, gone = max(now + wanted, self._last_tag + 1), now
        if self._safe:
            if now < self._forgot_at:  # the clock has gone back
                tag = max(tag, self._last_forgotten + self._reach + 1)
            gone = min(now, tag - self._max_lifetime) - self._clock_bound
        barrier = {source: entry for source, entry in self._barrier.items() if entry >= gone}
        if len(barrier) > MAX_SOURCES:
            raise LocalMisuse(
                f"the message would depend on {len(barrier)} sources, and a frame holds {MAX_SOURCES};"
                " wait until some of their messages have expired, or use shorter lifetimes"
            )
        self._last_tag = self._own_tag = tag
        self._shortest = min(self._shortest, int(wanted))
        self._barrier = {self._node: tag}
        self._delivered[self._node] = tag
        return Stamp(tag, barrier)

    def deadline(self, message: Message[Stamp]) -> int:
        return message.stamp.deadline

    def admit(self, message: Message[Stamp], now: int) -> str | None:
        stamp = message.stamp
        deadline, barrier = stamp.deadline, stamp.barrier
        if deadline < now:
            return EXPIRED
        ahead = now + self._beyond
        if barrier:
            latest = max(barrier.values())
            if latest >= deadline:
                if self._safe or barrier.get(message.origin, _LONG_AGO) >= deadline:
                    raise RemoteFault(f"message {message.id} expires before a message that it waits for")
                if latest > ahead:
                    return AHEAD
            own = barrier.get(self._node)
            if own is not None and own > self._own_tag and own >= now and deadline <= ahead:
                return UNKNOWN
        return None if deadline <= ahead else AHEAD

    def early(self, message: Message[Stamp], now: int) -> bool:
        return self._missing(message, now) is not None

    def weight(self, message: Message[Stamp]) -> int:
        return MESSAGE_BYTES + len(message.payload) + ENTRY_BYTES * len(message.stamp.barrier)

    def accept(self, message: Message[Stamp], now: int) -> Released:
        missing = self._missing(message, now)
        if missing is not None:
            self._hold(message, missing)
            return NOTHING
        released = self._release([message], now)
        if self._safe:
            return released
        # Code 13: pending messages are looked through after a delivery.
        expired = self.expire(now)
        return Released(released.ready + expired.ready, released.dropped + expired.dropped)

    def _missing(self, message: Message[Stamp], now: int) -> tuple[int, NodeId] | None:
        """A predecessor that a message must wait for, or None. A message whose deadline is too far ahead waits
        until it no longer is, as if for a message of its source that expires just before."""
        deadline = message.stamp.deadline
        if deadline > now + self._furthest:
            return deadline - self._furthest - 1, message.origin
        delivered = self._delivered.get
        for source, tag in message.stamp.barrier.items():
            if delivered(source, _LONG_AGO) < tag and tag >= now:
                return tag, source
        return None

    def _hold(self, message: Message[Stamp], missing: tuple[int, NodeId]) -> None:
        tag, source = missing
        by_tag = self._waiting.get(source)
        if by_tag is None:
            by_tag = self._waiting[source] = {}
        waiters = by_tag.get(tag)
        if waiters is None:
            by_tag[tag] = [message]
            heappush(self._expiries, missing)
        else:
            waiters.append(message)
        self._pending += 1
        if message.stamp.deadline < self._soonest:
            self._soonest = message.stamp.deadline

    def _take_waiters(self, tag: int, source: NodeId) -> list[Message[Stamp]]:
        """Take out the messages that wait for one predecessor."""
        by_tag = self._waiting.get(source, {})
        waiters = by_tag.pop(tag, [])
        if not by_tag:
            self._waiting.pop(source, None)
        return waiters

    def _release(self, ready: list[Message[Stamp]], now: int) -> Released:
        """Deliver messages, and those that waited for them or for an earlier one of their source: that one has
        expired, is still alive here under the paper's rule, or never existed.

        Since a later one stands for it, an earlier one that comes all the same is dropped under the safe rule:
        others may have delivered it before they broadcast what was delivered here without it. Only a clock out of
        bounds brings this about, or a source that lies: its tags do not grow, or do not name its own last message.
        """
        dropped: list[Message[Stamp]] = []
        overtaken = False
        waiting, delivered = self._waiting, self._delivered
        for message in ready:  # grows while it is walked
            source, reached = message.origin, message.stamp.deadline
            if delivered.get(source, _LONG_AGO) < reached:
                delivered[source] = reached
            elif self._safe:
                overtaken = True
                dropped.append(message)
                continue
            self._note(message)
            if waiting and source in waiting:
                by_tag = waiting[source]
                earlier = [tag for tag in by_tag if tag < reached]
                if reached in by_tag:
                    self._look_again(self._take_waiters(reached, source), now, ready, dropped)
                for tag in earlier:
                    self._look_again(self._take_waiters(tag, source), now, ready, dropped)
        if not waiting:
            self._expiries.clear()
        if overtaken:
            gone = set(map(id, dropped))
            ready = [message for message in ready if id(message) not in gone]
        return Released(ready, dropped)

    def _look_again(
        self, messages: list[Message[Stamp]], now: int, ready: list[Message[Stamp]], dropped: list[Message[Stamp]]
    ) -> None:
        self._pending -= len(messages)
        for message in messages:
            if message.stamp.deadline < now:
                dropped.append(message)
            elif (missing := self._missing(message, now)) is not None:
                self._hold(message, missing)
            else:
                ready.append(message)

    def _note(self, message: Message[Stamp]) -> None:
        origin, stamp = message.origin, message.stamp
        tag, barrier = stamp.deadline, self._barrier
        if self._prune:
            for source, covered in stamp.barrier.items():
                if barrier.get(source, _NEVER) <= covered:
                    del barrier[source]
        if barrier.get(origin, _LONG_AGO) < tag:
            barrier[origin] = tag
        if self._safe and self._last_tag < tag:
            self._last_tag = tag

    def wakeup(self) -> int | None:
        """Under the safe rule, when the next awaited predecessor expires, or one that has come since."""
        return self._expiries[0][0] + 1 if self._safe and self._expiries else None

    def expire(self, now: int) -> Released:
        ready: list[Message[Stamp]] = []
        dropped: list[Message[Stamp]] = []
        expiries, waiting = self._expiries, self._waiting
        while expiries:
            tag, source = expiries[0]
            if tag >= now and tag in waiting.get(source, ()):
                break
            heappop(expiries)
            self._look_again(self._take_waiters(tag, source), now, ready, dropped)
        if not self._safe and self._soonest < now:
            dropped += self._take_expired(now)
        if now >= self._forget_at:
            self._forget_at = now + self._lifetime // _FORGET_SHARE
            self._forget_expired(now)
        released = self._release(ready, now)
        return Released(released.ready, dropped + released.dropped)

    def _take_expired(self, now: int) -> list[Message[Stamp]]:
        """Take out the held messages that have expired."""
        expired = [message for message in self.pending() if message.stamp.deadline < now]
        for source, tag in [(source, tag) for source, by_tag in self._waiting.items() for tag in by_tag]:
            left = [message for message in self._waiting[source][tag] if message.stamp.deadline >= now]
            if left:
                self._waiting[source][tag] = left
            else:
                self._take_waiters(tag, source)
        self._pending -= len(expired)
        self._soonest = min((message.stamp.deadline for message in self.pending()), default=_NEVER)
        return expired

    def _forget_expired(self, now: int) -> None:
        """What has expired here needs no entry: nothing that arrives can still depend on it."""
        self._delivered = {source: tag for source, tag in self._delivered.items() if tag >= now}
        kept = now - (self._reach - self._shortest) if self._safe else now
        gone = [source for source, tag in self._barrier.items() if tag < kept]
        for source in gone:
            self._last_forgotten = max(self._last_forgotten, self._barrier.pop(source))
        if gone:
            self._forgot_at = max(self._forgot_at, now)

    def skip(self, base: Mapping[NodeId, int]) -> Released:
        return Released([], [])

    def progress(self) -> Mapping[NodeId, int]:
        return {}

    def pending(self) -> list[Message[Stamp]]:
        return [each for by_tag in self._waiting.values() for waiters in by_tag.values() for each in waiters]

    def snapshot(self) -> State:
        return {
            "tag": self._last_tag,
            "own": self._own_tag,
            "barrier": dict(self._barrier),
            "delivered": dict(self._delivered),
            "forgotten": [self._shortest, self._forgot_at, self._last_forgotten],
        }

    def restore(self, state: State, pending: list[Message[Stamp]]) -> None:
        self._last_tag, self._own_tag = state["tag"], state["own"]
        self._barrier = dict(state["barrier"])
        self._delivered = dict(state["delivered"])
        if "forgotten" in state:  # not in states of version 0.3
            self._shortest, self._forgot_at, self._last_forgotten = state["forgotten"]
        for message in pending:
            self._hold(message, (_LONG_AGO, self._node))  # `expire` looks at all of them

    def gauges(self) -> dict[str, int]:
        return {"pending": self._pending, "clock": len(self._delivered), "barrier": len(self._barrier)}
