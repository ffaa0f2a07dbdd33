"""Journals of live nodes where a command takes logs: they are replayed, and their events written to a file."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path


def with_journals_as_logs(paths: Sequence[str]) -> list[str]:
    """The paths, with an event log in the place of each journal. It is gone when the program ends."""
    from antecast.live.replay import is_journal, write_event_log

    if not any(is_journal(Path(path)) for path in paths):
        return list(paths)
    folder = Path(tempfile.mkdtemp(prefix="antecast-journals-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found = []
    for number, path in enumerate(paths):
        if is_journal(Path(path)):
            log = folder / f"{number}-{Path(path).name}.parquet"
            write_event_log(Path(path), log)
            found.append(str(log))
        else:
            found.append(path)
    return found
