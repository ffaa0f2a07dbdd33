"""Violations, counted and listed: plain counts and Arrow tables in the user's own names.

Counts and tables of parts of a log add up to those of the whole, so that parts can be audited apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from operator import add, attrgetter
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.history.messages import MessageIndex, Types
from antecast.history.names import Name

Problem: TypeAlias = Literal["early", "late", "duplicate", "before-broadcast"]


@dataclass(frozen=True)
class Tally:
    """Counts of one part of a log. Parts that share no node add up."""

    nodes: int = 0
    """Nodes that broadcast or delivered something."""
    deliveries: int = 0
    """Rows of kind deliver, repeated and unknown ones included."""
    early: int = 0
    """(node, message): something in the message's causal past has a later position at the node."""
    early_broadcasts: int = 0
    """Those of the early ones that are a node's own broadcasts: made on a past that the node did not have yet."""
    late: int = 0
    """(node, message): something that causally follows the message has an earlier position at the node."""
    duplicates: int = 0
    """Second and further deliveries of a message at a node."""
    unknown: int = 0
    """Deliveries of messages whose broadcast is not in the log."""
    before_broadcast: int = 0
    """Deliveries before their broadcast by the global clock."""
    pairs: int = 0
    """(node, x, m): x happened before m and has a later position at the node. Zero if not asked for."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(add, self._counts, other._counts))

    @property
    def _counts(self) -> tuple[int, ...]:
        return _ALL_COUNTS(self)

    @property
    def violations(self) -> int:
        return self.early + self.late + self.duplicates + self.before_broadcast


Tallies: TypeAlias = dict[object, Tally]
"""Counts by run."""


_ALL_COUNTS = attrgetter(*(each.name for each in fields(Tally)))


def add_tallies(one: Mapping[object, Tally], other: Mapping[object, Tally]) -> Tallies:
    """Both together; what is not in `other` stays as it is, so that a few runs do not cost as much as all."""
    both = dict(one)
    for run, tally in other.items():
        both[run] = both[run] + tally if run in both else tally
    return both


def violation_schema(types: Types) -> pa.Schema:
    """Columns of the table of violations; `run` and `message` only if the log has them, names as the log has them.

    The cause of an early delivery is the message of its past that came last; of a late one, the message
    of its future that came first; of a duplicate, the first delivery of the same message.
    """

    def named(column: str) -> list[pa.Field]:
        return [] if types.message is None else [pa.field(column, types.message)]

    run = [] if types.run is None else [pa.field("run", types.run)]
    return pa.schema(
        [
            *run,
            pa.field("node", types.node),
            pa.field("pos", pa.int64()),
            pa.field("origin", types.origin),
            pa.field("seq", pa.int64()),
            *named("message"),
            pa.field("problem", pa.string()),
            pa.field("cause_origin", types.origin),
            pa.field("cause_seq", pa.int64()),
            *named("cause_message"),
            pa.field("cause_pos", pa.int64()),
        ]
    )


def violation_table(
    index: MessageIndex,
    problem: Problem,
    names: Sequence[Name],
    pos: NDArray[np.integer],
    message: NDArray[np.integer],
    cause: NDArray[np.integer] | None = None,
    cause_pos: NDArray[np.integer] | None = None,
) -> pa.Table:
    """Violations of one kind, a row each; a problem without a cause has nulls there."""
    schema = violation_schema(index.types)
    columns = {
        "run": [name.run for name in names],
        "node": [name.node for name in names],
        "pos": pos,
        "origin": [index.origin_name(each) for each in message],
        "seq": index.seq[message],
        "message": [index.id_name(each) for each in message],
        "problem": [problem] * len(names),
        "cause_origin": [None] * len(names) if cause is None else [index.origin_name(each) for each in cause],
        "cause_seq": [None] * len(names) if cause is None else index.seq[cause],
        "cause_message": [None] * len(names) if cause is None else [index.id_name(each) for each in cause],
        "cause_pos": [None] * len(names) if cause_pos is None else cause_pos,
    }
    return pa.table({name: pa.array(columns[name], schema.field(name).type) for name in schema.names})


def merge_violations(parts: Sequence[pa.Table], limit: int) -> pa.Table:
    """Tables of violations as one, by node and position, with at most `limit` rows of each problem."""
    table = pa.concat_tables(parts)
    keys = [name for name in ("run", "node", "pos", "problem") if name in table.column_names]
    table = table.sort_by([(name, "ascending") for name in keys])
    problem = table["problem"].to_numpy(zero_copy_only=False)
    keep = np.zeros(len(table), np.bool_)
    for each in set(problem):
        keep[np.flatnonzero(problem == each)[:limit]] = True
    return table.filter(pa.array(keep))
