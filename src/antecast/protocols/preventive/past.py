"""The past of a process: what it has, how much of it it still keeps, and who it knows.

- `vector` counts, for each known source, the messages that are here (delivered, or in a base). Messages of a
  source come in order and without a gap, so a count says it all.
- `log` keeps the last `retain` of them in the order of their delivery. Positions in the order of delivery are
  absolute: `first` is that of the oldest entry kept, `end` that of the next one.
- `trimmed` is the vector as it was at `first`: what is no longer kept. It is causally closed, since entries
  leave the log in the order in which they came.

A source is known when it is a *founder* (its number is below `founders`) or has been announced by a message of
a known source. A message of an unknown source is a leftover of one that has gone, and is dropped: so a source
can be forgotten as soon as it is known to have gone, however late its messages still turn up. `forgotten`
remembers the latest of those that went, to tell them from sources that were never heard of when two pasts are
compared; nothing about duplicates depends on it. It holds `TOMBSTONES` numbers at the most, and more only while
their departures are in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import Final

from antecast.core import Message, NodeId, State
from antecast.protocols.preventive.frames import CODEC, EVERYTHING, Entry, Notice

TOMBSTONES: Final = 4096
"""Sources remembered as gone. One more is a number; at this size they cost less than one large payload."""


class Past:
    __slots__ = ("first", "forgot_more", "forgotten", "founders", "log", "retain", "trimmed", "vector")

    def __init__(self, *, retain: int, founders: int) -> None:
        self.retain = retain
        self.founders = founders
        self.vector: dict[NodeId, int] = {}
        self.log: deque[Entry] = deque()
        self.first = 0
        self.trimmed: dict[NodeId, int] = {}
        self.forgotten: dict[NodeId, int] = {}
        self.forgot_more = False

    @property
    def end(self) -> int:
        return self.first + len(self.log)

    @property
    def empty(self) -> bool:
        return not self.vector

    def count(self, source: NodeId) -> int | None:
        """How many messages of a source are here; None if it is not known."""
        count = self.vector.get(source)
        return 0 if count is None and source < self.founders else count

    def add(self, entry: Entry) -> None:
        """Take in the next message of its origin."""
        self.vector[entry.origin] = entry.seq
        self.log.append(entry)
        if entry.__class__ is Notice:
            self._heed(entry)
        if len(self.log) > self.retain:
            self.trim()

    def _heed(self, notice: Notice) -> None:
        source = notice.source
        if source < self.founders:
            return
        if not notice.gone:
            if source not in self.forgotten:  # announced twice, and gone since
                self.vector.setdefault(source, 0)
        elif self.vector.pop(source, None) is not None:
            self._bury(source, self.end - 1)

    def _bury(self, source: NodeId, position: int) -> None:
        self.forgotten[source] = position
        while (
            len(self.forgotten) > TOMBSTONES and self.forgotten[oldest := next(iter(self.forgotten))] < self.first
        ):
            del self.forgotten[oldest]
            self.forgot_more = True

    def trim(self) -> None:
        log, trimmed = self.log, self.trimmed
        while len(log) > self.retain:
            entry = log.popleft()
            origin = entry.origin
            # An origin that is neither has gone with a base that was taken; it must not come back.
            if (origin in trimmed or origin < self.founders) and entry.seq > trimmed.get(origin, 0):
                trimmed[origin] = entry.seq
            if isinstance(entry, Notice) and entry.source >= self.founders:
                if entry.gone:
                    trimmed.pop(entry.source, None)
                elif self.forgotten.get(entry.source, self.first) >= self.first:
                    trimmed.setdefault(entry.source, 0)
            self.first += 1

    def since(self, position: int) -> Iterator[Entry]:
        """What was added from a position on, which must still be held."""
        return islice(self.log, position - self.first, None)

    def above(self, upto: Mapping[NodeId, int]) -> Iterator[Entry]:
        """What is kept and not covered by another's vector, in the order of delivery."""
        return (entry for entry in self.log if entry.seq > upto.get(entry.origin, 0))

    def lacking(self, upto: Mapping[NodeId, int], had: Collection[NodeId]) -> dict[NodeId, int]:
        """What another with that vector lacks and this log cannot give; `had` came and went there."""
        lacking = {
            source: count
            for source, count in self.trimmed.items()
            if count > upto.get(source, 0) and source not in had
        }
        for source in upto:
            if self.count(source) is None and self._left_the_log(source):
                lacking[source] = EVERYTHING
        return lacking

    def _left_the_log(self, source: NodeId) -> bool:
        """Whether an unknown source has gone, and its departure is no longer kept. When in doubt, it has."""
        position = self.forgotten.get(source)
        return self.forgot_more if position is None else position < self.first

    def base_for(self, upto: Mapping[NodeId, int]) -> tuple[dict[NodeId, int], list[NodeId]]:
        """What another has to take as given before this log can serve it, and the sources gone in it."""
        gone = [
            source
            for source in upto
            if source not in self.trimmed and self.count(source) is None and self._left_the_log(source)
        ]
        return dict(self.trimmed), gone

    def covers(self, lacking: Mapping[NodeId, int]) -> bool:
        """Whether nothing of that is lacking here any more."""
        return all(count <= self.vector.get(source, 0) or self.gone(source) for source, count in lacking.items())

    def gone(self, source: NodeId) -> bool:
        """Whether a source is known to have come and gone."""
        return source in self.forgotten and source not in self.vector

    def take(self, base: Mapping[NodeId, int], gone: Collection[NodeId]) -> dict[NodeId, int]:
        """Count a base as received; for each source that this moved on, the count it moved to.

        A source of the base that has gone here stays gone: its last messages would be delivered again.
        """
        moved = {}
        for source, count in base.items():
            mine = self.count(source)
            if mine is None:
                if source in self.forgotten or self.forgot_more:
                    continue
                self.vector[source] = count
            elif count > mine:
                self.vector[source] = count
            else:
                continue
            moved[source] = count
        for source, count in moved.items():
            self.trimmed[source] = max(count, self.trimmed.get(source, 0))
        for source in gone:
            if self.vector.pop(source, None) is not None:
                self.trimmed.pop(source, None)
                self._bury(source, self.first - 1)
                moved[source] = EVERYTHING
        return moved

    def snapshot(self) -> State:
        return {
            "vector": dict(self.vector),
            "log": [CODEC.encode(entry) for entry in self.log],
            "first": self.first,
            "trimmed": dict(self.trimmed),
            "forgotten": dict(self.forgotten),
            "forgot_more": self.forgot_more,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot, in place: others hold on to the vector and the log."""
        self.vector.clear()
        self.vector.update(state["vector"])
        self.log.clear()
        self.log.extend(entry for entry in map(CODEC.decode, state["log"]) if isinstance(entry, Message | Notice))
        self.first = state["first"]
        self.trimmed = dict(state["trimmed"])
        self.forgotten = dict(state["forgotten"])
        self.forgot_more = state["forgot_more"]
