"""A contact trace as a network: nodes appear, meet, part and go as it says."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import ConfigurationError, InputError
from antecast.sim import run
from antecast.sim.identity import run_id
from antecast.sim.scenario import make_scenario
from antecast.traces.presence import PRESENCE, presence
from antecast.traces.schema import CONTACTS, TRAJECTORIES

SECOND = 10**9
KINDS = ("broadcast", "send", "receive", "deliver", "up", "down")


def table(schema, rows):
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [
        pa.array(column, pa.string()).dictionary_encode() if pa.types.is_dictionary(field.type) else column
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)


@pytest.fixture
def contacts(tmp_path):
    path = tmp_path / "contacts.parquet"
    rows = [("a", "b", 10, 20), ("b", "c", 30, 40)]
    pq.write_table(table(CONTACTS, [(a, b, s * SECOND, e * SECOND) for a, b, s, e in rows]), path)
    return path


def simulate(contacts, broadcasts=(("1s", 0),), **topology):
    return run(
        make_scenario(
            {
                "protocol": {"name": "barrier"},
                "network": {"topology": {"kind": "contacts", "file": str(contacts)} | topology, "delay": "1ms"},
                "workload": [{"kind": "at", "broadcasts": [{"t": t, "node": node} for t, node in broadcasts]}],
            }
        )
    )


def rows(result, *kinds):
    return [row for row in result.events.to_pylist() if row["kind"] in kinds]


def test_a_message_travels_as_nodes_meet(contacts):
    result = simulate(contacts)
    assert [(row["node"], row["t"] // SECOND) for row in rows(result, "deliver")] == [(0, 1), (1, 10), (2, 30)]
    assert result.scenario.nodes == 3 and result.ended == 40 * SECOND


def test_a_contact_can_be_used_only_once_it_is_set_up(contacts):
    result = simulate(contacts, setup="4s")
    assert [row["t"] // SECOND for row in rows(result, "deliver")] == [1, 14, 34]
    assert [row["node"] for row in rows(simulate(contacts, setup="10s"), "deliver")] == [0]


def test_a_contact_that_ends_before_it_is_set_up_does_not_take_place(contacts):
    """Not even as a link that comes up: neither end hears of it."""
    assert [row["t"] // SECOND for row in rows(simulate(contacts, setup="9999ms"), "up")] == [19, 19, 39, 39]
    assert rows(simulate(contacts, setup="10s"), "up", "down", "send") == []


def test_without_a_set_up_time_runs_are_what_they_were(contacts):
    assert simulate(contacts, setup="0s").events == simulate(contacts).events
    names = [run_id(simulate(contacts, **given).scenario) for given in ({}, {"setup": "0s"}, {"setup": "1s"})]
    assert names[0] == names[1] != names[2]


def test_a_set_up_time_is_a_duration(contacts):
    with pytest.raises(ConfigurationError, match=r"network\.topology\.setup: expected"):
        simulate(contacts, setup="-1s")
    with pytest.raises(ConfigurationError, match=r"network\.topology\.setup: expected"):
        simulate(contacts, setup=True)


def test_nodes_are_there_when_the_trace_says(contacts, tmp_path):
    there = tmp_path / "presence.parquet"
    spans = [("a", 0, 15), ("b", 5, 12), ("b", 28, 50), ("c", 35, 39)]
    pq.write_table(table(PRESENCE, [(node, s * SECOND, e * SECOND) for node, s, e in spans]), there)
    result = simulate(contacts, presence=str(there))
    comings = [
        (row["node"], row["kind"], row["t"] // SECOND) for row in rows(result, "join", "leave", "crash", "recover")
    ]
    assert comings == [
        (0, "join", 0),
        (1, "join", 5),
        (1, "crash", 12),
        (0, "leave", 15),
        (1, "recover", 28),
        (2, "join", 35),
        (2, "leave", 39),
        (1, "leave", 50),
    ]
    assert [(row["node"], row["t"] // SECOND) for row in rows(result, "deliver")] == [(0, 1), (1, 10), (2, 35)]


def test_presence_comes_from_movement_too(contacts, tmp_path):
    moves = table(
        TRAJECTORIES,
        [("a", 0, 0.0, 0.0, 5, 1.0, 1.0), ("a", 5, 1.0, 1.0, 9, 2.0, 2.0), ("a", 20, 0.0, 0.0, 30, 1.0, 1.0)],
    )
    assert presence(moves).to_pylist() == [
        {"node": "a", "start": 0, "end": 9},
        {"node": "a", "start": 20, "end": 30},
    ]


def test_stays_that_overlap_or_touch_are_one(contacts, tmp_path):
    """A node that is said to be there twice does not leave when the first of the two stays ends."""
    there = tmp_path / "presence.parquet"
    spans = [("a", 0, 50), ("a", 1, 2), ("b", 5, 12), ("b", 12, 25), ("b", 25, 25)]
    pq.write_table(table(PRESENCE, [(node, s * SECOND, e * SECOND) for node, s, e in spans]), there)
    result = simulate(contacts, presence=str(there))
    comings = [(row["node"], row["kind"], row["t"] // SECOND) for row in rows(result, "join", "leave", "crash")]
    assert comings == [(0, "join", 0), (1, "join", 5), (1, "leave", 25), (0, "leave", 50)]
    assert result.scenario.duration == 50 * SECOND


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"node": ["a"], "start": [3], "end": [1]}, "row 1: expected end not to be before start"),
        ({"node": ["a"], "t0": [3], "t1": [1]}, "row 1: expected t1 not to be before t0"),
        (
            {"node": ["a", "b"], "start": [0, -3], "end": [1, 1]},
            "row 2: expected a time of zero or more in column start",
        ),
        (
            {"node": ["a", None], "start": [0, 3], "end": [1, 4]},
            "row 2: expected a value in column node, got none",
        ),
        (
            {"node": ["a", "b"], "start": [0, None], "end": [1, 4]},
            "row 2: expected a value in column start, got none",
        ),
        ({"node": ["a"], "start": [0.5], "end": [1.5]}, "expected whole nanoseconds in column start, got double"),
        ({"node": ["a"], "start": ["0"], "end": ["1"]}, "expected whole nanoseconds in column start, got string"),
        ({"node": ["a"], "start": [0], "end": [2**63 - 1]}, "row 1: expected .* more than 146 years"),
        (
            {"node": ["a"], "begin": [0], "end": [1]},
            "expected the columns node, start, end .* found node, begin, end",
        ),
    ],
)
def test_presence_that_cannot_be_is_refused_at_its_row(contacts, tmp_path, columns, problem):
    there = tmp_path / "presence.parquet"
    pq.write_table(pa.table(columns), there)
    with pytest.raises(InputError, match=f"presence.parquet: {problem}"):
        simulate(contacts, presence=str(there))


def test_presence_as_text_is_one_clear_error(contacts, tmp_path):
    there = tmp_path / "presence.csv"
    there.write_text("node,start,end\na,0,1\n")
    with pytest.raises(InputError, match=r"presence.csv: expected a Parquet table of presence or movement"):
        simulate(contacts, presence=str(there))


def test_a_workload_can_count_from_the_arrival_of_a_node(contacts, tmp_path):
    there = tmp_path / "presence.parquet"
    spans = [("a", 0, 15), ("b", 5, 12), ("b", 28, 50), ("c", 35, 39)]
    pq.write_table(table(PRESENCE, [(node, s * SECOND, e * SECOND) for node, s, e in spans]), there)
    topology = {"kind": "contacts", "file": str(contacts), "presence": str(there)}
    workload = [{"kind": "periodic", "every": "6s", "after_arrival": "2s"}]
    result = run(make_scenario({"network": {"topology": topology}, "workload": workload}))
    times = [(row["node"], row["t"] // SECOND) for row in rows(result, "broadcast")]
    assert times == [(0, 2), (1, 7), (0, 8), (0, 14), (1, 30), (1, 36), (2, 37), (1, 42), (1, 48)]


def test_the_identity_of_a_run_covers_the_trace_and_not_its_place(contacts, tmp_path):
    def named(path):
        return run_id(make_scenario({"network": {"topology": {"kind": "contacts", "file": str(path)}}}))

    moved = tmp_path / "elsewhere.parquet"
    moved.write_bytes(contacts.read_bytes())
    assert named(moved) == named(contacts)
    pq.write_table(table(CONTACTS, [("a", "b", 0, 1)]), moved)
    assert named(moved) != named(contacts)


def test_a_number_of_nodes_that_contradicts_the_trace_is_refused(contacts):
    with pytest.raises(ConfigurationError, match="nodes: the contact trace has 3 nodes; leave this out"):
        make_scenario({"nodes": 5, "network": {"topology": {"kind": "contacts", "file": str(contacts)}}})


def test_a_trace_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.parquet: cannot read: No such file"):
        make_scenario({"network": {"topology": {"kind": "contacts", "file": str(tmp_path / "absent.parquet")}}})


EPOCH = 1_246_255_220
"""June 2009, in seconds since 1970."""


@pytest.fixture
def epoch(tmp_path):
    """The same contacts, by the calendar, and broadcasts and presence beside them."""
    path = tmp_path / "epoch.one"
    rows = [(10, "a b up"), (20, "a b down"), (30, "b c up"), (40, "b c down"), (41, "c d up"), (41, "c d down")]
    path.write_text("".join(f"{EPOCH + t} CONN {what}\n" for t, what in rows))
    return path


def test_a_trace_by_the_calendar_starts_at_zero(epoch):
    result = simulate(epoch)
    assert [(row["node"], row["t"] // SECOND) for row in rows(result, "deliver")] == [(0, 1), (1, 1), (2, 20)]
    assert result.ended <= 32 * SECOND
    origin, notes = result.scenario.trace_origin()
    assert origin == (EPOCH + 10) * SECOND
    assert notes[0] == "epoch.one: 1 contact without length kept as 1 ns"
    assert notes[1].startswith(
        "epoch.one: time 0 of the run is 1246255230 s in the trace (2009-06-29 06:00:30 UTC"
    )


@given(start=st.integers(0, 2**31), gaps=st.lists(st.integers(1, 10**5), min_size=1, max_size=6))
def test_when_a_trace_was_recorded_changes_nothing(tmp_path_factory, start, gaps):
    """The same contacts by any calendar make the same run, which lasts as long as the trace."""
    runs = []
    for first in (0, start):
        path, t, lines = tmp_path_factory.mktemp("trace") / "trace.one", first, []
        for number, gap in enumerate(gaps):
            lines += [f"{t} CONN {number % 3} 3 up", f"{t + gap} CONN {number % 3} 3 down"]
            t += gap + 1
        path.write_text("\n".join(lines) + "\n")
        result = simulate(path, broadcasts=(("0s", 0),), shift=True)
        runs.append(
            [[row[name] for name in ("node", "t", "kind", "origin", "seq")] for row in rows(result, *KINDS)]
        )
        assert result.ended <= (sum(gaps) + len(gaps) + 1) * SECOND
    assert runs[0] == runs[1]


def test_a_trace_is_shifted_only_as_it_is_told(epoch, contacts):
    assert simulate(contacts).scenario.trace_origin() == (0, ())
    assert simulate(contacts, shift=True).scenario.trace_origin()[0] == 10 * SECOND
    assert simulate(epoch, shift=False).ended > EPOCH * SECOND


def test_presence_and_broadcasts_by_the_same_calendar_are_shifted_with_the_contacts(epoch, tmp_path):
    there = tmp_path / "presence.parquet"
    spans = [("a", 5, 45), ("b", 5, 45), ("c", 5, 45), ("d", 5, 45)]
    pq.write_table(table(PRESENCE, [(n, (EPOCH + s) * SECOND, (EPOCH + e) * SECOND) for n, s, e in spans]), there)
    broadcasts = tmp_path / "broadcasts.csv"
    broadcasts.write_text(f"t,node\n{EPOCH + 7},0\n{EPOCH + 31},1\n")
    topology = {"kind": "contacts", "file": str(epoch), "presence": str(there)}
    workload = [{"kind": "trace", "file": str(broadcasts)}]
    result = run(make_scenario({"network": {"topology": topology}, "workload": workload}))
    assert [row["t"] for row in rows(result, "broadcast")] == [2 * SECOND, 26 * SECOND]
    assert [row["t"] for row in rows(result, "join")] == [0, 0, 0, 0]


def test_broadcasts_by_the_calendar_come_at_their_nanosecond(tmp_path):
    """Seconds since 1970 with nine decimals have more digits than a floating-point number."""
    start, contacts, broadcasts = f"{EPOCH}.000000001", tmp_path / "contacts.csv", tmp_path / "broadcasts.csv"
    contacts.write_text(f"a,b,start,end\n0,1,{start},{EPOCH + 9}\n")
    broadcasts.write_text(f"t,node\n{start},0\n{EPOCH}.123456789,1\n")
    topology, workload = {"kind": "contacts", "file": str(contacts)}, [{"kind": "trace", "file": str(broadcasts)}]
    result = run(make_scenario({"network": {"topology": topology}, "workload": workload}))
    assert [row["t"] for row in rows(result, "broadcast")] == [0, 123_456_788]


def test_broadcasts_by_the_calendar_start_at_zero_where_nodes_follow_no_trace(tmp_path):
    broadcasts = tmp_path / "broadcasts.csv"
    broadcasts.write_text(f"t,node\n{EPOCH},0\n{EPOCH + 3},1\n")
    result = run(make_scenario({"workload": [{"kind": "trace", "file": str(broadcasts)}]}))
    assert [row["t"] for row in rows(result, "broadcast")] == [0, 3 * SECOND]


def test_hosts_that_move_by_the_calendar_start_at_zero(tmp_path):
    walk = tmp_path / "walk.csv"
    walk.write_text(f"node,t,x,y\n1,{EPOCH},0,0\n1,{EPOCH + 60},10,0\n2,{EPOCH},5,5\n2,{EPOCH + 60},5,9\n")
    mobility = {"kind": "trace", "file": str(walk)}
    scenario = make_scenario(
        {
            "duration": "30s",
            "protocol": "cellular",
            "network": {
                "topology": {"kind": "cells", "stations": 1, "places": [[0.0, 0.0]], "mobility": mobility}
            },
            "workload": [{"kind": "periodic", "every": "5s"}],
        }
    )
    assert scenario.trace_origin()[0] == EPOCH * SECOND
    assert len({row["node"] for row in rows(run(scenario), "deliver")}) == 2


CONFERENCE = Path(__file__).parents[3] / "shared" / "data" / "contacts" / "sbrc_2019.one.txt"


@pytest.mark.skipif(not CONFERENCE.exists(), reason="needs the shared data")
def test_a_conference_runs_on_its_own_time_and_says_what_was_joined():
    scenario = make_scenario(
        {
            "protocol": {"name": "barrier"},
            "duration": "3h",
            "drain": "0s",
            "network": {"topology": {"kind": "contacts", "file": str(CONFERENCE)}},
            "workload": [{"kind": "at", "broadcasts": [{"t": "1h", "node": 0}]}],
            "log": {"events": "order"},
        }
    )
    origin, notes = scenario.trace_origin()
    assert origin == 0 and scenario.nodes == 356
    assert "sbrc_2019.one.txt: 58 nested ups joined" in notes
    assert rows(run(scenario), "deliver")
