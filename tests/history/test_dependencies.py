"""The dependency matrix: its closure is happened-before, and in causal logs nothing in it is superfluous."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from history_logs import Row, histories, log, table, tables
from hypothesis import given
from hypothesis import strategies as st

from antecast.history.dependencies import Dependencies, direct_dependencies, reduce, sketch, topological_order
from antecast.history.histories import read_histories
from antecast.history.messages import MessageIndex
from antecast.history.oracle import Message, judge
from antecast.history.rows import rereadable


def read(events: pa.Table) -> tuple[MessageIndex, Dependencies]:
    index = MessageIndex.read(rereadable(events)())
    return index, direct_dependencies(read_histories(rereadable(events)(), index).histories, index)


def names(index: MessageIndex) -> list[Message]:
    nodes = [index.nodes.names[code] for code in index.origin]
    return [Message(name.run, name.node, int(seq)) for name, seq in zip(nodes, index.seq, strict=True)]


def closure(matrix: Dependencies) -> list[set[int]]:
    order, cycle = topological_order(matrix)
    assert not cycle
    past: list[set[int]] = [set() for _ in range(len(matrix))]
    for m in order.tolist():
        for dep in matrix.of(m).tolist():
            past[m] |= past[dep] | {dep}
    return past


@given(tables())
def test_the_closure_is_happened_before(events: pa.Table) -> None:
    truth = judge(events)
    index, matrix = read(events)
    message = names(index)
    members = list(truth.past)
    assert len(message) == len(members)
    for m, past in enumerate(closure(matrix)):
        bits = truth.past[message[m]]
        assert {message[x] for x in past} == {x for i, x in enumerate(members) if bits >> i & 1}


@given(histories(causal=True))
def test_in_a_causal_log_it_is_the_transitive_reduction(rows: list[Row]) -> None:
    truth = judge(table(rows))
    index, matrix = read(table(rows))
    message = names(index)
    for m, name in enumerate(message):
        direct = truth.direct[name]
        needed = {x for x in direct if not any(truth.happened_before(x, y) for y in direct)}
        deps = matrix.of(m).tolist()
        assert len(deps) == len(set(deps))
        assert {message[dep] for dep in deps} == needed


@given(tables(), st.integers(0, 3))
def test_the_width_of_the_sketch_does_not_change_the_closure(events: pa.Table, width: int) -> None:
    index, matrix = read(events)
    history = read_histories(rereadable(events)(), index).histories
    narrow = Dependencies.gather([sketch(history, index, width=width)])
    for _ in range(2):
        narrow = Dependencies.gather([reduce(history, index, narrow)])
    assert closure(narrow) == closure(matrix)


def test_a_source_delivered_against_its_order_is_covered_by_its_latest_message() -> None:
    index, matrix = read(log("1: b1:1 b1:2\n2: d1:2 d1:1 b2:1"))
    message = names(index)
    assert {message[dep] for dep in matrix.of(message.index(Message(None, 2, 1)))} == {Message(None, 1, 2)}


@given(tables())
def test_a_topological_order_has_every_message_after_its_dependencies(events: pa.Table) -> None:
    _, matrix = read(events)
    order, _ = topological_order(matrix)
    assert sorted(order.tolist()) == list(range(len(matrix)))
    place = np.argsort(order)
    for m in range(len(matrix)):
        assert (place[matrix.of(m)] < place[m]).all()


def test_a_cycle_is_given_from_cause_to_effect() -> None:
    deps = {0: [], 1: [0, 3], 2: [1], 3: [2], 4: [3]}
    matrix = Dependencies(
        np.arange(5, dtype=np.int32),
        np.cumsum([0, *(len(each) for each in deps.values())]),
        np.array([dep for each in deps.values() for dep in each], np.int32),
    )
    _, cycle = topological_order(matrix)
    assert sorted(cycle) == [1, 2, 3]
    for before, after in zip([cycle[-1], *cycle], cycle, strict=False):
        assert before in deps[after]


@given(st.permutations(range(12)), st.booleans(), st.data())
def test_messages_are_found_by_name(seqs: list[int], contiguous: bool, data: st.DataObject) -> None:
    seqs = sorted(seqs) if contiguous else seqs
    text = f"1: {' '.join(f'b1:{seq}' for seq in seqs)}\n7: b7:{data.draw(st.integers(0, 2**62))}"
    index = MessageIndex.read(rereadable(log(text))())
    origin, seq = index.origin, index.seq
    assert index.find(origin, seq).tolist() == list(range(13))
    assert [index.seq[m] for m in range(13) if index.origin_name(m) == 1] == seqs
    strangers = index.find(np.array([0, 0, 0, -1, 9], np.int32), np.array([12, 13, 2**62, 1, 1]))
    assert strangers.tolist() == [-1] * 5


@pytest.mark.parametrize("name", ["audit", "checks", "metrics"])
def test_numba_is_not_imported_before_it_is_needed(name: str) -> None:
    import subprocess
    import sys

    code = f"import sys, antecast.history.{name}; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
