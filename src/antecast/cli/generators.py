"""The commands of `antecast generate`: a made-up city bus network, or a pedestrian district."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import msgspec
import pyarrow as pa
import typer

from antecast.cli.console import Json, out
from antecast.cli.usage import Command
from antecast.core import ConfigurationError
from antecast.core.settings import Duration, Settings, read_settings
from antecast.sim.mobility.city_bus import CityBus, city_bus
from antecast.sim.mobility.pedestrians import Pedestrians, pedestrians

app = typer.Typer(
    name="generate", rich_markup_mode=None, help="Generate movement where there is no data.", no_args_is_help=True
)

_Seed = Annotated[int, typer.Option(help="The same seed makes the same file.")]
_Out = Annotated[
    Path, typer.Option("--out", "-o", help="The file to write; its name tells the format (.parquet, .csv …).")
]
_Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


def _command(kind: type[Settings], generate: Callable[[int, Any], pa.Table], about: str) -> Callable[..., None]:
    """A command whose options are the fields of a generator's settings."""

    def command(seed: int, out_file: Path, force: bool, as_json: bool, **options: Any) -> None:
        from antecast.traces import write
        from antecast.traces.statistics import movement_statistics

        given = {name: value for name, value in options.items() if value is not None}
        table = generate(seed, read_settings(given, kind))
        write(table, out_file, replace=force)
        moved = movement_statistics(table)
        if as_json:
            figures = {"nodes": moved.nodes, "at_once": moved.at_once, "segments": len(table)}
            times = {"start": moved.start / 1e9, "end": moved.end / 1e9}
            print(json.dumps({"seed": seed, **figures, **times, "out": str(out_file)}, indent=2))
        else:
            who = f"{moved.nodes:,} nodes, at most {moved.at_once:,} at once"
            out.print(f"{who}, until {moved.end / 1e9:,.1f} s: {out_file}", soft_wrap=True)

    named = inspect.Parameter.KEYWORD_ONLY
    fixed = {
        "seed": (_Seed, 1),
        "out_file": (_Out, inspect.Parameter.empty),
        "force": (_Force, False),
        "as_json": (Json, False),
    }
    parameters = [
        inspect.Parameter(name, named, default=default, annotation=option)
        for name, (option, default) in (fixed | _options(kind)).items()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__doc__ = about
    return command


def _options(kind: type[Settings]) -> dict[str, tuple[Any, Any]]:
    """An option for every field of the settings; None where it is not given."""
    hints = get_type_hints(kind, include_extras=True)
    options = {}
    for field in msgspec.structs.fields(kind):
        bare, meta = get_args(hints[field.name])
        if bare is Duration:
            takes: dict[str, Any] = {"metavar": "TIME", "show_default": str(field.default)}
            bare = str
        elif get_args(bare):
            takes = {
                "metavar": "LIST",
                "parser": _numbers,
                "show_default": ",".join(f"{x:g}" for x in field.default),
            }
            bare = tuple
        else:
            takes = {"show_default": f"{field.default:g}"}
        name = f"--{field.name.replace('_', '-')}"
        options[field.name] = (Annotated[bare | None, typer.Option(name, help=meta.description, **takes)], None)
    return options


def _numbers(text: str) -> list[float]:
    """A list of numbers.

    >>> _numbers("6, 127.5")
    [6, 127.5]
    """
    try:
        return [float(part) if "." in part else int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"expected numbers separated by commas, got {text!r}") from None


app.command("city-bus", cls=Command)(
    _command(CityBus, city_bus, "Buses of a city: lines, stops, a timetable, school buses.")
)
app.command("pedestrians", cls=Command)(
    _command(Pedestrians, pedestrians, "Walkers that cross the streets of a district.")
)


@app.command(cls=Command)
def compare(seeds: Annotated[int, typer.Option(min=2, help="How many seeds, from 1 on.")] = 10) -> None:
    """Compare the generators, with default options, with the traces of the barrier paper."""
    from antecast.papers.barrier import movement

    tables = [
        movement.markdown(target, movement.compare(target, range(1, seeds + 1)), seeds)
        for target in movement.TARGETS.values()
    ]
    print("\n\n".join(tables))
