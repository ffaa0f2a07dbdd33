"""Histories of logs of any size: in memory where they fit, otherwise in parts that wait in files.

A first pass over the log, the one that numbers the messages, also counts the events of each node. If all of them
fit into the memory that is given, the second pass puts each event in its place. Otherwise nodes are dealt out, in
the order of their names, to parts that do fit, and the second pass appends each event to the file of its part, in
12 bytes. Then the parts are brought into order one by one and kept as arrays: codes, which every later pass reads
from start to end, and positions, which are looked up only to tell of violations. So a log costs two passes over
its files, however large it is, and memory for the messages, for one part, and for the matrices of a block.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.core.errors import OutputError
from antecast.history.histories import CHANGED, LIMIT, Clock, Coded, Histories, HistoryReader, Reading
from antecast.history.messages import MessageIndex
from antecast.history.names import Name, Nodes
from antecast.history.rows import Batches, BrokenLog, IntArray, LongArray, read_rows

EVENT_BYTES = 12
"""Memory for an event: 8 bytes of its history, and some room for what is made of it."""

MOST_PARTS = 500
"""Files that are open at once."""


@dataclass
class EventCounts:
    """How many events each node has, counted while batches pass by."""

    nodes: Nodes = field(default_factory=Nodes)
    counts: LongArray = field(default_factory=lambda: np.zeros(0, np.int64))
    wide: bool = False
    """Whether a position needs more than 32 bits."""

    def counting(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._add(batch)
            yield batch

    def _add(self, batch: pa.RecordBatch) -> None:
        try:
            rows = read_rows(batch, ("broadcast", "deliver"))
        except BrokenLog:
            return  # said by the pass that reads these rows to judge them
        counts = np.bincount(self.nodes.encode(rows.run, rows.node, add=True), minlength=len(self.nodes))
        counts[: len(self.counts)] += self.counts
        self.counts = counts
        self.wide |= bool(len(rows)) and int(rows.pos.max()) >= np.iinfo(np.int32).max

    @property
    def events(self) -> int:
        return int(self.counts.sum())

    def parts(self, events: int) -> IntArray:
        """The part of each node, in the order of names: as few parts of about so many events as there can be."""
        by_name = self.nodes.names.order()
        ends = np.cumsum(self.counts[by_name])
        wanted = max(1, min(MOST_PARTS, -(-self.events // max(1, events))))
        part = np.empty(len(by_name), np.int32)
        part[by_name] = np.maximum(ends - 1, 0) * wanted // max(1, self.events)
        return part


class HistoryParts:
    """The histories of all nodes in parts; each is loaded when its turn comes."""

    def __init__(self, parts: Iterable[Callable[[], Histories]]) -> None:
        self._parts = list(parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __iter__(self) -> Iterator[Histories]:
        for load in self._parts:
            yield load()

    def pick(self, names: Collection[Name], messages: IntArray | None = None) -> Histories:
        """The histories of some nodes, or what they have of some messages."""
        if len(self) == 1:
            return self._parts[0]()
        found = []
        for part in self:
            rows = [row for row, name in enumerate(part.names) if name in names]
            chosen = part.chosen(rows)
            if rows:
                found.append(Histories.gather([chosen if messages is None else chosen.only(messages)]))
        return Histories.gather(found)


def read_parts(
    batches: Batches,
    index: MessageIndex,
    counts: EventCounts,
    *,
    clock: Clock = "local",
    limit: int = LIMIT,
    room: int | None,
    kept: ExitStack,
) -> tuple[HistoryParts, Reading]:
    """The histories of all nodes, of which no more than `room` bytes are held at a time, or all.

    Files are gone when `kept` is closed. A single node is never divided.
    """
    reader = HistoryReader(index, clock=clock, limit=limit)
    names = counts.nodes.names
    reader.nodes.codes(names.take(names.order()), add=True)
    codes = reader.nodes.codes(names)
    expected = np.zeros(len(reader.nodes), np.int64)
    expected[codes] = counts.counts
    if room is None or counts.events * EVENT_BYTES <= room:
        whole = reader.settle(map(reader.read, batches), expected, wide=counts.wide)
        return HistoryParts([lambda: whole]), reader.reading(whole)
    folder = Path(kept.enter_context(TemporaryDirectory(prefix="antecast-audit-")))
    try:
        part_of = np.zeros(len(reader.nodes), np.uint16)
        part_of[codes] = counts.parts(room // EVENT_BYTES)
        _spill(map(reader.read, batches), part_of, folder, wide=counts.wide)
        stored = []
        for part in np.unique(part_of[expected > 0]).tolist():
            raw = folder / f"{part}.events"
            own = np.where(part_of == part, expected, 0)
            stored.append(
                _Stored.keep(folder / str(part), reader.settle(_load(raw, counts.wide), own, wide=counts.wide))
            )
            raw.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot keep the events that memory has no room for: {error}", path=folder) from error
    return HistoryParts(stored), reader.reading(Histories.gather([]))


def _spill(events: Iterable[Coded], part_of: NDArray[np.uint16], folder: Path, *, wide: bool) -> None:
    """Append each event to the file of its part: a number of events, then their nodes, codes and positions."""
    with ExitStack() as files:
        opened: dict[int, BinaryIO] = {}
        for some in events:
            if len(some.node) and some.node.max() >= len(part_of):
                raise BrokenLog(CHANGED)
            part = part_of[some.node]
            order = np.argsort(part, kind="stable")  # by counting, since these are small numbers
            pos = some.pos.astype(np.int64 if wide else np.int32, copy=False)
            columns = some.node[order], some.codes[order], pos[order]
            sizes = np.bincount(part)
            end = 0
            for each in np.flatnonzero(sizes).tolist():
                if each not in opened:
                    opened[each] = files.enter_context((folder / f"{each}.events").open("wb"))
                own = slice(end, end + int(sizes[each]))
                end = own.stop
                opened[each].write(np.int64(sizes[each]).tobytes())
                for column in columns:
                    opened[each].write(column[own].data)


def _load(file: Path, wide: bool) -> Iterator[Coded]:
    if not file.exists():
        return  # no event of the part was met
    kinds = (np.dtype(np.int32), np.dtype(np.int32), np.dtype(np.int64 if wide else np.int32))
    with file.open("rb") as stream:
        while head := stream.read(8):
            size = int(np.frombuffer(head, np.int64)[0])
            node, codes, pos = (np.frombuffer(stream.read(size * kind.itemsize), kind) for kind in kinds)
            yield Coded(node, codes, pos)


@dataclass(frozen=True)
class _Stored:
    """The histories of a part in files; positions stay there until they are looked up."""

    place: Path

    @classmethod
    def keep(cls, place: Path, histories: Histories) -> _Stored:
        place.mkdir()
        np.save(place / "codes.npy", histories.codes)
        np.save(place / "pos.npy", histories.pos)
        (place / "nodes").write_bytes(pickle.dumps((histories.names, histories.sources, histories.indptr)))
        return cls(place)

    def __call__(self) -> Histories:
        names, sources, indptr = pickle.loads((self.place / "nodes").read_bytes())
        codes, pos = np.load(self.place / "codes.npy"), np.load(self.place / "pos.npy", mmap_mode="r")
        return Histories(names, sources, indptr, codes, pos)
