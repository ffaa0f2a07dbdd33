"""`antecast audit` as a user meets it: files of any kind in, a verdict and an exit code out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecast.history.schema import EVENTS
from antecast.sim.run import run
from antecast.sim.scenario import make_scenario

Row = dict[str, Any]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def audit(antecast: Call) -> Call:
    """`antecast audit` in a folder of its own."""
    return partial(antecast, "audit")


def rows_of(text: str) -> list[Row]:
    """Rows from a line a node, such as `3: b3:1 d1:4`; positions count from 0."""
    rows: list[Row] = []
    for line in text.strip().splitlines():
        node, *events = line.split()
        for pos, event in enumerate(events):
            origin, seq = event[1:].split(":")
            kind = {"b": "broadcast", "d": "deliver"}[event[0]]
            rows.append({"node": int(node[:-1]), "pos": pos, "kind": kind, "origin": int(origin), "seq": int(seq)})
    return rows


CAUSAL = "1: b1:1\n2: d1:1 b2:1\n3: d1:1 d2:1"
VIOLATED = "1: b1:1\n2: d1:1 b2:1\n3: d2:1 d1:1"
INCONCLUSIVE = "2: d1:1 b2:1\n3: d1:1 d2:1"
BROKEN = "1: b1:1\n2: d1:1 b2:1\n3: d1:1 b2:2"


def write(name: str, rows: list[Row]) -> None:
    """A file in the format that its name tells."""
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
        return
    if ".csv" in file.suffixes:
        cells = [list(rows[0]), *(["" if value is None else value for value in row.values()] for row in rows)]
        lines = [",".join(map(str, row)) for row in cells]
    else:
        lines = [json.dumps(row) for row in rows]
    text = "".join(f"{line}\n" for line in lines).encode()
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)


ENDINGS = [".parquet", ".csv", ".csv.gz", ".jsonl", ".jsonl.gz"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("text", "code", "word"),
    [(CAUSAL, 0, "causal"), (VIOLATED, 1, "violated"), (INCONCLUSIVE, 3, "inconclusive")],
)
def test_the_verdict_comes_first_and_is_the_exit_code(
    audit: Call, ending: str, text: str, code: int, word: str
) -> None:
    write(f"log{ending}", rows_of(text))
    found, out, err = audit(f"log{ending}")
    assert (found, err) == (code, "")
    assert out.startswith(f"{word}: ")


def test_a_violation_is_told_in_words_and_as_a_diagram(audit: Call) -> None:
    write("log.csv", rows_of(VIOLATED))
    _, out, _ = audit("log.csv", "--pairs")
    assert out.splitlines()[:4] == [
        "violated: 3 deliveries of 2 messages at 3 nodes",
        "  1 delivered too early",
        "  1 delivered too late",
        "  1 pairs in the wrong order",
    ]
    assert "node 3 delivered 2:1 (position 0) before 1:1 (position 1), but 1:1 → 2:1" in out
    assert "|                  broadcast 2:1 @1   |" in out


def test_missing_broadcasts_are_counted_and_named(audit: Call) -> None:
    write("log.csv", rows_of(INCONCLUSIVE))
    code, out, _ = audit("log.csv")
    assert code == 3
    assert "2 without a broadcast in the log" in out
    assert "1:1 delivered at node 3, position 0" in out


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_broken_log_is_one_line_with_the_file_and_the_row(audit: Call, ending: str) -> None:
    write(f"log{ending}", rows_of(BROKEN))
    line = {".csv": 6, ".csv.gz": 6}.get(ending, 5)  # a CSV has a header
    problem = "node 3, position 1: broadcasts 2:2, which is not its own message"
    assert audit(f"log{ending}") == (2, "", f"error: log{ending}:{line}: {problem}\n")


def test_lines_are_counted_with_the_empty_ones(audit: Call) -> None:
    write("log.csv", rows_of(BROKEN))
    Path("log.csv").write_text(Path("log.csv").read_text().replace("2,0,", "\n\n2,0,"))
    assert "error: log.csv:8: " in audit("log.csv")[2]


def test_two_events_at_one_position_are_both_found(audit: Call) -> None:
    write("logs/a.jsonl", rows_of(CAUSAL))
    write("logs/b.jsonl", [{"node": 3, "pos": 1, "kind": "deliver", "origin": 1, "seq": 1}])
    code, _, err = audit("logs")
    assert code == 2
    assert "delivery of 2:1 and delivery of 1:1" in err
    assert err.startswith("error: logs/b.jsonl:1: ") and "(the other is logs/a.jsonl:5)" in err


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("field", ["node", "pos", "origin", "seq", "kind"])
def test_a_value_that_is_missing_is_found(audit: Call, ending: str, field: str) -> None:
    rows = rows_of(CAUSAL)
    rows[3][field] = None
    write(f"log{ending}", rows)
    line = 5 if ".csv" in ending else 4
    code, _, err = audit(f"log{ending}")
    assert code == 2
    assert err.startswith(f"error: log{ending}:{line}: ") and f"{field} is null" in err


@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("log.csv", "3,1,deliver", "3,one,deliver", ":6: pos is 'one', which is not a whole number"),
        ("log.csv", "3,1,deliver", "3,+1,deliver", ":6: pos is '+1', which is not a whole number"),
        ("log.csv", "3,1,deliver", "3,1_0,deliver", ":6: pos is '1_0', which is not a whole number"),
        ("log.csv", "3,1,deliver", "3,1.5,deliver", ":6: pos is '1.5', which is not a whole number"),
        (
            "log.csv",
            "3,1,deliver",
            "3,1/5/24,deliver",
            ":6: pos is '1/5/24', which is not a whole number, nor a time such as 2024-05-01T12:00:00.1Z",
        ),
        (
            "log.csv",
            "node,pos,kind,origin,seq",
            "node;pos;kind;origin;seq",
            ": no column 'node', 'pos', 'kind', 'origin', 'seq'; the file has node;pos;kind;origin;seq;"
            " values must be separated by commas",
        ),
        ("log.csv", "3,1,deliver", "3,deliver", ":6: 4 fields, where the header has 5"),
        ("log.jsonl", '"seq": 1}\n{"node": 3', '"seq": 1\n{"node": 3', ":3: not JSON: "),
        ("log.jsonl", '"pos": 1, "kind": "b', '"pos": "x", "kind": "b', ':3: pos is "x", where a whole number'),
        ("log.jsonl", '{"node": 2, "pos": 1', '{"node": "2", "pos": 1', ':3: node is "2", where a whole number'),
        ("log.jsonl", '{"node": 2, "pos": 1', '[{"node": 2, "pos": 1', ":3: not JSON: "),
    ],
)
def test_a_malformed_line_is_named(audit: Call, name: str, old: str, new: str, problem: str) -> None:
    write(name, rows_of(CAUSAL))
    text = Path(name).read_text()
    assert text.count(old) == 1 or "}\n" in old
    Path(name).write_text(text.replace(old, new, 1))
    code, out, err = audit(name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {name}{problem}")


def test_names_are_mapped(audit: Call) -> None:
    rows = [
        {"host": row["node"], "offset": row["pos"], "type": "recv" if row["kind"] == "deliver" else "send"}
        | {"src": row["origin"], "n": row["seq"], "t": "12:30"}
        for row in rows_of(VIOLATED)
    ]
    for name in ("log.csv", "log.parquet"):
        write(name, rows)
        code, _, err = audit(name)
        assert code == 2
        assert (
            "no column 'node', 'pos', 'kind', 'origin', 'seq'; the file has host, offset, type, src, n, t" in err
        )
        assert "say which they are with --map node=COLUMN,pos=COLUMN,kind=COLUMN,origin=COLUMN,seq=COLUMN" in err
        code, _, err = audit(name, "--map", "node=hst,pos=offset,kind=type,origin=src,seq=n")
        assert "no column 'hst'; the file has" in err and "say which it is with --map node=COLUMN\n" in err
        mapped = ("--map", "node=host,pos=offset,kind=type,origin=src,seq=n")
        code, _, err = audit(name, *mapped)
        assert code == 2
        assert "the kinds are recv, send; say which means what with --kinds" in err
        code, out, _ = audit(name, *mapped, "--kinds", "broadcast=send, deliver=recv")
        assert (code, out.split(":")[0]) == (1, "violated")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--map", "host=node"),
        ("--map", "node"),
        ("--map", "node=a,node=b"),
        ("--kinds", "send=x"),
        ("--kinds", ""),
    ],
)
def test_a_map_that_says_nothing_is_refused(audit: Call, arguments: tuple[str, str]) -> None:
    write("log.csv", rows_of(CAUSAL))
    code, _, err = audit("log.csv", *arguments)
    assert code == (2 if arguments[1] else 0)
    assert err.startswith(f"error: {arguments[0]}: expected NAME=VALUE") or not arguments[1]


def test_kinds_may_be_numbers(audit: Call) -> None:
    rows = [row | {"kind": 1 if row["kind"] == "deliver" else 0} for row in rows_of(VIOLATED)]
    for name in ("log.csv", "log.parquet", "log.jsonl"):
        write(name, rows)
        assert audit(name, "--kinds", "broadcast=0,deliver=1")[0] == 1


def test_a_log_in_many_files_is_one_log(audit: Call) -> None:
    rows = rows_of(VIOLATED)
    for number, row in enumerate(rows):
        write(f"logs/deep/part-{number}.csv", [row])
    write("logs/_ignored.csv", rows)
    for paths in (["logs"], ["logs/deep/*.csv"], [f"logs/deep/part-{n}.csv" for n in range(len(rows))]):
        code, out, _ = audit(*paths)
        assert code == 1
        assert "3 deliveries of 2 messages at 3 nodes" in out


def test_files_that_do_not_go_together_are_refused(audit: Call) -> None:
    write("a.jsonl", rows_of(CAUSAL))
    write("b.jsonl", [row | {"node": f"n{row['node']}"} for row in rows_of(CAUSAL)])
    code, _, err = audit("a.jsonl", "b.jsonl")
    assert (code, err) == (2, "error: b.jsonl: column 'node' is string, but int64 in a.jsonl\n")
    write("c.csv", rows_of(CAUSAL))
    assert "c.csv: this file is csv, but a.jsonl is jsonl; a log has one format" in audit("a.jsonl", "c.csv")[2]
    write("d.txt", rows_of(CAUSAL))
    assert "--format" in audit("d.txt")[2]
    assert audit("d.txt", "--format", "jsonl")[0] == 0
    write("e.jsonl", [row | {"run": "x"} for row in rows_of(CAUSAL)])
    assert "column 'run' is string, but missing in a.jsonl" in audit("a.jsonl", "e.jsonl")[2]


def test_positions_must_be_whole_numbers(audit: Call) -> None:
    write("log.parquet", [row | {"pos": 0.5 + row["pos"]} for row in rows_of(CAUSAL)])
    assert (
        "error: log.parquet: column 'pos' must hold whole numbers or times, not double" in audit("log.parquet")[2]
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", "the file is empty"), (b"node,pos,kind,origin,seq\n", "there are no rows at all")],
)
def test_a_log_without_rows_is_an_error(audit: Call, content: bytes, problem: str) -> None:
    Path("log.csv").write_bytes(content)
    code, _, err = audit("log.csv")
    assert code == 2
    assert problem in err


def test_what_is_no_log_is_one_line(audit: Call) -> None:
    Path("log.parquet").write_bytes(b"not Parquet")
    Path("empty").mkdir()
    for path, problem in [
        ("nowhere", "no such file or folder"),
        ("empty", "no log in this folder"),
        ("no*.csv", "no such file or folder"),
        ("log.parquet", "cannot be read"),
    ]:
        code, out, err = audit(path)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith(f"error: {path}: {problem}")


def test_the_result_can_be_kept_and_printed_as_json(audit: Call) -> None:
    write("log.csv", rows_of(VIOLATED))
    code, out, err = audit("log.csv", "--out", "result", "--json")
    result = json.loads(out)
    assert (code, err, result["verdict"], result["engine"]) == (1, "", "violated", "local")
    assert result["counts"]["early"] == 1
    assert result["witness"]["chain"] == ["1:1", "2:1"]
    assert json.loads(Path("result/verdict.json").read_text()) == result
    assert pq.read_table("result/violations.parquet")["problem"].to_pylist() == ["early", "late"]
    assert audit("log.csv", "--quiet") == (1, "", "")
    assert "cannot write" in audit("log.csv", "--out", "log.csv")[2]


def test_the_limit_bounds_the_table_not_the_count(audit: Call) -> None:
    write("log.csv", rows_of("1: b1:1 b1:2 b1:3\n2: d1:3 d1:2 d1:1"))
    code, out, _ = audit("log.csv", "--limit", "1", "--out", "result")
    assert code == 1
    assert "2 delivered too early" in out and "2 violations are listed, 2 are not" in out
    assert len(pq.read_table("result/violations.parquet")) == 2


def test_a_run_folder_and_a_folder_of_runs(audit: Call, tmp_path: Path) -> None:
    scenario = {"nodes": 4, "duration": "1s", "protocol": {"name": "r-broadcast"}}
    scenario |= {"network": {"delay": {"kind": "exponential", "mean": "200ms"}}}
    scenario |= {"workload": [{"kind": "poisson", "rate": 10.0}]}
    for seed in (1, 2):
        run(make_scenario(scenario | {"seed": seed}), out=tmp_path / "sweep" / "runs" / f"run-{seed}")
    code, out, _ = audit("sweep/runs/run-1", "--json")
    one = json.loads(out)
    assert (code, one["clock"]) == (1, "global")  # as Antecast's own logs have it
    code, out, _ = audit("sweep", "--json", "--clock", "local")
    both = json.loads(out)
    assert (len(both["files"]), both["clock"], both["counts"]["nodes"]) == (2, "local", 8)
    assert both["counts"]["early"] > one["counts"]["early"]


def test_times_count_only_if_clocks_are_global(audit: Call) -> None:
    rows = [row | {"t": 10 - index} for index, row in enumerate(rows_of(CAUSAL))]
    write("log.csv", rows)
    assert audit("log.csv")[0] == 0
    code, out, _ = audit("log.csv", "--clock", "global")
    assert code == 1
    assert "3 delivered before broadcast" in out
    table = pa.Table.from_pylist([row | {"run": "x", "peer": None, "bytes": 0} for row in rows], schema=EVENTS)
    pq.write_table(table, "events.parquet")
    assert audit("events.parquet")[0] == 1
    write("plain.csv", rows_of(CAUSAL))
    assert "no column 't'" in audit("plain.csv", "--clock", "global")[2]


@pytest.mark.spark
def test_spark_says_the_same(audit: Call) -> None:
    write("log.csv", rows_of(VIOLATED))
    code, out, err = audit("log.csv", "--engine", "spark", "--pairs")
    assert (code, out) == audit("log.csv", "--engine", "local", "--pairs")[:2]
    assert "starting Spark" in err and "5 events, 2 messages" in err
    Path("log.csv").write_text(Path("log.csv").read_text().replace("3,1,deliver,1,1", "3,1,deliver,1"))
    error = "error: log.csv:6: 4 fields, where the header has 5\n"
    assert audit("log.csv", "-q", "--engine", "spark") == audit("log.csv", "-q") == (2, "", error)


def test_memory_is_bounded_by_an_option(audit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    write("log.csv", rows_of(VIOLATED))
    whole = audit("log.csv")
    assert audit("log.csv", "--memory", "1B") == whole
    monkeypatch.setattr("antecast.auditing.engines.free_memory", lambda: 1)
    assert audit("log.csv") == whole
    assert "--memory: expected a size with its unit" in audit("log.csv", "--memory", "much")[2]
    refused = audit("log.csv", "--memory", "1GB", "--master", "local")
    assert (refused[0], refused[1]) == (2, "") and "--memory: bounds what this process keeps" in refused[2]
