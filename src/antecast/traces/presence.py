"""When nodes are there: the third table that traces become, beside movement and contacts.

Read from a Parquet table: of presence, with the columns node, start and end, or of movement. Its times are held
to the same rules as those of every trace.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecast.core.errors import InputError
from antecast.traces.schema import NAME
from antecast.traces.tables import parquet_column
from antecast.traces.text import load

PRESENCE = pa.schema(
    [
        pa.field("node", NAME, nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
    ],
    metadata={"antecast.schema": "presence/1"},
)


def presence(trajectories: pa.Table) -> pa.Table:
    """The intervals in which nodes are there: their pieces of movement, joined where they touch."""
    rows: list[tuple[str, int, int]] = []
    plain = trajectories.select(["node", "t0", "t1"]).cast(
        pa.schema([("node", pa.string()), ("t0", pa.int64()), ("t1", pa.int64())])
    )
    ordered = plain.sort_by([("node", "ascending"), ("t0", "ascending")])
    columns = (ordered[name].to_pylist() for name in ("node", "t0", "t1"))
    for node, start, end in zip(*columns, strict=True):
        if rows and rows[-1][0] == node and start <= rows[-1][2]:
            rows[-1] = (node, rows[-1][1], max(end, rows[-1][2]))
        else:
            rows.append((node, start, end))
    names, starts, ends = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table([pa.array(names, pa.string()).dictionary_encode(), starts, ends], schema=PRESENCE)


_COLUMNS = (("node", "start", "end"), ("node", "t0", "t1"))
"""Of a table of presence, and of one of movement."""


def read_presence(path: Path | str) -> dict[str, list[tuple[int, int]]]:
    """When each node is there, by name: intervals in the order of time, which neither overlap nor touch."""

    def fail(row: int, problem: str) -> NoReturn:
        raise InputError(f"row {row + 1}: {problem}", path=path)

    data = load(path)
    try:
        table = pq.read_table(io.BytesIO(data))
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"expected a Parquet table of presence or movement ({reason})", path=path) from None
    names = next((names for names in reversed(_COLUMNS) if set(names) <= set(table.column_names)), None)
    if names is None:
        expected = "node, start, end (presence) or node, t0, t1, … (trajectories)"
        raise InputError(f"expected the columns {expected}, found {', '.join(table.column_names)}", path=path)
    types = (NAME, pa.int64(), pa.int64())
    fields = (pa.field(name, kind) for name, kind in zip(names, types, strict=True))
    node, start, end = (parquet_column(table, field, path, fail) for field in fields)
    if (wrong := start > end).any():
        fail(int(np.argmax(wrong)), f"expected {names[2]} not to be before {names[1]}")
    spans: dict[str, list[tuple[int, int]]] = {}
    for row in presence(pa.table({"node": node, "t0": start, "t1": end})).to_pylist():
        spans.setdefault(row["node"], []).append((row["start"], row["end"]))
    return spans
