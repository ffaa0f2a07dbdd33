"""Cobra's logs: a binary file per client, each a session.

A record is a letter and numbers of eight bytes, high byte first: `S` id (start), `W` write-id key value, `R`
writer write-id key value, `C` id (commit), `A` id (abort). Keys and values are hashes; a write-id names one
write, so it is the value here. A transaction without an end is indeterminate. In place of a line, operations
have the number of their record.
"""

from __future__ import annotations

import struct

from antecast.importers.source import Head, Place, Source
from antecast.kv.history import INITIAL, History, HistoryBuilder, Status

NAME = "cobra"
MODEL = "kv"

_NUMBERS = {ord("S"): 1, ord("W"): 3, ord("R"): 4, ord("C"): 1, ord("A"): 1}
_NOTHING = {0xBEBEEBEE, 0xDEADBEEF}
"""Write-ids of the initial state and of a key that is not there."""


def recognises(head: Head) -> bool:
    """Starts with a start, and is made of records as far as can be seen."""
    data, at = head.data, 0
    if not data or data[0] != ord("S"):
        return False
    while at < min(len(data), 4096):
        if data[at] not in _NUMBERS:
            return False
        at += 1 + 8 * _NUMBERS[data[at]]
    return True


def read(source: Source) -> History:
    builder = HistoryBuilder(files=[str(file) for file in source.files])
    for number, (file, data) in enumerate(source.documents()):
        _read_session(builder, number, file.stem, str(file), data)
    return builder.build()


def _read_session(builder: HistoryBuilder, number: int, session: str, name: str, data: bytes) -> None:
    at, record, current = 0, 0, None
    operations: list[tuple[bool, int, int, int]] = []

    def finish(status: Status) -> None:
        builder.begin(session, status, f"{current} of {session}")
        for write, key, value, line in operations:
            if write:
                builder.write(key, value, line, number)
            elif status == Status.COMMITTED:
                builder.read(key, INITIAL if value in _NOTHING else value, line, number)

    while at < len(data):
        record += 1
        place = Place(name, record)
        letter, count = chr(data[at]), _NUMBERS.get(data[at])
        if count is None:
            raise place.error(f"record {record} begins with {letter!r}; S, W, R, C and A are known")
        if at + 1 + 8 * count > len(data):
            raise place.error(f"record {record} ({letter}) is cut short")
        numbers = struct.unpack_from(f">{count}Q", data, at + 1)
        at += 1 + 8 * count
        if letter == "S":
            if current is not None:
                raise place.error(f"transaction {numbers[0]} starts before {current} has ended")
            current = numbers[0]
            operations.clear()
        elif current is None:
            raise place.error(f"record {record} ({letter}) is outside of a transaction")
        elif letter == "W":
            operations.append((True, numbers[1], numbers[0], record))
        elif letter == "R":
            operations.append((False, numbers[2], numbers[1], record))
        else:
            if numbers[0] != current:
                raise place.error(f"transaction {numbers[0]} ends inside of {current}")
            finish(Status.COMMITTED if letter == "C" else Status.ABORTED)
            current = None
    if current is not None:
        finish(Status.INDETERMINATE)
