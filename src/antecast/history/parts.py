"""The tables of a sweep in a store: many runs to a file, each run whole or not there at all.

    events/PART.parquet    the events of some runs, with the fields that vary and the seed beside them
    samples/PART.parquet   their samples, in the same way
    parts/PART.parquet     the marker: a row per run, with its row of `runs` and its manifest as JSON

Rules:
1. Of a part the marker is written last: a run is there when a marker names it and both tables are there.
2. A part's name is a hash of the runs in it, and so are the bytes of its tables: whoever makes it again
   writes the very same. Nothing is changed in place.
3. Within a file a run has row groups of its own (tiny runs share one), in the order in which the marker names
   them. So the statistics of `run` and of every field that varies let a reader skip what it did not ask for.
4. A run may be in several parts (a twin of a task, a part that was merged into another): the part with the most
   runs speaks for it. Merging ends this: small runs lie in files of some million rows, in the order of the grid.
5. Which runs lie together follows from the study and the sizes of the runs alone (`plan_merges`). A task that
   makes neighbours of the grid writes them as they will stay: only what was interrupted is written twice.

This is layout 2. Layout 1 had a folder for each run.
"""

from __future__ import annotations

import io
import json
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecast.core.errors import InputError
from antecast.history.log import ParquetSink
from antecast.history.schema import EVENTS, SAMPLES
from antecast.history.store import Store

LAYOUT = 2

TABLES: Mapping[str, pa.Schema] = {"events": EVENTS, "samples": SAMPLES}

GROUP_ROWS = 1 << 20
"""Rows of a row group at the most."""

TINY_ROWS = 2_000
"""Runs with fewer rows share a row group: a row group of its own would be mostly footer."""

MERGED_ROWS = 2_000_000
"""The most events of a file with several runs: some 10 MB, and 150 MB of memory while it is made."""

LEAST_ROWS = 250_000
"""Runs that lie together and have as many events stay by themselves; fewer are merged with others."""

_MARKER = pa.schema(
    [
        ("run", pa.string()),
        ("point", pa.string()),
        ("row", pa.string()),
        ("manifest", pa.string()),
        ("events", pa.int64()),
        ("samples", pa.int64()),
    ]
)


class Spill:
    """A sink that holds its batches in memory up to some rows, and in a file of this machine beyond that."""

    def __init__(self, schema: pa.Schema, file: Path, *, most_rows: int = 1 << 18) -> None:
        self.schema = schema
        self.rows = 0
        self._path = file
        self._most = most_rows
        self._held: list[pa.RecordBatch] = []
        self._file: ParquetSink | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        if self._file is None and self.rows <= self._most:
            self._held.append(batch)
            return
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = ParquetSink(self._path, self.schema)
            for each in self._held:
                self._file.write(each)
            self._held.clear()
        self._file.write(batch)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def abandon(self) -> None:
        self._held.clear()
        if self._file is not None:
            self._file.abandon()
        self._file, self.rows = None, 0
        self.drop()

    def drop(self) -> None:
        """Forget the rows."""
        self._path.unlink(missing_ok=True)

    @property
    def spilled(self) -> bool:
        return self._file is not None

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._file is None:
            yield from self._held
        else:
            yield from pq.ParquetFile(self._path).iter_batches(batch_size=1 << 16)

    def table(self, columns: list[str] | None = None) -> pa.Table:
        if self._file is not None:
            return pq.ParquetFile(self._path).read(columns=columns)
        whole = pa.Table.from_batches(self._held, self.schema)
        return whole if columns is None else whole.select(columns)


@dataclass(frozen=True)
class MadeRun:
    """A run that is finished, before it is in a part."""

    run: str
    point: Mapping[str, Any]
    """Its values of the columns that vary, and its seed."""
    row: Mapping[str, Any]
    manifest: Mapping[str, Any]
    logs: Mapping[str, Callable[[], Iterable[pa.RecordBatch]]]
    """The batches of `events` and of `samples`."""
    rows: Mapping[str, int]
    drops: tuple[Callable[[], None], ...] = ()
    """Forget the batches, once they are in a part."""


@dataclass(frozen=True)
class StoredRun:
    """What the marker of a part says of a run."""

    run: str
    point: Mapping[str, Any]
    row: str
    manifest: str
    rows: Mapping[str, int]


@dataclass(frozen=True)
class Part:
    name: str
    runs: tuple[StoredRun, ...]
    columns: pa.Schema
    """The columns that vary, as they are in its tables."""


def part_name(runs: Sequence[str], columns: pa.Schema) -> str:
    what = [LAYOUT, list(runs), [[field.name, str(field.type)] for field in columns]]
    return blake2b(json.dumps(what).encode(), digest_size=10).hexdigest()


def write_part(
    store: Store,
    runs: Sequence[MadeRun],
    columns: pa.Schema,
    *,
    before_marker: Callable[[], None] | None = None,
) -> str:
    """Write runs as one part, its marker last; its name. `before_marker` may still refuse."""
    name = part_name([each.run for each in runs], columns)
    with tempfile.TemporaryDirectory(prefix="antecast-") as scratch:
        for table, schema in TABLES.items():
            file = Path(scratch) / f"{table}.parquet"
            _write_table(file, table, schema, runs, columns)
            store.upload(f"{table}/{name}.parquet", file)
    rows = [
        [each.run for each in runs],
        [json.dumps(each.point) for each in runs],
        [json.dumps(each.row) for each in runs],
        [json.dumps(each.manifest) for each in runs],
        *([each.rows[table] for each in runs] for table in TABLES),
    ]
    about = {"antecast.layout": str(LAYOUT), "antecast.columns": columns.serialize().to_pybytes().hex()}
    sink = io.BytesIO()
    pq.write_table(pa.table(rows, schema=_MARKER.with_metadata(about)), sink, compression="zstd")
    if before_marker is not None:
        before_marker()
    store.write(f"parts/{name}.parquet", sink.getvalue())
    return name


def _write_table(file: Path, table: str, schema: pa.Schema, runs: Sequence[MadeRun], columns: pa.Schema) -> None:
    whole = pa.schema([*schema, *columns], metadata=schema.metadata)
    names = [field.name for field in whole if pa.types.is_dictionary(field.type)]
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 1}
    # Of the numbers only those that vary are worth a dictionary: they are the same for a whole run.
    options["use_dictionary"] = [*names, *columns.names]
    # The others differ little from row to row; this takes less room than plain numbers, and less time to compress.
    numbers = (field.name for field in schema if pa.types.is_integer(field.type))
    options["column_encoding"] = dict.fromkeys(numbers, "DELTA_BINARY_PACKED")
    with pq.ParquetWriter(file, whole, **options) as writer:
        held: list[pa.Table] = []

        def flush() -> None:
            if held:
                rows = pa.concat_tables(held).unify_dictionaries().combine_chunks()
                writer.write_table(rows, row_group_size=GROUP_ROWS)
                held.clear()

        for each in runs:
            tiny = each.rows[table] < TINY_ROWS
            if not tiny:
                flush()
            for piece in _in_groups(each.logs[table](), schema):
                held.append(_with_columns(piece, each, columns, whole))
                if not tiny or sum(rows.num_rows for rows in held) >= TINY_ROWS:
                    flush()
        flush()


def _in_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of a run in tables of the size of a row group, however they come."""
    held = schema.empty_table()
    for batch in batches:
        held = pa.concat_tables([held, pa.Table.from_batches([batch], schema)])
        while held.num_rows >= GROUP_ROWS:
            yield held.slice(0, GROUP_ROWS)
            held = held.slice(GROUP_ROWS)
    if held.num_rows:
        yield held


def _with_columns(table: pa.Table, made: MadeRun, columns: pa.Schema, whole: pa.Schema) -> pa.Table:
    """A run's rows with its own values beside them. Dictionaries hold what occurs, in the order in which it does:
    so the bytes do not depend on where the rows come from."""
    arrays = [pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), table.num_rows), [made.run])]
    for column in table.columns[1:]:
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).combine_chunks().dictionary_encode()
        arrays.append(column)
    own = [pa.repeat(pa.scalar(made.point[field.name], field.type), table.num_rows) for field in columns]
    return pa.Table.from_arrays([*arrays, *own], schema=whole)


def read_marker(store: Store, name: str) -> Part:
    """What a marker says; `FileNotFoundError` if it is not there."""
    try:
        table = pq.read_table(pa.BufferReader(store.read(f"parts/{name}.parquet")))
        about = table.schema.metadata or {}
        if about.get(b"antecast.layout") != str(LAYOUT).encode():
            raise ValueError(f"its layout is not {LAYOUT}")
        columns = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(about[b"antecast.columns"].decode())))
    except (ValueError, KeyError, pa.ArrowInvalid) as error:
        place = store.where(f"parts/{name}.parquet")
        raise InputError(f"not the marker of a part ({error})", path=place) from None
    runs = tuple(
        StoredRun(
            row["run"], json.loads(row["point"]), row["row"], row["manifest"], {each: row[each] for each in TABLES}
        )
        for row in table.to_pylist()
    )
    return Part(name, runs, columns)


class Parts:
    """The parts in a store. Markers never change, so each is read once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._read: dict[str, Part] = {}
        self.found: dict[str, Part] = {}
        """The parts that are whole, by name."""
        self.of: dict[str, Part] = {}
        """The part that speaks for a run."""

    def refresh(self) -> Parts:
        """Look at the store: three listings, and the markers that are new."""
        markers = {name.removesuffix(".parquet") for name in self.store.list("parts")}
        # Tables are there before their marker, so they are looked for after it.
        there = markers.intersection(
            *({name.removesuffix(".parquet") for name in self.store.list(table)} for table in TABLES)
        )
        if there == self.found.keys():
            return self
        for name in sorted(there - self._read.keys()):
            with suppress(FileNotFoundError):  # merged in the meantime
                self._read[name] = read_marker(self.store, name)
        self.found = {name: self._read[name] for name in sorted(there) if name in self._read}
        self.of = {}
        for part in sorted(self.found.values(), key=lambda each: (-len(each.runs), each.name)):
            for each in part.runs:
                self.of.setdefault(each.run, part)
        return self

    @property
    def overlap(self) -> bool:
        """Whether a run is in several parts."""
        return sum(len(part.runs) for part in self.found.values()) > len(self.of)

    def stored(self, run: str) -> StoredRun | None:
        part = self.of.get(run)
        return None if part is None else next(each for each in part.runs if each.run == run)

    def rows(self) -> dict[str, dict[str, Any]]:
        """The row of every run."""
        return {
            each.run: json.loads(each.row)
            for part in self.found.values()
            for each in part.runs
            if self.of[each.run] is part
        }

    def read(self, run: str, table: str, columns: list[str] | None = None) -> pa.Table:
        """The rows of a run in `events` or `samples`; the rest of the file is skipped."""
        part = self.of[run]
        with self.store.open(f"{table}/{part.name}.parquet") as file:
            wanted = columns or TABLES[table].names
            parquet = pq.ParquetFile(file)
            groups = _groups_with(parquet.metadata, run)
            found = parquet.read_row_groups(groups, columns=[*dict.fromkeys([*wanted, "run"])])
        return found.filter(pc.equal(found["run"].cast(pa.string()), run)).select(wanted)

    def extract(self, run: str, folder: Path) -> Path:
        """Write a run into a folder of its own, as `antecast run` does."""
        stored = self.stored(run)
        assert stored is not None
        folder.mkdir(parents=True, exist_ok=True)
        for table, schema in TABLES.items():
            sink = ParquetSink(folder / f"{table}.parquet", schema)
            for batch in self.read(run, table).unify_dictionaries().combine_chunks().to_batches(1 << 16):
                sink.write(batch)
            sink.close()
        (folder / "manifest.json").write_text(json.dumps(json.loads(stored.manifest), indent=2) + "\n", "utf-8")
        return folder


def _groups_with(metadata: pq.FileMetaData, *runs: str) -> list[int]:
    """The row groups that may hold one of these runs, by their statistics."""
    names = sorted(runs)
    found = []
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(0).statistics
        known = statistics is not None and statistics.has_min_max
        if not known or bisect_left(names, statistics.min) < bisect_right(names, statistics.max):
            found.append(number)
    return found


# Merging.


@dataclass(frozen=True)
class Merge:
    """Runs that belong into one part, each with the part that it lies in now and its values of the columns."""

    runs: tuple[tuple[StoredRun, str, Mapping[str, Any]], ...]
    columns: pa.Schema

    @property
    def name(self) -> str:
        return part_name([each.run for each, _, _ in self.runs], self.columns)

    @property
    def large(self) -> bool:
        return _size(self.runs[0][0]) > MERGED_ROWS


def _size(stored: StoredRun) -> int:
    return max(stored.rows.values())


def plan_merges(
    parts: Parts,
    points: Mapping[str, Mapping[str, Any]],
    columns: pa.Schema,
    together: Iterable[Sequence[str]],
) -> list[Merge]:
    """How the runs should lie: as they are made `together`, or with others where these are few events.

    It depends on the runs alone, not on the parts that they lie in, so what was killed and resumed ends as the
    same files as what was not. Runs that `points` does not know (of other code, or not asked for this time)
    follow, with the values that they were stored with.
    """
    stored = {each.run: each for part in parts.found.values() for each in part.runs}

    def merged(runs: Sequence[str], columns: pa.Schema) -> Merge:
        return Merge(
            tuple((stored[run], parts.of[run].name, points.get(run, stored[run].point)) for run in runs), columns
        )

    sizes = {run: _size(stored[run]) for run in parts.of}
    whole, small = [], []
    for runs in together:
        for piece in filling([run for run in runs if run in sizes], sizes):
            if sum(sizes[run] for run in piece) >= LEAST_ROWS:
                whole.append(merged(piece, columns))
            else:
                small += piece
    found = [*whole, *(merged(piece, columns) for piece in filling(small, sizes))]
    strangers: dict[pa.Schema, list[str]] = {}
    for run in sorted(parts.of.keys() - points.keys()):
        strangers.setdefault(parts.of[run].columns, []).append(run)
    return found + [merged(piece, own) for own, runs in strangers.items() for piece in filling(runs, sizes)]


def filling(runs: Iterable[str], sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Runs in the same order, in pieces that are as large as a file may be; a larger run is alone."""
    held: list[str] = []
    rows = 0
    for run in runs:
        if held and rows + sizes[run] > MERGED_ROWS:
            yield held
            held, rows = [], 0
        held.append(run)
        rows += sizes[run]
    if held:
        yield held


def merge(store: Store, wanted: Merge) -> str:
    """Make one part of runs that lie in others; its name."""
    tables = {} if wanted.large else _gather(store, wanted)

    def logs(run: str, part: str, table: str) -> Callable[[], Iterable[pa.RecordBatch]]:
        if wanted.large:
            return lambda: _stream(store, part, run, table)
        pieces = tables.get((run, table), [])
        return lambda: (batch for piece in pieces for batch in piece.to_batches())

    made = [
        MadeRun(
            run=stored.run,
            point=point,
            row=json.loads(stored.row),
            manifest=json.loads(stored.manifest),
            logs={table: logs(stored.run, part, table) for table in TABLES},
            rows=stored.rows,
        )
        for stored, part, point in wanted.runs
    ]
    return write_part(store, made, wanted.columns)


def _gather(store: Store, wanted: Merge) -> dict[tuple[str, str], list[pa.Table]]:
    """The rows of small runs by run and table; each file is read once."""
    by_part: dict[str, list[str]] = {}
    for stored, part, _ in wanted.runs:
        by_part.setdefault(part, []).append(stored.run)
    found: dict[tuple[str, str], list[pa.Table]] = {}
    for part, runs in by_part.items():
        for table, schema in TABLES.items():
            with store.open(f"{table}/{part}.parquet") as file:
                parquet = pq.ParquetFile(file)
                groups = _groups_with(parquet.metadata, *runs)
                whole = parquet.read_row_groups(groups, columns=schema.names)
            whole = whole.filter(pc.is_in(whole["run"].cast(pa.string()), pa.array(runs, pa.string())))
            for run, start, length in _stretches(whole["run"].cast(pa.string()).combine_chunks()):
                found.setdefault((run, table), []).append(whole.slice(start, length))
    return found


def _stretches(runs: pa.Array) -> Iterator[tuple[str, int, int]]:
    """Where the rows of each run lie together: its name, the first row, their number."""
    start = 0
    encoded = pc.run_end_encode(runs)
    for run, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield run, start, end - start
        start = end


def _stream(store: Store, part: str, run: str, table: str) -> Iterator[pa.RecordBatch]:
    with store.open(f"{table}/{part}.parquet") as file:
        parquet = pq.ParquetFile(file)
        groups = _groups_with(parquet.metadata, run)
        for batch in parquet.iter_batches(1 << 16, groups, columns=TABLES[table].names):
            yield batch.filter(pc.equal(batch.column(0).cast(pa.string()), run))
