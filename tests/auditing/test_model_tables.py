"""Tables in files that are judged by the model that is asked for, and what exports write, audited again."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sound_logs import SPANS, clock_events, govector, otlp, put, shifted

import antecast
from antecast.api import audit_files
from antecast.auditing.foreign import Request
from antecast.core.errors import AntecastError, InputError

EVENTS = clock_events()
LISTS = """{:type :ok, :f :txn, :process 0, :value [[:append 1 1] [:r 2 []]]}
{:type :ok, :f :txn, :process 1, :value [[:r 1 [1]] [:append 1 2]]}
{:type :ok, :f :txn, :process 2, :value [[:r 1 [1 2]]]}
{:type :ok, :f :txn, :process 2, :value [[:r 1 [1]]]}
"""
RUNS = f"=== a ===\n{govector(EVENTS[:10])}=== b ===\n{govector([*EVENTS, EVENTS[3]])}"
LOGS: dict[str, tuple[str, dict[str, Any]]] = {
    "clocks": (govector([*EVENTS, EVENTS[3]]), {}),
    "executions": (RUNS, {"delimiter": "^=== (?<trace>.*) ===$"}),
    "spans": (otlp(shifted(SPANS, "c3", 100_000)), {}),
    "registers": ("r(1,0,2,1)\nw(1,1,1,1)\nr(1,1,2,2)\nr(1,0,2,3)\nr(2,0,1,2)\n", {}),
    "lists": (LISTS, {}),
}


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("name", LOGS)
def test_a_table_that_was_exported_gets_the_same_verdict(name: str, form: Any, tmp_path: Path) -> None:
    text, options = LOGS[name]
    done = audit_files([put(tmp_path, text)], Request(**options))
    assert done.verdict.outcome == "violated"
    again = audit_files([done.export(form, tmp_path / f"again.{form}")], Request(format=form, model=done.model))
    assert str(again.verdict).splitlines()[0] == done.headline
    places = [
        {(row["file"], row["line"]) for row in each.verdict.violations.to_pylist()} for each in (done, again)
    ]
    assert places[0] == places[1]


def test_a_table_that_cannot_be_what_it_is_asked_to_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'session'"):
        antecast.audit(put(tmp_path, "a,b\n1,2\n", "x.csv"), model="kv")
    with pytest.raises(InputError, match=r"x\.csv: no row in it"):
        antecast.audit(put(tmp_path, "session,txn,kind,key,value\n", "x.csv"), model="kv")
    with pytest.raises(InputError, match="cannot be read as parquet"):
        antecast.audit(put(tmp_path, "PAR1", "x.parquet"), model="kv")
    mapped = put(tmp_path, "who,txn,kind,key,value\n1,1,w,x,1\n2,1,r,x,1\n", "y.csv")
    assert antecast.audit(mapped, model="kv", columns={"session": "who"}).outcome == "kept"


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: bytes(pa.compress(data, codec="zstd", asbytes=True)),
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_tables_may_be_compressed_and_are_not_read_in_part(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"log.csv{suffix}"
    packed = PACKERS[suffix](b"node,pos,kind,origin,seq\na,0,broadcast,a,1\nb,0,deliver,a,1\n")
    file.write_bytes(packed)
    assert antecast.audit(tmp_path).outcome == "causal"
    file.write_bytes(packed[:-7])
    with pytest.raises(InputError, match="cut short or damaged"):
        antecast.audit(file)


def test_names_inside_of_structures_may_lie_in_many_row_groups(tmp_path: Path) -> None:
    who = [{"host": "a", "at": 0}, {"host": "b", "at": 0}, {"host": "b", "at": 1}]
    table = pa.table({"who": who, "kind": ["broadcast", "deliver", "deliver"], "message": ["m", "m", "m"]})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=1)
    verdict = antecast.audit(tmp_path, columns={"node": "who.host", "pos": "who.at", "message": "message"})
    assert verdict.violations["problem"].to_pylist() == ["duplicate"]


ROWS: dict[str, dict[str, list[Any]]] = {
    "kv": {
        "session": ["a", "a"], "txn": [1, 2], "kind": ["write", "read"], "key": ["x", "x"], "value": [1, 1],
        "status": ["committed"] * 2, "pos": [1, 2], "initial": [False] * 2, "file": ["f"] * 2, "line": [1, 2],
    },
    "spans": {
        "trace_id": ["t", "t"], "span_id": ["a", "b"], "parent_id": ["", "a"], "service": ["x", "y"],
        "start_time_ns": [1, 2], "end_time_ns": [4, 5], "file": ["f"] * 2, "line": [1, 2],
    },
    "clocks": {
        "host": ["a", "b"], "clock": ['{"a":1}', '{"b":1}'], "event": ["x"] * 2, "run": ["1"] * 2,
        "file": ["f"] * 2, "line": [1, 2],
    },
}  # fmt: skip

STRANGE = [
    [[1], [2]],
    [{"a": 1}] * 2,
    [1.5, float("nan")],
    [True, None],
    [b"a", b"\xff"],
    ["", "\0"],
]


@pytest.mark.parametrize("model", ROWS)
def test_columns_of_any_type_are_judged_or_refused(model: str) -> None:
    """Lists, views and two columns of one name were tracebacks, which would mean a violation to a gate."""
    rows = ROWS[model]
    for name in rows:
        strange = [*(pa.array(values) for values in STRANGE), pa.array([2**64 - 1] * 2, pa.uint64())]
        for column in (*strange, pa.array(["a", "b"], pa.string_view()), pa.nulls(2)):
            with suppress(AntecastError):
                antecast.audit(pa.table({**rows, name: column}), model=model)
        twice = pa.Table.from_arrays([*map(pa.array, rows.values()), pa.array(rows[name])], names=[*rows, name])
        with pytest.raises(AntecastError, match=f"two columns are called '{name}'"):
            antecast.audit(twice, model=model)


def test_a_host_that_is_twice_in_a_clock_of_a_table_is_refused() -> None:
    table = pa.table({**ROWS["clocks"], "clock": ['{"a":1}', '{"b":1, "b":2}']})
    with pytest.raises(AntecastError, match="f:2: the clock has 'b' twice"):
        antecast.audit(table, model="clocks")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.csv", "session,txn,kind,key,value,value\na,1,write,x,1,2\n", ":1: two columns are called 'value'"),
        ("a.csv", "session,txn,kind,key,value\n\na,1,write,x\n", ":3: 4 fields, where the header has 5"),
        ("a.csv", "session,txn,kind,key,value\n\na,1,cas,x,1\n", ":3: kind is 'cas'"),
        ("a.csv", "session,txn,kind,key,value,pos\na,1,write,x,1,one\n", ":2: pos is 'one'"),
        ("a.jsonl", f'{{"value": -1}}\n{{"value": {2**64}}}\n', ":2: value is a number that 64 bits do not hold"),
        ("a.jsonl", '{"session": 1}\n\n{"session": "a"}\n', ":3: session is 'a', where values like 1 are"),
        (
            "a.jsonl",
            '{"session": 1}\n{"session": 1, "session": 2}\n',
            ":2: not JSON: the key 'session' is there twice",
        ),
    ],
)
def test_a_wrong_row_of_a_table_of_operations_is_named(name: str, text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        antecast.audit(put(tmp_path, text, name), model="kv")


MISSING = {
    "kv": ("session,txn,kind,key,value\na,1,write,x,1\nb,1,read,x,1\n", ("status", "initial", "run", "pos")),
    "spans": ("trace,span,parent,service,start,end\nt,a,,s,1,2\n", ("kind", "service", "run", "duration")),
    "clocks": ('host,clock\na,"{""a"":1}"\n', ("event", "run")),
}


@pytest.mark.parametrize("model", MISSING)
def test_a_column_that_was_named_and_is_not_there_is_refused(model: str, tmp_path: Path) -> None:
    """Without its column of outcomes, what was aborted would pass as committed."""
    text, names = MISSING[model]
    file = put(tmp_path, text, "t.csv")
    assert antecast.audit(file, model=model).outcome in ("sound", "kept")
    for name in names:
        with pytest.raises(AntecastError, match="no column 'outcome'"):
            antecast.audit(file, model=model, columns={name: "outcome"})
    with pytest.raises(AntecastError, match="no such column 'sesion'"):
        antecast.audit(file, model=model, columns={"sesion": "txn"})


def test_runs_of_events_with_clocks_may_have_a_name_of_their_own(tmp_path: Path) -> None:
    rows = [{"host": "a", "clock": {"a": 1}, "attempt": each} for each in (1, 2)]
    table = pa.Table.from_pylist(rows)
    assert antecast.audit(table, model="clocks").outcome == "violated"
    assert antecast.audit(table, model="clocks", columns={"run": "attempt"}).outcome == "sound"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_blank_lines_of_a_table_count_as_lines(name: str, tmp_path: Path) -> None:
    rows = [["a", 1, "write", "x", 1], ["b", 1, "read", "x", 7]]
    header = ["session", "txn", "kind", "key", "value"]
    if name == "a.csv":
        text = "\n\n".join(",".join(map(str, row)) for row in [header, *rows])
    else:
        text = "\n\n\n".join(json.dumps(dict(zip(header, row, strict=True))) for row in rows) + "\n"
    verdict = antecast.audit(put(tmp_path, text, name), model="kv")
    assert verdict.violations["line"].to_pylist() == [5 if name == "a.csv" else 4]


def _span(trace: str, span: str, at: int, **more: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": str(at), "endTimeUnixNano": str(at + 10)}
    return {"traceId": trace, "spanId": span, "name": span, "serviceName": f"s{span}"} | times | more


def _link(trace: str, span: str) -> list[dict[str, str]]:
    return [{"traceId": trace, "spanId": span}]


WITH_LINKS = {
    "to a later span of another trace": [_span("t", "a", 0, links=_link("u", "b")), _span("u", "b", 90)],
    "to an earlier start that is no parent": [_span("t", "a", 5, links=_link("t", "b")), _span("t", "b", 9)],
    "to a span that is missing": [_span("t", "a", 0, links=_link("u", "b")), _span("t", "b", 0)],
    "a cycle": [_span("t", "a", 0, parentSpanId="b"), _span("t", "b", 0, parentSpanId="a"), _span("t", "c", 5)],
}


@pytest.mark.parametrize("form", ["otlp", "csv", "parquet"])
@pytest.mark.parametrize("name", WITH_LINKS)
def test_links_of_spans_are_exported_with_their_traces(name: str, form: Any, tmp_path: Path) -> None:
    done = audit_files([put(tmp_path, "".join(f"{json.dumps(span)}\n" for span in WITH_LINKS[name]))])
    again = antecast.audit(done.export(form, tmp_path / f"again.{form}"), format=form, model="spans")
    assert (again.outcome, dict(again.found)) == (done.verdict.outcome, dict(done.verdict.found))


@pytest.mark.parametrize("form", ["otlp", "csv", "parquet"])
def test_all_parents_of_a_commit_are_exported(form: Any, tmp_path: Path) -> None:
    merged, early, late = ("a" * 40, "b" * 40, "c" * 40)
    rows = [(merged, f"{early} {late}", "ann", 100, "m"), (early, "", "ann", 90, "b"), (late, "", "bob", 200, "c")]
    done = audit_files([put(tmp_path, "".join("\t".join(map(str, row)) + "\n" for row in rows))])
    again = antecast.audit(done.export(form, tmp_path / f"again.{form}"), format=form, model="spans")
    assert again.outcome == done.verdict.outcome == "violated"


def test_events_on_a_cycle_are_exported_too(tmp_path: Path) -> None:
    done = audit_files([put(tmp_path, "".join(f"{json.dumps(span)}\n" for span in WITH_LINKS["a cycle"]))])
    assert antecast.audit(done.export("shiviz", tmp_path / "again.log")).counts["events"] == 3
