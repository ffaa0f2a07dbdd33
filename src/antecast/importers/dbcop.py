"""dbcop's JSON: a list of sessions of transactions of events, with or without the wrapper of its command.

Three writings of events are known: `{"Write": {"variable": 0, "version": 1}}`, the compact `["w", 0, 1]`, and
`{"write": true, "variable": 0, "value": 1, "success": true}` of its first version, in which 0 is the initial
value; where it is written, too, a read of it may mean either. A transaction that is not `committed` (`success`)
was aborted. A version of null is the initial state.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from antecast.importers.json_values import lone_surrogate
from antecast.importers.source import Head, Place, Source, decoded
from antecast.kv.history import INITIAL, INITIAL_CODE, History, HistoryBuilder, Kind, Status

NAME = "dbcop"
MODEL = "kv"

_EVENT = re.compile(r'"variable"\s*:|\[\s*"[rw]"\s*,')
_TRANSACTION = re.compile(r'"events"\s*:\s*\[')
_ENDED = re.compile(r'"(?:committed|success)"\s*:\s*(?:true|false)')
_SPAN = re.compile(r'"(?:traceId|trace_id|span_id|SpanContext|spanID)"')


def recognises(head: Head) -> bool:
    text = head.text
    if text.lstrip()[:1] not in ("[", "{") or _SPAN.search(text):  # spans have events, too
        return False
    return bool(_TRANSACTION.search(text) and (_ENDED.search(text) or not head.whole))


def read(source: Source) -> History:
    builder = HistoryBuilder(files=[str(file) for file in source.files])
    apart = len(source.files) > 1
    first = [_read_file(builder, number, *each, apart=apart) for number, each in enumerate(source.documents())]
    history = builder.build(initial=0 if any(first) else None)
    zero = history.value == history.initial
    if history.initial is None or (zero & (history.kind == Kind.WRITE)).any():
        return history
    return replace(history, value=np.where(zero, INITIAL_CODE, history.value), initial=None)


def _read_file(builder: HistoryBuilder, number: int, file: Path, data: bytes, *, apart: bool) -> bool:
    """Add the sessions of a file; whether it is of the first version."""
    name, first = str(file), False
    for line, raw in enumerate(data.split(b"\n"), 1):
        decoded(name, line, raw)
    text = data.decode("utf-8-sig")
    value = _parsed(text, name)
    sessions = value.get("data") if isinstance(value, dict) else value
    if not isinstance(sessions, list):
        raise Place(name, 1).error('a list of sessions is expected, or an object with one under "data"')
    places = _lines(text, name)
    end = Place(name, text.count("\n") + 1)
    for session, txns in enumerate(sessions, 1):
        if not isinstance(txns, list):
            raise next(places, end).error(f"session {session} is not a list of transactions")
        for txn in txns:
            events = txn.get("events") if isinstance(txn, dict) else None
            committed = txn.get("committed", txn.get("success")) if isinstance(txn, dict) else None
            if not isinstance(events, list) or not isinstance(committed, bool):
                problem = 'a transaction is an object with "events" (a list) and "committed" (true or false)'
                raise next(places, end).error(f"session {session}: {problem}")
            label = f"{session} of {name}" if apart else session
            builder.begin(label, Status.COMMITTED if committed else Status.ABORTED)
            for event in events:
                place = next(places, end)
                first |= isinstance(event, dict) and "write" in event
                for write, key, seen in _event(event, place):
                    (builder.write if write else builder.read)(key, seen, place.line, number)
    return first


def _event(event: Any, place: Place) -> Iterator[tuple[bool, Any, Any]]:
    if isinstance(event, list) and len(event) == 3 and event[0] in ("r", "w"):
        kind, key, seen = event
        write = kind == "w"
    elif isinstance(event, dict) and len(event) == 1 and next(iter(event)) in ("Read", "Write"):
        ((kind, inside),) = event.items()
        if (
            not isinstance(inside, dict)
            or "variable" not in inside
            or (kind == "Write" and "version" not in inside)
        ):
            raise place.error(f'a {kind} has a "variable" and a "version"')
        write, key, seen = kind == "Write", inside["variable"], inside.get("version")
    elif isinstance(event, dict) and {"write", "variable", "value"} <= event.keys():
        write, key, seen = bool(event["write"]), event["variable"], event["value"]
        if event.get("success") is False:
            return  # it was never executed
    else:
        problem = f"{str(event)[:80]} is not an event: "
        raise place.error(problem + '{"Read": ...}, {"Write": ...}, ["r", variable, version] or ["w", ...]')
    if isinstance(key, list | dict) or isinstance(seen, list | dict):
        raise place.error("a variable or a version is a list or an object; a number or text is expected")
    for each in (key, seen):
        if isinstance(each, float) and not isfinite(each):
            raise place.error(f"a variable or a version is {each}, which is not a number")
    if write and seen is None:
        raise place.error("a write without a version")
    yield write, key, INITIAL if seen is None else seen


def _parsed(text: str, name: str) -> Any:
    broken_at = lone_surrogate(text)
    if broken_at >= 0:
        raise Place(name, text.count("\n", 0, broken_at) + 1).error("not JSON: half of a surrogate pair")
    try:
        return json.loads(text, object_pairs_hook=_no_key_twice)
    except json.JSONDecodeError as error:
        raise Place(name, error.lineno).error(f"not JSON: {error.msg}; is the file cut short?") from None
    except (ValueError, RecursionError) as error:
        raise Place(name, 1).error(f"not JSON: {error}") from None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {max(names, key=names.count)!r} is there twice")
    return found


def _lines(text: str, name: str) -> Iterator[Place]:
    """Where each event stands."""
    breaks = [found.start() for found in re.finditer("\n", text)]
    for found in _EVENT.finditer(text):
        yield Place(name, bisect_right(breaks, found.start()) + 1)
