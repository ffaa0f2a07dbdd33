"""A dose of torture: real processes, killed and hurt. The large setting is the command itself."""

import asyncio
import json

import pytest

from antecast.torture.campaign import Campaign, Standing, Summary
from antecast.torture.controls import CONTROLS
from antecast.torture.group import Patience
from antecast.torture.nursery import nursery
from antecast.torture.session import Session, run_session


def result_of(*what, **more):
    return asyncio.run(run_session(Session(*what, **more), nursery()))


def test_a_node_killed_while_its_journal_is_made_starts_again():
    for index in (0, 1):
        result = result_of("vector", "births", index, 0)
        assert result.tally.wrong == []
        assert result.tally.faults["kill"] == 3


@pytest.mark.parametrize("protocol", ["vector", "vcube"])
def test_numbered_points_in_turn(protocol):
    result = result_of(protocol, "points", 0, 0, rounds=3, points=40)
    assert result.tally.wrong == []
    assert result.tally.from_calm == result.tally.from_birth == set(range(1, 10))
    assert result.audit == "causal"
    assert result.deliveries >= 3 * result.messages > 0


def test_nodes_killed_while_they_stop_cleanly():
    result = result_of("barrier", "stops", 0, 0)
    assert result.tally.wrong == []
    assert result.tally.faults["kill"] >= 3


@pytest.mark.parametrize(("protocol", "seed"), [("pc-broadcast", 1), ("barrier", 2)])
def test_whatever_comes(protocol, seed):
    result = result_of(protocol, "faults", 0, seed, rounds=6)
    assert result.tally.wrong == []
    assert sum(result.tally.faults.values()) >= 6


def test_nodes_with_keys():
    result = result_of("vector", "faults", 0, 5, rounds=4, keys=True)
    assert result.tally.wrong == []
    assert sum(result.tally.faults.values()) >= 4
    assert result.audit == "causal"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # that is how they die
@pytest.mark.parametrize("protocol", ["pc-broadcast", "vcube"])
def test_nodes_that_keep_few_messages_say_what_they_give_up(protocol, monkeypatch):
    monkeypatch.setattr("antecast.torture.session.MEMORY_ROUNDS", 10)
    result = result_of(protocol, "memory", 0, 0, settings={"retain": 20, "patience": "1s"})
    assert result.tally.wrong == []
    assert result.tally.faults["kill in one process"] >= 10


@pytest.mark.parametrize("control", sorted(CONTROLS))
def test_a_node_that_breaks_a_rule_is_caught(control):
    wrong = Campaign(["vector"], 60, control=control, patience=3.0).run().wrong
    assert wrong


def test_a_campaign_goes_on_where_it_was(antecast, tmp_path):
    arguments = ("torture", "vector", "--faults", 8, "--seed", 3, "--out", tmp_path / "it")
    code, said, _ = antecast(*arguments)
    assert code == 0
    assert "nothing lost, nothing twice, nothing out of order" in said
    first = json.loads((tmp_path / "it" / "torture.json").read_text())
    code, said, _ = antecast(*arguments, "--json")
    assert code == 0
    assert json.loads(said) == first
    code, _, said = antecast(*arguments[:-4], "--seed", 4, "--out", tmp_path / "it")
    assert code == 2
    assert "another seed" in said


def test_a_summary_that_is_not_text_is_refused(antecast, tmp_path):
    (tmp_path / "torture.json").write_bytes(b'{"control": "\xff"}')
    code, _, said = antecast("torture", "vector", "--faults", 8, "--out", tmp_path)
    assert code == 2
    assert "not a summary of antecast torture" in said


def test_a_campaign_that_runs_out_of_time_is_inconclusive(antecast):
    code, *_ = antecast("torture", "vector", "--faults", 1000, "--for", 0)
    assert code == 3


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nonsense",), "nonsense"),
        (("cellular",), "cellular needs cells"),
        (("vector", "--control", "kindness"), "no such control 'kindness'"),
        (("vector", "--set", "retain=few"), "protocol.retain"),
        (("vector", "vcube", "--set", "early=2000"), "early"),
    ],
)
def test_bad_usage_is_one_line(antecast, arguments, problem):
    code, _, said = antecast("torture", *arguments)
    assert code == 2
    assert problem in said
    assert said.count("\n") == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # that is how they die
@pytest.mark.parametrize("protocol", ["vector", "pc-broadcast"])
def test_many_crashes_in_one_process(protocol, monkeypatch):
    monkeypatch.setattr("antecast.torture.session.MEMORY_ROUNDS", 10)
    result = result_of(protocol, "memory", 0, 0)
    assert result.tally.wrong == []
    assert result.tally.faults["kill in one process"] >= 10


def test_time_in_which_nobody_was_let_run_is_not_held_against_a_node():
    now = [0.0]
    patience = Patience(0.1, lambda: now[0])
    for _ in range(5):
        now[0] += 60
        assert not patience.is_over()
    for _ in range(20):
        now[0] += 0.004
        over = patience.is_over()
    assert over


def test_every_protocol_gets_its_share_of_the_faults():
    names = ["vector", "barrier", "vcube"]
    campaign = Campaign(protocols=names, faults=5)
    summary = Summary(0, 3, None, {name: Standing("", 1) for name in names})
    taken = []
    for session in campaign._sessions(summary):
        taken.append(session.protocol)
        summary.protocols[session.protocol].faults = {"kill": 40}
    assert taken == names
