"""The identity of a run: a hash of everything that determines it, and of nothing else.

Two runs of one identity have byte-identical event logs. The hash covers, by name:

- the scenario with every default written out, its name and its engine aside;
- the contents of the files it reads, wherever they lie;
- the code of the engine and of our protocols (`DETERMINING`);
- the code of the protocol, where it is not one of ours.

Code counts by what it does, not by its wording (`antecast.core.forms`): a reworded error or docstring renames no
run, a changed operator renames all that could depend on it. A test checks the list against what a simulation
really imports.
"""

from __future__ import annotations

import json
import pkgutil
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path

import antecast
from antecast.core import InputError
from antecast.protocols.code import digest_of as digest_of
from antecast.protocols.registry import code_of
from antecast.sim.scenario import Scenario

DETERMINING = ("core", "protocols", "sim", "traces", "history/log.py", "history/schema.py")
"""Folders and files whose code determines what a run does."""

INNOCENT = (
    "core/forms.py",  # names runs
    "sim/identity.py",
    "protocols/code.py",
    "protocols/outside.py",  # finds protocols, whose code counts
    "sim/study.py",  # plans them
    "sim/judged.py",  # judges them
    "sim/mobility/",  # writes traces, whose contents count
    "traces/gtfs/",
    "traces/contact_detection.py",
    "traces/contact_kernels.py",
)
"""Beside them, but without influence on what a run does."""


def run_id(scenario: Scenario) -> str:
    """A short name, the same for the same run on every machine."""
    plain = scenario.plain()
    del plain["name"], plain["engine"]
    topology = plain["network"]["topology"]
    for table in (*plain["workload"], topology, topology.get("mobility", {})):
        for path in ("file", "presence"):  # what they hold counts, not where they lie
            table.pop(path, None)
    what = {
        "scenario": plain,
        "inputs": list(input_hashes(scenario).values()),
        "code": code_version(),
        "protocol": code_of(scenario.specification),
    }
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
def code_version(package: Path | None = None) -> str:
    """A digest of our code that determines what a run does."""
    base = Path(antecast.__file__).parent if package is None else package
    if (packed := packed_code(base)) is not None:
        return packed
    return digest_of(determining(base), base)


PACKED = "packed.json"
"""In an archive of the package for workers: the digest of what was packed."""


def packed_code(base: Path) -> str | None:
    """The digest that an archive carries; None if the package lies in a folder, whose files can be read."""
    if base.is_dir():
        return None
    content = pkgutil.get_data("antecast", PACKED)
    return None if content is None else str(json.loads(content)["code"])


def determining(package: Path) -> list[Path]:
    """The files whose code determines what a run does."""
    files = [file for part in DETERMINING for file in _sources(package / part)]
    return [file for file in files if not file.relative_to(package).as_posix().startswith(INNOCENT)]


def _sources(path: Path) -> list[Path]:
    return list(path.rglob("*.py")) if path.is_dir() else [path]
