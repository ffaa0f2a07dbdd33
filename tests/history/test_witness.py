"""The witness: the smallest story that shows a violation, true in every sentence."""

from __future__ import annotations

import re
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from history_logs import log, rows_of, table, tables
from hypothesis import given

from antecast.history.audit import audit
from antecast.history.dependencies import direct_dependencies
from antecast.history.histories import read_histories
from antecast.history.messages import MessageIndex
from antecast.history.oracle import Judgement, Message, Node, judge
from antecast.history.rows import rereadable
from antecast.history.witness import Witness, find_witness, involved_nodes


def test_a_direct_violation_in_words_and_as_a_diagram() -> None:
    witness = audit(log("1: b1:4\n3: b3:11 d1:4 b3:12\n7: d3:12 d1:4")).witness
    assert witness is not None
    assert witness.words == (
        "node 7 delivered 3:12 (position 0) before 1:4 (position 1), but 1:4 → 3:12: "
        "node 3 delivered 1:4 at position 1 and broadcast 3:12 at position 2."
    )
    assert witness.diagram == "\n".join(
        [
            "node 1             node 3              node 7",
            "broadcast 1:4 @0   |                   |",
            "|                  deliver 1:4 @1      |",
            "|                  broadcast 3:12 @2   |",
            "|                  |                   deliver 3:12 @0",
            "|                  |                   deliver 1:4 @1",
        ]
    )
    assert str(witness) == f"{witness.words}\n\n{witness.diagram}"


def test_a_chain_through_a_message_that_never_came() -> None:
    witness = audit(log("1: b1:1\n2: d1:1 b2:1\n3: d2:1 b3:1\n4: d3:1 d1:1")).witness
    assert witness is not None
    assert witness.chain == ("1:1", "2:1", "3:1")
    assert "1:1 → 2:1 → 3:1" in witness.words
    assert witness.words.endswith("Node 4 never delivered 2:1.")


def test_messages_of_one_source() -> None:
    witness = audit(log("1: b1:1 b1:2\n2: d1:2 d1:1")).witness
    assert witness is not None
    assert "node 1 broadcast 1:1 at position 0 and broadcast 1:2 at position 1" in witness.words
    assert witness.diagram.count("broadcast 1:1") == 1


def test_the_shortest_chain_of_all_violations_is_told() -> None:
    relay = "1: b1:1\n2: d1:1 b2:1\n3: d2:1 b3:1\n4: d3:1 d1:1\n"
    witness = audit(log(relay + "5: d2:1 d1:1")).witness
    assert witness is not None
    assert (witness.node, witness.chain) == (5, ("1:1", "2:1"))


def test_a_broadcast_that_came_too_early_is_called_a_broadcast() -> None:
    events = log("1: b1:1\n2: d1:1 b2:1\n3: d2:1 b3:1 d1:1")
    violations = audit(events).violations
    own = violations.filter(pc.equal(violations["origin"], 3))
    index = MessageIndex.read(rereadable(events)())
    witness = find_witness(own, read_histories(rereadable(events)(), index).histories, index)
    assert witness is not None
    assert witness.words.startswith("node 3 broadcast 3:1 (position 1) before it delivered 1:1 (position 2), but")


def test_other_problems_have_a_witness_too() -> None:
    witness = audit(log("1: b1:1\n2: d1:1 d1:1")).witness
    assert witness is not None
    assert witness.words == "node 2 delivered 1:1 at position 0 and again at position 1."
    rows = [row | {"run": "a", "t": -row["node"]} for row in rows_of("1: b1:1\n2: d1:1")]
    witness = audit(table(rows), clock="global").witness
    assert witness is not None
    assert witness.words == "in run a, node 2 delivered 1:1 (position 0) at a time before its broadcast."


@given(tables())
def test_the_chain_is_true_and_none_is_shorter(events: pa.Table) -> None:
    truth = judge(events)
    witness = audit(events).witness
    if not truth.pairs:
        return
    assert witness is not None
    check(witness, truth)
    assert len(witness.chain) == min(_distance(truth, x, m) for _, x, m in truth.pairs)


@given(tables())
def test_the_rows_of_the_nodes_involved_suffice(events: pa.Table) -> None:
    truth = judge(events)
    if not truth.pairs:
        return
    index = MessageIndex.read(rereadable(events)())
    histories = read_histories(rereadable(events)(), index).histories
    matrix = direct_dependencies(histories, index)
    violations = audit(events).violations
    for i, row in enumerate(violations.to_pylist()):
        if row["problem"] != "early":
            continue
        nodes = set(involved_nodes(row, index, matrix))
        keep = [(each.get("run"), each["node"]) in nodes for each in events.to_pylist()]
        few = read_histories(rereadable(events.filter(pa.array(keep)))(), index).histories
        witness = find_witness(violations.slice(i, 1), few, index)
        assert witness is not None
        assert witness.node == row["node"]
        check(witness, truth)


def check(witness: Witness, truth: Judgement) -> None:
    """Every step of the chain is direct, its ends are in the wrong order, the events of a node in the right."""
    chain = [_parse(name, witness.run, truth) for name in witness.chain]
    for before, after in pairwise(chain):
        assert before in truth.direct[after]
    assert (Node(witness.run, witness.node), chain[0], chain[-1]) in truth.pairs
    for node in {event.node for event in witness.events}:
        positions = [event.pos for event in witness.events if event.node == node]
        assert positions == sorted(set(positions))
    assert len(re.findall(r"@\d+", witness.diagram)) == len(witness.events)


def _parse(name: str, run: object, truth: Judgement) -> Message:
    return next(each for each in truth.past if each.run == run and f"{each.origin}:{each.seq}" == name)


def _distance(truth: Judgement, x: Message, m: Message) -> int:
    """Messages on the shortest chain from x to m."""
    reached, length = {m}, 1
    while x not in reached:
        reached = {before for each in reached for before in truth.direct[each]}
        length += 1
    return length
