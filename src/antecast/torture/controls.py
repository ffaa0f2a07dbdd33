"""Nodes that break a rule on purpose, to see that the ledger would notice.

Each control changes the code of the process it is called in, and no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antecast.live.engine import Batch, Engine
from antecast.live.entries import Commit
from antecast.live.journal import Journal
from antecast.live.mark import Mark


def _effects_before_commit() -> None:
    """Frames leave and broadcasts are acknowledged first; the journal is written a little later."""

    def hasty(self: Any) -> None:
        self._scheduled = False
        batch = self._batch
        if self._writing is not None or self.stopped or not (batch.calls or batch.answers):
            return
        self._writing, self._batch = batch, Batch()
        if batch.calls:
            what = Commit(batch.calls, batch.deliveries)
            self._loop.call_later(0.002, self._writer.put, lambda: self.journal.commit(what), self._failed)
        self._committed(None)

    Engine._commit = hasty  # type: ignore[method-assign]


def _acknowledged_before_commit() -> None:
    """A broadcast returns before it is in the journal; everything else waits for the commit."""

    def hasty(self: Any, future: Any, result: Any) -> None:
        future.set_result(result)
        self._schedule()

    Engine.answer = hasty  # type: ignore[method-assign]


def _without_the_tail() -> None:
    """A restart forgets the calls of the last group."""
    Mark.read = lambda self: None  # type: ignore[method-assign]
    stand = Journal._stand

    def forgetful(self: Any) -> None:
        rows = self._db.execute("select first from groups order by first desc limit 1").fetchall()
        for (first,) in rows:
            self._db.execute("delete from groups where first >= ?", (first,))
        stand(self)
        self._db.execute("delete from deliveries where number > ?", (self.delivered,))

    Journal._stand = forgetful  # type: ignore[method-assign]


CONTROLS: dict[str, Callable[[], None]] = {
    "acknowledged-before-commit": _acknowledged_before_commit,
    "effects-before-commit": _effects_before_commit,
    "without-the-tail": _without_the_tail,
}
