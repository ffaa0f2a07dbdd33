"""Stops on shapes: the least sum of squared distances among all placements that never go back."""

from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from gtfs_feeds import DAY, SHAPES, STEP, check_pieces, feed, north, shape, times, trips, where
from hypothesis import given
from hypothesis import strategies as st

from antecast.traces.gtfs import gtfs_mobility
from antecast.traces.gtfs.projection import OFF, PULL, lengths, point_at, project

coordinates = st.integers(-40, 40).map(lambda n: n * 10.0)
points = st.tuples(coordinates, coordinates)


@st.composite
def lines(draw, most=6):
    drawn = draw(st.lists(points, min_size=2, max_size=most))
    line = [drawn[0]] + [b for a, b in pairwise(drawn) if a != b]
    return np.array(line if len(line) > 1 else [*line, (line[0][0] + 10.0, line[0][1])])


def cost(line, stops, hint, place):
    spots = point_at(line, lengths(line), place)
    off = np.minimum(((spots - stops) ** 2).sum(axis=1), OFF**2)
    return (off + (PULL * (place - hint)) ** 2).sum()


def grid_of(line, stops):
    """All vertices and all feet of perpendiculars, found one by one."""
    along = lengths(line)
    places = set(along.tolist())
    for stop in stops:
        for at in range(len(line) - 1):
            side = line[at + 1] - line[at]
            share = (stop - line[at]) @ side / (side @ side)
            if 0 < share < 1 and np.hypot(*(line[at] + share * side - stop)) <= OFF:
                places.add(along[at] + share * (along[at + 1] - along[at]))
    return sorted(places)


@given(lines(), st.lists(points, min_size=1, max_size=3), st.data())
def test_no_placement_on_the_grid_is_better(line, stops, data):
    stops = np.array(stops)
    most = lengths(line)[-1]
    hint = np.array([data.draw(st.floats(0, most)) for _ in stops])
    place, offset = project(line, stops, hint)
    best = min(
        cost(line, stops, hint, np.array(each))
        for each in combinations_with_replacement(grid_of(line, stops), len(stops))
    )
    assert cost(line, stops, hint, place) == pytest.approx(best, abs=1e-6)
    assert (np.diff(place) >= 0).all() and place[0] >= 0 and place[-1] <= most
    assert np.allclose(offset, np.hypot(*(point_at(line, lengths(line), place) - stops).T), atol=1e-6)


@given(lines(most=12), st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_stops_that_lie_on_the_line_in_order_are_placed_on_it(line, shares):
    """Whatever loops the line makes: there is a placement without distance, so that is found."""
    along = lengths(line)
    stops = point_at(line, along, np.sort(shares) * along[-1])
    place, offset = project(line, stops, np.sort(shares) * along[-1])
    assert offset.max() < 0.01
    assert (np.diff(place) >= 0).all()


def test_a_greedy_walk_would_be_lost_where_this_is_not():
    """Out along a street and back on its other side; the first stop is nearer to the way back."""
    line = np.array([[0, 0], [1000, 0], [1000, 30], [0, 30.0]])
    stops = np.array([[300, 20], [700, 20], [990, 5], [500, 30.0]])
    place, _ = project(line, stops, np.linspace(0, 2030, 4))
    assert place.tolist() == [300, 700, 990, 1530]


def test_a_street_drawn_once_for_both_directions_is_resolved_by_the_time():
    line = np.array([[0, 0], [1000, 0], [0, 0.0]])
    stops = np.array([[0, 0], [400, 0], [0, 0.0]])
    early, _ = project(line, stops, np.array([0, 500, 2000.0]))
    late, _ = project(line, stops, np.array([0, 1500, 2000.0]))
    assert early.tolist() == [0, 400, 2000] and late.tolist() == [0, 1600, 2000]


def test_a_circle_begins_at_its_beginning_and_ends_at_its_end():
    line = np.array([[0, 0], [500, 0], [500, 500], [0, 500], [0, 0.0]])
    place, _ = project(line, np.zeros((2, 2)), np.array([0, 2000.0]))
    assert place.tolist() == [0, 2000]


def test_one_stop_far_off_does_not_drag_the_others_along():
    line = np.array([[0, 0], [1000, 0.0]])
    stops = np.array([[0, 5], [600, 5], [300, 5000], [900, 5.0]])
    place, offset = project(line, stops, np.array([0, 600, 700, 1000.0]))
    assert place[[0, 1, 3]].tolist() == [0, 600, 900] and offset[2] > OFF


def test_stops_in_the_wrong_order_share_a_place():
    line = np.array([[0, 0], [1000, 0.0]])
    place, _ = project(line, np.array([[510, 3], [500, 3.0]]), np.array([0, 1000.0]))
    assert place[0] == place[1] and 500 <= place[0] <= 510


# On feeds: the small feed's bus, with a shape.

RIDE = "out A 8:00 C 8:10 E 8:20"


def ride(tmp_path, points, row=RIDE, **tables):
    shapes = points if isinstance(points, str) else SHAPES + shape("s", *points)
    tables = {"trips": trips("out R S 7 s"), "stop_times": times(row), "shapes": shapes} | tables
    result = gtfs_mobility(feed(tmp_path, **tables), DAY)
    check_pieces(result.trajectories)
    return result


def test_a_vehicle_follows_its_shape_and_its_pieces_are_the_shape_s(tmp_path):
    result = ride(tmp_path, [(0, 0), (2, 0), (2, 3), (4, 3), (4, 0)])
    assert len(result.trajectories) == 4
    x, y = where(result.trajectories, "7", "8:15")
    assert x == pytest.approx(3 * STEP * np.cos(np.radians(48)), rel=0.01)
    assert y == pytest.approx(1 * STEP, rel=0.01), "between corners the share of the way is that of the time"


def test_points_of_a_shape_come_in_the_order_of_their_sequence_and_may_repeat(tmp_path):
    rows = shape("s", (0, 0), (2, 0), (2, 0), (4, 0)).splitlines()
    result = ride(tmp_path, SHAPES + "\n".join(reversed(rows)) + "\n")
    assert north(result.trajectories, "7", "8:15") == 3 and len(result.trajectories) == 2


def test_distances_that_the_feed_gives_are_not_believed(tmp_path):
    header, *rows = times(RIDE).splitlines()
    wrong = "\n".join([header + ",shape_dist_traveled", *(f"{row},{n * 7}" for n, row in enumerate(rows))])
    result = ride(tmp_path, [(0, 0), (2, 0), (4, 0)], stop_times=wrong)
    assert north(result.trajectories, "7", "8:10") == 2


def test_a_shape_drawn_the_other_way_round_is_turned(tmp_path):
    result = ride(tmp_path, [(4, 0), (4, 3), (2, 3), (2, 0), (0, 0)])
    assert where(result.trajectories, "7", "8:15")[0] > 1000


def test_a_stop_off_the_shape_is_reached_in_a_straight_line(tmp_path):
    """The shape ends at D, the trip at E."""
    result = ride(tmp_path, [(0, 0), (1, 0.1), (3, 0)], "out A 8:00 B 8:05 C 8:10 D 8:15 E 8:20")
    assert north(result.trajectories, "7", "8:17:30") == 3.5
    assert "stops of trips more than 100 m off the shape, reached in straight lines: 1" in result.summary["notes"]


NO_SHAPE = {
    "no table": (None, "trips whose shape is not in shapes.txt, in straight lines from stop to stop: 1"),
    "another shape": (SHAPES + shape("t", (0, 0), (4, 0)), "trips whose shape is not in shapes.txt"),
    "a point": (SHAPES + shape("s", (0, 0)), "trips whose shape is not in shapes.txt"),
    "points without a place": (SHAPES + "s,,,1\ns,,,2\n", "points of shapes without coordinates, left out: 2"),
    "a shape of elsewhere": (
        SHAPES + shape("s", (50, 50), (60, 60)),
        "stops of trips more than 100 m off the shape, reached in straight lines: 3",
    ),
}


@pytest.mark.parametrize(("shapes", "note"), NO_SHAPE.values(), ids=NO_SHAPE.keys())
def test_without_a_usable_shape_a_trip_goes_straight(tmp_path, shapes, note):
    result = ride(tmp_path, "", shapes=shapes)
    assert [north(result.trajectories, "7", at) for at in ("8:05", "8:15")] == [1, 3]
    assert any(each.startswith(note) for each in result.summary["notes"])


def test_a_loop_is_driven_round(tmp_path):
    """From A round the block to A again: the last stop is at the end of the shape, not at its start."""
    square = [(0, 0), (2, 0), (2, 3), (0, 3), (0, 0)]
    result = ride(tmp_path, square, "out A 8:00 C 8:05 A 8:20")
    assert where(result.trajectories, "7", "8:15")[0] > 1000
