"""`antecast.gtfs`: the movement of a timetable's vehicles, a task for every feed and day.

    spark.read.format("antecast.gtfs").option("date", "2026-03-21..2026-03-27").load("town.zip")

The columns are those of movement, after the service day. Times count from the beginning of that day. The options
are the settings of `antecast mobility gtfs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DateType, StructField, StructType

from antecast.core.errors import ConfigurationError, InputError
from antecast.core.settings import read_settings
from antecast.spark.sources.files import FileReader, FileSource, Part, file_paths, of_pattern, with_file
from antecast.spark.sources.options import PATHS, Parse, flag, number, positive, read_options, words
from antecast.spark.sources.traces import columns_of
from antecast.traces.gtfs import GtfsSettings, gtfs_mobility, parse_date, service_days
from antecast.traces.schema import TRAJECTORIES

NAME = "antecast.gtfs"
_MOST_DAYS = 3660


def days(text: str) -> tuple[date, ...]:
    """Days, one by one or as spans.

    >>> len(days("2026-03-21, 2026-04-01..2026-04-30"))
    31
    """
    found: list[date] = []
    for word in words(text):
        first, dots, last = word.partition("..")
        low = parse_date(first)
        high = parse_date(last) if dots else low
        if not 0 <= (high - low).days < _MOST_DAYS:
            raise ValueError(f"expected FIRST..LAST with the earlier day first, got {word!r}")
        found += [low + timedelta(days=each) for each in range((high - low).days + 1)]
    if not found:
        raise ValueError(f"expected a day such as 2026-03-21, or a span 2026-03-21..2026-03-27, got {text!r}")
    return tuple(dict.fromkeys(found))


SETTINGS: Mapping[str, Parse] = {
    "routeTypes": words,
    "routes": words,
    "start": str,
    "end": str,
    "layover": str,
    "maxLayover": str,
    "terminusRadius": number,
    "vehicles": str,
    "overnight": flag,
}
_FIELDS = {"routeTypes": "route_types", "maxLayover": "max_layover", "terminusRadius": "terminus_radius"}
KNOWN: Mapping[str, Parse] = {**PATHS, "date": days, "fileColumn": str, "partitions": positive, **SETTINGS}


class GtfsSource(FileSource):
    """Movement from timetables."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def _values(self) -> dict[str, Any]:
        return read_options(NAME, self.options, KNOWN)

    def columns(self) -> StructType:
        dated = StructType([StructField("date", DateType()), *columns_of(TRAJECTORIES).fields])
        return with_file(NAME, dated, self._values().get("fileColumn"))

    def file_reader(self, schema: StructType) -> FileReader:
        return _Reader(schema, self._values())


class _Reader(FileReader):
    def __init__(self, schema: StructType, values: dict[str, Any]) -> None:
        super().__init__(schema, tasks=values.get("partitions"))
        self.values = values
        plain = {_FIELDS.get(name, name): values[name] for name in SETTINGS if name in values}
        try:
            self.settings = read_settings(plain, GtfsSettings)
        except ConfigurationError as error:
            raise ConfigurationError(error.problem, source=NAME, field=error.field) from None

    def parts(self) -> list[Part]:
        paths = file_paths(NAME, self.values)
        feeds = [feed.resolve() for path in paths for feed in of_pattern(path) or [Path(path)]]
        for feed in feeds:
            if not feed.exists():
                raise InputError("no such file or folder; a feed is a zip file or a folder", path=feed)
        if "date" not in self.values:
            span = service_days(feeds[0], self.settings)
            problem = f"this option is required, such as .option('date', '{span.first}'); {span}"
            raise ConfigurationError(problem, source=NAME, field="date")
        return [Part(feed, 1, day) for feed in feeds for day in self.values["date"]]

    def batches(self, part: Part) -> Iterator[pa.RecordBatch | pa.Table]:
        table = gtfs_mobility(part.path, part.what, self.settings).trajectories
        table = table.append_column("date", pa.array([part.what] * len(table), pa.date32()))
        if (column := self.values.get("fileColumn")) is not None:
            table = table.append_column(column, pa.array([str(part.path)] * len(table), pa.string()))
        yield table
