"""A log as a person names it: some paths, what the columns are called, where a row of it stands.

A log in several files is one log. It is judged under the names of `antecast.history.rows`; the files may
have others, which `columns` and `kinds` tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecast.core.errors import ConfigurationError, InputError
from antecast.history.histories import Clock
from antecast.history.log_formats import FORMATS, LogFormat, format_of
from antecast.history.rows import COLUMNS, BrokenLog, factorise

KINDS = ("broadcast", "deliver")
"""The kinds that count."""

_NAMED = ("run", "node", "pos", "origin", "seq")


@dataclass(frozen=True)
class Log:
    """A log in files that were looked at: they are there and have the columns."""

    files: Mapping[Path, pa.Schema]
    """The files, in order, with all columns they have."""
    format: LogFormat
    columns: Mapping[str, str]
    """What the files call the columns that are used."""
    kinds: Mapping[str, str]
    """What they call the kinds, where they have other words."""
    clock: Clock

    @property
    def rows(self) -> int:
        """How many rows there are: exact for Parquet, a guess from its size for text."""
        return sum(self.format.rows(file) for file in self.files)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as `antecast.history.audit` takes them."""
        for file, schema in self.files.items():
            for batch in self.format.batches(file, schema, self.columns):
                yield self._in_our_words(batch)

    def place(self, error: BrokenLog) -> InputError:
        """The error with the file and the row, or line, where the log is broken; looked for by name."""
        twins = 2 if "two events" in error.problem else 1
        named = any(getattr(error, name) is not None for name in _NAMED)
        for exactly in (True, False) if named else (True,):
            found: list[tuple[Path, int]] = []
            for file, schema in self.files.items():
                start = 0
                for batch in self.format.batches(file, schema, self.columns):
                    matches = np.flatnonzero(self._matches(batch, error, exactly=exactly))
                    found += [(file, start + row) for row in matches.tolist()]
                    start += len(batch)
                    if len(found) >= twins:
                        break
                if len(found) >= twins:
                    break
            if found:
                first, last = found[0], found[:twins][-1]
                text = str(error)
                if first != last:
                    text += f" (the other is {first[0]}:{self.format.place(*first)})"
                return InputError(text, path=last[0], line=self.format.place(*last))
        return InputError(str(error), path=next(iter(self.files)))

    def _matches(self, batch: pa.RecordBatch, error: BrokenLog, *, exactly: bool) -> NDArray[np.bool_]:
        """Rows with the names that the error gives; `exactly`: and with nulls where it gives none.

        A row that lacks a value lacks it in its name too, and should be found before one that has it.
        """
        kind = self._in_our_words(batch).column("kind").cast(pa.string())
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

    def nothing(self) -> InputError:
        """The error for a log without broadcasts and deliveries, with the words it has instead."""
        words: set[str] = set()
        for file, schema in self.files.items():
            for batch in self.format.batches(file, schema, {"kind": self.columns["kind"]}):
                words.update(str(word) for word in batch.column("kind").unique().to_pylist())
        some = ", ".join(sorted(words)[:20])
        what = f"the kinds are {some}; say which means what with --kinds broadcast=WORD,deliver=WORD"
        problem = what if words else "there are no rows at all"
        return InputError(f"no row is a broadcast or a delivery: {problem}", path=next(iter(self.files)))

    def _in_our_words(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The kinds in the auditor's words, and as words where they are numbers."""
        place = batch.schema.get_field_index("kind")
        column = batch.column(place)
        if not self.kinds and _is_text(column.type):
            return batch
        codes, words = factorise(column.cast(pa.string()).dictionary_encode())
        ours = {self.kinds.get(kind, kind): kind for kind in KINDS}
        texts = pa.array([ours.get(str(word), "") for word in words], pa.string())
        indices = pa.array(codes, mask=column.is_null().to_numpy(zero_copy_only=False))
        return batch.set_column(place, "kind", pa.DictionaryArray.from_arrays(indices, texts))


def open_log(
    paths: Sequence[str],
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
    files = list(dict.fromkeys(file for path in paths for file in _files(path, file_format)))
    formats = {format_of(file) if file_format is None else file_format for file in files}
    if len(formats) != 1 or not formats <= FORMATS.keys():
        problem = f"the files of a log must be of one format, and of one of {', '.join(FORMATS)}"
        raise ConfigurationError(problem, field="--format")
    chosen = FORMATS[str(formats.pop())]
    columns = columns or {}
    asked = [name for name in COLUMNS if name != "t" or clock == "global"]
    schemas = {file: chosen.schema(file, {name: columns.get(name, name) for name in asked}) for file in files}
    if clock is None:
        clock = "global" if not columns and all(map(_is_ours, schemas.values())) else "local"
    wanted = {name: columns.get(name, name) for name in COLUMNS if name != "t" or clock == "global"}
    for file, schema in schemas.items():
        _check(file, schema, files[0], schemas[files[0]], wanted, optional={"run"} - columns.keys())
    used = {name: actual for name, actual in wanted.items() if actual in schemas[files[0]].names}
    return Log(schemas, chosen, used, kinds or {}, clock)


def _files(path: str, file_format: str | None) -> list[Path]:
    place = Path(path)
    if place.is_file():
        return [place]
    if place.is_dir():
        inside = [
            file
            for file in sorted(place.rglob("*"))
            if file.is_file() and not any(part[0] in "._" for part in file.relative_to(place).parts)
        ]
        # Run folders, and the folder of a sweep, hold other tables too.
        found = [file for file in inside if file.name == "events.parquet"]
        found = found or [file for file in inside if file_format or format_of(file)]
    else:
        found = [Path(each) for each in sorted(glob(path))] if has_magic(path) else []  # noqa: PTH207
    if not found:
        what = "no log in this folder" if place.is_dir() else "no such file or folder"
        suffixes = ", ".join(suffix for each in FORMATS.values() for suffix in each.suffixes)
        raise InputError(
            f"{what}; expected a run folder, a sweep folder, or files that end in {suffixes}", path=path
        )
    return found


def _is_ours(schema: pa.Schema) -> bool:
    metadata: Mapping[bytes, bytes] = schema.metadata or {}
    return metadata.get(b"antecast.schema", b"").startswith(b"events/")


def _check(
    file: Path, schema: pa.Schema, first: Path, model: pa.Schema, wanted: Mapping[str, str], optional: set[str]
) -> None:
    """A file has the columns, and has them as the first file has."""
    for name, actual in wanted.items():
        if actual not in schema.names:
            if name in optional and actual not in model.names:
                continue
            has = f"the file has {', '.join(schema.names)}" if schema.names else "the file is empty"
            raise InputError(f"no column {actual!r}; {has}; say which it is with --map {name}=COLUMN", path=file)
        if actual not in model.names or _class(schema, actual) != _class(model, actual):
            there = model.field(actual).type if actual in model.names else "missing"
            problem = f"column {actual!r} is {schema.field(actual).type}, but {there} in {first}"
            raise InputError(problem, path=file)
        if name in ("pos", "seq", "t") and _class(schema, actual) != "number":
            problem = f"column {actual!r} must hold whole numbers, not {schema.field(actual).type}"
            raise InputError(f"{problem}; say which it is with --map {name}=COLUMN", path=file)


def _class(schema: pa.Schema, name: str) -> str:
    """Types that hold the same names: numbers of any width, texts of any form."""
    kind = _plain(schema.field(name).type)
    return "number" if pa.types.is_integer(kind) else "text" if _is_text(kind) else str(kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(_plain(kind)) or pa.types.is_large_string(_plain(kind)))


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
