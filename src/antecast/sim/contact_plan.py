"""Who meets whom, and when: a contact trace made ready for a run.

Names of nodes become numbers in the order of `node_order`; contacts and presence become plain lists, on the time
of the run (`traces.origin`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from antecast.core import InputError
from antecast.sim.topology import Contacts
from antecast.traces.origin import describe_origin, find_origin
from antecast.traces.presence import read_presence
from antecast.traces.schema import node_order


@dataclass(frozen=True)
class ContactPlan:
    names: tuple[str, ...]
    """The names of the nodes; a node's number is its place here."""
    contacts: tuple[tuple[int, int, int, int], ...]
    """(start, end, a, b), in the order of time."""
    presence: dict[int, list[tuple[int, int]]]
    """When nodes are there; those that are not named are there all the time."""
    origin: int = 0
    """What the trace calls the time that is 0 here."""
    notes: tuple[str, ...] = ()
    """What was joined, ignored or assumed when the trace was read, in words for the user."""

    @property
    def end(self) -> int:
        """When the last contact ends or the last node goes."""
        spans = [span[-1][1] for span in self.presence.values()]
        return max([*spans, *(end for _, end, _, _ in self.contacts)], default=0)


def load_plan(topology: Contacts) -> ContactPlan:
    """Read the files of a topology; again only when they have changed."""
    files = [Path(topology.file), *([Path(topology.presence)] if topology.presence else [])]
    try:
        stamps = tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", path=error.filename) from None
    return _load(topology.file, topology.presence, topology.shift, stamps)


@lru_cache(maxsize=4)
def _load(
    file: str, presence_file: str | None, shift: bool | None, stamps: tuple[tuple[int, int], ...]
) -> ContactPlan:
    from antecast.traces import read

    trace = read(Path(file))
    if trace.kind != "contacts":
        raise InputError("holds movement, not contacts; find the contacts first: antecast contacts", path=file)
    columns = {name: trace.table[name].to_pylist() for name in ("a", "b", "start", "end")}
    there = read_presence(presence_file) if presence_file else {}
    names = sorted({*columns["a"], *columns["b"], *there}, key=node_order)
    number = {name: index for index, name in enumerate(names)}
    rows = zip(columns["start"], columns["end"], columns["a"], columns["b"], strict=True)
    contacts = sorted((start, end, number[a], number[b]) for start, end, a, b in rows)
    whole = [
        *((start, end) for start, end, _, _ in contacts),
        *(span for spans in there.values() for span in spans),
    ]
    first, last = min((start for start, _ in whole), default=0), max((end for _, end in whole), default=0)
    origin = find_origin(first, last, shift)
    name = Path(file).name
    notes = [f"{name}: {note}" for note in (*trace.notes, *([describe_origin(origin)] if origin else ()))]
    return ContactPlan(
        tuple(names),
        tuple((start - origin, end - origin, a, b) for start, end, a, b in contacts),
        {number[name]: [(start - origin, end - origin) for start, end in spans] for name, spans in there.items()},
        origin,
        tuple(notes),
    )
