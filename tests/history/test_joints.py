"""Joints change the size of the matrix of dependencies, never what it says."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from history_logs import tables
from hypothesis import given
from hypothesis import strategies as st

from antecast.history.audit import audit
from antecast.history.blocks import check_block
from antecast.history.dependencies import Dependencies, Ordered, reduce, sketch, topological_order
from antecast.history.histories import Reading, read_histories
from antecast.history.joints import with_joints
from antecast.history.messages import MessageIndex
from antecast.history.oracle import judge
from antecast.history.rows import rereadable
from antecast.history.violations import Tally
from antecast.history.witness import dependency_chain


def rounds(nodes: int, count: int, seed: int, *, faults: int = 0, runs: int = 1) -> pa.Table:
    """All nodes broadcast in rounds and hear of the round before in any order; some hear of this one already.

    A fault is a delivery that is missing, or that comes later in its node's history.
    """
    draw = random.Random(seed)
    rows = []
    for run in range(runs):
        heard: dict[int, list[tuple[str, int, int]]] = {node: [] for node in range(nodes)}
        coming: dict[int, list[tuple[str, int, int]]] = {node: [] for node in range(nodes)}
        for number in range(1, count + 1):
            for node in range(nodes):
                heard[node] += draw.sample(coming[node], len(coming[node]))
                coming[node] = []
            for node in draw.sample(range(nodes), nodes):
                heard[node].append(("broadcast", node, number))
                for other in set(range(nodes)) - {node}:
                    soon = draw.random() < 0.02
                    (heard if soon else coming)[other].append(("deliver", node, number))
        for _ in range(faults):
            history = heard[draw.randrange(nodes)]
            at = draw.choice([i for i, each in enumerate(history) if each[0] == "deliver"])
            event = history.pop(at)
            if draw.random() < 0.7:
                history.insert(draw.randint(at, len(history)), event)
        for node, history in heard.items():
            rows += [(run, node, pos, *event) for pos, event in enumerate(history)]
    columns = zip(*rows, strict=True)
    return pa.table(dict(zip(("run", "node", "pos", "kind", "origin", "seq"), columns, strict=True)))


def read(events: pa.Table, parts: int) -> tuple[MessageIndex, list[Reading], Dependencies]:
    """The log read by parts of its nodes, and its reduced dependencies."""
    index = MessageIndex.read(rereadable(events)())
    names = sorted({(row.get("run", ""), row["node"]) for row in events.to_pylist()})
    part_of = {name: i % parts for i, name in enumerate(names)}
    rows_in = np.array([part_of[row.get("run", ""), row["node"]] for row in events.to_pylist()], np.int64)
    readings = [
        read_histories(rereadable(events.filter(pa.array(rows_in == part)))(), index) for part in range(parts)
    ]
    return index, readings, Dependencies.gather([sketch(each.histories, index) for each in readings])


def both(events: pa.Table, parts: int) -> tuple[MessageIndex, list[Reading], Dependencies, Dependencies]:
    """The dependencies after one round, without joints and with them."""
    index, readings, first = read(events, parts)
    reduced = [reduce(each.histories, index, first) for each in readings]
    joined = [
        with_joints(part, each.histories, index, few=0) for part, each in zip(reduced, readings, strict=True)
    ]
    return index, readings, Dependencies.gather(reduced), Dependencies.gather(joined)


def closure(matrix: Dependencies) -> list[set[int]]:
    """The messages in the past of each message; joints lead there and do not count."""
    order, cycle = topological_order(matrix)
    assert not cycle
    assert sorted(order.tolist()) == list(range(len(matrix)))
    past: list[set[int]] = [set() for _ in range(len(matrix))]
    for row in order.tolist():
        for dep in matrix.of(row).tolist():
            past[row] |= past[dep] | ({dep} if dep < len(matrix.messages) else set())
    return past[: len(matrix.messages)]


LOGS = st.one_of(
    tables(),
    st.builds(
        rounds,
        st.integers(3, 9),
        st.integers(2, 6),
        st.integers(0, 10**6),
        faults=st.integers(0, 4),
        runs=st.integers(1, 3),
    ),
)


@given(LOGS, st.integers(1, 3))
def test_the_closure_is_the_same(events: pa.Table, parts: int) -> None:
    _, _, plain, joined = both(events, parts)
    _, cycle = topological_order(plain)
    if cycle:
        assert topological_order(joined)[1]
        return
    assert closure(joined) == closure(plain)


@given(LOGS, st.integers(1, 3))
def test_the_same_violations_are_found(events: pa.Table, parts: int) -> None:
    index, readings, plain, joined = both(events, parts)
    if topological_order(plain)[1]:
        return
    tallies = []
    for matrix in (plain, joined):
        order, _ = topological_order(matrix)
        ordered = Ordered.of(matrix, order)
        checks = [check_block(each.histories, index, ordered, pairs=True) for each in readings]
        tallies.append((sum((check.tally for check in checks), Tally()), [check.violations for check in checks]))
    assert tallies[0] == tallies[1]


@pytest.mark.parametrize("parts", [1, 3])
def test_rounds_need_few_dependencies(parts: int) -> None:
    nodes, count = 60, 6
    _, _, plain, joined = both(rounds(nodes, count, seed=5), parts)
    messages = nodes * count
    assert len(plain.deps) > nodes / 2 * messages
    assert 0 < len(joined.joints) < messages / 4
    assert len(joined.deps) < len(plain.deps) / 4


def test_the_verdict_is_that_of_the_oracle_where_joints_are_made() -> None:
    for seed in range(6):
        events = rounds(12, 6, seed, faults=3)
        verdict, truth = audit(events, pairs=True), judge(events)
        assert verdict.pairs == len(truth.pairs)


def test_a_chain_leads_through_joints() -> None:
    events = rounds(12, 6, seed=3, faults=4)
    index, _, _, joined = both(events, 2)
    truth = judge(events)
    early = [row for row in audit(events).violations.to_pylist() if row["problem"] == "early"]
    assert early and len(joined.joints)
    for row in early:
        chain = [(index.origin_name(each), int(index.seq[each])) for each in dependency_chain(row, index, joined)]
        names = {(each.origin, each.seq): each for each in truth.past}
        for before, after in pairwise(chain):
            assert truth.happened_before(names[before], names[after])
