"""What stands in a journal, read and checked against its checksums."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from antecast.core import NodeId
from antecast.live.calls import Call, decode_calls
from antecast.live.checksums import checksum_of, checksum_of_delivery, checksum_of_group, checksum_of_snapshot
from antecast.live.entries import Delivery, Durability, JournalError, Recovered
from antecast.live.recent import Window


class Damaged(Exception):
    """The calls after `position` cannot be read."""

    def __init__(self, position: int) -> None:
        self.position = position


class ReadableJournal:
    """The side of a journal that is read. Nothing here changes the file."""

    path: Path
    durability: Durability
    position: int
    delivered: int
    acknowledged: int
    _db: sqlite3.Connection
    _reader: sqlite3.Connection
    """Deliveries are read through a connection of their own."""
    _volatile: Window

    def meta(self, key: str) -> Any:
        row = self._db.execute("select value from meta where key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def _read(self, query: str, values: tuple[Any, ...] = (), db: sqlite3.Connection | None = None) -> list[Any]:
        """The rows of a query; a page that cannot be read is said in one line."""
        try:
            return (self._db if db is None else db).execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise JournalError(f"not a readable journal ({error})", path=self.path) from None

    def recovered(self, before: int | None = None) -> Recovered:
        """The last snapshot, or the last one at or before a position."""
        columns = "position, now, delivered, events, chain, exact, state, checksum"
        limit = "" if before is None else f"where position <= {before}"
        rows = self._read(f"select {columns} from snapshots {limit} order by position desc limit 1")
        if not rows:
            return Recovered(None, False, 0, 0, 0, 0, 0)
        row = rows[0]
        position, now, delivered, events, chain, exact, state, checksum = row
        if checksum_of_snapshot(*row[:7]) != checksum:
            raise JournalError(f"the snapshot after call {position} is damaged", path=self.path)
        return Recovered(state, bool(exact), position, now, delivered, events, chain)

    def snapshots(self) -> list[tuple[int, bool]]:
        """The positions of all snapshots, and whether each is exact."""
        rows = self._read("select position, exact from snapshots order by position")
        return [(position, bool(exact)) for position, exact in rows]

    def oldest(self) -> int:
        """The position after which all calls are there."""
        first = self._db.execute("select min(first) from groups").fetchone()[0]
        snapshots = self.snapshots()
        return 0 if first == 1 or not snapshots else snapshots[0][0]

    def calls(self, start: Recovered) -> Iterator[tuple[int, Call]]:
        """The calls after a snapshot, with their positions."""
        try:
            for last, _, _, data in self._groups(start):
                group = decode_calls(data)
                yield from enumerate(group, start=last - len(group) + 1)
        except Damaged as damage:
            raise JournalError(f"the calls after {damage.position} are damaged", path=self.path) from None

    def _groups(self, start: Recovered) -> Iterator[tuple[int, int, int, bytes]]:
        """Position, deliveries and checksum after each group, and its calls; raises `Damaged`."""
        position, chain = start.position, start.chain
        query = (
            "select first, last, delivered, calls, checksum from groups where first > ? order by first limit 100"
        )
        while rows := self._read(query, (position,)):
            for first, last, delivered, data, checksum in rows:
                if first != position + 1 or checksum_of_group(first, last, delivered, data, chain) != checksum:
                    raise Damaged(position)
                position, chain = last, checksum
                yield last, delivered, checksum, data

    def deliveries(self, after: int, limit: int = 1000) -> list[Delivery]:
        """Deliveries with numbers above `after` that have not been acknowledged."""
        if self.durability is Durability.NONE:
            found = self._volatile.after(after, limit)
            if found:
                return found
        query = (
            "select number, origin, seq, at, payload, checksum from deliveries where number > ? order by number"
        )
        found = []
        known = self.delivered
        for *values, checksum in self._read(f"{query} limit {limit}", (after,), self._reader):
            each = Delivery(*values)
            if checksum_of_delivery(each) != checksum:
                raise JournalError(f"delivery {each.number} is damaged", path=self.path)
            if found and each.number != found[-1].number + 1:
                raise JournalError(f"delivery {found[-1].number + 1} is missing", path=self.path)
            found.append(each)
        before = max(after, self.acknowledged)  # read after the rows: the writer may have dropped some meanwhile
        if found and found[0].number > before + 1:
            raise JournalError(f"delivery {before + 1} is missing", path=self.path)
        last = found[-1].number if found else before
        if len(found) < limit and last < known and self.durability is not Durability.NONE:
            raise JournalError(f"delivery {last + 1} is missing", path=self.path)
        return found + self._volatile.after(last, limit - len(found))

    def lives(self) -> dict[NodeId, bytes]:
        """Which journal stands behind each number, as far as this node has met them."""
        return self._known_of_others("lives", "life")

    def positions(self) -> dict[NodeId, int]:
        """How far the journals of those have come."""
        return self._known_of_others("positions", "position")

    def _known_of_others(self, table: str, column: str) -> dict[NodeId, Any]:
        found = {}
        for number, value, checksum in self._read(f"select number, {column}, checksum from {table}"):
            if checksum_of(number, value) != checksum:
                raise JournalError(f"what it knows of node {number} is damaged", path=self.path)
            found[number] = value
        return found
