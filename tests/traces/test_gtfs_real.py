"""The figures of real feeds, where they are at hand."""

from datetime import date
from pathlib import Path

import numpy as np
import pytest
from gtfs_feeds import check_pieces

from antecast.core.settings import Duration
from antecast.traces.gtfs import GtfsSettings, gtfs_mobility
from antecast.traces.gtfs.feed import Feed
from antecast.traces.gtfs.network import Network

FEEDS = Path(__file__).parents[3] / "shared" / "data" / "gtfs"
pytestmark = pytest.mark.skipif(not FEEDS.is_dir(), reason="the real feeds are not here")

BUSES = GtfsSettings(route_types=("bus",))
SATURDAY = date(2026, 3, 21)


def test_mulhouse_on_a_saturday():
    result = gtfs_mobility(FEEDS / "mulhouse.zip", SATURDAY, BUSES)
    summary = result.summary
    check_pieces(result.trajectories)
    assert summary["in_feed"] == {
        "routes": 33,
        "trips": 9115,
        "stops": 963,
        "stop_times": 192_345,
        "shapes": 81_603,
    }
    assert summary["routes_by_type"] == {"bus": 29, "tram": 4}
    assert (summary["trips"], summary["trips_without_block"], summary["runs"]) == (1230, 188, 1230)
    assert (summary["blocks"], summary["blocks_at_once"]) == (72, 59)
    assert summary["stop_to_shape_m"] == 4.5
    assert summary["fastest_kmh"] < 100
    assert summary["to"] == "24:49:00"


@pytest.mark.parametrize(
    ("day", "trips", "blocks", "at_once"), [(23, 535, 30, 24), (27, 536, 30, 24), (28, 373, 17, 15)]
)
def test_roanoke_from_monday_to_saturday(day, trips, blocks, at_once):
    result = gtfs_mobility(FEEDS / "roanoke.zip", date(2026, 3, day))
    summary = result.summary
    check_pieces(result.trajectories)
    assert summary["in_feed"]["trips"] == 592
    assert (summary["trips"], summary["trips_without_block"], summary["chains"]) == (trips, 0, 0)
    assert (summary["blocks"], summary["blocks_at_once"]) == (blocks, at_once)
    assert summary["fastest_kmh"] < 126, "legs of no time are spread"


def test_all_trips_of_roanoke_have_a_block():
    assert (Network(Feed(FEEDS / "roanoke.zip")).block.codes >= 0).all()


def test_buses_that_stand_in_layovers_move_no_other_way():
    """Standing adds pieces; what moves along the shapes stays as it was."""
    absent = gtfs_mobility(FEEDS / "mulhouse.zip", SATURDAY, BUSES)
    settings = GtfsSettings(route_types=("bus",), layover=Duration(24 * 3600 * 10**9))
    standing = gtfs_mobility(FEEDS / "mulhouse.zip", SATURDAY, settings)
    assert standing.summary["on_the_road_at_once"] == standing.summary["vehicles_at_once"] == 72
    assert absent.summary["on_the_road_at_once"] == 58
    assert standing.summary["kilometres"] - absent.summary["kilometres"] < 20
    check_pieces(standing.trajectories)
    time = standing.trajectories["t1"].to_numpy() - standing.trajectories["t0"].to_numpy()
    assert np.sum(time) > np.sum(absent.trajectories["t1"].to_numpy() - absent.trajectories["t0"].to_numpy())
