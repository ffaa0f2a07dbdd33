"""Where hosts are, and in whose cell: exact, and never out of reach where they should not be."""

import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from antecast.core import ConfigurationError, InputError
from antecast.sim import run
from antecast.sim.radio.layout import Cells, Walk, Waypoint, station_places, station_wires
from antecast.sim.radio.movement import Piece, changes, covered, nearest, pieces, random_place
from antecast.sim.scenario import make_scenario
from antecast.sim.streams import Stream
from antecast.traces import write
from antecast.traces.trace import Trace

SECOND = 10**9
coordinate = st.integers(-200, 200).map(float)
place = st.tuples(coordinate, coordinate)


def test_seven_stations_stand_in_a_honeycomb_with_one_in_the_middle():
    places = station_places(Cells(stations=7, spacing=150.0))
    assert places[0] == (0.0, 0.0)
    assert all(math.dist(places[0], each) == pytest.approx(150.0) for each in places[1:])
    around = [*places[1:], places[1]]
    assert all(math.dist(a, b) == pytest.approx(150.0) for a, b in pairwise(around))
    assert station_wires(Cells(), places) == [(0, each) for each in range(1, 7)]


@given(st.integers(1, 60))
def test_a_honeycomb_of_any_size_has_room_between_its_stations_and_a_tree_of_wires(count):
    cells = Cells(stations=count, spacing=100.0)
    places = station_places(cells)
    assert len(set(places)) == count
    assert all(math.dist(a, b) > 99 for i, a in enumerate(places) for b in places[:i])
    wires = station_wires(cells, places)
    assert sorted(child for _, child in wires) == list(range(1, count))
    assert all(parent < child for parent, child in wires)


@given(place, place, st.lists(place, min_size=1, max_size=5, unique=True), st.sampled_from([50.0, 120.0]))
def test_the_cells_along_a_walk_are_those_of_its_places(start, end, stations, reach):
    assume(start != end)
    piece = Piece(0, *start, 100 * SECOND, *end)
    found = changes(piece, stations, reach)
    assert found[0][0] == 0
    assert all(a[0] <= b[0] and a[1] != b[1] for a, b in pairwise(found))
    for t in range(0, 100 * SECOND, SECOND // 2 + 7):
        here = piece.at(t)
        squares = sorted(math.dist(here, each) for each in stations)
        clear = len(squares) < 2 or squares[1] - squares[0] > 1e-6
        if clear and abs(squares[0] - reach) > 1e-6:
            assert next(cell for at, cell in reversed(found) if at <= t) == nearest(here, stations, reach)


@given(st.integers(0, 1000), st.integers(1, 9))
def test_walkers_stay_in_the_cells_and_keep_their_speed(seed, count):
    cells = Cells(stations=count, spacing=190.0, mobility=Waypoint(speed=2.0, pause=SECOND))
    stations = station_places(cells)
    walk = pieces(cells, stations, seed, 3)
    for _ in range(10):
        walked, rested = next(walk), next(walk)
        assert covered((walked.x0, walked.y0), (walked.x1, walked.y1), stations, cells.range)
        took = (walked.t1 - walked.t0) / SECOND
        assert math.dist((walked.x0, walked.y0), (walked.x1, walked.y1)) == pytest.approx(2.0 * took, abs=1e-6)
        assert (rested.t0, rested.t1 - rested.t0) == (walked.t1, SECOND)


def test_hosts_begin_evenly_in_the_cells():
    stations = station_places(Cells())
    stream = Stream(5, "test")
    count = [0] * 7
    for _ in range(7000):
        count[nearest(random_place(stations, 120.0, stream), stations, 120.0)] += 1
    assert count[0] < min(count[1:])  # the cell in the middle is cut off on all sides
    assert max(count[1:]) < 1.2 * min(count[1:])


def movement(tmp_path, rows):
    from antecast.sim.mobility.pieces import movement_table

    path = tmp_path / "walk.parquet"
    names = ["a", "b"]
    pieces = [(node, round(t0 * SECOND), x0, 0.0, round(t1 * SECOND), x1, 0.0) for node, t0, x0, t1, x1 in rows]
    write(Trace("movement", movement_table(names, pieces), "table"), path)
    return path


def in_cells(result, node):
    rows = result.events.to_pylist()
    return [
        (round(row["t"] / SECOND, 3), row["peer"] if row["kind"] == "up" else None)
        for row in rows
        if row["node"] == node and row["kind"] in ("up", "down")
    ]


def scenario(path, **more):
    return {
        "duration": "100s",
        "drain": "0s",
        "protocol": {"name": "cellular"},
        "network": {
            "topology": {
                "kind": "cells",
                "places": [[0, 0], [200, 0]],
                "mobility": {"kind": "trace", "file": str(path)},
            }
        },
    } | more


def test_hosts_follow_a_trace_from_cell_to_cell_and_out_of_reach(tmp_path):
    rows = [(0, 0, 0.0, 40, 400.0), (1, 10, 50.0, 20, 50.0), (1, 30, 150.0, 50, 150.0)]
    result = run(make_scenario(scenario(movement(tmp_path, rows))))
    assert result.scenario.nodes == 2
    assert in_cells(result, 0) == [(0.0, 2), (10.0, None), (10.0, 3), (32.0, None)]
    assert in_cells(result, 1) == [(10.0, 2), (20.0, None), (30.0, 3), (50.0, None)]


def test_a_trace_must_move_all_hosts(tmp_path):
    path = movement(tmp_path, [(0, 0, 0.0, 40, 400.0)])
    with pytest.raises(ConfigurationError, match="the trace moves 1 hosts, the scenario has 5"):
        make_scenario(scenario(path, nodes=5))


def test_a_trace_must_be_there():
    with pytest.raises(InputError, match="cannot read"):
        make_scenario(scenario("nowhere.parquet"))


def test_two_walks_are_the_same_for_the_same_seed():
    cells = Cells(mobility=Waypoint())
    stations = station_places(cells)
    one, other = pieces(cells, stations, 1, 2), pieces(cells, stations, 1, 2)
    assert [next(one) for _ in range(20)] == [next(other) for _ in range(20)]
    assert next(pieces(cells, stations, 1, 3)) != next(pieces(cells, stations, 1, 2))
    assert isinstance(Cells(mobility=Walk(file="x")).mobility, Walk)
