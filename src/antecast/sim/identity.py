"""The identity of a run: a hash of everything that determines it.

Two runs of one identity have byte-identical event logs. The hash covers the scenario with every
default written out (its name aside), the contents of the files it reads, and the source code of the
simulator and the protocols.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path

import antecast
from antecast.core import InputError
from antecast.protocols.registry import code_of
from antecast.sim.scenario import Scenario

_DETERMINING = ("core", "protocols", "observer", "sim", "traces", "history/log.py", "history/schema.py")
_INNOCENT = ("sim/study.py", "sim/mobility", "traces/gtfs", "traces/contact_")
"""Beside them, but at work before a run starts."""


def run_id(scenario: Scenario) -> str:
    """A short name, the same for the same run on every machine."""
    plain = scenario.plain()
    del plain["name"]
    topology = plain["network"]["topology"]
    for table in (*plain["workload"], topology, topology.get("mobility", {})):
        for path in ("file", "presence"):  # what they hold counts, not where they lie
            table.pop(path, None)
    what = {"scenario": plain, "inputs": list(input_hashes(scenario).values()), "code": code_version()}
    if outside := code_of(scenario.specification):
        what["protocol"] = outside
    return blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=8).hexdigest()


def input_hashes(scenario: Scenario) -> dict[str, str]:
    """Hashes of the files that the scenario reads, by path."""
    return {file: file_hash(Path(file)) for file in scenario.files()}


def file_hash(path: Path) -> str:
    """A hash of what a file holds; read again only when the file has changed."""
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", path=path) from None
    return _file_hash(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _file_hash(path: Path, changed: int, size: int) -> str:
    digest = blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", path=path) from None
    return digest.hexdigest()


@cache
def code_version() -> str:
    """A hash of the source code that determines what a run does."""
    package = Path(antecast.__file__).parent
    innocent = tuple(str(package / part) for part in _INNOCENT)
    files = sorted(file for part in _DETERMINING for file in _sources(package / part))
    files = [file for file in files if not str(file).startswith(innocent)]
    digest = blake2b(digest_size=8)
    for file in files:
        digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _sources(path: Path) -> list[Path]:
    return list(path.rglob("*.py")) if path.is_dir() else [path]
