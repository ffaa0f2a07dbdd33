"""What the commands share: the two consoles and the options that many of them take."""

from enum import IntEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console

out = Console(soft_wrap=False, highlight=False)
"""Results."""
err = Console(stderr=True, highlight=False)
"""Progress, notes and errors."""


class Exit(IntEnum):
    OK = 0
    VIOLATION = 1
    USAGE = 2
    INCONCLUSIVE = 3
    INTERRUPTED = 130


Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no table.")]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Write over a folder that exists already.")]
Overrides: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Override a field, such as network.loss=0.1. Repeatable."),
]
OutFolder: TypeAlias = Annotated[Path | None, typer.Option("--out", "-o", help="The folder to write.")]
