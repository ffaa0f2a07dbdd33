"""The auditor says exactly what the definitions say, however a log is cut up."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from history_logs import Row, histories, log, rows_of, table, tables
from hypothesis import given
from hypothesis import strategies as st

from antecast.history import blocks as module
from antecast.history.audit import audit
from antecast.history.blocks import block_width, blocks, check_block
from antecast.history.dependencies import Dependencies, Ordered, reduce, sketch, topological_order
from antecast.history.histories import read_histories
from antecast.history.messages import MessageIndex
from antecast.history.oracle import Message, Node, judge
from antecast.history.rows import BrokenLog, rereadable
from antecast.history.verdict import Verdict
from antecast.history.violations import Tally


def found(verdict: Verdict, problem: str) -> list[tuple[Node, int, Message]]:
    return [
        (Node(row.get("run"), row["node"]), row["pos"], Message(row.get("run"), row["origin"], row["seq"]))
        for row in verdict.violations.to_pylist()
        if row["problem"] == problem
    ]


def summary(verdict: Verdict) -> Any:
    return verdict.outcome, verdict.tally, verdict.pairs, verdict.violations.to_pylist()


@given(tables())
def test_the_auditor_agrees_with_the_oracle(events: pa.Table) -> None:
    truth = judge(events)
    verdict = audit(events, pairs=True)
    assert {(node, m) for node, _, m in found(verdict, "early")} == truth.early
    assert {(node, m) for node, _, m in found(verdict, "late")} == truth.late
    assert set(found(verdict, "duplicate")) == truth.duplicates
    assert verdict.tally == Tally(
        nodes=len({(row.get("run"), row["node"]) for row in _events(events)}),
        deliveries=sum(row["kind"] == "deliver" for row in _events(events)),
        early=len(truth.early),
        late=len(truth.late),
        duplicates=len(truth.duplicates),
        unknown=len(truth.unknown),
        pairs=len(truth.pairs),
    )
    violated = bool(truth.pairs or truth.duplicates)
    unclear = truth.unknown or not verdict.tally.deliveries
    assert verdict.outcome == ("violated" if violated else "inconclusive" if unclear else "causal")
    assert verdict.exit_code == {"causal": 0, "violated": 1, "inconclusive": 3}[verdict.outcome]
    assert (verdict.witness is not None) == violated
    assert verdict.cut == 0


def test_own_messages_that_came_back_late_are_not_overtaken_by_one_that_never_did() -> None:
    """A node whose own messages reach it through the network has not delivered those it has not logged."""
    late = log("1: b1:1 b1:2 d1:1\n2: d1:1 d1:2")
    assert audit(late).outcome == "causal"
    assert not judge(late).early
    wrong = log("1: b1:1 b1:2 d1:2 d1:1\n2: d1:1 d1:2")
    assert audit(wrong).outcome == "violated"
    # Where a node logs none of its own, it delivers them as it broadcasts them.
    silent = log("1: d2:1 b1:1\n2: b2:1 b2:2 d1:1\n3: d1:1 d2:1")
    assert audit(silent).tally.early == 1


def _events(events: pa.Table) -> list[Row]:
    return [row for row in events.to_pylist() if row["kind"] in ("broadcast", "deliver")]


@given(tables())
def test_the_cause_of_a_violation_is_one(events: pa.Table) -> None:
    truth = judge(events)
    for row in audit(events).violations.to_pylist():
        node = Node(row.get("run"), row["node"])
        message = Message(row.get("run"), row["origin"], row["seq"])
        cause = Message(row.get("run"), row["cause_origin"], row["cause_seq"])
        if row["problem"] == "early":
            assert (node, cause, message) in truth.pairs
            assert row["cause_pos"] > row["pos"]
        elif row["problem"] == "late":
            assert (node, message, cause) in truth.pairs
            assert row["cause_pos"] < row["pos"]
        else:
            assert cause == message
            assert row["cause_pos"] < row["pos"]


@given(tables(), st.integers(1, 200), st.integers(1, 20))
def test_neither_blocks_nor_batches_change_the_verdict(events: pa.Table, memory: int, rows: int) -> None:
    whole = summary(audit(events, pairs=True))
    batches = events.to_batches(max_chunksize=rows)
    assert summary(audit(events, pairs=True, memory=memory)) == whole
    assert summary(audit(lambda: iter(batches), pairs=True)) == whole
    if batches:
        assert summary(audit(batches, pairs=True)) == whole
        assert summary(audit(iter(batches), pairs=True)) == whole


@given(tables(), st.integers(1, 3))
def test_nodes_can_be_audited_apart(events: pa.Table, parts: int) -> None:
    index = pickle.loads(pickle.dumps(MessageIndex.read(rereadable(events)())))
    names = sorted({(row.get("run", ""), row["node"]) for row in events.to_pylist()})
    part_of = {name: i % parts for i, name in enumerate(names)}
    rows_in = np.array([part_of[row.get("run", ""), row["node"]] for row in events.to_pylist()], np.int64)
    readings = [
        read_histories(rereadable(events.filter(pa.array(rows_in == part)))(), index) for part in range(parts)
    ]
    matrix = Dependencies.gather([sketch(reading.histories, index) for reading in readings])
    for _ in range(2):
        matrix = Dependencies.gather([reduce(reading.histories, index, matrix) for reading in readings])
    order, cycle = topological_order(matrix)
    assert not cycle
    tally = Tally()
    for reading in readings:
        check = check_block(reading.histories, index, Ordered.of(matrix, order), pairs=True)
        tally += reading.tally + check.tally
    assert tally == audit(events, pairs=True).tally


@given(histories(causal=True))
def test_a_causal_run_is_causal(rows: list[Row]) -> None:
    verdict = audit(table(rows), pairs=True)
    assert verdict.outcome == ("causal" if verdict.tally.deliveries else "inconclusive")
    assert verdict.pairs == 0
    assert verdict.witness is None


RELAY = """
    1: b1:1
    2: d1:1 b2:1
    3: d2:1 b3:1
"""
"""1:1 → 2:1 → 3:1, and node 3 never gets 1:1."""


def test_order_is_carried_across_a_message_that_never_came() -> None:
    verdict = audit(log(RELAY + "4: d3:1 d1:1"), pairs=True)
    assert verdict.outcome == "violated"
    assert verdict.violations.drop_columns(["cause_pos"]).to_pylist() == [
        {"node": 4, "pos": 0, "origin": 3, "seq": 1, "problem": "early", "cause_origin": 1, "cause_seq": 1},
        {"node": 4, "pos": 1, "origin": 1, "seq": 1, "problem": "late", "cause_origin": 3, "cause_seq": 1},
    ]
    assert verdict.pairs == 1


def test_a_message_that_is_merely_missing_violates_nothing() -> None:
    assert audit(log(RELAY + "4: d3:1")).outcome == "causal"


def test_order_is_that_of_broadcasts_not_of_numbers() -> None:
    assert audit(log("1: b1:9 b1:2\n2: d1:9 d1:2")).outcome == "causal"
    assert audit(log("1: b1:9 b1:2\n2: d1:2 d1:9")).outcome == "violated"


def test_a_message_delivered_late_at_its_own_origin_is_late_there() -> None:
    verdict = audit(log("1: b1:1 d2:1 d1:1\n2: d1:1 b2:1"))
    assert [(row["node"], row["origin"], row["problem"]) for row in verdict.violations.to_pylist()] == [
        (1, 2, "early"),
        (1, 1, "late"),
    ]


def test_without_a_delivery_at_its_origin_a_message_counts_from_its_broadcast() -> None:
    assert audit(log("1: b1:1 d2:1\n2: d1:1 b2:1")).outcome == "causal"


def test_a_second_delivery_is_a_violation_and_order_is_judged_on_the_first() -> None:
    verdict = audit(log("1: b1:1 b1:2\n2: d1:1 d1:2 d1:1"))
    assert verdict.tally == Tally(nodes=2, deliveries=3, duplicates=1)
    assert verdict.outcome == "violated"
    (row,) = verdict.violations.to_pylist()
    assert (row["node"], row["pos"], row["problem"], row["cause_pos"]) == (2, 2, "duplicate", 0)


def test_unknown_messages_make_a_clean_log_inconclusive() -> None:
    verdict = audit(log("1: b1:1\n2: d1:1 d7:3 d1:2"))
    assert (verdict.outcome, verdict.exit_code, verdict.tally.unknown) == ("inconclusive", 3, 2)
    assert verdict.unknown_examples == (
        "7:3 delivered at node 2, position 1",
        "1:2 delivered at node 2, position 2",
    )


def test_unknown_messages_do_not_hide_a_violation() -> None:
    verdict = audit(log("1: b1:1 b1:2\n2: d1:2 d1:1 d7:3"))
    assert (verdict.outcome, verdict.tally.unknown) == ("violated", 1)


def test_a_global_clock_shows_deliveries_before_the_broadcast() -> None:
    rows = [row | {"t": 10} for row in rows_of("1: b1:1\n2: d1:1\n3: d1:1")]
    rows[1]["t"] = 9
    assert audit(table(rows)).outcome == "causal"
    verdict = audit(table(rows), clock="global")
    assert (verdict.outcome, verdict.tally.before_broadcast) == ("violated", 1)
    (row,) = verdict.violations.to_pylist()
    assert (row["node"], row["problem"], row["cause_seq"]) == (2, "before-broadcast", None)


def test_the_same_names_in_two_runs_are_different_nodes() -> None:
    first = [row | {"run": "a"} for row in rows_of("1: b1:1 b1:2\n2: d1:1 d1:2")]
    second = [row | {"run": "b"} for row in rows_of("1: b1:2 b1:1\n2: d1:1 d1:2")]
    verdict = audit(table(first + second))
    assert verdict.tally == Tally(nodes=4, deliveries=4, early=1, late=1)
    assert set(verdict.violations["run"].to_pylist()) == {"b"}


@given(st.lists(histories(most=12), min_size=2, max_size=12))
def test_runs_do_not_meet_in_a_block(logs: list[list[Row]]) -> None:
    rows = [row | {"run": f"run-{run}"} for run, log in enumerate(logs) for row in log]
    tallies = [audit(table(log), pairs=True).tally for log in logs]
    for memory in (1, 1 << 10, 1 << 28):
        assert audit(table(rows), pairs=True, memory=memory).tally == sum(tallies, Tally())


def test_a_block_has_nodes_that_saw_the_same_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def widths(runs: int, nodes: int, messages: int) -> list[int]:
        sent = " ".join(f"b1:{seq}" for seq in range(messages))
        seen = " ".join(sent.replace("b", "d").split()[::-1])
        text = f"1: {sent}\n" + "\n".join(f"{node}: {seen}" for node in range(2, nodes + 1))
        events = rereadable(table([row | {"run": f"{run}"} for run in range(runs) for row in rows_of(text)]))
        index = MessageIndex.read(events())
        histories = read_histories(events(), index).histories
        matrix = Dependencies.gather([sketch(histories, index)])
        ordered = Ordered.of(matrix, topological_order(matrix, index)[0])
        found = list(blocks(histories, index, ordered))
        crossed = [name for name in histories.names if name.node != 1]  # who broadcast them has them in order
        assert sorted(name for block in found for name in block.names) == sorted(crossed)
        return [len(block) for block in found]

    assert widths(1, 100, 2) == [99]
    assert widths(50, 2, 2) == [50]
    monkeypatch.setattr("antecast.history.blocks._OVERHEAD", 0)  # as if there were many messages
    assert widths(3, 20, 4) == [19, 19, 19]
    assert widths(1, 100, 4) == [99]


def test_nodes_that_keep_to_the_topological_order_need_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, tuple[int, ...]]] = []
    positions = module._positions

    def noted(*arguments: Any) -> Any:
        seen.append((len(arguments[0]) - 1, positions(*arguments).shape))
        return positions(*arguments)

    monkeypatch.setattr(module, "_positions", noted)
    sent = [f"{node}: " + " ".join(f"b{node}:{number}" for number in range(node, 400, 4)) for node in range(4)]
    straight = " ".join(f"d{number % 4}:{number}" for number in range(400))
    assert audit(log("\n".join([*sent, *(f"{node}: {straight}" for node in range(4, 50))]))).outcome == "causal"
    assert not seen, "four chains, told in turn"
    swapped = straight.replace("d0:200 d1:201", "d1:201 d0:200")
    assert audit(log("\n".join([*sent, f"4: {straight}", f"5: {swapped}"]))).outcome == "causal"
    assert seen == [(1, (2, 1))], "one node, and the two messages that it had the other way round"


def test_what_is_not_listed_is_counted() -> None:
    text = "1: b1:1 b1:2 b1:3 b1:4\n" + "\n".join(f"{node}: d1:4 d1:3 d1:2 d1:1" for node in range(2, 6))
    verdict = audit(log(text), limit=5)
    assert verdict.tally.early == verdict.tally.late == 12
    assert verdict.violations["problem"].to_pylist().count("early") == 5
    assert verdict.cut == 24 - 10
    assert "10 violations are listed, 14 are not" in str(verdict)
    assert audit(log(text), limit=0).cut == 24


def test_counts_by_name() -> None:
    counts = {
        "nodes": 2,
        "messages": 2,
        "deliveries": 2,
        "early": 1,
        "early_broadcasts": 0,
        "late": 1,
        "duplicates": 0,
        "unknown": 0,
        "before_broadcast": 0,
        "pairs": None,
    }
    events = log("1: b1:1 b1:2\n2: d1:2 d1:1")
    assert audit(events).counts == counts
    assert audit(events, pairs=True).counts == counts | {"pairs": 1}


def test_where_nothing_was_delivered_no_order_was_kept() -> None:
    for nothing in (table([]), [], log("1: b1:1 b1:2\n2: b2:1")):
        verdict = audit(nothing)
        assert (verdict.outcome, verdict.exit_code) == ("inconclusive", 3)


def test_names_come_back_in_the_types_of_the_log() -> None:
    events = log("a: ba:1 ba:2\nb: da:2 da:1").cast(
        pa.schema(
            [
                ("node", pa.dictionary(pa.int8(), pa.string())),
                ("origin", pa.large_string()),
                ("pos", pa.int32()),
                ("kind", pa.dictionary(pa.int32(), pa.string())),
                ("seq", pa.uint16()),
            ]
        )
    )
    verdict = audit(events)
    assert verdict.violations.schema.field("node").type == pa.string()
    assert verdict.violations.schema.field("origin").type == pa.large_string()
    assert verdict.violations["node"].to_pylist() == ["b", "b"]


@pytest.mark.parametrize("offset", [0, 2**31, 2**62])
def test_positions_and_numbers_of_any_size(offset: int) -> None:
    rows = [row | {"pos": row["pos"] + offset, "seq": row["seq"] + offset} for row in rows_of("1: b1:1 b1:2")]
    rows += [row | {"seq": row["seq"] + offset} for row in rows_of("2: d1:2 d1:1")]
    verdict = audit(table(rows))
    assert (verdict.tally.early, verdict.tally.late) == (1, 1)
    assert verdict.violations["seq"].to_pylist() == [2 + offset, 1 + offset]


def test_a_block_is_as_wide_as_memory_allows() -> None:
    assert block_width(200_000, 256 << 20) == 160
    assert block_width(10**9, 1) == 1
    assert block_width(0, 1 << 20) > 0


def a_run(nodes: int = 4, rounds: int = 3) -> list[Row]:
    """Everyone broadcasts in turn and everyone delivers everything at once: all messages are in one chain."""
    positions = dict.fromkeys(range(nodes), 0)
    rows: list[Row] = []
    for step in range(nodes * rounds):
        message = {"origin": step % nodes, "seq": step // nodes + 1}
        for kind, node in [("broadcast", step % nodes), *(("deliver", node) for node in range(nodes))]:
            t = 100 * step + (kind == "deliver")
            rows.append({"node": node, "pos": positions[node], "t": t, "kind": kind} | message)
            positions[node] += 1
    return rows


def nth_delivery(rows: list[Row], node: int, n: int) -> int:
    return [i for i, row in enumerate(rows) if row["kind"] == "deliver" and row["node"] == node][n]


@given(st.integers(0, 3), st.integers(0, 10), st.integers(1, 11))
def test_two_deliveries_that_change_places_are_found(node: int, n: int, distance: int) -> None:
    rows = a_run()
    m = min(n + distance, 11)
    i, j = nth_delivery(rows, node, n), nth_delivery(rows, node, m)
    first, second = rows[i], rows[j]
    rows[i], rows[j] = first | {"pos": second["pos"]}, second | {"pos": first["pos"]}
    try:
        truth = judge(table(rows))
    except BrokenLog:  # a message moved before its own broadcast makes the log itself impossible
        with pytest.raises(BrokenLog):
            audit(table(rows))
        return
    verdict = audit(table(rows), pairs=True)
    assert verdict.pairs == len(truth.pairs) > 0
    early = {(row["node"], row["origin"], row["seq"]) for row in verdict.violations.to_pylist()}
    assert (node, second["origin"], second["seq"]) in early


@given(st.integers(0, 3), st.integers(0, 11))
def test_a_lost_delivery_is_no_violation_of_order(node: int, n: int) -> None:
    rows = a_run()
    del rows[nth_delivery(rows, node, n)]
    assert audit(table(rows)).outcome == ("causal" if judge(table(rows)).pairs == set() else "violated")


@given(st.integers(0, 3), st.integers(0, 11))
def test_a_repeated_delivery_is_found_and_named(node: int, n: int) -> None:
    rows = a_run()
    again = rows[nth_delivery(rows, node, n)] | {"pos": 1000}
    verdict = audit(table([*rows, again]))
    assert verdict.tally.duplicates == 1
    (row,) = verdict.violations.to_pylist()
    assert (row["node"], row["pos"], row["origin"], row["seq"]) == (node, 1000, again["origin"], again["seq"])


@given(st.integers(0, 3), st.integers(0, 11))
def test_a_delivery_before_its_broadcast_is_found_and_named(node: int, n: int) -> None:
    rows = a_run()
    row = rows[nth_delivery(rows, node, n)]
    row["t"] -= 2
    verdict = audit(table(rows), clock="global")
    assert verdict.tally.before_broadcast == 1
    (found,) = verdict.violations.to_pylist()
    assert (found["node"], found["pos"], found["problem"]) == (node, row["pos"], "before-broadcast")
