"""Sources that are files: which files a path means, how they are dealt out to tasks, how rows become batches.

A task reads a share of the parts: a file, or a part of one that can be read alone. The files must be where the
tasks run, at the same paths. Spark's API has no column pruning; a schema that the user gives with fewer columns
does the same, and is honoured by reading only those.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from antecast.core.errors import ConfigurationError, InputError

TASKS = 256
"""Tasks that a read is dealt out to, at most."""


def file_paths(source: str, values: dict[str, Any]) -> list[str]:
    """The paths that `load` was given, as they were written, without `file:`."""
    given = [*values.get("paths", ()), *([values["path"]] if values.get("path") else [])]
    if not given:
        raise ConfigurationError("no path; name a file, a folder or a pattern in load(...)", source=source)
    return [_local(source, path) for path in given]


def _local(source: str, path: str) -> str:
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme or Path(path).exists():
        return path
    if scheme != "file":
        problem = f"cannot read {path}: files are read from the file systems of the machines; mount it or copy it"
        raise ConfigurationError(problem, source=source, field="path")
    return "/" + rest.lstrip("/")


def of_pattern(path: str) -> list[Path] | None:
    """What a pattern means; None if the path is none."""
    is_one = has_magic(path) and not Path(path).exists()
    return sorted(map(Path, glob(path))) if is_one else None  # noqa: PTH207


def find_files(source: str, values: dict[str, Any]) -> list[Path]:
    """The files that are meant: a file, those in a folder, those of a pattern; hidden ones are left out."""
    found: list[Path] = []
    for path in file_paths(source, values):
        place, several = Path(path), of_pattern(path)
        if several is None:
            these = _files_of(place)
        else:
            these = [file for each in several if each.name[0] not in "._" for file in _files_of(each)]
        if not these:
            what = "no files in this folder" if place.is_dir() else "no such file or folder"
            raise InputError(what, path=path)
        found += these
    return list(dict.fromkeys(each.resolve() for each in found))


def _files_of(place: Path) -> list[Path]:
    """A file, or those in a folder."""
    if not place.is_dir():
        return [place] if place.is_file() else []
    inside = sorted(each for each in place.rglob("*") if each.is_file())
    return [each for each in inside if not any(part[0] in "._" for part in each.relative_to(place).parts)]


@dataclass(frozen=True)
class Part:
    """What can be read alone."""

    path: Path
    size: int
    """Bytes, more or less."""
    what: Any = None
    """Which part of the file; the whole if None."""


def deal(parts: Sequence[Part], tasks: int) -> list[tuple[Part, ...]]:
    """Parts in their order as at most so many shares of about equal size."""
    if len(parts) <= tasks:
        return [(part,) for part in parts]
    share = sum(1 + part.size for part in parts) / tasks
    shares: list[list[Part]] = [[] for _ in range(tasks)]
    before = 0.0
    for part in parts:
        shares[min(tasks - 1, int(before / share))].append(part)
        before += 1 + part.size
    return [tuple(each) for each in shares if each]


class Share(InputPartition):
    """The parts of a task."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts


class FileSource(DataSource):
    """What sources of files share."""

    @abstractmethod
    def columns(self) -> StructType:
        """All columns there are."""

    @abstractmethod
    def file_reader(self, schema: StructType) -> FileReader: ...

    def schema(self) -> StructType:
        return self.columns()

    def reader(self, schema: StructType) -> DataSourceReader:
        check_columns(self.name(), schema, self.columns())
        return self.file_reader(schema)


def check_columns(source: str, asked: StructType, known: StructType) -> None:
    """Refuse a schema with columns that a source does not have, or has with another type."""
    there = {field.name: field.dataType for field in known.fields}
    for field in asked.fields:
        if field.name not in there:
            problem = f"no column {field.name!r}; the columns are {', '.join(there)}"
            raise ConfigurationError(problem, source=source, field="schema")
        if field.dataType != there[field.name]:
            right, got = there[field.name].simpleString(), field.dataType.simpleString()
            raise ConfigurationError(
                f"the column {field.name!r} is {right}, not {got}", source=source, field="schema"
            )


class FileReader(DataSourceReader):
    """Reads parts.

    It takes no filters: Spark 4.3 plans a read once per DataFrame, so filters that one query hands down would
    apply to every other query of the same DataFrame, too.
    """

    def __init__(self, schema: StructType, *, tasks: int | None) -> None:
        self.target = to_arrow_schema(schema, timezone="UTC")
        self.tasks = tasks or TASKS

    @abstractmethod
    def parts(self) -> list[Part]: ...

    @abstractmethod
    def batches(self, part: Part) -> Iterator[pa.RecordBatch | pa.Table]:
        """The rows of a part, with at least the columns of the target."""

    def partitions(self) -> list[InputPartition]:
        return [Share(parts) for parts in deal(self.parts(), self.tasks)] or [Share(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        for part in partition.parts:
            for rows in self.batches(part):
                yield from fitted(rows, self.target)


def fitted(rows: pa.RecordBatch | pa.Table, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows with just the columns and types that Spark expects."""
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    columns = [table.column(field.name).cast(field.type) for field in target]
    yield from pa.Table.from_arrays(columns, schema=target).combine_chunks().to_batches(max_chunksize=1 << 16)


def with_file(source: str, columns: StructType, name: str | None) -> StructType:
    """Columns with one more for the path of the file, if a name is given for it."""
    if name is None:
        return columns
    if not name or name.lower() in (each.lower() for each in columns.names):
        problem = f"expected a name that no column has, got {name!r}; the columns are {', '.join(columns.names)}"
        raise ConfigurationError(problem, source=source, field="fileColumn")
    return StructType([*columns.fields, StructField(name, StringType())])
