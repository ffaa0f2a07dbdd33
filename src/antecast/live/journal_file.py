"""The SQLite file of a journal: its tables, and how it is opened."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from antecast.live.entries import JournalError

SCHEMA: Final = """
create table meta (key text primary key, value) without rowid;
create table snapshots (position integer primary key, now integer, delivered integer, events integer,
    chain integer, exact integer, state blob, checksum integer);
create table groups (first integer primary key, last integer, delivered integer, calls blob, checksum integer);
create table deliveries (number integer primary key, origin integer, seq integer, at integer, payload blob,
    checksum integer);
create table lives (number integer primary key, life blob, checksum integer);
create table if not exists positions (number integer primary key, position integer, checksum integer);
"""

UNREADABLE: Final = (sqlite3.DatabaseError, ValueError, TypeError, KeyError)
"""What reading a damaged file raises."""


def connect(path: Path) -> sqlite3.Connection:
    try:
        # Of names such as ":memory:" and "file:...", SQLite would make something else than a file.
        return _connect(path.absolute())
    except sqlite3.Error as error:
        raise JournalError(f"cannot open: {error}", path=path) from None


def connect_to_read(path: Path) -> sqlite3.Connection:
    """The same where nothing may be written, for instance to a backup. SQLite wants files of its own beside a
    journal; it can do without if nothing is left in its log."""
    try:
        return connect(path)
    except JournalError:
        if os.access(path.resolve().parent, os.W_OK):
            raise
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            problem = (
                f"its last calls are in {log.name}, and nothing can be written here: copy both somewhere else"
            )
            raise JournalError(problem, path=path) from None
        try:
            return _connect(f"{path.absolute().as_uri()}?immutable=1")
        except sqlite3.Error as error:
            raise JournalError(f"cannot open: {error}", path=path) from None


def _connect(name: Path | str) -> sqlite3.Connection:
    uri = isinstance(name, str)
    db = sqlite3.connect(name, isolation_level=None, check_same_thread=False, timeout=10, uri=uri)
    db.execute("pragma schema_version").fetchone()
    return db


def check_pages(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a file with a page that is missing or torn, also where only old history lies: a node that went on
    would be stopped by it later, when the history is dropped."""
    found = db.execute("pragma quick_check(1)").fetchone()[0]
    if found != "ok":
        problem = " ".join(found.replace("*** in database main ***", "").split())
        raise JournalError(f"not a readable journal ({problem})", path=path)
