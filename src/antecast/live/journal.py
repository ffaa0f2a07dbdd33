"""The journal: the calls a protocol was given, in a SQLite file, committed before any of their effects leaves.

A protocol is deterministic, so its calls are its state. They are written in *groups*: all that was called while
the last group was being committed. A *snapshot* now and then bounds how far a restart has to go back, and how
large the file grows. *Deliveries* are numbered rows; they stay until the application has acknowledged them.

Three things guard what was committed:

- SQLite's write-ahead log drops a transaction that a crash cut short. None of its effects had left.
- Each group has a checksum that continues the one before it; snapshots, deliveries and whose journal it is have
  checksums of their own. A damaged page is noticed.
- A small file beside the journal, the *mark*, holds the last position whose effects may have left. A journal that
  ends before its mark has lost calls that others have seen the effects of: it is refused, since its node would use
  numbers of messages again. Damaged groups after the mark are cut off: nobody has seen anything of them.

The mark and the journal are locked while a node runs, so that no second process uses the journal.

What a commit survives is a choice:

`full`    the end of the process, of the machine and of the power: each group is on the disk.
`normal`  the end of the process. When the machine goes down, the last groups may be lost; the journal is then
          refused, and the node joins under a new number.
`none`    nothing but a clean stop, which writes a snapshot.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from antecast.core import NodeId
from antecast.live import faults
from antecast.live.calls import encode_calls
from antecast.live.checksums import checksum_of, checksum_of_delivery, checksum_of_group, checksum_of_snapshot
from antecast.live.entries import Commit, Durability, Identity, JournalError
from antecast.live.journal_checks import (
    CONSTANT,
    FORMAT,
    bring_along,
    check_end,
    check_format,
    check_guards,
    check_owner,
)
from antecast.live.journal_file import SCHEMA, UNREADABLE, check_pages, connect, connect_to_read
from antecast.live.journal_reading import Damaged, ReadableJournal
from antecast.live.mark import Mark, boot
from antecast.live.recent import Window
from antecast.version import __version__

HISTORY: Final = 64 << 20
"""Bytes of calls and snapshots before the last snapshot that are kept to be replayed."""


class Journal(ReadableJournal):
    """An open journal. One thread at a time writes; deliveries are read through a connection of their own."""

    def __init__(self, path: Path, durability: Durability, *, mark: Mark | None = None) -> None:
        self.path, self.durability, self.history = path, durability, HISTORY
        self.notes: list[str] = []
        """What a person should know about how it was opened."""
        self._mark = mark
        self._db = connect_to_read(path) if mark is None else connect(path)
        self._reader = self._db
        self.position = self.chain = self.delivered = self.acknowledged = 0
        self._volatile = Window()
        self.life = b""
        self._torn = False
        """Whether a group could not be written: a snapshot would hold calls that the journal does not have."""
        self._found: dict[str, Any] = {}
        """What it said of its last use when it was opened."""

    # Opening.

    @classmethod
    def open(cls, path: Path, identity: Identity, durability: Durability = Durability.FULL) -> Journal:
        """Open or create a journal for a node that runs; raises `JournalError` in one line."""
        mark = Mark(path)
        journal: Journal | None = None
        try:
            journal = cls(path, durability, mark=mark)
            journal._prepare(identity)
        except BaseException as error:
            if journal is None:
                mark.close()
            else:
                journal.close()
            if isinstance(error, UNREADABLE):
                full = "the disk is full" if "disk is full" in str(error) else f"not a readable journal ({error})"
                raise JournalError(full, path=path) from None
            raise
        return journal

    @classmethod
    def look(cls, path: Path) -> Journal:
        """Open a journal to read it, whether its node runs or not. Nothing is changed."""
        if not path.is_file():
            raise JournalError("not a file" if path.exists() else "no such file", path=path)
        try:
            journal = cls(path, Durability.FULL)
            if not journal._exists() or journal.meta("format") is None:
                raise JournalError("not a journal of Antecast", path=path)
            check_format(journal)
            check_guards(journal)
            journal.life = journal.meta("life")
            journal._stand()
        except UNREADABLE as error:
            raise JournalError(f"not a readable journal ({error})", path=path) from None
        return journal

    def _exists(self) -> bool:
        return self._db.execute("select 1 from sqlite_master where name = 'meta'").fetchone() is not None

    def _prepare(self, identity: Identity) -> None:
        db = self._db
        made = self._exists()
        if not made and db.execute("select 1 from sqlite_master").fetchone() is not None:
            raise JournalError("not a journal of Antecast", path=self.path)
        if not made and self._mark is not None and self._mark.is_alone:
            raise JournalError(f"its tables are missing; {bring_along(self.path)}", path=self.path)
        db.execute("pragma journal_mode = wal")
        db.execute(f"pragma synchronous = {'full' if self.durability is Durability.FULL else 'normal'}")
        if not made:
            self._create(identity)
        elif self.meta("format") is None:
            raise JournalError("not a journal of Antecast", path=self.path)
        else:
            check_format(self)
            check_pages(db, self.path)
            check_owner(self, identity)
            db.execute(SCHEMA.split(";")[-2])  # came later than the others
        check_guards(self)
        self.life = self.meta("life")
        self._reader = connect(self.path)
        self._stand()
        check_end(self, identity, self._mark)
        if self.meta("code") != identity.code:
            self._drop_history()
        self._found = {key: self.meta(key) for key in ("open", "code", "version")}
        db.execute("begin immediate")
        self._set_meta("open", json.dumps({"boot": boot(), "durability": self.durability.value}))
        self._set_meta("code", identity.code)
        self._set_meta("version", __version__)
        db.execute("commit")
        if faults.armed is not None:
            faults.armed("journal opened")

    def _create(self, identity: Identity) -> None:
        point = faults.armed
        values = {
            "format": FORMAT,
            "number": identity.number,
            "group": identity.group,
            "protocol": identity.protocol,
            "role": identity.role,
            "settings": json.dumps(identity.settings, sort_keys=True),
            "code": identity.code,
            "version": __version__,
            "life": secrets.token_bytes(16),
            "acknowledged": 0,
            "acknowledged guard": checksum_of(0),
        }
        values["guard"] = checksum_of(*(values[name] for name in CONSTANT))
        self._db.execute("begin immediate")  # tables without whose they are would be nobody's journal
        for statement in filter(str.strip, SCHEMA.split(";")):
            self._db.execute(statement)
        if point is not None:
            point("journal schema written")
        self._db.executemany("insert into meta values (?, ?)", values.items())
        if point is not None:
            point("journal meta written")
        self._db.execute("commit")
        if point is not None:
            point("journal created")

    @property
    def written_by(self) -> str:
        """The version that used it before."""
        return str(self._found.get("version") or self.meta("version"))

    def identity(self) -> Identity:
        """Whose it is, as it says itself."""
        return Identity(
            number=self.meta("number"),
            group=self.meta("group"),
            protocol=self.meta("protocol"),
            settings=json.loads(self.meta("settings")),
            role=self.meta("role"),
            code=self.meta("code"),
        )

    def _drop_history(self) -> None:
        """Keep the last snapshot alone: the calls before it can be replayed only by the code that wrote them."""
        self._db.execute("delete from groups")
        self._db.execute("delete from snapshots where position < ?", (self.position,))
        self.notes.append("the code has changed since it was written; older history was dropped")

    def _stand(self) -> None:
        """Find out where the journal ends, checking every group after the last snapshot."""
        start = self.recovered()
        self.position, self.delivered, self.chain = start.position, start.delivered, start.chain
        self.acknowledged = self.meta("acknowledged")
        try:
            for position, delivered, chain, _ in self._groups(start):
                self.position, self.delivered, self.chain = position, delivered, chain
        except Damaged:
            self._cut_or_refuse()

    def _cut_or_refuse(self) -> None:
        """The end is damaged. If no effect of it can have left, it is cut off; otherwise the state is lost."""
        marked = None if self._mark is None else self._mark.read()
        opened = self.meta("open")
        same_boot = opened is not None and json.loads(opened)["boot"] == boot()
        if marked is None or marked.position > self.position or not same_boot:
            raise JournalError(
                f"the calls after {self.position} are damaged, so the state of the node is lost; join under a "
                "number that was never used, with a new journal",
                path=self.path,
            )
        self._db.execute("delete from groups where first > ?", (self.position,))
        self._db.execute("delete from deliveries where number > ?", (self.delivered,))
        self.notes.append(f"a torn end was cut off after call {self.position}; nothing of it had left the node")

    def _set_meta(self, key: str, value: object) -> None:
        self._db.execute("insert or replace into meta values (?, ?)", (key, value))

    # Writing. What is written is committed before the call returns.

    def commit(self, what: Commit) -> None:
        """Write a group. When this returns, its effects may leave."""
        first = self.position + 1
        last = self.position + (len(what.calls) if what.count is None else what.count)
        delivered = what.deliveries[-1].number if what.deliveries else self.delivered
        if self.durability is Durability.NONE:
            self._volatile.add(what.deliveries)
            self.position, self.delivered = last, delivered
            return
        self._check_whole()
        self._torn = True
        point = faults.armed
        data = encode_calls(what.calls)
        chain = checksum_of_group(first, last, delivered, data, self.chain)
        db = self._db
        try:
            if point is not None:
                point("group begin")
            db.execute("begin immediate")
            db.execute("insert into groups values (?, ?, ?, ?, ?)", (first, last, delivered, data, chain))
            if point is not None:
                point("group calls written")
            if what.deliveries:
                db.executemany(
                    "insert into deliveries values (?, ?, ?, ?, ?, ?)",
                    [(*each.row, checksum_of_delivery(each)) for each in what.deliveries],
                )
            if what.positions:
                db.executemany(
                    "insert or replace into positions values (?, ?, ?)",
                    [(*each, checksum_of(*each)) for each in what.positions.items()],
                )
            if point is not None:
                point("group deliveries written")
            db.execute("commit")
        except sqlite3.Error as error:
            raise JournalError(f"cannot write: {error}", path=self.path) from None
        if point is not None:
            point("group committed")
        self.position, self.delivered, self.chain = last, delivered, chain
        self._move_mark()
        self._torn = False
        if point is not None:
            point("group marked")

    def _check_whole(self) -> None:
        if self._torn:
            raise JournalError("cannot write: what was called before could not be written", path=self.path)

    def _move_mark(self) -> None:
        if self._mark is None:
            return
        try:
            self._mark.write(self.position, self.chain)
        except (FileNotFoundError, NotADirectoryError):
            name = self.path.name
            raise JournalError(
                f"{name}, {name}-wal or {name}.mark was deleted, moved or replaced while its node ran; put all "
                "three back, or join under a number that was never used",
                path=self.path,
            ) from None

    def snapshot(self, state: bytes, *, now: int, events: int, exact: bool, history: int = HISTORY) -> None:
        """Keep a snapshot of the state after the last call, and drop what is older than the bytes that are kept as
        history."""
        self.history = history
        if self.durability is Durability.NONE:
            return
        self._write_snapshot(state, now=now, events=events, exact=exact, history=history)

    def _write_snapshot(self, state: bytes, *, now: int, events: int, exact: bool, history: int) -> None:
        self._check_whole()
        point, db = faults.armed, self._db
        values = (self.position, now, self.delivered, events, self.chain, int(exact), state)
        row = (*values, checksum_of_snapshot(*values))
        try:
            if point is not None:
                point("snapshot begin")
            db.execute("begin immediate")
            db.execute("insert or replace into snapshots values (?, ?, ?, ?, ?, ?, ?, ?)", row)
            if point is not None:
                point("snapshot written")
            self._prune(history)
            if point is not None:
                point("snapshot pruned")
            db.execute("commit")
        except sqlite3.Error as error:
            raise JournalError(f"cannot write: {error}", path=self.path) from None
        if point is not None:
            point("snapshot committed")
        self._move_mark()

    def _prune(self, history: int) -> None:
        """Drop snapshots, and the calls before them, beyond what is kept as history. Older snapshots count as
        well: a node that is started again and again writes one each time, and few calls."""
        sizes = "select position, length(state) from snapshots order by position desc"
        calls = "select coalesce(sum(length(calls)), 0) from groups where first > ? and last <= ?"
        newer, kept = self.position, 0
        for position, size in self._db.execute(sizes).fetchall():
            kept += self._db.execute(calls, (position, newer)).fetchone()[0]
            kept += size if position < self.position else 0
            newer = position
            if kept >= history and position < self.position:
                self._db.execute("delete from snapshots where position < ?", (position,))
                self._db.execute("delete from groups where last <= ?", (position,))
                return

    def acknowledge(self, number: int) -> None:
        """Forget deliveries up to a number. May be lost in a crash: the application then says it again."""
        if number <= self.acknowledged:
            return
        self.acknowledged = min(number, self.delivered)
        self._volatile.forget(self.acknowledged)
        if self.durability is not Durability.NONE:
            self._forget()

    def _forget(self) -> None:
        point = faults.armed
        try:
            if point is not None:
                point("acknowledgement begin")
            self._db.execute("begin immediate")
            self._db.execute("delete from deliveries where number <= ?", (self.acknowledged,))
            self._set_meta("acknowledged", self.acknowledged)
            self._set_meta("acknowledged guard", checksum_of(self.acknowledged))
            if point is not None:
                point("acknowledgement written")
            self._db.execute("commit")
            if point is not None:
                point("acknowledgement committed")
        except sqlite3.Error as error:
            raise JournalError(f"cannot write: {error}", path=self.path) from None

    def remember(self, number: NodeId, life: bytes) -> None:
        """A node has met another for the first time."""
        self._keep_of_others("meeting", "lives", number, life)

    def remember_position(self, number: NodeId, position: int) -> None:
        """Another node's journal has come so far."""
        self._keep_of_others("position", "positions", number, position)

    def _keep_of_others(self, what: str, table: str, number: NodeId, value: bytes | int) -> None:
        point, row = faults.armed, (number, value, checksum_of(number, value))
        if point is not None:
            point(f"{what} begin")
        try:
            self._db.execute(f"insert or replace into {table} values (?, ?, ?)", row)
        except sqlite3.Error as error:
            raise JournalError(f"cannot write: {error}", path=self.path) from None
        if point is not None:
            point(f"{what} committed")

    def close(self, *, state: bytes | None = None, now: int = 0, events: int = 0) -> None:
        """End cleanly with a snapshot of what survives, or, without one, just let go of the file."""
        try:
            if state is not None:
                if self.durability is Durability.NONE:
                    self._keep_volatile()
                self._write_snapshot(state, now=now, events=events, exact=False, history=self.history)
                self._db.execute("delete from meta where key = 'open'")
                if faults.armed is not None:
                    faults.armed("journal closed")
        except sqlite3.Error as error:
            raise JournalError(f"cannot write: {error}", path=self.path) from None
        finally:
            if self._reader is not self._db:
                self._reader.close()
            self._db.close()
            if self._mark is not None:
                self._mark.close()
                self._mark = None

    def abandon(self) -> None:
        """Close it as it was found: its node could not start, and nothing was called."""
        with suppress(sqlite3.Error):  # there is a first problem, which its owner is told of
            for key, value in self._found.items():
                if value is None:
                    self._db.execute("delete from meta where key = ?", (key,))
                else:
                    self._set_meta(key, value)
        self.close()

    def _keep_volatile(self) -> None:
        self._db.execute("delete from groups")
        self._db.execute("delete from snapshots")
        rows = [(*each.row, checksum_of_delivery(each)) for each in self._volatile]
        self._db.executemany("insert or replace into deliveries values (?, ?, ?, ?, ?, ?)", rows)
        self._forget()
