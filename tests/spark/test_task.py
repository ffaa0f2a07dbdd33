"""One run of a sweep as a task makes it, without Spark: its row, its limits, and what it leaves behind."""

from __future__ import annotations

import json
import math
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import ConfigurationError
from antecast.history import merges as merges_module
from antecast.history import metrics
from antecast.history.audit import audit
from antecast.history.log import read_events, read_samples
from antecast.history.merges import merge
from antecast.history.parts import Spill
from antecast.sim.run import run
from antecast.sim.study import PlannedRun, Study, make_study, plan
from antecast.spark import folder as folder_module
from antecast.spark.claim import ClaimLost
from antecast.spark.folder import MEASURED, Batch, SweepFolder, batches_of, runs_schema
from antecast.spark.task import Limits, make_batch
from antecast.text.sizes import parse_size

PLENTY = 3


@pytest.fixture
def folder(tmp_path: Path, study: Study) -> Iterator[SweepFolder]:
    place = SweepFolder(tmp_path / "sweep")
    with place.claimed(study):
        yield place


@pytest.fixture
def study(study_values: dict[str, Any]) -> Study:
    return make_study(study_values)


def make(
    study: Study, index: int, folder: SweepFolder, limits: Limits | None = None
) -> tuple[str, dict[str, Any]]:
    planned = plan(study)[index]
    (outcome,) = make_batch(study, Batch(((index, planned.run),), PLENTY), folder, limits or Limits())
    row = folder.row(planned.run)
    assert row is not None
    return outcome, row


def leftovers(folder: SweepFolder) -> list[Path]:
    """What is hidden in the folder, but for the claim that is held."""
    hidden = [path for path in Path(folder.path).rglob(".*") if path.name not in (".lock", ".claims", ".attempts")]
    return [*hidden, *Path(folder.path).glob(".attempts/*")]


def test_the_row_of_a_run_is_what_the_pure_functions_say_of_its_log(study: Study, folder: SweepFolder) -> None:
    for index in (0, 3):  # one promises causal order, the other does not
        outcome, row = make(study, index, folder)
        planned = plan(study)[index]
        log = folder.parts.refresh().read(planned.run, "events")
        verdict, cost = audit(log, clock="global"), metrics.overhead(log)
        latency = metrics.summarise(metrics.delivery_latency(log)["latency"], (0.5, 0.95, 0.99))
        assert outcome == "finished"
        assert (row["verdict"], row["early"], row["late"]) == (
            verdict.outcome,
            verdict.tally.early,
            verdict.tally.late,
        )
        assert row["promised"] == (index == 0)
        assert row["delivery_ratio"] == metrics.delivery_ratio(log)
        assert (row["frames"], row["bytes"]) == (cost.frames, cost.bytes)
        assert row["control_bytes_per_broadcast"] == cost.control_bytes_per_broadcast
        assert (row["broadcasts"], row["deliveries"], row["events"]) == (
            cost.broadcasts,
            cost.deliveries,
            len(log),
        )
        assert [row[f"latency_{name}_ns"] for name in ("min", "mean", "stdev", "max")] == [
            latency.min, latency.mean, latency.stdev, latency.max,
        ]  # fmt: skip
        assert [row[f"latency_p{p}_ns"] for p in (50, 95, 99)] == [value for _, value in latency.quantiles]
    assert not leftovers(folder)


def test_a_run_in_a_sweep_is_the_run_made_by_hand(study: Study, folder: SweepFolder, tmp_path: Path) -> None:
    make(study, 1, folder)
    by_hand = run(study.scenario_of(1), out=tmp_path / "by-hand")
    taken_out = folder.parts.refresh().extract(by_hand.run, tmp_path / "taken-out")
    for read in (read_events, read_samples):
        assert plain(read(taken_out)) == plain(read(tmp_path / "by-hand"))
    ours, theirs = (
        json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("taken-out", "by-hand")
    )
    assert ours.keys() == theirs.keys() and ours["scenario"] == theirs["scenario"]


def plain(table: pa.Table) -> pa.Table:
    """A table with texts in place of dictionaries, which may hold their words in another order."""
    texts = [pa.string() if pa.types.is_dictionary(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, texts, strict=True)))).combine_chunks()


def test_a_log_without_frames_has_no_frame_metrics(study_values: dict[str, Any], tmp_path: Path) -> None:
    study_values["scenario"]["log"] = {"events": "order"}
    study = make_study(study_values)
    place = SweepFolder(tmp_path / "order")
    with place.claimed(study):
        outcome, row = make(study, 0, place)
    assert (outcome, row["deliveries"] > 0) == ("finished", True)
    assert "frames" not in row


def test_a_run_in_which_nothing_happens_has_a_row(study_values: dict[str, Any], tmp_path: Path) -> None:
    study_values["scenario"]["workload"] = [{"kind": "poisson", "rate": 1e-9}]
    study = make_study(study_values)
    place = SweepFolder(tmp_path / "empty")
    with place.claimed(study):
        outcome, row = make(study, 0, place)
    assert (outcome, row["verdict"], row["deliveries"]) == ("finished", "inconclusive", 0)
    assert row["latency_mean_ns"] is None
    assert row["delivery_ratio"] is None


def test_a_run_that_fails_leaves_its_error_and_nothing_else(study_values: dict[str, Any], tmp_path: Path) -> None:
    trace = tmp_path / "broken.csv"
    trace.write_text("t,node\nsoon,0\n")
    study_values["scenario"]["workload"] = [{"kind": "trace", "file": str(trace)}]
    study = make_study(study_values)
    place = SweepFolder(tmp_path / "failing")
    with place.claimed(study):
        outcome, row = make(study, 0, place)
        assert not leftovers(place)
    assert outcome == "failed"
    assert f"{trace}:2: expected" in row["error"]
    assert row["wall_seconds"] > 0
    assert not place.finished()


# Limits.


@pytest.fixture
def endless(study_values: dict[str, Any]) -> Study:
    """Messages travel for days; every few thousand events the run looks up."""
    study_values["scenario"] |= {"duration": "10d", "log": {"events": "order", "sample": 0}}
    return make_study(study_values)


def test_a_run_that_takes_too_long_is_stopped(endless: Study, tmp_path: Path) -> None:
    place = SweepFolder(tmp_path / "long")
    with place.claimed(endless):
        outcome, row = make(endless, 0, place, Limits(seconds=0.2))
    assert (outcome, row["error"]) == ("failed", "took longer than 0.2 s")
    assert row["wall_seconds"] < 30


def test_a_run_that_never_looks_at_the_clock_is_stopped_by_an_alarm(
    study: Study, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_: object, **__: object) -> None:
        signal.pause()

    monkeypatch.setattr("antecast.spark.task.run", hang)
    before = signal.getsignal(signal.SIGALRM)
    outcome, row = make(study, 0, folder, Limits(seconds=0.05))
    assert (outcome, row["error"]) == ("failed", "took longer than 0.05 s")
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_run_that_grows_too_large_is_stopped_when_it_looks_up(
    study: Study, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grow(*_: object, on_progress: Any, **__: object) -> None:
        kept = []
        while on_progress(None):
            kept.append(bytearray(b"x" * 5_000_000))

    monkeypatch.setattr("antecast.spark.task.run", grow)
    outcome, row = make(study, 0, folder, Limits(memory=50_000_000))
    assert (outcome, row["error"]) == ("failed", "needed more than 50 MB of memory")


def test_one_huge_allocation_fails_and_the_limit_is_lifted_afterwards(
    study: Study, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antecast.spark.task.run", lambda *_, **__: bytearray(4 << 30))
    before = resource.getrlimit(resource.RLIMIT_AS)
    outcome, row = make(study, 0, folder, Limits(memory=50_000_000))
    assert (outcome, row["error"]) == ("failed", "needed more than 50 MB of memory")
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_limits_that_are_kept_change_nothing(study: Study, folder: SweepFolder) -> None:
    outcome, row = make(study, 0, folder, Limits(seconds=60, memory=1 << 30))
    assert (outcome, row["verdict"]) == ("finished", "causal")


@pytest.mark.parametrize("text", ["", "5", "MB", "-1MB", "5 XB", "nanMB", "0B"])
def test_sizes_need_a_number_and_a_unit(text: str) -> None:
    with pytest.raises(ValueError, match='such as "500MB"'):
        parse_size(text)


# The folder.


def test_attempts_that_were_killed_are_counted_and_then_the_run_is_set_aside(
    study: Study, folder: SweepFolder
) -> None:
    run = plan(study)[0].run
    for number in (1, 2):
        folder.store.write(f".attempts/{run}.{number}.json", json.dumps({"runs": [run]}).encode())
    assert (folder.attempts(run), folder.killed()[run]) == (2, 2)
    assert make_batch(study, Batch(((0, run),), 2), folder, Limits()) == ["set aside"]
    assert make_batch(study, Batch(((0, run),), 3), folder, Limits()) == ["finished"]
    assert folder.attempts(run) == 2, "only its own attempt is taken away"


def test_a_batch_that_is_tried_again_makes_only_what_is_missing(study: Study, folder: SweepFolder) -> None:
    planned = plan(study)
    make(study, 0, folder)
    batch = Batch(tuple((each.index, each.run) for each in planned[:3]), 2)
    folder.store.write(f".attempts/{batch.name}.1.json", b'{"runs": []}')
    ended: list[str] = []
    outcomes = make_batch(study, batch, folder, Limits(), lambda run, _: ended.append(run))
    assert outcomes == ["finished"] * 3
    assert ended == [each.run for each in planned[1:3]]
    assert not folder.parts.refresh().overlap


def test_other_code_on_a_worker_is_an_error_and_not_a_run(study: Study, folder: SweepFolder) -> None:
    assert make_batch(study, Batch(((0, "0123456789abcdef"),)), folder, Limits()) == ["failed"]
    row = folder.row("0123456789abcdef")
    assert row is not None
    assert "this worker has other code" in row["error"]


def test_what_dead_processes_left_is_cleaned_and_what_is_finished_stays(study: Study, tmp_path: Path) -> None:
    place = SweepFolder(tmp_path / "sweep")
    with place.claimed(study):
        make(study, 0, place)
        for name in (".attempts/abc.1.json", f"events/{'a' * 20}.parquet", f"parts/{'b' * 20}.parquet"):
            place.store.write(name, b"of a process that died")
    assert {entry.name for entry in (tmp_path / "sweep").iterdir()} == {
        *(".lock", "events", "parts", "samples", "study.json")
    }
    assert [len(list((tmp_path / "sweep" / name).iterdir())) for name in ("events", "samples", "parts")] == [
        1,
        1,
        1,
    ]
    assert place.finished() == {plan(study)[0].run}


def test_a_task_whose_driver_has_gone_leaves_no_run(study: Study, folder: SweepFolder) -> None:
    folder.token = "of a driver that is gone"
    with pytest.raises(ClaimLost):
        make(study, 0, folder)
    assert not folder.finished()


def test_parts_are_the_same_bytes_whoever_makes_them_and_merging_ends_twins(
    study: Study, folder: SweepFolder, tmp_path: Path
) -> None:
    planned = plan(study)
    runs = tuple((each.index, each.run) for each in planned)
    for batch in (runs[:2], runs[1:4], runs[5:], runs[2:]):  # twins, and in no order
        make_batch(study, Batch(batch), folder, Limits())
    assert folder.parts.refresh().overlap
    other = SweepFolder(tmp_path / "other")
    with other.claimed(study):
        make_batch(study, Batch(runs), other, Limits())
    for place in (folder, other):
        wanted = place.merges(study, planned)
        for each in wanted:
            merge(place.store, each)
        place.drop_parts({each.name for each in wanted})
        assert not place.parts.refresh().overlap
    for name in ("events", "samples"):
        (one,), (two,) = ((Path(place.path) / name).iterdir() for place in (folder, other))
        assert (one.name, one.read_bytes()) == (two.name, two.read_bytes())


def test_a_task_writes_neighbours_as_they_will_stay_and_what_was_interrupted_ends_the_same(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "_FEW_TASKS", 0)
    monkeypatch.setattr(folder_module, "_RUNS_PER_TASK", 2)
    monkeypatch.setattr(folder_module, "_LEAST_STEPS", 0)
    monkeypatch.setattr(merges_module, "LEAST_ROWS", 1)
    planned = plan(study)
    batches = batches_of(planned, {each.run for each in planned})
    assert len(batches) > 1 and max(len(each.runs) for each in batches) > 1
    bytes_of: list[dict[str, bytes]] = []
    for name, made in (
        ("undisturbed", batches),
        ("in pieces", [Batch((each,)) for batch in batches for each in batch.runs]),
    ):
        place = SweepFolder(tmp_path / name)
        with place.claimed(study):
            for batch in made:
                make_batch(study, batch, place, Limits())
            there = place.parts.refresh().found.keys()
            wanted = place.merges(study, planned)
            missing = [each for each in wanted if each.name not in there]
            assert bool(missing) == (name == "in pieces")
            for each in missing:
                merge(place.store, each)
            place.drop_parts({each.name for each in wanted})
        bytes_of.append({file.name: file.read_bytes() for file in (tmp_path / name / "events").iterdir()})
    assert bytes_of[0] == bytes_of[1]


@given(st.lists(st.integers(0, 500_000), max_size=500))
def test_stretches_hold_every_run_once_in_the_order_of_the_grid(steps: list[int]) -> None:
    planned = [PlannedRun(number, f"{number:x}", {}, each) for number, each in enumerate(steps)]
    found = folder_module.stretches(planned)
    assert [each for stretch in found for each in stretch] == planned
    assert all(found) and len(found) <= max(400, len(planned) // 32)


def test_a_run_and_a_value_are_read_without_the_rest(study: Study, folder: SweepFolder) -> None:
    planned = plan(study)
    make_batch(study, Batch(tuple((each.index, each.run) for each in planned)), folder, Limits())
    (file,) = (Path(folder.path) / "events").iterdir()
    whole = pq.read_table(file)
    groups = pq.ParquetFile(file).metadata.num_row_groups
    assert 1 < groups <= len(planned), "tiny runs share row groups"
    for each in planned:
        own = whole.filter(pc.equal(whole["run"].cast(pa.string()), each.run))
        found = folder.parts.refresh().read(each.run, "events")
        assert plain(found) == plain(own.select(found.column_names))
        assert set(own["seed"].to_pylist()) == {each.point["seed"]}
        assert set(own["protocol_name"].to_pylist()) == {each.point["protocol.name"]}
    values = pq.read_table(Path(folder.path) / "events", filters=[("protocol_name", "=", "fifo")])
    assert 0 < values.num_rows < whole.num_rows


def test_a_log_beyond_memory_goes_through_a_file(
    study: Study, folder: SweepFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make(study, 0, folder)
    other = SweepFolder(tmp_path / "spilled")
    monkeypatch.setattr(Spill.__init__, "__kwdefaults__", {"most_rows": 0})
    with other.claimed(study):
        make(study, 0, other)
    (one,), (two,) = ((Path(place.path) / "events").iterdir() for place in (folder, other))
    assert one.read_bytes() == two.read_bytes()


def test_two_sweeps_cannot_share_a_folder(study: Study, folder: SweepFolder) -> None:
    with (
        pytest.raises(ConfigurationError, match="another sweep is at work"),
        SweepFolder(folder.store).claimed(study),
    ):
        pass


def test_a_folder_of_something_else_is_refused(study_values: dict[str, Any], tmp_path: Path) -> None:
    study = make_study(study_values)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(ConfigurationError, match="not the folder of a sweep"):
        SweepFolder(tmp_path / "mine").check(study)
    with SweepFolder(tmp_path / "sweep").claimed(study):
        pass
    study_values["scenario"]["nodes"] = 6
    with pytest.raises(ConfigurationError, match=r"holds another study \(its scenario is another"):
        SweepFolder(tmp_path / "sweep").check(make_study(study_values))


def test_the_table_has_a_column_of_the_right_type_for_every_field(
    study_values: dict[str, Any], tmp_path: Path
) -> None:
    study_values["grid"] = {
        "nodes": [3, 4],
        "network.loss": [0, 0.5],
        "network.fifo": [True],
        "protocol": [{"name": "vector"}],
        "network.delay": ["10ms", {"kind": "constant", "value": "20ms"}],
    }
    study = make_study(study_values)
    planned = plan(study)
    place = SweepFolder(tmp_path / "sweep")
    with place.claimed(study):
        for each in planned[::2]:
            place.fail(each.run, {"error": f"no {each.index}", "version": "1", "wall_seconds": 0.5})
        table = place.assemble(study, planned)
    names = ["index", "run", "nodes", "network_loss", "network_fifo", "protocol", "network_delay", "seed"]
    assert table.column_names == [*names, *MEASURED]
    kinds = [str(table.schema.field(name).type) for name in names]
    assert kinds == ["int64", "string", "int64", "double", "bool", "string", "string", "int64"]
    assert table["index"].to_pylist() == list(range(0, len(planned), 2))
    assert table["protocol"][0].as_py() == '{"name": "vector"}'
    assert set(table["network_delay"].to_pylist()) == {"10ms", '{"kind": "constant", "value": "20ms"}'}
    assert table["error"].to_pylist()[:2] == ["no 0", "no 2"]
    assert math.isclose(table["wall_seconds"][0].as_py(), 0.5)


def test_a_field_named_like_a_result_is_refused(study_values: dict[str, Any]) -> None:
    study = make_study(study_values | {"grid": {"bytes": [1]}})
    with pytest.raises(ConfigurationError, match="'bytes' cannot vary"):
        runs_schema(study)


def test_planned_runs_are_in_the_order_of_the_grid(study: Study) -> None:
    planned: list[PlannedRun] = plan(study)
    assert [each.index for each in planned] == list(range(6))
    assert [each.point["protocol.name"] for each in planned] == ["vector"] * 3 + ["fifo"] * 3
