"""What generators hand over: straight pieces of movement, made into a table of trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from antecast.traces.schema import TRAJECTORIES

Piece: TypeAlias = tuple[int, int, float, float, int, float, float]
"""The number of a node, and t0, x0, y0, t1, x1, y1."""


def movement_table(names: Sequence[str], pieces: Sequence[Piece]) -> pa.Table:
    """Trajectories of nodes that are numbered by their names, in the order of time, without empty pieces."""
    ordered = sorted((piece for piece in pieces if piece[4] > piece[1]), key=lambda piece: (piece[1], piece[0]))
    node, *columns = zip(*ordered, strict=True) if ordered else ((),) * len(TRAJECTORIES)
    named = pa.DictionaryArray.from_arrays(pa.array(node, pa.int32()), pa.array(names, pa.string()))
    return pa.table([named, *columns], schema=TRAJECTORIES)
