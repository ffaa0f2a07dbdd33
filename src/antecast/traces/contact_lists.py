"""Contact lists: imote (`id1 id2 start end nth gap`, or `id start end` of one device) and SocioPatterns (a row for
each 20 s of contact). Words are separated by blanks, tabs, commas or semicolons; a line of names may come first.

An imote row is a contact as one device saw it; the other device's row of the same contact overlaps it and
joins it. A SocioPatterns row at t stands for the 20 s before t, as the collaboration says of its data; where a
file has a row before 20 s that cannot be, and rows stand for the 20 s from t on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TextIO

import numpy as np
import pyarrow as pa

from antecast.core.errors import InputError
from antecast.core.settings import format_duration
from antecast.traces.assemble import join_intervals, joining_notes
from antecast.traces.spelling import Contacts, legend, put, seconds, spelled, word_names
from antecast.traces.tables import score_csv
from antecast.traces.text import SECOND, FloatArray, IntArray, Rows, Text
from antecast.traces.trace import Format, Trace, duration, one_of, words_of

IMOTE = "id1 id2 start end [nth gap]"
DEVICE = "id start end"
SOCIOPATTERNS = "t i j [more] or i j t"
INTERVAL = 20 * SECOND

TIMES = ("t", "time", "timestamp")
"""What the column of times is called, where there is a line of names."""

Order = Literal["auto", "tij", "ijt"]


def score_imote(lines: Sequence[str]) -> float:
    rows = words_of(lines)
    if score_csv(lines) == 1:
        return 0.0  # a table with named columns
    return 1.0 if _of_a_device(rows) else sum(map(_is_imote, rows)) / len(rows)


def _of_a_device(rows: Sequence[list[str]]) -> bool:
    """Whether rows are the contacts of one device: an id and two times in their order. A time and a pair of ids
    may look the same, but have a column whose values lie whole intervals apart. The last column may lie so by
    chance; it holds ends, and not the times of pairs, if some of what is before it is larger than some of it."""
    rows = rows[1:] if rows and not any(map(str.isdecimal, rows[0])) else rows  # without a line of names
    if len(rows) < 2 or not all(len(words) == 3 and all(map(str.isdecimal, words)) for words in rows):
        return False
    first, second, third = (np.array(column, float) for column in zip(*rows, strict=True))
    if (second > third).any() or _spaced(first):
        return False
    return not _spaced(third) or bool(third.min() < second.max())


def _spaced(column: FloatArray) -> bool:
    """Whether seconds lie whole intervals apart; a single one, whether it is a whole number of intervals."""
    found = np.unique(column)
    return not ((np.diff(found) if len(found) > 1 else found) % (INTERVAL // SECOND)).any()


def _is_imote(words: list[str]) -> bool:
    """Two ids, two times in their order, and perhaps the number of the contact and a gap."""
    if len(words) not in (4, 6) or not all(word.isdecimal() for word in words[:2]):
        return False
    try:
        _, _, start, end, *rest = map(float, words)
    except ValueError:
        return False
    return not start > end and (not rest or (rest[0] >= 1 and rest[0].is_integer()))


def read_imote(text: Text, *, device: str | None = None) -> Trace:
    """Contacts from an imote list; columns after the fourth are not needed, but must be what they should be.

    A list of one device's contacts has three columns. The device is named by an option, or by the number in the
    file's name.
    """
    rows = text.rows(IMOTE, marks=True).without_header()
    if device is not None or (rows.lengths == 3).all():
        return _read_device(text, device)
    rows.refuse(rows.lengths < 4)
    for column in (4, 5):
        rows.keep(rows.lengths > column).number(column)
    start, end = rows.time(2), rows.time(3)
    if (wrong := start > end).any():
        rows.fail(int(np.argmax(wrong)), "expected an end that is not before the start")
    table, joined = join_intervals(rows.word(0), rows.word(1), start, end)
    return Trace("contacts", table, "imote", joining_notes(joined, events=False))


def _read_device(text: Text, device: str | None) -> Trace:
    rows = text.rows(DEVICE, marks=True).without_header()
    rows.expect(3)
    if device is None:
        numbers = re.findall(r"\d+", Path(text.path).stem)
        if len(numbers) != 1:
            text.fail(f'a list of one device\'s contacts ("{DEVICE}"), but of which? say device=NAME')
        device = str(int(numbers[0]))
    start, end = rows.time(1), rows.time(2)
    if (wrong := start > end).any():
        rows.fail(int(np.argmax(wrong)), "expected an end that is not before the start")
    table, joined = join_intervals(pa.array([device] * len(rows), pa.large_string()), rows.word(0), start, end)
    notes = f"contacts of device {device} alone", *joining_notes(joined, events=False)
    return Trace("contacts", table, "imote", notes)


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
    rows = words_of(lines)
    return 0.0 if score_csv(lines) == 1 or _of_a_device(rows) else sum(map(_is_row, rows)) / len(rows)


def _is_row(words: list[str]) -> bool:
    """Three whole numbers, perhaps with words behind them of which not all are numbers."""
    whole = len(words) >= 3 and all(word.isdecimal() for word in words[:3])
    return whole and (len(words) == 3 or any(not word.isdecimal() for word in words[3:]))


def read_sociopatterns(text: Text, *, interval: int = INTERVAL, order: Order = "auto") -> Trace:
    """Contacts from rows of one interval each; rows of a pair one interval apart are one contact."""
    rows = text.rows(SOCIOPATTERNS, marks=True)
    header = [word.lower() for word in rows.header()]
    rows = rows.without_header()
    rows.refuse(rows.lengths < 3)
    if order == "auto":
        named = [place for place in (0, 2) if place < len(header) and header[place] in TIMES]
        order = _order(rows, interval) if len(named) != 1 else "ijt" if named[0] else "tij"
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
    if first < 0 and third < 2:
        rows.time(0)  # numbers that are no times: says which
    if first != third:
        return "tij" if first > third else "ijt"
    return "tij" if "\t" in rows.text.content else "ijt"


def _steps(rows: Rows, column: int, interval: int) -> int:
    """How many different times a column would hold: none if they are not whole intervals apart or it holds names,
    and −1 if it holds numbers that are no times."""
    try:
        found: IntArray = np.unique(rows.time(column))
    except InputError:
        return -1 if all(map(_is_number, rows.word(column).to_pylist())) else 0
    return len(found) if not (np.diff(found) % interval).any() else 0


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


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
    reading={"device": str},
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
