"""Sources of files, as Spark calls them but without Spark: the same rows that the commands read, however cut."""

import json
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StringType, StructField, StructType

from antecast import make_scenario, run
from antecast.core.errors import AntecastError
from antecast.history.log_files import open_log
from antecast.spark.sources.files import Part, deal
from antecast.spark.sources.foreign import ForeignSource
from antecast.spark.sources.gtfs import GtfsSource
from antecast.spark.sources.logs import LogSource
from antecast.spark.sources.traces import ContactsSource, TraceSource
from antecast.traces import read, write

sys.path.insert(0, str(Path(__file__).parents[1] / "traces"))
from gtfs_feeds import feed

ONE = "0 CONN 0 1 up\n2.5 CONN 1 0 up\n9 CONN 0 1 down\n12 CONN 1 0 down\n13 CONN 2 1 up\n20 CONN 2 1 down\n"
WALK = "0 20 0.0 40.0 0.0 5.0\n0 7 0.0 0.0\n10 7 10.0 5.0\n20 7 40.0 5.0\n"


def rows_of(source, options, *, columns=None, parts=None):
    """What Spark would get: the reader is planned once, and every partition is read."""
    made = source({name.lower(): str(value) for name, value in options.items()})
    schema = made.schema()
    if columns is not None:
        schema = StructType([field for field in schema.fields if field.name in columns])
    reader = made.reader(schema)
    shares = reader.partitions()
    if parts is not None:
        assert len(shares) == parts
    batches = [batch for share in shares for batch in reader.read(share)]
    return [row for batch in batches for row in batch.to_pylist()]


def plain(table):
    return [{name: row[name] for name in table.column_names} for row in table.to_pylist()]


def test_a_contact_list_has_the_rows_that_traces_read(tmp_path):
    path = tmp_path / "meeting.txt"
    path.write_text(ONE)
    assert rows_of(ContactsSource, {"path": path}) == plain(read(path).table)


def test_movement_in_files_of_several_formats_is_read_file_by_file(tmp_path):
    (tmp_path / "a.one").write_text(WALK)
    write(read(tmp_path / "a.one"), tmp_path / "b.movements")
    found = rows_of(TraceSource, {"path": tmp_path, "fileColumn": "from"}, parts=2)
    assert {Path(row["from"]).name for row in found} == {"a.one", "b.movements"}
    assert len(found) == 4


def test_parquet_of_ours_is_read_by_row_groups(tmp_path):
    from antecast.sim.mobility import pedestrians

    table = pedestrians(seed=7)
    path = tmp_path / "walk.parquet"
    pq.write_table(table, path, row_group_size=len(table) // 4 + 1)
    assert rows_of(TraceSource, {"path": path}, parts=4) == plain(table)


def test_only_the_columns_that_are_asked_for_are_read(tmp_path):
    from antecast.sim.mobility import pedestrians

    table = pedestrians(seed=7)
    path = tmp_path / "walk.parquet"
    pq.write_table(table, path)
    assert rows_of(TraceSource, {"path": path}, columns=["t1"]) == plain(table.select(["t1"]))


def test_parquet_of_others_is_joined_as_a_whole(tmp_path):
    """Overlapping contacts in two row groups are one contact: such a file must not be cut."""
    path = tmp_path / "c.parquet"
    columns = {"a": ["1", "1"], "b": ["2", "2"], "start": [0, 5], "end": [6, 9]}
    pq.write_table(pa.table(columns), path, row_group_size=1)
    assert rows_of(ContactsSource, {"path": path}) == [{"a": "1", "b": "2", "start": 0, "end": 9}]


def test_a_pattern_means_files_and_folders_but_hidden_ones(tmp_path):
    """Folders were left out without a word, and the mark that Spark leaves was taken for a trace."""
    for name in (
        "walk-1/a.txt",
        "walk-2.txt",
        "walk-3/deep/b.txt",
        "walk-3/_part/c.txt",
        "_SUCCESS",
        "_walk/d.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(ONE if name.startswith("walk") and "_part" not in name else "")
    for pattern in ("*", "walk-*", "walk-[123]*"):
        assert len(rows_of(ContactsSource, {"path": tmp_path / pattern})) == 6
    with pytest.raises(AntecastError, match=r"no-\*: no such file or folder"):
        rows_of(ContactsSource, {"path": tmp_path / "no-*"})


def test_a_timetable_is_read_by_days(tmp_path):
    path = feed(tmp_path)
    found = rows_of(GtfsSource, {"path": path, "date": "2026-03-21,2026-03-28", "layover": "1min"}, parts=2)
    assert {row["date"] for row in found} == {date(2026, 3, 21), date(2026, 3, 28)}
    assert {row["node"] for row in found} == {"7"}
    assert rows_of(GtfsSource, {"path": f"{tmp_path}/f[e]*", "date": "2026-03-21", "layover": "1min"}, parts=1)


def log_lines(count, *, blank=False):
    rows = [
        {
            "node": f"n{n % 3}",
            "pos": n,
            "kind": "broadcast",
            "origin": f"n{n % 3}",
            "seq": n,
            "note": "é" * (n % 5),
        }
        for n in range(count)
    ]
    return "".join(json.dumps(row) + "\n" + ("\n" if blank and n % 7 == 3 else "") for n, row in enumerate(rows))


@given(count=st.integers(1, 40), size=st.integers(1, 4000), blank=st.booleans())
def test_lines_cut_anywhere_are_the_same_rows(tmp_path_factory, count, size, blank):
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    path.write_text(log_lines(count, blank=blank))
    whole = [row for batch in open_log([path]).batches() for row in batch.to_pylist()]
    assert rows_of(LogSource, {"path": path, "partBytes": size}) == whole
    flat = path.with_suffix(".csv")
    names = ["node", "pos", "kind", "origin", "seq"]
    flat.write_text("\n".join([",".join(names), *(",".join(str(row[n]) for n in names) for row in whole)]))
    whole = [row for batch in open_log([flat]).batches() for row in batch.to_pylist()]
    assert rows_of(LogSource, {"path": flat, "partBytes": size}) == whole


def test_a_line_break_in_quotes_is_not_a_place_to_cut(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('node,pos,kind,origin,seq\n"a\nb",1,broadcast,"a\nb",1\nc,1,deliver,"a\nb",1\n')
    assert [row["node"] for row in rows_of(LogSource, {"path": path, "partBytes": 8}, parts=1)] == ["a\nb", "c"]


@pytest.mark.parametrize("bad", [3, 17])
def test_a_bad_line_in_a_later_part_is_named(tmp_path, bad):
    path = tmp_path / "log.jsonl"
    lines = log_lines(20, blank=True).splitlines()
    place = next(n for n, line in enumerate(lines) if f'"pos": {bad},' in line)
    lines[place] = lines[place].replace(f'"pos": {bad}', '"pos": "soon"')
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(AntecastError, match=rf"log.jsonl:{place + 1}: pos is"):
        rows_of(LogSource, {"path": path, "partBytes": 300})


def test_a_value_that_only_the_column_refuses_is_named_by_its_line(tmp_path):
    path = tmp_path / "log.jsonl"
    rows = [
        {"node": 1, "pos": f"2026-01-01T00:00:{n:02}", "kind": "broadcast", "origin": 1, "seq": n}
        for n in range(20)
    ]
    rows[15]["pos"] = "never"
    path.write_text("\n\n".join(json.dumps(row) for row in rows))
    with pytest.raises(AntecastError, match=r"log.jsonl:31: pos is"):
        rows_of(LogSource, {"path": path, "partBytes": 300})


def test_a_run_has_all_columns_of_the_event_log_and_others_those_of_an_audit(tmp_path):
    scenario = make_scenario({"nodes": 3, "duration": "2s", "workload": [{"kind": "periodic", "every": "1s"}]})
    run(scenario, out=tmp_path / "run")
    events = pq.read_table(tmp_path / "run" / "events.parquet")
    assert rows_of(LogSource, {"path": tmp_path / "run"}) == plain(events)
    few = ["node", "pos", "kind"]
    assert rows_of(LogSource, {"path": tmp_path / "run"}, columns=few) == plain(events.select(few))
    path = tmp_path / "other.csv"
    path.write_text("host,pos,what,origin,seq\na,1,tx,a,1\nb,1,rx,a,1\n")
    options = {"path": path, "columns": "node=host,kind=what", "kinds": "broadcast=tx,deliver=rx"}
    assert [row["kind"] for row in rows_of(LogSource, options)] == ["broadcast", "deliver"]
    assert [list(row.items()) for row in rows_of(LogSource, options, columns=["node"])] == [
        [("node", "a")],
        [("node", "b")],
    ]


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (TraceSource, {}, "antecast.trace: no path; name a file, a folder or a pattern in load(...)"),
        (TraceSource, {"path": "nowhere.txt"}, "nowhere.txt: no such file or folder"),
        (TraceSource, {"path": "one.txt"}, "one.txt: holds contacts; read it with the format antecast.contacts"),
        (
            TraceSource,
            {"path": "one.txt", "fromat": "one"},
            "antecast.trace: unknown option 'fromat'; did you mean 'format'?",
        ),
        (
            TraceSource,
            {"path": "one.txt", "partitions": "few"},
            "antecast.trace: partitions: expected a whole number above zero, got 'few'",
        ),
        (
            TraceSource,
            {"path": "s3://bucket/one.txt"},
            "antecast.trace: path: cannot read s3://bucket/one.txt: files",
        ),
        (
            ContactsSource,
            {"path": "bad.txt"},
            'bad.txt:2: expected "time CONN a b up|down", got "12.3 CON 1 2 up"',
        ),
        (
            ContactsSource,
            {"path": "one.txt", "fileColumn": "A"},
            "antecast.contacts: fileColumn: expected a name that no column has, got 'A'; the columns are a, b",
        ),
        (
            TraceSource,
            {"path": "one.txt", "fileColumn": ""},
            "fileColumn: expected a name that no column has, got ''",
        ),
        (LogSource, {"path": "log.csv", "fileColumn": "node"}, "antecast.log: fileColumn: expected a name that"),
        (GtfsSource, {"path": "feed", "date": "2026-03-21", "fileColumn": "date"}, "no column has, got 'date'"),
        (GtfsSource, {"path": "fee[x]", "date": "2026-03-21"}, "fee[x]: no such file or folder; a feed is a zip"),
        (
            ContactsSource,
            {"path": "odd.txt"},
            "not a trace in a known format; .option('format', FORMAT) reads it",
        ),
        (
            ForeignSource,
            {"path": "one.txt"},
            "say which it is with the option 'format' (parquet, csv, jsonl, cobra",
        ),
        (ForeignSource, {"path": "one.txt", "model": "x"}, "antecast.foreign: model: expected "),
        (ForeignSource, {"path": "one.txt", "format": "x"}, "antecast.foreign: format: no such format 'x'"),
        (GtfsSource, {"path": "feed", "date": "someday"}, "antecast.gtfs: date: no such date as 'someday'"),
        (
            GtfsSource,
            {"path": "feed", "date": "2026-03-22..2026-03-21"},
            "antecast.gtfs: date: expected FIRST..LAST",
        ),
        (
            GtfsSource,
            {"path": "feed"},
            "antecast.gtfs: date: this option is required, such as .option('date', '2026-03-07')",
        ),
        (GtfsSource, {"path": "feed", "date": "2026-03-21", "layover": "some"}, "antecast.gtfs: layover: "),
        (
            LogSource,
            {"path": "one.txt", "format": "xml"},
            "antecast.log: format: expected parquet or csv or jsonl, got 'xml'",
        ),
        (
            LogSource,
            {"path": "log.csv", "columns": "node"},
            "antecast.log: columns: expected NAME=VALUE, separated by commas",
        ),
        (
            LogSource,
            {"path": "hosts.csv"},
            "no column 'node'; the file has host, pos, kind, origin, seq; say which it is with .option('columns'",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, monkeypatch, source, options, said):
    monkeypatch.chdir(tmp_path)
    Path("one.txt").write_text(ONE)
    Path("hosts.csv").write_text("host,pos,kind,origin,seq\na,1,broadcast,a,1\n")
    Path("odd.txt").write_text("garbage here\n")
    Path("log.csv").write_text("node,pos,kind,origin,seq\na,1,broadcast,a,1\n")
    Path("bad.txt").write_text("12 CONN 1 2 up\n12.3 CON 1 2 up\n14 CONN 1 2 down\n")
    feed(tmp_path)
    with pytest.raises(AntecastError) as error:
        rows_of(source, options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (
            StructField("speed", LongType()),
            "antecast.contacts: schema: no column 'speed'; the columns are a, b, start",
        ),
        (
            StructField("start", StringType()),
            "antecast.contacts: schema: the column 'start' is bigint, not string",
        ),
    ],
)
def test_a_schema_of_the_user_must_fit(tmp_path, field, said):
    (tmp_path / "one.txt").write_text(ONE)
    with pytest.raises(AntecastError, match=said):
        ContactsSource({"path": str(tmp_path)}).reader(StructType([field]))


@given(sizes=st.lists(st.integers(0, 100), min_size=1, max_size=60), tasks=st.integers(1, 12))
def test_parts_are_dealt_out_in_order_and_none_is_lost(sizes, tasks):
    parts = [Part(Path("x"), size, number) for number, size in enumerate(sizes)]
    shares = deal(parts, tasks)
    assert [part for share in shares for part in share] == parts
    assert len(shares) <= tasks or len(parts) <= tasks
    assert all(shares)
