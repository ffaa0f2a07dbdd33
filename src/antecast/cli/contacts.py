"""`antecast contacts`: who was in range of whom, and when exactly, from how they moved."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from antecast.cli.console import Conf, Json, Master, input_path, out
from antecast.cli.tables import show_pairs
from antecast.core import ConfigurationError, InputError, OutputError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from antecast.traces.statistics import ContactStatistics, MovementStatistics, Spread

    Statistics: TypeAlias = tuple[MovementStatistics, ContactStatistics]

LOCAL_SEGMENTS = 5_000_000
"""Segments that `auto` keeps in one process: about two gigabytes."""


class Engine(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


def contacts(
    trajectories: Annotated[
        Path,
        typer.Argument(
            metavar="TRAJECTORIES", help="Movement: Parquet, or any format of movement.", parser=input_path
        ),
    ],
    reach: Annotated[float, typer.Option("--range", metavar="METRES", help="The radio range.")],
    out_file: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The file to write; its name tells the format (.parquet, .csv …)."),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(help="Where to search; auto takes Spark for a master or more than 5 million segments."),
    ] = Engine.AUTO,
    master: Master = None,
    conf: Conf = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Find all contacts of moving nodes, exact to the nanosecond.

    Nodes are in contact while they are at most the range apart. Prints a summary; writes the contacts to --out.
    """
    from antecast.traces.contact_detection import BrokenTrajectories
    from antecast.traces.formats import check_holds, format_of_name

    if not trajectories.exists():
        raise InputError("no such file", path=trajectories)
    if engine is Engine.LOCAL and master is not None:
        raise ConfigurationError("a master is for Spark; drop it, or take --engine spark", field="--master")
    if out_file is not None:
        check_holds(format_of_name(out_file, "contacts"), "contacts")
        if out_file.exists() and not force:
            raise OutputError("exists already; --force writes over it", path=out_file)
    if engine is Engine.AUTO:
        engine = Engine.SPARK if master is not None or _large(trajectories) else Engine.LOCAL
    try:
        if engine is Engine.LOCAL:
            moved, met = _locally(trajectories, reach, out_file)
        else:
            moved, met = _on_spark(trajectories, reach, out_file, master)
    except BrokenTrajectories as error:
        raise InputError(str(error), path=trajectories) from None
    summary = {
        "trajectories": str(trajectories),
        "range": reach,
        "engine": str(engine),
        "nodes": moved.nodes,
        "at_once": moved.at_once,
        "start": moved.start / 1e9,
        "end": moved.end / 1e9,
        "activity": _seconds(moved.activity),
        "contacts": met.contacts,
        "duration": _seconds(met.duration),
        "out": None if out_file is None else str(out_file),
    }
    if as_json:
        print(json.dumps(summary, indent=2))
    else:
        _show(summary)


def _large(path: Path) -> bool:
    """Whether a Parquet file is too large for one process; folders always go to Spark."""
    import pyarrow.parquet as pq

    return path.is_dir() or (_is_parquet(path) and pq.read_metadata(path).num_rows > LOCAL_SEGMENTS)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _read(path: Path) -> pa.Table:
    from antecast.traces import read

    trace = read(path)
    if trace.kind != "movement":
        raise InputError(f"holds {trace.kind}; expected movement", path=path)
    return trace.table


def _locally(path: Path, reach: float, out_file: Path | None) -> Statistics:
    from antecast.traces import write
    from antecast.traces.contact_detection import find_contacts
    from antecast.traces.statistics import contact_statistics, movement_statistics

    table = _read(path)
    found = find_contacts(table, reach)
    if out_file is not None:
        write(found, out_file, replace=True)
    return movement_statistics(table), contact_statistics(found)


def _on_spark(path: Path, reach: float, out_file: Path | None, master: str | None) -> Statistics:
    from pyspark.errors import PySparkException

    from antecast.spark.contacts import contact_statistics, movement_statistics
    from antecast.spark.contacts import contacts as find
    from antecast.spark.session import job_description, reason, spark_session
    from antecast.spark.sweep import SparkFailed

    with spark_session("antecast contacts", master=master) as spark, job_description(spark, f"contacts of {path}"):
        try:
            moving = _on(spark, path)
            found = find(moving, reach)
            if out_file is None:
                return movement_statistics(moving), contact_statistics(found)
            with _beside(out_file) as parts:
                found.write.parquet(str(parts))
                met = contact_statistics(spark.read.parquet(str(parts)))
                _gather(parts, out_file)
            return movement_statistics(moving), met
        except PySparkException as error:
            raise SparkFailed(f"Spark could not find the contacts: {reason(str(error))}") from error


def _on(spark: SparkSession, path: Path) -> DataFrame:
    """Movement as a DataFrame: Spark reads Parquet itself, other formats come by way of this process."""
    if path.is_dir() or _is_parquet(path):
        return spark.read.parquet(str(path.resolve()))
    return spark.createDataFrame(_read(path))


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A folder for Spark's part files beside a file, where a cluster's machines can see it too."""
    folder = path.resolve().with_name(f".{path.name}.parts")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _gather(parts: Path, out_file: Path) -> None:
    """Part files, whose names are in the order of their rows, as one file; Parquet a batch at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from antecast.traces import CONTACTS, write
    from antecast.traces.formats import format_of_name

    files = sorted(parts.glob("part-*.parquet"))
    if not files:
        raise OutputError(f"Spark's workers wrote to {parts}, which this machine does not see", path=out_file)
    if format_of_name(out_file, "contacts").name != "parquet":
        write(pa.concat_tables([pq.read_table(each) for each in files]).cast(CONTACTS), out_file, replace=True)
        return
    partial = parts / "whole"
    with pq.ParquetWriter(partial, CONTACTS, compression="zstd") as whole:
        for each in files:
            for batch in pq.ParquetFile(each).iter_batches():
                whole.write_table(pa.Table.from_batches([batch]).cast(CONTACTS))
    partial.replace(out_file)


def _seconds(spread: Spread) -> dict[str, float]:
    return {name: getattr(spread, name) / 1e9 for name in ("min", "max", "mean", "stdev")}


def _show(summary: dict[str, Any]) -> None:
    span = summary["end"] - summary["start"]
    rows = [
        ("nodes", f"{summary['nodes']:,}, at most {summary['at_once']:,} at once"),
        ("span", f"{span:,.1f} s, from {summary['start']:,.1f} s to {summary['end']:,.1f} s"),
        ("a node is there", _text(summary["activity"])),
        ("contacts", f"{summary['contacts']:,} at {summary['range']:g} m"),
        ("a contact lasts", _text(summary["duration"])),
    ]
    show_pairs(rows)
    if summary["out"]:
        out.print(f"contacts: {summary['out']}", style="dim", soft_wrap=True)


def _text(spread: dict[str, float]) -> str:
    least, most, mean, deviation = (f"{spread[name]:,.1f}" for name in ("min", "max", "mean", "stdev"))
    return f"{mean} s on average ({least} to {most} s, standard deviation {deviation} s)"
