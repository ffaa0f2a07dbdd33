"""Transfers: many frames for one neighbour at once are one event, and nobody can tell from the log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.sim import host, run
from antecast.sim.scenario import make_scenario

BROADCASTS = 30


def scenario(network, protocol="barrier", log="all", seed=1):
    """Nodes that broadcast on their own, and then meet: everything goes over in a few transfers."""
    return make_scenario(
        {
            "seed": seed,
            "nodes": 3,
            "duration": "20s",
            "protocol": {"name": protocol},
            "network": {"topology": {"kind": "links", "links": []}} | network,
            "workload": [
                {"kind": "at", "broadcasts": [{"t": f"{i}ms", "node": i % 3} for i in range(1, BROADCASTS)]},
                {"kind": "chatter", "answers": 0.9},
            ],
            "faults": [
                {"kind": "link", "at": "5s", "a": 0, "b": 1},
                {"kind": "link", "at": "5s", "a": 1, "b": 2},
                {"kind": "cut", "at": "5.03s", "a": 0, "b": 1},
                {"kind": "link", "at": "6s", "a": 0, "b": 2},
            ],
            "log": {"events": log},
        }
    )


def one_by_one(monkeypatch, made):
    with monkeypatch.context() as patch:
        patch.setattr(host, "_LONG", 1 << 30)
        return run(made)


NETWORKS = [
    {"delay": "10ms"},
    {"delay": "0s"},
    {"delay": {"kind": "uniform", "low": "0s", "high": "3ns"}},
    {"delay": {"kind": "uniform", "low": "0s", "high": "50ms"}, "fifo": True},
    {"delay": "10ms", "loss": 0.3},
    {"delay": "10ms", "bandwidth": "100kb/s"},
    {"delay": "10ms", "bandwidth": "100kb/s", "queue_limit": 1000},
]


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_a_train_is_received_as_its_frames_would_be_one_by_one(network, monkeypatch):
    made = scenario(network)
    together, apart = run(made), one_by_one(monkeypatch, made)
    assert together.events.equals(apart.events)
    assert together.dropped == apart.dropped


def test_a_transfer_is_few_events(monkeypatch):
    made = scenario({"delay": "10ms"})
    assert run(made).steps < one_by_one(monkeypatch, made).steps - BROADCASTS


@given(seed=st.integers(0, 2**32))
def test_what_is_logged_does_not_change_the_run(seed):
    kinds = {}
    for log in ("all", "order"):
        rows = run(scenario({"delay": "10ms"}, log=log, seed=seed)).events.drop_columns(["run", "pos"]).to_pylist()
        kinds[log] = [row for row in rows if row["kind"] not in ("send", "receive")]
    assert kinds["all"] == kinds["order"]
