"""Key-value histories on Spark: the levels of `antecast.kv`, for histories beyond the memory of one process.

Theory of operation. One shuffle brings all operations on a key together; tasks find who wrote what each read
returned (`antecast.kv.shards`). What remains, some 20 bytes per operation, is in files of the folder `scratch`;
the driver joins them to one graph of transactions, in files too (`antecast.kv.assembly`). Tasks then take blocks
of sessions: first the positions f of each session, then its demands and its own order, all from files that they
map into memory. The driver looks for cycles. If a level is violated, the operations of the transactions in
question are fetched, and judged here for their witnesses.

What the driver holds: a few numbers per transaction and key, and pages of files. What a task holds: its
operations, or positions of a few sessions. `scratch` must be a folder that the driver and all workers see; by
default it is a temporary one, which is right on one machine.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from antecast.core.errors import ConfigurationError, InputError
from antecast.kv.anomalies import ANOMALIES, findings, misread_name, tally
from antecast.kv.assembly import assemble
from antecast.kv.causality import order_of
from antecast.kv.check import Options, judged_levels, what_is_missing
from antecast.kv.check import check as check_here
from antecast.kv.convergence import Demands
from antecast.kv.engine import Analysis, judge_weaker
from antecast.kv.history import LongArray, Status
from antecast.kv.levels import LEVELS
from antecast.kv.resolve import Misread
from antecast.kv.shards import Judged, Shard, Stored
from antecast.kv.tables import COLUMNS, OPTIONAL, history_of
from antecast.kv.verdict import SCHEMA, KvVerdict
from antecast.kv.witness import around
from antecast.spark.audit_tasks import PARCELS, contents
from antecast.spark.kv_tasks import BUCKETS, JudgeSessions, PackKeys, PlaceSessions, ResolveKeys
from antecast.spark.session import job_description

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TASK_ROWS = 1_000_000
"""Operations of a shard: some 400 MB in the worker that resolves them."""

PLACED_BYTES = 128 << 20
"""Memory for the positions of the sessions that a task takes at a time, 16 of them at most."""

_FETCHED = 300
"""Transactions that are fetched to show what is violated."""


def check(
    frame: DataFrame,
    options: Options | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    initial: Any = None,
    scratch: Path | str | None = None,
    task_rows: int = TASK_ROWS,
    on_progress: Callable[[str], None] | None = None,
) -> KvVerdict:
    """Judge a history: a row per operation with session, txn, pos, kind, key, value and, if there is one, status.

    `txn` is the number of the transaction in its session, a whole number that grows; `pos` orders the operations
    of a transaction. The other columns are those of `antecast.kv.tables`, `run` among them.
    """
    with ExitStack() as kept:
        folder = kept.enter_context(
            tempfile.TemporaryDirectory(prefix="antecast-kv-") if scratch is None else nullcontext(str(scratch))
        )
        note = on_progress or (lambda text: None)
        return _Check(frame, options or Options(), columns or {}, initial, folder, task_rows, note, kept).run()


class _Check:
    """One call of `check`: the stages, in order."""

    def __init__(
        self,
        frame: DataFrame,
        options: Options,
        columns: Mapping[str, str],
        initial: Any,
        folder: str,
        task_rows: int,
        note: Callable[[str], None],
        kept: ExitStack,
    ) -> None:
        self._spark = frame.sparkSession
        self._rows = _named(frame, columns, initial)
        self._options = options
        self._initial = initial
        self._folder = folder
        self._task_rows = task_rows
        self._note = note
        self._kept = kept

    def run(self) -> KvVerdict:
        sessions, start, total, committed = self._sessions()
        shards = self._shards(sessions, start, total)
        self._note(f"{total:,} operations in {len(shards)} shards")
        resolved, graph = assemble(shards, start, Stored(self._folder))
        misreads = sum((each.misreads for each in shards), np.zeros(len(Misread), np.int64))
        unknown, opened = sum(each.unknown for each in shards), sum(each.open for each in shards)
        examples = [example for each in shards for example in each.examples]
        del shards
        analysis = Analysis(resolved, graph, order_of(graph))
        if analysis.cyclic:
            analysis.violated |= set(LEVELS)
        else:
            self._judge(analysis)
        levels = judged_levels(analysis, misreads, unknown, opened, self._options, committed=committed)
        found = [] if not analysis.violated else findings(analysis, 5)
        counts = {misread_name(kind): int(misreads[kind]) for kind in Misread if misreads[kind]}
        counts |= tally(analysis, found)
        wanted: list[int] = []
        for nodes in (*examples[:_FETCHED], *(around(analysis, each) for each in found)):
            if len({*wanted, *nodes}) <= _FETCHED:
                wanted = sorted({*wanted, *nodes})
        shown = self._shown(wanted, sessions, start)
        return KvVerdict(
            levels,
            self._options.require,
            total,
            int(start[-1]),
            len(sessions),
            {name: counts[name] for name in ANOMALIES if name in counts},
            SCHEMA.empty_table() if shown is None else shown.violations,
            () if shown is None else shown.witnesses,
            tuple(what_is_missing(unknown, opened, misreads, levels)),
            ("the history has every transaction of every session",)
            if self._options.complete
            else ("transactions may be missing",),
        )

    def _sessions(self) -> tuple[list[Any], LongArray, int, bool]:
        """The sessions by name, the number of the first transaction of each, how many operations there are, and
        whether any was committed."""
        from pyspark.sql import functions as F  # noqa: N812

        with job_description(self._spark, "kv: count the sessions"):
            found = (
                self._rows.groupBy("session")
                .agg(
                    F.max("txn").alias("last"),
                    F.min("txn").alias("first"),
                    F.count("*").alias("rows"),
                    F.count_if(F.col("status") == int(Status.COMMITTED)).alias("committed"),
                )
                .collect()
            )
        found.sort(key=lambda row: str(row["session"]))
        for row in found:
            if row["session"] is None or row["first"] is None or row["first"] < 0:
                raise InputError("a session or a transaction has no name, or a negative number", path="DataFrame")
        counts = [row["last"] + 1 for row in found]
        start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        if start[-1] >= 2**31:
            raise InputError(f"{start[-1]:,} transactions; 2 147 483 647 are the most", path="DataFrame")
        committed = any(row["committed"] for row in found)
        return [row["session"] for row in found], start, sum(row["rows"] for row in found), committed

    def _shards(self, sessions: list[Any], start: LongArray, total: int) -> list[Shard]:
        from pyspark.sql import functions as F  # noqa: N812

        firsts = self._spark.createDataFrame(
            [(name, int(first)) for name, first in zip(sessions, start, strict=False)],
            schema=self._rows.select("session").schema.add("first", "long"),
        )
        rows = self._rows.join(F.broadcast(firsts), "session").select(
            F.pmod(F.hash("key"), F.lit(BUCKETS)).alias("bucket"),
            (F.col("first") + F.col("txn")).cast("int").alias("node"),
            F.col("pos").cast("long").alias("pos"),
            F.col("write").cast("tinyint").alias("kind"),
            "key",
            "value",
            "initial",
            "status",
        )
        parts = max(1, min(BUCKETS, -(-total // self._task_rows)))
        packed = rows.mapInArrow(PackKeys(), PARCELS)
        part = packed.withColumn("block", F.pmod(F.col("block"), F.lit(parts)))
        shards = part.repartitionById(parts, "block").mapInArrow(
            ResolveKeys(start, self._initial, self._folder), PARCELS
        )
        with job_description(self._spark, "kv: find who wrote what was read"):
            return [pickle.loads(body) for body in contents(shards.toArrow(), "shard")]

    def _judge(self, analysis: Analysis) -> None:
        """Convergence, memory, and the weaker levels if convergence is violated."""
        graph, store = analysis.graph, Stored(self._folder)
        store.write_order(analysis.order, graph.sessions)
        width = max(1, min(16, PLACED_BYTES // max(1, 4 * len(graph))))
        self._blocks(PlaceSessions(store, width, graph.sessions), "kv: causal pasts")
        judged = self._blocks(JudgeSessions(store, width, graph.sessions), "kv: demands of reads")
        found: list[Judged] = [pickle.loads(body) for body in judged]
        analysis.broken = [broken for each in found for broken in each.broken]
        if analysis.broken:
            analysis.violated.add("CM")
        before, after, stale, overwriter = (np.concatenate([each[index] for each in found]) for index in range(4))
        asked = Demands(before, after, stale, overwriter, seen=np.zeros(0, np.int32))
        analysis.demands = asked
        if len(asked.stale_initial) or len(order_of(graph, asked.before, asked.after)) < len(graph):
            analysis.violated.add("CCv")
            judge_weaker(analysis)
        elif len(analysis.resolved.older.node):
            judge_weaker(analysis)

    def _blocks(self, task: PlaceSessions | JudgeSessions, description: str) -> list[memoryview]:
        """Run a task on blocks of sessions; what it found."""
        count = max(1, -(-task.sessions // task.width))
        with job_description(self._spark, description):
            table = self._spark.range(0, count, 1, count).mapInArrow(task, PARCELS).toArrow()
        return contents(table, "judged")

    def _shown(self, nodes: list[int], sessions: list[Any], start: LongArray) -> KvVerdict | None:
        """The verdict on a few transactions, with their operations in full."""
        if not nodes:
            return None
        from pyspark.sql import functions as F  # noqa: N812

        wanted: dict[Any, list[int]] = {}
        for node in nodes:
            session = int(np.searchsorted(start, node, side="right") - 1)
            wanted.setdefault(sessions[session], []).append(int(node - start[session]))
        chosen = F.lit(False)
        for name, txns in wanted.items():
            chosen |= (F.col("session") == F.lit(name)) & F.col("txn").isin(txns)
        with job_description(self._spark, "kv: fetch what is violated"):
            rows = self._rows.filter(chosen).orderBy("session", "txn", "pos").toArrow()
        kinds = np.where(rows["write"].to_numpy(), "write", "read")
        statuses = np.array([each.name.lower() for each in Status])[rows["status"].to_numpy()]
        names = [*COLUMNS, *(each for each in ("file", "line") if each in rows.column_names)]
        table = rows.append_column("kind", [kinds.tolist()]).set_column(
            rows.column_names.index("status"), "status", [statuses.tolist()]
        )
        return check_here(
            history_of(table.select([*names, "initial", "status"]), initial=self._initial, name="DataFrame")
        )


def _named(frame: DataFrame, columns: Mapping[str, str], initial: Any) -> DataFrame:
    """The columns by our names; a flag for writes, statuses as numbers; what did not commit without its reads."""
    from pyspark.sql import functions as F  # noqa: N812

    def column(name: str) -> Any:
        return F.col("`" + columns.get(name, name).replace("`", "``") + "`")

    for name in columns:
        if name not in (*COLUMNS, *OPTIONAL):
            known = ", ".join((*COLUMNS, *OPTIONAL))
            raise ConfigurationError(f"no such column {name!r}; there are {known}", field="columns")
    for name in (*COLUMNS, "pos", *columns):
        if columns.get(name, name) not in frame.columns:
            has = ", ".join(frame.columns)
            raise ConfigurationError(f"no column {columns.get(name, name)!r}; there are {has}", field=name)
    optional = [name for name in ("file", "line") if columns.get(name, name) in frame.columns]
    kind = F.lower(column("kind").cast("string"))
    chosen = [column(name).alias(name) for name in ("txn", "pos", "value", *optional)]
    for name in ("session", "key"):
        own = column(name)
        if columns.get("run", "run") in frame.columns:  # what one run wrote, no other has read
            own = F.concat(column("run").cast("string"), F.lit("/"), own.cast("string"))
        chosen.append(own.alias(name))
    found = columns.get("initial", "initial") in frame.columns
    chosen.append(
        F.coalesce(column("initial"), F.lit(False)).alias("initial") if found else F.lit(False).alias("initial")
    )
    rows = frame.select(
        *chosen, _known(kind, ("r", "read", "w", "write"), "kind").isin("w", "write").alias("write")
    )
    if columns.get("status", "status") not in frame.columns:
        return rows.withColumn("status", F.lit(int(Status.COMMITTED)).cast("tinyint"))
    words = [each.name.lower() for each in Status]
    status = _known(F.lower(column("status").cast("string")), words, "status")
    rows = frame.select(
        *chosen,
        _known(kind, ("r", "read", "w", "write"), "kind").isin("w", "write").alias("write"),
        (F.array_position(F.array(*map(F.lit, words)), status) - 1).cast("tinyint").alias("status"),
    )
    return _settled(rows, initial)


def _settled(rows: DataFrame, initial: Any) -> DataFrame:
    """Indeterminate transactions count as committed if a committed one can have read from them alone.

    Those whose values others wrote, too, stay indeterminate; `resolve_shard` leaves such reads open.
    """
    from pyspark.sql import functions as F  # noqa: N812

    committed = F.col("status") == int(Status.COMMITTED)
    doubtful = rows.filter(F.col("write") & (F.col("status") == int(Status.INDETERMINATE)))
    kept = rows.filter(F.col("write") | committed)
    if doubtful.isEmpty():
        return kept
    read = rows.filter(committed & ~F.col("write") & ~F.col("value").eqNullSafe(F.lit(initial)))
    writers = rows.filter(F.col("write") & (F.col("status") != int(Status.ABORTED)))
    alone = writers.groupBy("key", "value").agg(F.countDistinct("session", "txn").alias("writers"))
    named = alone.filter("writers = 1").join(read.select("key", "value"), ["key", "value"], "left_semi")
    seen = doubtful.join(named, ["key", "value"], "left_semi").select("session", "txn").distinct()
    marked = kept.join(seen.withColumn("seen", F.lit(True)), ["session", "txn"], "left")
    status = F.when(F.col("seen"), F.lit(int(Status.COMMITTED)).cast("tinyint")).otherwise(F.col("status"))
    return marked.withColumn("status", status).drop("seen")


def _known(column: Any, words: Iterable[str], name: str) -> Any:
    """A column of a few words; any other ends the job with what it is."""
    from pyspark.sql import functions as F  # noqa: N812

    known = tuple(words)
    problem = F.concat(
        F.lit(f"{name} is '"), F.coalesce(column, F.lit("null")), F.lit(f"'; known: {', '.join(known)}")
    )
    return F.when(column.isin(*known), column).otherwise(F.raise_error(problem))
