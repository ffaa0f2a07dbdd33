"""Contacts: ups and downs in any order, and lists of them, become disjoint intervals of unordered pairs."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antecast.core import InputError
from antecast.traces import CONTACTS, read
from antecast.traces.assemble import join_contacts, join_intervals

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SECOND = 10**9


def contacts(tmp_path, text, name=None, **options):
    """The contacts of a trace as (a, b, start, end) in seconds, and its notes."""
    path = tmp_path / "trace.txt"
    path.write_text(text, encoding="utf-8")
    trace = read(path, name, **options)
    assert trace.kind == "contacts" and trace.table.schema.equals(CONTACTS, check_metadata=True)
    rows = [(row["a"], row["b"], row["start"] / SECOND, row["end"] / SECOND) for row in trace.table.to_pylist()]
    return rows, trace.notes


# --- joining -------------------------------------------------------------------------------------------------


def joined_one_by_one(events):
    """The rules again, as plainly as possible: (pair, t, up) in order to disjoint intervals."""
    last = max((t for _, t, _ in events), default=0)
    found = []
    for pair in {pair for pair, _, _ in events}:
        depth, start, intervals = 0, 0, []
        for _, t, up in sorted((event for event in events if event[0] == pair), key=lambda event: event[1]):
            if up:
                start, depth = (t if depth == 0 else start), depth + 1
            elif depth:
                depth -= 1
                if depth == 0:
                    intervals.append((start, t))
        if depth:
            intervals.append((start, last))
        merged = []
        for begin, end in intervals:
            if merged and begin <= merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
            else:
                merged.append((begin, end))
        found += [(begin, end + (begin == end), *pair) for begin, end in merged]
    return sorted(found)


pairs = st.sampled_from([("1", "2"), ("1", "10"), ("2", "10")])


@given(st.lists(st.tuples(pairs, st.integers(0, 8), st.booleans())))
@example([(("1", "2"), 0, True), (("1", "2"), 3, False), (("1", "2"), 3, True), (("1", "2"), 5, False)])
@example([(("1", "2"), 1, False), (("1", "2"), 1, True)])
def test_ups_and_downs_are_joined_as_the_plain_rules_say(events):
    a = pa.array([pair[position % 2] for position, (pair, _, _) in enumerate(events)], pa.string())
    b = pa.array([pair[1 - position % 2] for position, (pair, _, _) in enumerate(events)], pa.string())
    t = np.array([t for _, t, _ in events], np.int64)
    up = np.array([up for _, _, up in events], bool)
    table, joined = join_contacts(a, b, t, up)
    expected = joined_one_by_one(events)
    order = {name: place for place, name in enumerate(("1", "2", "10"))}
    got = [(row["start"], row["end"], row["a"], row["b"]) for row in table.to_pylist()]
    assert got == sorted(expected, key=lambda row: (row[0], row[1], order[row[2]], order[row[3]]))
    assert joined.nested + joined.stray + joined.unfinished <= len(events)


@given(st.lists(st.tuples(pairs, st.integers(0, 20), st.integers(0, 6))))
def test_intervals_of_a_pair_that_overlap_or_touch_are_one(rows):
    a, b = (pa.array([pair[side] for pair, _, _ in rows], pa.string()) for side in (0, 1))
    start = np.array([start for _, start, _ in rows], np.int64)
    table, _ = join_intervals(a, b, start, start + np.array([length for _, _, length in rows], np.int64))
    covered = {(pair, t) for pair, start, length in rows for t in range(2 * start, 2 * (start + length) + 1)}
    for row in table.to_pylist():
        pair = (row["a"], row["b"])
        end = row["end"] if (pair, 2 * row["start"] + 1) in covered else row["start"]
        for t in range(2 * row["start"], 2 * end + 1):
            covered.remove((pair, t))
    assert not covered


# --- ONE -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not DATA.exists(), reason="needs the shared data")
def test_the_conference_trace_has_its_figures():
    trace = read(DATA / "contacts" / "sbrc_2019.one.txt")
    assert (trace.format, trace.nodes, len(trace.table)) == ("one", 356, 24_787)
    assert trace.span == (0, 200_494 * SECOND)
    assert trace.notes == ("58 nested ups joined",)
    rows = trace.table.to_pandas()
    assert (rows.start < rows.end).all()
    assert rows.sort_values(["start", "end", "a", "b"], kind="stable").index.tolist() == list(range(len(rows)))


def test_both_devices_report_a_contact(tmp_path):
    text = "0 CONN 1 2 up\n1 CONN 2 1 up\n5 CONN 1 2 down\n7 CONN 2 1 down\n"
    assert contacts(tmp_path, text) == ([("1", "2", 0, 7)], ("1 nested up joined",))


def test_rows_may_be_unsorted_and_written_with_blanks_tabs_and_in_capitals(tmp_path):
    text = "# a comment\n\n7.25\tCONN 10 9\tDOWN\n 0.5   conn  9 10 UP   # here too\n3 C M1 0 5 1000\n"
    rows, notes = contacts(tmp_path, text, "one")
    assert rows == [("9", "10", 0.5, 7.25)]
    assert notes == ("1 event of a message ignored",)


def test_down_and_up_at_one_time_do_not_end_a_contact(tmp_path):
    text = "0 CONN 1 2 up\n5 CONN 1 2 down\n5 CONN 1 2 up\n9 CONN 1 2 down\n"
    assert contacts(tmp_path, text) == ([("1", "2", 0, 9)], ())


def test_up_and_down_at_one_time_are_a_contact_of_a_nanosecond(tmp_path):
    rows, notes = contacts(tmp_path, "5 CONN 1 2 up\n5 CONN 1 2 down\n")
    assert rows == [("1", "2", 5, 5.000000001)]
    assert notes == ("1 contact without length kept as 1 ns",)


def test_what_is_still_up_ends_with_the_trace_and_a_stray_down_is_ignored(tmp_path):
    text = "0 CONN 1 2 down\n2 CONN 1 2 up\n3 CONN 3 3 up\n9 CONN 1 3 up\n9 CONN 1 3 down\n30 CONN 4 1 down\n"
    rows, notes = contacts(tmp_path, text)
    assert rows == [("1", "3", 9, 9.000000001), ("1", "2", 2, 30)][::-1]
    assert notes == (
        "2 downs without an up ignored",
        "1 contact still up at the end, ended there",
        "1 contact without length kept as 1 ns",
        "1 row of a node with itself ignored",
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("12.3 CON 1 2 up", 'trace.txt:3: expected "time CONN a b up|down", got "12.3 CON 1 2 up"'),
        ("12.3 CONN 1 2", 'trace.txt:3: expected "time CONN a b up|down", got "12.3 CONN 1 2"'),
        ("12.3 CONN 1 2 up wlan more", 'trace.txt:3: expected "time CONN a b up|down"'),
        ("12.3 CONN 1 2 sideways", 'trace.txt:3: expected "time CONN a b up|down"'),
        ("noon CONN 1 2 up", 'trace.txt:3: expected a time in seconds, got "noon"'),
        ("nan CONN 1 2 up", 'trace.txt:3: expected a time in seconds, got "nan"'),
        ("-1 CONN 1 2 up", 'trace.txt:3: expected a time of zero or more, got "-1"'),
    ],
)
def test_a_wrong_line_of_connectivity_is_named(tmp_path, line, problem):
    with pytest.raises(InputError) as caught:
        contacts(tmp_path, f"# head\n0 CONN 0 1 up\n{line}\n20 CONN 0 1 down\n")
    assert problem in str(caught.value)


# --- imote ---------------------------------------------------------------------------------------------------


def test_an_imote_list_is_joined_from_both_sides(tmp_path):
    text = "1\t2\t100\t200\t1\t0\n2\t1\t150\t260\t1\t0\n1\t3\t40\t40\t1\t0\n1\t2\t300\t301\t2\t40\n"
    rows, notes = contacts(tmp_path, text)
    assert rows == [("1", "3", 40, 40.000000001), ("1", "2", 100, 260), ("1", "2", 300, 301)]
    assert notes == ("1 contact without length kept as 1 ns",)


def test_the_last_columns_of_an_imote_list_are_optional(tmp_path):
    assert contacts(tmp_path, "1 2 0 10\n2 3 5 6.5\n")[0] == [("1", "2", 0, 10), ("2", "3", 5, 6.5)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 2 10", 'trace.txt:2: expected "id1 id2 start end [nth gap]", got "1 2 10"'),
        ("1 2 20 10", "trace.txt:2: expected an end that is not before the start"),
        ("1 2 nan 10", 'trace.txt:2: expected a time in seconds, got "nan"'),
    ],
)
def test_a_wrong_line_of_an_imote_list_is_named(tmp_path, line, problem):
    with pytest.raises(InputError) as caught:
        contacts(tmp_path, f"1 2 0 5\n{line}\n", "imote")
    assert problem in str(caught.value)


# --- SocioPatterns -------------------------------------------------------------------------------------------


def test_rows_an_interval_apart_are_one_contact_in_either_order_of_columns(tmp_path):
    times = [60, 20, 40, 100, 120]
    expected = [("17", "31", 0, 60), ("17", "31", 80, 120)]
    note = "rows stand for the 20s before their time"
    tabs = "".join(f"{t}\t31\t17\n" for t in times)
    assert contacts(tmp_path, tabs) == (expected, ("columns are t i j", note))
    blanks = "".join(f"31 17 {t}\n" for t in times)
    assert contacts(tmp_path, blanks) == (expected, ("columns are i j t", note))
    classes = "".join(f"{t} 31 17 2BIO1 MP*1\n" for t in times)
    assert contacts(tmp_path, classes) == (expected, ("columns are t i j …", note))


def test_where_content_does_not_tell_the_order_tabs_do(tmp_path):
    assert contacts(tmp_path, "40\t1\t2\n")[0] == [("1", "2", 20, 40)]
    assert contacts(tmp_path, "1 2 40\n")[0] == [("1", "2", 20, 40)]
    assert contacts(tmp_path, "40 1 2\n", order="tij")[0] == [("1", "2", 20, 40)]


def test_a_row_at_zero_makes_rows_stand_for_what_follows(tmp_path):
    rows, notes = contacts(tmp_path, "0\t1\t2\n20\t1\t2\n")
    assert rows == [("1", "2", 0, 40)]
    assert "from their time on" in notes[1]


def test_the_interval_can_be_chosen(tmp_path):
    text = "300\t1\t2\n600\t1\t2\n620\t1\t2\n"
    rows, _ = contacts(tmp_path, text, "sociopatterns", interval="5min", order="tij")
    assert rows == [("1", "2", 0, 620)]


def test_names_that_are_no_numbers_are_kept(tmp_path):
    text = "1386 tag7 tag12\n1406 tag7 tag12\n"
    assert contacts(tmp_path, text, "sociopatterns")[0] == [("tag7", "tag12", 1366, 1406)]


@pytest.mark.parametrize("line", ["40\t1", "forty\t1\t2", "-20\t1\t2"])
def test_a_wrong_line_of_sociopatterns_is_named(tmp_path, line):
    with pytest.raises(InputError, match=r"trace\.txt:2: expected"):
        contacts(tmp_path, f"20\t1\t2\n{line}\n60\t1\t2\n", "sociopatterns", order="tij")


def test_names_are_ordered_as_numbers_and_a_comes_before_b(tmp_path):
    path = tmp_path / "trace"
    path.write_text("0 CONN bus10 bus9 up\n1 CONN bus10 bus9 down\n")
    table = read(path).table
    assert table["a"].combine_chunks().dictionary.to_pylist() == ["bus9", "bus10"]
    assert pc.all(pc.equal(table["a"].cast("string"), "bus9")).as_py()
