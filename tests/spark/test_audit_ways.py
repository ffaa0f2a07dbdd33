"""The ways that an audit on Spark takes through a log (by nodes, by runs, spread, with and without a round of
reduction) all lead to the verdict of one process; and a DataFrame may hold a log in any way it likes."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from antecast.history.audit import audit as audit_here
from antecast.history.oracle import judge
from antecast.history.rows import BrokenLog
from antecast.history.verdict import Verdict
from antecast.spark import audit as module
from antecast.spark.audit import audit
from antecast.spark.audit_tasks import Pack, Spread

pytestmark = pytest.mark.spark

Row = dict[str, Any]


def busy_log(draw: random.Random, run: object, messages: int, *, text: bool = False) -> list[Row]:
    """Node 0 hears of nearly everything, in an order that is broken now and then, some of it twice; the others
    hear of a little. Some broadcasts are not in the log. Positions begin anywhere and have gaps."""
    nodes = draw.randint(3, 9)
    histories: list[list[tuple[str, int, int]]] = [[] for _ in range(nodes)]
    sent = [0] * nodes
    for _ in range(messages):
        origin = draw.randrange(nodes)
        sent[origin] += 1
        message = (origin, sent[origin])
        histories[origin].append(("broadcast", *message))
        for node in range(nodes):
            if node != origin and draw.random() < (0.95 if node == 0 else 0.3):
                late = draw.randrange(3) if draw.random() < 0.1 else 0
                own = max((i for i, event in enumerate(histories[node]) if event[0] == "broadcast"), default=-1)
                place = max(own + 1, len(histories[node]) - late)  # its own broadcasts stay what they follow
                histories[node].insert(place, ("deliver", *message))
                if draw.random() < 0.02:
                    histories[node].append(("deliver", *message))
    rows = []
    for node, history in enumerate(histories):
        pos = draw.randrange(1000)
        for kind, origin, seq in history:
            pos += draw.choice([1, 1, 1, 5])
            names: list[Any] = [f"n{node}", f"n{origin}"] if text else [node, origin]
            rows.append({"run": run, "node": names[0], "pos": pos, "kind": kind, "origin": names[1], "seq": seq})
    return [row for row in rows if row["kind"] == "deliver" or draw.random() > 0.02]


def logs(seed: int, *, text: bool) -> list[Row]:
    """Many small runs, then a large one."""
    draw = random.Random(seed)
    runs = [f"run {number}" if text else number for number in range(61)]
    small = [row for run in runs[1:] for row in busy_log(draw, run, draw.randint(0, 12), text=text)]
    return small + busy_log(draw, runs[0], 150, text=text)


def all_of(verdict: Verdict) -> Any:
    tables = verdict.violations.to_pylist()
    return verdict.outcome, verdict.counts, tables, str(verdict.witness), dict(verdict.runs)


WAYS = {
    # How many runs among rows packed together are many, what is too small for a part, what is not spread; and what
    # is packed: blocks of nodes, blocks of runs.
    "by node": (10**9, 10**6, 64, [True, False], False),
    "by node, spread": (10**9, 10**6, 2, [True, False], True),
    "by run": (1, 10**6, 64, [False, True], False),
    "by run, one of them too large": (1, 200, 64, [False, True], True),
    "both": (3, 200, 64, [True, True], True),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", [False, True], ids=["numbers", "texts"])
def test_every_way_leads_to_the_same_verdict(
    spark: Any, way: str, text: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_runs, small_rows, uncut, packed, spread = WAYS[way]
    taken: dict[str, Any] = {"spread": False}
    parts_of = module._Audit._parts

    def noted(self: module._Audit, sizes: Any) -> Any:
        parts, dealt = parts_of(self, sizes)
        taken.update(packed=[bool(each.any()) for each in sizes], spread=dealt is None, parts=parts)
        return parts, dealt

    monkeypatch.setattr(module._Audit, "_parts", noted)
    monkeypatch.setattr(module, "Pack", lambda blocks: Pack(blocks, many_runs=many_runs, packed_rows=300))
    monkeypatch.setitem(module._PACKING, "spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    monkeypatch.setattr(module, "_SMALL_ROWS", small_rows)
    monkeypatch.setattr(module, "_UNCUT", uncut)
    rows = logs(len(way), text=text)
    here = audit_here(pa.Table.from_pylist(rows), pairs=True)
    events = spark.createDataFrame(pa.Table.from_pylist(rows)).coalesce(2)
    found = audit(events, pairs=True, task_rows=400)
    assert taken["packed"] == packed and taken["spread"] == spread and taken["parts"] > 3
    assert all_of(found)[:3] + all_of(found)[4:] == all_of(here)[:3] + all_of(here)[4:]
    assert found.witness is not None and here.witness is not None
    assert len(found.witness.chain) >= len(here.witness.chain)
    truths = [judge(pa.Table.from_pylist([row for row in rows if row["run"] == run])) for run in found.runs]
    assert found.counts["early"] == sum(len(truth.early) for truth in truths) > 0
    assert found.counts["duplicates"] == sum(len(truth.duplicates) for truth in truths) > 0


def test_rows_of_a_run_go_where_those_of_its_nodes_go(spark: Any) -> None:
    """Whether they were packed by run or by node."""
    rows = pa.RecordBatch.from_pylist([row | {"kind": True} for row in logs(3, text=True)])
    shares = {block: range(block // 2, block // 2 + 2) for block in range(8)}
    parts = []
    for many_runs in (1, 10**9):
        packed = list(Pack(8, many_runs=many_runs)([rows]))
        assert {each for batch in packed for each in batch.column("what").to_pylist()} >= {
            "runs" if many_runs == 1 else "events"
        }
        events = [batch for batch in packed if batch.column("what")[0].as_py() in ("events", "runs")]
        found = set()
        for batch in Spread(shares)(events):
            for part, body in zip(batch.column("block").to_pylist(), batch.column("body"), strict=True):
                for each in pa.ipc.open_stream(body.as_buffer()):
                    found |= {(part, row["run"], row["node"]) for row in each.to_pylist()}
        parts.append(found)
    assert parts[0] == parts[1] and len({part for part, _, _ in parts[0]}) == 5
    assert len(parts[0]) == len({name for _, *name in map(tuple, parts[0]) for name in [tuple(name)]})


BASE = [
    {"node": node, "pos": 7 + 10 * pos, "kind": kind, "origin": origin, "seq": 3}
    for node, pos, kind, origin in [
        (1, 0, "broadcast", 1),
        (-2, 0, "deliver", 1),
        (-2, 1, "broadcast", -2),
        (3, 0, "deliver", -2),
        (3, 1, "deliver", 1),
    ]
]


def typed(**types: pa.DataType) -> Callable[[Any, Path], Any]:
    def made(spark: Any, folder: Path) -> Any:
        table = pa.Table.from_pylist(BASE)
        for name, kind in types.items():
            table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
        return spark.createDataFrame(table)

    return made


def decimals(spark: Any, folder: Path) -> Any:
    rows = [{**row, "node": Decimal(row["node"]), "origin": Decimal(row["origin"])} for row in BASE]
    return spark.createDataFrame(
        [tuple(row.values()) for row in rows],
        "node decimal(20,0), pos long, kind string, origin decimal(20,0), seq int",
    )


def partitioned(spark: Any, folder: Path) -> Any:
    base = typed()(spark, folder)
    base.write.partitionBy("node", "kind").parquet(str(folder / "log"))
    return spark.read.parquet(str(folder / "log"))


def file_by_row(spark: Any, folder: Path) -> Any:
    typed()(spark, folder).repartitionByRange(5, "node", "pos").write.parquet(str(folder / "log"))
    return spark.read.parquet(str(folder / "log"))


def other_rows(spark: Any, folder: Path) -> Any:
    """Rows of other kinds lack everything else; there are columns that nobody knows, among them of arrays."""
    other = {"node": None, "pos": None, "kind": "tick", "origin": None, "seq": None}
    frame = spark.createDataFrame(pa.Table.from_pylist([*BASE, other, other]))
    return frame.selectExpr("*", "array(1, 2) AS block", "named_struct('a', 1) AS what", "'x' AS `a.b``c`")


FRAMES: dict[str, Callable[[Any, Path], Any]] = {
    "bytes and shorts": typed(
        node=pa.int8(), origin=pa.int16(), pos=pa.int16(), seq=pa.int8(), kind=pa.large_string()
    ),
    "texts": typed(node=pa.string(), origin=pa.string()),
    "decimals": decimals,
    "a partitioned table": partitioned,
    "a file for each row": file_by_row,
    "rows of other kinds": other_rows,
    "empty partitions": lambda spark, folder: typed()(spark, folder).repartition(50),
}


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("form", FRAMES)
def test_a_log_may_be_held_in_any_way(spark: Any, tmp_path: Path, form: str, ansi: str) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        verdict = audit(FRAMES[form](spark, tmp_path))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert (verdict.outcome, verdict.messages, verdict.tally.early, verdict.tally.late) == ("violated", 2, 1, 1)
    (row, _) = sorted(verdict.violations.to_pylist(), key=lambda each: str(each["problem"]))
    assert (str(row["node"]), row["pos"], str(row["origin"]), row["cause_pos"]) == ("3", 7, "-2", 17)


def test_a_view_is_a_log_and_two_columns_of_one_name_are_none(spark: Any) -> None:
    base = spark.createDataFrame(pa.Table.from_pylist(BASE))
    base.createOrReplaceTempView("some_events")
    assert audit(spark.sql("SELECT * FROM some_events")).tally.early == 1
    spark.catalog.dropTempView("some_events")
    with pytest.raises(BrokenLog, match="two columns are called 'pos'"):
        audit(base.selectExpr("*", "pos"))


def test_rows_that_are_there_twice_are_named(spark: Any) -> None:
    with pytest.raises(BrokenLog, match=r"a second time|two events at one position"):
        audit(spark.createDataFrame(pa.Table.from_pylist(BASE + BASE)))
