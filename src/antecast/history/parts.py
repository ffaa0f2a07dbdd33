"""The tables of a sweep in a store: many runs to a file, each run whole or not there at all.

    events/PART.parquet    the events of some runs, with the fields that vary and the seed beside them
    samples/PART.parquet   their samples, in the same way
    parts/PART.parquet     the marker: a row per run, with its row of `runs` and its manifest as JSON

Rules:
1. Of a part the marker is written last: a run is there when a marker names it and both tables are there, as long
   as the marker says. What a store has lost of a part, whichever of its objects, costs the runs of that part and
   no others.
2. A part's name is a hash of the runs in it, and so are the bytes of its tables: whoever makes it again
   writes the very same. Nothing is changed in place.
3. Within a file a run has row groups of its own (tiny runs share one), in the order in which the marker names
   them. So the statistics of `run` and of every field that varies let a reader skip what it did not ask for.
4. A run may be in several parts (a twin of a task, a part that was merged into another): the part with the most
   runs speaks for it. Merging ends this: small runs lie in files of some million rows, in the order of the grid.
5. Which runs lie together follows from the study and the sizes of the runs alone (`plan_merges`). A task that
   makes neighbours of the grid writes them as they will stay: only what was interrupted is written twice
   (`history.merges`).
6. A listing may come late. What one listing shows and another does not, what was seen before, and what was just
   written, is asked for by name before it is held for lost.

This is layout 2. Layout 1 had a folder for each run.
"""

from __future__ import annotations

import io
import json
import re
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from antecast.history.store import Listed, Store

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

_NAME = re.compile(r"[0-9a-f]{20}\.parquet")
"""Objects of any other name are not ours: they are neither read nor taken away."""

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
    sizes: Mapping[str, int]
    """The bytes of its tables. Markers of version 0.2 do not say."""


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
    sizes = {}
    with tempfile.TemporaryDirectory(prefix="antecast-") as scratch:
        for table, schema in TABLES.items():
            file = Path(scratch) / f"{table}.parquet"
            _write_table(file, table, schema, runs, columns)
            sizes[table] = file.stat().st_size
            store.upload(f"{table}/{name}.parquet", file)
    rows = [
        [each.run for each in runs],
        [json.dumps(each.point) for each in runs],
        [json.dumps(each.row) for each in runs],
        [json.dumps(each.manifest) for each in runs],
        *([each.rows[table] for each in runs] for table in TABLES),
    ]
    about = {
        "antecast.layout": str(LAYOUT),
        "antecast.columns": columns.serialize().to_pybytes().hex(),
        "antecast.sizes": json.dumps(sizes),
    }
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
    """What a marker says; `FileNotFoundError` if it is not there, `Damaged` if it cannot be read."""
    content = store.read(f"parts/{name}.parquet")
    try:
        table = pq.read_table(pa.BufferReader(content))
        about = table.schema.metadata or {}
        layout = about.get(b"antecast.layout", b"").decode()
        columns = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(about[b"antecast.columns"].decode())))
        sizes = json.loads(about.get(b"antecast.sizes", b"{}"))
        runs = tuple(
            StoredRun(
                row["run"],
                json.loads(row["point"]),
                row["row"],
                row["manifest"],
                {each: row[each] for each in TABLES},
            )
            for row in table.to_pylist()
        )
    except (ValueError, KeyError, TypeError, pa.ArrowException, OSError) as error:
        raise Damaged((str(error).splitlines() or [type(error).__name__])[0]) from None
    if layout != str(LAYOUT):
        place = store.where(f"parts/{name}.parquet")
        raise InputError(f"a part of layout {layout}; this version reads layout {LAYOUT}", path=place)
    return Part(name, runs, columns, sizes)


class Damaged(Exception):
    """What was read is not what was written."""


def list_parts(store: Store, folder: str) -> dict[str, Listed]:
    """The objects of parts in `events`, `samples` or `parts`, by the names of the parts."""
    return {
        name.removesuffix(".parquet"): each for name, each in store.list(folder).items() if _NAME.fullmatch(name)
    }


class Parts:
    """The parts in a store. Markers never change, so each is read once."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._read: dict[str, Part] = {}
        self._expected: set[str] = set()
        self.found: dict[str, Part] = {}
        """The parts that are whole, by name."""
        self.of: dict[str, Part] = {}
        """The part that speaks for a run."""
        self.damaged: dict[str, str] = {}
        """The parts that have a marker and are not whole, and what is wrong with them."""

    def expect(self, *names: str) -> None:
        """Parts that were just written: they are asked for by name if a listing does not show them."""
        self._expected.update(names)

    def refresh(self) -> Parts:
        """Look at the store: three listings, the markers that are new, and what the listings do not agree on."""
        # Tables are there before their marker, so they are looked for after it.
        listed = {folder: list_parts(self.store, folder) for folder in ("parts", *TABLES)}
        found: dict[str, Part] = {}
        self.damaged = {}
        for name in sorted({*self.found, *self._expected}.union(*listed.values())):
            there = {
                folder: names.get(name) or self.store.look(f"{folder}/{name}.parquet")
                for folder, names in listed.items()
            }
            if there["parts"] is None:
                continue  # being made, or merged
            try:
                if (wrong := self._wrong(name, there)) is None:
                    found[name] = self._read[name]
                else:
                    self.damaged[name] = wrong
            except FileNotFoundError:  # merged in the meantime
                continue
        self._expected -= found.keys()
        if found != self.found:
            self.found = found
            self.of = {}
            for part in sorted(found.values(), key=lambda each: (-len(each.runs), each.name)):
                for each in part.runs:
                    self.of.setdefault(each.run, part)
        return self

    def _wrong(self, name: str, there: Mapping[str, Listed | None]) -> str | None:
        """What is wrong with a part that has a marker; None if it is whole."""
        for again in (False, True):
            if again or name not in self._read:
                try:
                    self._read[name] = read_marker(self.store, name)
                except Damaged as error:
                    return f"{self.store.where(f'parts/{name}.parquet')} is not readable ({error})"
            other = None
            for table in TABLES:
                place, object_ = self.store.where(f"{table}/{name}.parquet"), there[table]
                if object_ is None:
                    return f"{place} is lost"
                if object_.size != (size := self._read[name].sizes.get(table, object_.size)):
                    other = f"{place} has {object_.size:,} bytes, and not the {size:,} that were written"
            if other is None:
                return None
        return other

    def lost(self) -> dict[str, str]:
        """Runs whose only parts are not whole, if their markers can be read, and what is wrong with them."""
        return {
            each.run: wrong
            for name, wrong in self.damaged.items()
            if name in self._read
            for each in self._read[name].runs
            if each.run not in self.of
        }

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
            groups = groups_with(parquet.metadata, run)
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


def groups_with(metadata: pq.FileMetaData, *runs: str) -> list[int]:
    """The row groups that may hold one of these runs, by their statistics."""
    names = sorted(runs)
    found = []
    for number in range(metadata.num_row_groups):
        statistics = metadata.row_group(number).column(0).statistics
        known = statistics is not None and statistics.has_min_max
        if not known or bisect_left(names, statistics.min) < bisect_right(names, statistics.max):
            found.append(number)
    return found
