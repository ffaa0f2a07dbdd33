"""The same scenario and seed make the same bytes, whatever the process."""

import json
import os
import subprocess
import sys

import pytest

from antecast.sim import run
from antecast.sim.identity import run_id
from antecast.sim.scenario import make_scenario

VALUES = {
    "nodes": 12,
    "duration": "3s",
    "drain": "10s",
    "protocol": {"name": "vector", "repair": "500ms"},
    "network": {
        "topology": {"kind": "random", "degree": 4},
        "delay": {"kind": "pareto", "least": "1ms"},
        "loss": 0.1,
        "bandwidth": "1Mb/s",
    },
    "clocks": {"offset": "100ms", "drift": 50.0},
    "workload": [{"kind": "poisson", "rate": 2.0}, {"kind": "chatter", "answers": 0.5}],
    "faults": [
        {"kind": "churn", "uptime": "2s", "downtime": "300ms"},
        {"kind": "partition", "at": "1s", "groups": [[0, 1, 2]]},
        {"kind": "heal", "at": "2s"},
        {"kind": "join", "at": "1s", "node": 12},
    ],
}


def in_another_process(folder, hash_seed):
    code = (
        "import sys, json; from antecast.sim import run; from antecast.sim.scenario import make_scenario; "
        "run(make_scenario(json.loads(sys.argv[1])), out=sys.argv[2])"
    )
    subprocess.run(
        [sys.executable, "-c", code, json.dumps(VALUES), str(folder)],
        check=True,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
    )
    return {name: (folder / name).read_bytes() for name in ("events.parquet", "samples.parquet")}


def test_two_processes_with_different_hash_seeds_write_identical_logs(tmp_path):
    one = in_another_process(tmp_path / "one", "1")
    other = in_another_process(tmp_path / "other", "4242")
    assert one == other
    assert len(one["events.parquet"]) > 10_000


def test_memory_and_disk_hold_the_same_log(tmp_path):
    scenario = make_scenario(VALUES)
    assert run(scenario).events.equals(run(scenario, out=tmp_path / "run").events)


def test_another_seed_makes_another_run():
    one, other = (run(make_scenario(VALUES | {"seed": seed})) for seed in (1, 2))
    assert not one.events.equals(other.events)
    assert one.run != other.run


@pytest.mark.parametrize(
    ("change", "same"),
    [({"name": "renamed"}, True), ({"seed": 7}, False), ({"drain": "11s"}, False), ({"duration": "3000ms"}, True)],
)
def test_the_identity_covers_what_determines_a_run_and_nothing_else(change, same):
    assert (run_id(make_scenario(VALUES | change)) == run_id(make_scenario(VALUES))) == same


def test_the_identity_covers_the_contents_of_input_files(tmp_path):
    trace = tmp_path / "trace.csv"
    values = VALUES | {"workload": [{"kind": "trace", "file": str(trace)}]}
    trace.write_text("t,node\n1.0,0\n")
    before = run_id(make_scenario(values))
    trace.write_text("t,node\n2.0,0\n")
    assert run_id(make_scenario(values)) != before
