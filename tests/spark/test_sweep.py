"""Sweeps on Spark: what comes out, what is made again, and what happens when runs fail or workers die."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from antecast.core import ConfigurationError, InputError, LocalMisuse
from antecast.sim.compiled import choice
from antecast.sim.compiled.choice import prepare
from antecast.sim.compiled.vcube import kernel
from antecast.sim.study import make_study, plan
from antecast.spark.folder import SweepFolder
from antecast.spark.session import is_connect
from antecast.spark.sweep import SweepProgress, read_sweep, sweep
from antecast.spark.task import Limits

pytestmark = pytest.mark.spark


@pytest.fixture
def slow_values(study_values: dict[str, Any]) -> dict[str, Any]:
    """Long enough to be killed in the middle: the first point takes about a second."""
    study_values["scenario"] |= {"nodes": 9, "log": {"events": "order"}}
    study_values["scenario"]["workload"] = [{"kind": "poisson", "rate": 10.0}]
    return study_values | {"name": "slow", "grid": {"duration": ["20s", "1s", "2s"]}, "seeds": 1}


def test_a_sweep_makes_every_run_once_and_a_second_call_only_what_is_missing(
    spark: Any, study_values: dict[str, Any], tmp_path: Path
) -> None:
    seen: list[SweepProgress] = []
    first = sweep(study_values, out=tmp_path / "s", spark=spark, on_progress=seen.append)
    planned = plan(make_study(study_values))
    assert (first.complete, first.failed, first.resumed, first.total) == (True, 0, 0, 6)
    assert first.runs["run"].to_pylist() == [each.run for each in planned]
    assert first.runs["protocol_name"].to_pylist() == ["vector"] * 3 + ["fifo"] * 3
    assert set(first.runs["verdict"].to_pylist()[:3]) == {"causal"}
    assert "violated" in first.runs["verdict"].to_pylist()[3:]
    assert first.violated == 0  # FIFO order never promised more
    assert (seen[-1].finished, seen[-1].failed, seen[-1].share) == (6, 0, 1.0)

    rows = SweepFolder(first.folder).rows()
    more = sweep(study_values | {"seeds": 4}, out=tmp_path / "s", spark=spark)
    assert (more.resumed, more.total, more.complete) == (6, 8, True)
    assert {run: row for run, row in SweepFolder(first.folder).rows().items() if run in rows} == rows
    assert more.runs.filter(more.runs["seed"].to_numpy() < 4).drop(["index"]) == first.runs.drop(["index"])


def test_the_tables_of_a_sweep_have_the_fields_of_their_run_beside_them(
    spark: Any, study_values: dict[str, Any], tmp_path: Path
) -> None:
    first = sweep(study_values | {"seeds": 1}, out=tmp_path / "s", spark=spark).runs["run"][0].as_py()
    # Runs that were not asked for this time stay, and are not part of the sweep; nor is a part in the making.
    more = sweep(study_values | {"seeds": 2}, out=tmp_path / "s", spark=spark)
    result = sweep(study_values | {"seeds": 1}, out=tmp_path / "s", spark=spark)
    (file,) = (
        file for file in (tmp_path / "s" / "events").iterdir() if first in pq.read_table(file)["run"].to_pylist()
    )
    (tmp_path / "s" / "events" / "making.parquet").write_bytes(file.read_bytes())
    assert more.total == len(SweepFolder(result.folder).finished()) == 4
    tables = read_sweep(spark, result.folder)
    assert tables.parameters == ("protocol_name",)
    assert tables.events.columns[-2:] == ["protocol_name", "seed"]
    counted = {row["run"]: row["count"] for row in tables.events.groupBy("run").count().collect()}
    assert counted == dict(zip(result.runs["run"].to_pylist(), result.runs["events"].to_pylist(), strict=True))
    assert {row[0] for row in tables.samples.select("protocol_name").distinct().collect()} == {"vector", "fifo"}
    assert tables.runs.count() == 2


def test_a_folder_without_a_sweep_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"runs\.parquet: no such file"):
        read_sweep(spark, tmp_path)


def test_runs_that_fail_are_rows_and_are_tried_again(
    spark: Any, slow_values: dict[str, Any], tmp_path: Path
) -> None:
    slow_values["grid"] = {"duration": ["1s", "30d", "2s"]}
    result = sweep(slow_values, out=tmp_path / "s", spark=spark, limits=Limits(seconds=3))
    assert result.runs["error"].to_pylist() == [None, "took longer than 3 s", None]
    assert result.runs["verdict"].to_pylist() == ["causal", None, "causal"]
    assert (result.failed, result.complete, result.resumed) == (1, False, 0)
    again = sweep(slow_values, out=tmp_path / "s", spark=spark, limits=Limits(seconds=1))
    assert (again.failed, again.resumed) == (1, 2)
    assert again.runs["error"].to_pylist()[1] == "took longer than 1 s"


def test_a_worker_that_is_killed_once_loses_nothing(
    spark: Any, slow_values: dict[str, Any], tmp_path: Path, killer: Callable[[Path, str, int], Any]
) -> None:
    run = plan(make_study(slow_values))[0].run
    thread = killer(tmp_path / "s", run, 1)
    result = sweep(slow_values, out=tmp_path / "s", spark=spark)
    thread.join(5)
    assert not thread.is_alive(), "nobody was killed"
    assert (result.complete, result.runs["verdict"].to_pylist()) == (True, ["causal"] * 3)
    assert not list(Path(result.folder).glob(".attempts/*"))


def test_a_run_that_always_kills_its_worker_is_a_row_and_the_others_go_on(
    spark: Any, slow_values: dict[str, Any], tmp_path: Path, killer: Callable[[Path, str, int], Any]
) -> None:
    run = plan(make_study(slow_values))[0].run
    killer(tmp_path / "s", run, 10)
    result = sweep(slow_values, out=tmp_path / "s", spark=spark)
    errors = result.runs["error"].to_pylist()
    assert errors[1:] == [None, None]
    assert errors[0].startswith("its worker was killed 3 times")
    assert SweepFolder(result.folder).failed() == {run}


def test_a_job_that_never_reaches_a_run_ends_the_sweep_with_its_reason(
    spark: Any, study_values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, *_: object) -> None:
            pass

        def __call__(self, batches: Any) -> Any:
            raise ImportError("no such module on this machine")

    from antecast.spark.sweep import SparkFailed

    monkeypatch.setattr("antecast.spark.sweep._Tasks", Broken)
    with pytest.raises(SparkFailed, match="ImportError: no such module on this machine"):
        sweep(study_values, out=tmp_path / "s", spark=spark)


def test_an_interrupt_stops_the_jobs_and_keeps_what_is_finished(
    spark: Any, slow_values: dict[str, Any], tmp_path: Path
) -> None:
    slow_values["grid"] = {"duration": ["1s", "2s", "20d"]}  # the last would take all day

    def stop(progress: SweepProgress) -> None:
        if progress.finished:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(slow_values, out=tmp_path / "s", spark=spark, on_progress=stop)
    place = SweepFolder(tmp_path / "s")
    assert place.finished()
    assert len(place.finished()) < 3
    assert place.store.exists("runs.parquet")
    if not is_connect(spark):  # through Connect nobody can ask
        assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_a_study_that_is_handed_over_cannot_be_changed_on_the_way(study_values: dict[str, Any]) -> None:
    with pytest.raises(LocalMisuse):
        sweep(make_study(study_values), seeds=3)


def test_a_master_cannot_be_named_beside_an_active_session(
    spark: Any, study_values: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="--master: a Spark session is active already"):
        sweep(study_values, out=tmp_path / "s", master="local[1]")


def test_rows_say_where_they_were_made(spark: Any, study_values: dict[str, Any], tmp_path: Path) -> None:
    result = sweep(study_values | {"seeds": 1}, out=tmp_path / "s", spark=spark)
    for row in SweepFolder(result.folder).rows().values():
        worker = row["worker"]
        assert worker.keys() == {"host", "executor", "pid"}


@pytest.fixture
def cubes() -> dict[str, Any]:
    """Runs of VCube that the compiled engine supports."""
    scenario = {
        "nodes": 8,
        "duration": "1s",
        "protocol": {"name": "vcube", "diagnosis": 0},
        "workload": [{"kind": "poisson", "rate": 3.0}],
    }
    return {"name": "cubes", "scenario": scenario, "grid": {"protocol.aggregate": [True, False]}, "seeds": 1}


def test_a_sweep_compiles_once_and_its_workers_load_what_it_compiled(
    spark: Any, cubes: dict[str, Any], tmp_path: Path
) -> None:
    prepare("vcube")
    cache = Path(kernel.__file__).parent / "__pycache__"

    def stamps() -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns for file in cache.glob("kernel.advance*")}

    for number in range(3):  # another process may be compiling the same code for the first time
        before = stamps()
        assert before
        result = sweep(cubes, overrides=["engine=compiled"], out=tmp_path / f"s{number}", spark=spark)
        assert result.complete
        if stamps() == before:
            break
    assert stamps() == before
    parts = SweepFolder(result.folder).parts.refresh()
    manifests = [json.loads(each.manifest) for part in parts.found.values() for each in part.runs]
    assert [each["engine"] for each in manifests] == ["compiled"] * 2


def test_the_engine_is_no_part_of_a_study(
    cubes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that one engine made need not be made again by the other; the user hears when there is something to
    compile."""
    notes: list[str] = []
    monkeypatch.setattr(choice, "is_ready", lambda _: False)
    made = [
        sweep(cubes, overrides=[f"engine={engine}"], out=tmp_path / folder, local=True, on_note=notes.append)
        for engine, folder in (("reference", "s"), ("compiled", "s"), ("compiled", "t"))
    ]
    assert [each.resumed for each in made] == [0, 2, 0]
    assert notes == [choice.COMPILING]
    for file in (tmp_path / "s").glob("events/*.parquet"):
        assert file.read_bytes() == (tmp_path / "t" / file.relative_to(tmp_path / "s")).read_bytes()


def test_a_study_that_asks_for_an_engine_in_vain_is_refused(study_values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"protocol\.name: there is no compiled engine for"):
        sweep(study_values, overrides=["engine=compiled"], out=tmp_path / "s", local=True)
    assert not (tmp_path / "s").exists()
