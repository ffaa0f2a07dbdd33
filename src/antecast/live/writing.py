"""The thread that writes the journal, so that the event loop never waits for a disk.

Jobs are done in the order given; each is answered on the event loop. With a journal that is not written
(durability
`none`) there is no thread: a job is done, and answered, at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeAlias

Job: TypeAlias = Callable[[], None]
Answer: TypeAlias = Callable[[Exception | None], None]


class Writer:
    """Does jobs one after the other, in a thread of its own or, `inline`, at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, inline: bool) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[tuple[Job, Answer] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        if not inline:
            self._thread = threading.Thread(target=self._work, name="antecast-journal", daemon=True)
            self._thread.start()

    def put(self, job: Job, answer: Answer) -> None:
        if self._thread is not None:
            self._jobs.put((job, answer))
            return
        answer(_done(job))

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, answer = item
            error = _done(job)
            try:
                self._loop.call_soon_threadsafe(answer, error)
            except RuntimeError:  # the loop has been closed under a node that was not stopped
                return

    def stop(self) -> None:
        """Do what was asked for, then end."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None


def _done(job: Job) -> Exception | None:
    try:
        job()
    except Exception as error:
        return error
    return None
