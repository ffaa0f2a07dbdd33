"""The ledger notices whatever must not happen."""

import json

import pytest

from antecast.torture.ledger import Ledger


def said(node, k, *past, answer=False):
    return json.dumps([node, k, answer, [list(each) for each in past]])


def ledger_of(tmp_path, *records, **promises):
    paths = {}
    for node, lines in enumerate(records):
        paths[node] = tmp_path / f"{node}.jsonl"
        paths[node].write_text("".join(json.dumps(line) + "\n" for line in lines))
    ledger = Ledger(paths, **promises)
    ledger.read()
    return ledger


def test_records_that_agree_have_nothing_wrong(tmp_path):
    one = [["r"], ["i", 0], ["a", 0, 0, 1], ["d", 1, 0, 1, 5, said(0, 0)], ["d", 2, 1, 1, 6, said(1, 0, (0, 1))]]
    two = [["r"], ["d", 1, 0, 1, 5, said(0, 0)], ["i", 0], ["d", 2, 1, 1, 6, said(1, 0, (0, 1))], ["a", 0, 1, 1]]
    ledger = ledger_of(tmp_path, one, two)
    assert (ledger.wrong, ledger.missing(), ledger.speaking()) == ([], {}, set())


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([["d", 1, 0, 1, 5, said(0, 0)], ["d", 1, 0, 2, 6, said(0, 1)]], "as number 1, after 1"),
        ([["d", 1, 0, 1, 5, said(0, 0)], ["d", 3, 0, 2, 6, said(0, 1)]], "as number 3, after 1"),
        ([["d", 1, 0, 1, 5, said(0, 0)], ["d", 2, 0, 1, 6, said(0, 0)]], "delivered 0:1 twice"),
        ([["d", 1, 0, 2, 5, said(0, 1)], ["d", 2, 0, 1, 6, said(0, 0)]], "delivered 0:1 after 0:2"),
        ([["d", 1, 1, 1, 5, said(1, 0, (0, 1))]], "before 0:1, on which it depends"),
        ([["d", 1, 0, 1, 5, said(0, 0)], ["d", 2, 0, 2, 4, said(0, 1)]], "at 4, which is before 5"),
        ([["d", 1, 0, 1, 5, said(0, 0)], ["d", 2, 0, 2, 6, said(0, 0)]], "goes by two names"),
        ([["d", 1, 0, 1, 5, said(1, 0)]], "which node 1 broadcast"),
        ([["d", 1, 0, 1, 5, "?"]], "a payload that nobody broadcast"),
        ([["i", 0], ["a", 0, 0, 1], ["i", 1], ["a", 1, 0, 1]], "named two messages 0:1"),
    ],
)
def test_what_must_not_happen_is_noticed(tmp_path, lines, problem):
    assert any(problem in text for text in ledger_of(tmp_path, [["r"], *lines]).wrong)


def test_two_payloads_under_one_name_are_noticed(tmp_path):
    one, two = [["d", 1, 0, 1, 5, said(0, 0)]], [["d", 1, 0, 1, 5, said(0, 1)]]
    assert any("another payload" in text for text in ledger_of(tmp_path, one, two).wrong)


def test_what_was_acknowledged_and_never_came_is_lost(tmp_path):
    ledger = ledger_of(tmp_path, [["i", 0], ["a", 0, 0, 1], ["d", 1, 0, 1, 5, said(0, 0)]], [["r"]])
    assert ledger.missing() == {1: {(0, 1)}}
    ledger.report_missing()
    assert ledger.wrong == ["node 1 never delivered 0:1, which was acknowledged"]


def test_a_broadcast_that_was_broken_off_may_be_lost(tmp_path):
    ledger = ledger_of(tmp_path, [["i", 0], ["r"]], [["r"]])
    assert (ledger.missing(), ledger.speaking(), ledger.wrong) == ({}, set(), [])


def test_order_counts_only_where_it_is_promised(tmp_path):
    lines = [["d", 1, 0, 2, 5, said(0, 1, (1, 7))], ["d", 2, 0, 1, 6, said(0, 0)]]
    assert ledger_of(tmp_path, lines, causal=False, fifo=False).wrong == []


def test_a_line_without_its_end_is_read_when_it_is_whole(tmp_path):
    ledger = ledger_of(tmp_path, [["r"]])
    path = tmp_path / "0.jsonl"
    line = json.dumps(["i", 3]) + "\n"
    with path.open("a") as file:
        file.write(line[:4])
    ledger.read()
    assert ledger.speaking() == set()
    with path.open("a") as file:
        file.write(line[4:])
    ledger.read()
    assert ledger.speaking() == {0}


def test_what_a_node_has_given_up_is_held_against_it_unless_its_settings_are_others(tmp_path):
    spoken = [["i", 0], ["a", 0, 0, 1], ["d", 1, 0, 1, 5, said(0, 0)], ["i", 1], ["a", 1, 0, 2]]
    spoken += [["d", 2, 0, 2, 6, said(0, 1, (0, 1))], ["i", 2], ["a", 2, 0, 3]]
    spoken += [["d", 3, 0, 3, 7, said(0, 2, (0, 2))]]
    skipped = [["x", 0, 2], ["d", 1, 0, 3, 7, said(0, 2, (0, 2))]]
    ledger = ledger_of(tmp_path, spoken, skipped, may_give_up=True)
    assert (ledger.wrong, ledger.missing()) == ([], {})
    ledger = ledger_of(tmp_path, spoken, skipped)
    assert (len(ledger.wrong), ledger.missing()) == (1, {1: {(0, 1), (0, 2)}})
    ledger = ledger_of(tmp_path, spoken, [["x", 0, 1], *skipped[1:]], may_give_up=True)
    assert ledger.wrong == ["node 1 delivered 0:3 before 0:2, on which it depends"]
    assert ledger.missing() == {1: {(0, 2)}}
