"""Journals of live nodes where a command takes logs: they are replayed, and their events written to a file."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from antecast.core import InputError
from antecast.text.wording import escaped


def with_journals_as_logs(paths: Sequence[str]) -> list[str]:
    """The paths, with an event log in the place of each journal. It is gone when the program ends."""
    from antecast.live.replay import is_journal, write_event_log

    if not any(is_journal(Path(path)) for path in paths):
        return list(paths)
    journals = [Path(path) for path in paths if is_journal(Path(path))]
    for place, journal in enumerate(journals):  # by the names that were given: the logs have others
        if any(journal.samefile(each) for each in journals[:place]):
            raise InputError("the same journal is given twice", path=journal)
    folder = Path(tempfile.mkdtemp(prefix="antecast-journals-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found = []
    for number, path in enumerate(paths):
        if is_journal(Path(path)):
            log = folder / f"{number}-{escaped(Path(path).name)[:100]}.parquet"
            if not write_event_log(Path(path), log) and len(paths) == 1:
                raise InputError(
                    "has no events to judge: with durability none, a journal keeps no calls", path=path
                )
            found.append(str(log))
        else:
            found.append(path)
    return found
