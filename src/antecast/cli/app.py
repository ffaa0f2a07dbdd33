"""The `antecast` command: subcommands, and how errors reach the user."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Annotated, Any

import typer

from antecast.cli import (
    audit,
    chat,
    check,
    compare,
    completion,
    contacts,
    convert,
    demonstrate,
    doctor,
    emulate,
    examples,
    generate,
    group,
    mobility,
    new,
    node,
    observe,
    protocols,
    replay,
    report,
    reproduce,
    run,
    spark,
    status,
    sweep,
    torture,
)
from antecast.cli.console import Exit, err
from antecast.cli.usage import Command, Group, explain_usage
from antecast.core import AntecastError
from antecast.text.wording import escaped
from antecast.version import __version__

app = typer.Typer(
    name="antecast",
    cls=Group,
    help="Causal broadcast for networks that move: simulate, compare, audit.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PANELS: dict[str, tuple[Any, ...]] = {
    "Choose a protocol": (run.run, compare.compare, sweep.sweep, report.report, protocols.protocols),
    "Run it": (node.node, chat.chat, group.app, status.status, replay.replay),
    "Check a system": (audit.audit, observe.observe, check.check, torture.torture, emulate.emulate),
    "Networks that move": (generate.app, mobility.app, contacts.contacts, convert.convert),
    "Reproduce the papers": (reproduce.reproduce, demonstrate.demonstrate),
    "Set up": (examples.examples, new.new, spark.app, doctor.doctor, completion.completion),
}
"""The commands, by what people come for; those that are applications hold several."""

for _panel, _commands in _PANELS.items():
    for _each in _commands:
        if isinstance(_each, typer.Typer):
            app.add_typer(_each, rich_help_panel=_panel)
        else:
            app.command(cls=Command, rich_help_panel=_panel)(_each)

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of the machine, wherever they come from: the disk is full, or cannot be written."""
_OF_NAMES = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
"""Errors of whoever named a file: it is not theirs to look at, or no file can be called that."""


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
    _open_closed_streams()
    completion.answer_shells()
    try:
        code = app(prog_name="antecast", standalone_mode=False)
        sys.stdout.flush()
    except AntecastError as error:
        _say(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone before the end; what was not said is neither fine nor a violation.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.NOT_READ)
    except MemoryError:
        _say("there is not enough memory for this; try fewer nodes, a shorter time or a larger machine")
        sys.exit(Exit.USAGE)
    except Exception as error:
        if package := _missing_extra(error):
            way = "; or leave out Spark: --no-spark" if {"sweep", "compare"} & set(sys.argv[1:2]) else ""
            _say(f"this needs {package}, which is not installed: pip install 'antecast[spark]'{way}")
            sys.exit(Exit.USAGE)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _say(f"{error.filename or 'output'}: cannot write: {error.strerror}")
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(Exit.USAGE)
        if isinstance(error, OSError) and error.errno in _OF_NAMES and error.filename is not None:
            _say(f"{error.filename}: {error.strerror}")
            sys.exit(Exit.USAGE)
        if not hasattr(error, "format_message"):
            traceback.print_exc()
            sys.exit(Exit.DEFECT)  # and not what Python exits with, which would mean a violation
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
        else:
            _say(explain_usage(error))
        sys.exit(Exit.USAGE)
    if code == Exit.INTERRUPTED:  # commands that have more to say of it end by themselves
        err.print("interrupted", style="yellow")
    sys.exit(code if isinstance(code, int) else Exit.OK)


def _open_closed_streams() -> None:
    """Whoever starts this may have closed a standard stream. The next file to be opened, a journal perhaps, would
    take its place, and be read or written for it."""
    for file, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(file)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            setattr(sys, name, open(file, "w" if file else "r", closefd=False))  # noqa: SIM115


def _missing_extra(error: Exception) -> str | None:
    """The package of an extra that an import did not find."""
    if isinstance(error, ImportError):
        name = (error.name or "").partition(".")[0]
        if name in ("pandas", "py4j", "pyspark"):
            return name
        if type(error).__name__ == "PySparkImportError":
            return "a package that Spark asks for"
    return None


def _say(problem: str) -> None:
    """An error in one line, even if a value in it has several."""
    err.print(escaped(f"error: {problem}"), style="bold red", soft_wrap=True)
