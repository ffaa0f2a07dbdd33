"""From a feed and a day to trajectories: what is chosen, and what the table and the summary say."""

import json

import numpy as np
import pytest
from gtfs_feeds import DAY, SMALL, STEP, check_pieces, clock, feed, nodes, north, times, trips

from antecast.core import ConfigurationError
from antecast.core.settings import Duration
from antecast.traces import TRAJECTORIES, read, write
from antecast.traces.gtfs import GtfsSettings, gtfs_mobility
from antecast.traces.gtfs.routes import chosen, kind_of


def test_the_table_keeps_the_contract(tmp_path):
    result = gtfs_mobility(feed(tmp_path), DAY)
    table = result.trajectories
    assert table.schema.equals(TRAJECTORIES)
    check_pieces(table)
    facts = table.schema.metadata
    assert facts[b"antecast.schema"] == b"trajectories/1"
    assert facts[b"antecast.crs"].startswith(b"+proj=aeqd +lat_0=48.02000 +lon_0=7.00000")
    assert facts[b"antecast.zero"] == b"2026-03-21T00:00:00+01:00"
    write(table, tmp_path / "bus.parquet")
    assert read(tmp_path / "bus.parquet").table.equals(table)


def test_distances_are_those_on_the_ground(tmp_path):
    """A degree of latitude at 48° is 111.2 km, one of longitude 74.5 km."""
    stops = "stop_id,stop_lat,stop_lon\nA,48,7\nB,48.1,7\nC,48.1,7.1\n"
    table = gtfs_mobility(feed(tmp_path, stops=stops), DAY).trajectories
    length = np.hypot(
        table["x1"].to_numpy() - table["x0"].to_numpy(), table["y1"].to_numpy() - table["y0"].to_numpy()
    )
    assert length[0] == pytest.approx(11_119.5, abs=5) and length[1] == pytest.approx(7_448, abs=1)


def test_the_date_line_is_no_seam(tmp_path):
    stops = "stop_id,stop_lat,stop_lon\nA,-17,179.99\nB,-17,-179.99\nC,-17,-179.98\n"
    assert gtfs_mobility(feed(tmp_path, stops=stops), DAY).summary["kilometres"] < 10


def test_the_summary_counts(tmp_path):
    summary = gtfs_mobility(feed(tmp_path), DAY).summary
    json.dumps(summary)
    expected = {
        "date": "2026-03-21",
        "zero": "2026-03-21T00:00:00+01:00",
        "in_feed": {"routes": 2, "trips": 2, "stops": 5, "stop_times": 6, "shapes": 0},
        "routes_by_type": {"bus": 1, "tram": 1},
        "routes": 1,
        "trips": 2,
        "trips_without_block": 0,
        "runs": 2,
        "vehicles": 1,
        "vehicles_at_once": 1,
        "at_once_at": "08:00:00",
        "blocks": 1,
        "blocks_at_once": 1,
        "chains": 0,
        "overnight_vehicles": 0,
        "on_the_road_at_once": 1,
        "from": "08:00:00",
        "to": "08:30:00",
        "kilometres": round(4 * STEP / 1000, 1),
        "fastest_kmh": pytest.approx(13.3, abs=0.1),
        "stop_to_shape_m": None,
        "nodes": 1,
        "pieces": 4,
        "notes": ["trips without a shape, in straight lines from stop to stop: 2"],
    }
    assert {key: summary[key] for key in expected} == expected


def test_the_same_feed_gives_the_same_table(tmp_path):
    assert gtfs_mobility(feed(tmp_path), DAY).trajectories.equals(gtfs_mobility(feed(tmp_path), DAY).trajectories)


def test_nodes_are_in_the_order_of_their_numbers(tmp_path):
    path = feed(
        tmp_path,
        trips=trips("a R S 10", "b R S 9", "c R S bus2"),
        stop_times=times("a A 8:00 B 8:10", "b B 8:00 C 8:10", "c C 8:00 D 8:10"),
    )
    table = gtfs_mobility(path, DAY).trajectories
    assert table["node"].combine_chunks().dictionary.to_pylist() == ["9", "10", "bus2"]


MIXED = {
    "routes": "route_id,route_short_name,route_type\nb,1,3\nt,2,0\nx,3,704\nf,4,1200\n",
    "trips": trips("1 b S 1", "2 t S 2", "3 x S 3", "4 f S 4"),
    "stop_times": times(*(f"{trip} A 8:00 C 8:30" for trip in "1234")),
}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["1", "2", "3", "4"]),
        ({"route_types": ("bus",)}, ["1", "3"]),
        ({"route_types": ("tram", "ferry")}, ["2", "4"]),
        ({"route_types": ("704",)}, ["3"]),
        ({"routes": ("t", "1")}, ["1", "2"]),
        ({"routes": ("1",), "route_types": ("bus",)}, ["1"]),
    ],
)
def test_routes_are_chosen_by_type_id_or_short_name(tmp_path, settings, expected):
    assert nodes(gtfs_mobility(feed(tmp_path, **MIXED), DAY, GtfsSettings(**settings)).trajectories) == expected


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"route_types": ("buss",)}, "unknown route type 'buss'; did you mean 'bus'?"),
        ({"route_types": ("spaceship",)}, "unknown route type 'spaceship'; known: tram, subway, rail, bus, ferry"),
        ({"routes": ("99",)}, "no route has the id or short name '99'; there are 1, 2, 3, 4, b, f, t, x"),
        (
            {"start": Duration(clock("12:00"))},
            "nothing moves in this window; the day's trips last from 08:00:00 to 08:30",
        ),
    ],
)
def test_what_is_not_there_cannot_be_chosen(tmp_path, settings, words):
    with pytest.raises(ConfigurationError) as caught:
        gtfs_mobility(feed(tmp_path, **MIXED), DAY, GtfsSettings(**settings))
    assert words in str(caught.value)


def test_route_types_have_names_in_both_systems():
    basic = ["tram", "subway", "rail", "bus", "ferry", "cable", "gondola", "funicular"]
    assert [kind_of(code) for code in range(8)] == basic
    assert (kind_of(11), kind_of(12), kind_of(405)) == ("trolleybus", "monorail", "monorail")
    assert {kind_of(code) for code in range(700, 800)} == {"bus"}
    assert [kind_of(code) for code in (100, 200, 401, 800, 900, 1000, 1300, 1400)] == [
        *("rail", "coach", "subway", "trolleybus", "tram", "ferry", "gondola", "funicular")
    ]
    assert [kind_of(code) for code in (8, 99, 1700, -1)] == ["other"] * 4
    assert not chosen(["bus"], 800)


def test_a_window_cuts_pieces_at_its_edges(tmp_path):
    settings = GtfsSettings(start=Duration(clock("8:02")), end=Duration(clock("8:22")))
    result = gtfs_mobility(feed(tmp_path), DAY, settings)
    table = result.trajectories
    check_pieces(table)
    assert (result.summary["from"], result.summary["to"]) == ("08:02:00", "08:22:00")
    assert [north(table, "7", at) for at in ("8:01", "8:02", "8:07:30", "8:21:59", "8:22")] == [
        None,
        0.4,
        1.5,
        1.6,
        None,
    ]
    whole = gtfs_mobility(feed(tmp_path), DAY).trajectories
    inner = [row for row in whole.to_pylist() if clock("8:02") <= row["t0"] and row["t1"] <= clock("8:22")]
    assert inner == [row for row in table.to_pylist() if row in inner] and len(inner) == 1


def test_stops_at_null_island_have_no_place_and_move_no_plane(tmp_path):
    result = gtfs_mobility(feed(tmp_path, stops=SMALL["stops"] + "Z,nowhere,0,0\n"), DAY)
    assert "+lat_0=48.02000" in result.summary["crs"]
