"""Both engines see the same rows in every file, and refuse the same ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import antecast as library
from antecast.history.log_files import open_log
from antecast.history.rows import BrokenLog
from antecast.spark.log_frames import log_frame

pytestmark = pytest.mark.spark

ROWS: list[dict[str, Any]] = [
    {"node": node, "pos": pos, "kind": kind, "origin": origin, "seq": 1}
    for node, pos, kind, origin in [
        ("a", 0, "broadcast", "a"),
        ("b", 0, "deliver", "a"),
        ("b", 1, "broadcast", "b"),
        ("c", 0, "deliver", "b"),
        ("c", 1, "deliver", "a"),
    ]
]


def parquet(folder: Path, name: str, **columns: pa.Array) -> None:
    table = pa.Table.from_pylist(ROWS)
    for column, values in columns.items():
        table = table.set_column(table.schema.get_field_index(column), column, values)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / name, row_group_size=2)


def pattern(folder: Path) -> None:
    """Two files, each of which is a pattern for the other."""
    parquet(folder, "a[1].parquet")
    parquet(folder, "a1.parquet", node=pa.array(list("xyyzz")), origin=pa.array(list("xxyyx")))


def partitions(folder: Path) -> None:
    for run in (1, 2):
        parquet(folder, f"run={run}/part.parquet")


def numbers(folder: Path) -> None:
    pos = [0, 0, 1, 0, 1]
    parquet(folder, "a.parquet", pos=pa.array(pos, pa.uint64()), seq=pa.array([Decimal(1)] * 5, pa.decimal128(20)))


def padded(folder: Path) -> None:
    lines = ["node,pos,kind,origin,seq", "a, 0,broadcast,a,01", "", "b,00,deliver,a,1", "b,1 ,broadcast,b,1", ""]
    (folder / "a.csv").write_text("\n".join([*lines, "c,0,deliver, b,1"]))


def backticks(folder: Path) -> None:
    rows = [{"the `node`": row["node"], "x.y": {"z": row["pos"]}} | row for row in ROWS]
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n\n" for row in rows))


def times(folder: Path) -> None:
    for number in range(2):
        lines = [f"{row['node']}{number},2024-05-01T12:00:0{i}Z,{row['kind']},m" for i, row in enumerate(ROWS)]
        (folder / f"part-{number + 9}.csv").write_text("\n".join(["node,when,kind,id", *lines]))


LOGS: list[tuple[Callable[[Path], None], dict[str, str]]] = [
    (pattern, {}),
    (partitions, {}),
    (numbers, {}),
    (padded, {}),
    (backticks, {"node": "the `node`", "pos": "x.y.z"}),
    (times, {"pos": "when", "message": "id"}),
    (times, {"pos": "@file", "message": "id"}),
]


@pytest.mark.parametrize(("make", "columns"), LOGS)
def test_spark_reads_the_rows_that_one_process_reads(
    spark: Any, tmp_path: Path, make: Callable[[Path], None], columns: dict[str, str]
) -> None:
    make(tmp_path)
    paths = [tmp_path / "a[1].parquet"] if make is pattern else [tmp_path]
    log = open_log(paths, columns=columns, kinds={"deliver": "deliver"})
    here = [row for batch in log.batches() for row in batch.to_pylist()]
    assert sorted(map(str, log_frame(spark, log).toArrow().to_pylist())) == sorted(map(str, here))
    assert len(here) == {partitions: 10, padded: 4, times: 10}.get(make, 5)


def test_a_row_that_one_process_refuses_is_refused_on_spark(
    spark: Any, antecast: Callable[..., tuple[int, str, str]]
) -> None:
    rows = [*ROWS, {"node": 5, "pos": 0, "kind": "deliver", "origin": "a", "seq": 1}]
    Path("log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    here = antecast("audit", "log.jsonl", "-q")
    assert here == (2, "", "error: log.jsonl:6: node is 5, where a text is expected\n")
    assert antecast("audit", "log.jsonl", "-q", "--engine", "spark") == here


def test_a_data_frame_whose_kinds_match_nothing_gets_no_verdict(spark: Any) -> None:
    rows = [row | {"kind": row["kind"].replace("deliver", "delivered")} for row in ROWS]
    with pytest.raises(BrokenLog, match="no row is a delivery: the kinds are broadcast, delivered"):
        library.audit(spark.createDataFrame(pa.Table.from_pylist(rows)))


def test_messages_with_names_of_their_own_get_the_same_verdict(
    spark: Any, antecast: Callable[..., tuple[int, str, str]]
) -> None:
    rows = [{"node": row["node"], "kind": row["kind"], "id": f"m-{row['origin']}"} for row in ROWS]
    pq.write_table(pa.Table.from_pylist([*rows, rows[-1], {**rows[-1], "id": "lost"}]), "log.parquet")
    options = ("audit", "log.parquet", "--map", "pos=@file,message=id", "--engine")
    here, there = antecast(*options, "local"), antecast(*options, "spark")
    assert here[:2] == there[:2]
    assert here[0] == 1
    assert "m-a → m-b" in here[1] and "lost delivered at node c, position 6" in here[1]


def test_a_spark_that_goes_away_is_no_violation(
    spark: Any, antecast: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM that is killed leaves a refused connection, and Python would exit with 1 after the traceback."""

    def gone(*arguments: object, **options: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("antecast.spark.log_audit.audit", gone)
    Path("log.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    code, out, err = antecast("audit", "log.jsonl", "-q", "--engine", "spark")
    assert (code, out) == (2, "")
    assert err == "error: Spark went away while it audited the log: [Errno 111] Connection refused\n"
