"""Every published anomaly in every format: recognised, read, named with its class, at the right line."""

import bz2
import gzip
import json
import sys
from pathlib import Path

import pytest

import antecast
from antecast.core.errors import InputError
from antecast.importers.registry import importer, recognise
from antecast.importers.source import Options as ReadingOptions
from antecast.importers.source import Source
from antecast.kv import check
from antecast.kv.anomalies import ANOMALIES as KNOWN

sys.path.insert(0, str(Path(__file__).parents[1] / "kv"))
from published import (
    ANOMALIES,
    CONVERGES_NOT,
    FORMATS,
    INDETERMINATE,
    MEMORY,
    SHIFTING,
    X,
    Y,
    as_lists,
    as_rows,
    r,
    t,
    w,
)

ALL = {**ANOMALIES, **MEMORY}


def read(*files, name=None):
    source = Source(tuple(files))
    found = recognise(source)
    assert found is not None and (name is None or name == found.NAME)
    return found.read(source)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("anomaly", ALL)
def test_an_anomaly_is_named(anomaly, name, tmp_path):
    files = FORMATS[name](ALL[anomaly], tmp_path)
    history = read(*files, name=name)
    assert len(history) == sum(
        kind == "w" or status == 0 or name in ("plume", "dbcop")
        for _, status, operations in ALL[anomaly]
        for kind, _, _ in operations
    )
    verdict = check(history)
    assert list(verdict.counts) == [anomaly]
    row = verdict.violations.to_pylist()[0]
    assert row["file"] in {str(file) for file in files} and row["line"] >= 1


@pytest.mark.parametrize("anomaly", ALL)
def test_an_anomaly_is_named_in_a_table_and_in_lists(anomaly, tmp_path):
    (rows,) = as_rows(ALL[anomaly], tmp_path)
    assert list(antecast.audit(rows, model="kv").counts) == [anomaly]
    lists = check(read(*as_lists(ALL[anomaly], tmp_path), name="elle"))
    assert anomaly in lists.counts and lists.levels[KNOWN[anomaly].level] == "violated"


@pytest.mark.parametrize("write", [*FORMATS.values(), as_rows])
def test_levels_are_told_apart_in_every_format(write, tmp_path):
    """CC and not CCv, with CM or without it; CCv and not CM."""
    for transactions, violated in (
        (CONVERGES_NOT, {"read-atomic", "CCv"}),
        (ALL["conflict-AO"], {"CCv"}),
        (SHIFTING, {"CM"}),
        (ALL["cyclic-happened-before"], {"CM"}),
    ):
        for file in tmp_path.iterdir():
            file.unlink()
        levels = antecast.audit(write(transactions, tmp_path), model="kv").levels
        assert {level for level, outcome in levels.items() if outcome != "kept"} == violated


def test_lines_are_those_of_the_file(tmp_path):
    """The read that shows the anomaly is the last operation in each format."""
    transactions = ALL["conflict-CO"]
    expected = {"plume": 6, "elle": 13}
    for name, line in expected.items():
        folder = tmp_path / name
        folder.mkdir()
        row = check(read(*FORMATS[name](transactions, folder))).violations.to_pylist()[0]
        assert (row["line"], row["operation"]) == (line, "read 1=1")
    (file,) = FORMATS["dbcop"](transactions, tmp_path)
    row = check(read(file)).violations.to_pylist()[0]
    assert '"variable": 1' in file.read_text().splitlines()[row["line"] - 1]


@pytest.mark.parametrize("name", ["elle", "cobra"])
def test_indeterminate_transactions_keep_their_writes(name, tmp_path):
    transactions = [t(0, r(Y, 0), w(X, 1), status=INDETERMINATE), t(1, r(X, 1))]
    assert check(read(*FORMATS[name](transactions, tmp_path))).outcome == "kept"


@pytest.mark.parametrize("name", FORMATS)
def test_compressed_files_are_read(name, tmp_path):
    files = FORMATS[name](ALL["fractured-read-CO"], tmp_path)
    plain = read(*files).operations().drop_columns(["file", "session", "txn"])
    for number, file in enumerate(files):
        data = file.read_bytes()
        file.write_bytes(gzip.compress(data) if number % 2 == 0 else bz2.compress(data))
    assert read(*files, name=name).operations().drop_columns(["file", "session", "txn"]) == plain


def test_a_history_in_two_files_is_one_history(tmp_path):
    (file,) = FORMATS["plume"](ALL["conflict-CO"], tmp_path)
    lines = file.read_text().splitlines(keepends=True)
    parts = [tmp_path / "1.txt", tmp_path / "2.txt"]
    parts[0].write_text("".join(lines[:4]))
    parts[1].write_text("".join(lines[4:]))
    row = check(read(*parts)).violations.to_pylist()[0]
    assert (row["anomaly"], row["file"], row["line"]) == ("conflict-CO", str(parts[1]), 2)


BROKEN = {
    "plume": [
        ("w(1,2,3,4)\nw(1,2,3)\n", 2, "is not w(key,value,session,transaction)"),
        ("w(1,2,3,4)\nx(1,2,3,4)\n", 2, "is not w(key"),
        ("w(1,2,3,4)\nw(1,2,3,4) w(1,2,3,5)\n", 2, "is not w(key"),
        ("w(1,2,3,4)\nw(1,2,3,99999999999999999999)\n", 2, "64 bits"),
        (f"w(1,2,3,4)\nw(1,2,3,{'9' * 9_999})\n", 2, "64 bits"),
        ("w(1,2,3,4)\nw(2,2,3,5)\nw(1,2,3,4)\n", 3, "transaction 4 goes on after another of session 3"),
        ("w(1,2,3,4)\nw(1,2,3,\n", 2, "is not w(key"),
        ("w(1,2,3,4)\nw(1,2,3,\udcff)\n", 2, "not UTF-8"),
        ("w(1,2,3,4)\nw(1,2,\0,4)\n", 2, "NUL"),
    ],
    "elle": [
        ("{:type :ok, :process 0, :f :txn, :value [[:w 1 1]]}\n{:type :ok, :process 0", 2, "has no end"),
        ("{:type :done, :process 0, :f :txn, :value []}", 1, ":invoke, :ok, :fail and :info are known"),
        ("{:process 0, :f :txn, :value []}", 1, "has no :type"),
        ("{:type :ok, :process 0, :f :txn, :value [[:x 1 1]]}", 1, "is not [:r key value]"),
        ("\n{:type :ok, :process 0, :f :txn, :value 3}", 2, "vector of operations"),
        ("{:type :ok, :process 0, :f :txn, :value [[:w 1 1] [:append 1 1]]}", 1, "registers (:w) and lists"),
        ("{:type :ok :type :ok, :process 0, :f :txn, :value []}", 1, "twice"),
        ("{:type :ok, :process 0, :f :txn, :value [[:r 1 [3]] [:append 2 4] [:r 2 5]]}", 1, "a list is expected"),
        ("{:type :ok, :process 0, :f :txn, :value [}]}", 1, "closes nothing"),
        (f"{{:type :ok, :process 0, :f :txn, :value [[:w 1 {'9' * 9_999}]]}}", 1, "9999 digits"),
        ("{:type :ok, :process 0, :f :txn}", 1, "what it did is not told"),
        ("{:type :ok, :process 0, :f :cas, :value nil}", 1, "what it did is not told"),
        (
            "{:type :invoke, :process 0, :f :txn, :value [[:w 1 1]]}\n"
            + 2 * "{:type :ok, :process 0, :f :txn, :value [[:w 1 1]]}\n",
            3,
            "an answer to an operation that it did not begin",
        ),
        ('{:type :ok, :process 0, :f :txn, :value ["a]}', 1, "a text without an end"),
    ],
    "dbcop": [
        ('[[{"events": [\n{"Read": {"version": 1}}], "committed": true}]]', 2, "has a"),
        ('[[{"events": [\n["r", 1]], "committed": true}]]', 2, "is not an event"),
        ('[[{"events": [["w", 1, null]], "committed": true}]]', 1, "without a version"),
        ('[[{"events": [["w", 1, 2],\n["r", 1, NaN]], "committed": true}]]', 2, "nan, which is not a number"),
        ('[[{"events": [["w", 1, 2]]}]]', 1, '"committed"'),
        ('[[{"events": [["w", 1, 2]],\n "committed": true}]', 2, "not JSON"),
        ('[[{"events": [["w", 1, 2]],\n "events": [], "committed": true}]]', 1, "twice"),
        ('{"x": [{"events": []}]}', 1, "list of sessions"),
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "line", "problem"), [(name, *case) for name, cases in BROKEN.items() for case in cases]
)
def test_what_is_wrong_is_told_with_its_line(name, text, line, problem, tmp_path):
    file = tmp_path / "history"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError) as told:
        importer(name).read(Source((file,)))
    assert told.value.line == line and problem in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"S" + bytes(8) + b"X", "begins with 'X'"),
        (b"S" + bytes(8) + b"W" + bytes(3), "is cut short"),
        (b"S" + bytes(8) + b"S" + bytes(8), "starts before"),
        (b"S" + bytes(8) + b"C" + bytes(7) + b"\1", "ends inside"),
        (b"C" + bytes(8), "outside of a transaction"),
    ],
)
def test_broken_records_are_told_with_their_number(data, problem, tmp_path):
    file = tmp_path / "client.log"
    file.write_bytes(data)
    with pytest.raises(InputError, match=problem):
        importer("cobra").read(Source((file,)))


@pytest.mark.parametrize("name", FORMATS)
def test_a_gzip_cut_short_is_refused(name, tmp_path):
    file = FORMATS[name](ALL["conflict-CO"], tmp_path)[0]
    file.write_bytes(gzip.compress(file.read_bytes())[:-9])
    with pytest.raises(InputError, match="cut short"):
        importer(name).read(Source((file,)))


def test_a_line_without_end_is_refused(tmp_path):
    file = tmp_path / "history"
    file.write_text("w(1,1,1,1)\nw(1," + "1" * 5000 + ",1,1)\n")
    for name in ("plume", "elle"):
        with pytest.raises(InputError, match="longer than") as told:
            importer(name).read(Source((file,), ReadingOptions(max_line=1000)))
        assert told.value.line == 2


def test_plume_with_blanks_is_read_like_plume_without(tmp_path):
    plain, spaced = tmp_path / "a", tmp_path / "b"
    plain.write_text("w(1,1,0,0)\nr(1,1,1,1)\nr(2,0,1,2)")
    spaced.write_text("w( 1, 1, 0, 0 )\r\n\r\n r(1,1,1,1)\nr(2,0,1,2)\n")
    one, two = read(plain).operations(), read(spaced).operations()
    assert two["line"].to_pylist() == [1, 3, 4]
    assert one.drop_columns(["file", "line"]) == two.drop_columns(["file", "line"])


def test_zero_is_the_initial_value_unless_it_is_written(tmp_path):
    file = tmp_path / "history"
    file.write_text("w(1,5,0,0)\nw(1,0,0,1)\nr(1,0,0,2)\n")
    assert check(read(file)).outcome == "kept"
    file.write_text("w(1,5,0,0)\nr(1,0,0,2)\n")
    assert check(read(file)).levels["read-your-writes"] == "violated"


OLD_DBCOP = """{"params": {"id": 0}, "info": "", "data": [[
 {"events": [{"write": true, "variable": 0, "value": 1, "success": true}], "success": true},
 {"events": [{"write": false, "variable": 0, "value": 0, "success": true}], "success": true}
]]}"""


def test_the_first_version_of_dbcop_is_read(tmp_path):
    file = tmp_path / "history.json"
    file.write_text(OLD_DBCOP)
    verdict = check(read(file, name="dbcop"))
    assert verdict.levels["read-your-writes"] == "violated"
    assert verdict.violations["line"].to_pylist() == [3]


def test_a_zero_that_was_written_may_be_read_in_the_first_version_of_dbcop(tmp_path):
    def txn(write, value):
        event = {"write": write, "variable": 1, "value": value, "success": True}
        return {"events": [event], "success": True}

    file = tmp_path / "history.json"
    for sessions, outcome in (
        ([[txn(True, 5), txn(True, 0)], [txn(False, 5), txn(False, 0)]], "kept"),
        ([[txn(True, 5)], [txn(False, 5), txn(False, 0)]], "violated"),
    ):
        file.write_text(json.dumps(sessions))
        assert antecast.audit(file).outcome == outcome


def test_a_table_never_says_that_a_zero_was_written_where_it_may_be_the_initial_one(tmp_path):
    """Spark and exports take histories as tables: a read that may mean either is open there, not judged."""

    def txn(write, value):
        return {"events": [{"write": write, "variable": 1, "value": value, "success": True}], "success": True}

    file = tmp_path / "history.json"
    file.write_text(json.dumps([[txn(False, 0), txn(True, 5), txn(True, 0)]]))  # what it reads first is the start
    assert antecast.audit(file).outcome == "kept"
    table = read(file, name="dbcop").operations()
    assert table["value"].to_pylist() == [None, "5", "0"]
    assert antecast.audit(table, model="kv").outcome != "violated"
