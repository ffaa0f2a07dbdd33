"""Where events of a log stand in its files."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecast.history.log_files import Log

EventKey: TypeAlias = tuple[object, object, int]
"""The run (None without runs), the node and the position."""


def locate(log: Log, keys: Collection[EventKey]) -> dict[EventKey, tuple[str, int]]:
    """The file and the line, or row, of some events; those that are not in the log are left out."""
    wanted, found = set(keys), dict[EventKey, tuple[str, int]]()
    if not wanted:
        return found
    positions = pa.array(sorted({key[2] for key in wanted}), pa.int64())
    for file in log.files:
        row = 0
        for batch in log.read(file):
            near = pc.is_in(batch.column("pos"), positions).to_numpy(zero_copy_only=False)
            for place in np.flatnonzero(near).tolist():
                kind = batch.column("kind")[place].as_py()
                run = batch.column("run")[place].as_py() if "run" in batch.schema.names else None
                key = (run, batch.column("node")[place].as_py(), batch.column("pos")[place].as_py())
                if key in wanted and key not in found and kind in ("broadcast", "deliver"):
                    found[key] = (str(file.path), log.format.place(file.path, row + place))
            row += len(batch)
            if len(found) == len(wanted):
                return found
    return found
