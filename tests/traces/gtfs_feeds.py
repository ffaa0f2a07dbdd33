"""Small GTFS feeds for the tests of `antecast.traces.gtfs`, and questions to ask of trajectories."""

from __future__ import annotations

import zipfile
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa

DAY = date(2026, 3, 21)
"""A Saturday on which the service `S` of the small feed runs."""

STEP = 1111.95
"""Metres between two stops of the small feed, to a metre: a hundredth of a degree along a meridian."""

SMALL = {
    "agency": "agency_id,agency_name,agency_timezone\nX,Lines,Europe/Paris\n",
    "routes": "route_id,agency_id,route_short_name,route_type\nR,X,1,3\nT,X,2,0\n",
    "calendar": (
        "service_id,monday,tuesday,wednesday,thursday,friday,saturday,sunday,start_date,end_date\n"
        "S,0,0,0,0,0,1,0,20260301,20260331\n"
        "W,1,1,1,1,1,0,0,20260301,20260331\n"
    ),
    "stops": (
        "stop_id,stop_name,stop_lat,stop_lon\n"
        "A,Ash,48.00,7.0\nB,Birch,48.01,7.0\nC,Cedar,48.02,7.0\nD,Dogwood,48.03,7.0\nE,Elm,48.04,7.0\n"
    ),
    "trips": "route_id,service_id,trip_id,block_id\nR,S,out,7\nR,S,back,7\n",
    "stop_times": (
        "trip_id,stop_sequence,stop_id,arrival_time,departure_time\n"
        "out,1,A,08:00:00,08:00:00\nout,2,B,08:05:00,08:05:00\nout,3,C,08:10:00,08:10:00\n"
        "back,1,C,08:20:00,08:20:00\nback,2,B,08:25:00,08:25:00\nback,3,A,08:30:00,08:30:00\n"
    ),
}
"""Five stops on a meridian, going north. One bus goes from A to C and, ten minutes later, back."""


def feed(folder: Path, **tables: str | bytes | None) -> Path:
    """Write the small feed as a folder, with some tables changed, added or (None) left out."""
    path = folder / "feed"
    path.mkdir(parents=True, exist_ok=True)
    for name, text in (SMALL | tables).items():
        if text is not None:
            (path / f"{name}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def zipped(folder: Path, inside: str = "", **tables: str | bytes | None) -> Path:
    """The same as a zip, its tables in a folder of it if one is named."""
    path = folder / "feed.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in (SMALL | tables).items():
            if text is not None:
                file.writestr(f"{inside}{name}.txt", text)
    return path


def times(*rows: str) -> str:
    """A stop_times.txt from rows such as `out A 8:00 B 8:05-8:06 C - D 8:10`: stops and times."""
    lines = ["trip_id,stop_sequence,stop_id,arrival_time,departure_time"]
    for row in rows:
        trip, *visits = row.split()
        for number, (stop, time) in enumerate(zip(visits[::2], visits[1::2], strict=True), 1):
            arrive, _, depart = time.partition("-")
            lines.append(f"{trip},{number},{stop},{arrive},{depart or arrive}")
    return "\n".join(lines) + "\n"


def trips(*rows: str) -> str:
    """A trips.txt from rows such as `out R S 7`: trip, route, service and, if it has one, block."""
    lines = ["trip_id,route_id,service_id,block_id,shape_id"]
    for row in rows:
        trip, route, service, *more = row.split()
        lines.append(",".join([trip, route, service, *more, *[""] * (2 - len(more))]))
    return "\n".join(lines) + "\n"


def shape(name: str, *points: tuple[float, float]) -> str:
    """Rows of shapes.txt; points are hundredths of a degree north of 48° and east of 7°."""
    return "".join(f"{name},{48 + n / 100},{7 + e / 100},{place}\n" for place, (n, e) in enumerate(points))


SHAPES = "shape_id,shape_pt_lat,shape_pt_lon,shape_pt_sequence\n"


def clock(text: str) -> int:
    """Nanoseconds of the service day, from text such as 8:05 or 8:05:30."""
    hours, minutes, *seconds = map(int, text.split(":"))
    return ((hours * 60 + minutes) * 60 + sum(seconds)) * 10**9


def nodes(table: pa.Table) -> list[str]:
    return sorted(set(table["node"].to_pylist()))


def where(table: pa.Table, node: str, time: str) -> tuple[float, float] | None:
    """Where a node is, in metres from the small feed's middle; None if it is not there."""
    t = clock(time)
    for piece in table.to_pylist():
        if piece["node"] == node and piece["t0"] <= t < piece["t1"]:
            share = (t - piece["t0"]) / (piece["t1"] - piece["t0"])
            return tuple(piece[f"{axis}0"] + share * (piece[f"{axis}1"] - piece[f"{axis}0"]) for axis in "xy")
    return None


def north(table: pa.Table, node: str, time: str) -> float | None:
    """How many steps north of the stop A a node is, to a hundredth; None if it is not there."""
    place = where(table, node, time)
    return None if place is None else round(place[1] / STEP + 2, 2)


def check_pieces(table: pa.Table) -> None:
    """What every table of trajectories promises: pieces of a node follow each other, none is without time."""
    node = table["node"].combine_chunks().indices.to_numpy()
    t0, t1 = table["t0"].to_numpy(), table["t1"].to_numpy()
    assert (t1 > t0).all()
    same = node[1:] == node[:-1]
    assert (np.diff(node) >= 0).all()
    assert (t0[1:][same] >= t1[:-1][same]).all()
    for column in ("x0", "y0", "x1", "y1"):
        assert np.isfinite(table[column].to_numpy()).all()
