"""Contacts on Spark are those of an exact brute-force computation, however the work is divided."""

from __future__ import annotations

import itertools
import json
import pickle
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecast.cli.contacts import Engine
from antecast.cli.contacts import contacts as command
from antecast.core import ConfigurationError, InputError
from antecast.spark.contact_tasks import Finish, Join, Measure, Measured, Search, Send, _by_start, _packed, _pair
from antecast.spark.contacts import contact_statistics, contacts, movement_statistics
from antecast.traces import statistics
from antecast.traces.contact_detection import BrokenTrajectories, find_contacts, make_plan
from antecast.traces.contact_kernels import exact_interval
from antecast.traces.schema import CONTACTS, TRAJECTORIES, node_order

pytestmark = pytest.mark.spark

S = 10**9
SCHEMA = pa.schema([("node", pa.string()), *((field.name, field.type) for field in list(TRAJECTORIES)[1:])])
Segment = tuple[str, int, float, float, int, float, float]


def wandering(nodes: int, legs: int, seed: int) -> list[Segment]:
    """Nodes that walk in a square of 800 m, stand, leave for a while, and come back; half of them on a lattice."""
    draw = random.Random(seed)
    segments: list[Segment] = []
    for node in range(nodes):
        lattice = node % 2
        t, x, y = draw.randrange(60 * S), 400.0, 400.0
        for _ in range(legs):
            span = draw.choice([1, S, 30 * S, 47 * S + 11, 600 * S])
            x1, y1 = (draw.randrange(0, 800, 40) if lattice else draw.uniform(0, 800) for _ in "xy")
            if draw.random() < 0.2:
                x1, y1 = x, y
            segments.append((f"n{node}", t, x, y, t + span, float(x1), float(y1)))
            t, x, y = t + span + (draw.random() < 0.1) * S, float(x1), float(y1)
    return segments


def table(segments: list[Segment]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, each, strict=True)) for each in segments], SCHEMA)


def brute_force(segments: list[Segment], reach: float) -> list[tuple[str, str, int, int]]:
    """Every segment with every other, in whole numbers."""
    pieces: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for p, q in itertools.combinations(segments, 2):
        since, until = max(p[1], q[1]), min(p[4], q[4])
        if p[0] != q[0] and since < until and (piece := exact_interval(p[1:], q[1:], reach, since, until)):
            a, b = sorted((p[0], q[0]), key=node_order)
            pieces.setdefault((a, b), []).append(piece)
    found = []
    for (a, b), intervals in pieces.items():
        ends: list[list[int]] = []
        for start, end in sorted(intervals):
            if ends and start <= ends[-1][1]:
                ends[-1][1] = end
            else:
                ends.append([start, end])
        found += [(a, b, start, end) for start, end in ends]
    return sorted(found, key=lambda row: (row[2], row[3], node_order(row[0]), node_order(row[1])))


@pytest.mark.parametrize("a_part", [10_000, 60, 5])
def test_contacts_are_those_of_brute_force_to_the_nanosecond(spark: Any, a_part: int) -> None:
    segments = wandering(14, 16, seed=a_part)
    found = contacts(spark.createDataFrame(table(segments)), 80.0, a_part=a_part)
    expected = brute_force(segments, 80.0)
    assert len(expected) > 100
    assert [tuple(row) for row in found.collect()] == expected


@pytest.mark.parametrize(("a_part", "spans"), [(1000, 30), (40, 30), (40, 1), (5, 100)])
def test_tasks_that_search_a_part_bit_by_bit_find_whole_contacts(a_part: int, spans: int) -> None:
    segments = wandering(14, 16, seed=a_part)
    rows = table(segments).to_batches(max_chunksize=50)
    measured = Measured()
    for batch in Measure()(rows):
        measured.add(pickle.loads(batch["body"][0].as_py()))
    survey, names = measured.survey(), pa.array(measured.sorted_names(), pa.string())
    plan = make_plan(80.0, survey, a_part=a_part)
    ranges, moments = survey.instants(3), survey.instants(spans)

    def shuffled(batches: Iterable[pa.RecordBatch], parts: int) -> Iterator[list[pa.RecordBatch]]:
        sent = pa.Table.from_batches(batches)
        numbers = np.asarray(sent["part"]) % parts
        return (sent.filter(pa.array(numbers == part)).to_batches(max_chunksize=3) for part in range(parts))

    search, join = Search(plan, 3, ranges, moments), Join(3, ranges)
    found = [batch for held in shuffled(Send(plan, names, 3)(rows), 3) for batch in search(held)]
    whole = [batch for held in shuffled(found, 3) for batch in join(held)]
    shown = [row for held in shuffled(whole, 3) for batch in Finish(names)(held) for row in batch.to_pylist()]
    assert [tuple(row.values()) for row in shown] == brute_force(segments, 80.0)


def test_statistics_are_those_of_one_process(spark: Any) -> None:
    moved = table(wandering(20, 10, seed=1))
    frame = spark.createDataFrame(moved)
    assert movement_statistics(frame).at_once == statistics.movement_statistics(moved).at_once
    ours, theirs = movement_statistics(frame), statistics.movement_statistics(moved)
    assert (ours.nodes, ours.start, ours.end) == (theirs.nodes, theirs.start, theirs.end)
    assert ours.activity.stdev == pytest.approx(theirs.activity.stdev)
    met = contact_statistics(contacts(frame, 80.0))
    assert met.contacts == statistics.contact_statistics(find_contacts(moved, 80.0)).contacts


def test_what_cannot_be_used_is_refused_before_any_work(spark: Any) -> None:
    good = ("a", 0, 0.0, 0.0, 5, 0.0, 0.0)
    for bad, problem in (
        (("b", 5, 0.0, 0.0, 4, 0.0, 0.0), "node b: the segment ends before it starts"),
        (("b", 5, 0.0, float("inf"), 6, 0.0, 0.0), "node b: the segment has no finite coordinates"),
        ((None, 5, 0.0, 0.0, 6, 0.0, 0.0), "node ?: a value is missing"),
    ):
        with pytest.raises(BrokenTrajectories) as refusal:
            contacts(spark.createDataFrame(table([good, bad])), 10.0)  # type: ignore[list-item]
        assert str(refusal.value) == problem
    with pytest.raises(BrokenTrajectories, match="no column 't0'"):
        contacts(spark.createDataFrame(pa.table({"node": ["a"]})), 10.0)
    with pytest.raises(ConfigurationError, match="--range"):
        contacts(spark.createDataFrame(table([good])), -1.0)


def test_no_movement_makes_no_contacts(spark: Any) -> None:
    nothing = spark.createDataFrame(table([("a", 0, 0.0, 0.0, 5, 0.0, 0.0)])).filter("t0 > 0")
    assert contacts(nothing, 10.0).count() == 0


def test_the_command_writes_the_same_file_with_either_engine(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moving = tmp_path / "moving.parquet"
    pq.write_table(table(wandering(12, 12, seed=2)), moving)
    summaries = []
    for engine in (Engine.LOCAL, Engine.SPARK):
        command(moving, reach=80.0, out_file=tmp_path / f"{engine}.parquet", engine=engine, as_json=True)
        summaries.append(json.loads(capsys.readouterr().out))
    command(moving, reach=80.0, out_file=tmp_path / "spark.csv", engine=Engine.SPARK)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "local.parquet", "moving.parquet", "spark.csv", "spark.parquet"
    ]  # fmt: skip
    one, other = (pq.read_table(tmp_path / f"{engine}.parquet") for engine in ("local", "spark"))
    assert one.schema.equals(CONTACTS, check_metadata=True) and other.schema.equals(CONTACTS, check_metadata=True)
    assert one.to_pylist() == other.to_pylist()
    assert len((tmp_path / "spark.csv").read_text().splitlines()) == len(one) + 1
    for key in ("nodes", "at_once", "start", "end", "contacts"):
        assert summaries[0][key] == summaries[1][key]
    bad = tmp_path / "bad.parquet"
    pq.write_table(table([("b", 5, 0.0, 0.0, 4, 0.0, 0.0)]), bad)
    with pytest.raises(InputError, match=r"bad.parquet: node b: the segment ends before it starts"):
        command(bad, reach=80.0, engine=Engine.SPARK)


@pytest.mark.parametrize("most", [1, 4, 2**31])
def test_short_ways_to_sort_give_the_order_of_all_keys(most: int) -> None:
    draw = np.random.default_rng(most)
    for size in (0, 1, 2, 9, 300):
        nodes, times = draw.integers(0, most, (size, 2)), draw.integers(-most, most, (size, 2))
        rows = np.concatenate([nodes, times], axis=1)
        a, b, start, end = rows.T
        assert (rows[_by_start(_packed(rows))] == rows[np.lexsort((b, a, end, start))]).all()
        assert (np.lexsort((start, _pair(rows))) == np.lexsort((start, b, a))).all()
