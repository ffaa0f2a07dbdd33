"""Digests of code, by what it does and not by its wording (`antecast.core.forms`).

They name what would behave in the same way: a run of the simulator, and a journal that only the code that wrote it
can replay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

import antecast
from antecast.core.forms import VERSION, form
from antecast.protocols.registry import Specification, code_of

_MOST_KEPT = 1000
"""Digests kept on disk before those that are not in use are dropped."""

_INNOCENT = ("core/forms.py", "core/settings.py", "protocols/code.py", "protocols/outside.py")
"""Beside the protocols, but without influence on what one does."""


def code_identity(specification: Specification) -> str:
    """A digest of all code that decides what a protocol does with a call."""
    what = {"antecast": _our_code(), "protocol": code_of(specification)}
    return blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=8).hexdigest()


@cache
def _our_code() -> str:
    base = Path(antecast.__file__).parent
    files = [file for part in ("core", "protocols") for file in (base / part).rglob("*.py")]
    return digest_of((file for file in files if file.relative_to(base).as_posix() not in _INNOCENT), base)


def digest_of(files: Iterable[Path], base: Path) -> str:
    """A digest of Python files, by what they say and by their places under a folder."""
    forms, digest = _Forms(), blake2b(digest_size=8)
    for file in sorted(files):
        digest.update(f"{file.relative_to(base).as_posix()}\0{forms.of(file)}\0".encode())
    forms.keep()
    return digest.hexdigest()


class _Forms:
    """Digests of forms by file, kept beside Python's own compiled files: parsing takes longer than most imports.

    They are found by what the files hold, so that none can be out of date.
    """

    def __init__(self) -> None:
        self._file = Path(__file__).parent / "__pycache__" / f"forms-{VERSION}.json"
        try:
            self._kept: dict[str, str] = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._kept = {}
        self._used: dict[str, str] = {}

    def of(self, file: Path) -> str:
        source = file.read_bytes()
        key = blake2b(source, digest_size=16).hexdigest()
        found = self._kept.get(key)
        if found is None:
            found = blake2b(form(source).encode(), digest_size=16).hexdigest()
        self._used[key] = found
        return found

    def keep(self) -> None:
        """Save new digests; where that is not possible, they are computed again next time."""
        if self._used.keys() <= self._kept.keys():
            return
        partial = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(exist_ok=True)
            known = self._used if len(self._kept) > _MOST_KEPT else self._kept | self._used
            partial.write_text(json.dumps(known), encoding="utf-8")
            partial.replace(self._file)
        except OSError:
            with suppress(OSError):  # a file system that is read-only says so even of a file that is not there
                partial.unlink()
