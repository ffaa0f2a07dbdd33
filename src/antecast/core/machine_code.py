"""Machine code on disk: what Numba keeps of a kernel, safe for processes that start, end and change at any time.

Numba keeps an index of signatures and a file for each of them, beside the source, or in the user's cache folder
where the source's cannot be written to. Here, besides:

- *Nothing old is taken for new.* The stamp covers all files that a kernel comes from. Machine code is written
  under a new name before the index names it: whoever is killed in between leaves a file that nobody reads, and two
  who write at once do not mix. A process whose source has changed since it began runs the old code, and keeps
  nothing.
- *Nothing that goes wrong on disk ends a run.* Files that are cut off are compiled again; where nothing can be
  written, nothing is kept.
"""

import time
from collections.abc import Collection
from contextlib import suppress
from glob import escape
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

from numba.core import caching

_numba: Any = caching


def keep(dispatcher: Any, sources: Collection[Path], since: float) -> None:
    """Keep the machine code of a kernel that was made from these files, if they have not changed since then and
    there is a place for it."""
    if not any(since < path.stat().st_mtime <= time.time() for path in sources):
        with suppress(RuntimeError):  # no folder can be written to
            dispatcher._cache = _MachineCode(dispatcher.py_func, sources)


def is_kept(dispatcher: Any) -> bool:
    """Whether there is a place for what is compiled."""
    return isinstance(dispatcher._cache, _MachineCode)


def is_on_disk(dispatcher: Any) -> bool:
    """Whether there is machine code of a kernel that is up to date."""
    return is_kept(dispatcher) and bool(dispatcher._cache._cache_file._load_index())


class _MachineCode(_numba.FunctionCache):  # type: ignore[misc]
    """That of one kernel."""

    def __init__(self, function: Any, sources: Collection[Path]) -> None:
        super().__init__(function)
        digest = blake2b(digest_size=16)
        for path in sorted(sources):
            digest.update(path.read_bytes())
        stamp = self._impl.locator.get_source_stamp(), digest.digest()
        self._cache_file = _Files(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # cut off, in whatever way
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)


class _Files(_numba.IndexDataCacheFile):  # type: ignore[misc]
    """An index, and files that are written once."""

    def __init__(self, folder: str, name: str, stamp: object) -> None:
        super().__init__(folder, name, stamp)
        self._name = name

    def _load_index(self) -> dict[Any, str]:
        try:
            index: dict[Any, str] = super()._load_index()
        except Exception:  # cut off, in whatever way
            return {}
        return index

    def save(self, key: Any, data: Any) -> None:
        index = self._load_index()
        index[key] = f"{self._name}.{uuid4().hex[:16]}.nbc"
        self._save_data(index[key], data)
        self._save_index(index)
        for path in Path(self._cache_path).glob(f"{escape(self._name)}.*.nbc"):
            if path.name not in index.values():
                path.unlink(missing_ok=True)
