"""Sweeps in a store that loses objects, cuts them, or lists them late: no other run suffers, and it is said."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecast.core import InputError, OutputError
from antecast.history import merges as merges_module
from antecast.history.parts import Parts
from antecast.history.store import Listed, Store
from antecast.sim.study import Study, make_study, plan
from antecast.spark import claim
from antecast.spark import folder as folder_module
from antecast.spark.folder import SweepFolder
from antecast.spark.sweep import SweepResult, read_sweep, sweep
from antecast.spark.swept import _Reading

TABLES = ("events", "samples", "parts")


@pytest.fixture(autouse=True)
def several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run has a part of its own, and nobody waits for long."""
    monkeypatch.setattr(merges_module, "LEAST_ROWS", 1)
    monkeypatch.setattr(folder_module, "_SETTLING", (0.01,) * 3)
    monkeypatch.setattr(claim, "_SETTLING", (0.01,) * 3)


@pytest.fixture
def study(study_values: dict[str, Any]) -> Study:
    return make_study(study_values)


@pytest.fixture
def done(study: Study, tmp_path: Path) -> SweepResult:
    result = sweep(study, out=tmp_path / "sweep", local=True)
    assert result.complete and result.total > 2
    return result


def again(study: Study, folder: Path | str) -> tuple[SweepResult, list[str]]:
    """The same sweep, called again, and what it says."""
    notes: list[str] = []
    return sweep(study, out=folder, local=True, on_note=notes.append), notes


def objects(folder: Path | str) -> dict[str, bytes]:
    """What readers get. Markers hold how long a run took, and are left out."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for table in ("events", "samples")
        for file in (Path(folder) / table).iterdir()
    }


def lose(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("harm", [lose, cut, empty])
@pytest.mark.parametrize("table", TABLES)
def test_an_object_that_is_lost_or_cut_costs_its_runs_and_no_others(
    study: Study, done: SweepResult, table: str, harm: Callable[[Path], None]
) -> None:
    before = objects(done.folder)
    victim = sorted((Path(done.folder) / table).iterdir())[1]
    harm(victim)
    folder = SweepFolder(done.folder)
    there = folder.finished()
    (gone,) = {each.run for each in plan(study)} - there  # neither for done, nor more than it held
    assert set(folder.lost_runs()) == {gone}
    if table != "parts":
        assert str(victim) in folder.lost_runs()[gone]
    result, notes = again(study, done.folder)
    assert result.complete and (result.resumed, result.lost) == (done.total - 1, 1)
    (said,) = (note for note in notes if "not there any more" in note)
    assert said.startswith(f"1 run was finished and is not there any more, such as {gone}: ")
    assert said.endswith("; made again") and objects(done.folder) == before
    assert again(study, done.folder)[0].lost == 0


def test_what_strangers_put_there_stays_and_says_nothing(study: Study, done: SweepResult) -> None:
    strange = [
        Path(done.folder) / name
        for name in (
            "events/_SUCCESS",
            "events/notes.txt",
            "parts/index.html",
            "samples/0.parquet",
            "failed/x.txt",
            "parts/0.parquet",
        )
    ]
    for file in strange:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"not a table")
    result, _ = again(study, done.folder)
    assert result.complete and result.resumed == result.total
    assert all(file.read_bytes() == b"not a table" for file in strange)


def hidden_from(monkeypatch: pytest.MonkeyPatch, hides: Callable[[Store, str, str], bool]) -> None:
    """A store whose listings do not show some objects; who asks for them by name gets them."""
    real = Store.list

    def late(store: Store, folder: str) -> dict[str, Listed]:
        return {
            name: each
            for name, each in real(store, folder).items()
            if not hides(store, folder, f"{folder}/{name}")
        }

    monkeypatch.setattr(Store, "list", late)


@pytest.mark.parametrize("table", TABLES)
def test_a_listing_that_does_not_show_an_object_takes_nothing_away(
    study: Study, done: SweepResult, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = objects(done.folder)
    hidden_from(monkeypatch, lambda _store, folder, name: folder == table and name < f"{table}/8")
    result, notes = again(study, done.folder)
    assert result.complete and result.resumed == result.total and not result.lost
    assert not [note for note in notes if "not there" in note]
    assert objects(done.folder) == before


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("seconds", [0.03, 0.5])
def test_a_list_that_comes_late_is_waited_for(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, merged: bool
) -> None:
    """Every object appears in listings some time after it was written."""
    monkeypatch.setattr(folder_module, "_SETTLING", (0.2,) * 10)
    monkeypatch.setattr(claim, "_SETTLING", (0.2,) * 10)
    if merged:
        monkeypatch.setattr(merges_module, "LEAST_ROWS", 10**9)
    hidden_from(
        monkeypatch,
        lambda store, _, name: (found := store.look(name)) is not None and time.time() - found.mtime < seconds,
    )
    result, _ = again(study, tmp_path / "late")
    assert result.complete and len(list((tmp_path / "late" / "events").iterdir())) == (
        1 if merged else result.total
    )


def test_a_store_that_never_lists_what_was_written_is_refused_in_one_line(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden_from(monkeypatch, lambda _store, folder, _name: folder == ".claims")
    with pytest.raises(OutputError, match=r"took an object and does not list it .* needs a store that lists"):
        sweep(study, out=tmp_path / "s", local=True)
    assert not list((tmp_path / "s").rglob("*.parquet"))


@pytest.mark.parametrize("table", TABLES)
def test_a_part_that_is_lost_as_soon_as_it_is_written_is_said_and_the_others_are_kept(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    real = {name: getattr(Store, name) for name in ("write", "upload")}
    written = [0]

    def forgetful(act: Callable[..., None]) -> Callable[..., None]:
        def take(store: Store, name: str, content: Any) -> None:
            act(store, name, content)
            if name.startswith(f"{table}/"):
                written[0] += 1
                if written[0] == 2:
                    store.delete(name)

        return take

    for name, act in real.items():
        monkeypatch.setattr(Store, name, forgetful(act))
    with pytest.raises(OutputError, match=r"the store took 1 run, such as .*, and does not show it"):
        sweep(study, out=tmp_path / "s", local=True)
    total = len(plan(study))
    assert len(SweepFolder(tmp_path / "s").finished()) == total - 1
    assert pq.read_table(tmp_path / "s" / "runs.parquet").num_rows == total - 1
    result, _ = again(study, tmp_path / "s")
    assert result.complete and result.resumed == total - 1


@pytest.mark.parametrize("table", TABLES)
def test_parts_stay_until_what_they_were_merged_into_is_seen(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    sweep(study, out=tmp_path / "whole", local=True)
    monkeypatch.setattr(merges_module, "LEAST_ROWS", 10**9)  # from now on all runs belong into one part
    real = merges_module.merge

    def merge_and_lose(store: Store, wanted: merges_module.Merge) -> str:
        name = real(store, wanted)
        store.delete(f"{table}/{name}.parquet")
        return name

    monkeypatch.setattr("antecast.spark.sweep.merge", merge_and_lose)
    with pytest.raises(OutputError, match="does not show it"):
        sweep(study, out=tmp_path / "whole", local=True)
    assert SweepFolder(tmp_path / "whole").finished() == {each.run for each in plan(study)}
    monkeypatch.setattr("antecast.spark.sweep.merge", real)
    result, _ = again(study, tmp_path / "whole")
    assert result.complete and result.resumed == result.total
    assert len(list((tmp_path / "whole" / "events").iterdir())) == 1


def test_a_table_that_cannot_be_read_when_parts_are_merged_is_named(
    study: Study, done: SweepResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = sorted((Path(done.folder) / "events").iterdir())[1]
    content = victim.read_bytes()
    victim.write_bytes(bytes(len(content)))  # as long as it was
    monkeypatch.setattr(merges_module, "LEAST_ROWS", 10**9)
    with pytest.raises(Exception, match=rf"{victim}: not readable .*; delete it, and the same command makes"):
        sweep(study, out=done.folder, local=True)
    victim.unlink()
    result, _ = again(study, done.folder)
    assert result.complete and result.lost == 1


def test_a_plan_says_what_is_lost(tmp_path: Path, antecast: Any) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        'seeds = 2\n[scenario]\nnodes = 4\nduration = "1s"\nworkload = [{ kind = "poisson", rate = 4.0 }]\n'
    )
    code, _, _ = antecast("sweep", file, "--out", tmp_path / "s", "--no-spark", "--no-report", "--quiet")
    assert code == 0
    for victim in (tmp_path / "s" / "samples").iterdir():
        lose(victim)
    code, out, err = antecast("sweep", file, "--out", tmp_path / "s", "--dry-run")
    assert code == 0 and "0 finished already" in out and "2 runs were finished and are not there any more" in err


@pytest.mark.spark
def test_reading_a_sweep_says_which_runs_are_missing(spark: Any, study: Study, done: SweepResult) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_sweep(spark, done.folder).lost == ()
    parts = Parts(Store(done.folder)).refresh()
    run = done.runs["run"][1].as_py()
    lost = Path(done.folder) / "samples" / f"{parts.of[run].name}.parquet"
    lose(lost)
    with pytest.warns(
        UserWarning, match=rf"1 run was finished and is not there any more, such as {run}: {lost} is"
    ):
        tables = read_sweep(spark, done.folder)
    assert tables.lost == (run,)
    runs = {row["run"] for row in tables.events.select("run").distinct().collect()}
    assert runs == set(done.runs["run"].to_pylist()) - {run}


@pytest.mark.parametrize("damage", ["zeros", "pages", "other columns"])
def test_a_table_of_unchanged_size_that_workers_cannot_read_is_named(damage: str, tmp_path: Path) -> None:
    """Before: the worker told what was wrong, and not with which of the files of a sweep."""
    file = tmp_path / "events" / "1.parquet"
    file.parent.mkdir()
    schema = pa.schema([("t", pa.int64())])
    pq.write_table(pa.table({"t": range(100_000)}, schema), file)
    whole = file.read_bytes()
    if damage == "zeros":
        file.write_bytes(bytes(len(whole)))
    elif damage == "pages":
        file.write_bytes(whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
    else:
        pq.write_table(pa.table({"t": ["a", "b"]}), file)
    reading = _Reading(Store(tmp_path), ["events/1.parquet"], schema)
    with pytest.raises(InputError, match=r"events/1\.parquet: cannot be read \(.+\)$"):
        list(reading([pa.record_batch({"id": [0]})]))
