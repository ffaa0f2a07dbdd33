"""One scenario through the simulator and through real processes."""

import json

import pytest

from antecast.emulation.timetable import make_timetable
from antecast.sim.scenario import load_scenario

SCENARIO = """
name = "small"
nodes = 4
duration = "6s"

[protocol]
name = "vector"

[[workload]]
kind = "poisson"
rate = 2.0

[[faults]]
kind = "partition"
at = "1s"
groups = [[0, 1]]

[[faults]]
kind = "heal"
at = "3s"

[[faults]]
kind = "crash"
at = "2s"
node = 3

[[faults]]
kind = "recover"
at = "4s"
node = 3

[[faults]]
kind = "join"
at = "4500ms"
node = 4
peers = [0, 3]
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


def test_both_runs_have_the_same_verdict_and_the_same_deliveries(antecast, scenario, tmp_path):
    code, said, _ = antecast("emulate", scenario, "--speed", 4, "--out", tmp_path / "out", "--json")
    compared = json.loads(said)
    assert code == 0
    assert compared["verdict"] == {"simulator": "causal", "emulation": "causal"}
    assert compared["same_deliveries"], compared["deliveries"]
    assert compared["nodes"] == 5
    folder = tmp_path / "out"
    assert len(list((folder / "events").glob("*.parquet"))) == 5
    assert json.loads((folder / "verdict.json").read_text())["verdict"] == "causal"
    assert (folder / "report.html").stat().st_size > 10_000
    code, said, _ = antecast("audit", folder / "events")
    assert code == 0
    assert said.startswith("causal: ")


def test_the_timetable_is_what_the_simulator_did(scenario):
    timetable = make_timetable(load_scenario(scenario, []))
    kinds = [step.kind for step in timetable.steps]
    assert timetable.present == {0, 1, 2, 3}
    assert len(timetable.links) == 6
    assert (kinds.count("crash"), kinds.count("recover"), kinds.count("join")) == (1, 1, 1)
    cut = {(step.node, step.other) for step in timetable.steps if step.kind == "cut" and step.t == 10**9}
    assert cut == {(0, 2), (0, 3), (1, 2), (1, 3)}
    assert list(timetable.steps) == sorted(timetable.steps, key=lambda step: step.t)
    assert make_timetable(load_scenario(scenario, [])).steps == timetable.steps


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ('network.topology={ kind = "spray" }', "network.topology"),
        ("nodes=500", "nodes: 500 processes are too many"),
        ("workload.0.lifetime=1s", "workload[0].lifetime"),
    ],
)
def test_what_cannot_be_emulated_is_refused_in_one_line(antecast, scenario, change, problem):
    scenario.write_text(SCENARIO.partition("[[faults]]")[0])
    name = "barrier" if "lifetime" in change else "vector"
    code, _, said = antecast("emulate", scenario, "--set", change, "--set", f"protocol.name={name}", "-q")
    assert code == 2, said
    assert problem in said
    assert said.count("\n") == 1


def test_a_contact_plan_is_followed_with_real_connections(antecast, tmp_path):
    """Messages are carried from 0 to 2 by 1, which meets one after the other."""
    (tmp_path / "met.csv").write_text("a,b,start,end\n0,1,2,12\n1,2,16,26\n0,1,30,40\n")
    scenario = tmp_path / "carried.toml"
    scenario.write_text("""
name = "carried"
duration = "40s"
protocol = "barrier"
network.topology = { kind = "contacts", file = "met.csv" }

[[workload]]
kind = "periodic"
every = "5s"
until = "20s"
""")
    code, said, _ = antecast(
        "emulate", scenario, "--speed", 20, "--out", tmp_path / "out", "--json", "--no-report"
    )
    compared = json.loads(said)
    assert code == 0
    assert compared["same_deliveries"], compared["deliveries"]
    assert compared["messages"]["emulation"] * 3 > compared["deliveries"]["emulation"] > 20
    assert not (tmp_path / "out" / "report.html").exists()
