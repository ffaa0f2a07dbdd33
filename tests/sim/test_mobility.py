"""Generated movement: the same for a seed, and sound as movement."""

from __future__ import annotations

from hashlib import blake2b
from itertools import groupby, pairwise

import pyarrow as pa
import pytest

from antecast.core import ConfigurationError
from antecast.core.settings import read_settings
from antecast.sim.mobility import CityBus, Pedestrians, city_bus, pedestrians
from antecast.traces.schema import TRAJECTORIES

S = 10**9


def digest(table: pa.Table) -> str:
    """A hash of every value, to the last bit."""
    rows = table.to_pylist()
    return blake2b(repr([tuple(row.values()) for row in rows]).encode(), digest_size=8).hexdigest()


def tracks(table: pa.Table) -> dict[str, list[dict[str, float]]]:
    """The pieces of each node."""
    rows = sorted(table.to_pylist(), key=lambda row: (row["node"], row["t0"]))
    return {node: list(pieces) for node, pieces in groupby(rows, key=lambda row: row["node"])}


def stays(pieces: list[dict[str, float]]) -> int:
    """How often a node comes: a piece that does not begin where and when the last ended is a new stay."""
    joints = pairwise(pieces)
    return 1 + sum((a["t1"], a["x1"], a["y1"]) != (b["t0"], b["x0"], b["y0"]) for a, b in joints)


@pytest.fixture(scope="module")
def buses() -> pa.Table:
    return city_bus(1)


@pytest.fixture(scope="module")
def walkers() -> pa.Table:
    return pedestrians(1)


def test_a_seed_makes_the_same_movement_on_every_machine(buses, walkers):
    assert digest(buses) == "001729a1206ce1c4"
    assert digest(walkers) == "d13b6afebc4b6b4e"
    assert digest(city_bus(2)) != digest(buses)
    assert digest(pedestrians(2)) != digest(walkers)


def test_movement_is_sound(buses, walkers):
    for table in (buses, walkers):
        assert table.schema.equals(TRAJECTORIES, check_metadata=True)
        assert table["t0"].to_pylist() == sorted(table["t0"].to_pylist())
        for pieces in tracks(table).values():
            assert all(piece["t0"] < piece["t1"] for piece in pieces)
            assert all(a["t1"] <= b["t0"] for a, b in pairwise(pieces))


def test_buses_of_lines_are_there_once_a_day_and_school_buses_twice(buses):
    days = tracks(buses)
    assert len(days) == 60
    assert {stays(pieces) for name, pieces in days.items() if name.startswith("L")} == {1}
    assert [stays(pieces) for name, pieces in days.items() if name.startswith("S")] == [2] * 6


def test_no_bus_stands_longer_than_at_the_hub_and_none_at_a_terminus(buses):
    for name, pieces in tracks(buses).items():
        stops = [piece for piece in pieces if (piece["x0"], piece["y0"]) == (piece["x1"], piece["y1"])]
        assert max(piece["t1"] - piece["t0"] for piece in stops) == (120 if name.startswith("L") else 20) * S
        termini = {(pieces[0]["x0"], pieces[0]["y0"]), (pieces[-1]["x1"], pieces[-1]["y1"])}
        assert not termini & {(piece["x0"], piece["y0"]) for piece in stops}


def test_buses_of_a_line_follow_each_other_at_equal_intervals(buses):
    line = {name: pieces for name, pieces in tracks(buses).items() if name.startswith("L01-")}
    terminus = line["L01-1"][0]["x0"], line["L01-1"][0]["y0"]
    departures = sorted(
        (piece["t0"], name)
        for name, pieces in line.items()
        for piece in pieces
        if (piece["x0"], piece["y0"]) == terminus and 5 * 3600 * S < piece["t0"] < 9 * 3600 * S
    )
    assert [name for _, name in departures[:8]] == [name for _, name in departures[8:16]]
    gaps = [b[0] - a[0] for a, b in pairwise(departures)]
    assert max(gaps) - min(gaps) <= 40 * S  # each bus up to 10 s early or late


def test_walkers_come_and_go_by_the_fourteen_passages_and_never_turn_back(walkers):
    ways = [(x, y) for x in (7.5, 127.0, 249.0, 368.5) for y in (0.0, 364.0)]
    ways += [(x, y) for y in (7.5, 182.0, 356.5) for x in (0.0, 376.0)]
    used = set()
    for pieces in tracks(walkers).values():
        first, last = pieces[0], pieces[-1]
        used |= {(first["x0"], first["y0"]), (last["x1"], last["y1"])}
        assert stays(pieces) == 1
        for a, b in pairwise(pieces):
            assert (a["x0"], a["y0"]) != (b["x1"], b["y1"])
        for piece in pieces:
            length = abs(piece["x1"] - piece["x0"]) + abs(piece["y1"] - piece["y0"])
            assert 0.599 < length / ((piece["t1"] - piece["t0"]) / S) < 2.001
    assert used == set(ways)


def test_every_walk_is_whole_and_none_outlasts_the_time():
    table = pedestrians(1, read_settings({"duration": "10min", "walkers": 60.0}, Pedestrians))
    assert max(table["t1"].to_pylist()) <= 600 * S
    assert 20 < len(tracks(table)) <= 60


@pytest.mark.parametrize(
    ("kind", "values", "problem"),
    [
        (CityBus, {"nearest": 9000.0}, "nearest must not exceed furthest"),
        (CityBus, {"buses": [3, 0]}, "every line needs one"),
        (CityBus, {"unpunctual": "3min"}, "below the time from stop to stop"),
        (CityBus, {"sped": 3.0}, "did you mean 'speed'"),
        (Pedestrians, {"speed": 5.0}, "must lie between slowest and fastest"),
        (Pedestrians, {"slowest": 1.3, "fastest": 1.3}, "are too close"),
        (Pedestrians, {"rows": [5.0, 4.0]}, "rows must be above zero"),
    ],
)
def test_settings_that_make_no_sense_are_refused(kind, values, problem):
    with pytest.raises(ConfigurationError, match=problem):
        read_settings(values, kind)
