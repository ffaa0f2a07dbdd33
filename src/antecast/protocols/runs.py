"""Sets of messages as runs of consecutive numbers: what a node has, in a few numbers per source.

The messages of a source mostly travel together, so what has come of them is one stretch or a few. The tuple
`(4, 9, 12, 13)` stands for the numbers 4 to 8 and 12: each run by its first number and the one after its last. The
entries grow strictly, so a number is inside a run when an odd number of entries is not above it; sets are compared
source by source and subtracted run by run, however many numbers lie in between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, TypeAlias

import msgspec

from antecast.core import MAX_SOURCES, NodeId, RemoteFault
from antecast.core.frames import Seq, Source

Spans: TypeAlias = Annotated[
    dict[Source, Annotated[tuple[Seq, ...], msgspec.Meta(max_length=MAX_SOURCES)]],
    msgspec.Meta(max_length=MAX_SOURCES),
]
"""Runs by source, as frames carry them; a source without messages is left out."""

PART = MAX_SOURCES
"""The most sources and numbers that one frame names: half a MiB, and never more than a field may hold."""

LAST = (1 << 63) - 2
"""The last number a message may have: the end of its run must be a number too."""

_Spans: TypeAlias = Mapping[NodeId, tuple[int, ...]]


class Runs:
    """A set of messages that changes.

    >>> runs = Runs()
    >>> [runs.add(3, seq) for seq in (4, 5, 7, 5)], runs.spans
    ([True, True, True, False], {3: (4, 6, 7, 8)})
    """

    __slots__ = ("spans",)

    def __init__(self) -> None:
        self.spans: dict[NodeId, tuple[int, ...]] = {}

    def __contains__(self, message: tuple[NodeId, int]) -> bool:
        origin, seq = message
        return bisect_right(self.spans.get(origin, ()), seq) & 1 == 1

    def add(self, origin: NodeId, seq: int) -> bool:
        """Add a message; False if it was here already."""
        runs = self.spans.get(origin, ())
        if not runs or seq > runs[-1]:
            self.spans[origin] = (*runs, seq, seq + 1)
            return True
        if seq == runs[-1]:
            self.spans[origin] = (*runs[:-1], seq + 1)
            return True
        at = bisect_right(runs, seq)
        if at & 1:
            return False
        before, after = runs[:at], runs[at:]
        start = before[:-1] if before and before[-1] == seq else (*before, seq)
        self.spans[origin] = start + (after[1:] if after and after[0] == seq + 1 else (seq + 1, *after))
        return True

    def discard(self, origin: NodeId, seq: int) -> None:
        """Take a message out, if it is here."""
        runs = self.spans.get(origin, ())
        at = bisect_right(runs, seq)
        if at & 1:
            before, after = runs[:at], runs[at:]
            start = before[:-1] if before[-1] == seq else (*before, seq)
            left = start + (after[1:] if after[0] == seq + 1 else (seq + 1, *after))
            if left:
                self.spans[origin] = left
            else:
                del self.spans[origin]


def minus(some: _Spans, others: _Spans) -> dict[NodeId, tuple[int, ...]]:
    """The messages of one set that are not in the other.

    >>> minus({3: (1, 9), 4: (1, 3)}, {3: (4, 5, 8, 20), 4: (1, 3)})
    {3: (1, 4, 5, 8)}
    """
    left: dict[NodeId, tuple[int, ...]] = {}
    theirs = others.get
    for origin, runs in some.items():
        other = theirs(origin)
        if other is None:
            left[origin] = runs
        elif other != runs and (remain := _difference(runs, other)):
            left[origin] = remain
    return left


def _difference(some: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    left: list[int] = []
    for first, end in zip(some[::2], some[1::2], strict=True):
        at = bisect_right(others, first)
        while first < end:
            until = min(others[at], end) if at < len(others) else end
            if not at & 1:
                left += (first, until)
            first = until
            at += 1
    return tuple(left)


def common(some: _Spans, others: _Spans) -> dict[NodeId, tuple[int, ...]]:
    """The messages that are in both sets."""
    here = {origin: runs for origin, runs in some.items() if origin in others}
    return minus(here, minus(here, others))


def messages(spans: _Spans) -> list[tuple[NodeId, int]]:
    """The messages of a set, one by one."""
    return [
        (origin, seq)
        for origin, runs in spans.items()
        for first, end in zip(runs[::2], runs[1::2], strict=True)
        for seq in range(first, end)
    ]


def lowest(spans: _Spans, limit: int) -> dict[NodeId, tuple[int, ...]]:
    """The first `limit` messages of each source.

    >>> lowest({3: (1, 9), 4: (1, 3, 7, 1000)}, 4)
    {3: (1, 5), 4: (1, 3, 7, 9)}
    """
    chosen: dict[NodeId, tuple[int, ...]] = {}
    for origin, runs in spans.items():
        left = limit
        taken: tuple[int, ...] = ()
        for first, end in zip(runs[::2], runs[1::2], strict=True):
            taken += (first, min(end, first + left))
            left -= min(end - first, left)
            if not left:
                break
        chosen[origin] = taken
    return chosen


def count(spans: _Spans) -> int:
    """How many messages a set holds."""
    return sum(sum(runs[1::2]) - sum(runs[::2]) for runs in spans.values())


def parts(spans: _Spans) -> Iterator[dict[NodeId, tuple[int, ...]]]:
    """A set in parts that each fit into a frame; an empty set is one part.

    >>> [len(part) for part in parts({source: (1, 2) for source in range(50_000)})]
    [21845, 21845, 6310]
    """
    part: dict[NodeId, tuple[int, ...]] = {}
    if _size(spans) <= PART:  # nearly always
        part.update(spans)
        yield part
        return
    room = PART
    for origin, runs in spans.items():
        while runs:
            if room < 3:
                yield part
                part, room = {}, PART
            fit = min(len(runs), (room - 1) & ~1)
            part[origin] = runs[:fit]
            room -= 1 + fit
            runs = runs[fit:]
    yield part


def check(spans: _Spans, sender: NodeId) -> None:
    """Refuse what are not runs, or more than a correct node sends at once."""
    for origin, runs in spans.items():
        if len(runs) == 2 and runs[0] < runs[1]:
            continue  # nearly always
        if not runs or len(runs) % 2 or any(a >= b for a, b in pairwise(runs)):
            raise RemoteFault(f"node {sender} sent {runs[:4]} for messages of node {origin}, which are not runs")
    size = _size(spans)
    if size > PART:
        raise RemoteFault(f"node {sender} named {size} sources and numbers at once; the limit is {PART}")


def _size(spans: _Spans) -> int:
    """How many sources and numbers a set names."""
    return len(spans) + sum(map(len, spans.values()))
