"""The machine: one protocol object, fed with calls and nothing else.

It keeps the rules of `core.protocol` and no more. Whoever owns a machine makes one call at a time, commits the
calls before it lets any of their effects out, and lets them out in order. The same calls, from the same start,
give the same machine and the same effects: recovery and replay are this class and a loop.

`Clock` is the local time that calls are given: it never goes back, not even over a restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from antecast.core import (
    CancelTimer,
    Effect,
    Frame,
    Leaving,
    LinkSafety,
    LocalMisuse,
    NodeId,
    Protocol,
    SetTimer,
    Timer,
)
from antecast.live.calls import Call, CallKind
from antecast.live.frozen import freeze, thaw
from antecast.live.security import Security, Unsecured
from antecast.protocols.registry import Specification


class Machine:
    """A protocol object, its timers, and the links that are up at its end."""

    def __init__(
        self,
        spec: Specification,
        number: NodeId,
        settings: Any,
        security: Security | None = None,
        *,
        role: str = "host",
    ) -> None:
        self.spec, self.number, self.settings, self.role = spec, number, settings, role
        self.security: Security = security if security is not None else Unsecured()
        self.protocol = self._made()
        self.frame: Frame | None = None
        """The last frame that was received again in a replay."""
        self.timers: dict[Timer, int] = {}
        """When each timer is due, by the local clock."""
        self.links: dict[NodeId, None] = {}
        self._replaying: dict[int, Callable[[Call], list[Effect]]] = {
            CallKind.BROADCAST: lambda call: self.broadcast(call.data, call.now, call.option),
            CallKind.RECEIVE: self._receive_again,
            CallKind.LINK_UP: lambda call: self.link_up(call.peer, call.now),
            CallKind.LINK_DOWN: lambda call: self.link_down(call.peer, call.now),
            CallKind.TIMER: lambda call: self.timer(call.data.decode(), call.now),
            CallKind.RESUME: lambda call: self.resume(call.now),
            CallKind.LEAVE: lambda call: self.leave(call.now),
            CallKind.INTRODUCE: lambda call: self.introduce(call.peer, call.option or 0),
        }

    def _made(self) -> Protocol:
        """A new object of this number and role."""
        station = self.spec.make_station if self.role == "station" else None
        return (self.spec.make if station is None else station)(self.number, self.settings)

    # The calls. Each returns the effects, which are the owner's to carry out once the call is committed.

    def broadcast(self, payload: bytes, now: int, lifetime: int | None = None) -> list[Effect]:
        return self._took(self.protocol.broadcast(payload, now, lifetime=lifetime))

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        effects = self.protocol.receive(frame, sender, now)
        return self._took(effects) if effects else effects

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        self.links[peer] = None
        return self._took(self.protocol.link_up(peer, now))

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        self.links.pop(peer, None)
        return self._took(self.protocol.link_down(peer, now))

    def timer(self, token: Timer, now: int) -> list[Effect]:
        self.timers.pop(token, None)
        return self._took(self.protocol.timer(token, now))

    def resume(self, now: int) -> list[Effect]:
        return self._took(self.protocol.resume(now))

    def leave(self, now: int) -> list[Effect]:
        if not isinstance(self.protocol, Leaving):
            raise LocalMisuse(f"{self.spec.name} has no goodbye: a node that leaves just stops")
        return self._took(self.protocol.leave(now))

    def introduce(self, peer: NodeId, by: NodeId) -> list[Effect]:
        if isinstance(self.protocol, LinkSafety):
            self.protocol.introduce(peer, by)
        return []

    def _took(self, effects: list[Effect]) -> list[Effect]:
        """Timers are the machine's own: setting one tells nobody anything."""
        for effect in effects:
            kind = effect.__class__
            if kind is SetTimer:
                self.timers[effect.token] = effect.at  # type: ignore[union-attr]
            elif kind is CancelTimer:
                self.timers.pop(effect.token, None)  # type: ignore[union-attr]
        return effects

    # From the journal.

    def replay(self, call: Call) -> list[Effect]:
        """Make a call again that was made before, on the same state."""
        return self._replaying[call.kind](call)

    def _receive_again(self, call: Call) -> list[Effect]:
        frame = self.frame = self.protocol.codec.decode(self.security.split(call.data))
        self.security.replayed(frame, call.data)
        return self.receive(frame, call.peer, call.now)

    def save(self) -> bytes:
        """What survives a crash: the protocol's snapshot, and the signatures of what it may pass on."""
        return msgspec.msgpack.encode([self.protocol.snapshot(), self.security.snapshot()])

    def save_exactly(self) -> bytes:
        """The whole machine, links and timers included; raises `TypeError` where that cannot be written."""
        frozen = freeze(self.protocol, self._made())
        signatures = self.security.snapshot()
        return msgspec.msgpack.encode([frozen, signatures, self.timers, list(self.links)])

    def load(self, saved: bytes, *, exact: bool = False) -> None:
        """Take over a state that was saved."""
        state, signatures, *rest = msgspec.msgpack.decode(saved, strict=False)
        if exact:
            self.protocol = thaw(state, self._made())
            self.timers, self.links = rest[0], dict.fromkeys(rest[1])
        else:
            self.protocol.restore(state)
        self.security.restore(signatures)

    def renewed(self, saved: bytes) -> Machine:
        """A new object from what survives: without links and timers, as after a crash."""
        made = Machine(self.spec, self.number, self.settings, self.security, role=self.role)
        made.load(saved)
        return made


class Clock:
    """Local time in nanoseconds: follows the time of day, never goes back, never stands still.

    It advances with the time since the machine booted. Where the time of day differs, after someone has set it,
    the clock runs up to half as fast again, or half as slow, until the two agree.
    """

    def __init__(
        self,
        latest: int = 0,
        *,
        elapsed: Callable[[], int] | None = None,
        of_day: Callable[[], int] = time.time_ns,
        rate: float = 1.0,
    ) -> None:
        self.rate = rate
        """How many of its seconds pass in a second of the event loop: more than one in emulations."""
        self._elapsed = elapsed if elapsed is not None else _since_boot
        self._of_day = of_day
        self._last = self._elapsed()
        self._now = max(latest + 1, of_day())

    def read(self) -> int:
        elapsed = self._elapsed()
        passed = elapsed - self._last
        if passed > 0:
            self._last = elapsed
            behind = self._of_day() - self._now - passed
            half = passed >> 1
            self._now += passed + (behind if -half <= behind <= half else half if behind > 0 else -half)
        return self._now


_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def _since_boot() -> int:
    """Counts on while the machine sleeps, where the system can tell."""
    return time.clock_gettime_ns(_BOOT)
