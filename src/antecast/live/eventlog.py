"""The event log of a live node: the same table that the simulator writes (`docs/event-log.md`).

Rows follow from the calls alone, so a log needs no durability of its own. It is written in parts that begin and
end at snapshots. The part at hand is lost in a crash, and written again when the calls since the last snapshot are
replayed. Logs of several nodes are judged together: they have the same run, the group's name.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from antecast.core import (
    Accepted,
    Codec,
    Deliver,
    Discard,
    Effect,
    Frame,
    MessageId,
    NodeId,
    OutputError,
    Send,
    Transmit,
)
from antecast.live.calls import Call, CallKind

if TYPE_CHECKING:
    import pyarrow as pa

    from antecast.history.log import EventWriter, Sink


class Kind(IntEnum):
    """The codes of `antecast.history.schema`, which is only loaded where a log is written."""

    BROADCAST = 0
    SEND = 1
    RECEIVE = 2
    DELIVER = 3
    DISCARD = 4
    EXPIRE = 5
    UP = 6
    DOWN = 7
    RECOVER = 9


_NONE: Final = -1
_OF_LINKS: Final[dict[int, Kind]] = {CallKind.LINK_UP: Kind.UP, CallKind.LINK_DOWN: Kind.DOWN}


class EventLog:
    """Turns calls and their effects into rows; without a folder it does nothing."""

    def __init__(self, number: NodeId, run: str, *, pos: int = 0, log_frames: bool = True) -> None:
        self.number, self.run, self.pos = number, run, pos
        self.active = False
        self._log_frames = log_frames
        self._folder: Path | None = None
        self._writer: EventWriter | None = None
        self._began = pos

    @classmethod
    def open(cls, folder: Path | None, number: NodeId, run: str, *, pos: int, log_frames: bool) -> EventLog:
        """Begin a part in a folder, in place of those that a crash has left without their calls."""
        made = cls(number, run, pos=pos, log_frames=log_frames)
        if folder is not None:
            made._folder = folder
            try:
                folder.mkdir(parents=True, exist_ok=True)
                for part in folder.glob(f"node-{number}-*.parquet"):
                    begin = part.stem.rpartition("-")[2]
                    if begin.isdecimal() and int(begin) >= pos:  # else it is somebody else's
                        part.unlink()
                for part in folder.glob(f".node-{number}-*.partial"):
                    part.unlink()
            except OSError as error:
                raise OutputError(f"cannot write: {error.strerror}", path=folder) from error
            made._begin()
        return made

    def _begin(self) -> None:
        from antecast.history.log import ParquetSink

        assert self._folder is not None
        self._began = self.pos
        self.write_to(ParquetSink(self._folder / f"node-{self.number}-{self.pos:012d}.parquet", live_schema()))

    def write_to(self, sink: Sink) -> None:
        """Write the rows to come to this sink."""
        from antecast.history.log import EventWriter

        self._writer = EventWriter(self.run, sink, batch_rows=4096)
        self.active = True

    def keep(self) -> None:
        """A snapshot is written: what came before it will not be replayed again."""
        if self._folder is not None and self._writer is not None and self.pos > self._began:
            self._writer.close()
            self._begin()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self.active = False

    # Rows.

    def note(self, call: Call, effects: list[Effect], frame: Frame | None, codec: Codec) -> None:
        """A call was made: its own row, then one for each effect that is an event."""
        now, kind = call.now, call.kind
        if kind == CallKind.RECEIVE:
            if self._log_frames and frame is not None:
                self._frame(Kind.RECEIVE, frame, len(call.data), call.peer, now)
        elif kind == CallKind.BROADCAST:
            name = next(filter(None, map(name_of, effects)))
            self._row(now, Kind.BROADCAST, name.origin, name.seq, _NONE, len(call.data))
        elif kind in _OF_LINKS:
            self._row(now, _OF_LINKS[kind], peer=call.peer)
        elif kind == CallKind.RESUME:
            self._row(now, Kind.RECOVER)
        for effect in effects:
            if isinstance(effect, Deliver):
                message = effect.message
                self._row(now, Kind.DELIVER, message.origin, message.seq, _NONE, len(message.payload))
            elif isinstance(effect, Send) and self._log_frames:
                self._frame(Kind.SEND, effect.frame, codec.size(effect.frame), effect.to, now)
            elif isinstance(effect, Transmit) and self._log_frames:
                self._frame(Kind.SEND, effect.frame, codec.size(effect.frame), _NONE, now)
            elif isinstance(effect, Discard):
                end = Kind.EXPIRE if effect.reason == "expired" else Kind.DISCARD
                self._row(now, end, effect.id.origin, effect.id.seq)

    def _frame(self, kind: Kind, frame: Frame, size: int, peer: NodeId, now: int) -> None:
        """A row for each message inside; the first has the bytes of the frame."""
        carried = frame.carried
        if not carried:
            self._row(now, kind, _NONE, _NONE, peer, size)
        for message in carried:
            self._row(now, kind, message.origin, message.seq, peer, size)
            size = 0

    def _row(
        self, now: int, kind: Kind, origin: int = _NONE, seq: int = _NONE, peer: int = _NONE, size: int = _NONE
    ) -> None:
        assert self._writer is not None
        self._writer.append(self.number, self.pos, now, kind, origin, seq, peer, size)
        self.pos += 1


def live_schema() -> pa.Schema:
    """The schema of the event log, marked as one whose times are those of local clocks."""
    from antecast.history.schema import EVENTS

    return EVENTS.with_metadata({**(EVENTS.metadata or {}), b"antecast.clock": b"local"})


def name_of(effect: Effect) -> MessageId | None:
    """The name that a broadcast's message was given, if this effect says it."""
    if isinstance(effect, Deliver):
        return effect.message.id
    return effect.id if isinstance(effect, Accepted) else None
