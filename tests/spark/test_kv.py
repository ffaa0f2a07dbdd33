"""Key-value histories on Spark: the verdict of one process."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from antecast.kv import INITIAL, HistoryBuilder, Options
from antecast.kv import check as check_here
from antecast.kv.history import INITIAL_CODE, Kind, Status
from antecast.spark.kv import check

sys.path.insert(0, str(Path(__file__).parents[1] / "kv"))
from published import ABORTED, ANOMALIES, INDETERMINATE, MEMORY, X, Y, build, r, t, w

pytestmark = pytest.mark.spark


def frame_of(spark, *histories):
    """Histories side by side as one DataFrame: sessions and keys have names of their own."""
    rows = {name: [] for name in ("session", "txn", "pos", "kind", "key", "value", "status", "line")}
    for number, history in enumerate(histories):
        place = {}
        for op, txn in enumerate(history.txn.tolist()):
            session = f"{number}/{history.sessions[history.session[txn]]}"
            txns = place.setdefault(session, {})
            rows["session"].append(session)
            rows["txn"].append(txns.setdefault(txn, len(txns)))
            rows["pos"].append(op)
            rows["kind"].append("write" if history.kind[op] == Kind.WRITE else "read")
            rows["key"].append(f"{number}/{history.keys[history.key[op]]}")
            code = int(history.value[op])
            rows["value"].append("none" if code == INITIAL_CODE else str(history.values[code]))
            rows["status"].append(Status(history.status[txn]).name.lower())
            rows["line"].append(int(history.line[op]))
    return spark.createDataFrame(pa.table(rows))


def test_all_published_anomalies_in_one_history(spark):
    """Each in sessions and under keys of its own. A cycle in causality is left out: beside it nothing is judged."""
    histories = [build(each) for name, each in ANOMALIES.items() if name != "cyclic-causal-order"]
    verdict = check(frame_of(spark, *histories), initial="none", task_rows=10)
    assert set(verdict.levels.values()) == {"violated", "inconclusive"}
    expected = set(ANOMALIES) - {"cyclic-causal-order"}
    assert set(verdict.counts) <= expected
    assert {"thin-air-read", "not-my-own-write", "conflict-CO", "non-repeatable-read"} <= set(verdict.counts)
    assert {witness.anomaly for witness in verdict.witnesses} >= {"conflict-CO", "aborted-read"}


@pytest.mark.parametrize("name", ["cyclic-causal-order", "conflict-AO", "conflict-CO", *MEMORY])
def test_an_anomaly_has_the_levels_and_the_witness_of_one_process(spark, name):
    history = build({**ANOMALIES, **MEMORY}[name])
    there, here = check(frame_of(spark, history), initial="none"), check_here(history)
    assert there.levels == here.levels
    assert there.counts == here.counts
    assert [each.place.line for each in there.witness.events] == [each.place.line for each in here.witness.events]


def test_a_kept_history_and_indeterminate_transactions(spark):
    history = build(
        [
            *(t(0, w(X, 1), status=INDETERMINATE), t(1, r(X, 1)), t(1, w(Y, 1))),
            *(t(2, r(Y, 0)), t(2, w(X, 2), status=INDETERMINATE), t(2, w(X, 3), status=ABORTED)),
        ]
    )
    assert check(frame_of(spark, history), initial="none").outcome == check_here(history).outcome == "kept"


def test_values_written_twice_leave_it_open(spark):
    builder = HistoryBuilder()
    for session in (0, 1):
        builder.begin(session)
        builder.write("x", 1)
    builder.begin(2)
    builder.read("x", 1)
    builder.read("y", INITIAL)
    verdict = check(frame_of(spark, builder.build()), Options(), initial="none")
    assert verdict.outcome == "inconclusive" and "write each value once per key" in verdict.missing[0]
