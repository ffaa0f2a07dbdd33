"""The two tables that every trace becomes.

`TRAJECTORIES` holds straight pieces of movement: a node moves from (x0, y0) at t0 to (x1, y1) at t1 at
constant speed. A node's pieces are in the order of time and do not overlap; where there is none, the
node is not there. Standing still is a piece with equal ends. Coordinates are metres in a plane.

`CONTACTS` holds the intervals in which two nodes are in reach of each other, start included, end not.
`a` and `b` are in the order of `node_order`, intervals of one pair are disjoint, rows are sorted by
(start, end, a, b).

Times are nanoseconds from the trace's own zero; nodes are named by text, as their files name them.
"""

import re

import pyarrow as pa

NAME = pa.dictionary(pa.int32(), pa.string())

TRAJECTORIES = pa.schema(
    [
        pa.field("node", NAME, nullable=False),
        pa.field("t0", pa.int64(), nullable=False),
        pa.field("x0", pa.float64(), nullable=False),
        pa.field("y0", pa.float64(), nullable=False),
        pa.field("t1", pa.int64(), nullable=False),
        pa.field("x1", pa.float64(), nullable=False),
        pa.field("y1", pa.float64(), nullable=False),
    ],
    metadata={"antecast.schema": "trajectories/1"},
)

CONTACTS = pa.schema(
    [
        pa.field("a", NAME, nullable=False),
        pa.field("b", NAME, nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
    ],
    metadata={"antecast.schema": "contacts/1"},
)


def node_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which numbers inside names count as numbers.

    >>> sorted(["bus10", "bus9", "2", "10"], key=node_order)
    ['2', '10', 'bus9', 'bus10']
    """
    parts = re.findall(r"\d+|\D+", name)
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)
