"""One scenario through the simulator and through real processes."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from antecast.emulation.timetable import make_timetable
from antecast.sim.scenario import load_scenario
from antecast.torture.nursery import nursery

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
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Emulation of small" in page and "The same messages were delivered at the same nodes." in page
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
        ('network.topology={ kind = "spray", every = "0s" }', "network.topology.every"),
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


def test_journals_of_others_are_not_deleted(antecast, scenario, tmp_path):
    kept = tmp_path / "talk" / "journals" / "ada"
    kept.parent.mkdir(parents=True)
    kept.write_text("all that I said")
    code, _, said = antecast("emulate", scenario, "--out", tmp_path / "talk", "-q")
    assert (code, said.count("\n")) == (2, 1) and "is not of an emulation, and is not overwritten" in said
    assert kept.read_text() == "all that I said"


def test_the_process_that_others_are_forked_from_is_deaf_to_interrupts():
    """A terminal sends Ctrl-C to it too: it would print a traceback and leave the command without processes."""
    context = nursery()
    first = context.Process(target=int)
    first.start()
    first.join()  # by now it is up
    ours = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    (server,) = (each for each in ours if b"forkserver" in Path(f"/proc/{each}/cmdline").read_bytes())
    blocked, here = (
        int(re.search(r"SigBlk:\s*(\w+)", Path(f"/proc/{each}/status").read_text())[1], 16)
        for each in (server, "self")
    )
    bit = 1 << (signal.SIGINT - 1)
    assert blocked & bit and not here & bit


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


def test_members_of_an_overlay_choose_their_neighbours_in_both_runs(antecast, tmp_path):
    scenario = tmp_path / "spray.toml"
    scenario.write_text("""
name = "an overlay"
nodes = 6
duration = "30s"
protocol = { name = "pc-broadcast", timeout = "10s" }
network = { fifo = true, topology = { kind = "spray", every = "4s" } }

[[workload]]
kind = "poisson"
rate = 0.2
until = "24s"

[[faults]]
kind = "crash"
node = 3
at = "8s"

[[faults]]
kind = "recover"
node = 3
at = "12s"

[[faults]]
kind = "join"
node = 6
at = "10s"
""")
    options = ("--speed", 8, "--out", tmp_path / "out", "--json", "--no-report")
    code, said, _ = antecast("emulate", scenario, *options)
    compared = json.loads(said)
    assert code == 0
    assert compared["verdict"] == {"simulator": "causal", "emulation": "causal"}
    assert compared["same_deliveries"], compared["deliveries"]
    link = "faults=[{ kind = 'cut', a = 0, b = 1, at = '1s' }]"
    code, _, said = antecast("emulate", scenario, "--set", link, *options)
    assert code == 2
    assert "faults[0]: in an emulation, members of an overlay choose their links" in said
