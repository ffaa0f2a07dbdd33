"""The event log's schema: one for simulated runs, live nodes and imported logs.

`events` holds one row per event. `pos` is the position in the node's own history: it grows
strictly at each node, and rows of a node are in that order in the file. `t` is in nanoseconds:
true time in a simulation, the node's clock elsewhere. `bytes` is the encoded length of the frame
for send and receive, the length of the payload for broadcast and deliver. `peer` is the other end
of a link. A frame with several messages has a row for each; the rows after the first have 0 bytes.
A `discard` without a message is a frame that was refused.
Columns that mean nothing for a kind are null.
"""

from enum import IntEnum

import pyarrow as pa

SCHEMA_VERSION = 1


class Kind(IntEnum):
    """Kinds of event, with the code each has in the log's dictionary."""

    BROADCAST = 0
    SEND = 1
    RECEIVE = 2
    DELIVER = 3
    DISCARD = 4
    EXPIRE = 5
    UP = 6
    DOWN = 7
    CRASH = 8
    RECOVER = 9
    JOIN = 10
    LEAVE = 11

    @property
    def word(self) -> str:
        return self.name.lower()


KINDS: tuple[str, ...] = tuple(kind.word for kind in Kind)
"""The words of the log's `kind` column; a word's index is its code."""

_NAME = pa.dictionary(pa.int32(), pa.string())

EVENTS = pa.schema(
    [
        pa.field("run", _NAME, nullable=False),
        pa.field("node", pa.int32(), nullable=False),
        pa.field("pos", pa.int64(), nullable=False),
        pa.field("t", pa.int64(), nullable=False),
        pa.field("kind", _NAME, nullable=False),
        pa.field("origin", pa.int32()),
        pa.field("seq", pa.int64()),
        pa.field("peer", pa.int32()),
        pa.field("bytes", pa.int64()),
    ],
    metadata={"antecast.schema": f"events/{SCHEMA_VERSION}"},
)

SAMPLES = pa.schema(
    [
        pa.field("run", _NAME, nullable=False),
        pa.field("node", pa.int32(), nullable=False),
        pa.field("t", pa.int64(), nullable=False),
        pa.field("gauge", _NAME, nullable=False),
        pa.field("value", pa.int64(), nullable=False),
    ],
    metadata={"antecast.schema": f"samples/{SCHEMA_VERSION}"},
)
