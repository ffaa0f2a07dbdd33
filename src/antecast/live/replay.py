"""The flight recorder: a journal, run through its protocol again, call by call.

A journal holds everything that its node was told since the oldest snapshot in it. Replaying it gives the same
effects, byte for byte, and so the same frames, deliveries and events: an incident in production becomes a test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from antecast.core import (
    Accepted,
    Alert,
    CancelTimer,
    Deliver,
    Discard,
    Effect,
    Frame,
    Send,
    SetTimer,
    Transmit,
)
from antecast.live.calls import Call, CallKind
from antecast.live.entries import Identity, JournalError
from antecast.live.eventlog import EventLog, live_schema
from antecast.live.journal import Journal
from antecast.live.machine import Machine
from antecast.live.recovery import load, replay
from antecast.live.security import Security, Unsecured
from antecast.protocols.code import code_identity
from antecast.protocols.registry import specification

if TYPE_CHECKING:
    from antecast.history.log import Sink


@dataclass
class Step:
    """One call that was made again."""

    position: int
    call: Call
    frame: Frame | None
    effects: list[Effect]
    machine: Machine
    """As it is after the call; `machine.protocol` is the protocol object."""


class Recording:
    """A journal to be replayed, from the oldest snapshot that it holds. Nothing in it is changed."""

    def __init__(self, path: Path, *, any_code: bool = False) -> None:
        self.journal = Journal.look(path)
        self.identity: Identity = self.journal.identity()
        spec = specification(self.identity.protocol)
        if not any_code and code_identity(spec) != self.identity.code:
            version = self.journal.meta("version")
            raise JournalError(
                f"was written by other code of {self.identity.protocol} (Antecast {version}); replay it with that "
                "code, or see how this code differs with antecast replay --any-code",
                path=path,
            )
        settings = spec.configure(self.identity.settings)
        self._security: Security = Packed() if self.identity.group else Unsecured()
        self._fresh = Machine(spec, self.identity.number, settings, self._security, role=self.identity.role)
        self.first = self.journal.oldest() + 1
        """The position of the first call that can be replayed."""
        self._renewals = {position for position, exact in self.journal.snapshots() if not exact}

    @property
    def last(self) -> int:
        return self.journal.position

    def steps(self, until: int | None = None) -> Iterator[Step]:
        """All calls in order, made again; up to and with a position."""
        start, machine = self.journal.recovered(self.first - 1), self._fresh
        load(machine, start, self.journal)
        for position, call in self.journal.calls(start):
            if position - 1 in self._renewals:  # here the node came back from a crash or a stop
                machine = machine.renewed(machine.save())
            if until is not None and position > until:
                return
            effects = replay(machine, position, call, self.journal)
            frame = machine.frame if call.kind == CallKind.RECEIVE else None
            yield Step(position, call, frame, effects, machine)

    def write_events(self, sink: Sink) -> int:
        """The event log of all that can be replayed; returns how many events that are."""
        start = self.journal.recovered(self.first - 1)
        log = EventLog(self.identity.number, self.identity.group or "live", pos=start.events)
        log.write_to(sink)
        for step in self.steps():
            log.note(step.call, step.effects, step.frame, step.machine.protocol.codec)
        log.close()
        return log.pos - start.events

    def close(self) -> None:
        self.journal.close()


class Packed(Unsecured):
    """Reads frames out of packets without the keys of their group: they were verified when they came."""

    def split(self, packet: bytes) -> bytes:
        from antecast.live.groups.packets import decode_packet

        return decode_packet(packet).frame


def is_journal(path: Path) -> bool:
    """Whether a file is a database of SQLite, as journals are."""
    if not path.is_file():  # opening a pipe would wait for its other end
        return False
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\x00"
    except OSError:
        return False


def write_event_log(path: Path, to: Path) -> int:
    """The events of a journal, as a Parquet file that the auditor takes; returns how many they are."""
    from antecast.history.log import ParquetSink

    recording = Recording(path)
    try:
        return recording.write_events(ParquetSink(to, live_schema()))
    finally:
        recording.close()


# In words.


def describe_call(step: Step) -> str:
    """One line that says what the protocol was told."""
    call, kind = step.call, CallKind(step.call.kind)
    if kind is CallKind.RECEIVE and step.frame is not None:
        return f"receive {describe_frame(step.frame)} from {call.peer}, {len(call.data)} bytes"
    if kind is CallKind.BROADCAST:
        return f"broadcast {call.data[:40]!r}{'…' if len(call.data) > 40 else ''}"
    if kind is CallKind.TIMER:
        return f"timer {call.data.decode()}"
    return f"{kind.word} {call.peer}" if call.peer >= 0 else kind.word


def describe_frame(frame: Frame) -> str:
    names = ", ".join(str(message.id) for message in frame.carried)
    return f"{type(frame).__name__} {names}".rstrip()


def describe_effect(effect: Effect) -> str:
    match effect:
        case Send(to=to, frame=frame):
            return f"send {describe_frame(frame)} to {to}"
        case Transmit(frame=frame):
            return f"transmit {describe_frame(frame)}"
        case Deliver(message=message):
            return f"deliver {message.id} {message.payload[:40]!r}"
        case Accepted(id=name):
            return f"accepted {name}"
        case Discard(id=name, reason=reason):
            return f"discard {name}: {reason}"
        case Alert(text=text):
            return f"alert: {text}"
        case SetTimer(token=token, at=at):
            return f"set timer {token} at {at}"
        case CancelTimer(token=token):
            return f"cancel timer {token}"
