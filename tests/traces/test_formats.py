"""The formats together: told apart by content, written and read again, refused where they do not fit."""

import io
import random
import string

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antecast.core import ConfigurationError, InputError, OutputError
from antecast.traces import CONTACTS, FORMATS, TRAJECTORIES, guess, node_order, read, write

SECOND = 10**9
CONTACT_FORMATS = ["one", "imote", "csv", "parquet"]
EXACT_MOVEMENT_FORMATS = ["walkers", "csv", "parquet"]
POINT_FORMATS = ["one-movement", "bonnmotion", "ns2"]


def contact_table(rows):
    rows = sorted(rows, key=lambda row: (row[2], row[3], node_order(row[0]), node_order(row[1])))
    return pa.Table.from_arrays(
        [pa.array(column) for column in zip(*rows, strict=True)], ["a", "b", "start", "end"]
    ).cast(CONTACTS)


def movement_table(rows):
    """Pieces (node, t0, x0, y0, t1, x1, y1), given in the order of node and time."""
    names = TRAJECTORIES.names
    return pa.Table.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], names).cast(TRAJECTORIES)


def there_and_back(table, name, tmp_path_factory, **options):
    path = tmp_path_factory.mktemp("trace") / "trace"
    notes = write(table, path, name)
    return read(path, name, **options), notes


def plain_rows(table):
    return [tuple(row.values()) for row in table.to_pylist()]


# --- there and back ------------------------------------------------------------------------------------------

times = st.integers(0, 200).map(lambda tenths: tenths * SECOND // 10) | st.integers(0, 10**14)
places = st.integers(-(10**6), 10**6).map(lambda number: number / 1000) | st.floats(
    -1e9, 1e9, allow_subnormal=False
)


numbers = st.integers(0, 12).map(str)


@st.composite
def contact_tables(draw, name=numbers, time=times):
    """Contacts of a few nodes: of each pair disjoint intervals that do not touch."""
    names = draw(st.lists(name, min_size=2, max_size=5, unique=True))
    rows = []
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            ends = sorted(draw(st.lists(time, max_size=6, unique=True)))
            a, b = sorted((one, other), key=node_order)
            rows += [(a, b, start, end) for start, end in zip(ends[0::2], ends[1::2], strict=False)]
    return contact_table(rows or [(*sorted(names[:2], key=node_order), 0, 20 * SECOND)])


@pytest.mark.parametrize("name", CONTACT_FORMATS)
@given(table=contact_tables())
def test_contacts_read_as_they_were_written(name, table, tmp_path_factory):
    trace, notes = there_and_back(table, name, tmp_path_factory)
    assert plain_rows(trace.table) == plain_rows(table)
    assert notes == () and trace.format == name


@given(table=contact_tables(time=st.integers(0, 50).map(lambda number: 20 * SECOND * number)))
def test_sociopatterns_keeps_contacts_of_whole_intervals(table, tmp_path_factory):
    trace, notes = there_and_back(table, "sociopatterns", tmp_path_factory, order="tij")
    assert plain_rows(trace.table) == plain_rows(table) and notes == ()


@given(table=contact_tables(time=st.integers(0, 300).map(lambda number: SECOND * number)))
def test_sociopatterns_widens_other_contacts_and_says_so(table, tmp_path_factory):
    trace, notes = there_and_back(table, "sociopatterns", tmp_path_factory, order="tij")
    step = 20 * SECOND
    covered = {}
    for a, b, start, end in plain_rows(table):
        covered.setdefault((a, b), set()).update(range(start // step, -(-end // step)))
    for a, b, start, end in plain_rows(trace.table):
        assert start % step == end % step == 0
        covered[a, b] -= set(range(start // step, end // step))
    assert not any(covered.values())
    if any(start % step or end % step for _, _, start, end in plain_rows(table)):
        assert notes == ("contacts are widened to whole intervals of 20s",)


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n\x85"), min_size=1, max_size=6).map(
    str.strip
)


@pytest.mark.parametrize("name", ["csv", "parquet"])
@given(table=contact_tables(name=texts.filter(lambda text: text and not text.startswith("#"))))
def test_tables_keep_any_name(name, table, tmp_path_factory):
    trace, _ = there_and_back(table, name, tmp_path_factory)
    assert sorted(plain_rows(trace.table)) == sorted(plain_rows(table))


@st.composite
def movement_tables(draw, whole=False):
    """Pieces of a few nodes; with `whole`, all there from 0 to one end, without absences and jumps."""
    count = draw(st.integers(1, 4))
    end = draw(st.integers(1, 500)) * SECOND
    rows = []
    for node in range(count):
        if whole:
            t = sorted({0, end, *draw(st.lists(st.integers(0, end), max_size=5))})
        else:
            t = sorted(draw(st.sets(times, min_size=2, max_size=6)))
        points = [(draw(places), draw(places)) for _ in t]
        for index in range(len(t) - 1):
            away = not whole and draw(st.integers(0, 3)) == 0
            start = (draw(places), draw(places)) if not whole and draw(st.integers(0, 5)) == 0 else points[index]
            if not away:
                rows.append((str(node), t[index], *start, t[index + 1], *points[index + 1]))
    return movement_table(rows or [("0", 0, 0.0, 0.0, SECOND, 1.0, 1.0)])


@pytest.mark.parametrize("name", EXACT_MOVEMENT_FORMATS)
@given(table=movement_tables())
@example(table=movement_table([("0", 0, 0.0, 0.0, 5, 1.0, 1.0), ("0", 5, 2.0, 2.0, 9, 3.0, 3.0)]))
def test_movement_reads_as_it_was_written_absences_and_jumps_included(name, table, tmp_path_factory):
    trace, notes = there_and_back(table, name, tmp_path_factory)
    assert plain_rows(trace.table) == plain_rows(table)
    numbered = {row[0] for row in plain_rows(table)}
    assert notes == () and trace.nodes == len(numbered)


@pytest.mark.parametrize("name", ["one-movement", "bonnmotion"])
@given(table=movement_tables(whole=True))
def test_movement_of_nodes_that_stay_reads_as_it_was_written(name, table, tmp_path_factory):
    options = {"dimensions": 2} if name == "bonnmotion" else {}
    trace, _ = there_and_back(table, name, tmp_path_factory, **options)
    assert plain_rows(trace.table) == plain_rows(table)


def position(rows, node, t):
    for name, t0, x0, y0, t1, x1, y1 in rows:
        if name == node and t0 <= t <= t1:
            part = (t - t0) / (t1 - t0)
            return x0 + part * (x1 - x0), y0 + part * (y1 - y0)
    return None


@given(table=movement_tables(whole=True), moment=st.floats(0, 1))
def test_ns2_takes_nodes_that_stay_to_the_same_places(table, moment, tmp_path_factory):
    """Speeds are rounded, so pieces may be cut a nanosecond off; places agree."""
    trace, _ = there_and_back(table, "ns2", tmp_path_factory, motion="ns2")
    before, after = plain_rows(table), plain_rows(trace.table)
    end = max(row[4] for row in before)
    assert abs(trace.span[1] - end) <= 1000 and {row[0] for row in before} == {row[0] for row in after}
    for node in {row[0] for row in before}:
        t = int(moment * (end - 2000))
        reach = 1e-3 + 1e-6 * max(abs(value) for row in before for value in (*row[2:4], *row[5:7])) * 500 / (
            end / SECOND
        )
        if t > 0:
            assert np.allclose(position(before, node, t), position(after, node, t), rtol=0, atol=reach)


def test_walkers_in_steps_survive_ns2(tmp_path):
    rows = [("0", t, float(t), 0.0, t + 600, t + 600.0, 0.0) for t in range(600, 6000, 600)]
    rows += [("1", t, 0.0, float(t), t + 600, 0.0, t + 600.0) for t in range(3000, 9000, 600)]
    table = movement_table(
        [(node, t0 * 10**6, x0, y0, t1 * 10**6, x1, y1) for node, t0, x0, y0, t1, x1, y1 in rows]
    )
    assert write(table, tmp_path / "walk.tcl") == ()
    assert read(tmp_path / "walk.tcl").table.equals(table)


def test_what_a_format_cannot_say_is_noted(tmp_path):
    table = movement_table(
        [("bus a", 0, 0.0, 0.0, SECOND, 1.0, 0.0), ("bus a", 3 * SECOND, 3.0, 0.0, 4 * SECOND, 4.0, 0.0)]
    )
    lost = "1 absence of a node written as a straight line: the format has no word for it"
    assert write(table, tmp_path / "a.movements") == (
        "nodes are numbered from 0 in the order of their names: a node is its line",
        lost,
    )
    assert (tmp_path / "a.movements").read_text() == "# node 0 is bus a\n0 0.0 0.0 1 1.0 0.0 3 3.0 0.0 4 4.0 0.0\n"
    notes = write(table, tmp_path / "a.one")
    assert lost in notes and any("step=1s" in note for note in notes)
    assert lost.replace("a straight line", "standing still") in write(table, tmp_path / "a.ns2")
    assert any("do not come and go" in note for note in write(table.slice(1), tmp_path / "b.ns2"))
    names = contact_table([("Ann B", "Bob", 0, SECOND)])
    assert "single words only" in write(names, tmp_path / "names.imote")[0]
    assert "numbers only" in write(names, tmp_path / "names.one")[0]
    assert read(tmp_path / "names.one").table.to_pylist() == [{"a": "0", "b": "1", "start": 0, "end": SECOND}]


def test_one_movement_can_be_sampled_evenly(tmp_path):
    table = movement_table(
        [("0", 0, 0.0, 0.0, 2 * SECOND, 2.0, 0.0), ("0", 2 * SECOND, 2.0, 0.0, 5 * SECOND, 2.0, 6.0)]
    )
    assert write(table, tmp_path / "m.one", step="1s") == ()
    lines = (tmp_path / "m.one").read_text().splitlines()
    assert lines[0] == "0 5 0.0 2.0 0.0 6.0"
    assert lines[1:] == ["0 0 0.0 0.0", "1 0 1.0 0.0", "2 0 2.0 0.0", "3 0 2.0 2.0", "4 0 2.0 4.0", "5 0 2.0 6.0"]


def test_an_imote_list_counts_the_contacts_of_a_pair_and_the_time_between(tmp_path):
    table = contact_table([("1", "2", 0, 10), ("1", "2", 25, 30), ("1", "3", 5, 6)])
    table = table.set_column(2, CONTACTS.field("start"), pa.array([0, 5 * SECOND, 25 * SECOND]))
    table = table.set_column(3, CONTACTS.field("end"), pa.array([10 * SECOND, 6 * SECOND, 30 * SECOND]))
    write(table, tmp_path / "t.imote")
    assert (tmp_path / "t.imote").read_text() == "1\t2\t0\t10\t1\t0\n1\t2\t25\t30\t2\t15\n1\t3\t5\t6\t1\t0\n"


# --- guessing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, each in FORMATS.items() if "contacts" in each.holds])
@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz"])
def test_what_we_write_of_contacts_we_recognise(tmp_path, name, suffix):
    numbers = random.Random(name)
    rows = [
        ("1", str(b), start * 20 * SECOND, (start + numbers.randint(1, 5)) * 20 * SECOND)
        for b in (2, 3, 14)
        for start in (1, 9)
    ]
    path = tmp_path / f"trace{suffix}"
    write(contact_table(rows), path, name)
    assert guess(path) == name and len(read(path).table) == 6


@pytest.mark.parametrize("name", [name for name, each in FORMATS.items() if "movement" in each.holds])
def test_what_we_write_of_movement_we_recognise(tmp_path, name):
    rows = [
        (str(node), t * SECOND, t / 7, 2.5, (t + 1) * SECOND, (t + 1) / 7, 2.5)
        for node in (0, 1)
        for t in range(3)
    ]
    write(movement_table(rows), tmp_path / "trace", name)
    assert guess(tmp_path / "trace") == name and len(read(tmp_path / "trace").table) == 6


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("0 CONN 0 1 up\n12.3 CON 1 2 up\n", "one"),
        ("1 2 100 200 1 0\n1 3 100 200 1 0\n", "imote"),
        ("1\t2\t100.5\t200.25\t1\t0\n1\t3\t100\t200\t1\t0\n", "imote"),
        ("1 2 nan 200 1 0\n1 3 100 200 1 0\n1 3 400 500 2 200\n", "imote"),
        ("1386\t17\t31\n", "sociopatterns"),
        ("31140 157 217 2BIO3 2BIO3\n", "sociopatterns"),
        ("0 100 0 5 0 5 0 0\n0 1 2 3\n", "one-movement"),
        ("0.0 9.0 0.0 5.0 0.0 5.0 0.0 0.0\n0.0 0 1.5 1.5\n0.0 1 2.5 2.5\n", "one-movement"),
        ("0.0 1.5 1.5 9.0 4.0 2.5 1.5 9.0\n0.0 2.5 2.5 9.0\n", "bonnmotion"),
        ("0.0 1.0 2.0 5.0 1.0 2.0\n0.0 1.5 2.5\n", "bonnmotion"),
        ("0 10 20 5 30 40 9 30 40\n0 1 1\n", "bonnmotion"),
        ("set x 1\n$node_(0) set X_ 1\n", "ns2"),
        ("6.0 setdest 1 8 4 0 0.8 6.6\n", "walkers"),
        ("Source;Target;Start time;End time\nx;y;0;1\n", "csv"),
        ("id\ttime\tx\ty\nq\t0\t1\t1\n", "csv"),
    ],
)
def test_formats_are_told_apart(tmp_path, text, name):
    (tmp_path / "trace").write_text(text)
    assert guess(tmp_path / "trace") == name


@pytest.mark.parametrize("text", ["Dear all,\nplease find attached\n", "hello\n", '{"chord": 1}\n', "1 2\n3 4\n"])
def test_what_is_no_trace_is_not_guessed(tmp_path, text):
    (tmp_path / "trace").write_text(text)
    with pytest.raises(InputError, match=r"trace.*(--from|expected columns)"):
        read(tmp_path / "trace")


def test_a_tie_is_left_to_the_user(tmp_path, monkeypatch):
    from dataclasses import replace

    from antecast.traces import formats

    twin = replace(FORMATS["one"], name="twin")
    monkeypatch.setattr(formats, "FORMATS", dict(FORMATS) | {"twin": twin})
    (tmp_path / "trace").write_text("0 CONN 0 1 up\n")
    with pytest.raises(InputError, match="could be one or twin; `antecast convert --from FORMAT`"):
        guess(tmp_path / "trace")


@given(st.binary(max_size=300) | st.text(string.printable, max_size=300).map(str.encode))
def test_no_bytes_make_a_reader_fail_in_any_other_way(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("junk") / "trace"
    path.write_bytes(data)
    for name in (None, *FORMATS):
        try:
            read(path, name)
        except InputError as error:
            assert str(path) in str(error)


VALUES = ["0", "1", "2.5", "-3", "nan", "1e400", "x", "ä", '"', "#", "\t", "", "1,2,3,4", "a,b,start,end"]
COMMANDS = ["CONN", "up", "down", "create", "setdest", "destroy", "$node_(0)", "$ns_", "at", "set", "X_"]
words = st.sampled_from(VALUES + COMMANDS)


@given(st.lists(st.lists(words, max_size=9), max_size=6))
def test_no_words_make_a_reader_fail_in_any_other_way(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("junk") / "trace"
    path.write_text("\n".join(" ".join(line) for line in lines), encoding="utf-8")
    for name in (None, *FORMATS):
        try:
            read(path, name)
        except InputError as error:
            assert str(path) in str(error)


# --- tables --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a,b,start,end\n2,1,0.5,3\n",
        "t_start,t_end,node1,node2\n0.5,3,1,2\n",
        "id,Source,Target,Begin,Stop,weight\n7,1,2,0.5,3.0,9\n",
        "# made by hand\n\nfrom;to;start_time;duration\n1;2;0.5;2.5\n",
        '"id1"\t"id2"\t"start"\t"end"\n"1"\t"2"\t0.5\t3\n',
        "a,b,start,end\n1,2,0.5,2\n2,1,1,3\n",
    ],
)
def test_columns_are_known_by_several_names(tmp_path, text):
    (tmp_path / "c.csv").write_text(text)
    assert read(tmp_path / "c.csv").table.to_pylist() == [
        {"a": "1", "b": "2", "start": SECOND // 2, "end": 3 * SECOND}
    ]


def test_places_in_a_csv_are_joined(tmp_path):
    (tmp_path / "m.csv").write_text("time,id,x,y\n10,n1,5,0\n0,n1,0,0\n4,n2,1,1\n")
    trace = read(tmp_path / "m.csv")
    assert plain_rows(trace.table) == [
        ("n1", 0, 0.0, 0.0, 10 * SECOND, 5.0, 0.0),
        ("n2", 4 * SECOND, 1.0, 1.0, 10 * SECOND, 1.0, 1.0),
    ]
    assert trace.notes == ("1 node with one row, standing there until 10 s",)


def test_a_table_without_rows_is_a_trace_without_contacts(tmp_path):
    (tmp_path / "c.csv").write_text("a,b,start,end\n")
    trace = read(tmp_path / "c.csv")
    assert (len(trace.table), trace.nodes, trace.span) == (0, 0, (0, 0))
    write(trace, tmp_path / "c.parquet")
    assert read(tmp_path / "c.parquet").table.schema.equals(CONTACTS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("who,whom\n1,2\n", "c.csv:1: expected columns a,b,start,end for contacts"),
        ("a,b,start,end\n1,2,3\n", "c.csv:2: expected 4 columns, as the header has, got 3"),
        ("a,b,start,end\n1,2,0,1\n1,2,x,4\n", 'c.csv:3: expected a time in seconds, got "x"'),
        ("a,b,start,end\n\n1,2,5,4\n", "c.csv:3: expected an end that is not before the start"),
        ("a,b,start,end\n1,,5,6\n", "c.csv:2: expected a name in column b, got nothing"),
        ('a,b,start,end\n1,"2,5,6\n1,2,3,4\n', "c.csv:2: expected one row a line"),
        ("node,t,x,y\n1,2,inf,6\n", 'c.csv:2: expected a number, got "inf"'),
        ("node,t0,x0,y0,t1,x1,y1\nn,0,0,0,5,1,1\nn,4,0,0,6,1,1\n", "c.csv:3: expected pieces of a node"),
        ("node,t0,x0,y0,t1,x1,y1\nn,6,0,0,5,1,1\n", "c.csv:2: expected t1 not to be before t0"),
    ],
)
def test_a_wrong_line_of_csv_is_named(tmp_path, text, problem):
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "c.csv", "csv")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"a": ["1"], "b": ["2"], "start": [0.5], "end": [1.5]}, "whole nanoseconds in column start, got double"),
        ({"a": ["1"], "b": [None], "start": [0], "end": [1]}, "row 1: expected a value in column b"),
        ({"a": ["1", "1"], "b": ["2", "3"], "start": [0, 3], "end": [1, 2]}, "row 2: expected an end"),
        (
            {"a": ["1"], "b": ["2"], "start": [-5], "end": [1]},
            "row 1: expected a time of zero or more in column start",
        ),
        (
            {"a": ["x"], "b": ["y"], "start": [0], "end": [2**62 + 1]},
            "row 1: expected nanoseconds in column end, got 4611686018427387905, which is more than 146 years",
        ),
        ({"who": ["1"]}, "expected columns a,b,start,end"),
    ],
)
def test_a_parquet_file_of_another_kind_is_refused(tmp_path, columns, problem):
    pq.write_table(pa.table(columns), tmp_path / "c.parquet")
    with pytest.raises(InputError) as caught:
        read(tmp_path / "c.parquet")
    assert problem in str(caught.value)


def test_a_parquet_file_cut_short_is_refused(tmp_path):
    file = io.BytesIO()
    pq.write_table(contact_table([("1", "2", 0, 1)]), file)
    (tmp_path / "c.parquet").write_bytes(file.getvalue()[:-20])
    with pytest.raises(InputError, match=r"c\.parquet: cannot be read as Parquet"):
        read(tmp_path / "c.parquet")


def test_parquet_takes_numbers_for_names_and_any_order_of_rows(tmp_path):
    pq.write_table(
        pa.table({"a": [10, 3], "b": [2, 1], "start": [5, 0], "end": [6, 9], "x": [0, 0]}), tmp_path / "c"
    )
    assert plain_rows(read(tmp_path / "c").table) == [("1", "3", 0, 9), ("2", "10", 5, 6)]


# --- writing -------------------------------------------------------------------------------------------------


def test_nothing_is_written_over_and_nothing_is_left_behind(tmp_path):
    table = contact_table([("1", "2", 0, SECOND)])
    (tmp_path / "t.csv").write_text("mine")
    with pytest.raises(OutputError, match=r"t\.csv: exists already; --force"):
        write(table, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "mine"
    write(table, tmp_path / "t.csv", replace=True)
    assert (tmp_path / "t.csv").read_text() == "a,b,start,end\n1,2,0,1\n"
    with pytest.raises(OutputError, match="cannot write: No such file"):
        write(table, tmp_path / "nowhere" / "t.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_contacts_and_movement_are_not_confused(tmp_path):
    contacts = contact_table([("1", "2", 0, SECOND)])
    movement = movement_table([("0", 0, 0.0, 0.0, SECOND, 1.0, 1.0)])
    with pytest.raises(
        ConfigurationError, match="imote holds contacts, and this is movement: `antecast contacts`"
    ):
        write(movement, tmp_path / "x", "imote")
    with pytest.raises(ConfigurationError, match="ns2 holds movement, and this is contacts"):
        write(contacts, tmp_path / "x.tcl")
    write(contacts, tmp_path / "contacts.one.txt")
    write(movement, tmp_path / "movement.one.txt")
    assert (guess(tmp_path / "contacts.one.txt"), guess(tmp_path / "movement.one.txt")) == ("one", "one-movement")


def test_options_and_names_that_are_not_known_are_refused(tmp_path):
    table = contact_table([("1", "2", 0, SECOND)])
    with pytest.raises(ConfigurationError, match="unknown format 'two'; known are one,"):
        write(table, tmp_path / "x", "two")
    with pytest.raises(ConfigurationError, match=r"x\.txt does not tell a format"):
        write(table, tmp_path / "x.txt")
    with pytest.raises(ConfigurationError, match="unknown option 'speed'; csv takes no options"):
        write(table, tmp_path / "x.csv", speed="fast")
    write(table, tmp_path / "x.tij")
    with pytest.raises(ConfigurationError, match="interval: expected a duration above zero"):
        read(tmp_path / "x.tij", interval="-5s")
    with pytest.raises(ConfigurationError, match="order: expected auto or tij or ijt"):
        read(tmp_path / "x.tij", order="jit")


PER_DEVICE = "21\t4821\t5420\n3\t4900\t4900\n21\t9001\t9130\n8\t9002\t9007\n"


def test_a_list_of_one_device_is_not_taken_for_sociopatterns(tmp_path):
    path = tmp_path / "17.dat"
    path.write_text(PER_DEVICE)
    assert guess(path) == "imote"
    trace = read(path)
    pairs = {tuple(sorted((row["a"], row["b"]))) for row in trace.table.to_pylist()}
    assert pairs == {("17", "21"), ("17", "3"), ("17", "8")}
    assert len(trace.table) == 4
    assert trace.notes[0] == "contacts of device 17 alone"


@pytest.mark.parametrize(
    "text",
    [
        "7 100 200\n8 150 160\n7 300 400\n",  # all of them whole intervals apart, by chance
        "7 101 203\n7 305 407\n",  # one other device alone
        "id start end\n7 100 200\n8 155 160\n7 300 400\n",
    ],
)
def test_lists_of_one_device_are_known_by_times_in_their_order(tmp_path, text):
    path = tmp_path / "device_5"
    path.write_text(text)
    assert guess(path) == "imote"
    assert read(path).notes[0] == "contacts of device 5 alone"


@pytest.mark.parametrize("text", ["20 1 2\n20 3 4\n40 1 2\n", "20 1 2\n20 3 4\n", "1 2 20\n1 2 40\n1 3 40\n"])
def test_rows_of_pairs_are_not_a_list_of_one_device(tmp_path, text):
    path = tmp_path / "device_5"
    path.write_text(text)
    assert guess(path) == "sociopatterns"


@pytest.mark.parametrize(
    ("time", "problem"),
    [("1700000000000", "expected a time"), ("-20", "expected a time of zero or more"), ("nan", "expected a time")],
)
def test_numbers_that_are_no_times_are_not_taken_for_ids(tmp_path, time, problem):
    path = tmp_path / "school"
    path.write_text(f"{time} 1 2\n40 1 2\n60 1 2\n")
    with pytest.raises(InputError, match=rf"school:1: {problem}.*{time}"):
        read(path)
    path.write_text("9999999999999 1 20\n9999999999999 1 40\n")  # large ids before times
    assert len(read(path).table) == 1


def test_rows_of_a_node_with_itself_are_counted_once(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text("a,b,start,end\n1,1,0,5\n1,2,3,4\n")
    trace = read(path)
    assert trace.notes == ("1 row of a node with itself ignored",)


def test_whose_list_it_is_must_be_known(tmp_path):
    path = tmp_path / "contacts.dat"
    path.write_text(PER_DEVICE)
    with pytest.raises(InputError, match=r"of one device's contacts .* of which\? say device=NAME"):
        read(path)
    named = {name for row in read(path, device="me").table.to_pylist() for name in (row["a"], row["b"])}
    assert named == {"me", "21", "3", "8"}


@pytest.mark.parametrize(
    "text",
    [
        "31220,1,5\n31240,1,5\n31260,2,7\n",
        "t,i,j\n31220,1,5\n31240,1,5\n31260,2,7\n",
        "t i j\n31220 1 5\n31240 1 5\n31260 2 7\n",
        "i;j;t\n1;5;31220\n1;5;31240\n2;7;31260\n",
        "time\tuser\tother\tclass\tclass\n31220\t1\t5\tA\tB\n31240\t1\t5\tA\tB\n31260\t2\t7\tA\tB\n",
    ],
)
@pytest.mark.parametrize("name", [None, "sociopatterns"])
def test_rows_of_sociopatterns_with_commas_and_lines_of_names(tmp_path, text, name):
    path = tmp_path / "school"
    path.write_text(text)
    found = [(row["a"], row["b"], row["start"], row["end"]) for row in read(path, name).table.to_pylist()]
    assert found == [("1", "5", 31200 * 10**9, 31240 * 10**9), ("2", "7", 31240 * 10**9, 31260 * 10**9)]


def test_a_line_of_names_above_an_imote_list(tmp_path):
    path = tmp_path / "list"
    path.write_text("id1 id2 start end nth gap\n1 2 100 160 1 0\n1 3 100 190 1 0\n")
    assert guess(path) == "imote"
    assert len(read(path).table) == 2
    path.write_text("1,2,100,160\n1,3,100,190\n")
    assert len(read(path, "imote").table) == 2
