"""The event log on disk and in memory: a writer whose memory stays flat, and a reader.

Rows are packed into a fixed-size buffer and turned into an Arrow batch when it is full, so a run
of any length holds one batch at a time. A file is written under a hidden name and renamed when it
is closed: whoever finds `events.parquet` finds all of it.
"""

from __future__ import annotations

import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from antecast.core.errors import InputError, OutputError
from antecast.history.schema import EVENTS, KINDS, SAMPLES

BATCH_ROWS = 1 << 16
"""Rows held before they are written: 4 MiB of buffer, and Parquet row groups of a healthy size."""

_NEAR = 1 << 12
"""Rows that a processor keeps close by while they become columns."""

NONE = -1
"""Stands for null in a packed row; no column of the log is ever negative."""


class Sink(Protocol):
    """Takes Arrow batches; `close` makes them readable, `abandon` leaves nothing behind."""

    def write(self, batch: pa.RecordBatch) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...


class MemorySink:
    """Keeps the batches; `table()` joins them."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        self.batches.clear()

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches, self.schema)


class ParquetSink:
    """Writes batches to one Parquet file that appears, whole, when it is closed."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self._partial = path.with_name(f".{path.name}.partial")
        try:
            names = [field.name for field in schema if pa.types.is_dictionary(field.type)]
            self._writer = pq.ParquetWriter(
                self._partial, schema, compression="zstd", compression_level=1, use_dictionary=names
            )
        except OSError as error:
            raise OutputError(_reason(error), path=path) from error

    def write(self, batch: pa.RecordBatch) -> None:
        try:
            self._writer.write_batch(batch)
        except OSError as error:
            raise OutputError(_reason(error), path=self.path) from error

    def close(self) -> None:
        try:
            self._writer.close()
            self._partial.replace(self.path)
        except OSError as error:
            raise OutputError(_reason(error), path=self.path) from error

    def abandon(self) -> None:
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            self._partial.unlink(missing_ok=True)


class DiscardSink:
    """Drops everything: for runs whose measurements are taken elsewhere."""

    def write(self, batch: pa.RecordBatch) -> None:
        pass

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass


def _reason(error: OSError) -> str:
    return f"cannot write: {os.strerror(error.errno) if error.errno else error}"


class _Writer(ABC):
    """Rows of 64-bit integers, packed as they come and turned into columns a batch at a time."""

    schema: ClassVar[pa.Schema]
    width: ClassVar[int]

    def __init__(self, run: str, sink: Sink, *, batch_rows: int = BATCH_ROWS) -> None:
        self.rows = 0
        self._run = pa.array([run])
        self._runs = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), self._run)
        """The column of a batch that names the run."""
        self._sink = sink
        self.batch_rows = batch_rows
        self._parts: list[bytes] = []
        """Rows that came one by one, behind those of `_blocks`."""
        self._blocks: list[NDArray[np.int64]] = []
        self._room = batch_rows
        """How many parts fill a batch, with the blocks before them."""

    def flush(self) -> None:
        """Hand what is buffered to the sink."""
        self._join_parts()
        if self._blocks:
            rows = np.concatenate(self._blocks)
            self._blocks.clear()
            self._room = self.batch_rows
            self._write(rows)

    def _join_parts(self) -> None:
        if self._parts:
            self._hold(np.frombuffer(b"".join(self._parts), dtype=np.int64).reshape(-1, self.width))
            self._parts.clear()

    def _hold(self, rows: NDArray[np.int64]) -> None:
        if len(rows):
            self._blocks.append(rows)
            self._room -= len(rows)

    def append_rows(self, rows: NDArray[np.int64]) -> None:
        """Append many rows: the same batches as if they came one by one."""
        self._join_parts()
        while len(rows) >= self._room:
            batch, rows = rows[: self._room], rows[self._room :]
            if self._blocks:
                self._hold(batch)
                self.flush()
            else:
                self._write(batch)
        self._hold(rows.copy())

    def _write(self, rows: NDArray[np.int64]) -> None:
        self.rows += len(rows)
        if len(rows) != len(self._runs):  # most batches are of one length
            self._runs = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), np.int32)), self._run)
        self._sink.write(pa.RecordBatch.from_arrays([self._runs, *self._columns(rows)], schema=self.schema))

    def close(self) -> None:
        self.flush()
        self._sink.close()

    @abstractmethod
    def _columns(self, rows: NDArray[np.int64]) -> list[pa.Array]: ...


class EventWriter(_Writer):
    """Writes `events`. `append` takes the columns after `run` as plain integers, NONE for null.

    It is called for every event of a run, so it does as little as it can.
    """

    schema = EVENTS
    width = 8
    _pack = struct.Struct("8q").pack
    _kinds = pa.array(KINDS)

    def append(self, node: int, pos: int, t: int, kind: int, origin: int, seq: int, peer: int, size: int) -> None:
        parts = self._parts
        parts.append(self._pack(node, pos, t, kind, origin, seq, peer, size))
        if len(parts) >= self._room:
            self.flush()

    def _columns(self, rows: NDArray[np.int64]) -> list[pa.Array]:
        # All columns in one piece of memory, which is had at once: many small ones take longer than filling them.
        count = len(rows)
        words, numbers = np.empty((4, count), np.int64), np.empty((4, count), np.int32)
        for first in range(0, count, _NEAR):  # each row comes from memory once, not once for each column
            part = slice(first, first + _NEAR)
            for place, (word, number) in enumerate(((1, 0), (2, 3), (5, 4), (7, 6))):
                words[place, part], numbers[place, part] = rows[part, word], rows[part, number]
        pos, t, seq, size = words
        node, kind, origin, peer = numbers
        return [
            pa.array(node),
            pa.array(pos),
            pa.array(t),
            pa.DictionaryArray.from_arrays(pa.array(kind), self._kinds, safe=False),
            *(_nullable(each) for each in (origin, seq, peer, size)),
        ]


class SampleWriter(_Writer):
    """Writes `samples`: the value of a gauge at a node at a time."""

    schema = SAMPLES
    width = 4
    _pack = struct.Struct("4q").pack

    def __init__(self, run: str, sink: Sink, *, batch_rows: int = BATCH_ROWS) -> None:
        super().__init__(run, sink, batch_rows=batch_rows)
        self._gauges: dict[str, int] = {}

    def append(self, node: int, t: int, gauge: str, value: int) -> None:
        code = self._gauges.setdefault(gauge, len(self._gauges))
        self._parts.append(self._pack(node, t, code, value))
        if len(self._parts) >= self._room:
            self.flush()

    def append_all(
        self, t: int, gauges: Mapping[str, NDArray[np.int64]], order: NDArray[np.int32] | None = None
    ) -> None:
        """Append the values of several gauges, each with one for every node, node by node; by number by
        default."""
        values = np.stack(list(gauges.values()), axis=1)
        nodes, width = values.shape
        rows = np.empty((nodes, width, self.width), np.int64)
        rows[:, :, 0] = (np.arange(nodes) if order is None else order)[:, None]
        rows[:, :, 1] = t
        rows[:, :, 2] = [self._gauges.setdefault(gauge, len(self._gauges)) for gauge in gauges]
        rows[:, :, 3] = values
        self.append_rows(rows.reshape(-1, self.width))

    def _columns(self, rows: NDArray[np.int64]) -> list[pa.Array]:
        node, t, code, value = rows.T
        return [
            pa.array(node.astype(np.int32)),
            pa.array(t),
            pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), pa.array(list(self._gauges))),
            pa.array(value),
        ]


def _nullable(column: NDArray[Any]) -> pa.Array:
    """A column without a copy of it, in which NONE stands for null."""
    there = column != NONE
    bits = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    kind = pa.int32() if column.dtype == np.int32 else pa.int64()
    return pa.Array.from_buffers(kind, len(column), [bits, pa.py_buffer(column)])


def read_events(path: Path | str, columns: list[str] | None = None) -> pa.Table:
    """The whole `events` table of a run folder or a Parquet file."""
    return _open(path, "events.parquet").read(columns=columns)


def read_samples(path: Path | str) -> pa.Table:
    """The whole `samples` table of a run folder or a Parquet file."""
    return _open(path, "samples.parquet").read()


def iter_events(path: Path | str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The `events` table a batch at a time, for logs that do not fit into memory."""
    yield from _open(path, "events.parquet").iter_batches(batch_size=BATCH_ROWS, columns=columns)


def iter_samples(path: Path | str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The `samples` table a batch at a time; nothing where there is none, as with logs from elsewhere."""
    file = Path(path)
    if (file / "samples.parquet" if file.is_dir() else file).exists():
        yield from _open(path, "samples.parquet").iter_batches(batch_size=BATCH_ROWS, columns=columns)


def _open(path: Path | str, name: str) -> pq.ParquetFile:
    file = Path(path)
    if file.is_dir():
        file = file / name
    try:
        return pq.ParquetFile(file)
    except FileNotFoundError:
        raise InputError(f"no such file; a run folder holds {name}", path=file) from None
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"not a readable Parquet file ({error})", path=file) from None
