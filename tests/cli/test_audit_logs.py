"""`antecast audit` takes logs as they come, and never calls causal what it could not read.

The call from Python must say what the command says, so each log is judged by both.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import antecast as library
from antecast.core import AntecastError

Row = dict[str, Any]
Call = Callable[..., tuple[int, str, str]]

VIOLATED: list[Row] = [
    {"node": node, "pos": pos, "kind": kind, "origin": origin, "seq": 1}
    for node, pos, kind, origin in [
        ("a", 0, "broadcast", "a"),
        ("b", 0, "deliver", "a"),
        ("b", 1, "broadcast", "b"),
        ("c", 0, "deliver", "b"),
        ("c", 1, "deliver", "a"),
    ]
]
CAUSAL = [*VIOLATED[:3], VIOLATED[3] | {"pos": 1}, VIOLATED[4] | {"pos": 0}]


@pytest.fixture
def audit(antecast: Call) -> Call:
    return partial(antecast, "audit")


def changed(change: Callable[[Row], Row], rows: list[Row] = VIOLATED) -> list[Row]:
    return [row | change(row) for row in rows]


def write(name: str, rows: list[Row], schema: pa.Schema | None = None) -> str:
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows, schema), file)
    elif file.suffix == ".csv":
        lines = [",".join(rows[0]), *(",".join("" if v is None else str(v) for v in row.values()) for row in rows)]
        file.write_text("".join(f"{line}\n" for line in lines))
    else:
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return name


def in_python(*paths: str, **options: Any) -> str:
    """What the call from Python says: the outcome, or the error."""
    try:
        return library.audit(paths[0] if len(paths) == 1 else paths, **options).outcome
    except AntecastError as error:
        return f"error: {error}"


def start(row: Row) -> datetime:
    return datetime(2024, 5, 1, 12, tzinfo=UTC) + timedelta(milliseconds=row["pos"])


TIMES: dict[str, Callable[[Row], Any]] = {
    "ISO, UTC": lambda row: start(row).isoformat().replace("+00:00", "Z"),
    "ISO with offset": lambda row: start(row).isoformat(),
    "without zone": lambda row: start(row).replace(tzinfo=None).isoformat(sep=" "),
    "as logging writes": lambda row: f"2024-05-01 12:00:00.{row['pos']:03}".replace(".", ","),
}


@pytest.mark.parametrize("written", TIMES)
@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet"])
def test_times_that_are_written_out_are_positions(audit: Call, name: str, written: str) -> None:
    def cell(row: Row) -> str:
        text: str = TIMES[written](row)
        return f'"{text}"' if name.endswith(".csv") else text

    for rows, code in ((VIOLATED, 1), (CAUSAL, 0)):
        write(name, [{**row, "pos": None, "when": cell(row)} for row in rows])
        assert audit(name, "--map", "pos=when")[0] == code


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_typed_times_are_positions_and_times(audit: Call, unit: str) -> None:
    schema = pa.schema([("node", pa.string()), ("pos", pa.timestamp(unit, "UTC")), ("kind", pa.string())])
    schema = schema.append(pa.field("origin", pa.string())).append(pa.field("seq", pa.int64()))
    late = changed(lambda row: {"pos": start(row) + timedelta(seconds=row["pos"])})
    write("log.parquet", late, schema)
    assert audit("log.parquet")[0] == 1
    early = changed(lambda row: {"t": datetime(2024, 1, 1 + (row["kind"] == "broadcast"))}, CAUSAL)
    write("timed.parquet", early)
    code, out, _ = audit("timed.parquet", "--clock", "global")
    assert (code, "3 delivered before broadcast" in out) == (1, True)
    assert in_python("timed.parquet", clock="global") == "violated"


def test_a_story_tells_times_as_times(audit: Call) -> None:
    out = audit(write("log.jsonl", changed(lambda row: {"pos": TIMES["ISO, UTC"](row)})))[1]
    assert "node c delivered b:1 (2024-05-01T12:00:00" in out and "deliver a:1 @2024-05-01T12:00:00" in out
    assert "position" not in out


def test_what_is_no_time_is_named_with_its_line(audit: Call) -> None:
    times = [
        "2024-05-01T12:00:00Z",
        "2024-05-01T12:00:00Z",
        "2024-05-01T12:00:01Z",
        "soon",
        "2024-05-01T12:00:09Z",
    ]
    rows = [row | {"pos": time} for row, time in zip(VIOLATED, times, strict=True)]
    assert audit(write("log.csv", rows))[2] == "error: log.csv:5: pos is 'soon', which is not a time\n"
    rows[3]["pos"] = "2024-05-01T12:00:02"
    assert "either all of them have a zone or none" in audit(write("log.csv", rows))[2]
    rows[3]["pos"] = times[4]
    code, _, err = audit(write("log.csv", rows))
    assert code == 2
    assert "two events at one position" in err and "--map pos=@file" in err


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet"])
def test_the_order_of_the_file_is_the_position(audit: Call, name: str) -> None:
    for rows, code in ((VIOLATED, 1), ([*VIOLATED[:3], VIOLATED[4], VIOLATED[3]], 0)):
        write(name, [{key: value for key, value in row.items() if key != "pos"} for row in rows])
        assert audit(name, "--map", "pos=@file")[0] == code
    for number, row in enumerate(VIOLATED):
        write(f"logs/part-{number + 8}.{name.split('.')[1]}", [{**row, "pos": None}])  # 9 comes before 10
    code, out, _ = audit("logs", "--map", "pos=@file")
    assert (code, "node c delivered b:1 (position " in out) == (1, True)
    assert "@file can stand for pos only" in audit(name, "--map", "seq=@file")[2]


def test_paths_lead_into_structures(audit: Call) -> None:
    rows = [
        {"meta": {"host": {"name": row["node"]}, "n": row["pos"]}, "event": {"type": row["kind"], "extra": [1]}}
        | {"message.origin": row["origin"], "seq": row["seq"]}
        for row in VIOLATED
    ]
    names = "node=meta.host.name,pos=meta.n,kind=event.type,origin=message.origin"
    columns = dict(pair.split("=") for pair in names.split(","))
    for name in ("log.jsonl", "log.parquet"):
        write(name, rows)
        assert audit(name, "--map", names)[0] == 1
        assert in_python(name, columns=columns) == "violated"
        code, _, err = audit(name)
        assert code == 2
        assert "no column 'node', 'pos', 'kind', 'origin'; the file has meta.host.name, meta.n, event.type," in err
    assert library.audit(pa.Table.from_pylist(rows), columns=columns).outcome == "violated"
    rows[3]["meta"]["host"] = "c"
    write("log.jsonl", rows)
    assert audit("log.jsonl", "--map", names)[2].startswith(
        "error: log.jsonl:4: node is \"c\", where an object with 'name' in it is expected"
    )
    del rows[3]["meta"]
    write("log.jsonl", rows)
    assert "log.jsonl:4: " in (err := audit("log.jsonl", "--map", names)[2]) and "is null" in err


@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.jsonl"])
def test_folders_named_after_values_are_a_column(audit: Call, name: str) -> None:
    """Without the runs, both would be one log in which every position is taken twice."""
    for run in (1, 2):
        write(f"hive/run={run}/{name}", changed(lambda row: {"seq": row["seq"]}))
    code, out, err = audit("hive", "--json")
    assert (code, err) == (1, "")
    assert (json.loads(out)["counts"]["nodes"], json.loads(out)["witness"]["run"]) == (
        6,
        "1" if "csv" in name else 1,
    )
    assert library.audit("hive").tally.nodes == 6
    for row in VIOLATED:  # the origin is in the file, the node in the folder
        held = {key: value for key, value in row.items() if key != "node"}
        write(f"nodes/node={row['node']}/{row['pos']}{Path(name).suffix}", [held])
    assert audit("nodes")[0] == 1
    assert audit("nodes/node=*/*")[0] == 1


def test_a_message_may_have_one_name(audit: Call) -> None:
    rows = [
        {"node": row["node"], "pos": row["pos"], "kind": row["kind"], "id": f"m-{row['origin']}"}
        for row in VIOLATED
    ]
    for name in ("log.csv", "log.jsonl", "log.parquet"):
        code, out, _ = audit(write(name, rows), "--map", "message=id", "--out", "result", "--no-report")
        assert code == 1
        assert "node c delivered m-b (position 0) before m-a (position 1), but m-a → m-b" in out
        early, _ = pq.read_table("result/violations.parquet").to_pylist()
        assert (early["origin"], early["seq"], early["message"], early["cause_message"]) == ("b", 1, "m-b", "m-a")
        assert in_python(name, columns={"message": "id"}) == "violated"
    assert library.audit(pa.Table.from_pylist(rows), columns={"message": "id"}).outcome == "violated"
    code, out, _ = audit(write("log.csv", rows[1:]), "--map", "message=id")
    assert (code, "m-a delivered at node c, position 1" in out) == (1 if "violated" in out else 3, True)
    again = [*rows, {"node": "c", "pos": 2, "kind": "broadcast", "id": "m-a"}]
    problem = "node c, position 2: broadcasts m-a a second time; the first time was at node a, position 0"
    assert audit(write("log.csv", again), "--map", "message=id")[2] == f"error: log.csv:7: {problem}\n"
    assert "message takes the place of seq" in audit("log.csv", "--map", "message=id,seq=pos")[2]


def test_names_of_messages_are_those_of_a_run(audit: Call) -> None:
    rows = [
        {"run": run, "node": row["node"], "pos": row["pos"], "kind": row["kind"], "id": row["origin"]}
        for run, log in (("x", CAUSAL), ("y", VIOLATED))
        for row in log
    ]
    code, out, _ = audit(write("log.csv", rows), "--map", "message=id")
    assert code == 1
    assert "3 messages" not in out and "6 deliveries of 4 messages" in out and "in run y" in out


KINDS = {
    "another word for one": (lambda kind: "delivered" if kind == "deliver" else kind, "deliver=WORD"),
    "other words for both": (lambda kind: "tx" if kind == "broadcast" else "rx", "broadcast=WORD,deliver=WORD"),
    "other letters": (str.upper, "broadcast=WORD,deliver=WORD"),
}


@pytest.mark.parametrize("case", KINDS)
@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet"])
def test_kinds_that_match_nothing_are_an_error_that_lists_what_is_there(audit: Call, name: str, case: str) -> None:
    change, option = KINDS[case]
    rows = changed(lambda row: {"kind": change(row["kind"])})
    words = ", ".join(sorted({row["kind"] for row in rows}))
    code, out, err = audit(write(name, rows))
    assert (code, out) == (2, "")
    assert f"the kinds are {words}; say which means what with --kinds {option}" in err
    assert in_python(name) == err.strip()
    with pytest.raises(AntecastError, match=f"the kinds are {words}"):
        library.audit(pa.Table.from_pylist(rows))


def test_a_word_that_was_given_and_is_not_there_is_an_error(audit: Call) -> None:
    write("log.csv", VIOLATED)
    code, _, err = audit("log.csv", "--kinds", "deliver=received")
    assert (code, "the kinds are broadcast, deliver" in err) == (2, True)


@pytest.mark.parametrize(
    ("encoding", "problem"),
    [
        ("utf-16", "the file is UTF-16"),
        ("utf-32", "the file is UTF-32"),
        ("utf-16-le", "a NUL byte in the header"),
    ],
)
def test_a_header_in_another_encoding_is_named_and_not_printed(audit: Call, encoding: str, problem: str) -> None:
    file = Path(write("log.csv", VIOLATED))
    file.write_bytes(file.read_text().encode(encoding))
    code, out, err = audit(str(file))
    assert (code, out, err) == (2, "", f"error: {file}:1: {problem}; UTF-8 is expected\n")


def test_a_value_of_any_length_makes_a_short_message(audit: Call) -> None:
    file = Path(write("log.csv", VIOLATED))
    file.write_text(file.read_text().replace("\na,", f"\na,{'x' * 100_000}", 1))
    code, _, err = audit(str(file))
    assert code == 2 and len(err) < 1200 and err.startswith(f"error: {file}:2: pos is 'xxx")


@pytest.mark.parametrize("kinds", ["broadcast=sent,deliver=sent", "broadcast=deliver", "deliver=broadcast"])
def test_a_word_for_both_kinds_is_refused(audit: Call, kinds: str) -> None:
    file = write("log.csv", VIOLATED)
    code, out, err = audit(file, "--kinds", kinds)
    assert (code, out) == (2, "") and "cannot mean both broadcast and deliver" in err
    with pytest.raises(library.ConfigurationError, match="cannot mean both"):
        library.audit(pa.Table.from_pylist(VIOLATED), kinds=dict(each.split("=") for each in kinds.split(",")))


def test_nothing_judged_is_not_causal(audit: Call) -> None:
    code, out, _ = audit(write("log.csv", VIOLATED[:1]))
    assert (code, out.split(":")[0]) == (3, "inconclusive")
    empty = pa.Table.from_pylist(VIOLATED)[:0]
    pq.write_table(empty, "empty.parquet")
    code, _, err = audit("empty.parquet")
    assert (code, "there are no rows at all" in err) == (2, True)
    assert in_python("empty.parquet") == err.strip()
    assert library.audit(empty).outcome == "inconclusive"


TEXTS: dict[str, tuple[str, bytes, str]] = {
    "a column twice": ("log.csv", b"node,pos,kind,origin,seq,node\n", "log.csv:1: two columns are called 'node'"),
    "a NUL byte": ("log.csv", b"a,0,broadcast,a\0,1", "log.csv:2: origin has a NUL byte in it"),
    "no UTF-8": ("log.csv", b"a,0,broadcast,\xff,1", "log.csv:2: not UTF-8: byte 0xff"),
    "no UTF-8 in a name": ("log.jsonl", b'{"node": "\xff", "pos": 7}', "log.jsonl:6: not UTF-8: byte 0xff"),
    "a key twice": ("log.jsonl", b'{"node": "a", "pos": 1, "node": "b"}', "log.jsonl:6: not JSON: the key 'node'"),
    "a NUL in JSON": (
        "log.jsonl",
        b'{"node": "a\\u0000", "pos": 1, "kind": "deliver", "origin": "a", "seq": 1}',
        "log.jsonl:6: node has a NUL byte in it",
    ),
    "not a number": (
        "log.jsonl",
        b'{"node": NaN, "pos": 1}',
        "log.jsonl:6: node is NaN, where a text is expected",
    ),
    "a number among texts": ("log.jsonl", b'{"node": 5, "pos": 1}', "log.jsonl:6: node is 5, where a text"),
}


def test_a_run_that_only_later_rows_have_is_refused_at_the_first_of_them(audit: Call) -> None:
    """The columns of JSON are taken from the first rows; one that begins behind them was passed over."""
    noise = [{**VIOLATED[0], "kind": "noise", "pos": -number} for number in range(1, 10_001)]
    rows = [{**row, "group": 7} for row in (*noise, *VIOLATED)]
    file = write("log.jsonl", rows)
    assert audit(file)[0] == 1
    Path(file).write_text(Path(file).read_text() + json.dumps({**rows[0], "pos": 99, "run": 2}) + "\n")
    code, out, err = audit(file)
    assert (code, out) == (2, "") and err.startswith(
        f"error: {file}:{len(noise) + len(VIOLATED) + 1}: the row has a run"
    )
    assert audit(file, "--map", "run=group")[0] == 1  # another column is the run


@pytest.mark.parametrize("case", TEXTS)
def test_texts_that_cannot_be_read_are_refused_with_the_line(audit: Call, case: str) -> None:
    name, bad, problem = TEXTS[case]
    good = Path(write(name, VIOLATED)).read_bytes()
    header, _, rest = good.partition(b"\n")
    if name.endswith(".jsonl"):
        text = good + bad + b"\n"
    elif bad.endswith(b"\n"):
        text = bad + rest.replace(b"\n", b",x\n")
    else:
        text = header + b"\n" + bad + b"\n" + rest
    Path(name).write_bytes(text)
    code, out, err = audit(name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {problem}")
    assert in_python(name) == err.strip()


def column(name: str, values: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    """The violated log with another column in place of one of its own."""
    table = pa.Table.from_pylist(VIOLATED)
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, kind))


def bad_text() -> pa.Array:
    """Five texts of a letter, the third no UTF-8."""
    return pa.Array.from_buffers(
        pa.string(), 5, [None, pa.array(range(6), pa.int32()).buffers()[1], pa.py_buffer(b"ab\xffcc")]
    )


def refused() -> dict[str, tuple[pa.Table, str]]:
    nodes, pos = ["a", "b", "b", "c", "c"], [0, 0, 1, 0, 1]
    table = pa.Table.from_pylist(VIOLATED)
    nan = float("nan")
    return {
        "lists": (column("node", [[each] for each in nodes]), "'node' must hold texts or whole numbers, not list"),
        "bytes": (
            column("node", [each.encode() for each in nodes]),
            "must hold texts or whole numbers, not binary",
        ),
        "NaN": (column("node", [1.0, 2.0, 2.0, nan, 3.0]), "node is nan, which is not a whole number"),
        "halves": (column("node", [1.0, 2.0, 2.0, 2.5, 3.0]), "node is 2.5, which is not a whole number"),
        "no UTF-8": (table.set_column(0, "node", bad_text()), "node is not valid UTF-8"),
        "too large": (
            column("pos", [0, 0, 1, 2**63, 1], pa.uint64()),
            f"pos is {2**63}, which is not a whole number",
        ),
        "far times": (
            column("pos", [0, 0, 1, 10**17, 1], pa.timestamp("ms")),
            "pos is 100000000000000000 ms, which nanoseconds do not reach",
        ),
        "decimals": (
            column("pos", [Decimal(f"{each}.5") for each in pos]),
            "must hold whole numbers or times, not",
        ),
        "a column twice": (table.append_column("node", table["node"]), "two columns are called 'node'"),
    }


@pytest.mark.parametrize("case", refused())
def test_columns_that_cannot_be_read_are_refused_with_the_row(audit: Call, case: str) -> None:
    table, problem = refused()[case]
    pq.write_table(table, "log.parquet")
    code, out, err = audit("log.parquet")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert problem in err
    row = {"NaN": 4, "halves": 4, "too large": 4, "far times": 4, "no UTF-8": 3}.get(case)
    assert row is None or err.startswith(f"error: log.parquet:{row}: ")
    assert in_python("log.parquet") == err.strip()
    with pytest.raises(AntecastError, match=problem.split("[")[0]):
        library.audit(table)


def typed() -> dict[str, pa.Table]:
    """The violated log in other types."""
    nodes, pos = ["a", "b", "b", "c", "c"], [0, 0, 1, 0, 1]
    both = column("node", [1.0, 2.0, 2.0, 3.0, 3.0])
    return {
        "string_view": column("node", nodes, pa.string_view()),
        "large_string": column("node", nodes, pa.large_string()),
        "dictionary": column("node", nodes, pa.dictionary(pa.int8(), pa.large_string())),
        "unsigned": column("pos", pos, pa.uint64()),
        "decimal": column("pos", [Decimal(each) for each in pos], pa.decimal128(20, 0)),
        "floats as names": both.set_column(3, "origin", pa.array([1, 1, 2, 2, 1])),
        "dictionary of numbers": column("seq", [1] * 5).set_column(
            4, "seq", pa.array([1] * 5).dictionary_encode()
        ),
        "times of day": column("pos", pos, pa.duration("ms")),
    }


@pytest.mark.parametrize("case", typed())
def test_numbers_and_texts_of_any_type_are_read(audit: Call, case: str) -> None:
    pq.write_table(typed()[case], "log.parquet")
    assert audit("log.parquet")[0] == 1
    assert in_python("log.parquet") == library.audit(typed()[case]).outcome == "violated"


def test_padded_numbers_blank_lines_and_texts_over_lines(audit: Call) -> None:
    lines = ["node,pos,note,kind,origin,seq", "a, 0,x,broadcast,a,01", "", 'b,00,"two', 'lines",deliver,a,1', ""]
    lines += ["b,1 ,x,broadcast,b,1", "c,0,x,deliver,b,1", "c,1,x,deliver,a,1"]
    Path("log.csv").write_text("\n".join(lines))
    assert audit("log.csv")[0] == 1
    Path("log.csv").write_text("\n".join([*lines, "c,1,x,deliver,b,1"]))
    assert audit("log.csv")[2].startswith("error: log.csv:10: ") and "log.csv:9)" in audit("log.csv")[2]


@pytest.mark.parametrize("name", ["a[1].parquet", "a*.parquet", "with space.parquet", "50%.parquet"])
def test_a_file_is_its_name_and_no_pattern(audit: Call, name: str) -> None:
    write("a1.parquet", CAUSAL)
    write(name, VIOLATED)
    assert audit(name)[0] == 1
    assert in_python(name) == "violated"


def test_a_folder_is_the_same_log_from_python(audit: Call) -> None:
    """It has the clock of Antecast's own logs: a delivery before its broadcast is found by both."""
    run = library.run({"nodes": 3, "duration": "1s", "workload": [{"kind": "poisson", "rate": 5.0}]}, out="run")
    assert run.folder is not None
    events = pq.read_table("run/events.parquet")
    late = pa.array(
        [0 if kind == "deliver" else t for kind, t in zip(*map(list_of(events), ("kind", "t")), strict=True)]
    )
    pq.write_table(
        events.set_column(events.schema.get_field_index("t"), events.schema.field("t"), late), "run/events.parquet"
    )
    code, out, _ = audit("run", "--json")
    verdict = library.audit("run")
    assert (code, verdict.outcome) == (1, "violated")
    assert verdict.counts == json.loads(out)["counts"] and verdict.tally.before_broadcast > 0


def list_of(table: pa.Table) -> Callable[[str], list[Any]]:
    return lambda name: table[name].to_pylist()


def test_deliveries_too_early_are_no_more_than_deliveries(audit: Call) -> None:
    """c hears of b's message, speaks five times, then hears what b's message was about."""
    rows = [
        *VIOLATED[:4],
        *({"node": "c", "pos": 1 + n, "kind": "broadcast", "origin": "c", "seq": n} for n in range(5)),
    ]
    write("log.csv", [*rows, VIOLATED[4] | {"pos": 9}])
    code, out, _ = audit("log.csv", "--json", "--out", "result")
    counts = json.loads(out)["counts"]
    assert (code, counts["deliveries"], counts["early"], counts["early_broadcasts"]) == (1, 3, 6, 5)
    out = audit("log.csv")[1]
    assert "  1 delivered too early\n  5 broadcast before something of their past was delivered" in out
    assert "33 %" in (page := Path("result/report.html").read_text()) and "200 %" not in page


def test_violations_are_told_by_cause(audit: Call) -> None:
    """One message that comes last at two nodes makes twenty early: two lines, and not forty."""
    said = [{"node": "a", "pos": n, "kind": "broadcast", "origin": "a", "seq": n} for n in range(11)]
    heard = [
        {"node": node, "pos": 20 if n == 0 else n, "kind": "deliver", "origin": "a", "seq": n}
        for node in "bc"
        for n in range(11)
    ]
    heard += [{"node": "d", "pos": pos, "kind": "deliver", "origin": "a", "seq": 3} for pos in (0, 1, 2)]
    write("log.csv", [*said, *heard])
    out = audit("log.csv")[1]
    assert out.split("by cause:\n")[1].splitlines() == [
        "  a:0 came after 20 messages that depend on it, at 2 nodes; the first: a:1 at node b, position 1",
        "  a:3 was delivered again 2 times, at 1 node; first at node d, position 1",
    ]


def test_a_report_without_a_folder_opens_in_the_browser(tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {tmp_path}/seen\n')
    browser.chmod(0o755)
    log = write(str(tmp_path / "log.csv"), VIOLATED)
    command = [sys.executable, "-m", "antecast", "audit", log, "--open"]
    environment = os.environ | {"BROWSER": f"{browser} %s", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stderr) == (1, "")
    page = Path((tmp_path / "seen").read_text().strip().removeprefix("file://"))
    assert "Causal order is violated" in page.read_text()
    assert f"report: {page}" in done.stdout
    assert [file.name for file in tmp_path.glob("*/report.html")] == ["report.html"]


def test_a_defect_is_not_a_violation(audit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python itself exits with 1 after a traceback, which would mean that the log is violated."""

    def broken(*arguments: object, **options: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("antecast.history.log_audit.audit_log", broken)
    code, out, err = audit(write("log.csv", CAUSAL))
    assert (code, out) == (70, "")
    assert "RuntimeError: a defect" in err


def test_a_gzip_that_ends_early_is_refused(audit: Call) -> None:
    said = [{"node": "a", "pos": n, "kind": "broadcast", "origin": "a", "seq": n} for n in range(2000)]
    text = Path(write("log.csv", said)).read_bytes()
    Path("cut.csv.gz").write_bytes(gzip.compress(text)[:-3000])
    code, _, err = audit("cut.csv.gz")
    assert (code, err.startswith("error: cut.csv.gz:"), "cut short" in err) == (2, True, True)


BAD_BYTES = (
    b"\0",
    b"\xff",
    b'"',
    b",",
    b"\n",
    b"{",
    b"}",
    b"1",
    b"-",
    b".",
    b"e9",
    b"NaN",
    b"[]",
    b":",
    b"\\",
    b"",
)


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet"])
def test_a_damaged_file_gets_a_verdict_or_one_line(name: str, tmp_path: Path) -> None:
    """Bytes of a log are replaced at random: what comes out is a verdict or an error that names the file."""
    draw = random.Random(name)
    file = tmp_path / name
    good = Path(
        write(str(file), [*VIOLATED, *({**row, "node": row["node"] * 2} for row in VIOLATED[1:2])])
    ).read_bytes()
    refused = 0
    for _ in range(150):
        damaged = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(damaged))
            damaged[place : place + draw.randint(0, 2)] = draw.choice(BAD_BYTES)
        file.write_bytes(damaged)
        try:
            library.audit(file)
        except AntecastError as error:
            refused += 1
            assert str(error).startswith(str(file)) and "\n" not in str(error)
    assert refused > 20
