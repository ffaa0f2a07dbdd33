"""Observing from a source into a folder: restartable, exactly once, drained at the end of a bounded input.

The output is a folder with `delivered/` and `refused/`. Each micro-batch is written beside them and moved in
file by file, under names that begin with its number. A batch that Spark runs again, because the program died
before it was committed, first removes what it left: whoever reads the folder after a restart finds every row
once, also without Spark.

A bounded input ends with rows that wait for a clock that will not move any more. Their keys are read from the
state store and written as a file into the checkpoint's folder `drains`, which is a second source of the same
query: the next micro-batch empties these groups, with the same guarantees as any other.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from antecast.core.errors import ConfigurationError, InputError, OutputError
from antecast.observer.pace import measured_by
from antecast.spark.observe import causal_order
from antecast.spark.observe_group import State
from antecast.spark.ordered_frames import keys_of_state
from antecast.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

DELIVERED, REFUSED = "delivered", "refused"
RAW, FAULT = "raw", "_fault"
"""Columns of rows that are read from JSON: the text, where it could not be read, and what is wrong."""

NOT_JSON = "not a JSON object with these columns"
_DRAIN_ROUNDS = 5
_WAITING = "__waiting"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where rows come from: files, or any source of Spark by its name."""

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    """The columns of JSON rows in SQL notation (`r long, c int, …`). Default: inferred from the files."""

    def open(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """The rows, as a stream or as a table; JSON is taken apart here, so that a bad line is a bad row."""
        reader: Any = (spark.readStream if streaming else spark.read).options(**self.options)
        if self.path is not None and not _exists(self.path):
            raise InputError("no such file or folder", path=self.path)
        path = self._place
        if path is not None and Path(path).is_file():  # Spark streams folders only
            reader = reader.option("pathGlobFilter", Path(path).name)
            path = str(Path(path).resolve().parent)
        if self.format == "json" and path is not None:
            return self._parsed(spark, reader.format("text").load(path))
        if path is not None:
            schema = spark.read.format(self.format).load(self._place).schema
            return reader.schema(schema).format(self.format).load(path)  # type: ignore[no-any-return]
        frame: DataFrame = reader.format(self.format).load()
        if self.schema is None or "value" not in frame.columns:
            return frame
        return self._parsed(spark, frame)

    @property
    def _place(self) -> str | None:
        """The path as any session understands it: its JVM may have been started in another folder."""
        return self.path if self.path is None or ":" in self.path else str(Path(self.path).absolute())

    def _parsed(self, spark: SparkSession, lines: DataFrame) -> DataFrame:
        schema = self._json_schema(spark)
        value = lines.schema["value"].dataType
        if not isinstance(value, StringType | BinaryType):
            raise ConfigurationError(
                f"expected text in the column value, got {value.simpleString()}", field="--schema"
            )
        whole = StructType([*schema.fields, StructField(RAW, StringType())])
        text = F.col("value").cast("string")
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RAW}
        rest = [name for name in lines.columns if name != "value" and name not in whole.names]
        rows = lines.filter(F.length(F.trim(text)) > 0).select(
            F.from_json(text, whole, options).alias("row"), text.alias("text"), *rest
        )
        bad = F.col("row").isNull() | F.col(f"row.{RAW}").isNotNull()
        return rows.select(
            *(F.col(f"row.{name}").alias(name) for name in schema.names),
            *rest,
            F.when(bad, F.col("text")).alias(RAW),
            F.when(bad, F.lit(NOT_JSON)).alias(FAULT),
        )

    def _json_schema(self, spark: SparkSession) -> StructType:
        if self.schema is not None:
            given = StructType.fromDDL(self.schema)
            assert isinstance(given, StructType)
            return given
        assert self._place is not None
        found = spark.read.options(**{**self.options, "columnNameOfCorruptRecord": RAW}).json(self._place).schema
        fields = [each for each in found.fields if each.name != RAW]
        if not fields:
            raise ConfigurationError("found no columns; name them with --schema", field=self.path)
        return StructType(fields)


def _exists(path: str) -> bool:
    """Whether a local path is there; patterns and other file systems are left to Spark."""
    return any(mark in path for mark in "*?[{:") or Path(path).exists()


@dataclass
class Tally:
    """What was written in this run."""

    delivered: int = 0
    late: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    waiting: int = 0
    """Rows that stay in the state, for the next run."""
    allowed: float | None = None
    """The share of violations that was allowed, and the one that was measured: since the checkpoint was made, or
    of a finished log, as the share of late rows."""
    measured: float = 0.0

    def add(self, delivered: int, late: int, refused: Mapping[str, int]) -> None:
        """Count a micro-batch."""
        self.delivered += delivered
        self.late += late
        self.refused.update(refused)
        self.batches += 1


@dataclass(frozen=True)
class Sink:
    """Writes micro-batches into the folder."""

    folder: Path
    format: str
    tally: Tally
    on_batch: Callable[[int, Tally], None] | None = None
    counts: Path | None = None
    """Through Spark Connect this runs at the server: a folder in which the tally of each batch is left."""

    def __call__(self, frame: DataFrame, batch: int) -> None:
        parts = self.folder / f".batch-{batch:08}"
        shutil.rmtree(parts, ignore_errors=True)
        frame = frame.drop(FAULT).persist()
        try:
            late = F.sum(F.col("late").cast("int")).alias("late")
            counts = {
                row[0]: (row[1], row[2]) for row in frame.groupBy("reason").agg(F.count("*"), late).collect()
            }
            delivered = frame.filter(F.col("reason").isNull()).drop("reason")
            delivered = delivered.drop(RAW) if RAW in frame.columns else delivered
            self._write(delivered, parts, DELIVERED, batch, None in counts)
            self._write(
                frame.filter(F.col("reason").isNotNull()), parts, REFUSED, batch, bool(counts.keys() - {None})
            )
        finally:
            frame.unpersist()
            shutil.rmtree(parts, ignore_errors=True)
        done, was_late = counts.pop(None, (0, 0))
        refused = {reason: size for reason, (size, _) in counts.items()}
        if self.counts is not None:
            self.counts.mkdir(parents=True, exist_ok=True)
            left = json.dumps([done, was_late or 0, refused])
            (self.counts / f"{batch:08}.json").write_text(left, encoding="utf-8")
        self.tally.add(done, was_late or 0, refused)
        if self.on_batch is not None:
            self.on_batch(batch, self.tally)

    def _write(self, frame: DataFrame, parts: Path, kind: str, batch: int, there: bool) -> None:
        target = self.folder / kind
        target.mkdir(parents=True, exist_ok=True)
        for left in target.glob(f"batch-{batch:08}-*"):
            left.unlink()
        if not there:
            return
        frame.write.format(self.format).save(str(parts / kind))
        written = sorted((parts / kind).glob("part-*"))
        if not written:
            problem = "Spark's workers wrote to a folder that this machine does not see"
            raise OutputError(problem, path=parts)
        for number, part in enumerate(written):
            suffix = "".join(part.suffixes)
            part.replace(target / f"batch-{batch:08}-{number:05}{suffix}")


def observe_table(spark: SparkSession, source: Source, out: Path, out_format: str, **options: Any) -> Tally:
    """Order a finished log as a batch job, into a folder of the same kind."""
    frame = source.open(spark, streaming=False)
    tally = Tally(allowed=options.get("violations"))
    Sink(out.absolute(), out_format, tally)(causal_order(frame, **_with_fault(frame, options)), 0)
    tally.measured = tally.late / max(tally.delivered, 1)
    return tally


def observe_stream(
    spark: SparkSession,
    source: Source,
    out: Path,
    out_format: str,
    checkpoint: Path,
    *,
    follow: bool = False,
    every: str = "1 second",
    on_batch: Callable[[int, Tally], None] | None = None,
    on_start: Callable[[StreamingQuery], None] | None = None,
    **options: Any,
) -> Tally:
    """Order a stream into a folder: all that is there now, drained at its end, or without end (`follow`)."""
    frame = source.open(spark, streaming=True)
    out, checkpoint = out.absolute(), checkpoint.absolute()
    drains = checkpoint / "drains"
    drains.mkdir(parents=True, exist_ok=True)
    _same_settings(checkpoint / "observe.json", {"source": source.format, "path": source.path} | options)
    key = options.get("key", ())
    keys = [key] if isinstance(key, str) else list(key)
    fields = [frame.schema[name] for name in keys] or [StructField("__group", LongType())]
    tally = Tally(allowed=options.get("violations"))
    remote = is_connect(spark)
    counts = checkpoint / "counts" if remote else None
    sink = Sink(out, out_format, Tally() if remote else tally, None if remote else on_batch, counts)
    if counts is not None:
        shutil.rmtree(counts, ignore_errors=True)
    for _ in range(_DRAIN_ROUNDS):
        drained = spark.readStream.schema(StructType(fields)).parquet(str(drains))
        ordered = causal_order(frame, drains=drained, **_with_fault(frame, options))
        writer = ordered.writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", str(checkpoint / "query"))
        writer = writer.trigger(processingTime=every) if follow else writer.trigger(availableNow=True)
        query = writer.start()
        if on_start is not None:
            on_start(query)
        try:
            query.awaitTermination()
        finally:
            query.stop()
        pending = _pending(spark, checkpoint / "query", StructType(fields))
        tally.waiting = int(pending.agg(F.sum(_WAITING)).first()[0] or 0)  # type: ignore[index]
        if follow or not tally.waiting:
            break
        _ask_to_drain(pending.drop(_WAITING), drains)
    if counts is not None:
        for file in sorted(counts.glob("*.json")):
            tally.add(*json.loads(file.read_text(encoding="utf-8")))
        shutil.rmtree(counts, ignore_errors=True)
    if tally.allowed is not None:
        tally.measured = _measured(spark, checkpoint / "query")
    return tally


def _with_fault(frame: DataFrame, options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "fault": FAULT} if FAULT in frame.columns else options


def _pending(spark: SparkSession, query: Path, keys: StructType) -> DataFrame:
    """The keys of groups in which rows wait, and how many."""
    state: Any = spark.read.format("statestore").option("stateVarName", "group").load(str(query))
    kept = state.filter("value.waiting > 0").select("key.*", F.col("value.waiting").alias(_WAITING))
    return keys_of_state(kept, keys.names, keys)


def _measured(spark: SparkSession, query: Path) -> float:
    """The measured share of violations, over all groups."""
    state: Any = spark.read.format("statestore").option("stateVarName", "group").load(str(query))
    rows = wrong = 0.0
    for row in state.select("value.data").toLocalIterator():
        pace = State.load(bytes(row[0])).pace
        if pace:
            found = measured_by(pace)
            rows, wrong = rows + found[0], wrong + found[1]
    return wrong / max(rows, 1.0)


def _ask_to_drain(keys: DataFrame, drains: Path) -> None:
    """Write keys as one file that appears at once, under a name that was not there."""
    parts = drains / ".parts"
    shutil.rmtree(parts, ignore_errors=True)
    keys.coalesce(1).write.parquet(str(parts))
    number = sum(1 for _ in drains.glob("drain-*"))
    for part in parts.glob("part-*.parquet"):
        part.replace(drains / f"drain-{number:05}.parquet")
    shutil.rmtree(parts, ignore_errors=True)


def _same_settings(file: Path, settings: Mapping[str, Any]) -> None:
    """A checkpoint belongs to one way of observing: state that was made by another would be misread."""
    now = _without_empty_roles(json.loads(json.dumps(settings, default=str)))
    if not file.exists():
        file.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
        return
    before = _without_empty_roles(json.loads(file.read_text(encoding="utf-8")))
    changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    if changed:
        name = changed[0]
        problem = f"was made with {name} = {before.get(name)!r}, and this run has {now.get(name)!r}; take another"
        raise ConfigurationError(f"{file.parent} {problem}", field="--checkpoint")


def _without_empty_roles(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings without the roles that are said to have no column. The state itself knows which columns it has
    used, and one that has come since must be left out of a checkpoint that is there already."""
    columns = settings.get("columns") or {}
    return settings | {"columns": {role: name for role, name in columns.items() if name}}
