"""`antecast replay`: a journal is the recording of its node; run it again."""

from __future__ import annotations

import json
from bdb import BdbQuit
from pathlib import Path
from typing import Annotated

import typer

from antecast.cli.console import Json, out
from antecast.core import ConfigurationError


def replay(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal of a live node.")],
    start: Annotated[int | None, typer.Option("--from", metavar="N", help="Show calls from this one on.")] = None,
    until: Annotated[int | None, typer.Option("--until", metavar="N", help="Stop after this call.")] = None,
    stop_at: Annotated[
        int | None, typer.Option("--break", metavar="N", help="Enter the debugger after this call.")
    ] = None,
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Replay it even if the protocol's code has changed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a journal through its protocol again, and print every call with its effects.

    Calls are numbered. The recording begins with the oldest snapshot in the journal. The node may be running.
    """
    from antecast.live.replay import Recording, describe_call, describe_effect

    recording = Recording(journal, any_code=any_code)
    for name, value in (("--from", start), ("--until", until), ("--break", stop_at)):
        if value is not None and not recording.first <= value <= recording.last:
            problem = f"expected a call from {recording.first} to {recording.last}, got {value}"
            if recording.last < recording.first:
                problem = f"the journal has no calls to replay, and none of number {value}"
            raise ConfigurationError(problem, field=name)
    try:
        for step in recording.steps(until):
            if step.position == stop_at:
                machine, protocol, call, effects = step.machine, step.machine.protocol, step.call, step.effects  # noqa: F841
                breakpoint()  # `protocol` is the object after this call, `call` and `effects` are what happened
            if start is not None and step.position < start:
                continue
            described = [describe_effect(effect) for effect in step.effects]
            if as_json:
                row = {
                    "call": step.position,
                    "at": step.call.now,
                    "what": describe_call(step),
                    "effects": described,
                }
                print(json.dumps(row, ensure_ascii=False))
                continue
            out.print(f"{step.position} {describe_call(step)}", soft_wrap=True)
            for line in described:
                out.print(f"    {line}", soft_wrap=True)
    except BdbQuit:  # whoever was in the debugger has seen enough
        pass
    finally:
        recording.close()
