"""The browser lies with the tools. It is started once, and two runs are made once, for all tests here."""

import sys
from pathlib import Path

import pytest

from antecast.sim.run import run
from antecast.sim.scenario import make_scenario

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

SCENARIO = {
    "name": "small",
    "nodes": 14,
    "duration": "4s",
    "workload": [{"kind": "poisson", "rate": 2.0}, {"kind": "chatter", "answers": 0.7}],
    "network": {
        "delay": {"kind": "uniform", "low": "1ms", "high": "200ms"},
        "topology": {"kind": "ring", "reach": 2},
    },
}


@pytest.fixture(scope="session")
def causal(tmp_path_factory):
    """The folder of a run that keeps causal order."""
    folder = tmp_path_factory.mktemp("runs") / "causal"
    run(make_scenario(SCENARIO), out=folder)
    return folder


@pytest.fixture(scope="session")
def violated(tmp_path_factory):
    """The folder of a run, of the same traffic, that does not."""
    folder = tmp_path_factory.mktemp("runs") / "violated"
    run(make_scenario(SCENARIO | {"protocol": {"name": "r-broadcast"}}), out=folder)
    return folder


@pytest.fixture(scope="session")
def browser():
    """One browser for all tests that need one: starting it takes longer than most of them."""
    from browser import CHROMIUM, Browser

    if CHROMIUM is None:
        pytest.skip("no Chromium here; apt-get install chromium to see reports drawn and clicked")
    with Browser() as started:
        yield started
