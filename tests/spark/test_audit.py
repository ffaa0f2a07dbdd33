"""The auditor on Spark says what the oracle says, and what the auditor in one process says, row for row."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from antecast.core.errors import ConfigurationError
from antecast.history.audit import audit as audit_here
from antecast.history.log_files import open_log
from antecast.history.oracle import Message, Node, judge
from antecast.history.rows import BrokenLog
from antecast.history.verdict import Verdict
from antecast.spark import audit as module
from antecast.spark.audit import audit
from antecast.spark.audit_tasks import scattered
from antecast.spark.log_frames import log_frame
from antecast.spark.session import is_connect
from antecast.spark.shared import hand_out

pytestmark = pytest.mark.spark

Row = dict[str, Any]


def random_log(draw: random.Random, run: str) -> list[Row]:
    """A run that could have been: nothing is delivered before it is broadcast, all else may happen."""
    nodes, own = draw.randint(2, 5), draw.random() < 0.5
    chaos = draw.choice([0.0, 0.1, 0.5])
    sent: list[tuple[str, int]] = []
    delivered: list[list[tuple[str, int]]] = [[] for _ in range(nodes)]
    rows: list[Row] = []
    for _ in range(draw.randint(0, 40)):
        node = draw.randrange(nodes)
        name = f"n{node}"
        waiting = [each for each in sent if each not in delivered[node] and (own or each[0] != name)]
        if draw.random() < 0.3 or not waiting:
            sent.append((name, sum(origin == name for origin, _ in sent) + 1))
            kind, message = "broadcast", sent[-1]
        elif delivered[node] and draw.random() < chaos / 5:
            kind, message = "deliver", draw.choice(delivered[node])
        else:
            kind, message = "deliver", draw.choice(waiting) if draw.random() < chaos else waiting[0]
            delivered[node].append(message)
        pos = 3 * sum(row["node"] == name for row in rows)
        rows.append({"run": run, "node": name, "pos": pos, "kind": kind, "origin": message[0], "seq": message[1]})
    if draw.random() < 0.2:  # a broadcast that is not in the log
        lost = next((row for row in rows if row["kind"] == "broadcast"), None)
        rows = [row for row in rows if row is not lost]
    return rows


def one_chain(nodes: int = 4, rounds: int = 3) -> list[Row]:
    """Everyone broadcasts in turn and everyone delivers everything at once."""
    positions = dict.fromkeys(range(nodes), 0)
    rows: list[Row] = []
    for step in range(nodes * rounds):
        message = {"origin": step % nodes, "seq": step // nodes + 1}
        for kind, node in [("broadcast", step % nodes), *(("deliver", node) for node in range(nodes))]:
            t = 100 * step + (kind == "deliver")
            rows.append({"node": node, "pos": positions[node], "t": t, "kind": kind} | message)
            positions[node] += 1
    return rows


def shuffled(rows: list[Row], seed: int = 1) -> pa.Table:
    return pa.Table.from_pylist(random.Random(seed).sample(rows, len(rows)))


def all_of(verdict: Verdict) -> Any:
    return verdict.outcome, verdict.counts, verdict.violations.to_pylist(), str(verdict.witness)


@pytest.fixture(scope="module")
def many_logs() -> list[Row]:
    draw = random.Random(7)
    return [row for number in range(400) for row in random_log(draw, f"run-{number:03}")]


@pytest.fixture(scope="module")
def many_logs_judged(spark: Any, many_logs: list[Row]) -> Verdict:
    return audit(spark.createDataFrame(shuffled(many_logs)), pairs=True, task_rows=1000)


def test_it_agrees_with_the_oracle_on_hundreds_of_random_logs(
    many_logs: list[Row], many_logs_judged: Verdict
) -> None:
    runs: dict[str, list[Row]] = {}
    for row in many_logs:
        runs.setdefault(row["run"], []).append(row)
    truths = [judge(pa.Table.from_pylist(rows)) for rows in runs.values()]

    def expected(what: str) -> set[Any]:
        return {each for truth in truths for each in getattr(truth, what)}

    def found(problem: str) -> set[tuple[Node, int, Message]]:
        return {
            (Node(row["run"], row["node"]), row["pos"], Message(row["run"], row["origin"], row["seq"]))
            for row in many_logs_judged.violations.to_pylist()
            if row["problem"] == problem
        }

    assert {(node, message) for node, _, message in found("early")} == expected("early")
    assert {(node, message) for node, _, message in found("late")} == expected("late")
    assert found("duplicate") == expected("duplicates")
    counts = many_logs_judged.counts
    for name, what in [("early", "early"), ("late", "late"), ("duplicates", "duplicates"), ("pairs", "pairs")]:
        assert counts[name] == len(expected(what)) > 0
    assert counts["unknown"] == sum(len(truth.unknown) for truth in truths) > 0
    assert counts["nodes"] == len({(row["run"], row["node"]) for row in many_logs})
    assert counts["deliveries"] == sum(row["kind"] == "deliver" for row in many_logs)


def test_it_says_what_one_process_says_word_for_word(many_logs: list[Row], many_logs_judged: Verdict) -> None:
    assert all_of(audit_here(shuffled(many_logs), pairs=True)) == all_of(many_logs_judged)
    assert many_logs_judged.violations.schema.names[:4] == ["run", "node", "pos", "origin"]


def test_what_is_listed_does_not_depend_on_where_it_was_found(spark: Any, many_logs: list[Row]) -> None:
    verdict = audit(spark.createDataFrame(shuffled(many_logs, 2)), limit=20, task_rows=2000)
    assert verdict.violations.equals(audit_here(shuffled(many_logs, 3), limit=20).violations)
    assert verdict.cut > 0


def injected() -> Iterator[tuple[str, list[Row], Row | None]]:
    """Logs with one thing wrong each, and the row of the table that should name it."""
    yield "nothing", one_chain(), None
    rows = one_chain()
    first, second = (
        row
        for row in rows
        if row["kind"] == "deliver" and row["node"] == 2 and row["seq"] == 2 and row["origin"] < 2
    )
    first["pos"], second["pos"] = second["pos"], first["pos"]
    yield "swap", rows, {"node": 2, "origin": second["origin"], "seq": 2, "problem": "early"}
    rows = one_chain()
    rows.remove(next(row for row in rows if row["kind"] == "deliver" and row["node"] == 3 and row["origin"] == 0))
    yield "drop", rows, None
    rows = one_chain()
    again = next(row for row in rows if row["kind"] == "deliver" and row["node"] == 1)
    yield "repeat", [*rows, again | {"pos": 99}], {"node": 1, "pos": 99, "problem": "duplicate", "cause_pos": 0}
    rows = one_chain()
    row = next(row for row in rows if row["kind"] == "deliver" and row["node"] == 3 and row["origin"] == 1)
    row["t"] -= 2
    yield "before", rows, {"node": 3, "origin": 1, "seq": 1, "pos": row["pos"], "problem": "before-broadcast"}


def test_each_injected_violation_is_found_and_named(spark: Any) -> None:
    logs = list(injected())
    rows = [row | {"run": name} for name, log, _ in logs for row in log]
    verdict = audit(spark.createDataFrame(shuffled(rows)), clock="global", task_rows=20)
    assert all_of(verdict) == all_of(audit_here(shuffled(rows), clock="global"))
    for name, _, expected in logs:
        found = [row for row in verdict.violations.to_pylist() if row["run"] == name]
        if expected is None:
            assert found == []
        else:
            assert any(row.items() >= expected.items() for row in found)
            assert len(found) == (2 if expected["problem"] == "early" else 1)  # the late one goes with it


def test_a_witness_is_found_however_long_its_chain(spark: Any) -> None:
    """0:1 → 1:1 → … → 9:1, each node has seen only the message before its own; and node 10 delivers the ends."""
    events = [(node, kind, node - (kind == "deliver")) for node in range(10) for kind in ("deliver", "broadcast")]
    rows = [
        {"node": node, "pos": pos, "kind": kind, "origin": origin, "seq": 1}
        for pos, (node, kind, origin) in enumerate([*events[1:], (10, "deliver", 9), (10, "deliver", 0)])
    ]
    verdict = audit(spark.createDataFrame(shuffled(rows)), task_rows=3)
    assert verdict.witness is not None
    assert verdict.witness.chain == tuple(f"{node}:1" for node in range(10))
    assert all_of(verdict) == all_of(audit_here(shuffled(rows)))


def test_names_of_columns_and_kinds_can_be_others(spark: Any) -> None:
    rows = [
        {"the.host": f"h{row['node']}", "offset": row["pos"], "code": 7 if row["kind"] == "deliver" else 3}
        | {"src": f"h{row['origin']}", "n": row["seq"], "pos": "not a number"}
        for row in one_chain()
    ]
    columns = {"node": "the.host", "pos": "offset", "kind": "code", "origin": "src", "seq": "n"}
    verdict = audit(
        spark.createDataFrame(shuffled(rows)), columns=columns, kinds={"broadcast": "3", "deliver": "7"}
    )
    assert (verdict.outcome, verdict.counts["deliveries"], verdict.counts["messages"]) == ("causal", 48, 12)


BROKEN = {
    "two events at one position": [*one_chain(), one_chain()[3] | {"pos": 1}],
    "a second time": [*one_chain(), one_chain()[0] | {"pos": 50}],
    "not its own message": [*one_chain(), one_chain()[0] | {"node": 2, "pos": 50, "seq": 9}],
    "before it broadcasts it": [
        *one_chain(),
        {"node": 1, "pos": 98, "kind": "deliver", "origin": 1, "seq": 9},
        {"node": 1, "pos": 99, "kind": "broadcast", "origin": 1, "seq": 9},
    ],
    "cycle of 2 messages": [
        {"node": node, "pos": pos, "kind": kind, "origin": origin, "seq": 1}
        for node in (0, 1)
        for pos, kind, origin in [(0, "deliver", 1 - node), (1, "broadcast", node)]
    ],
    "and 12 steps more": [
        {"node": node, "pos": pos, "kind": kind, "origin": origin % 20, "seq": 1}
        for node in range(20)
        for pos, kind, origin in [(0, "deliver", node + 1), (1, "broadcast", node)]
    ],
    "seq is null": [*one_chain(), one_chain()[1] | {"pos": 50, "seq": None}],
    "kind is null": [*one_chain(), one_chain()[1] | {"pos": 50, "kind": None}],
    "pos is negative": [*one_chain(), one_chain()[1] | {"pos": -1}],
}


@pytest.mark.parametrize("problem", BROKEN)
def test_a_broken_log_gets_no_verdict(spark: Any, problem: str) -> None:
    events = shuffled(BROKEN[problem])
    with pytest.raises(BrokenLog) as here:
        audit_here(events)
    with pytest.raises(BrokenLog, match=problem) as caught:
        audit(spark.createDataFrame(events), task_rows=5)
    for name in ("run", "node", "pos"):
        assert getattr(caught.value, name) == getattr(here.value, name)


def test_columns_that_are_missing_or_of_a_wrong_type_are_named_before_anything_runs(spark: Any) -> None:
    events = spark.createDataFrame(shuffled(one_chain()))
    with pytest.raises(BrokenLog, match="no column 'host'; the log has node, pos, t"):
        audit(events, columns={"node": "host"})
    with pytest.raises(BrokenLog, match="'pos' must hold integers, not string"):
        audit(events.withColumn("pos", events["pos"].cast("string")))
    with pytest.raises(ConfigurationError, match="no such column 'host'; there are run, node"):
        audit(events, columns={"host": "node"})
    with pytest.raises(ConfigurationError, match="no such kind 'send'"):
        audit(events, kinds={"send": "deliver"})


def test_an_empty_log_is_causal(spark: Any) -> None:
    assert audit(spark.createDataFrame(shuffled(one_chain())).limit(0)).outcome == "inconclusive"


@pytest.mark.jvm("asks for the tables that Spark keeps")
def test_nothing_is_left_behind(spark: Any) -> None:
    names = ("maxRecordsPerBatch", "maxBytesPerBatch")
    before = [spark.conf.get(f"spark.sql.execution.arrow.{name}") for name in names]
    kept = set(spark.sparkContext._jsc.getPersistentRDDs())
    audit(spark.createDataFrame(shuffled(one_chain())))
    with pytest.raises(BrokenLog):
        audit(spark.createDataFrame(shuffled(BROKEN["seq is null"])))
    assert [spark.conf.get(f"spark.sql.execution.arrow.{name}") for name in names] == before
    assert set(spark.sparkContext._jsc.getPersistentRDDs()) <= kept


def test_what_comes_to_the_driver_does_not_grow_with_the_deliveries(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[int] = []
    collect = module._Audit._collect

    def counted(self: module._Audit, parcels: Any, what: str) -> pa.Table:
        table = collect(self, parcels, what)
        collected.append(sum(len(body) for body in table["body"].to_pylist()))
        return table

    monkeypatch.setattr(module._Audit, "_collect", counted)
    totals = []
    for listeners in (10, 1000):
        chain = one_chain(rounds=50)
        heard = [row for row in chain if row["kind"] == "deliver" and row["node"] == 0]
        rows = chain + [row | {"node": 100 + node} for node in range(listeners) for row in heard]
        collected.clear()
        assert audit(spark.createDataFrame(pa.Table.from_pylist(rows)), task_rows=10**6).outcome == "causal"
        totals.append(sum(collected))
    assert totals[1] < 1.05 * totals[0]


def rounds(nodes: int, count: int, *, late: bool) -> list[Row]:
    """All nodes broadcast in every round and hear of the round before first; one delivery may come too late."""
    draw = random.Random(nodes)
    rows = []
    for node in range(nodes):
        history = []
        for number in range(1, count + 1):
            history.append(("broadcast", node, number))
            others = [other for other in range(nodes) if other != node]
            history += [("deliver", other, number) for other in draw.sample(others, len(others))]
        if late and node == 3:
            history.append(history.pop(5))
        rows += [
            {"node": node, "pos": pos, "kind": kind, "origin": origin, "seq": seq}
            for pos, (kind, origin, seq) in enumerate(history)
        ]
    return rows


@pytest.mark.parametrize("late", [False, True])
def test_rounds_bring_few_dependencies_to_the_driver(spark: Any, late: bool) -> None:
    events = pa.Table.from_pylist(rounds(60, 6, late=late))
    notes: list[str] = []
    verdict = audit(spark.createDataFrame(events), on_progress=notes.append)
    here = audit_here(events)
    assert (verdict.tally, verdict.violations) == (here.tally, here.violations)
    assert str(verdict.witness) == str(here.witness)
    assert verdict.outcome == ("violated" if late else "causal")
    (dependencies,) = (float(note.split()[0]) for note in notes if "dependencies" in note)
    assert dependencies < 10  # 60 without joints


def test_more_parts_than_blocks_change_nothing(
    spark: Any, many_logs: list[Row], many_logs_judged: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few blocks of nodes, each spread over several parts, as in a log of thousands of millions of events."""
    monkeypatch.setattr(module, "BLOCKS", 3)
    monkeypatch.setattr(module, "_UNCUT", 1)
    shares = module._shares
    seen: list[dict[int, range]] = []

    def noted(sizes: dict[int, int], parts: int) -> dict[int, range]:
        seen.append(shares(sizes, parts))
        return seen[-1]

    monkeypatch.setattr(module, "_shares", noted)
    spread = audit(spark.createDataFrame(shuffled(many_logs)), pairs=True, task_rows=1000)
    assert [len(share) > 1 for share in seen[0].values()] == [True] * 3
    assert all_of(spread) == all_of(many_logs_judged)


def test_nodes_are_spread_by_their_names_however_a_batch_holds_them() -> None:
    names = [f"n{number}" for number in range(1000)]
    runs = pa.array([number % 7 for number in range(1000)], pa.int8())
    plain = scattered([runs, pa.array(names)])
    assert (plain == scattered([runs.cast(pa.int64()), pa.array(names).dictionary_encode()])).all()
    counts = np.bincount((plain % np.uint64(8)).astype(int), minlength=8)
    assert counts.min() > 80


def test_what_tasks_share_does_not_travel_with_each_of_them(spark: Any) -> None:
    """A task is small however many messages there are; through Connect, too, where there are no broadcasts."""
    index = np.arange(300_000)
    with hand_out(spark, index) as shared:

        def total(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                yield pa.RecordBatch.from_pydict({"total": [int(shared.value.sum())]})

        if is_connect(spark):
            assert len(cloudpickle.dumps(total)) < 10_000
        found = spark.range(0, 4, 1, 4).mapInArrow(total, "total long").collect()
    assert {row["total"] for row in found} == {int(index.sum())}


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".jsonl"])
def test_files_read_by_spark_and_by_arrow_are_the_same_log(
    spark: Any, tmp_path: Path, many_logs: list[Row], suffix: str
) -> None:
    for number in range(2):
        write(tmp_path / f"part-{number}{suffix}", many_logs[number::2])
    log = open_log([str(tmp_path)])
    verdict = audit(log_frame(spark, log))
    assert all_of(verdict) == all_of(audit_here(log.batches))
    assert verdict.counts["nodes"] == len({(row["run"], row["node"]) for row in many_logs})


def write(file: Path, rows: list[Row]) -> None:
    import gzip

    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
        return
    if ".csv" in file.suffixes:
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    else:
        lines = [json.dumps(row) for row in rows]
    text = "".join(f"{line}\n" for line in lines).encode()
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)


CLUSTER = """
from antecast.spark.audit import audit

def tasks():
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return {executors.apply(i).id(): executors.apply(i).completedTasks() for i in range(executors.size())}

before = tasks()
verdict = audit(spark.read.parquet(arguments[0]), pairs=True, task_rows=200)
rows = verdict.violations.to_pylist()
made = {name: count - before.get(name, 0) for name, count in tasks().items()}
result = {"verdict": [verdict.outcome, verdict.counts, rows, str(verdict.witness)], "tasks": made}
"""


@pytest.mark.jvm("starts a cluster of its own")
def test_two_executors_give_the_same_rows_as_one_process(
    tmp_path: Path, many_logs: list[Row], many_logs_judged: Verdict, cluster: Callable[..., Any]
) -> None:
    log = tmp_path / "log.parquet"
    pq.write_table(shuffled(many_logs), log, row_group_size=1000)
    found = cluster(CLUSTER, log)
    assert found["verdict"] == json.loads(json.dumps(all_of(many_logs_judged)))
    assert found["tasks"]["0"] > 5 and found["tasks"]["1"] > 5


def test_all_violations_can_be_written_without_a_limit(spark: Any, many_logs: list[Row], tmp_path: Path) -> None:
    """However few the driver lists; and the runs have the same verdicts as in one process."""
    some = list(dict.fromkeys(row["run"] for row in many_logs))[:20]
    rows = [row for row in many_logs if row["run"] in some]
    target = str(tmp_path / "violations")
    verdict = audit(spark.createDataFrame(shuffled(rows)), limit=1, task_rows=1000, violations=target)
    here = audit_here(shuffled(rows), limit=10**9)
    assert len(verdict.violations) <= 4
    written = spark.read.parquet(target).toPandas()
    assert len(written) == here.tally.violations == verdict.tally.violations
    key = ["run", "node", "pos", "problem"]
    listed = here.violations.to_pandas()
    assert sorted(map(tuple, written[key].values)) == sorted(map(tuple, listed[key].values))
    assert verdict.outcomes == here.outcomes and verdict.runs == here.runs


def test_a_frame_tells_what_it_lacks_and_refuses_nul_bytes(spark: Any) -> None:
    import antecast

    rows = [("a", 0, "broadcast", "a", 1), ("a", 1, "broadcast", "a", 2), ("b", 0, "deliver", "a", 1)]
    columns = ["node", "pos", "kind", "origin", "seq"]
    whole = spark.createDataFrame([*rows, ("b", 1, "deliver", "a", 2)], columns)
    assert antecast.audit(whole).outcome == "causal"
    trimmed = antecast.audit(spark.createDataFrame([*rows, ("b", 2, "deliver", "a", 2)], columns))
    assert trimmed.outcome == "inconclusive" and "1 position is missing at 1 node: node b has no 1" in str(trimmed)
    assert antecast.audit(whole, complete=["a"]).outcome == "inconclusive"
    for place in (0, 3):
        bad = [tuple("a\0" if at == place else cell for at, cell in enumerate(rows[0])), *rows[1:]]
        with pytest.raises(BrokenLog, match="NUL byte"):
            audit(spark.createDataFrame(bad, columns))
