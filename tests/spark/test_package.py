"""Antecast as an archive, for workers that do not have it."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import antecast
from antecast.core.errors import OutputError
from antecast.sim.identity import PACKED, code_version
from antecast.sim.study import make_study, plan
from antecast.spark.package import write_package

STUDY = {"scenario": {"nodes": 3, "duration": "1s", "workload": [{"kind": "poisson", "rate": 3.0}]}, "seeds": 2}


def outside(archive: Path, code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that has the archive and not the package."""
    own = str(Path(antecast.__file__).parents[1])
    start = (
        "import sys; "
        f"sys.path[:] = [each for each in sys.path if each != {own!r}]; "
        "sys.meta_path[:] = [each for each in sys.meta_path if 'editable' not in type(each).__module__]; "
        f"sys.path.insert(0, {str(archive)!r}); "
    )
    command = [sys.executable, "-c", start + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write_package(tmp_path / "antecast.zip")
    return tmp_path / "antecast.zip"


def test_the_archive_is_the_same_every_time_and_says_what_it_is(archive: Path, tmp_path: Path) -> None:
    count = write_package(tmp_path / "again.zip")
    assert archive.read_bytes() == (tmp_path / "again.zip").read_bytes()
    with zipfile.ZipFile(archive) as content:
        assert len(content.namelist()) == count
        assert json.loads(content.read(f"antecast/{PACKED}"))["code"] == code_version()
        assert not any("__pycache__" in name for name in content.namelist())


@pytest.mark.parametrize("where", ["", ".", "..", "/"])
def test_a_folder_is_no_archive_and_is_left_alone(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match=r"is a folder; name the archive, such as antecast-.*\.zip"):
        write_package(Path(where))
    assert not list(tmp_path.iterdir())


def test_runs_made_from_the_archive_are_the_same_runs(archive: Path, tmp_path: Path) -> None:
    code = (
        "import antecast, json; from antecast.spark.sweep import sweep; "
        "result = sweep(json.loads(sys.argv[1]), out=sys.argv[2], local=True); "
        "print(antecast.__file__, *result.runs['run'].to_pylist(), result.failed)"
    )
    done = outside(archive, code, json.dumps(STUDY), tmp_path / "sweep")
    assert done.returncode == 0, done.stderr
    file, *runs, failed = done.stdout.split()
    assert file.startswith(str(archive)) and failed == "0"
    assert runs == [each.run for each in plan(make_study(STUDY))]


def test_the_command_says_what_it_wrote(antecast: Any, tmp_path: Path) -> None:
    code, out, err = antecast("spark", "package")
    assert (code, err) == (0, "")
    (file,) = tmp_path.glob("antecast-*.zip")
    assert out.splitlines()[0].startswith(f"{file.name}: ") and "workers need jinja2, msgspec" in out
    code, _, err = antecast("spark", "package", "--out", "nowhere/x.zip")
    assert code == 2 and err == "error: nowhere/x.zip: cannot write: No such file or directory\n"
