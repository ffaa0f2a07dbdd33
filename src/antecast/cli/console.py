"""What the commands share: the two consoles and the options that many of them take."""

import os
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer
from rich.console import Console, ConsoleDimensions

from antecast.cli.usage import COMMON
from antecast.core import ConfigurationError, OutputError

_UNWRAPPED = 100_000
"""The width where output is not a terminal: programs that read it want a line to be one line."""


class _Paper(Console):
    """Lines are as wide as the window; in a file or a pipe as long as they are, unless COLUMNS says otherwise."""

    @property
    def size(self) -> ConsoleDimensions:
        found, columns = super().size, os.environ.get("COLUMNS", "")
        if columns.isdigit() and int(columns):
            return ConsoleDimensions(int(columns), found.height)
        return found if self.is_terminal else ConsoleDimensions(_UNWRAPPED, found.height)

    @size.setter
    def size(self, size: tuple[int, int]) -> None:
        self._width, self._height = size

    def on_broken_pipe(self) -> None:
        """Leave it to the command line; rich would exit with 1, which means a violation here."""
        raise BrokenPipeError


out = _Paper(highlight=False, markup=False, emoji=False)
"""Results."""
err = _Paper(stderr=True, highlight=False, markup=False, emoji=False)
"""Progress, notes and errors."""


def note(text: str) -> None:
    """Something that the user should know, and that is not an error."""
    err.print(f"note: {text}", style="yellow", soft_wrap=True)


class Exit(IntEnum):
    OK = 0
    VIOLATION = 1
    USAGE = 2
    INCONCLUSIVE = 3
    DEFECT = 70
    INTERRUPTED = 130
    NOT_READ = 141


Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output.", rich_help_panel=COMMON)
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no table.", rich_help_panel=COMMON)
]
Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Overwrite an existing folder.", rich_help_panel=COMMON)
]
Overrides: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Override a field, such as network.loss=0.1. Repeatable."),
]
Engine: TypeAlias = Annotated[
    Literal["auto", "reference", "compiled"] | None,
    typer.Option("--engine", help="The engine, instead of the scenario's. Both make the same run."),
]
OutFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FOLDER", help="The folder to write.", rich_help_panel=COMMON),
]
OutStore: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FOLDER",
        help="The folder to write, or its address, such as s3://bucket/loss.",
        rich_help_panel=COMMON,
    ),
]


def check_name(master: str | None) -> str | None:
    """Refuse a master without a name, before Spark starts and looks for one."""
    if master is not None and not master.strip():
        raise ConfigurationError("is empty; name a master, such as local[*]", field="--master")
    return master


Master: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="A Spark master or sc:// address. Default: all cores of this machine.",
        rich_help_panel="Spark",
        callback=check_name,
    ),
]


def _take_settings(values: list[str] | None) -> list[str] | None:
    if values:
        from antecast.spark.user_settings import add_settings, pairs

        add_settings(pairs(values, "--conf"))
    return values


Conf: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="A setting of Spark, such as spark.driver.memory=4g. Repeatable.",
        rich_help_panel="Spark",
        callback=_take_settings,
    ),
]
OnSpark: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--spark/--no-spark",
        help="Make the runs on Spark, or one by one in this process.",
        rich_help_panel="Spark",
    ),
]


def nearby(path: Path) -> Path:
    """A path as people would type it: from the folder that they are in, if it lies there."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def input_path(text: str) -> Path:
    """A file to read, given by its path or its address in a store."""
    if ":" not in text or Path(text).exists():
        return Path(text)
    from antecast.history.at_hand import at_hand

    return Path(at_hand(text))


def make_folder(folder: Path) -> None:
    """Make a folder for results before the work that fills it begins."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot create the folder: {error.strerror}", path=folder) from None


def check_master(master: str | None, *, spark: bool) -> None:
    if master is not None and not spark:
        raise ConfigurationError("cannot be combined with --no-spark", field="--master")


def engine_override(engine: str | None) -> list[str]:
    """The option `--engine`, as a field of the scenario."""
    return [] if engine is None else [f"engine={engine}"]
