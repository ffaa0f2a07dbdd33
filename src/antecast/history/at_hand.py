"""Input files in any file system that Arrow knows, for whatever reads files of this machine.

`file:///logs/a.csv` is a path. What lies in a store (`s3://`, `gs://`, `abfs://`, `hdfs://`) is copied to a
temporary folder, under the names that it has there, and is gone when the program ends. `TMPDIR` says where.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from antecast.core.errors import InputError
from antecast.history.store import SCHEMES, Store


def at_hand(place: str) -> str:
    """The path on this machine of what an address names: an object, or all objects in a folder.

    >>> at_hand("logs/a.csv"), at_hand("file:///logs/a.csv")
    ('logs/a.csv', '/logs/a.csv')
    """
    if place.startswith("file:"):
        return str(Store(place).local)
    if place.partition("://")[0] not in SCHEMES:
        return place
    store = Store(place)
    inside = store.where().partition("://")[2]
    target = _scratch() / inside
    if store.exists(""):
        target.parent.mkdir(parents=True)
        store.download("", target)
        return str(target)
    names = store.files()
    if not names:
        raise InputError("no such file or folder", path=store.where())
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        store.download(name, target / name)
    return str(target)


def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="antecast-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
