"""When nodes are there: the third table that traces become, beside movement and contacts.

Read from a trajectory table, or from a CSV or Parquet table with the columns node, start and end.
"""

from __future__ import annotations

import pyarrow as pa

from antecast.traces.schema import NAME

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
