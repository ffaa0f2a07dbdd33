"""Who drives which trip: blocks, and chains where there is none."""

from itertools import pairwise

import numpy as np
import pytest
from gtfs_feeds import DAY, SMALL, check_pieces, feed, nodes, north, times, trips
from hypothesis import given
from hypothesis import strategies as st

from antecast.core.settings import Duration
from antecast.traces.gtfs import GtfsSettings, gtfs_mobility
from antecast.traces.gtfs.vehicles import Runs, assign

MINUTE = 60 * 10**9


def drive(tmp_path, rows, stop_rows, *, stops=SMALL["stops"], routes=SMALL["routes"], **settings):
    path = feed(tmp_path, trips=trips(*rows), stop_times=times(*stop_rows), stops=stops, routes=routes)
    result = gtfs_mobility(path, DAY, GtfsSettings(**settings))
    check_pieces(result.trajectories)
    return result


def test_trips_of_a_block_are_one_vehicle_s_whatever_their_route_and_service(tmp_path):
    calendar = SMALL["calendar"] + "X,0,0,0,0,0,1,0,20260301,20260331\n"
    path = feed(
        tmp_path,
        calendar=calendar,
        routes=SMALL["routes"] + "Q,X,3,3\n",
        trips=trips("a R S 7", "b Q X 7", "c R S 8", "d R W 7"),
        stop_times=times("a A 8:00 B 8:05", "b B 8:05 C 8:10", "c C 8:05 B 8:10", "d C 8:00 A 8:30"),
    )
    result = gtfs_mobility(path, DAY)
    assert nodes(result.trajectories) == ["7", "8"]
    assert [north(result.trajectories, "7", at) for at in ("8:02:30", "8:07:30")] == [0.5, 1.5]
    assert (result.summary["blocks"], result.summary["blocks_at_once"], result.summary["chains"]) == (2, 2, 0)


def test_a_tram_and_a_bus_with_one_block_id_are_two(tmp_path):
    result = drive(tmp_path, ["a R S 7", "b T S 7"], ["a A 8:00 B 8:05", "b B 9:00 C 9:05"])
    assert nodes(result.trajectories) == ["7", "7-tram"]


def test_trips_of_a_block_that_overlap_are_split_and_each_goes_to_the_nearest_vehicle(tmp_path):
    rows = ["a R S 7", "b R S 7", "c R S 7", "d R S 7"]
    stop_rows = ["a A 8:00 B 8:10", "b E 8:05 D 8:15", "c D 8:20 E 8:30", "d B 8:20 A 8:30"]
    result = drive(tmp_path, rows, stop_rows)
    assert [north(result.trajectories, "7", at) for at in ("8:05", "8:25")] == [0.5, 0.5]
    assert [north(result.trajectories, "7/2", at) for at in ("8:10", "8:25")] == [3.5, 3.5]
    assert "vehicles more than blocks, because trips of one block overlap: 1" in result.summary["notes"]


def test_trips_without_a_block_are_chained_where_one_ends_and_the_next_begins(tmp_path):
    result = drive(
        tmp_path, ["a R S", "b R S", "c R S"], ["a A 8:00 C 8:10", "b C 8:15 A 8:25", "c B 8:15 A 8:20"]
    )
    assert nodes(result.trajectories) == ["chain-1", "chain-2"]
    assert north(result.trajectories, "chain-1", "8:20") == 1, "the bus that came to C goes back from there"
    assert north(result.trajectories, "chain-2", "8:17:30") == 0.5, "no bus was at B"


def test_a_vehicle_may_leave_the_moment_it_arrives(tmp_path):
    result = drive(tmp_path, ["a R S", "b R S"], ["a A 8:00 C 8:10", "b C 8:10 A 8:20"])
    assert nodes(result.trajectories) == ["chain-1"]


@pytest.mark.parametrize(("leaves", "vehicles"), [("8:40", 1), ("8:41", 2)])
def test_a_vehicle_does_not_wait_for_ever(tmp_path, leaves, vehicles):
    result = drive(tmp_path, ["a R S", "b R S"], ["a A 8:00 C 8:10", f"b C {leaves} A 8:55"])
    assert result.summary["chains"] == vehicles


@pytest.mark.parametrize(("radius", "vehicles"), [(1000.0, 2), (1200.0, 1)])
def test_the_next_trip_may_begin_near_by(tmp_path, radius, vehicles):
    rows = ["a A 8:00 C 8:10", "b D 8:15 E 8:25"]
    assert drive(tmp_path, ["a R S", "b R S"], rows, terminus_radius=radius).summary["chains"] == vehicles


def test_who_came_first_leaves_first(tmp_path):
    stop_rows = ["a A 8:00 C 8:10", "b E 8:00 C 8:12", "c C 8:20 B 8:25", "d C 8:30 D 8:35"]
    table = drive(tmp_path, ["a R S", "b R S", "c R S", "d R S"], stop_rows).trajectories
    assert north(table, "chain-1", "8:05") == 1 and north(table, "chain-1", "8:22:30") == 1.5
    assert north(table, "chain-2", "8:32:30") == 2.5


def test_who_came_on_the_same_route_goes_before_others(tmp_path):
    routes = SMALL["routes"] + "Q,X,3,3\n"
    stop_rows = ["a A 8:00 C 8:10", "b E 8:00 C 8:12", "c C 8:20 B 8:25", "d C 8:21 D 8:26"]
    table = drive(tmp_path, ["a Q S", "b R S", "c R S", "d R S"], stop_rows, routes=routes).trajectories
    assert north(table, "chain-2", "8:22:30") == 1.5
    assert north(table, "chain-1", "8:23:30") == 2.5, "a vehicle of another route is better than none"


@pytest.mark.parametrize("other", ["Q,X,3,0", "Q,Y,3,3"], ids=["kind", "agency"])
def test_chains_stay_within_an_agency_s_vehicles_of_a_kind(tmp_path, other):
    routes = SMALL["routes"] + other + "\n"
    result = drive(tmp_path, ["a R S", "b Q S"], ["a A 8:00 C 8:10", "b C 8:15 A 8:25"], routes=routes)
    assert result.summary["chains"] == 2


def test_a_chain_takes_no_block_s_name(tmp_path):
    result = drive(tmp_path, ["a R S chain-1", "b R S"], ["a A 8:00 C 8:10", "b C 8:15 A 8:25"])
    assert nodes(result.trajectories) == ["chain-1", "chain-1/2"]


# Between two trips.

TWO = (["a R S 7", "b R S 7"], ["a A 8:00 C 8:10", "b C 8:20 A 8:30"])
APART = (["a R S 7", "b R S 7"], ["a A 8:00 B 8:10", "b D 8:30 E 8:40"])


@pytest.mark.parametrize(("layover", "place"), [(0, None), (9, None), (10, 2), (1000, 2)])
def test_a_vehicle_stands_in_short_layovers_and_is_away_in_long_ones(tmp_path, layover, place):
    table = drive(tmp_path, *TWO, layover=Duration(layover * MINUTE)).trajectories
    assert north(table, "7", "8:15") == place
    assert north(table, "7", "8:05") == 1 and north(table, "7", "8:25") == 1


def test_before_the_next_trip_it_drives_there_in_a_straight_line_just_in_time(tmp_path):
    """Two steps at 30 km/h take 267 s."""
    table = drive(tmp_path, *APART, layover=Duration(20 * MINUTE)).trajectories
    assert [north(table, "7", at) for at in ("8:12", "8:25:30", "8:27:47", "8:29:59")] == [1, 1, 2, 2.99]
    assert north(drive(tmp_path, *APART).trajectories, "7", "8:27:47") is None


def test_a_change_that_is_too_far_for_the_time_is_jumped_and_counted(tmp_path):
    rows = ["a A 8:00 B 8:10", "b E 8:11 D 8:20"]
    result = drive(tmp_path, ["a R S 7", "b R S 7"], rows, layover=Duration(20 * MINUTE))
    assert north(result.trajectories, "7", "8:10:30") is None
    assert "changes between trips of a vehicle that are too far for the time, jumped: 1" in result.summary["notes"]


def test_what_is_shown_of_a_vehicle_does_not_change_it(tmp_path):
    """Between two trips of route 1 it makes one of route 3: not shown, but no layover either."""
    routes = SMALL["routes"] + "Q,X,3,3\n"
    rows = ["a R S", "b Q S", "c R S"], ["a A 8:00 C 8:10", "b C 8:12 C 8:18", "c C 8:20 A 8:30"]
    for wanted in ("1", "R"):
        path = feed(tmp_path, trips=trips(*rows[0]), stop_times=times(*rows[1]), routes=routes)
        settings = GtfsSettings(routes=(wanted,), layover=Duration(60 * MINUTE))
        result = gtfs_mobility(path, DAY, settings)
        assert nodes(result.trajectories) == ["chain-1"]
        assert north(result.trajectories, "chain-1", "8:15") is None
        assert north(result.trajectories, "chain-1", "8:25") == 1
        assert result.summary["trips"] == 2


@st.composite
def timetables(draw):
    count = draw(st.integers(1, 25))

    def column(low, high):
        return np.array(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)), np.int64)

    start = column(0, 60)
    names = st.lists(st.sampled_from(["", "1", "2"]), min_size=count, max_size=count)
    return Runs(
        start=start,
        end=start + column(1, 20),
        first_stop=column(0, 3),
        last_stop=column(0, 3),
        route=column(0, 1),
        fleet=draw(st.lists(st.sampled_from(["bus", "tram"]), min_size=count, max_size=count)),
        kind=["bus"] * count,
        block=draw(names),
        label=[f"{number}" for number in range(count)],
    )  # fmt: skip


@given(timetables(), st.integers(0, 30))
def test_nobody_drives_two_trips_at_once_and_chains_keep_their_rules(runs, max_layover):
    stops = np.array([[0, 0], [100, 0], [1000, 0], [1000, 50.0]])
    fleet = assign(runs, stops, radius=100, max_layover=max_layover)
    assert (fleet.vehicle >= 0).all() and len(set(fleet.names)) == len(fleet.names)
    for vehicle, in_block in enumerate(fleet.in_block):
        mine = sorted(np.flatnonzero(fleet.vehicle == vehicle), key=lambda run: (runs.start[run], runs.end[run]))
        assert mine and len({runs.block[run] for run in mine}) == 1
        assert bool(runs.block[mine[0]]) == in_block
        for before, after in pairwise(mine):
            gap = runs.start[after] - runs.end[before]
            assert gap >= 0
            if not in_block:
                assert gap <= max_layover and runs.fleet[before] == runs.fleet[after]
                assert np.hypot(*(stops[runs.last_stop[before]] - stops[runs.first_stop[after]])) <= 100


def test_every_trip_can_be_a_vehicle_of_its_own(tmp_path):
    blocks, trips_alone = (
        gtfs_mobility(feed(tmp_path), DAY, GtfsSettings(vehicles=vehicles)) for vehicles in ("blocks", "trips")
    )
    assert set(blocks.trajectories["node"].to_pylist()) == {"7"}
    assert set(trips_alone.trajectories["node"].to_pylist()) == {"out", "back"}
    assert trips_alone.summary["vehicles"] == 2
