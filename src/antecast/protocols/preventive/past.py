"""The past of a process: what it has, how much of that it still keeps, and whom it knows.

- `vector` counts, for each known source, the messages that are here (delivered, or in a base). Messages of a
  source come in order and without a gap, so a count says it all.
- `log` keeps the last `retain` of them in the order of their delivery. Positions in the order of delivery are
  absolute: `first` is that of the oldest entry kept, `end` that of the next one.
- `trimmed` is the vector as it was at `first`: what is no longer kept. It is causally closed, since entries
  leave the log in the order in which they came.

A source is known when it is a *founder* (its number is below `founders`) or has been announced by a message of
a known source. A message of an unknown source is a leftover of one that has gone, and is dropped: so a source
can be forgotten as soon as it is known to have gone, however late its messages still turn up.

When two pasts are compared, a source that one of them does not know has gone there, or was never heard of. The
name of the message that announced it (`births`) tells which: it has gone where that message has been received. The
sources that went last are remembered too (`forgotten`), which settles it where the announcer has gone as well.
Where both fail, the source counts as gone: that can cost messages, never order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from antecast.core import Message, NodeId, State
from antecast.protocols.preventive.frames import CODEC, EVERYTHING, MOST_SOURCES, Entry, Notice, Start

TOMBSTONES: Final = 1024
"""How many sources are remembered as gone; more only while their departures are in the log."""

Announced: TypeAlias = Mapping[NodeId, tuple[NodeId, int]]
"""For each announced source, the message that announced it."""


class Past:
    def __init__(self, *, retain: int, founders: int) -> None:
        self.retain = retain
        self.founders = founders
        self.vector: dict[NodeId, int] = {}
        self.log: deque[Entry] = deque()
        self.first = 0
        self.trimmed: dict[NodeId, int] = {}
        self.births: dict[NodeId, tuple[NodeId, int]] = {}
        self.forgotten: dict[NodeId, int] = {}
        """The sources that went last, and the positions of their departures."""
        self.forgot_more = False
        """Whether others have gone before those."""
        self.given = False
        """Whether part of the past was taken as given, and never delivered."""

    @property
    def full(self) -> bool:
        """Whether there is no room for another source."""
        return len(self.vector) >= MOST_SOURCES

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
            known = source in self.forgotten or source in self.vector  # it may be announced twice
            if not known and not self.full:
                self.vector[source] = 0
                self.births[source] = notice.origin, notice.seq
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
            # An origin that is neither is gone with a base that was taken; it must not come back.
            if (origin in trimmed or origin < self.founders) and entry.seq > trimmed.get(origin, 0):
                trimmed[origin] = entry.seq
            if isinstance(entry, Notice) and entry.source >= self.founders:
                if entry.gone:
                    trimmed.pop(entry.source, None)
                    self.births.pop(entry.source, None)
                elif self.forgotten.get(entry.source, self.first) >= self.first:
                    trimmed.setdefault(entry.source, 0)
            self.first += 1

    def since(self, position: int) -> Iterator[Entry]:
        """What was added from a position on, which must still be held."""
        return islice(self.log, position - self.first, None)

    def above(self, upto: Mapping[NodeId, int]) -> Iterator[Entry]:
        """What is kept that another's vector does not cover, in the order of delivery."""
        return (entry for entry in self.log if entry.seq > upto.get(entry.origin, 0))

    def lacking(self, upto: Mapping[NodeId, int], births: Announced) -> dict[NodeId, int]:
        """What another with that vector lacks that this log cannot give."""
        lacking = {}
        settled: dict[NodeId, bool] = {}
        for source, count in self.trimmed.items():
            if source in upto or source < self.founders:
                if count > upto.get(source, 0):
                    lacking[source] = count
            elif not self._went_there(source, upto, settled, unclear=False):
                lacking[source] = max(count, 1)
        return lacking | dict.fromkeys(self.gone_before(upto, births), EVERYTHING)

    def _went_there(
        self, source: NodeId, upto: Mapping[NodeId, int], settled: dict[NodeId, bool], *, unclear: bool
    ) -> bool:
        """Whether a source that another does not know came and went there; `unclear` when it cannot be told."""

        def judge(source: NodeId) -> bool | None:
            if source not in self.births:
                return unclear
            announcer, seq = self.births[source]
            if announcer in upto or announcer < self.founders:
                return upto.get(announcer, 0) >= seq
            return None

        return _settle(source, self.births, judge, settled, unclear=unclear)

    def gone_before(self, upto: Mapping[NodeId, int], births: Announced) -> list[NodeId]:
        """The sources another knows that have gone here, and whose departure is no longer kept."""
        settled: dict[NodeId, bool] = {}
        return [
            source
            for source, count in upto.items()
            if count < EVERYTHING
            and self.count(source) is None
            and (
                self.forgotten[source] < self.first
                if source in self.forgotten
                else self.came(source, births, settled)
            )
        ]

    def came(self, source: NodeId, births: Announced, settled: dict[NodeId, bool]) -> bool:
        """Whether a source that is not known came before it went. When it cannot be told, it did."""

        def judge(source: NodeId) -> bool | None:
            if source in self.forgotten:
                return True
            if not self.forgot_more:
                return False
            if source not in births:
                return True
            announcer, seq = births[source]
            count = self.count(announcer)
            return None if count is None else count >= seq

        return _settle(source, births, judge, settled, unclear=True)

    def base(self, gone: list[NodeId]) -> Start:
        """What has left the log, for one who takes it as given."""
        births = {source: self.births[source] for source in self.trimmed if source in self.births}
        remembered = (source for source, position in self.forgotten.items() if position < self.first)
        return Start(dict(self.trimmed), births, [*dict.fromkeys([*remembered, *gone])], self.forgot_more)

    def covers(self, lacking: Mapping[NodeId, int]) -> bool:
        """Whether all of that is here now."""
        return all(count <= self.vector.get(source, 0) or self.gone(source) for source, count in lacking.items())

    def gone(self, source: NodeId) -> bool:
        """Whether a source is remembered to have come and gone."""
        return source in self.forgotten and source not in self.vector

    def take(
        self,
        base: Mapping[NodeId, int],
        births: Announced,
        gone: Collection[NodeId],
        more: bool,
    ) -> dict[NodeId, int]:
        """Count a base as received; returns, for each source that this moved on, the count it moved to.

        A source of the base that has gone here stays gone: its last messages would be delivered again. A source
        that has gone within the base goes here too, also one heard of only since the base was asked for.
        """
        known = self.births.keys() & self.vector.keys() - base.keys()
        there: dict[NodeId, bool] = {}
        departed = {source for source in known if self._went_there(source, base, there, unclear=more)}
        departed.update(source for source in gone if source >= self.founders)
        moved = {}
        here: dict[NodeId, bool] = {}
        for source, count in base.items():
            mine = self.count(source)
            if (count > mine) if mine is not None else not self.came(source, births, here):
                moved[source] = count
        self.vector.update(moved)
        for source, count in base.items():
            # What moved, and the rest: what is no longer kept must stay closed. A source whose departure is still
            # in the log has not gone within it.
            if source in self.vector or self.forgotten.get(source, -1) >= self.first:
                self.trimmed[source] = max(count, self.trimmed.get(source, 0))
                if source in births and source >= self.founders:
                    self.births.setdefault(source, births[source])
        for source in sorted(departed):
            if self.vector.pop(source, None) is not None:
                self.trimmed.pop(source, None)
                self.births.pop(source, None)
                moved[source] = EVERYTHING
            if source not in self.forgotten:
                self._bury(source, self.first - 1)
        self.forgot_more = self.forgot_more or more
        self.given = self.given or bool(moved)
        return moved

    def snapshot(self) -> State:
        return {
            "vector": dict(self.vector),
            "log": [CODEC.encode(entry) for entry in self.log],
            "first": self.first,
            "trimmed": dict(self.trimmed),
            "births": {source: list(birth) for source, birth in self.births.items()},
            "forgotten": dict(self.forgotten),
            "forgot_more": self.forgot_more,
            "given": self.given,
        }

    def restore(self, state: State) -> None:
        """Go on from a snapshot, in place: others hold on to the vector and the log."""
        self.vector.clear()
        self.vector.update(state["vector"])
        self.log.clear()
        self.log.extend(entry for entry in map(CODEC.decode, state["log"]) if isinstance(entry, Message | Notice))
        self.first = state["first"]
        self.trimmed = dict(state["trimmed"])
        self.births = {source: (origin, seq) for source, (origin, seq) in state["births"].items()}
        self.forgotten = dict(state["forgotten"])
        self.forgot_more = state["forgot_more"]
        self.given = state["given"]


def _settle(
    source: NodeId,
    births: Announced,
    judge: Callable[[NodeId], bool | None],
    settled: dict[NodeId, bool],
    *,
    unclear: bool,
) -> bool:
    """Ask about a source, and where that tells nothing, about the source that announced it, and so on.

    All sources on the way get the answer that was found. Each is asked about once, so the cost is linear in the
    list; a list that leads in a circle, which no correct process has, tells nothing.
    """
    way = []
    verdict = settled.get(source)
    while verdict is None:
        way.append(source)
        settled[source] = unclear
        verdict = judge(source)
        if verdict is None:
            source = births[source][0]
            verdict = settled.get(source)
    settled.update(dict.fromkeys(way, verdict))
    return verdict
