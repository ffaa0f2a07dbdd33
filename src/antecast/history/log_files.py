"""A log as a person names it: some paths, what the columns are called, where a row of it stands.

A log in several files is one log. It is judged under the names of `antecast.history.rows`; the files may have
others, which `columns` and `kinds` tell. Folders with names such as `run=7` are a column of the files in them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecast.core.errors import ConfigurationError, InputError
from antecast.core.log_files import find_files, natural_order, once
from antecast.history.histories import Clock
from antecast.history.log_columns import (
    FILE_ORDER,
    BadValue,
    Form,
    all_paths,
    canonical,
    expectation,
    form_of,
    plain_type,
    type_at,
)
from antecast.history.log_formats import FORMATS, Csv, LogFormat, format_of
from antecast.history.log_kinds import KINDS, check_words, in_our_words, kinds_error
from antecast.history.rows import ALL_COLUMNS, COLUMNS, BrokenLog

_NAMED = ("run", "node", "pos", "origin", "seq", "message")

EVENTS = "events.parquet"
"""The log in the folder of a run."""

_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class LogFile:
    """A file of a log that was looked at: it is there and has the columns."""

    path: Path
    schema: pa.Schema
    """All columns that are in the file, by its own names."""
    folders: Mapping[str, pa.Scalar]
    """Columns that are not in the file but in the names of its folders."""
    start: int = 0
    """The place of its first row, where the order of the files counts."""

    def type_at(self, path: str) -> pa.DataType | None:
        found = type_at(self.schema, path)
        return self.folders[path].type if found is None and path in self.folders else found

    @property
    def names(self) -> list[str]:
        return [*all_paths(self.schema), *(name for name in self.folders if name not in self.schema.names)]


@dataclass(frozen=True)
class Log:
    """A log in files."""

    files: tuple[LogFile, ...]
    format: LogFormat
    columns: Mapping[str, str]
    """What the files call the columns that are used."""
    kinds: Mapping[str, str]
    """What they call the kinds, where they have other words."""
    clock: Clock
    ours: bool = False
    """Whether Antecast wrote all of it."""
    left_out: tuple[Path, ...] = ()
    """Files of its folders that are no tables."""

    @property
    def rows(self) -> int:
        """How many rows there are: exact for Parquet, a guess from its size for text."""
        return sum(self.format.rows(file.path) for file in self.files)

    @property
    def forms(self) -> dict[str, Form]:
        """What each column becomes."""
        first = self.files[0]
        kinds = {name: first.type_at(path) for name, path in self.columns.items() if path != FILE_ORDER}
        forms = {name: form_of(name, kind) or "text" for name, kind in kinds.items() if kind is not None}
        return {name: forms.get(name, "number") for name in self.columns}

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as `antecast.history.audit` takes them."""
        for file in self.files:
            yield from self.read(file)

    def parts(self) -> list[tuple[LogFile, int, int]]:
        """The log in parts that can be read apart: a file, the part of it, and the number of its first row."""
        found: list[tuple[LogFile, int, int]] = []
        for file in self.files:
            row = 0
            for part, rows in enumerate(self.format.parts(file.path)):
                found.append((file, part, row))
                row += rows
        return found

    def read(self, file: LogFile, part: int | None = None, first: int = 0) -> Iterator[pa.RecordBatch]:
        """The rows of a file, or of a part of it that begins with its `first`-th row."""
        physical = {name: path for name, path in self.columns.items() if type_at(file.schema, path) is not None}
        row = first
        for batch in self.format.batches(file.path, file.schema, physical, part):
            arrays: list[pa.Array] = []
            try:
                for name, path in self.columns.items():
                    if name in physical:
                        arrays.append(canonical(name, batch.column(name)))
                    elif path == FILE_ORDER:
                        arrays.append(pa.array(np.arange(row, row + len(batch)) + file.start))
                    else:
                        arrays.append(canonical(name, pa.repeat(file.folders[path], len(batch))))
            except BadValue as error:
                line = self.format.place(file.path, row + error.row)
                raise InputError(error.problem, path=file.path, line=line) from None
            yield in_our_words(pa.RecordBatch.from_arrays(arrays, names=list(self.columns)), self.kinds)
            row += len(batch)

    def place(self, error: BrokenLog) -> InputError:
        """The error with the file and the row, or line, where the log is broken; looked for by name."""
        twins = 2 if "two events" in error.problem else 1
        named = any(getattr(error, name) is not None for name in _NAMED)
        text = _in_a_line(str(error), most=1000) + self._hint(error)
        for exactly in (True, False) if named else (True,):
            found: list[tuple[Path, int]] = []
            for file in self.files:
                start = 0
                for batch in self.read(file):
                    matches = np.flatnonzero(_matches(batch, error, exactly=exactly))
                    found += [(file.path, start + row) for row in matches.tolist()]
                    start += len(batch)
                    if len(found) >= twins:
                        break
                if len(found) >= twins:
                    break
            if found:
                first, last = found[0], found[:twins][-1]
                if first != last:
                    text += f" (the other is {first[0]}:{self.format.place(*first)})"
                return InputError(text, path=last[0], line=self.format.place(*last))
        return InputError(text, path=self.files[0].path)

    def _hint(self, error: BrokenLog) -> str:
        kind = self.files[0].type_at(self.columns["pos"])
        timed = kind is not None and not pa.types.is_integer(plain_type(kind))
        if timed and "two events" in error.problem:
            return "; if the rows stand in the order of events, say --map pos=@file"
        return ""

    def check_kinds(self, messages: int, deliveries: int) -> None:
        """Refuse a verdict on a log in which a kind has no row though there are rows of other kinds.

        Our own logs are right about their kinds: where they have no delivery, nothing was delivered.
        """
        if messages and deliveries:
            return
        words: set[str] = set()
        only = Log(self.files, self.format, {"kind": self.columns["kind"]}, {}, self.clock)
        for file in self.files:
            for batch in only.read(file):
                words.update(str(word) for word in batch.column("kind").unique().to_pylist())
        if problem := kinds_error(words, self.kinds, lenient=self.ours):
            raise InputError(_in_a_line(problem, most=1000), path=self.files[0].path)


def _in_a_line(text: str, most: int = 60) -> str:
    """A text from a file as part of an error: quotes that are never closed make names of many lines."""
    line = text.replace("\r", "\\r").replace("\n", "\\n")
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _matches(batch: pa.RecordBatch, error: BrokenLog, *, exactly: bool) -> NDArray[np.bool_]:
    """Rows with the names that the error gives; `exactly`: and with nulls where it gives none.

    A row that lacks a value lacks it in its name too, and should be found before one that has it.
    """
    kind = batch.column("kind").cast(pa.string())
    mask = pc.or_(kind.is_null(), pc.is_in(kind, pa.array(KINDS))).to_numpy(zero_copy_only=False)
    for name in _NAMED:
        value = getattr(error, name)
        if name not in batch.schema.names or (value is None and not exactly):
            continue
        column = batch.column(name)
        same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
        mask = mask & same.to_numpy(zero_copy_only=False)
    matches: NDArray[np.bool_] = mask
    return matches


def open_log(
    paths: Sequence[Path | str],
    *,
    file_format: str | None = None,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    clock: Clock | None = None,
) -> Log:
    """Find the files of a log and see that they have what an audit needs.

    A path is a file, a folder of files, a run folder, a sweep folder, or a pattern such as `logs/*.csv`.
    Without a word about the clock, it is global in Antecast's own logs, and local in others.
    """
    check_words(kinds or {})
    pairs = [_find(path, file_format) for path in paths]
    found = once(file for some, _ in pairs for file in some)
    left_out = tuple(file for _, some in pairs for file in some)
    chosen = FORMATS[_one_format(found, file_format)]
    columns = columns or {}
    for name in columns:
        if name not in ALL_COLUMNS:
            raise ConfigurationError(
                f"no such column {name!r}; there are {', '.join(ALL_COLUMNS)}", field="columns"
            )
    _check_names(columns)
    asked = [name for name in _wanted(columns) if name != "t" or clock == "global"]
    names = {name: columns.get(name, name) for name in asked}
    schemas = {file: chosen.schema(file, names) for file in found}
    folders = _folder_columns(found, texts=isinstance(chosen, Csv))
    files = tuple(LogFile(file, schema, folders[file]) for file, schema in schemas.items())
    ours = not columns and all(map(_is_ours, schemas.values()))
    if clock is None:
        clock = "global" if ours and not any(map(_has_local_clocks, schemas.values())) else "local"
    wanted = {name: columns.get(name, name) for name in _wanted(columns) if name != "t" or clock == "global"}
    for file in files:
        _check(file, files[0], wanted, optional={"run"} - columns.keys())
    used = {
        name: path for name, path in wanted.items() if path == FILE_ORDER or files[0].type_at(path) is not None
    }
    if FILE_ORDER in used.values():
        files = _numbered(files, chosen)
    return Log(files, chosen, used, kinds or {}, clock, ours, left_out)


def _one_format(files: Sequence[Path], said: str | None) -> str:
    known = ", ".join(FORMATS)
    formats = {file: said or format_of(file) for file in files}
    first = next(iter(formats))
    for file, each in formats.items():
        if each not in FORMATS:
            problem = f"the name {file} does not tell" if each is None else f"no such format {each!r}"
            raise ConfigurationError(f"{problem}; choose one of {known}", field="--format")
        if each != formats[first]:
            raise InputError(
                f"this file is {each}, but {first} is {formats[first]}; a log has one format", path=file
            )
    return str(formats[first])


def _wanted(columns: Mapping[str, str]) -> list[str]:
    """The columns to look for: a message has an origin and a number, or one name."""
    if "message" in columns:
        return [*(name for name in COLUMNS if name not in ("origin", "seq")), "message"]
    return list(COLUMNS)


def _check_names(columns: Mapping[str, str]) -> None:
    """Refuse names that contradict each other."""
    replaced = sorted({"origin", "seq"} & columns.keys())
    if "message" in columns and replaced:
        raise ConfigurationError(f"message takes the place of {' and '.join(replaced)}", field="--map")
    for name, path in columns.items():
        if path == FILE_ORDER and name != "pos":
            raise ConfigurationError(f"{FILE_ORDER} can stand for pos only, not for {name}", field="--map")


def _numbered(files: tuple[LogFile, ...], chosen: LogFormat) -> tuple[LogFile, ...]:
    """The files with the places of their first rows, one after the other."""
    start, found = 0, []
    for file in files:
        found.append(LogFile(file.path, file.schema, file.folders, start))
        start += sum(chosen.parts(file.path))
    return tuple(found)


def _find(path: Path | str, file_format: str | None) -> tuple[list[Path], list[Path]]:
    """The tables that a path means, and the files of its folder that are none."""
    place = Path(path)
    if has_magic(str(path)) and not os.path.lexists(place):
        pairs = [_find(each, file_format) for each in sorted(map(Path, glob(str(path))), key=natural_order)]  # noqa: PTH207
        if pairs:
            return [file for some, _ in pairs for file in some], [file for _, some in pairs for file in some]
    try:
        found = find_files([path])
    except InputError as error:
        if error.problem.startswith("no "):
            raise InputError(f"{error.problem}; {_expected()}", path=path) from None
        raise
    if not place.is_dir():
        return found, []
    if (place / "study.json").is_file() and any(file.parent == place / "events" for file in found):
        return [file for file in found if file.parent == place / "events"], []
    # The folder of a run holds other tables too.
    runs = {file.parent for file in found if file.name == EVENTS and (file.parent / "manifest.json").is_file()}
    found = [file for file in found if not runs & {*file.parents} or (file.parent in runs and file.name == EVENTS)]
    tables = [file for file in found if file_format or format_of(file)]
    if not tables:
        raise InputError(f"no log in this folder; {_expected()}", path=path)
    return tables, [file for file in found if file not in tables]


def _expected() -> str:
    suffixes = ", ".join(suffix for each in FORMATS.values() for suffix in each.suffixes)
    return f"expected a run folder, a sweep folder, or files that end in {suffixes}"


def _folder_columns(files: Sequence[Path], *, texts: bool) -> dict[Path, dict[str, pa.Scalar]]:
    """Columns in the names of folders, `run=7` as Hive and Spark write them; numbers where all are numbers."""
    found: dict[Path, dict[str, str | None]] = {}
    for file in files:
        pairs = (part.partition("=") for part in file.parts[:-1] if "=" in part[1:])
        values = {unquote(name): unquote(value) for name, _, value in pairs}
        found[file] = {name: None if value == _NO_PARTITION else value for name, value in values.items()}
    words: dict[str, set[str]] = {}
    for each in found.values():
        for name, value in each.items():
            words.setdefault(name, set()).update([] if value is None else [value])
    kinds = {name: _folder_type(values, texts=texts) for name, values in words.items()}
    return {
        file: {
            name: pa.scalar(
                None if value is None else int(value) if pa.types.is_integer(kinds[name]) else value, kinds[name]
            )
            for name, value in each.items()
        }
        for file, each in found.items()
    }


def _folder_type(values: set[str], *, texts: bool) -> pa.DataType:
    numbers = all(re.fullmatch(r"0|-?[1-9]\d{0,17}", value) for value in values)
    return pa.int64() if numbers and not texts else pa.string()


def _is_ours(schema: pa.Schema) -> bool:
    metadata: Mapping[bytes, bytes] = schema.metadata or {}
    return metadata.get(b"antecast.schema", b"").startswith(b"events/")


def _has_local_clocks(schema: pa.Schema) -> bool:
    """Whether a log of ours is one of live nodes, whose clocks differ."""
    metadata: Mapping[bytes, bytes] = schema.metadata or {}
    return metadata.get(b"antecast.clock") == b"local"


def _check(file: LogFile, first: LogFile, wanted: Mapping[str, str], optional: set[str]) -> None:
    """A file has the columns, and has them as the first file has."""
    lacking = {
        name: path
        for name, path in wanted.items()
        if path != FILE_ORDER
        and path not in file.schema.names  # one that is there twice has no type
        and file.type_at(path) is None
        and not (name in optional and first.type_at(path) is None)
    }
    if lacking:
        raise InputError(_without(file, lacking), path=file.path)
    for name, path in wanted.items():
        if path == FILE_ORDER:
            continue
        if file.schema.names.count(path) > 1:
            raise InputError(f"two columns are called {path!r}", path=file.path)
        kind, model = file.type_at(path), first.type_at(path)
        if kind is None:
            continue  # optional, and in no file
        form = form_of(name, kind)
        if model is None or form != form_of(name, model):
            there = model if model is not None else "missing"
            raise InputError(f"column {path!r} is {kind}, but {there} in {first.path}", path=file.path)
        if form is None:
            problem = f"column {path!r} must hold {expectation(name)}, not {kind}"
            raise InputError(f"{problem}; say which it is with --map {name}=COLUMN", path=file.path)


def _without(file: LogFile, lacking: Mapping[str, str]) -> str:
    """All columns that a file lacks, in one sentence: one who maps columns wants to know them together."""
    if not file.names:
        return "the file is empty"
    columns = f"no column {', '.join(map(repr, lacking.values()))}"
    has = f"the file has {', '.join(map(_in_a_line, file.names))}"
    if len(file.names) == 1 and re.search(r"[;\t|]", file.names[0]):
        return f"{columns}; {has}; values must be separated by commas"
    which = "which it is" if len(lacking) == 1 else "which they are"
    return f"{columns}; {has}; say {which} with --map {','.join(f'{name}=COLUMN' for name in lacking)}"
