"""Histories of Jepsen and Elle in EDN: registers (`:w`, `:r`) and lists (`:append`, `:r`).

A process is a session. An operation that is `:ok` committed, `:fail` aborted; `:info`, and what has no answer
when the file ends, is indeterminate. Of what did not commit, only writes are known. `nil` and the empty list are
the initial state. Lists: a read of [1 2 3] is a read of 3, and depends on 1 and 2, whose order it tells.
`:cas` of [old new] is a read and a write together. What a nemesis did is left out and counted; any other process
that reads or writes is a client, whatever its name. A history may have answers alone; but where a process begins
its operations, each answer needs one. The lines of a process are in its order: an `:index` or a `:time` that goes
back shows that they are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from reprlib import repr as short
from typing import Any, NamedTuple

from antecast.importers.edn import Keyword, forms, hashable
from antecast.importers.source import Head, Place, Source
from antecast.kv.history import INITIAL, History, HistoryBuilder, Status

NAME = "elle"
MODEL = "kv"

_TYPES = {"ok": Status.COMMITTED, "fail": Status.ABORTED, "info": Status.INDETERMINATE}
_KNOWN = ("txn", "read", "write", "cas", "r", "w")
_START = re.compile(r"\s*(\[|\(|#[\w.\-/]+|;[^\n]*\n|\s)*\{")


class _Answer(NamedTuple):
    """A transaction as it ended, or as it was asked for if nobody knows."""

    process: Any
    status: Status
    value: tuple[Any, ...]
    place: Place


def recognises(head: Head) -> bool:
    text = head.text
    return bool(_START.match(text)) and ":process" in text and ":type" in text and ":value" in text


def read(source: Source) -> History:
    answers: list[_Answer] = []
    waiting: dict[Any, _Answer] = {}
    begun: set[Any] = set()
    order = _Order()
    skipped = 0
    for file in source.files:
        for place, form in forms(source, file):
            operation = _operation(form, place)
            if operation is None:
                skipped += 1
                continue
            process, kind, value = operation
            order.check(process, form, place)
            if kind == "invoke":
                if process in waiting:
                    raise place.error(f"process {process} begins an operation before the last one has an answer")
                waiting[process] = _Answer(process, Status.INDETERMINATE, value, place)
                begun.add(process)
                continue
            asked = waiting.pop(process, None)
            if asked is None and process in begun:
                raise place.error(f"process {process} has an answer to an operation that it did not begin")
            if kind != "ok" and asked is not None and not value:
                value = asked.value
            answers.append(_Answer(process, _TYPES[kind], value, place))
    answers += waiting.values()
    return _history(source, answers, skipped)


class _Order:
    """What the operations of each process tell of their order."""

    def __init__(self) -> None:
        self._last: dict[tuple[Any, str], tuple[int, Place]] = {}

    def check(self, process: Any, form: Mapping[str, Any], place: Place) -> None:
        for name, step in (("index", 1), ("time", 0)):
            number = form.get(name)
            if not isinstance(number, int) or number < 0:
                continue
            before, where = self._last.get((process, name), (-1, place))
            if number < before + step:
                problem = (
                    f":{name} of process {process} is {number} after {before} ({where}); lines must be in order"
                )
                raise place.error(problem)
            self._last[process, name] = number, place


def _operation(form: Any, place: Place) -> tuple[Any, str, tuple[Any, ...]] | None:
    """Process, type and micro-operations; None if the operation is not a client's transaction."""
    if not isinstance(form, dict):
        raise place.error("an operation is a map such as {:type :ok, :process 0, :f :txn, :value [...]}")
    for name in ("type", "process", "f"):
        if name not in form:
            raise place.error(f"the operation has no :{name}")
    kind, process, f, value = form["type"], form["process"], form["f"], form.get("value")
    if kind != "invoke" and kind not in _TYPES:
        raise place.error(f":type is {kind}; :invoke, :ok, :fail and :info are known")
    if not isinstance(process, int) and (process is None or process == "nemesis" or f not in _KNOWN):
        return None
    process = hashable(process)
    if f not in _KNOWN:
        raise place.error(f"an operation :{f} of a client is not known; those of {', '.join(_KNOWN)} are judged")
    if value is None and kind == "ok" and f in ("txn", "cas"):
        raise place.error("the operation was committed, but has no :value: what it did is not told")
    if f == "txn":
        if value is not None and not isinstance(value, tuple):
            raise place.error(":value of a transaction is a vector of operations")
        return process, str(kind), value or ()
    if f == "cas":
        return process, str(kind), _compared(value, place)
    key, seen = value if isinstance(value, tuple) and len(value) == 2 else ("register", value)
    return process, str(kind), ((Keyword("r" if f in ("read", "r") else "w"), key, seen),)


def _compared(value: Any, place: Place) -> tuple[Any, ...]:
    """`[old new]`, or `[key [old new]]`: a read and a write that happen together, or not at all."""
    if value is None:
        return ()
    pair = value if isinstance(value, tuple) and len(value) == 2 else (None, None)
    key, (old, new) = (pair[0], pair[1]) if isinstance(pair[1], tuple) else ("register", pair)
    if new is None:
        raise place.error(":value of a :cas is [old new], or [key [old new]]")
    return ((Keyword("r"), key, old), (Keyword("w"), key, new))


def _history(source: Source, answers: list[_Answer], skipped: int) -> History:
    builder = HistoryBuilder(files=[str(file) for file in source.files])
    number = {name: index for index, name in enumerate(builder.files)}
    builder.lists = any(each[0] == "append" for answer in answers for each in _operations(answer))
    for answer in answers:
        builder.begin(answer.process, answer.status)
        try:
            _add(builder, answer, number[answer.place.file])
        except RecursionError:
            raise answer.place.error("keys or values nest too deep to be compared") from None
    if skipped:
        builder.notes.append(f"operations that are not transactions of clients ({skipped}) were left out")
    return builder.build()


def _add(builder: HistoryBuilder, answer: _Answer, file: int) -> None:
    for name, key, value in _operations(answer):
        if name != "r":
            if (name == "append") != builder.lists:
                raise answer.place.error("registers (:w) and lists (:append) in one history; check them apart")
            if value is None:
                raise answer.place.error(f"a write of nil to {key}: nil is the initial state")
            builder.write(hashable(key), hashable(value), answer.place.line, file)
        elif answer.status == Status.COMMITTED:
            _read(builder, hashable(key), value, answer.place, file)


def _operations(answer: _Answer) -> Iterator[tuple[str, Any, Any]]:
    for each in answer.value:
        known = isinstance(each, tuple) and len(each) in (2, 3) and each[0] in ("r", "w", "append")
        if not known or (len(each) == 2 and each[0] != "r"):
            raise answer.place.error(f"{short(each)} is not [:r key value], [:w key value] or [:append key value]")
        yield str(each[0]), each[1], each[2] if len(each) == 3 else None


def _read(builder: HistoryBuilder, key: Any, value: Any, place: Place, file: int) -> None:
    if not builder.lists:
        builder.read(key, INITIAL if value is None else hashable(value), place.line, file)
        return
    if value is not None and not isinstance(value, tuple):
        raise place.error(f"a read of {key} returns {short(value)}; a list is expected")
    for each in (value or ())[:-1]:
        builder.observe(key, hashable(each), place.line, file)
    builder.read(key, hashable(value[-1]) if value else INITIAL, place.line, file)
