"""Δ-causal order: causal order among messages whose lifetime is bounded, by causal barriers
("Causal and Δ-causal broadcast in opportunistic networks", Guidec, Launay and Mahéo, Codes 8 to 13).

A message carries its deadline, which is also its tag, and a barrier: the tags of its immediate
predecessors. It is delivered before its deadline or not at all, and after its predecessors or after
their deadlines.

Two rules, by name:

- `safe`, the default. A deadline never falls below those of the message's causal past, and a sender
  keeps an entry in its barrier until it has expired on every clock of the network (`clock_bound` is the
  largest difference between two clocks). Then, whenever a predecessor has expired at some node, so has
  everything before it, and nothing that is still accepted there can come too late.
- `paper`, as published: a deadline is the sender's time plus the lifetime, entries leave the barrier the
  moment they expire on the sender's clock, and expired entries are looked for only when something
  happens. It violates causal order when lifetimes or clocks differ.

Departures from the paper under both rules: tags grow strictly at a source, whatever its clock does; a
message waits under one predecessor and is looked at again when that one is delivered or expires, so
nothing is ever scanned; a deadline further ahead than the largest lifetime and clock difference allow is
refused, so that a node with a wild clock cannot stretch everyone's lifetimes.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Annotated, Literal, TypeAlias

import msgspec

from antecast.core import Message, NodeId, State
from antecast.protocols.ordering import Ordering, Released

Rule: TypeAlias = Literal["safe", "paper"]

_LONG_AGO, _NEVER = -(1 << 62) - 1, (1 << 62) + 1
"""Before and after every tag."""

_FORGET_SHARE = 64
"""Registries are cleared after this part of a lifetime: an expired entry does no harm meanwhile."""

_SLACK = 10**9
"""Tags are pushed up by single nanoseconds; this allows for a chain of 10⁹ such pushes."""


class Stamp(msgspec.Struct, frozen=True, array_like=True, gc=False):
    deadline: Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
    barrier: Annotated[dict[NodeId, int], msgspec.Meta(max_length=1 << 16)]


class Delta(Ordering[Stamp]):
    stamp_type = Stamp
    waits = False
    timed = True

    def __init__(
        self, node: NodeId, *, lifetime: int, max_lifetime: int, clock_bound: int, rule: Rule, prune: bool
    ) -> None:
        self._node = node
        self._lifetime = lifetime
        self._furthest = max_lifetime + clock_bound + _SLACK
        self._max_lifetime = max_lifetime
        self._clock_bound = clock_bound
        self._safe = rule == "safe"
        self._prune = prune
        self._last_tag = _LONG_AGO
        """Under the safe rule the largest tag of the causal past; under the paper's, our own last one."""
        self._barrier: dict[NodeId, int] = {}
        self._delivered: dict[NodeId, int] = {}
        self._waiting: dict[tuple[int, NodeId], list[Message[Stamp]]] = {}
        """Messages held back, by the tag and the source of one predecessor that each waits for."""
        self._expiries: list[tuple[int, NodeId]] = []
        """A heap of these predecessors; those that were delivered meanwhile go when their turn comes."""
        self._pending = 0
        self._soonest = _NEVER
        """No message held back expires before this."""
        self._forget_at = _LONG_AGO

    def stamp(self, seq: int, now: int, lifetime: int | None) -> Stamp:
        wanted = self._lifetime if lifetime is None else min(lifetime, self._max_lifetime)
        tag = self._last_tag = max(now + wanted, self._last_tag + 1)
        gone = now - self._clock_bound if self._safe else now
        barrier = {source: entry for source, entry in self._barrier.items() if entry >= gone}
        self._barrier = {self._node: tag}
        self._delivered[self._node] = tag
        return Stamp(tag, barrier)

    def deadline(self, message: Message[Stamp]) -> int:
        return message.stamp.deadline

    def admit(self, message: Message[Stamp], now: int) -> str | None:
        deadline = message.stamp.deadline
        if now <= deadline <= now + self._furthest:
            return None
        return "expired" if deadline < now else "deadline too far ahead"

    def accept(self, message: Message[Stamp], now: int) -> Released:
        missing = self._missing(message, now)
        if missing is not None:
            self._hold(message, missing)
            return Released([], [])
        released = self._release([message], now)
        if self._safe:
            return released
        # Code 13: pending messages are looked through after a delivery.
        expired = self.expire(now)
        return Released(released.ready + expired.ready, released.dropped + expired.dropped)

    def _missing(self, message: Message[Stamp], now: int) -> tuple[int, NodeId] | None:
        """A predecessor that a message must wait for, or None."""
        delivered = self._delivered.get
        for source, tag in message.stamp.barrier.items():
            if delivered(source, _LONG_AGO) < tag and tag >= now:
                return tag, source
        return None

    def _hold(self, message: Message[Stamp], missing: tuple[int, NodeId]) -> None:
        waiters = self._waiting.get(missing)
        if waiters is None:
            self._waiting[missing] = [message]
            heappush(self._expiries, missing)
        else:
            waiters.append(message)
        self._pending += 1
        if message.stamp.deadline < self._soonest:
            self._soonest = message.stamp.deadline

    def _release(self, ready: list[Message[Stamp]], now: int) -> Released:
        """Deliver messages, and those that waited for them."""
        dropped: list[Message[Stamp]] = []
        waiting = self._waiting
        for message in ready:  # grows while it is walked
            self._note(message)
            if waiting:
                reached = message.stamp.deadline, message.origin
                waiters = waiting.pop(reached, None)
                if waiters is not None:
                    self._look_again(waiters, now, ready, dropped)
                if not self._safe:
                    for key in self._overtaken(*reached):
                        self._look_again(waiting.pop(key), now, ready, dropped)
        if not waiting:
            self._expiries.clear()
        return Released(ready, dropped)

    def _overtaken(self, tag: int, source: NodeId) -> list[tuple[int, NodeId]]:
        """Earlier messages of a source that others wait for although a later one has been delivered. Under the
        paper's rule they may live on here; under the safe one they have expired, and are found by that."""
        return [key for key in self._waiting if key[1] == source and key[0] < tag]

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
        tag = stamp.deadline
        delivered, barrier = self._delivered, self._barrier
        if delivered.get(origin, _LONG_AGO) < tag:
            delivered[origin] = tag
        if self._prune:
            for source, covered in stamp.barrier.items():
                if barrier.get(source, _NEVER) <= covered:
                    del barrier[source]
        if barrier.get(origin, _LONG_AGO) < tag:
            barrier[origin] = tag
        if self._safe and self._last_tag < tag:
            self._last_tag = tag

    def wakeup(self) -> int | None:
        """Under the safe rule, when the next awaited predecessor expires, or one that has come meanwhile."""
        return self._expiries[0][0] + 1 if self._safe and self._expiries else None

    def expire(self, now: int) -> Released:
        ready: list[Message[Stamp]] = []
        dropped: list[Message[Stamp]] = []
        expiries, waiting = self._expiries, self._waiting
        while expiries and (expiries[0][0] < now or expiries[0] not in waiting):
            waiters = waiting.pop(heappop(expiries), None)
            if waiters is not None:
                self._look_again(waiters, now, ready, dropped)
        if not self._safe and self._soonest < now:
            dropped += self._take_expired(now)
        if now >= self._forget_at:
            self._forget_at = now + self._lifetime // _FORGET_SHARE
            self._forget_expired(now)
        released = self._release(ready, now)
        return Released(released.ready, dropped + released.dropped)

    def _take_expired(self, now: int) -> list[Message[Stamp]]:
        """Take the messages that have expired from among those held back."""
        expired = [message for message in self.pending() if message.stamp.deadline < now]
        for key, waiters in list(self._waiting.items()):
            left = [message for message in waiters if message.stamp.deadline >= now]
            if left:
                self._waiting[key] = left
            else:
                del self._waiting[key]
        self._pending -= len(expired)
        self._soonest = min((message.stamp.deadline for message in self.pending()), default=_NEVER)
        return expired

    def _forget_expired(self, now: int) -> None:
        """What has expired here needs no entry: nothing that arrives can still depend on it."""
        kept = now - self._clock_bound if self._safe else now
        self._delivered = {source: tag for source, tag in self._delivered.items() if tag >= now}
        self._barrier = {source: tag for source, tag in self._barrier.items() if tag >= kept}

    def skip(self, base: Mapping[NodeId, int]) -> Released:
        return Released([], [])

    def progress(self) -> Mapping[NodeId, int]:
        return {}

    def pending(self) -> list[Message[Stamp]]:
        return [message for waiters in self._waiting.values() for message in waiters]

    def snapshot(self) -> State:
        return {"tag": self._last_tag, "barrier": dict(self._barrier), "delivered": dict(self._delivered)}

    def restore(self, state: State, pending: list[Message[Stamp]]) -> None:
        self._last_tag = state["tag"]
        self._barrier = dict(state["barrier"])
        self._delivered = dict(state["delivered"])
        for message in pending:
            missing = self._missing(message, _LONG_AGO)  # it may have expired: found with the next event
            if missing is not None:
                self._hold(message, missing)

    def gauges(self) -> dict[str, int]:
        return {"pending": self._pending, "clock": len(self._delivered), "barrier": len(self._barrier)}
