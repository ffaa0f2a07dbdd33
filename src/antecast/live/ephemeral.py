"""A node without a journal."""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path

from antecast.live.entries import Durability
from antecast.live.journal import Journal
from antecast.live.journal_file import SCHEMA
from antecast.live.recent import Window


class Ephemeral(Journal):
    """No file at all: deliveries wait in memory, and the node never comes back."""

    def __init__(self) -> None:
        self.path, self.durability, self.history = Path("(none)"), Durability.NONE, 0
        self.notes = []
        self.life = secrets.token_bytes(16)
        self.position = self.chain = self.delivered = self.acknowledged = 0
        self._volatile = Window()
        self._mark = None
        self._found = {}
        self._db = self._reader = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._db.executescript(SCHEMA)

    def close(self, *, state: bytes | None = None, now: int = 0, events: int = 0) -> None:
        self._db.close()
