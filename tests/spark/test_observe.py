"""Causal order on Spark: streams, finished tables, timers, the command, and drivers that are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F  # noqa: N812

from antecast.core import ConfigurationError
from antecast.observer import Observer, Policy, Timestamp
from antecast.observer.policy import FUTURE, NEGATIVE_C, WRONG_LENGTH
from antecast.papers.observer.model import ObserverModel, generate, judge
from antecast.spark.observe import _event_time, causal_order
from antecast.spark.observe_rows import R, RowFormat, read_rows
from antecast.spark.observe_run import NOT_JSON, Source, observe_stream, observe_table

pytestmark = pytest.mark.spark

GROUPS = 3
BOUNDS = ObserverModel(epsilon=4, delta=6).bounds
OPTIONS: dict[str, Any] = {"key": "g", "epsilon": 4, "delta": 6, "arrival": "n"}


@pytest.fixture(scope="module", autouse=True)
def few_partitions(spark: Any) -> Iterator[None]:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


def traffic(messages: int) -> list[dict[str, Any]]:
    """Rows of several systems, in the order in which they reach the observer."""
    rows = []
    for g in range(GROUPS):
        run = generate(ObserverModel(epsilon=4, delta=6, messages=messages, seed=g))
        for i in range(len(run)):
            stamp = {"r": int(run.r[i]), "c": int(run.c[i]), "kn": run.kn[i].tolist()}
            name = {"g": f"g{g}", "source": int(run.source[i]), "seq": int(run.seq[i])}
            rows.append((int(run.arrived[i]), g, i, {**name, **stamp, "counter": int(run.counter[i])}))
    return [{**row, "n": n} for n, (*_, row) in enumerate(sorted(rows, key=lambda each: each[:3]))]


def expected(rows: list[dict[str, Any]], policy: Policy) -> dict[str, list[tuple[int, int, int, bool]]]:
    """What the pure observer says of each group: (n, position, waited, late)."""
    found = {}
    for key in sorted({row["g"] for row in rows}):
        observer: Observer[int] = Observer(policy, clock="rows")
        out = []
        for row in rows:
            if row["g"] == key:
                kn = (row["counter"],) if policy.stamps == "hybrid" else tuple(row["kn"])
                out += observer.receive(row["n"], Timestamp(row["r"], row["c"], kn), row["source"])
        found[key] = [tuple(each)[:4] for each in out + observer.flush() if each.reason is None]
    return found  # type: ignore[return-value]


def by_group(rows: list[dict[str, Any]]) -> dict[str, list[tuple[int, int, int, bool]]]:
    found: dict[str, list[tuple[int, int, int, bool]]] = {}
    for row in rows:
        found.setdefault(row["g"], []).append((row["n"], row["position"], row["waited"], row["late"]))
    return {key: sorted(found[key], key=lambda each: each[1]) for key in sorted(found)}


def put(folder: Path, rows: list[dict[str, Any]], files: int, *, bad: list[str] | None = None) -> None:
    """Rows as so many files of JSON lines, in order; `bad` lines are strewn in."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row) for row in rows]
    for at, line in enumerate(bad or []):
        lines.insert(37 * (at + 1) % len(lines), line)
    size = -(-len(lines) // files)
    for number in range(files):
        file = folder / f"{number:04}.jsonl"
        file.write_text("\n".join(lines[number * size : (number + 1) * size]) + "\n")
        os.utime(file, (10**9 + number, 10**9 + number))


def read(folder: Path) -> list[dict[str, Any]]:
    """What is in a folder of the output, read without Spark."""
    rows = []
    for file in sorted(folder.glob("batch-*")):
        if file.suffix == ".parquet":
            rows += pq.read_table(file).to_pylist()
        else:
            rows += [json.loads(line) for line in file.read_text().splitlines()]
    return rows


BAD = [
    "no JSON at all",
    json.dumps({"g": "g0", "c": 1, "kn": [0] * 5, "source": 1, "n": 50}),
    json.dumps({"g": "g0", "r": 20, "c": -1, "kn": [0] * 5, "source": 1, "n": 51}),
    json.dumps({"g": "g1", "r": 20, "c": 0, "kn": [0] * 4, "source": 1, "n": 52}),
    json.dumps({"g": "g1", "r": 10**15, "c": 0, "kn": [0] * 5, "source": 1, "n": 53}),
]
REASONS = {NOT_JSON: 1, "r is missing": 1, NEGATIVE_C: 1, WRONG_LENGTH: 1, FUTURE: 1}


def test_a_stream_a_table_and_the_pure_observer_agree(spark: Any, tmp_path: Path) -> None:
    """Approximate order, several groups and micro-batches, bad rows: order, positions, waits and flags are the
    same, the state is empty at the end, and a checkpoint refuses other settings."""
    rows = traffic(160)
    put(tmp_path / "in", rows, 4, bad=BAD)
    policy = Policy(bounds=BOUNDS, percent=40)
    source = Source(format="json", path=str(tmp_path / "in"), options={"maxFilesPerTrigger": "1"})
    tally = observe_stream(spark, source, tmp_path / "out", "parquet", tmp_path / "state", c=40, **OPTIONS)
    assert (tally.delivered, tally.waiting, dict(tally.refused)) == (len(rows), 0, REASONS)
    assert tally.batches >= 5
    assert by_group(read(tmp_path / "out" / "delivered")) == expected(rows, policy)
    refused = read(tmp_path / "out" / "refused")
    assert {row["reason"] for row in refused} == REASONS.keys()
    assert [row["raw"] for row in refused if row["reason"] == NOT_JSON] == ["no JSON at all"]
    table = observe_table(spark, source, tmp_path / "table", "parquet", c=40, **OPTIONS)
    assert table.delivered == len(rows)
    assert by_group(read(tmp_path / "table" / "delivered")) == expected(rows, policy)
    state = spark.read.format("statestore").option("stateVarName", "group").load(str(tmp_path / "state" / "query"))
    sizes = [row[0] for row in state.selectExpr("length(value.data)").collect()]
    assert len(sizes) == GROUPS + 1  # and the group of the line without a key
    assert max(sizes) < 300
    with pytest.raises(ConfigurationError, match="was made with c = 40, and this run has 60"):
        observe_stream(spark, source, tmp_path / "out", "parquet", tmp_path / "state", c=60, **OPTIONS)


def test_hybrid_clocks_without_an_order_of_arrival_are_exact(spark: Any, tmp_path: Path) -> None:
    """One group, exact mode, Parquet; the rows of each file in any order. No violations, by the vector clocks."""
    run = generate(ObserverModel(epsilon=4, delta=6, messages=300, seed=9))
    columns = {"l": run.r + run.c, "counter": run.counter, "source": run.source, "row": list(range(len(run)))}
    table = pa.table(columns)
    (tmp_path / "in").mkdir()
    draw = random.Random(2)
    for number in range(3):
        part = table.slice(number * 100, 100)
        order = list(range(len(part)))
        draw.shuffle(order)
        file = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(part.take(order), file)
        os.utime(file, (10**9 + number, 10**9 + number))
    options = {"epsilon": 4, "delta": 6, "stamps": "hybrid", "mode": "exact"}
    source = Source(format="parquet", path=str(tmp_path / "in"), options={"maxFilesPerTrigger": "1"})
    observe_stream(spark, source, tmp_path / "out", "json", tmp_path / "state", **options)
    rows = sorted(read(tmp_path / "out" / "delivered"), key=lambda row: row["position"])
    assert len(rows) == len(run)
    assert judge(run, pa.array([row["row"] for row in rows]).to_numpy()).pairs == 0
    assert not any(row["late"] for row in rows)


def test_groups_of_any_key_are_drained(spark: Any, tmp_path: Path) -> None:
    """In the state keys are such as pandas leaves alone. The last rows of most of these never left."""
    kinds = {"i": "int", "l": "long", "s": "smallint", "d": "double", "t": "timestamp", "z": "timestamp_ntz"}
    kinds |= {"day": "date", "n": "decimal(9, 2)", "sys.id": "string", "rows": "binary", "waiting": "boolean"}
    first = {
        "i": "7",
        "l": "1 << 62",
        "s": "1",
        "d": "'NaN'",
        "t": "'2026-01-01 00:00:00.5 UTC'",
        "day": "'2026-01-01'",
    }
    first |= {"z": "'2026-03-29 02:30:00'", "n": "'1.5'", "sys.id": "'a'", "rows": "'b'", "waiting": "true"}
    keys = [first, *(first | {name: "null"} for name in first)]
    selects = [
        f"select {', '.join(f'cast({text} as {kinds[name]}) `{name}`' for name, text in key.items())}, {r}L r"
        for key in keys
        for r in (1, 2)
    ]
    spark.sql(" union all ".join(selects)).coalesce(1).write.parquet(str(tmp_path / "in"))
    source = Source(format="parquet", path=str(tmp_path / "in"))
    options = {"key": list(kinds), "epsilon": 4, "delta": 6, "stamps": "physical"}
    tally = observe_stream(spark, source, tmp_path / "out", "json", tmp_path / "state", **options)
    assert (tally.delivered, tally.waiting) == (2 * len(keys), 0)
    found = sorted((row["r"], row["position"]) for row in read(tmp_path / "out" / "delivered"))
    assert found == [(r, r - 1) for r in (1, 2) for _ in keys]


def started(spark: Any, folder: Path, out: list[Any], **options: Any) -> Any:
    """A stream of files that goes on, with everything that comes out collected."""
    folder.mkdir(exist_ok=True)
    frame = spark.readStream.schema("g string, r long").json(str(folder))
    ordered = causal_order(frame, key="g", epsilon=2, delta=10, stamps="physical", **options)
    writer = ordered.writeStream.foreachBatch(lambda batch, _: out.extend(batch.collect()))
    return (
        writer.option("checkpointLocation", str(folder.with_suffix(".state")))
        .trigger(processingTime="0 seconds")
        .start()
    )


def add(folder: Path, number: int, rows: list[tuple[str, int]]) -> None:
    part = folder.with_suffix(".part")
    part.write_text("".join(json.dumps({"g": g, "r": r}) + "\n" for g, r in rows))
    part.rename(folder / f"{number}.json")


def wait_for(query: Any, condition: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


@pytest.mark.jvm("foreachBatch runs at the server, and a list of this process stays empty")
def test_a_silent_group_follows_the_watermark_and_late_rows_are_not_lost(spark: Any, tmp_path: Path) -> None:
    out: list[Any] = []
    folder = tmp_path / "in"
    folder.mkdir()
    add(folder, 0, [("quiet", 100), ("loud", 101)])
    query = started(spark, folder, out, timers="event")
    try:
        wait_for(query, lambda: query.lastProgress is not None)
        add(folder, 1, [("loud", 200)])  # far past 100 + δ + ε
        wait_for(query, lambda: any(row.g == "quiet" for row in out))
        add(folder, 2, [("quiet", 50), ("quiet", 300), ("loud", 301)])  # 50 is older than the watermark
        add(folder, 3, [("quiet", 400)])
        wait_for(query, lambda: sum(row.g == "quiet" for row in out) >= 3)
    finally:
        query.stop()
    quiet = [(row.r, row.position, row.late) for row in out if row.g == "quiet"]
    assert quiet[:3] == [(100, 0, False), (50, 1, True), (300, 2, False)]


@pytest.mark.jvm("foreachBatch runs at the server, and a list of this process stays empty")
def test_a_silent_group_follows_real_time(spark: Any, tmp_path: Path) -> None:
    out: list[Any] = []
    folder = tmp_path / "in"
    folder.mkdir()
    add(folder, 0, [("quiet", 100), ("quiet", 103)])
    query = started(spark, folder, out, timers="processing", slack="10ms")
    try:
        wait_for(query, lambda: len(out) == 2)
    finally:
        query.stop()
    assert [(row.r, row.position) for row in out] == [(100, 0), (103, 1)]


@pytest.mark.jvm("foreachBatch runs at the server, and a list of this process stays empty")
@pytest.mark.parametrize(("kind", "wild"), [("long", (10**15, 2**63 - 1, -(2**63))), ("int", (2**31 - 1,))])
def test_a_wild_row_does_not_end_a_query_that_goes_by_event_time(
    spark: Any, tmp_path: Path, kind: str, wild: tuple[int, ...]
) -> None:
    """Its time overflows what a time can be, and Spark makes that the end of the query."""
    out: list[Any] = []
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [{"g": "a", "r": 10**6 + n, "source": n % 2} for n in range(40)]
    rows += [{"g": "a", "r": r, "source": 2} for r in wild]
    (folder / "0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = spark.readStream.schema(f"g string, r {kind}, source long").json(str(folder))
    options: dict[str, Any] = {"key": "g", "epsilon": 2, "delta": 10, "stamps": "physical", "timers": "event"}
    writer = causal_order(frame, **options).writeStream.foreachBatch(lambda batch, _: out.extend(batch.collect()))
    query = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
    query.awaitTermination()
    right = [row.r for row in out if row.reason is None and row.r not in wild]
    assert right == [10**6 + n for n in range(len(right))]
    assert len(right) >= 20


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_times_without_a_zone_move_the_watermark_as_they_move_the_clocks_of_groups(spark: Any, zone: str) -> None:
    """In UTC. In the session's zone, all rows went at once west of Greenwich, and none by a timer east of it."""
    before = spark.conf.get("spark.sql.session.timeZone")
    times = [1_772_937_000_123_456, 1_793_493_000_000_000, -1, 0]  # in the hours of New York's changes, and early
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        texts = [
            f"timestamp_ntz'{datetime.fromtimestamp(each / 1e6, UTC):%Y-%m-%d %H:%M:%S.%f}'" for each in times
        ]
        frame = spark.sql(f"select explode(array({', '.join(texts)}, null)) r")
        rows = RowFormat(policy=Policy(bounds=BOUNDS, stamps="physical"), key=(), columns={"r": "r"}, tick=1000)
        found = frame.select(F.unix_micros(_event_time(frame, rows)).alias("micros"), "r").toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert found["micros"].to_pylist() == [*times, None]
    assert read_rows(found, rows)[R].to_pylist() == [*times, 0]  # what the clock of a group goes by


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "nowhere"}, "no column 'nowhere'"),
        ({"epsilon": "5"}, "epsilon: expected a duration"),
        ({"tick": "0s"}, "tick: expected a length of time above zero"),
        ({"columns": {"r": "text"}}, "text: expected a whole number of ticks, or a timestamp, got string"),
        ({"c": 101}, "percent"),
        ({"mode": "exact", "c": 50}, "percent is for"),
    ],
)
def test_wrong_options_are_told(spark: Any, options: dict[str, Any], words: str) -> None:
    frame = spark.createDataFrame([("g", 1, "x")], "g string, r long, text string")
    with pytest.raises(ConfigurationError, match=words):
        causal_order(frame, **{"epsilon": 1, "delta": 1, "stamps": "physical"} | options)


@pytest.mark.parametrize("role", ["source", "before"])
def test_a_column_that_only_has_the_name_of_a_role_can_be_left_out(spark: Any, role: str) -> None:
    """Change data capture calls its columns so, and they are structures there."""
    rows = [(3, 0, 0, ("db",)), (1, 0, 0, ("db",))]
    frame = spark.createDataFrame(rows, f"r long, c int, counter int, {role} struct<name: string>")
    options: dict[str, Any] = {"epsilon": 1, "delta": 1, "stamps": "hybrid"}
    with pytest.raises(ConfigurationError, match=rf'give the role no column: columns={{"{role}": ""}} \(--map'):
        causal_order(frame, **options)
    ordered = causal_order(frame, **options, columns={role: ""}).orderBy("position").collect()
    assert [(row.r, row[role].name) for row in ordered] == [(1, "db"), (3, "db")]


def test_a_checkpoint_goes_on_when_a_column_with_the_name_of_a_role_has_come_and_is_left_out(
    spark: Any, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    rows = [{"r": 100 + n, "c": 0, "counter": 0} for n in range(40)]
    source = Source(format="json", path=str(tmp_path / "in"))
    options: dict[str, Any] = {"epsilon": 1, "delta": 2, "stamps": "hybrid"}

    def observe(**more: Any) -> int:
        where = (tmp_path / "out", "json", tmp_path / "state")
        return observe_stream(spark, source, *where, **options, **more).delivered

    (tmp_path / "in" / "0.json").write_text("".join(json.dumps(row) + "\n" for row in rows[:20]))
    assert observe() == 20
    (tmp_path / "in" / "1.json").write_text(
        "".join(json.dumps({**row, "source": "x"}) + "\n" for row in rows[20:])
    )
    with pytest.raises(Exception, match=r'to go on without .source. .*: columns={"source": ""} \(--map source=\)'):
        observe()
    assert observe(columns={"source": ""}) == 20


def test_names_that_the_observer_adds_are_not_to_be_there(spark: Any) -> None:
    frame = spark.createDataFrame([(1, 2)], "r long, position long")
    with pytest.raises(ConfigurationError, match="called 'position' already"):
        causal_order(frame, epsilon=1, delta=1, stamps="physical")


ROOT = Path(__file__).parent.parent.parent


def command(*arguments: str | int | Path) -> list[str]:
    return [sys.executable, "-c", "from antecast.cli import main; main()", "observe", *map(str, arguments)]


def test_the_example_is_put_into_causal_order(spark: Any, tmp_path: Path) -> None:
    """The asyncio program writes a log in which effects come before causes; a stream of it has that put right."""
    program, log = ROOT / "examples" / "observer" / "sensors.py", tmp_path / "sightings.jsonl"
    subprocess.run([sys.executable, program, log], check=True, capture_output=True)
    options = {"stamps": "hybrid", "epsilon": "20ms", "delta": "300ms", "arrival": "line"}
    source = Source(format="json", path=str(log))
    tally = observe_stream(spark, source, tmp_path / "out", "json", tmp_path / "state", **options)
    rows = sorted(read(tmp_path / "out" / "delivered"), key=lambda row: row["position"])
    assert tally.delivered == len(rows) > 50
    assert (dict(tally.refused), tally.waiting) == ({}, 0)
    place = {row["id"]: row["position"] for row in rows}
    arrived = {row["id"]: row["line"] for row in rows}
    causes = [(row["because"], row["id"]) for row in rows if row.get("because")]
    assert any(arrived[cause] > arrived[effect] for cause, effect in causes)
    assert all(place[cause] < place[effect] for cause, effect in causes)


@pytest.mark.jvm("starts an embedded Spark")
def test_a_socket_is_followed_until_interrupted(start_process: Any, tmp_path: Path) -> None:
    """Rows of a live source; the last ones go when real time has passed, and Ctrl-C is an ordinary end."""
    server = socket.create_server(("127.0.0.1", 0))
    rows = [{"source": "a", "r": 1000 + 7 * (n ^ 1), "c": 0, "kn": [0], "n": n} for n in range(60)]

    def serve() -> None:
        connection, _ = server.accept()
        connection.sendall("".join(json.dumps(row) + "\n" for row in rows).encode())

    threading.Thread(target=serve, daemon=True).start()
    options = ["--source", "socket", "--option", "host=127.0.0.1", "--option", f"port={server.getsockname()[1]}"]
    options += [
        "--schema",
        "source string, r long, c int, kn array<int>, n long",
        "--stamps",
        "hybrid",
        "--follow",
    ]
    options += ["--epsilon", "5ms", "--delta", "50ms", "--slack", "100ms", "--format", "json", "--json"]
    process = start_process(command("-", tmp_path / "out", "--checkpoint", tmp_path / "state", *options))
    try:
        end = time.monotonic() + 400
        while len(found := read(tmp_path / "out" / "delivered")) < len(rows):
            assert process.poll() is None and time.monotonic() < end, process.communicate()
            time.sleep(0.2)
        last = max(int(file.name.split("-")[1]) for file in (tmp_path / "out" / "delivered").glob("batch-*"))
        while not (tmp_path / "state" / "query" / "commits" / str(last)).exists():  # files come before the commit
            assert process.poll() is None and time.monotonic() < end, process.communicate()
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        server.close()
    assert process.returncode == 0, err
    assert json.loads(out)["waiting"] == 0
    assert [row["r"] for row in sorted(found, key=lambda row: row["position"])] == sorted(row["r"] for row in rows)


@pytest.mark.jvm("starts an embedded Spark")
def test_a_driver_that_is_killed_again_and_again_loses_nothing_and_repeats_nothing(
    spark: Any, antecast: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Killed at random moments, and at the very moment when files of a batch have appeared in the output."""
    at_length = (request.config.getoption("--property-examples") or 0) > 100
    rows = traffic(150)
    put(tmp_path / "in", rows, 9 if at_length else 2)
    options = ["--key", "g", "--epsilon", 4, "--delta", 6, "-c", 40, "--arrival", "n", "--quiet"]
    options += ["--option", "maxFilesPerTrigger=1"]
    places = [tmp_path / "in", tmp_path / "out", "--checkpoint", tmp_path / "state"]
    delivered = tmp_path / "out" / "delivered"
    draw = random.Random(11)
    kills = ((0, 0.0), (2, draw.uniform(0, 4)), (5, 0.0)) if at_length else ((0, 0.0),)
    for batch, delay in kills:
        process = subprocess.Popen(
            command(*places, *options, "--master", "local[2]"),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while process.poll() is None and not [*delivered.glob(f"batch-{batch:08}-*")]:
                time.sleep(0.002)
            time.sleep(delay)
            assert process.poll() is None, "came to its end before it could be killed"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # the driver and its JVM, at once
            process.wait()
        if not delay:  # its files are there, and Spark does not know of it yet
            assert not (tmp_path / "state" / "query" / "commits" / str(batch)).exists()
    assert antecast("observe", *places, *options) == (0, "", "")
    assert by_group(read(delivered)) == expected(rows, Policy(bounds=BOUNDS, percent=40))
    for file in sorted(delivered.glob("batch-*")):  # and each file has the rows of a group in their order
        for group in by_group(read_file := [json.loads(line) for line in file.read_text().splitlines()]):
            positions = [row["position"] for row in read_file if row["g"] == group]
            assert positions == sorted(positions)


@pytest.mark.jvm("foreachBatch runs at the server, and a list of this process stays empty")
def test_a_checkpoint_takes_new_columns_and_refuses_other_settings(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    options: dict[str, Any] = {"key": "g", "delta": 10, "stamps": "physical"}

    def run(schema: str, rows: list[dict[str, Any]], **more: Any) -> list[Any]:
        out: list[Any] = []
        number = len(list(folder.iterdir()))
        (folder / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        frame = spark.readStream.schema(schema).json(str(folder))
        writer = causal_order(frame, **options, **more).writeStream
        writer = writer.foreachBatch(lambda batch, _: out.extend(batch.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / "state")).trigger(availableNow=True).start()
        query.awaitTermination()
        return out

    assert run("g string, r long, source string", [{"g": "a", "r": 100, "source": "x"}], epsilon=2) == []
    rows = [{"g": "a", "r": 100 + n, "source": "xy"[n % 2], "colour": "red"} for n in range(1, 30)]
    out = run("g string, r long, source string, colour string", rows, epsilon=2)
    assert [row.r for row in out] == list(range(100, 117))
    assert [row.colour for row in out] == [None, *["red"] * 16]
    with pytest.raises(Exception, match="was made with stamps physical of 0 in r/source, epsilon 2"):
        run("g string, r long, source string", [{"g": "a", "r": 130, "source": "x"}], epsilon=3)


def test_a_state_store_that_cannot_do_it_is_told_and_not_replaced(spark: Any, tmp_path: Path) -> None:
    name = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.getAll.get(name)
    plain = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    spark.conf.set(name, plain)
    try:
        frame = spark.readStream.schema("r long").json(str(tmp_path))
        with pytest.raises(ConfigurationError, match="which cannot keep this state"):
            causal_order(frame, epsilon=2, delta=10, stamps="physical")
        assert spark.conf.get(name) == plain
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)
