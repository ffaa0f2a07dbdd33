"""`antecast spark`: what a cluster needs of Antecast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antecast.cli.console import out
from antecast.cli.usage import Command, Group

app = typer.Typer(
    name="spark", cls=Group, no_args_is_help=True, help="What a Spark cluster needs.", rich_markup_mode=None
)


@app.callback()
def _options() -> None:
    pass


@app.command(cls=Command)
def package(
    file: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The archive to write. Default: antecast-VERSION.zip."),
    ] = None,
) -> None:
    """Write Antecast as an archive, for workers that do not have it.

    Hand it to Spark with spark-submit --py-files FILE, --conf spark.submit.pyFiles=FILE, or
    spark.addArtifacts(FILE, pyfile=True). Workers need its dependencies all the same.
    """
    from antecast.spark.package import NEEDS, default_file, write_package

    path = default_file() if file is None else file
    count = write_package(path)
    out.print(f"{path}: {count} files, {path.stat().st_size / 1e6:.1f} MB", soft_wrap=True)
    out.print(f"for --py-files; workers need {', '.join(NEEDS)} in their Python", soft_wrap=True)
