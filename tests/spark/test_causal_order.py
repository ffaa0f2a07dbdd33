"""`antecast.spark.causal_order` by explicit dependencies, on streams and tables of Spark."""

from __future__ import annotations

import json
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
    ],
)
def test_wrong_options_are_told(spark: Any, options: dict[str, Any], words: str) -> None:
    frame = spark.createDataFrame([], SCHEMA)
    with pytest.raises(ConfigurationError) as error:
        causal_order(frame, **options)
    assert words in str(error.value)
