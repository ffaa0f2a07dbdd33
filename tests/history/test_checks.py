"""Each property of broadcast on logs that keep it, and on logs that do not."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from history_logs import Row, histories, log, rows_of, table, tables
from hypothesis import given
from hypothesis import strategies as st

from antecast.history import checks
from antecast.history.oracle import judge

CLEAN = log("1: b1:1 d1:1 d2:1\n2: d1:1 b2:1 d2:1\n3: d1:1 d2:1")


def timed(text: str, *membership: tuple[str, int, int]) -> pa.Table:
    """A log in which x:n is broadcast at time 10 n, and each (kind, node, t) changes the membership."""
    rows = [
        row | {"pos": row["pos"] + 100, "t": 10 * row["seq"] + (row["kind"] == "deliver")} for row in rows_of(text)
    ]
    for pos, (kind, node, t) in enumerate(membership):
        rows.append({"node": node, "pos": pos, "t": t, "kind": kind, "origin": None, "seq": None})
    return table(rows)


def test_a_clean_log_passes() -> None:
    for check in (checks.causal_order, checks.fifo_order, checks.no_duplication, checks.no_creation):
        result = check(CLEAN)
        assert (result.ok, result.count, result.example) == (True, 0, None)
        assert str(result).endswith(": holds")


def test_causal_order_tells_the_witness() -> None:
    result = checks.causal_order(log("1: b1:1\n2: d1:1 b2:1\n3: d2:1 d1:1"))
    assert (result.ok, result.count) == (False, 1)
    assert result.example is not None
    assert result.example.startswith("node 3 delivered 2:1 (position 0) before 1:1 (position 1)")


def test_fifo_order_is_about_one_source() -> None:
    assert checks.fifo_order(log("1: b1:1\n2: d1:1 b2:1\n3: d2:1 d1:1")).ok
    result = checks.fifo_order(log("1: b1:1 b1:2\n2: b2:1\n3: d1:2 d2:1 d1:1"))
    assert result.count == 1
    assert result.example == (
        "node 3 delivered 1:2 (position 0) before 1:1 (position 2), which was broadcast first"
    )


@given(tables())
def test_fifo_order_agrees_with_the_oracle(events: pa.Table) -> None:
    truth = judge(events)
    overtaken = {(node, x) for node, x, m in truth.pairs if x.source == m.source}
    result = checks.fifo_order(events)
    assert result.count == len(overtaken)
    assert (result.example is None) == result.ok


def test_no_duplication() -> None:
    result = checks.no_duplication(log("1: b1:1\n2: d1:1 d1:1 d1:1"))
    assert result.count == 2
    assert result.example == "node 2 delivered 1:1 at position 1, the first time at position 0"


def test_no_creation() -> None:
    result = checks.no_creation(log("1: b1:1\n2: d1:1 d1:2"))
    assert (result.count, result.example) == (1, "1:2 delivered at node 2, position 1, was never broadcast")
    rows = [row | {"t": -row["node"]} for row in rows_of("1: b1:1\n2: d1:1")]
    result = checks.no_creation(table(rows), clock="global")
    assert (result.count, result.example) == (1, "node 2 delivered 1:1 at position 0, earlier than its broadcast")


def test_validity_asks_that_a_node_delivers_its_own() -> None:
    assert checks.validity(timed("1: b1:1 d1:1 b1:2 d1:2")).ok
    result = checks.validity(timed("1: b1:1 d1:1 b1:2\n2: d1:1"))
    assert (result.count, result.example) == (1, "node 1 broadcast 1:2 at position 102 and never delivered it")


def test_validity_does_not_ask_it_of_a_node_that_goes() -> None:
    text = "1: b1:1"
    assert checks.validity(timed(text, ("crash", 1, 11))).ok
    assert checks.validity(timed(text, ("leave", 1, 11))).ok
    back = timed(text, ("crash", 1, 11), ("recover", 1, 12))
    assert checks.validity(back).ok
    assert checks.validity(back, recovered=True).count == 1


def test_completeness_asks_every_node_that_stays() -> None:
    text = "1: b1:1 b1:2\n2: d1:1 d1:2\n3: d1:1"
    result = checks.completeness(timed(text))
    assert (result.count, result.example) == (1, "node 3 never delivered 1:2")
    assert checks.completeness(timed(text, ("leave", 3, 30))).ok
    assert checks.completeness(timed(text, ("join", 3, 21))).ok
    assert checks.completeness(timed(text, ("join", 3, 20))).count == 1


def test_a_node_that_recovers_is_asked_only_on_request() -> None:
    text = "1: b1:1 b1:2 b1:3\n2: d1:1 d1:2 d1:3\n3: d1:3"
    events = timed(text, ("join", 3, 15), ("crash", 3, 17), ("recover", 3, 25))
    assert checks.completeness(events).ok
    result = checks.completeness(events, recovered=True)
    assert (result.count, result.example) == (1, "node 3 never delivered 1:2")


def test_a_node_that_is_down_at_the_end_is_not_asked() -> None:
    text = "1: b1:1\n2: d1:1\n3: b3:9"
    assert checks.completeness(timed(text, ("crash", 3, 95), ("recover", 3, 96), ("crash", 3, 97))).count == 2
    assert checks.completeness(timed("1: b1:1\n2: d1:1", ("join", 3, 0), ("leave", 3, 5))).ok


def test_agreement_is_about_what_somebody_delivered() -> None:
    text = "1: b1:1 b1:2\n2: d1:1\n3:"
    events = timed(text, ("crash", 1, 30), ("join", 3, 0))
    assert checks.completeness(events).count == 3  # 1:1 at node 3, 1:2 at nodes 2 and 3
    result = checks.agreement(events)
    assert (result.count, result.example) == (1, "node 3 never delivered 1:1")


def test_runs_do_not_mix() -> None:
    rows = [row | {"run": "a", "t": 1} for row in rows_of("1: b1:1\n2: d1:1")]
    rows += [row | {"run": "b", "t": 1} for row in rows_of("1: b1:1 b1:2\n3: d1:1 d1:2")]
    assert checks.completeness(table(rows)).ok
    assert checks.completeness(table(rows[:-1])).example == "node 3 never delivered 1:2"


MEMBERSHIP = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "crash", "recover"]), st.integers(0, 4), st.integers(0, 60)),
    max_size=6,
)


@given(histories(), MEMBERSHIP, st.booleans())
def test_completeness_and_agreement_follow_their_definitions(
    rows: list[Row], changes: list[tuple[str, int, int]], recovered: bool
) -> None:
    rows = [row | {"t": t} for t, row in enumerate(rows)]
    changes = sorted(changes, key=lambda change: change[2])
    for pos, (kind, node, t) in enumerate(changes):
        rows.append({"node": node, "pos": 1000 + pos, "t": t, "kind": kind, "origin": None, "seq": None})
    nodes = {row["node"] for row in rows}
    stays_since = {node: _since([each for each in changes if each[1] == node], recovered) for node in nodes}
    sent = {(row["origin"], row["seq"]): row["t"] for row in rows if row["kind"] == "broadcast"}
    has = {(row["node"], (row["origin"], row["seq"])) for row in rows if row["kind"] in ("broadcast", "deliver")}
    missing = [
        (node, message)
        for node, since in stays_since.items()
        for message, t in sent.items()
        if since <= t and (node, message) not in has
    ]
    held = {message for node, message in has if message in sent and stays_since[node] <= sent[message]}
    agreed = [(node, message) for node, message in missing if message in held]
    for check, lacking in ((checks.completeness, missing), (checks.agreement, agreed)):
        result = check(table(rows), recovered=recovered)
        assert result.count == len(lacking)
        assert result.ok or result.example in {f"node {node} never delivered {m[0]}:{m[1]}" for node, m in lacking}


def _since(changes: list[tuple[str, int, int]], recovered: bool) -> float:
    if recovered:
        kinds = [kind for kind, _, _ in changes]
        crashes = [i for i, pair in enumerate(pairwise(kinds)) if pair == ("crash", "recover")]
        changes = [change for i, change in enumerate(changes) if i not in crashes and i - 1 not in crashes]
    if not changes:
        return float("-inf")
    kind, _, t = changes[-1]
    return t if kind in ("join", "recover") else float("inf")


@given(histories(causal=True))
def test_causal_runs_are_fifo(rows: list[Row]) -> None:
    assert checks.fifo_order(table(rows)).ok
