"""Contact lists: imote (`id1 id2 start end nth gap`) and SocioPatterns (a row for each 20 s of contact).

An imote row is a contact as one device saw it; the other device's row of the same contact overlaps it and
joins it. A SocioPatterns row at t stands for the 20 s before t, as the collaboration says of its data; where a
file has a row before 20 s that cannot be, and rows stand for the 20 s from t on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TextIO

import numpy as np
import pyarrow as pa

from antecast.core.errors import InputError
from antecast.core.settings import format_duration
from antecast.traces.assemble import join_intervals, joining_notes
from antecast.traces.spelling import Contacts, legend, put, seconds, spelled, word_names
from antecast.traces.text import SECOND, IntArray, Rows, Text
from antecast.traces.trace import Format, Trace, duration, one_of, share

IMOTE = "id1 id2 start end [nth gap]"
SOCIOPATTERNS = "t i j [more] or i j t"
INTERVAL = 20 * SECOND

Order = Literal["auto", "tij", "ijt"]


def score_imote(lines: Sequence[str]) -> float:
    return share(lines, _is_imote)


def _is_imote(words: list[str]) -> bool:
    """Two ids, two times in their order, and perhaps the number of the contact and a gap."""
    if len(words) not in (4, 6) or not all(word.isdecimal() for word in words[:2]):
        return False
    try:
        _, _, start, end, *rest = map(float, words)
    except ValueError:
        return False
    return not start > end and (not rest or (rest[0] >= 1 and rest[0].is_integer()))


def read_imote(text: Text) -> Trace:
    """Contacts from an imote list; columns after the fourth are not needed, but must be what they should be."""
    rows = text.rows(IMOTE)
    rows.refuse(rows.lengths < 4)
    for column in (4, 5):
        rows.keep(rows.lengths > column).number(column)
    start, end = rows.time(2), rows.time(3)
    if (wrong := start > end).any():
        rows.fail(int(np.argmax(wrong)), "expected an end that is not before the start")
    table, joined = join_intervals(rows.word(0), rows.word(1), start, end)
    return Trace("contacts", table, "imote", joining_notes(joined, events=False))


def write_imote(table: pa.Table, file: TextIO) -> tuple[str, ...]:
    """Contacts as an imote list, with the number of the pair's contact and the time since its last one."""
    contacts = Contacts.of(table)
    names, notes = word_names(contacts.names)
    order = np.lexsort((contacts.start, contacts.b, contacts.a))
    a, b, start, end = (column[order] for column in (contacts.a, contacts.b, contacts.start, contacts.end))
    fresh = np.ones(len(a), bool)
    fresh[1:] = (np.diff(a) != 0) | (np.diff(b) != 0)
    place = np.arange(len(a))
    nth = place - np.maximum.accumulate(np.where(fresh, place, 0)) + 1
    gap = np.where(fresh, 0, start - np.roll(end, 1))
    put(file, legend(contacts.names, names))
    columns = (a.tolist(), b.tolist(), spelled(start), spelled(end), nth.tolist(), spelled(gap))
    rows = zip(*columns, strict=True)
    put(file, ("\t".join([names[first], names[second], *map(str, rest)]) for first, second, *rest in rows))
    return notes


def score_sociopatterns(lines: Sequence[str]) -> float:
    return share(lines, _is_row)


def _is_row(words: list[str]) -> bool:
    """Three whole numbers, perhaps with words behind them of which not all are numbers."""
    whole = len(words) >= 3 and all(word.isdecimal() for word in words[:3])
    return whole and (len(words) == 3 or any(not word.isdecimal() for word in words[3:]))


def read_sociopatterns(text: Text, *, interval: int = INTERVAL, order: Order = "auto") -> Trace:
    """Contacts from rows of one interval each; rows of a pair one interval apart are one contact."""
    rows = text.rows(SOCIOPATTERNS)
    rows.refuse(rows.lengths < 3)
    if order == "auto":
        order = _order(rows, interval)
    t, a, b = (
        (rows.time(0), rows.word(1), rows.word(2))
        if order == "tij"
        else (rows.time(2), rows.word(0), rows.word(1))
    )
    length = format_duration(interval)
    if bool((t < interval).any()):
        end, note = (
            t + interval,
            f"rows stand for the {length} from their time on, as the first is before {length}",
        )
    else:
        end, note = t, f"rows stand for the {length} before their time"
    table, joined = join_intervals(a, b, end - interval, end)
    columns = f"columns are {' '.join(order)}" + (" …" if order == "tij" and int(rows.lengths.max()) > 3 else "")
    return Trace("contacts", table, "sociopatterns", (columns, note, *joining_notes(joined, events=False)))


def _order(rows: Rows, interval: int) -> Literal["tij", "ijt"]:
    """The column of times is the one whose values lie whole intervals apart; failing that, tabs mean t i j."""
    if int(rows.lengths.max()) > 3:
        return "tij"
    first, third = (_steps(rows, column, interval) for column in (0, 2))
    if first != third:
        return "tij" if first > third else "ijt"
    return "tij" if "\t" in rows.text.content else "ijt"


def _steps(rows: Rows, column: int, interval: int) -> int:
    """How many different times a column would hold; none if they are not whole intervals apart."""
    try:
        found: IntArray = np.unique(rows.time(column))
    except InputError:  # names, not times
        return 0
    return len(found) if not (np.diff(found) % interval).any() else 0


def write_sociopatterns(table: pa.Table, file: TextIO, *, interval: int = INTERVAL) -> tuple[str, ...]:
    """Contacts as rows of one interval, every interval that a contact has a part in."""
    contacts = Contacts.of(table)
    names, notes = word_names(contacts.names)
    first, beyond = contacts.start // interval, -(-contacts.end // interval)
    counts = beyond - first
    contact = np.repeat(np.arange(len(counts)), counts)
    offset = np.arange(len(contact)) - np.repeat(np.cumsum(counts) - counts, counts)
    t = (first[contact] + offset + 1) * interval
    rows = np.unique(
        np.column_stack([t, contacts.a[contact], contacts.b[contact]]), axis=0
    )  # contacts may share one
    put(file, legend(contacts.names, names))
    put(file, (f"{seconds(when)}\t{names[a]}\t{names[b]}" for when, a, b in rows.tolist()))
    cut = bool(((contacts.start % interval) | (contacts.end % interval)).any())
    return (*notes, f"contacts are widened to whole intervals of {format_duration(interval)}") if cut else notes


IMOTE_FORMAT = Format(
    name="imote",
    title="imote contact list",
    holds=("contacts",),
    score=score_imote,
    read=read_imote,
    write=write_imote,
    suffixes=("imote",),
)
SOCIOPATTERNS_FORMAT = Format(
    name="sociopatterns",
    title="SocioPatterns",
    holds=("contacts",),
    score=score_sociopatterns,
    read=read_sociopatterns,
    write=write_sociopatterns,
    suffixes=("tij", "sociopatterns"),
    reading={"interval": duration, "order": one_of("auto", "tij", "ijt")},
    writing={"interval": duration},
)
