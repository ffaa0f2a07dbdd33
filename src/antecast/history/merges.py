"""How the runs of a sweep should lie in parts, and parts made of others: small runs share files of a million rows.

Which runs lie together follows from the study and the sizes of the runs alone (`plan_merges`), so whoever merges,
and from whatever parts, ends with the same files. A part that was merged into others is taken away by the driver,
once those are seen in the store (`spark.folder`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from antecast.core.errors import InputError
from antecast.history.parts import (
    LEAST_ROWS,
    MERGED_ROWS,
    TABLES,
    MadeRun,
    Parts,
    StoredRun,
    groups_with,
    part_name,
    write_part,
)
from antecast.history.store import Store


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
            with _opened(store, f"{table}/{part}.parquet") as parquet:
                groups = groups_with(parquet.metadata, *runs)
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
    with _opened(store, f"{table}/{part}.parquet") as parquet:
        groups = groups_with(parquet.metadata, run)
        for batch in parquet.iter_batches(1 << 16, groups, columns=TABLES[table].names):
            yield batch.filter(pc.equal(batch.column(0).cast(pa.string()), run))


@contextmanager
def _opened(store: Store, name: str) -> Iterator[pq.ParquetFile]:
    """A table of a part that was whole a moment ago."""
    try:
        with store.open(name) as file:
            yield pq.ParquetFile(file)
    except FileNotFoundError:
        problem = "the store has lost it; the same command makes its runs again"
        raise InputError(problem, path=store.where(name)) from None
    except (pa.ArrowException, OSError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        problem = f"not readable ({why}); delete it, and the same command makes its runs again"
        raise InputError(problem, path=store.where(name)) from None
