"""Other simulators on the same work (`bench.peers`): whom each message reaches is the same."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))

from bench.peers import apart, the_one
from bench.peers.ours import antecast
from bench.peers.peersim import run as peersim
from bench.peers.simpy_peer import simpy_epidemic
from bench.peers.work import Difference, compare, make_work

WORK = make_work(nodes=40, contacts=160, messages=10)


def test_simpy_and_we_reach_the_same_nodes_within_milliseconds():
    ours, theirs = antecast(WORK, "reference"), simpy_epidemic(WORK)
    assert len(ours.arrivals) > 100
    found = compare(ours, theirs)
    assert found.only_one == 0 and found.latest < 1
    one, *others = theirs.arrivals
    fewer = replace(theirs, arrivals={each: theirs.arrivals[each] + 5 for each in others})
    assert compare(ours, fewer) == Difference(1, pytest.approx(5, abs=1)) and one in ours.arrivals


def test_a_peer_that_is_not_there_is_named_with_what_would_help(monkeypatch, tmp_path):
    monkeypatch.delenv(the_one.VARIABLE, raising=False)
    assert the_one.problem() == "set ANTECAST_THE_ONE to the folder of a compiled checkout"
    monkeypatch.setenv(the_one.VARIABLE, str(tmp_path))
    assert the_one.problem() == f"{tmp_path} has no target/core/DTNSim.class; run its compile.sh first"


@pytest.mark.skipif(the_one.problem() is not None, reason="The ONE is not at hand")
def test_the_one_and_we_reach_the_same_nodes():
    found = compare(antecast(WORK, "reference"), the_one.the_one(WORK))
    assert found.only_one == 0 and found.latest < 30


@pytest.mark.parametrize(
    ("package", "module", "brief"), [("ns3", "ns3_peer", False), ("dtnsim", "dtnsim_peer", True)]
)
def test_python_packages_and_we_reach_the_same_nodes_within_milliseconds(package, module, brief):
    if why := apart.problem(package):
        pytest.skip(why)
    work = make_work(nodes=40, contacts=400, messages=10, brief=brief)
    ours = antecast(work, "reference")
    assert len(ours.arrivals) > 100
    found = compare(ours, apart.run(module, work))
    assert found.only_one == 0 and found.latest < 1


def test_an_environment_without_a_peer_is_named_with_what_would_help(monkeypatch, tmp_path):
    monkeypatch.setenv(apart.VARIABLE, sys.executable)
    assert str(apart.problem("no_such_peer")).startswith("pip install no_such_peer, here or in an environment")
    monkeypatch.setenv(apart.VARIABLE, str(tmp_path / "python"))
    assert apart.problem("ns3") == f"ANTECAST_PEERS: No such file or directory: {tmp_path / 'python'}"


def test_in_brief_work_a_node_has_one_contact_at_a_time_and_is_alone_when_it_broadcasts():
    work = make_work(nodes=20, contacts=800, messages=20, brief=True)
    busy = [(each.start, node) for each in work.contacts for node in (each.a, each.b)]
    assert len(busy) == len(set(busy)) > 600
    assert {each.end - each.start for each in work.contacts} == {30}
    assert {each.t % 60 for each in work.broadcasts} == {45}


def test_peersim_that_is_not_there_is_named_with_what_would_help(monkeypatch, tmp_path):
    monkeypatch.delenv(peersim.VARIABLE, raising=False)
    assert str(peersim.problem()).startswith("set ANTECAST_PEERSIM to a class path")
    monkeypatch.setenv(peersim.VARIABLE, f"{tmp_path}:{tmp_path / 'none.jar'}")
    assert peersim.problem() == f"ANTECAST_PEERSIM: {tmp_path / 'none.jar'}: no such file or folder"


def test_all_broadcasts_of_the_work_for_peersim_reach_all():
    found = peersim.ours(50, 6.0)
    assert (found.missed, found.deliveries) == (0, 50 * 60)
    assert 6.0 < found.neighbours < 12.0 and 1.0 < found.latency < 3.0


@pytest.mark.skipif(peersim.problem() is not None, reason="PeerSim is not at hand")
def test_peersim_and_we_agree_on_whom_messages_reach_and_when():
    theirs = peersim.peersim(300)
    ours = peersim.ours(300, theirs.arcs)
    assert (theirs.missed, ours.missed) == (0, 0)
    assert ours.neighbours == pytest.approx(theirs.neighbours, rel=0.15)
    assert ours.latency == pytest.approx(theirs.latency, rel=0.1)
