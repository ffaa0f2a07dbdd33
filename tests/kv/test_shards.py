"""A history in shards says what it says as a whole: what Spark's tasks do, in one process."""

from dataclasses import fields

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from small_histories import histories, told

from antecast.kv.assembly import assemble
from antecast.kv.causality import Graph, make_graph, order_of
from antecast.kv.convergence import demands
from antecast.kv.engine import analyse
from antecast.kv.memory import broken_sessions
from antecast.kv.resolve import resolve
from antecast.kv.shards import Stored, resolve_shard


def in_shards(history, count):
    """The operations as Spark hands them out: by key, with the number of each transaction in the whole history."""
    found = resolve(history)
    node = np.empty(len(found), np.int32)
    node[found.node_txn] = np.arange(len(found))
    rows = pa.table(
        {
            "node": node[history.txn],
            "pos": np.arange(len(history)),
            "kind": history.kind,
            "key": history.key,
            "value": np.where(history.value < 0, 10**6, history.value),
            "initial": np.zeros(len(history), np.bool_),
            "status": np.zeros(len(history), np.int8),
        }
    )
    turned = rows.take(pa.array(np.random.default_rng(1).permutation(len(rows))))
    parts = [turned.filter(pa.array(turned["key"].to_numpy() % count == each)) for each in range(count)]
    return [resolve_shard(part, found.start, 10**6) for part in parts if len(part)], found.start


@settings(max_examples=20)
@given(histories(txns=9, sessions=3, most=3, keys=4, faults=True), st.integers(1, 3))
def test_shards_together_are_the_history(tmp_path_factory, history, count):
    whole = analyse(resolve(history), every=True)
    shards, start = in_shards(history, count)
    assert sum(each.misreads.sum() for each in shards) == len(whole.resolved.misread)
    store = Stored(str(tmp_path_factory.mktemp("store")))
    resolved, graph = assemble(shards, start, store)
    plain = make_graph(resolved)
    for each in fields(Graph):
        assert getattr(graph, each.name).tolist() == getattr(plain, each.name).tolist(), each.name
    order = order_of(graph)
    assert (len(order) < len(graph)) == whole.cyclic
    if whole.cyclic:
        return
    store.write_order(order, graph.sessions)
    for first in range(graph.sessions):
        store.place(first, first + 1)
    judged = [store.judge(first, min(first + 2, graph.sessions)) for first in range(0, graph.sessions, 2)]
    before, after, stale = (np.concatenate([each[index] for each in judged]) for index in range(3))
    converges = len(order_of(graph, before, after)) == len(graph) and not len(stale)
    asked = demands(graph, order)
    expected = len(order_of(graph, asked.before, asked.after)) == len(graph) and not len(asked.stale_initial)
    assert converges == expected, told(history)
    broken = {each.session for part in judged for each in part.broken}
    assert broken == {each.session for each in broken_sessions(graph, order)}, told(history)


def test_reads_of_one_transaction_keep_their_order_across_shards(tmp_path):
    """Read committed depends on which key a transaction reads first, and the keys are in different shards."""
    from published import ANOMALIES, build

    for name in ("non-monotonic-read-CO", "fractured-read-CO"):
        history = build(ANOMALIES[name])
        shards, start = in_shards(history, 2)
        assert len(shards) == 2
        resolved, _ = assemble(shards, start, Stored(str(tmp_path)))
        assert resolved.r_from.tolist() == resolve(history).r_from.tolist()
