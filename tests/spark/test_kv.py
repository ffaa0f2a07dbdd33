"""Key-value histories on Spark: the verdict of one process."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest

import antecast
from antecast.core.errors import ConfigurationError, InputError
from antecast.kv import check as check_here
from antecast.kv.history import INITIAL_CODE, Kind, Status
from antecast.kv.tables import history_of
from antecast.spark.kv import check

sys.path.insert(0, str(Path(__file__).parents[1] / "kv"))
from published import ABORTED, ANOMALIES, INDETERMINATE, X, build, r, t, w

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
    """Each in sessions and under keys of its own. Beside a cycle in causality nothing else is judged."""
    names = set(ANOMALIES) - {"cyclic-causal-order"}
    frame = frame_of(spark, *(build(ANOMALIES[name]) for name in sorted(names)))
    there = check(frame, initial="none", task_rows=40)
    here = check_here(history_of(frame.toArrow(), initial="none"))
    assert there.levels == here.levels
    assert there.counts == here.counts and set(there.counts) <= names
    assert {witness.anomaly for witness in there.witnesses} >= {"conflict-CO", "aborted-read", "intermediate-read"}


def test_indeterminate_transactions_and_a_witness_that_has_to_be_fetched(spark):
    doubtful = [t(5, w(9, 1), status=INDETERMINATE), t(6, r(9, 1)), t(6, w(9, 2), status=ABORTED)]
    history = build([*doubtful, *ANOMALIES["conflict-AO"], t(7, w(X, 8), status=INDETERMINATE)])
    there, here = check(frame_of(spark, history), initial="none"), check_here(history)
    assert there.levels == here.levels and there.levels["CC"] == "kept"
    assert there.counts == here.counts == {"conflict-AO": 1}
    assert {each.place.line for each in there.witness.events} == {each.place.line for each in here.witness.events}
    assert len(there.witness.events) == 8


@pytest.mark.parametrize(
    "reads",
    [[t(1, r(X, 1), r(X, 0))], [t(1, r(X, 2)), t(1, w(X, 3), r(X, 1))]],
)
def test_reads_of_what_was_overwritten_break_the_same_guarantees(spark, reads):
    history = build([t(0, w(X, 1), w(X, 2)), *reads])
    there, here = check(frame_of(spark, history), initial="none"), check_here(history)
    assert there.levels == here.levels and there.levels["monotonic-reads"] == "violated"
    assert there.counts == here.counts


def test_what_an_indeterminate_transaction_wrote_like_others_is_open(spark):
    lost = {"status": INDETERMINATE}
    history = build([t(0, w(X, 2), **lost), t(1, r(X, 2), w(X, 2)), t(2, w(9, 1))])
    assert set(check_here(history).levels.values()) == {"kept"}
    there = check(frame_of(spark, history), initial="none")
    assert set(there.levels.values()) == {"inconclusive"} and "write each value once" in there.missing[0]


def test_nothing_that_was_committed_is_no_verdict(spark):
    history = build([t(0, w(X, 1), status=ABORTED), t(1, w(X, 2), status=INDETERMINATE)])
    there, here = check(frame_of(spark, history), initial="none"), check_here(history)
    assert there.levels == here.levels and set(there.levels.values()) == {"inconclusive"}
    assert there.missing == here.missing and "nothing was judged" in there.missing[0]


def test_reads_of_the_initial_state_may_be_marked(spark):
    rows = {"session": ["a", "a"], "txn": [0, 1], "pos": [0, 1], "kind": ["write", "read"], "key": ["x", "x"]}
    table = pa.table({**rows, "value": pa.array([7, None], pa.int64()), "initial": [False, True]})
    here, there = check_here(history_of(table)), check(spark.createDataFrame(table))
    assert here.levels == there.levels and there.levels["read-your-writes"] == "violated"


def test_histories_in_several_files_are_those_of_one_process(spark, tmp_path):
    plume = [tmp_path / "1.txt", tmp_path / "2.txt"]
    plume[0].write_text("w(1,5,0,0)\nr(1,0,1,1)\n")
    plume[1].write_text("r(1,5,1,2)\nr(1,0,1,3)\nw(1,0,2,4)\n")
    elle = [tmp_path / "1.edn", tmp_path / "2.edn"]
    elle[0].write_text("{:type :invoke, :process 0, :f :txn, :value [[:w x 1]]}\n")
    elle[1].write_text(
        "{:type :fail, :process 0, :f :txn, :value [[:w x 1]]}\n"
        "{:type :ok, :process 1, :f :txn, :value [[:r x 1] [:w y 1]]}\n"
    )
    assert (
        antecast.audit(plume).outcome == "kept" and antecast.audit(plume, engine="spark").outcome == "inconclusive"
    )
    here, there = antecast.audit(elle), antecast.audit(elle, engine="spark")
    assert here.counts == there.counts == {"aborted-read": 1} and here.levels == there.levels


HEADER = "session,txn,kind,key,value\n"
POSITIONS = HEADER.replace("value", "value,pos")
MANY = {
    "positions over files, out of order": (
        *(POSITIONS + "b,2,read,x,1,20\n", POSITIONS + "a,1,write,x,1,1\na,2,write,x,2,2\nb,1,read,x,2,10\n"),
        "violated",
    ),
    "positions over files, in order": (
        *(POSITIONS + "b,2,read,x,2,20\n", POSITIONS + "a,1,write,x,1,1\na,2,write,x,2,2\nb,1,read,x,1,10\n"),
        "kept",
    ),
    "a transaction that goes on": (HEADER + "a,1,write,x,1\na,2,write,x,2\n", HEADER + "a,1,write,y,1\n", None),
    "runs": (f"run,{HEADER}1,a,1,write,x,1\n", f"run,{HEADER}2,b,1,read,x,1\n", "violated"),
    "a run in one of them": (f"run,{HEADER}1,a,1,write,x,1\n", HEADER + "b,1,read,x,1\n", None),
    "a table without rows": (HEADER + "a,1,write,x,1\n", HEADER, "kept"),
    "columns in another order": (HEADER + "a,1,write,x,1\n", "value,key,kind,txn,session\n1,x,read,1,b\n", "kept"),
}


@pytest.mark.parametrize("name", MANY)
def test_tables_in_several_files_are_one_table(spark, name, tmp_path):
    *texts, outcome = MANY[name]
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    if outcome is None:
        told = []
        for engine in ("local", "spark"):
            with pytest.raises(InputError) as error:
                antecast.audit(files, model="kv", engine=engine)
            told.append(str(error.value))
        assert told[0] == told[1]
        return
    here, there = (antecast.audit(files, model="kv", engine=engine) for engine in ("local", "spark"))
    assert here.outcome == there.outcome == outcome
    assert (here.levels, here.counts) == (there.levels, there.counts)


@pytest.mark.parametrize(
    "values", [('"value":1', '"value":1.0'), ('"value":1', '"value":"1"'), ('"value":true', '"value":"True"')]
)
def test_values_of_several_files_are_equal_or_refused_as_in_one_process(spark, values, tmp_path):
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file, kind, value in zip(files, ("write", "read"), values, strict=True):
        file.write_text(f'{{"session":"{kind}","txn":1,"kind":"{kind}","key":"x",{value}}}\n')
    told = []
    for engine in ("local", "spark"):
        try:
            told.append(antecast.audit(files, model="kv", engine=engine).outcome)
        except InputError as error:
            told.append(str(error))
    assert told[0] == told[1]


def test_a_keyword_is_not_its_text_on_spark_either(spark, tmp_path):
    (tmp_path / "h.edn").write_text(
        '{:process 0 :type :ok :f :txn :value [[:w :x 1]]}\n{:process 1 :type :ok :f :txn :value [[:r "x" 1]]}\n'
    )
    for engine in ("local", "spark"):
        assert antecast.audit(tmp_path / "h.edn", engine=engine).counts == {"thin-air-read": 1}


def test_frames_have_runs_as_tables_have(spark):
    rows = {"session": ["a", "b"], "txn": [0, 0], "pos": [0, 0], "kind": ["write", "read"], "key": ["x", "x"]}
    table = pa.table({**rows, "value": [7, 7], "run": [1, 2]})
    here, there = check_here(history_of(table)), check(spark.createDataFrame(table))
    assert here.levels == there.levels and here.counts == there.counts == {"thin-air-read": 1}


def test_columns_of_a_frame_that_are_named_and_not_there_are_refused(spark):
    """Without its column of outcomes, what was aborted would pass as committed."""
    frame = frame_of(spark, build(ANOMALIES["aborted-read"]))
    assert antecast.audit(frame, model="kv").outcome == "violated"
    for columns, problem in (
        ({"status": "outcome"}, "no column 'outcome'"),
        ({"run": "test"}, "no column 'test'"),
        ({"sesion": "txn"}, "no such column 'sesion'"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            antecast.audit(frame, model="kv", columns=columns)
    with pytest.raises(ConfigurationError, match="--engine: is an option for files"):
        antecast.audit(frame, model="kv", engine="local")
