"""`antecast generate` and `antecast contacts` as a user meets them: processes, their output and exit codes."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import antecast

from antecast.traces.schema import CONTACTS, TRAJECTORIES


@pytest.fixture(scope="module")
def walkers(tmp_path_factory):
    path = tmp_path_factory.mktemp("walkers") / "walkers.parquet"
    done = antecast(
        "generate", "pedestrians", "--duration", "20min", "--walkers", 150, "-o", path, cwd=path.parent
    )
    assert done.returncode == 0, done.stderr
    assert "nodes, at most" in done.stdout
    return path


def test_movement_becomes_contacts(walkers, tmp_path):
    assert pq.read_schema(walkers).equals(TRAJECTORIES, check_metadata=True)
    done = antecast("contacts", walkers, "--range", 50, "-o", "found.parquet", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    found = pq.read_table(tmp_path / "found.parquet")
    assert found.schema.equals(CONTACTS, check_metadata=True)
    assert summary["contacts"] == len(found) > 100
    assert summary["duration"]["min"] <= summary["duration"]["mean"] <= summary["duration"]["max"]
    assert summary["nodes"] >= summary["at_once"] > 0


def test_movement_in_other_formats_makes_the_same_contacts(walkers, tmp_path):
    made = [antecast("contacts", walkers, "--range", 50, "-o", "a.csv", cwd=tmp_path)]
    made.append(antecast("convert", walkers, "moving.csv", cwd=tmp_path))
    made.append(antecast("contacts", "moving.csv", "--range", 50, "-o", "b.csv", cwd=tmp_path))
    assert [done.returncode for done in made] == [0, 0, 0], made
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
    assert "a contact lasts" in made[0].stdout


def test_the_same_seed_makes_the_same_file(tmp_path):
    for name in ("a.csv", "b.csv"):
        assert (
            antecast("generate", "city-bus", "--seed", 5, "--buses", "2,2", "-o", name, cwd=tmp_path).returncode
            == 0
        )
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nothing.parquet", "--range", 50], "nothing.parquet: no such file"),
        (["moving.parquet", "--range", 0], "--range: expected a range in metres above zero"),
        (["moving.parquet", "--range", 50, "-o", "moving.parquet"], "moving.parquet: exists already; --force"),
        (["moving.parquet", "--range", 50, "-o", "found.doc"], "found.doc does not tell a format"),
        (["moving.parquet", "--range", 50, "--engine", "local", "--master", "local"], "a master is for Spark"),
        (["met.parquet", "--range", 50], "met.parquet: holds contacts"),
        (["other.parquet", "--range", 50], "other.parquet: expected columns"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, problem, walkers, tmp_path):
    (tmp_path / "moving.parquet").write_bytes(walkers.read_bytes())
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    pq.write_table(CONTACTS.empty_table(), tmp_path / "met.parquet")
    done = antecast("contacts", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert problem in done.stderr
