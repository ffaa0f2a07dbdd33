"""`antecast.spark.causal_order` by explicit dependencies, on streams and tables of Spark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antecast.core.errors import ConfigurationError
from antecast.spark import causal_order

pytestmark = pytest.mark.spark

SCHEMA = "id string, needs array<string>, when timestamp, line long"


@pytest.fixture(autouse=True)
def few_partitions(spark: Any) -> Any:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


def put(folder: Path, number: int, *rows: tuple[str, str]) -> None:
    """A file of rows: an id and what it needs, such as ("c", "a b"); the time is a minute for each line."""
    folder.mkdir(exist_ok=True)
    values = [
        {
            "id": name,
            "needs": needs.split(),
            "when": f"2026-01-01T00:{number:02}:00Z",
            "line": 100 * number + place,
        }
        for place, (name, needs) in enumerate(rows)
    ]
    partial = folder / f".{number}"
    partial.write_text("".join(json.dumps(value) + "\n" for value in values))
    partial.rename(folder / f"{number:03}.json")


@pytest.fixture
def setting(spark: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """A setting of the session for the time of a test."""
    name, _, value = request.param.partition("=")
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    yield
    spark.conf.set(name, before)


@pytest.mark.parametrize(
    "setting",
    [
        "spark.sql.execution.arrow.useLargeVarTypes=true",
        "spark.sql.execution.arrow.useLargeVarTypes=false",
        "spark.sql.execution.arrow.maxRecordsPerBatch=2",
    ],
    indirect=True,
)
@pytest.mark.usefixtures("setting")
def test_a_table_is_ordered_and_what_is_missing_is_named(spark: Any) -> None:
    rows = [("b", ["a"]), ("a", []), ("c", ["b", "x"]), ("a", []), ("d", None)]
    frame = spark.createDataFrame(rows, "id string, needs array<string>")
    found = causal_order(frame, id="id", needs="needs").collect()
    went = [row.id for row in sorted((row for row in found if row.reason is None), key=lambda row: row.position)]
    assert sorted(went) == ["a", "b", "c", "d"]
    assert went.index("a") < went.index("b") < went.index("c")
    assert {row.id: row.missing for row in found if row.missing} == {"c": ["x"]}
    assert [row.reason for row in found if row.reason] == ["a row with the same key has come before"]


@pytest.mark.parametrize("setting", ["spark.sql.session.timeZone=America/St_Johns"], indirect=True)
@pytest.mark.usefixtures("setting")
def test_timestamps_of_a_table_pass_in_any_time_zone(spark: Any) -> None:
    """Those inside structures as well, and with the observer as with explicit dependencies."""
    fields = "'b' id, array('a') needs, timestamp'2026-03-29 02:30:00' at, 1L r, 0L c"
    frame = spark.sql(f"select {fields}, named_struct('times', array(timestamp'2026-07-01 12:00:00')) more")
    by_needs = causal_order(frame, id="id", needs="needs")
    by_stamps = causal_order(frame, epsilon=1, delta=1, stamps="physical", columns={"r": "r"})
    for ordered in (by_needs, by_stamps):
        assert ordered.select(frame.columns).exceptAll(frame).count() == 0
        assert ordered.count() == 1


def test_columns_may_be_called_anything(spark: Any, tmp_path: Path) -> None:
    """Names that Spark would take for a field, that its state store refuses, or that are used on the way."""
    names = ("order.id", "its needs", "rows", "antecast_now", "größe.`x`")
    types = ("string", "array<string>", "string", "long", "string")
    schema = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in zip(names, types, strict=True))
    (tmp_path / "in").mkdir()
    values = [("b", ["a"], "k", 1, "x"), ("a", [], "k", 1, "x"), ("a", [], "l", 1, None)]
    lines = [json.dumps(dict(zip(names, value, strict=True))) for value in values]
    (tmp_path / "in" / "1.json").write_text("\n".join(lines))
    options: dict[str, Any] = {"id": "order.id", "needs": "its needs", "key": ("rows", "größe.`x`")}

    stream = spark.readStream.schema(schema).json(str(tmp_path / "in"))
    query = causal_order(stream, **options).writeStream.format("memory").queryName("any_name")
    query = query.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
    query.start().awaitTermination()
    table = causal_order(spark.createDataFrame(values, schema), **options)
    for ordered in (spark.table("any_name"), table):
        assert ordered.columns[:5] == list(names)
        assert sorted((row["order.id"], row["rows"], row["position"]) for row in ordered.collect()) == [
            ("a", "k", 0),
            ("a", "l", 0),
            ("b", "k", 1),
        ]


def test_columns_that_cannot_be_told_apart_and_keys_of_many_values_are_told(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    frame = spark.createDataFrame([], SCHEMA)
    with pytest.raises(ConfigurationError, match="two columns are called 'line'"):
        causal_order(frame.select("*", "line"), id="id", needs="needs")
    stream = spark.readStream.schema(SCHEMA).json(str(tmp_path)).withColumn("both", F.struct("id", "line"))
    with pytest.raises(ConfigurationError, match="key: 'both' is struct<id:string,line:bigint>; name columns"):
        causal_order(stream, id="id", needs="needs", key="both")


@pytest.mark.jvm("foreachBatch runs at the server, and a list of this process stays empty")
def test_a_stream_with_a_watermark_of_its_own_is_ordered_over_restarts(spark: Any, tmp_path: Path) -> None:
    """Rows wait in the state from run to run, with somebody's watermark before and foreachBatch behind."""
    out: list[Any] = []

    def work() -> None:
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        ordered = causal_order(frame.withWatermark("when", "1 second"), id="id", needs="needs", arrival="line")
        query = ordered.writeStream.foreachBatch(lambda batch, _: out.extend(batch.collect()))
        query = query.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True)
        query.start().awaitTermination()

    put(tmp_path / "in", 9, ("b", "a"), ("x", ""))
    put(tmp_path / "in", 8, ("c", "b"))
    work()
    assert [row.id for row in out] == ["x"]
    put(tmp_path / "in", 1, ("a", ""), ("x", ""))  # long before the watermark: not dropped
    work()
    assert [(row.id, row.position) for row in out if row.reason is None] == [
        ("x", 0),
        ("a", 1),
        ("b", 2),
        ("c", 3),
    ]
    assert [row.id for row in out if row.reason] == ["x"]


def test_rows_wait_in_a_stream_over_a_change_of_the_time_zone(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    before = spark.conf.get("spark.sql.session.timeZone")
    put(tmp_path / "in", 1, ("b", "a"))
    try:
        for minute, zone, row in [(2, "Europe/Paris", ("c", "")), (3, "America/St_Johns", ("a", ""))]:
            spark.conf.set("spark.sql.session.timeZone", zone)
            put(tmp_path / "in", minute, row)
            frame = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
            frame = frame.withColumn("times", F.array(F.struct("when")))
            ordered = causal_order(frame, id="id", needs="needs").selectExpr(
                "id", "unix_seconds(when) own", "unix_seconds(times[0].when) nested"
            )
            query = ordered.writeStream.format("json").option("checkpointLocation", str(tmp_path / "state"))
            query.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    found = {row.id: (row.own, row.nested) for row in spark.read.json(str(tmp_path / "out")).collect()}
    first = 1767225600  # midnight in UTC
    assert found == {name: (first + 60 * minute,) * 2 for name, minute in [("c", 2), ("a", 3), ("b", 1)]}


def test_groups_of_a_stream_are_those_of_their_keys_where_some_are_missing(spark: Any, tmp_path: Path) -> None:
    """Each key differs from the first in one of its columns."""
    kinds = {"i": "int", "l": "long", "s": "smallint", "d": "double", "f": "float", "t": "timestamp"}
    kinds |= {"z": "timestamp_ntz", "n": "decimal(20, 2)", "day": "date", "flag": "boolean", "text": "string"}
    kinds |= {"span": "interval day to second"}
    first = {
        "i": 1,
        "l": 1 << 62,
        "s": 1,
        "d": 0.5,
        "f": 0.5,
        "t": "2026-01-01T00:00:00Z",
        "z": "2026-01-01T00:00:00",
    }
    first |= {
        "n": 1.5,
        "day": "2026-01-01",
        "flag": True,
        "text": "",
        "span": "INTERVAL '1 02:03:04' DAY TO SECOND",
    }
    others = {"i": [2, -1], "l": [(1 << 62) + 1, 0], "d": ["NaN", 0], "f": ["NaN"], "flag": [False], "s": [2]}
    keys = [first, *(first | {name: None} for name in first)]
    keys += [first | {name: value} for name, values in others.items() for value in values]
    for number, name, needs in [(1, "b", ["a"]), (2, "a", [])]:
        rows = [{"id": name, "needs": needs, "line": line} | key for line, key in enumerate(keys)]
        (tmp_path / f".{number}").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (tmp_path / f".{number}").rename(tmp_path / f"{number}.json")
        os.utime(tmp_path / f"{number}.json", (number, number))
    schema = "id string, needs array<string>, line long, " + ", ".join(f"{n} {kind}" for n, kind in kinds.items())
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(tmp_path))
    ordered = causal_order(frame, id="id", needs="needs", key=list(kinds)).drop("span")
    query = ordered.writeStream.format("memory").queryName("keys").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "state")).start().awaitTermination()
    found = sorted((row.line, row.position, row.id, row.reason) for row in spark.table("keys").collect())
    expected = [(line, place, name, None) for line in range(len(keys)) for place, name in enumerate("ab")]
    assert found == expected


def test_a_key_that_cannot_be_told_from_a_missing_one_is_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": "a", "k": -2147483648}\n')
    frame = spark.readStream.schema("id string, needs array<string>, k int").json(str(tmp_path / "in"))
    texts = frame.selectExpr("id", "needs", "cast(unhex('ff41') as string) k")
    for name, rows, said in [
        ("least", frame, "the key -2147483648 is not told from a missing one; turn the column into"),
        ("bytes", texts, "a key in 'k' has bytes that are no UTF-8, which pandas cannot take; make_valid_utf8"),
    ]:
        query = causal_order(rows, id="id", needs="needs", key="k").writeStream.format("memory").queryName(name)
        query = query.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True)
        with pytest.raises(Exception, match=said):
            query.start().awaitTermination()


def test_what_never_comes_is_given_up_by_the_watermark(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    put(tmp_path / "in", 1, ("b", "a"), ("c", "b"))
    put(tmp_path / "in", 2, ("d", ""))
    put(tmp_path / "in", 9, ("e", ""))
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    ordered = causal_order(frame, id="id", needs="needs", event="when", wait="5min", give_up="quarantine")
    query = ordered.select("*", F.lit(1).alias("one")).writeStream.format("memory").queryName("given_up")
    query.option("checkpointLocation", str(tmp_path / "state")).trigger(
        availableNow=True
    ).start().awaitTermination()
    found = {row.id: (row.reason, row.missing) for row in spark.table("given_up").collect()}
    never = "what it needs did not come in time"
    assert found == {"b": (never, ["a"]), "c": (never, ["b"]), "d": (None, None), "e": (None, None)}


def test_a_row_without_a_time_does_not_move_the_watermark(spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "in", 1, ("b", "a"))
    (tmp_path / "in" / "002.json").write_text('{"id": "x", "needs": [], "line": 200}\n')
    put(tmp_path / "in", 3, ("c", ""))
    put(tmp_path / "in", 4, ("a", ""))
    for file in (tmp_path / "in").glob("*.json"):
        os.utime(file, (int(file.stem), int(file.stem)))  # the order in which they are read
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    ordered = causal_order(frame, id="id", needs="needs", event="when", wait="5min", arrival="line")
    query = ordered.writeStream.format("memory").queryName("no_time").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "state")).start().awaitTermination()
    found = {row.id: (row.position, row.missing) for row in spark.table("no_time").collect()}
    assert found == {"x": (0, None), "c": (1, None), "a": (2, None), "b": (3, None)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"id": "name", "needs": "needs"}, "id: no column 'name'; the columns are id, needs, when, line"),
        ({"id": "id", "needs": "line"}, "line: expected an array of ids, which are string, got bigint"),
        ({"id": "when", "needs": "needs"}, "when: expected a text, a whole number or binary data, got timestamp"),
        ({"id": "line", "needs": "needs"}, "needs: expected an array of ids, which are bigint, got array<string>"),
        ({"id": "id", "needs": "needs", "wait": "soon"}, "wait: expected a duration with its unit"),
        ({"id": "id", "needs": "needs", "most": 0}, "most: expected a whole number above zero, got 0"),
        ({"id": "id", "needs": "needs", "give_up": "drop"}, "give_up: expected release or quarantine, got 'drop'"),
        ({"id": "id", "needs": "needs", "event": "line"}, "line: expected a timestamp, got bigint"),
        (
            {"id": "id", "needs": "needs", "arrival": "needs"},
            "needs: expected values that have an order, got array",
        ),
    ],
)
def test_wrong_options_are_told(spark: Any, options: dict[str, Any], words: str) -> None:
    frame = spark.createDataFrame([], SCHEMA)
    with pytest.raises(ConfigurationError) as error:
        causal_order(frame, **options)
    assert words in str(error.value)


def test_columns_that_cannot_be_told_apart_from_ours_or_handed_to_python_are_told(spark: Any) -> None:
    """To Spark, capitals do not count; before, a column of the result could then not be named."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = spark.createDataFrame([], SCHEMA)
    with pytest.raises(ConfigurationError, match="a column is called 'Position' already"):
        causal_order(frame.withColumnRenamed("line", "Position"), id="id", needs="needs")
    span = frame.withColumn("span", F.expr("interval '1-2' year to month"))
    with pytest.raises(ConfigurationError, match="columns: 'span' is interval year to month, which Spark cannot"):
        causal_order(span, id="id", needs="needs")
    with pytest.raises(ConfigurationError, match="columns: 'span' is interval year to month, which Spark cannot"):
        causal_order(span, epsilon=1, delta=1, stamps="physical", columns={"r": "line"})


def test_keys_of_groups_to_be_emptied_are_those_of_the_rows(spark: Any, tmp_path: Path) -> None:
    stream = spark.readStream.schema(SCHEMA).json(str(tmp_path))
    options: dict[str, Any] = {"id": "id", "needs": "needs", "key": "line"}
    for schema, said in [
        ("text string", "drains: no column 'line'; the columns are text"),
        ("line string", "drains: the column 'line' is string, and the key is bigint"),
    ]:
        drains = spark.readStream.schema(schema).json(str(tmp_path))
        with pytest.raises(ConfigurationError, match=said):
            causal_order(stream, **options, drains=drains)
    narrow = spark.readStream.schema("line int").json(str(tmp_path))
    assert causal_order(stream, **options, drains=narrow).columns[:4] == ["id", "needs", "when", "line"]
