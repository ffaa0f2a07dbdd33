"""Folders that a report can be made of: what they are, and what is read from and written into them.

A report is `report.html` in the folder it tells of. Numbers that the folder does not hold as Parquet yet are
written beside it, into `report/`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.core.errors import InputError, OutputError

Subject: TypeAlias = Literal["comparison", "sweep", "run", "reproduction", "audit"]

REPORT = "report.html"

_MARKS: Mapping[Subject, tuple[str, ...]] = {
    "comparison": ("compare.parquet", "compare.json"),  # it lies in the folder of a sweep
    "sweep": ("study.json", "runs.parquet"),
    "run": ("events.parquet", "manifest.json"),
    "reproduction": ("findings.parquet",),
    "audit": ("verdict.json",),
}


def subject_of(folder: Path) -> Subject:
    """What a folder holds, by the files in it; an `InputError` if it is nothing that a report is made of."""
    if not folder.is_dir():
        raise InputError(_not_a_folder(folder), path=folder)
    for subject, names in _MARKS.items():
        if all((folder / name).is_file() for name in names):
            return subject
    known = "; ".join(f"{subject}: {' and '.join(names)}" for subject, names in _MARKS.items())
    inside = sorted(each for each in folder.iterdir() if each.is_dir() and _holds_something(each))
    if inside:
        many = (
            f"holds {len(inside)} folders with results; name one, such as"
            if len(inside) > 1
            else "its results are in"
        )
        raise InputError(f"{many} {inside[0]}", path=folder)
    what = "a run, a sweep, a comparison, an audit or a reproduction"
    raise InputError(f"not the folder of {what} ({known})", path=folder)


def _holds_something(folder: Path) -> bool:
    return any(all((folder / name).is_file() for name in names) for names in _MARKS.values())


def _not_a_folder(path: Path) -> str:
    """What to do with something that is no folder."""
    if not path.exists():
        return "no such folder"
    if path.suffix == ".toml":
        return "is a file that says what to run; `antecast run`, `compare` or `sweep` makes a report of it"
    if _holds_something(path.parent):
        return f"is a file; name its folder, {path.parent}"
    return "is a file; `antecast audit FILE --out FOLDER` makes a report of a log"


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"not readable ({error})", path=path) from None
    if not isinstance(value, dict):
        raise InputError("not a JSON object", path=path)
    return value


def read_table(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"not a readable Parquet file ({error})", path=path) from None


class Beside:
    """Writes the tables of a report into the folder `report/` of its subject, and says where each lies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: list[str] = []

    def write(self, name: str, table: pa.Table) -> str:
        """Write a table, whole or not at all; its path as the page names it, relative to the page's folder."""
        path = self.folder / "report" / f"{name}.parquet"
        partial = path.with_name(f".{path.name}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, partial, compression="zstd")
            partial.replace(path)
        except OSError as error:
            raise OutputError(f"cannot write: {error.strerror or error}", path=path) from error
        self.written.append(f"report/{name}.parquet")
        return self.written[-1]

    def summary(self, values: Mapping[str, float | int | None]) -> str:
        """Write the single numbers of a page: `name`, `value`."""
        columns = {
            "name": list(values),
            "value": [None if each is None else float(each) for each in values.values()],
        }
        return self.write("summary", pa.table(columns, schema=_SUMMARY))

    def tidy(self) -> list[str]:
        """Remove what an earlier report left and this one did not write; the tables that are there now."""
        for path in (self.folder / "report").glob("*.parquet"):
            if f"report/{path.name}" not in self.written:
                path.unlink(missing_ok=True)
        return self.written


def forget(folder: Path) -> None:
    """Remove the report of a folder, if there is one: it would tell of what was here before."""
    (folder / REPORT).unlink(missing_ok=True)
    Beside(folder).tidy()


_SUMMARY = pa.schema([("name", pa.string()), ("value", pa.float64())])


def command_line(words: Sequence[str] | None, *, without_folder: bool = False) -> str | None:
    """A command as the user typed it; None if it was not the `antecast` command.

    `without_folder` leaves out `--out`, for commands that write into new folders only.

    >>> command_line(["/usr/bin/antecast", "run", "a b.toml", "-o", "here"], without_folder=True)
    "antecast run 'a b.toml'"
    """
    if not words:
        return None
    program, *rest = words
    name = Path(program).name
    if name == "__main__.py" and Path(program).parent.name == "antecast":
        name = "antecast"
    if name != "antecast":
        return None
    kept: list[str] = []
    skip = False
    for word in rest:
        if skip:
            skip = False
        elif without_folder and word in ("-o", "--out"):
            skip = True
        elif not (without_folder and word.startswith("--out=")) and word != "--force":
            kept.append(word)
    return shlex.join(["antecast", *kept])
