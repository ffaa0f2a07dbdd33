"""`antecast mobility`: movement from sources that are not traces yet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from antecast.cli.console import Json, Quiet, input_path, note, out
from antecast.cli.tables import show_pairs
from antecast.cli.usage import Command, Group
from antecast.core import ConfigurationError
from antecast.core.settings import Duration, parse_duration

T = TypeVar("T")

app = typer.Typer(
    name="mobility",
    cls=Group,
    rich_markup_mode=None,
    help="Make movement from a timetable.",
    no_args_is_help=True,
)

ALWAYS = 10**6 * 3600 * 10**9
"""Longer than any layover."""


class Vehicles(StrEnum):
    BLOCKS = "blocks"
    TRIPS = "trips"


@app.callback()
def _group() -> None:
    pass


@app.command(cls=Command)
def gtfs(
    feed: Annotated[
        Path, typer.Argument(metavar="FEED.zip", help="A GTFS feed: a zip or a folder.", parser=input_path)
    ],
    day: Annotated[
        str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="The service day.", show_default=False)
    ] = None,
    route_types: Annotated[
        list[str] | None,
        typer.Option("--route-type", metavar="KIND", help="Only this kind: bus, tram …, or a number. Repeatable."),
    ] = None,
    routes: Annotated[
        list[str] | None, typer.Option("--route", metavar="ROUTE", help="Only this id or short name. Repeatable.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="HH:MM", help="Leave out everything before.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="HH:MM", help="Leave out everything after.")] = None,
    layover: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="The longest layover in which a vehicle stands at the terminus; in longer ones it is off the"
            " road. Or: stand (always), absent (never).",
        ),
    ] = "1min",
    max_layover: Annotated[
        str, typer.Option(metavar="TIME", help="How long a vehicle without block_id waits for its next trip.")
    ] = "30min",
    terminus_radius: Annotated[
        float, typer.Option(metavar="METRES", min=0, help="How close to its last stop that trip must begin.")
    ] = 200.0,
    vehicles: Annotated[
        Vehicles,
        typer.Option(help="What a vehicle drives: a block (or a chain of trips that have none), or one trip."),
    ] = Vehicles.BLOCKS,
    overnight: Annotated[
        bool, typer.Option("--overnight", help="Also take trips of the day before that are still under way.")
    ] = False,
    target: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The file to write. Default: FEED-DATE.parquet."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make the movement of a timetable's vehicles on one day.

    Vehicles are the blocks of the feed; trips without one are chained where one ends and the next begins. They
    follow the shapes of their routes from stop to stop. Times count from the start of the service day.
    """
    from antecast.traces import write
    from antecast.traces.gtfs import GtfsSettings, gtfs_mobility, parse_clock, parse_date, service_days

    lengths = {"stand": ALWAYS, "absent": 0}
    settings = GtfsSettings(
        route_types=tuple(route_types or ()),
        routes=tuple(routes or ()),
        start=None if start is None else Duration(_parsed("--from", parse_clock, start) * 10**9),
        end=None if end is None else Duration(_parsed("--to", parse_clock, end) * 10**9),
        layover=Duration(lengths[layover] if layover in lengths else _parsed("--layover", _length, layover)),
        max_layover=Duration(_parsed("--max-layover", _length, max_layover)),
        terminus_radius=terminus_radius,
        vehicles=vehicles.value,
        overnight=overnight,
    )
    if day is None:
        raise ConfigurationError(f"which day? {service_days(feed, settings)}", field="--date")
    chosen = _parsed("--date", parse_date, day)
    path = target or Path(f"{feed.resolve().stem}-{chosen}.parquet")
    if path.exists() and not force:
        raise ConfigurationError(f"{path} exists already; --force writes over it", field="--out")
    mobility = gtfs_mobility(feed, chosen, settings)
    lost = write(mobility.trajectories, path, replace=force)
    summary = mobility.summary | {"file": str(path)}
    summary["notes"] = [*summary["notes"], *lost]
    if as_json:
        print(json.dumps(summary, indent=2))
    elif not quiet:
        _show(summary)


def _parsed(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigurationError(str(error), field=option) from None


def _length(text: str) -> int:
    ns = parse_duration(text)
    if ns < 0:
        raise ValueError(f"expected a duration of zero or more, got {text!r}")
    return ns


def _show(summary: dict[str, Any]) -> None:
    for text in summary["notes"]:
        note(text)
    show_pairs(_rows(summary))
    out.print(f"trajectories: {summary['file']}", style="dim", soft_wrap=True)


def _rows(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    in_feed = summary["in_feed"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in summary["routes_by_type"].items())
    yield (
        "feed",
        f"{in_feed['routes']} routes ({kinds}), {in_feed['trips']:,} trips, {in_feed['stops']:,} stops, "
        f"{in_feed['stop_times']:,} stop times, {in_feed['shapes']:,} shape points",
    )
    repeated = f", made {summary['runs']:,} times" if summary["runs"] != summary["trips"] else ""
    loose = summary["trips_without_block"]
    yield "day", f"{summary['date']}, time zero at {summary['zero'] or 'midnight'}"
    yield "routes", f"{summary['routes']}"
    yield "trips", f"{summary['trips']:,}, {loose:,} of them without block_id{repeated}"
    blocks = f"{summary['blocks']} blocks (at most {summary['blocks_at_once']} at once)"
    yield "vehicles", f"{summary['vehicles']}: {blocks} and {summary['chains']} chains of trips without one"
    if summary["overnight_vehicles"]:
        yield "", f"and {summary['overnight_vehicles']} from the day before"
    yield (
        "at once",
        f"at most {summary['vehicles_at_once']} between first and last trip (first at {summary['at_once_at']}), "
        f"{summary['on_the_road_at_once']} on the road",
    )
    yield "time", f"{summary['from']} to {summary['to']}"
    yield "distance", f"{summary['kilometres']:,} km, at most {summary['fastest_kmh']:g} km/h"
    if summary["stop_to_shape_m"] is not None:
        yield "stops", f"{summary['stop_to_shape_m']:g} m from their shape (median)"
    yield "pieces", f"{summary['pieces']:,} of {summary['nodes']:,} nodes"
