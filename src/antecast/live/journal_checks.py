"""May a node go on with this journal? Whose it is, whether it is whole, and what of its end others have seen.

Each check raises a `JournalError` in one line that says what to do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from antecast.live.checksums import checksum_of
from antecast.live.entries import Durability, Identity, JournalError
from antecast.live.mark import Mark, boot
from antecast.version import __version__

if TYPE_CHECKING:
    from antecast.live.journal import Journal

FORMAT: Final = 1

CONSTANT: Final = ("number", "group", "protocol", "role", "settings", "life")
"""What a journal says of itself once and for ever."""


def check_format(journal: Journal) -> None:
    if journal.meta("format") != FORMAT:
        problem = f"written in format {journal.meta('format')}; this version reads format {FORMAT}"
        raise JournalError(problem, path=journal.path)


def check_guards(journal: Journal) -> None:
    """What a journal says of itself must fit its checksums."""
    constant = checksum_of(*map(journal.meta, CONSTANT))
    found = (constant, checksum_of(journal.meta("acknowledged")))
    if found != (journal.meta("guard"), journal.meta("acknowledged guard")):
        raise JournalError("what it says of itself is damaged", path=journal.path)


def check_owner(journal: Journal, wanted: Identity) -> None:
    """It belongs to this node, with these settings."""
    found = journal.identity()
    if (found.number, found.group, found.protocol, found.role) != (
        wanted.number, wanted.group, wanted.protocol, wanted.role,
    ):  # fmt: skip
        if found.group and not wanted.group:
            raise JournalError(f"belongs to {found.words}; its node needs its keys", path=journal.path)
        problem = f"belongs to {found.words}, not to {wanted.words}"
        raise JournalError(f"{problem}; give each node a journal of its own", path=journal.path)
    ours = json.loads(json.dumps(wanted.settings))
    for name in sorted(found.settings.keys() | ours.keys()):
        was, given = found.settings.get(name), ours.get(name)
        if was != given:
            problem = f"was begun with {name} = {was}, not {given}; a node keeps its settings for life"
            raise JournalError(problem, path=journal.path)


def check_end(journal: Journal, identity: Identity, mark: Mark | None) -> None:
    """Nothing is lost of which others may have seen effects, and what is left can be replayed by this code."""
    if mark is not None:
        _check_mark(journal, mark)
    opened = journal.meta("open")
    if opened is not None:
        left = json.loads(opened)
        restarted = left["boot"] != boot()
        if left["durability"] == Durability.NONE:
            raise JournalError(
                "its node ran with durability none and did not stop cleanly, so its state is lost; "
                "join under a number that was never used, with a new journal",
                path=journal.path,
            )
        if left["durability"] == Durability.NORMAL and restarted:
            raise JournalError(
                "the machine went down while its node ran with durability normal, so the last calls may be "
                "lost; join under a number that was never used, with a new journal",
                path=journal.path,
            )
    stored, start = journal.meta("code"), journal.recovered()
    tail = journal.position - start.position
    if stored != identity.code and (tail or start.exact):
        version = journal.meta("version")
        same = version == __version__
        which = f"the code of Antecast {version} that wrote it" if same else f"Antecast {version}"
        raise JournalError(
            f"its node was not stopped cleanly, and its last {tail} calls can only be replayed by {which}: "
            "with that code, run antecast node --compact on it, then upgrade",
            path=journal.path,
        )


def _check_mark(journal: Journal, mark: Mark) -> None:
    marked = mark.read()
    if marked is None:
        if mark.is_alone and journal.meta("open") is not None:
            problem = "its node was not stopped cleanly, and its mark is missing, so its end may be lost as well"
            raise JournalError(f"{problem}; {bring_along(journal.path)}", path=journal.path)
        if journal.position:
            journal.notes.append("its mark is missing; whether it is an older copy cannot be told")
        return
    if marked.position > journal.position:
        problem = f"ends at call {journal.position}, but effects of call {marked.position} may have left the node"
        raise JournalError(
            f"{problem}: its end is lost, or it is an older copy; join under a number that was never used",
            path=journal.path,
        )
    if marked.position == journal.position and marked.chain != journal.chain:
        raise JournalError("the mark beside it belongs to another journal", path=journal.path)


def bring_along(path: Path) -> str:
    return (
        f"bring {path.name}.mark and {path.name}-wal along from where it ran, or join under a "
        "number that was never used, with a new journal"
    )
