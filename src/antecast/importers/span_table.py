"""Spans of distributed traces, in columns: what the model *spans* judges.

A span has a start and an end by the clock of its service, and parents: the span that called it, and any that it
links to. Times are nanoseconds. What has several parents and no length, such as a commit, is a span too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antecast.core.errors import InputError
from antecast.importers.source import Place

Kind: TypeAlias = Literal["", "client", "server", "producer", "consumer", "internal"]

_KINDS: tuple[Kind, ...] = ("", "client", "server", "producer", "consumer", "internal")
_NUMBERED: tuple[Kind, ...] = ("", "internal", "server", "client", "producer", "consumer")
"""The kinds by the numbers that OTLP gives them."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?\s*(Z|UTC|[+-]\d\d:?\d\d)?(?: \w+)?"
)


@dataclass(frozen=True, eq=False)
class SpanLog:
    """Spans in the order of the files, and edges from parents to children by their numbers."""

    ids: tuple[str, ...]
    trace: NDArray[np.int32]
    traces: tuple[str, ...]
    service: NDArray[np.int32]
    services: tuple[str, ...]
    names: tuple[str, ...]
    kind: NDArray[np.int8]
    """A number in `client`, `server` and so on; see `kind_of`."""
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    files: tuple[str, ...]
    file: NDArray[np.int32]
    line: NDArray[np.int64]
    parent: NDArray[np.int64]
    """The parent of each edge; -1 if it is not in the log."""
    child: NDArray[np.int64]
    link: NDArray[np.bool_]
    """Whether the edge is a link and not a call."""
    parent_ids: tuple[str, ...]
    parent_trace: NDArray[np.int32]
    """The trace of each parent, which links may have elsewhere."""
    twins: tuple[tuple[int, int], ...]
    """Spans with the same id in the same trace: the first one and another."""
    noun: str = "span"
    ordered: bool = False
    """Whether the file is meant to list children before their parents, newest first, as `git log` does."""

    def __len__(self) -> int:
        return len(self.ids)

    def place(self, span: int) -> Place:
        return Place(self.files[self.file[span]], int(self.line[span]))

    def kind_of(self, span: int) -> Kind:
        return _KINDS[int(self.kind[span])]


class Spans:
    """Collects spans one by one."""

    def __init__(self, noun: str = "span", *, ordered: bool = False) -> None:
        self._noun = noun
        self._ordered = ordered
        self._ids: list[str] = []
        self._trace: list[int] = []
        self._traces: dict[str, int] = {}
        self._service: list[int] = []
        self._services: dict[str, int] = {}
        self._names: list[str] = []
        self._kind: list[int] = []
        self._start: list[int] = []
        self._end: list[int] = []
        self._files: dict[str, int] = {}
        self._file: list[int] = []
        self._line: list[int] = []
        self._edges: list[tuple[int, int, str, bool]] = []
        self._rooted: list[tuple[int, int, str, bool]] = []
        """Spans whose parent is a word for none."""

    def __len__(self) -> int:
        return len(self._ids)

    def add(
        self,
        place: Place,
        *,
        trace: str,
        span: str,
        parent: str = "",
        service: str,
        name: str = "",
        kind: Kind = "",
        start: int,
        end: int,
        links: Iterable[tuple[str, str]] = (),
        rooted: bool = False,
    ) -> None:
        """A span; `links` are pairs of a trace and a span.

        `rooted` says that `parent` is a word for no parent, as zeros are: unless another span of the trace has
        that very id.
        """
        if not span:
            raise place.error(f"the {self._noun} has no id")
        if not (-(2**63) <= start < 2**63 and -(2**63) <= end < 2**63):
            raise place.error("a time that 64 bits of nanoseconds do not hold")
        number = len(self._ids)
        code = self._traces.setdefault(trace, len(self._traces))
        self._ids.append(span)
        self._trace.append(code)
        self._service.append(self._services.setdefault(service, len(self._services)))
        self._names.append(name)
        self._kind.append(_KINDS.index(kind))
        self._start.append(start)
        self._end.append(end)
        self._file.append(self._files.setdefault(place.file, len(self._files)))
        self._line.append(place.line)
        if parent and (rooted or not parent.strip("0")):
            self._rooted.append((number, code, parent, False))
        elif parent:
            self._edges.append((number, code, parent, False))
        for other, linked in links:
            self._edges.append((number, self._traces.setdefault(other, len(self._traces)), linked, True))

    def finish(self, file: object) -> SpanLog:
        if not self._ids:
            raise InputError(f"no {self._noun} in it", path=str(file))
        known: dict[tuple[int, str], int] = {}
        twins = []
        for number, key in enumerate(zip(self._trace, self._ids, strict=True)):
            first = known.setdefault(key, number)
            if first != number:
                twins.append((first, number))
        self._edges += [each for each in self._rooted if known.get(each[1:3], each[0]) != each[0]]
        self._rooted.clear()
        edges = [(known.get((code, parent), -1), child, parent, link) for child, code, parent, link in self._edges]
        return SpanLog(
            ids=tuple(self._ids),
            trace=np.array(self._trace, np.int32),
            traces=tuple(self._traces),
            service=np.array(self._service, np.int32),
            services=tuple(self._services),
            names=tuple(self._names),
            kind=np.array(self._kind, np.int8),
            start=np.array(self._start, np.int64),
            end=np.array(self._end, np.int64),
            files=tuple(self._files),
            file=np.array(self._file, np.int32),
            line=np.array(self._line, np.int64),
            parent=np.array([edge[0] for edge in edges], np.int64),
            child=np.array([edge[1] for edge in edges], np.int64),
            parent_ids=tuple(edge[2] for edge in edges),
            parent_trace=np.array([edge[1] for edge in self._edges], np.int32),
            link=np.array([edge[3] for edge in edges], np.bool_),
            twins=tuple(twins),
            noun=self._noun,
            ordered=self._ordered,
        )


def kind_of(word: object) -> Kind:
    """The kind of a span from what formats call it: `SpanKind.SERVER`, `SPAN_KIND_CLIENT`, 2, `producer`."""
    if isinstance(word, int):
        return _NUMBERED[word] if 0 <= word < len(_NUMBERED) else ""
    text = str(word or "").lower()
    return next((kind for kind in _KINDS[1:] if text.endswith(kind)), "")


def nanoseconds(text: str, place: Place, what: str) -> int:
    """A time written out, as nanoseconds since 1970. Without a zone it is taken as UTC.

    >>> nanoseconds("2024-05-01T12:00:00.000000001+02:00", Place("a", 1), "start")
    1714557600000000001
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise place.error(f"{what} is {text!r}, which is not a time such as 2024-05-01T12:00:00.1Z")
    zone = found[4] or "Z"
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}{'+00:00' if zone in ('Z', 'UTC') else zone}")
    except ValueError as error:
        raise place.error(f"{what} is {text!r}, which is not a time: {error}") from None
    return (moment - _EPOCH) // timedelta(seconds=1) * 10**9 + int((found[3] or "0").ljust(9, "0"))


def whole(value: object, place: Place, what: str) -> int:
    """A whole number, which JSON may carry as a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value) and -(2**63) <= int(value) < 2**63:
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    raise place.error(f"{what} is {value!r}, where a whole number is expected")
