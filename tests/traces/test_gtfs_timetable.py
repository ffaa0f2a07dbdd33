"""Stops and times: order, gaps, frequencies, and trips that cannot be driven."""

import pytest
from gtfs_feeds import DAY, SMALL, check_pieces, clock, feed, nodes, north, times, trips

from antecast.core import InputError
from antecast.traces.gtfs import gtfs_mobility

ONE = {"trips": trips("out R S 7")}


def movement(tmp_path, *rows, **tables):
    result = gtfs_mobility(feed(tmp_path, **(ONE | {"stop_times": times(*rows)} | tables)), DAY)
    check_pieces(result.trajectories)
    return result


def test_a_vehicle_goes_from_stop_to_stop_at_constant_speed(tmp_path):
    table = movement(tmp_path, "out A 8:00 B 8:05 C 8:15").trajectories
    assert [north(table, "7", at) for at in ("8:00", "8:01", "8:05", "8:10")] == [0, 0.2, 1, 1.5]
    assert north(table, "7", "7:59") is None and north(table, "7", "8:15") is None


def test_a_vehicle_stands_between_arrival_and_departure(tmp_path):
    table = movement(tmp_path, "out A 7:50-8:00 B 8:05-8:10 C 8:15-8:20").trajectories
    assert [north(table, "7", at) for at in ("8:05", "8:09", "8:12:30")] == [1, 1, 1.5]
    assert north(table, "7", "7:55") is None, "a trip begins with its first departure"
    assert north(table, "7", "8:16") is None, "and ends with its last arrival"


def test_rows_are_taken_in_the_order_of_their_sequence(tmp_path):
    header, *rows = SMALL["stop_times"].replace("out,2", "out,15").replace("out,3", "out,120").splitlines()
    shuffled = "\n".join([header, *sorted(rows, key=lambda row: row[::-1])])
    table = gtfs_mobility(feed(tmp_path, stop_times=shuffled), DAY).trajectories
    assert [north(table, "7", at) for at in ("8:02:30", "8:07:30", "8:22:30")] == [0.5, 1.5, 1.5]


@pytest.mark.parametrize("missing", ["arrival", "departure"])
def test_a_stop_with_one_time_takes_it_for_both(tmp_path, missing):
    header, *rows = times("out A 8:00 B 8:05 C 8:15").splitlines()
    cells = [row.split(",") for row in rows]
    for row in cells:
        row[3 if missing == "arrival" else 4] = ""
    result = movement(tmp_path, stop_times="\n".join([header, *map(",".join, cells)]))
    assert north(result.trajectories, "7", "8:10") == 1.5


def test_one_column_of_times_is_enough(tmp_path):
    rows = "trip_id,stop_sequence,stop_id,departure_time\nout,1,A,8:00\nout,2,C,8:10\n"
    assert north(movement(tmp_path, stop_times=rows).trajectories, "7", "8:05") == 1


def test_untimed_stops_get_their_time_from_their_place(tmp_path):
    table = movement(tmp_path, "out A 8:00 B - C - D 8:30 E 8:40").trajectories
    assert [north(table, "7", at) for at in ("8:10", "8:20", "8:35")] == [1, 2, 3.5]


def test_untimed_stops_at_the_ends_are_left_out(tmp_path):
    result = movement(tmp_path, "out A - B 8:00 C 8:10 D -")
    assert north(result.trajectories, "7", "8:00") == 1 and north(result.trajectories, "7", "8:10") is None
    assert any(
        note.startswith("untimed stops before the first or after the last") for note in result.summary["notes"]
    )


def test_stops_in_the_same_minute_are_spread_by_distance(tmp_path):
    """The first keeps the minute, the others follow on the way to the next time; the last arrival stays."""
    result = movement(tmp_path, "out A 8:00 B 8:00 C 8:06 D 8:06 E 8:06")
    assert [north(result.trajectories, "7", at) for at in ("8:00", "8:03", "8:05:59")] == [0, 2, 3.99]
    assert "stops whose times leave no time to get there or away, spread by distance: 3" in result.summary["notes"]


def test_a_dwell_after_a_leg_of_no_time_gives_its_time_to_the_leg(tmp_path):
    table = movement(tmp_path, "out A 8:00 B 8:00-8:05 C 8:10").trajectories
    assert [north(table, "7", at) for at in ("8:02:30", "8:05")] == [0.5, 1]


def test_no_leg_is_faster_than_a_vehicle_can_be(tmp_path):
    result = movement(tmp_path, "out A 8:00:00 B 8:04:59 C 8:05:00 D 8:10:00")
    assert result.summary["fastest_kmh"] < 126


def test_a_time_before_an_earlier_one_is_not_used(tmp_path):
    result = movement(tmp_path, "out A 8:00 B 7:30 C 8:10")
    assert north(result.trajectories, "7", "8:05") == 1
    assert "stops whose times run backwards, not used: 1" in result.summary["notes"]


def test_a_departure_before_the_arrival_is_mended(tmp_path):
    result = movement(tmp_path, "out A 8:00 B 8:05-8:02 C 8:10")
    assert [north(result.trajectories, "7", at) for at in ("8:05", "8:07:30")] == [1, 1.5]
    assert "departures before the arrival at the same stop, set to it: 1" in result.summary["notes"]


LAME = {
    "one stop": ("lame A 9:00", "trips with fewer than two timed stops, left out: 1"),
    "no stops": ("out A 8:00 C 8:10", "trips with fewer than two timed stops, left out: 1"),
    "one time": ("lame A - B 9:00 C -", "trips with fewer than two timed stops, left out: 1"),
    "no time": ("lame A 9:00 B 9:00 C 9:00", "trips that end when they begin, or before, left out: 1"),
    "time running back": ("lame A 9:00 B 8:30", "trips that end when they begin, or before, left out: 1"),
    "a stop nobody knows": ("lame A 9:00 Q 9:10", "stop times at stops that stops.txt does not know, left out: 1"),
    "a stop without a place": ("lame A 9:00 gate 9:10", "stop times at stops without coordinates, left out: 1"),
}


@pytest.mark.parametrize(("row", "note"), LAME.values(), ids=LAME.keys())
def test_a_trip_that_cannot_be_driven_is_left_out_and_counted(tmp_path, row, note):
    rows = ["out A 8:00 C 8:10"] + ([row] if row.startswith("lame") else [])
    stops = SMALL["stops"] + "gate,Gate,0,0\n"
    result = movement(tmp_path, *rows, trips=trips("out R S 7", "lame R S 8"), stops=stops)
    assert nodes(result.trajectories) == ["7"]
    assert note in result.summary["notes"]


def test_service_on_demand_is_left_out(tmp_path):
    rows = times("out A 8:00 C 8:10") + "out,4,,9:00:00,9:00:00\n"
    result = movement(tmp_path, stop_times=rows)
    assert "stop times without a stop, as for service on demand, left out: 1" in result.summary["notes"]


def test_a_day_on_which_nothing_can_be_driven_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no trip of 2026-03-21 can be driven"):
        movement(tmp_path, "out A 8:00")


def test_trips_that_are_there_twice_or_of_no_route_are_counted(tmp_path):
    result = movement(
        tmp_path, "out A 8:00 C 8:10", "stray A 8:00 C 8:10", trips=trips("out R S 7", "out R S 8", "stray Q S 9")
    )
    assert nodes(result.trajectories) == ["7"]
    assert "trips that are there twice, the first one taken: 1" in result.summary["notes"]
    assert "trips of a route that routes.txt does not know, left out: 1" in result.summary["notes"]


FREQUENCIES = "trip_id,start_time,end_time,headway_secs,exact_times\n"


@pytest.mark.parametrize("exact", ["0", "1", ""])
def test_frequencies_repeat_a_trip_from_start_to_before_end(tmp_path, exact):
    rows = FREQUENCIES + f"out,6:00:00,7:00:00,1200,{exact}\nout,7:00:00,7:50:00,1800,{exact}\n"
    result = movement(tmp_path, "out A 0:10 C 0:20", frequencies=rows)
    assert result.summary["trips"] == 1 and result.summary["runs"] == 5
    starts = ["6:00", "6:20", "6:40", "7:00", "7:30"]
    assert sorted({t for t in result.trajectories["t0"].to_pylist() if t % clock("0:10") == 0}) == list(
        map(clock, starts)
    )
    assert north(result.trajectories, "7", "6:05") == 1
    assert "runs made of trips in frequencies.txt: 5" in result.summary["notes"]
    assert north(result.trajectories, "7", "0:15") is None, "the trip itself is only a pattern"


def test_repeats_that_overlap_are_vehicles_of_their_own(tmp_path):
    rows = FREQUENCIES + "out,6:00:00,7:00:00,600,0\n"
    result = movement(tmp_path, "out A 0:00 B 0:10 A 0:20", frequencies=rows)
    assert nodes(result.trajectories) == ["7", "7/2"]
    assert "vehicles more than blocks, because trips of one block overlap: 1" in result.summary["notes"]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            "out,6:00:00,7:00:00,0,",
            "frequencies.txt:2: headway_secs should be seconds between departures, 1 or more",
        ),
        ("out,6:00:00,7:00:00,,", "frequencies.txt:2: headway_secs should be"),
        ("out,,7:00:00,600,", "frequencies.txt:2: start_time should be a time such as 06:00:00"),
        ("out,6:00:00,late,600,", "frequencies.txt:2: end_time: no time of day: 'late'"),
    ],
)
def test_wrong_frequencies_are_errors(tmp_path, row, words):
    with pytest.raises(InputError) as caught:
        movement(tmp_path, "out A 0:00 C 0:10", frequencies=FREQUENCIES + row + "\n")
    assert words in str(caught.value)


def test_frequencies_that_end_before_they_begin_make_no_run(tmp_path):
    tables = {"trips": trips("out R S 7", "twin R S 8"), "frequencies": FREQUENCIES + "out,7:00:00,6:00:00,600,\n"}
    result = movement(tmp_path, "out A 0:00 C 0:10", "twin A 8:00 C 8:10", **tables)
    assert nodes(result.trajectories) == ["8"]


def test_a_last_arrival_before_the_stops_on_the_way_is_told_as_such(tmp_path):
    """The stops on the way lie behind the last arrival: their times run backwards."""
    path = feed(tmp_path, trips=trips("out R S"), stop_times=times("out A 8:00 B 8:20 C 8:25 D 8:10"))
    notes = gtfs_mobility(path, DAY).summary["notes"]
    assert "stops whose times run backwards, not used: 2" in notes
    assert not [note for note in notes if "leave no time" in note]


def test_where_no_trip_can_be_driven_the_reasons_are_told(tmp_path):
    path = feed(tmp_path, trips=trips("out R S"), stop_times=times("out A 8:30 B 8:20 C 8:10"))
    with pytest.raises(InputError, match=r"no trip of 2026-03-21 can be driven \(trips that end when they begin"):
        gtfs_mobility(path, DAY)
