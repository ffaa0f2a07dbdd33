"""The networks of the barrier study, as files of presence and contacts: generated, or given by the user."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from antecast.core.errors import ConfigurationError, InputError
from antecast.papers.barrier.experiment import BUSES, Network
from antecast.papers.job import Job
from antecast.traces import read
from antecast.traces.contact_detection import find_contacts
from antecast.traces.gtfs import GtfsSettings, gtfs_mobility, parse_date, service_days
from antecast.traces.presence import presence

Place: TypeAlias = tuple[Path, Path | None]
"""A network: the files of its contacts, and of who is there; without the latter all are there all the time."""


def generated(job: Job, network: Network) -> list[Place]:
    places: list[Place] = []
    count = job.runs(quick=1, full=5)
    for seed in range(1, count + 1):
        job.say(f"barrier: {network.name}", (seed - 1) / count, f"making network {seed} of {count}")
        places.append(_keep(job, f"{network.name}-{seed}", network.generate(seed), network.reach))
    return places


def given_by(job: Job, network: Network) -> list[Place]:
    reach = _reach(job, network)
    if network is BUSES:
        feed = Path(job.options["gtfs"])
        if "date" not in job.options:
            raise ConfigurationError(f"which day? {service_days(feed)}", field="date")
        try:
            day = parse_date(job.options["date"])
        except ValueError as error:
            raise ConfigurationError(str(error), field="date") from None
        moved = gtfs_mobility(feed, day, GtfsSettings(route_types=("bus",))).trajectories
        return [_keep(job, "gtfs", moved, reach)]
    trace = read(Path(job.options["trace"]))
    if trace.kind == "contacts":
        return [(_write(job, "trace-contacts", trace.table), None)]
    return [_keep(job, "trace", trace.table, reach)]


def _reach(job: Job, network: Network) -> float:
    try:
        reach = float(job.options.get("range", network.reach))
    except ValueError:
        reach = 0.0
    if not reach > 0:
        raise ConfigurationError(f"expected metres, got {job.options['range']!r}", field="range")
    return reach


def _keep(job: Job, name: str, moved: pa.Table, reach: float) -> Place:
    contacts = find_contacts(moved, reach)
    if not len(contacts):
        raise InputError(f"nobody ever comes within {reach:g} m of another; is the range right?", path=name)
    return _write(job, f"{name}-contacts", contacts), _write(job, f"{name}-presence", presence(moved))


def _write(job: Job, name: str, table: pa.Table) -> Path:
    file = job.folder / "networks" / f"{name}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file)
    return file
