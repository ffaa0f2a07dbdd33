"""The auditor on Spark: the algorithm of `antecast.history.audit`, nodes in parallel, the log read once.

Theory of operation. The first stage packs events into parcels by blocks of nodes or runs (see `audit_tasks`) and
is kept. Its broadcasts, and how many events each block has, come to the driver, which numbers the messages and
deals the blocks out evenly. The one shuffle moves parcels to their parts; each part becomes histories, kept in
their turn. From then on a pass over the log is a pass over these, 4 bytes per event: one or two to reduce the
dependencies, unless a first sketch has them all; one to check; and if something is wrong one more, which lists
it with its positions.

What the driver and every task hold: the message index and the dependencies, which grow with the number of
messages. What a task holds beside them: the events of its part, and matrices of a given size. Nothing that
grows with the number of deliveries comes to the driver: where many messages depend on the same ones, that is said
once (`antecast.history.joints`).

DataFrames only, so that it works with Spark Connect too.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from antecast.core.errors import ConfigurationError
from antecast.history.blocks import MEMORY
from antecast.history.dependencies import (
    ENOUGH,
    ROUNDS,
    Dependencies,
    Ordered,
    cycle_error,
    topological_order,
)
from antecast.history.histories import LIMIT, Clock, Histories
from antecast.history.log_kinds import check_words, kinds_error
from antecast.history.messages import MessageIndex
from antecast.history.names import Name
from antecast.history.rows import ALL_COLUMNS, BrokenLog, IntArray, LongArray
from antecast.history.verdict import Verdict
from antecast.history.violations import Tally, violation_schema
from antecast.history.witness import CYCLE_STEPS, witness_of_parts
from antecast.spark.audit_tasks import (
    BLOCKS,
    PARCELS,
    Check,
    Findings,
    ListAll,
    Merge,
    Pack,
    Pick,
    Read,
    Reduce,
    Spread,
    contents,
    loaded,
    unpack,
)
from antecast.spark.session import job_description
from antecast.spark.shared import Shared, hand_out

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TASK_ROWS = 4_000_000
"""Events of a part: some 150 MB in the worker that reads them."""

_SMALL_ROWS = 1_000_000
"""Events that are not worth another task: a tenth of a second's work."""

_UNCUT = BLOCKS // 4
"""Parts that blocks of nodes are dealt out to as they are; for more of them, the nodes of a block are spread."""

_UNEVEN = 1.5
"""Runs are not left whole where a part would have so many times the events that it should have."""

_FEW_PARTS = 16
"""Parts whose findings the driver puts together itself; for more of them a task does."""

_WORDS = 1000
"""Kinds of a log that are looked at to say why none of them counts."""

_PACKING = {
    # Spark asks for the size of the batch in the making at every row; that takes longer than all the rest.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    # Tasks of some million rows: enough of them to keep all cores busy to the end.
    "spark.sql.files.maxPartitionBytes": "32m",
}
_PARCELLED = {"spark.sql.execution.arrow.maxRecordsPerBatch": "32"}

_WITHOUT_POSITIONS = "what IN ('histories', 'findings')"
_WITH_POSITIONS = "what IN ('histories', 'positions', 'findings')"
"""What a check takes: positions are needed only where there are violations to list."""

_ALL = 2**62
"""A limit that cuts nothing."""

T = TypeVar("T")


def audit(
    events: DataFrame,
    *,
    clock: Clock = "local",
    pairs: bool = False,
    limit: int = LIMIT,
    columns: Mapping[str, str] | None = None,
    kinds: Mapping[str, str] | None = None,
    memory: int = MEMORY,
    task_rows: int = TASK_ROWS,
    on_progress: Callable[[str], None] | None = None,
    violations: str | None = None,
) -> Verdict:
    """Judge a log: the same verdict that `antecast.history.audit.audit` gives, from a DataFrame of any size.

    `columns` says what the log calls its columns where it has other names for them, such as
    `{"node": "host"}`, and `kinds` the same of the words "broadcast" and "deliver". A task reads some
    `task_rows` events and uses `memory` bytes for its matrices. With `violations`, tasks write all violations as
    Parquet to that path, which must not exist: none of them passes through the driver, and no limit cuts them. The
    other arguments are those of that function.

    Raises `BrokenLog` if the log contradicts itself.
    """
    rows = _needed(events, clock, columns or {}, kinds or {})
    note = on_progress or (lambda text: None)
    with ExitStack() as kept:
        return _Audit(rows, clock, pairs, limit, memory, task_rows, note, kept, violations).run()


def _needed(events: DataFrame, clock: Clock, columns: Mapping[str, str], kinds: Mapping[str, str]) -> DataFrame:
    """The rows and columns that count, the kind as whether it is a delivery."""
    from pyspark.sql.types import DecimalType, IntegralType, StringType

    for given, known, what in ((columns, ALL_COLUMNS, "column"), (kinds, ("broadcast", "deliver"), "kind")):
        for name in given:
            if name not in known:
                raise ConfigurationError(
                    f"no such {what} {name!r}; there are {', '.join(known)}", field=f"{what}s"
                )
    present = {field.name: field.dataType for field in events.schema}
    twice = [name for name, count in Counter(events.columns).items() if count > 1]
    chosen: dict[str, Column] = {}
    named = "message" in columns or ("message" in present and columns.get("seq", "seq") not in present)
    left_out = {"origin", "seq"} if named else {"message"}
    for name in ALL_COLUMNS:
        actual = columns.get(name, name)
        if name in left_out or (name == "t" and clock == "local"):
            continue
        if actual not in present:
            if name == "run" and "run" not in columns:
                continue
            raise BrokenLog(f"no column {actual!r}; the log has {', '.join(present)}")
        if actual in twice:
            raise BrokenLog(f"two columns are called {actual!r}")
        chosen[name] = events["`" + actual.replace("`", "``") + "`"]
        held, whole = present[actual], name in ("pos", "seq", "t")
        if isinstance(held, DecimalType) and held.scale <= 0:  # that is how Spark reads unsigned numbers
            chosen[name] = chosen[name].cast("long")
        elif whole and not isinstance(held, IntegralType):
            raise BrokenLog(f"column {actual!r} must hold integers, not {held.simpleString()}")
        elif name != "kind" and not isinstance(held, IntegralType | StringType):
            raise BrokenLog(f"column {actual!r} must hold texts or whole numbers, not {held.simpleString()}")
    check_words(kinds)
    kind = chosen["kind"].cast("string")
    deliver, broadcast = (kinds.get(word, word) for word in ("deliver", "broadcast"))
    chosen["kind"] = kind == deliver
    return events.filter(kind.isin(deliver, broadcast) | kind.isNull()).select(
        *(column.alias(name) for name, column in chosen.items())
    )


def check_kinds(
    events: DataFrame, *, columns: Mapping[str, str] | None = None, kinds: Mapping[str, str] | None = None
) -> None:
    """Raise `BrokenLog`, with the kinds there are, if the log has rows but none of one kind that counts."""
    name = (columns or {}).get("kind", "kind")
    word = events["`" + name.replace("`", "``") + "`"].cast("string").alias("kind")
    words = {str(row["kind"]) for row in events.select(word).distinct().limit(_WORDS).collect()}
    problem = kinds_error(words, kinds or {}) if words else None
    if problem:
        raise BrokenLog(problem)


class _Audit:
    """One call of `audit`: the stages, in order. What they keep is dropped when `kept` is closed."""

    def __init__(
        self,
        rows: DataFrame,
        clock: Clock,
        pairs: bool,
        limit: int,
        memory: int,
        task_rows: int,
        note: Callable[[str], None],
        kept: ExitStack,
        violations: str | None = None,
    ) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._spark = rows.sparkSession
        self._rows = rows
        self._schema: pa.Schema = to_arrow_schema(rows.schema)
        self._clock = clock
        self._pairs = pairs
        self._limit = limit
        self._memory = memory
        self._task_rows = task_rows
        self._note = note
        self._kept = kept
        self._violations = violations
        self._part_count = 0

    def run(self) -> Verdict:
        with ExitStack() as packing:
            packed, sizes, index = self._pack(packing)
            self._note(f"{int(sizes.sum()):,} events, {len(index):,} messages")
            shared = self._kept.enter_context(hand_out(self._spark, index))
            histories, sketched = self._read(packed, sizes, shared)
        matrix = self._dependencies(histories, shared, index, sketched)
        self._note(f"{len(matrix.deps) / max(1, len(index)):.1f} dependencies per message")
        order, cycle = topological_order(matrix, index)
        if cycle:
            if len(matrix.joints):  # told by what nodes have seen, without joints
                plain = self._reduced(histories, shared, sketched, joints=False)
                cycle = topological_order(plain)[1]
            origins = {index.nodes.names[index.origin[each]] for each in cycle[:CYCLE_STEPS]}
            raise cycle_error(cycle, self._pick(histories, origins), index, most=CYCLE_STEPS)
        with hand_out(self._spark, Ordered.of(matrix, order)) as ordered:
            check = Check(shared, ordered, self._pairs, self._limit, self._memory)
            nothing = Findings(Tally(), violation_schema(index.types).empty_table())
            findings = self._checked(histories, _WITHOUT_POSITIONS, check) or nothing
            if findings.tally.early:
                listed = self._checked(histories, _WITH_POSITIONS, replace(check, pairs=False)) or nothing
                findings = replace(findings, violations=listed.violations)
            if self._violations is not None:
                self._write_all(histories, replace(check, limit=_ALL), index)
        return Verdict(
            messages=len(index),
            tally=findings.tally,
            pairs=findings.tally.pairs if self._pairs else None,
            violations=findings.violations,
            unknown_examples=findings.unknown_examples,
            witness=witness_of_parts(findings.violations, partial(self._pick, histories), index, matrix),
            runs=findings.runs,
        )

    def _checked(self, histories: DataFrame, what: str, check: Check) -> Findings | None:
        """What the check of all nodes finds, merged."""
        checked = histories.filter(what).mapInArrow(check, PARCELS)
        merge = Merge(self._limit)
        if self._part_count > _FEW_PARTS:
            checked = checked.repartition(1).mapInArrow(merge, PARCELS)
        return merge.all(self._collect(checked, "check the order of all nodes").to_batches())

    def _write_all(self, histories: DataFrame, check: Check, index: MessageIndex) -> None:
        """Write every violation from the tasks that find it."""
        schema = violation_schema(index.types)
        columns = ", ".join(
            f"{each.name} {'long' if pa.types.is_integer(each.type) else 'string'}" for each in schema
        )
        wide = pa.schema(
            [(each.name, pa.int64() if pa.types.is_integer(each.type) else pa.string()) for each in schema]
        )
        found = histories.filter(_WITH_POSITIONS).mapInArrow(ListAll(check, wide), columns)
        with _settings(self._spark, _PARCELLED), job_description(self._spark, "audit: write all violations"):
            found.write.parquet(str(self._violations))

    def _pack(self, packing: ExitStack) -> tuple[DataFrame, LongArray, MessageIndex]:
        """Parcels of all events, the number of events in each block of nodes and of runs, and the messages."""
        with _settings(self._spark, _PACKING), job_description(self._spark, "audit: read the log"):
            packed = packing.enter_context(_kept(self._rows.mapInArrow(Pack(BLOCKS), PARCELS)))
            table = packed.filter("what IN ('broadcasts', 'sizes')").toArrow()
        counts = [np.frombuffer(body, np.int64).reshape(2, BLOCKS) for body in contents(table, "sizes")]
        return packed, np.sum([np.zeros((2, BLOCKS), np.int64), *counts], axis=0), self._index(table)

    def _index(self, table: pa.Table) -> MessageIndex:
        nothing = pa.RecordBatch.from_pylist([], schema=self._schema.set(*self._kind_as_words()))
        batches = chain([nothing], unpack(contents(table, "broadcasts"), self._schema))
        return MessageIndex.read(batches, timed=self._clock == "global")

    def _kind_as_words(self) -> tuple[int, pa.Field]:
        return self._schema.get_field_index("kind"), pa.field("kind", pa.string())

    def _read(
        self, packed: DataFrame, sizes: LongArray, index: Shared[MessageIndex]
    ) -> tuple[DataFrame, Dependencies]:
        """Histories by part, kept, and a sketch of the dependencies."""
        from pyspark.sql import functions as F  # noqa: N812

        parts, dealt = self._parts(sizes)
        parcels = packed.filter("what IN ('events', 'runs')")
        if dealt is None:
            # Runs that were packed together have their nodes in all blocks.
            shares = _shares(sizes[0] + sizes[1].sum() // BLOCKS, parts)
            parts = max(share.stop for share in shares.values())
            with _settings(self._spark, _PARCELLED):
                parcels = parcels.mapInArrow(Spread(shares), PARCELS)
        else:
            # One text and not an array of 256 numbers: Spark takes a tenth of a second to plan that.
            words = F.lit("".join(f"{part:2}" for part in dealt))
            part = F.trim(F.substr(words, 2 * F.col("block") + 1, F.lit(2))).cast("int")
            parcels = parcels.withColumn("block", part)
        self._part_count = parts
        limit = self._limit if self._violations is None else _ALL
        read = Read(index, self._schema, self._clock, limit)
        with _settings(self._spark, _PARCELLED):
            histories = self._kept.enter_context(
                _kept(parcels.repartitionById(parts, "block").mapInArrow(read, PARCELS))
            )
        found = histories.filter("what IN ('dependencies', 'error')")
        table = self._collect(found, f"bring the events of {parts} parts of the nodes into order")
        errors = list(loaded(table.to_batches(), "error", BrokenLog))
        if errors:
            raise min(errors, key=str)
        return histories, _gathered(table)

    def _parts(self, sizes: LongArray) -> tuple[int, list[int] | None]:
        """As few parts as their size allows, but as many as the session is used to if there is work for them; and
        the part of each block, unless blocks have to be spread."""
        total = int(sizes.sum())
        needed = max(1, math.ceil(total / self._task_rows))
        if needed > _UNCUT:
            return needed, None
        usual = int(self._spark.conf.get("spark.sql.shuffle.partitions") or 1)
        parts = max(needed, min(usual, total // _SMALL_ROWS, _UNCUT))
        by_node, by_run = (bool(each.any()) for each in sizes)
        if by_node and by_run:
            return parts, None
        alike = sizes[int(by_run)]
        parts = min(parts, max(1, int(np.count_nonzero(alike))))
        dealt = _deal(alike, parts)
        largest = np.bincount(dealt, alike, parts).max()
        # A node cannot be divided. A run can.
        return parts, None if by_run and largest > _UNEVEN * max(_SMALL_ROWS, total / parts) else dealt

    def _dependencies(
        self, histories: DataFrame, shared: Shared[MessageIndex], index: MessageIndex, matrix: Dependencies
    ) -> Dependencies:
        """Few dependencies, by joints where that does it, else by a second round.

        Joints keep from the driver what grows with deliveries: the dependencies of nodes that broadcast in rounds.
        """
        if not matrix.cut:
            return matrix
        reduced = self._reduced(histories, shared, matrix, joints=not self._pairs)
        if len(reduced.deps) <= ENOUGH * len(index) and not self._pairs:
            return reduced
        if len(reduced.joints):  # a second round takes what the first has without them
            reduced = self._reduced(histories, shared, matrix, joints=False)
        for number in range(1, ROUNDS):
            reduced = self._reduced(histories, shared, reduced, joints=number == ROUNDS - 1)
        return reduced

    def _reduced(
        self, histories: DataFrame, shared: Shared[MessageIndex], matrix: Dependencies, *, joints: bool
    ) -> Dependencies:
        with hand_out(self._spark, matrix) as known:
            reduce = Reduce(shared, known, joints)
            parcels = histories.filter("what = 'histories'").mapInArrow(reduce, PARCELS)
            return _gathered(self._collect(parcels, "reduce the dependencies"))

    def _pick(self, histories: DataFrame, names: Iterable[Name], messages: IntArray | None = None) -> Histories:
        """The histories of some nodes, or what they have of some messages."""
        names = frozenset(names)
        picked = histories.filter(_WITH_POSITIONS).mapInArrow(Pick(names, messages), PARCELS)
        table = self._collect(picked, f"fetch the histories of {len(names)} nodes")
        parts = loaded(table.to_batches(), "histories", Histories)
        return Histories.gather(sorted(parts, key=lambda each: each.names[0].rank))

    def _collect(self, parcels: DataFrame, what: str) -> pa.Table:
        with _settings(self._spark, _PARCELLED), job_description(self._spark, f"audit: {what}"):
            return parcels.toArrow()


def _deal(sizes: LongArray, parts: int) -> list[int]:
    """The part of every block: dealt out from the largest down, each to the part that has least."""
    load = [(0, part) for part in range(parts)]
    dealt = [0] * len(sizes)
    for block in np.argsort(-sizes, kind="stable").tolist():
        events, part = heapq.heappop(load)
        dealt[block] = part
        heapq.heappush(load, (events + int(sizes[block]), part))
    return dealt


def _gathered(table: pa.Table) -> Dependencies:
    nothing = Dependencies(np.empty(0, np.int32), np.zeros(1, np.int64), np.empty(0, np.int32))
    return Dependencies.gather([nothing, *loaded(table.to_batches(), "dependencies", Dependencies)])


def _shares(sizes: LongArray, parts: int) -> dict[int, range]:
    """The parts of every block: as many as its share of the events; small blocks share one with others."""
    ends = np.cumsum(sizes) * parts / max(1, sizes.sum())
    shares = {}
    for block, (before, end) in enumerate(pairwise([0.0, *ends.tolist()])):
        first = min(int(before), parts - 1)
        shares[block] = range(first, max(first + 1, min(round(end), parts)))
    return shares


@contextmanager
def _kept(parcels: DataFrame) -> Iterator[DataFrame]:
    """Keep parcels, in memory and on disk, as long as they are needed."""
    kept = parcels.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for a while."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
