"""The `antecast` command: subcommands, and how errors reach the user."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from antecast.cli import (
    audit,
    check,
    compare,
    contacts,
    convert,
    demonstrate,
    doctor,
    generate,
    mobility,
    new,
    observe,
    protocols,
    report,
    reproduce,
    run,
    sweep,
)
from antecast.cli.console import Exit, err
from antecast.core import AntecastError
from antecast.version import __version__

app = typer.Typer(
    name="antecast",
    help="Causal broadcast for networks that move: simulate, compare, audit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run.run)
app.command()(compare.compare)
app.command()(sweep.sweep)
app.command()(reproduce.reproduce)
app.command()(demonstrate.demonstrate)
app.command()(check.check)
app.command()(audit.audit)
app.command()(report.report)
app.command()(observe.observe)
app.command()(contacts.contacts)
app.command()(convert.convert)
app.add_typer(generate.app, name="generate")
app.add_typer(mobility.app, name="mobility")
app.command()(protocols.protocols)
app.command()(new.new)
app.command()(doctor.doctor)


def _version(show: bool) -> None:
    if show:
        print(f"antecast {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. A user's mistake is one line on standard error; a defect keeps its traceback."""
    try:
        app()
    except AntecastError as error:
        err.print(f"error: {error}", style="bold red", markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        err.print("interrupted", style="yellow")
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone; that is no error of ours.
        sys.stderr.close()
        sys.exit(Exit.OK)
