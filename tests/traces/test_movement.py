"""Movement: commands and places become straight pieces that do not overlap, and nodes come and go."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest

from antecast.core import InputError
from antecast.traces import TRAJECTORIES, read

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SECOND = 10**9


def pieces(tmp_path, text, name=None, **options):
    """A trace's pieces by node, each (t0, x0, y0, t1, x1, y1) in seconds, and its notes."""
    path = tmp_path / "trace.txt"
    path.write_text(text, encoding="utf-8")
    trace = read(path, name, **options)
    assert trace.kind == "movement" and trace.table.schema.equals(TRAJECTORIES, check_metadata=True)
    found = {}
    for row in trace.table.to_pylist():
        piece = (row["t0"] / SECOND, row["x0"], row["y0"], row["t1"] / SECOND, row["x1"], row["y1"])
        found.setdefault(row["node"], []).append(piece)
    return found, trace.notes


def error_of(tmp_path, text, name):
    with pytest.raises(InputError) as caught:
        pieces(tmp_path, text, name)
    return str(caught.value).replace(str(tmp_path) + "/", "")


# --- ns-2 ----------------------------------------------------------------------------------------------------

PLACES = "$node_(0) set X_ 0.0\n$node_(0) set Y_ 0.0\n$node_(0) set Z_ 0.0\n"


def go(t, x, y, v, node=0):
    return f'$ns_ at {t} "$node_({node}) setdest {x} {y} {v}"\n'


def test_a_node_stands_goes_at_its_speed_and_stops_at_the_target(tmp_path):
    found, notes = pieces(tmp_path, PLACES + go(10, 30, 40, 5) + go(30, 30, 0, 4))
    assert found == {
        "0": [(0, 0, 0, 10, 0, 0), (10, 0, 0, 20, 30, 40), (20, 30, 40, 30, 30, 40), (30, 30, 40, 40, 30, 0)]
    }
    assert notes == ()


def test_a_command_before_arrival_turns_the_node_where_it_is(tmp_path):
    found, _ = pieces(tmp_path, PLACES + go(0, 100, 0, 10) + go(4, 40, 30, 10))
    assert found == {"0": [(0, 0, 0, 4, 40, 0), (4, 40, 0, 7, 40, 30)]}


def test_speed_zero_stops_the_node_where_it_is(tmp_path):
    found, _ = pieces(tmp_path, PLACES + go(0, 100, 0, 10) + go(4, 100, 0, 0) + go(6, 0, 0, 40))
    assert found == {"0": [(0, 0, 0, 4, 40, 0), (4, 40, 0, 6, 40, 0), (6, 40, 0, 7, 0, 0)]}


def test_every_node_is_there_until_the_last_has_arrived_wherever_its_place_is_written(tmp_path):
    text = go(0, 10, 0, 1) + PLACES + "$node_(1) set X_ 3\n$node_(1) set Y_ 4\n"
    found, _ = pieces(tmp_path, text)
    assert found == {"0": [(0, 0, 0, 10, 10, 0)], "1": [(0, 3, 4, 10, 3, 4)]}


def test_a_place_set_later_is_a_jump(tmp_path):
    text = PLACES + go(0, 10, 0, 1) + '$ns_ at 5 "$node_(0) set X_ 100"\n' + go(8, 100, 8, 1)
    found, _ = pieces(tmp_path, text)
    assert found == {"0": [(0, 0, 0, 5, 5, 0), (5, 100, 0, 8, 100, 0), (8, 100, 0, 16, 100, 8)]}


def test_a_speed_that_ends_a_rounding_error_beside_the_next_command_ends_with_it(tmp_path):
    found, _ = pieces(tmp_path, PLACES + go(0, 100, 0, 3.000000000003) + go(33.333333333, 0, 0, 10))
    assert found["0"][0] == (0, 0, 0, 33.333333333, 100, 0) and len(found["0"]) == 2


def test_scripts_say_other_things_too(tmp_path):
    text = (
        "set god_ [God instance]\n# $ns_ at 1 \"$node_(0) setdest 9 9 9\"\n$god_ set-dist 0 1 2\n"
        "$n0 set X_ 1 ;# here\n\t$n0 set Y_ 2;\n$ns at 1.0 \"$n0 setdest 4 6 5\" ;\n"
        '$ns_ at 1.5 "$god_ set-dist 1 2 1"\n$ns_ at 2.0 "$n0 setdest 4 6 0 2.0 "\n'
    )  # fmt: skip
    found, notes = pieces(tmp_path, text)
    assert found == {"n0": [(0, 1, 2, 1, 1, 2), (1, 1, 2, 2, 4, 6)]}
    assert notes == ("3 other lines of Tcl ignored",)


def test_a_node_without_a_place_starts_at_the_origin_and_says_so(tmp_path):
    found, notes = pieces(tmp_path, go(0, 3, 4, 1))
    assert found == {"0": [(0, 0, 0, 5, 3, 4)]}
    assert notes == ("1 node starts at (0, 0), for want of a place",)


STEPS = """$node_(0) set X_ 0.0
$node_(0) set Y_ 0.0
$ns_ at 0.6 "$node_(0) setdest 0.7 0.0 1.2"
$ns_ at 1.2 "$node_(0) setdest 1.6 0.0 1.5"
$node_(1) set X_ 9.0
$node_(1) set Y_ 9.0
$ns_ at 1.8 "$node_(0) setdest 2.5 0.0 1.5"
$ns_ at 1.8 "$node_(1) setdest 9.0 8.0 1.7"
$ns_ at 2.4 "$node_(1) setdest 9.0 7.0 1.7"
"""
IN_STEPS = {
    "0": [(0.6, 0, 0, 1.2, 0.7, 0), (1.2, 0.7, 0, 1.8, 1.6, 0), (1.8, 1.6, 0, 2.4, 2.5, 0)],
    "1": [(1.8, 9, 9, 2.4, 9, 8), (2.4, 9, 8, 3.0, 9, 7)],
}


def test_walkers_in_steps_come_and_go_and_reach_each_target_at_the_next_command(tmp_path):
    found, notes = pieces(tmp_path, STEPS)
    assert found == IN_STEPS
    assert len(notes) == 1 and notes[0].startswith("commands come every 0.6 s: nodes come and go")


def test_how_commands_are_meant_can_be_said(tmp_path):
    found, _ = pieces(tmp_path, STEPS, motion="ns2")
    assert found["0"][0] == (0, 0, 0, 0.6, 0, 0) and found["1"][0] == (0, 9, 9, 1.8, 9, 9)
    found, _ = pieces(tmp_path, PLACES + go(1, 5, 0, 1) + go(3, 9, 0, 1), motion="steps")
    assert found == {"0": [(1, 0, 0, 3, 5, 0), (3, 5, 0, 5, 9, 0)]}


def test_unsorted_commands_are_put_in_the_order_of_time(tmp_path):
    assert pieces(tmp_path, PLACES + go(4, 40, 30, 10) + go(0, 100, 0, 10)) == pieces(
        tmp_path, PLACES + go(0, 100, 0, 10) + go(4, 40, 30, 10)
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('$ns_ at 1 "$node_(0) setdest 5 5"', "trace.txt:4: expected $ns_ at time"),
        ('$ns_ at 1 "$node_(0) setdest 5 5 1', "trace.txt:4: expected $ns_ at time"),
        ("$node_(0) set X_ $xx", 'trace.txt:4: expected a number, got "$xx"'),
        ('$ns_ at soon "$node_(0) setdest 5 5 1"', 'trace.txt:4: expected a time in seconds, got "soon"'),
        ('$ns_ at -1 "$node_(0) setdest 5 5 1"', "trace.txt:4: expected a time of zero or more"),
        ('$ns_ at 1 "$node_(0) setdest nan 5 1"', 'trace.txt:4: expected a number, got "nan"'),
        ('$ns_ at 1 "$node_(0) setdest 5 5 -1"', "trace.txt:4: expected a speed of zero or more"),
        ('$ns_ at 1 "$node_(0) setdest 5 5 5 1"', 'trace.txt:4: expected "setdest x y speed"; movement in space'),
    ],
)
def test_a_wrong_line_of_ns2_is_named(tmp_path, line, problem):
    assert problem in error_of(tmp_path, PLACES + line + "\n" + go(9, 1, 1, 1), "ns2")


def test_a_script_without_movement_is_refused(tmp_path):
    for text in ("set val(nn) 5\n", PLACES):
        assert "got no setdest at all" in error_of(tmp_path, text, "ns2")


@pytest.fixture(scope="module")
def ostermalm():
    path = DATA / "mobility" / "ostermalm_003_sample.tr.gz"
    if not path.exists():
        pytest.skip("needs the shared data")
    return read(path)


def test_the_walkers_of_ostermalm_have_their_figures(ostermalm):
    rows = ostermalm.table.to_pandas()
    assert ostermalm.nodes == 100 and len(rows) == 70_491
    assert rows.t0.max() == 900 * SECOND  # the last command; its target is reached a step later
    assert (rows.x1.min(), rows.x1.max(), rows.y1.min(), rows.y1.max()) == (573.6, 949.6, 1451.3, 1815.5)
    lengths = rows.t1 - rows.t0
    assert sorted(lengths[lengths > 0.6 * SECOND].unique()) == [1_200_000_000, 1_800_000_000]
    assert (lengths > 600_000_000).sum() == 17 and lengths.min() == 600_000_000
    assert "(17 gaps)" in ostermalm.notes[0]
    lives = rows.groupby("node", observed=True).agg({"t0": "min", "t1": "max"})
    changes = np.concatenate([[(t, 1) for t in lives.t0], [(t, -1) for t in lives.t1]])
    active = np.cumsum(changes[np.lexsort((changes[:, 1], changes[:, 0])), 1])
    assert active.max() == 68


def test_the_walkers_of_ostermalm_meet_as_often_and_as_long_as_they_should(ostermalm):
    """A plain check of every pair, each common stretch of straight movement solved for 50 m."""
    rows = ostermalm.table.to_pandas()
    tracks = {}
    for name, track in rows.groupby("node", observed=True):
        t = np.append(track.t0, track.t1.iloc[-1]) / SECOND
        places = [np.append(track[f"{axis}0"], track[f"{axis}1"].iloc[-1]) for axis in "xy"]
        tracks[name] = (t, *places)
    lengths = []
    names = list(tracks)
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            lengths += meetings(tracks[one], tracks[other], 50.0)
    assert len(lengths) == 1_089
    assert round(np.mean(lengths), 1) == 55.5 and round(max(lengths), 1) == 398.4


def meetings(one, other, reach):
    """How long each contact of two tracks lasts that lasts at all."""
    start, end = max(one[0][0], other[0][0]), min(one[0][-1], other[0][-1])
    if start >= end:
        return []
    t = np.unique(np.concatenate([one[0], other[0]]))
    t = t[(t >= start) & (t <= end)]
    dx, dy = (np.interp(t, one[0], one[axis]) - np.interp(t, other[0], other[axis]) for axis in (1, 2))
    vx, vy = np.diff(dx), np.diff(dy)
    a, b, c = vx**2 + vy**2, dx[:-1] * vx + dy[:-1] * vy, dx[:-1] ** 2 + dy[:-1] ** 2 - reach**2
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(b * b - a * c)
        low = np.where(a > 0, np.maximum((-b - root) / a, 0), np.where(c <= 0, 0, np.inf))
        high = np.where(a > 0, np.minimum((-b + root) / a, 1), np.where(c <= 0, 1, -np.inf))
    inside = low <= high  # not where the root is of a negative number
    begin, finish = (t[:-1] + np.diff(t) * np.where(inside, part, 0) for part in (low, high))
    found = []
    for first, last in zip(begin[inside], finish[inside], strict=True):
        if found and first <= found[-1][1] + 1e-7:
            found[-1][1] = last
        else:
            found.append([first, last])
    return [last - first for first, last in found if last - first > 1e-9]


# --- walkers -------------------------------------------------------------------------------------------------


def test_walkers_are_created_sent_and_destroyed(tmp_path):
    text = (
        "0.0 create 1 0.0 0.0 0.0\n0.6 setdest 1 6.0 0.0 0.0 10.0 1.2\n1.2 setdest 1 6.0 6.0 0.0 10.0 1.8\n"
        "2.4 destroy 1\n3 create 1 50 50 0\n3 setdest 1 50 60 0 5 5\n4 destroy 1\n"
    )
    found, notes = pieces(tmp_path, text)
    assert found == {
        "1": [
            (0, 0, 0, 0.6, 0, 0),
            (0.6, 0, 0, 1.2, 6, 0),
            (1.2, 6, 0, 1.8, 6, 6),
            (1.8, 6, 6, 2.4, 6, 6),
            (3, 50, 50, 4, 50, 55),
        ]
    }
    assert notes == ()


def test_without_a_destroy_a_walker_ends_where_its_last_setdest_takes_it(tmp_path):
    text = "6.0 create 2 628.2 1812.1 0.0\n6.0 setdest 2 818.0 1453.0 0.0 0.8 6.6\n9 create 3 1 1 0\n"
    found, notes = pieces(tmp_path, text)
    assert found == {"2": [(6, 628.2, 1812.1, 6.6, 818.0, 1453.0)]}
    assert notes == ("1 node without movement left out",)


def test_a_setdest_before_arrival_turns_a_walker_where_it_is(tmp_path):
    text = "0 create 1 0 0 0\n0 setdest 1 10 0 0 1 10\n4 setdest 1 4 8 0 2 8\n"
    assert pieces(tmp_path, text)[0] == {"1": [(0, 0, 0, 4, 4, 0), (4, 4, 0, 8, 4, 8)]}


def test_a_file_that_starts_in_the_middle_is_read(tmp_path):
    text = "6.0 setdest 1 8 4 0 0.8 6.6\n6.6 setdest 1 9 4 0 1.7 7.2\n7.2 destroy 1\n7.2 destroy 8\n"
    found, notes = pieces(tmp_path, text)
    assert found == {"1": [(6.6, 8, 4, 7.2, 9, 4)]}
    assert [note.split(" ", 1)[0] for note in notes] == ["1", "1", "1"]


def test_a_walker_known_only_from_its_arrival_on_does_not_walk_before_it(tmp_path):
    text = "6.0 setdest 1 8 4 0 1 6.6\n6.2 setdest 1 9 4 0 1 7\n6.4 setdest 1 9 8 0 1 7.6\n"
    assert pieces(tmp_path, text)[0] == {"1": [(6.6, 8, 4, 7.6, 9, 8)]}


@pytest.mark.parametrize(
    "line",
    ["6 setdest 1 8 4 0 0.8", "6 fly 1", "6 destroy", "6 create 1 0", "six create 1 0 0 0", "6 create 1 0 inf 0"],
)
def test_a_wrong_line_of_walkers_is_named(tmp_path, line):
    assert "trace.txt:2: expected" in error_of(tmp_path, f"0 create 0 0 0 0\n{line}\n7 destroy 0\n", "walkers")


def test_an_arrival_before_the_command_is_refused(tmp_path):
    text = "0 create 0 0 0 0\n6 setdest 0 1 1 0 1 5\n"
    assert "trace.txt:2: expected an arrival after" in error_of(tmp_path, text, "walkers")


# --- BonnMotion ----------------------------------------------------------------------------------------------


def test_a_line_of_waypoints_is_a_node(tmp_path):
    text = "# bm\n0.0 1.5 2.5 10.0 11.5 2.5 15.0 11.5 2.5\n\n3.5 0.5 0.5\n"
    found, notes = pieces(tmp_path, text)
    assert found == {
        "0": [(0, 1.5, 2.5, 10, 11.5, 2.5), (10, 11.5, 2.5, 15, 11.5, 2.5)],
        "2": [(3.5, 0.5, 0.5, 15, 0.5, 0.5)],
    }
    assert notes == ("1 node with one waypoint, standing there until 15 s",)


def test_waypoints_in_space_lose_their_height(tmp_path):
    found, notes = pieces(tmp_path, "0.0 1.5 2.5 9.0 10.0 11.5 2.5 8.0\n")
    assert found == {"0": [(0, 1.5, 2.5, 10, 11.5, 2.5)]}
    assert notes == ("the fourth number of each waypoint ignored",)


def test_twelve_words_are_told_apart_by_the_order_of_time(tmp_path):
    flat = [(0, 5.5, 9.5), (10, 4.5, 8.5), (20, 3.5, 7.5), (30, 2.5, 6.5)]
    spatial = [(0, 5.5, 9.5, 50.5), (100, 4.5, 8.5, 0.5), (200, 3.5, 7.5, 0.5)]
    for waypoints in (flat, spatial):
        text = " ".join(str(number) for waypoint in waypoints for number in waypoint) + "\n"
        found, _ = pieces(tmp_path, text)
        assert [piece[0] for piece in found["0"]] == [waypoint[0] for waypoint in waypoints[:-1]]
        assert pieces(tmp_path, text, dimensions=len(waypoints[0]) - 1)[0] == found


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("0.0 1.5 2.5 10.0 1.5 2.5 9.0 1.5 2.5", "in the order of time; number 3 is at 9 s, after 10 s"),
        ("0.0 1.5 2.5 10.0 1.5", 'expected "t x y t x y …"'),
        ("0.0 1.5 2.5 nan 1.5 2.5", 'expected a time in seconds, got "nan"'),
        ("0.0 1.5 2.5 10.0 x 2.5", 'expected a number, got "x"'),
        ("-1.0 1.5 2.5 10.0 1.5 2.5", "expected a time of zero or more"),
    ],
)
def test_a_wrong_line_of_bonnmotion_is_named(tmp_path, line, problem):
    message = error_of(tmp_path, f"0.0 1.5 2.5 10.0 1.5 2.5\n{line}\n", "bonnmotion")
    assert "trace.txt:2: " in message and problem in message


# --- ONE movement --------------------------------------------------------------------------------------------


def test_places_are_joined_by_straight_lines_over_gaps_too(tmp_path):
    text = "0 100 0 50 0 50\n0 a 0 0\n0 b 1 1\n20 a 20 0\n10 a 10 5\n60 a 20 0\n90 c 3 3\n"
    found, notes = pieces(tmp_path, text)
    assert found == {
        "a": [(0, 0, 0, 10, 10, 5), (10, 10, 5, 20, 20, 0), (20, 20, 0, 60, 20, 0)],
        "b": [(0, 1, 1, 100, 1, 1)],
        "c": [(90, 3, 3, 100, 3, 3)],
    }
    assert notes == ("2 nodes with one row, standing there until 100 s",)


def test_two_places_at_one_time_are_a_jump(tmp_path):
    text = "0 20 0 50 0 50 0 0\n0 a 0 0\n10 a 10 0\n10 a 30 0\n20 a 40 0\n"
    assert pieces(tmp_path, text)[0] == {"a": [(0, 0, 0, 10, 10, 0), (10, 30, 0, 20, 40, 0)]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0 a 1 1\n1 a 2 2\n", 'trace.txt:1: expected "minTime maxTime minX maxX minY maxY [minZ maxZ]"'),
        ("0 1 9 0 0 9\n0 a 1 1\n", "trace.txt:1: expected"),
        ("0 9 0 9 0 9\n", 'expected "time id x y" after the header'),
        ("0 9 0 9 0 9\n0 a 1 1\n1 a 2\n", 'trace.txt:3: expected "time id x y", got "1 a 2"'),
        ("0 9 0 9 0 9\n0 a 1 1\ninf a 2 2\n", 'trace.txt:3: expected a time in seconds, got "inf"'),
    ],
)
def test_a_wrong_line_of_one_movement_is_named(tmp_path, text, problem):
    assert problem in error_of(tmp_path, text, "one-movement")


def test_bonnmotion_is_read_as_it_is_published(tmp_path):
    path = tmp_path / "scenario.movements.gz"
    path.write_bytes(gzip.compress(b"0.0 1.123456789012 2.0 7.098765432198765 4.0 2.0\n"))
    [row] = read(path).table.to_pylist()
    assert row["t1"] == 7_098_765_432 and math.isclose(row["x0"], 1.123456789012, rel_tol=0)
