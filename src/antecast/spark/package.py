"""Antecast as an archive for workers that do not have it: `--py-files`, or an artifact of Spark Connect.

Python imports from the archive as it is. It holds the package alone: what it needs beside it (`NEEDS`) has to be
in the workers' Python, as compiled libraries cannot be imported from an archive.
"""

from __future__ import annotations

import json
import zipfile
from contextlib import suppress
from pathlib import Path

import antecast
from antecast.core.errors import OutputError
from antecast.sim.identity import PACKED, code_version
from antecast.version import __version__

NEEDS = ("jinja2", "msgspec", "numba", "numpy", "pandas", "pyarrow")

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file: the same package gives the same bytes."""


def default_file() -> Path:
    return Path(f"antecast-{__version__}.zip")


def write_package(file: Path) -> int:
    """Write the archive; how many files are in it."""
    if file.is_dir():
        raise OutputError(f"is a folder; name the archive, such as {default_file()}", path=file)
    base = Path(antecast.__file__).parent
    sources = sorted(path for path in base.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    partial = file.with_name(f".{file.name}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sources:
                name = (Path("antecast") / path.relative_to(base)).as_posix()
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
            about = json.dumps({"version": __version__, "code": code_version()})
            archive.writestr(zipfile.ZipInfo(f"antecast/{PACKED}", _EPOCH), about)
        partial.replace(file)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise OutputError(f"cannot write: {error.strerror}", path=file) from error
    return len(sources) + 1
