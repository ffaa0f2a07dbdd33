"""From a journal back to the machine it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from antecast.core import AntecastError, Effect
from antecast.live.calls import Call
from antecast.live.entries import JournalError, Recovered
from antecast.live.journal import Journal
from antecast.live.machine import Machine


@dataclass
class Recovery:
    """A machine as it comes back after a crash or a clean stop: without links and timers."""

    machine: Machine
    saved: bytes
    """What it was restored from."""
    known: bool
    """Whether there was anything to restore; otherwise the node starts its life."""
    replayed: int
    """Calls made again since the last snapshot."""
    renewed: bool
    """Whether it is another object than the journal's last snapshot: it needs a snapshot of its own."""
    now: int
    """The latest time that was used."""


def recover(
    journal: Journal, machine: Machine, on_call: Callable[[Call, list[Effect]], None] | None = None
) -> Recovery:
    """Make the calls of a journal again, from its last snapshot on, and take what survives a crash."""
    start = journal.recovered()
    load(machine, start, journal)
    now, replayed = start.now, 0
    for position, call in journal.calls(start):
        effects = replay(machine, position, call, journal)
        now, replayed = max(now, call.now), replayed + 1
        if on_call is not None:
            on_call(call, effects)
    saved = machine.save()
    renewed = replayed > 0 or start.exact
    if renewed:
        machine = machine.renewed(saved)
    return Recovery(machine, saved, start.state is not None or replayed > 0, replayed, renewed, now)


def load(machine: Machine, start: Recovered, journal: Journal) -> None:
    """Take over a snapshot of a journal, if there is one."""
    if start.state is None:
        return
    try:
        machine.load(start.state, exact=start.exact)
    except Exception as error:
        raise JournalError(
            f"the snapshot after call {start.position} cannot be read by this code ({error!r}); go on with "
            f"the code that wrote it, Antecast {journal.written_by}",
            path=journal.path,
        ) from error


def replay(machine: Machine, position: int, call: Call, journal: Journal) -> list[Effect]:
    """Make one call of a journal again; one that raises was never made by this code."""
    try:
        return machine.replay(call)
    except AntecastError as error:
        raise JournalError(f"call {position} cannot be replayed: {error}", path=journal.path) from error
