"""What a log tells about rows that it does not have.

The auditor takes a log for complete: every broadcast and every delivery of its nodes. A missing delivery looks
like a message that never came, so a log that was rotated or trimmed can look causal where the whole one is
violated. Two things show that rows are missing: positions of a node that skip numbers, and numbers of a source's
messages that do. Both only mean something where numbers are dense, that is, given one by one from 0 or 1. `dense`
says which are. Default: those that look like it (`Numbers.dense`). Rows are as good as missing, too, where their
kind is written in another way (`Deliver`, `delivered`) than that of those that count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.core.compiled import compiled
from antecast.core.errors import ConfigurationError
from antecast.history.log_kinds import alike, left_out_words
from antecast.history.rows import LongArray, factorise
from antecast.text.wording import listed, plural

OWNERS = {"pos": "node", "seq": "origin"}
"""What can be dense, the positions of a node and the numbers of a source's messages, and whose it is."""

Who: TypeAlias = tuple[object, object]
"""A run, None without runs, and a node or source."""

EXAMPLES = 3


@dataclass
class _Span:
    """The numbers of one node or source."""

    low: int
    high: int
    count: int

    def missing(self, base: int) -> int:
        """Numbers that are not there, from the first on that all begin with."""
        return self.high - min(self.low, base) + 1 - self.count


@dataclass(frozen=True)
class Completeness:
    """What was assumed, and why that may be wrong."""

    assumed: str
    unsettled: tuple[str, ...] = ()


@dataclass
class Numbers:
    """The range and count of the numbers of each node, or of each source, gathered batch by batch."""

    what: str
    owner: str
    spans: dict[Who, _Span] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        runs_there = "run" in batch.schema.names
        there = np.ones(len(batch), np.bool_)
        for name in ("kind", self.what, self.owner, *(("run",) if runs_there else ())):
            # A row that lacks a value is refused by whoever judges it.
            there &= batch.column(name).is_valid().to_numpy(zero_copy_only=False)
        if self.what == "seq":
            kind = batch.column("kind").cast(pa.string()).to_numpy(zero_copy_only=False)
            there &= kind == "broadcast"
        if not there.any():
            return
        chosen = batch if there.all() else batch.filter(pa.array(there))
        values = chosen.column(self.what).to_numpy(zero_copy_only=False)
        node, names = factorise(chosen.column(self.owner))
        run: NDArray[Any] = np.zeros(len(chosen), np.int64)
        runs: list[object] = [None]
        if runs_there:
            run, runs = factorise(chosen.column("run"))
        keys = run.astype(np.int64) * (len(names) + 1) + node
        some = np.arange(len(runs) * (len(names) + 1))
        if len(some) > len(keys):
            some, keys = np.unique(keys, return_inverse=True)
        low, high, counts = _ranges(keys, values.astype(np.int64, copy=False), len(some))
        used = np.flatnonzero(counts)
        found = (each[used].tolist() for each in (some, low, high, counts))
        for key, least, most, count in zip(*found, strict=True):
            place, name = divmod(key, len(names) + 1)
            known = self.spans.setdefault((runs[place], names[name]), _Span(least, most, 0))
            known.low, known.high = min(known.low, least), max(known.high, most)
            known.count += count

    def put(self, who: Who, low: int, high: int, count: int) -> None:
        self.spans[who] = _Span(low, high, count)

    @property
    def base(self) -> int:
        """The number that all begin with: 0 if one does, else 1."""
        return min((1, *(span.low for span in self.spans.values() if span.low >= 0)))

    def dense(self) -> bool:
        """Whether the numbers look as if each node, or source, had given its own one by one.

        They do if most begin with 0 or 1 and at most half are missing; or if nearly all stand in a row, wherever
        they begin: then it is the beginning that is missing. Numbers that all of them share look like neither.
        """
        spans = self.spans.values()
        there, missing = sum(span.count for span in spans), sum(max(0, span.missing(self.base)) for span in spans)
        inside = sum(span.high - span.low + 1 - span.count for span in spans)
        if self._shared(there):
            return False
        begun = sum(span.low <= 1 for span in spans)
        in_a_row = there - len(spans)
        return (begun * 3 >= 2 * len(spans) and missing <= there) or in_a_row >= max(3, 10 * inside, len(spans))

    def _shared(self, there: int) -> bool:
        """Whether all took their numbers from one row without gaps, as the rows of one table do."""
        spans = self.spans.values()
        low, high = {span.low for span in spans}, {span.high for span in spans}
        return len(low) == len(high) == len(spans) > 1 and max(high) - min(low) + 1 == there

    def holes(self) -> dict[Who, _Span]:
        base = self.base
        return {who: span for who, span in self.spans.items() if span.missing(base) > 0}


class Gathering:
    """Batches of a log, which are looked at for gaps when they are read for the first time.

    `dense` names the numbers that must have no gaps (default: those of `look` that look like it). `complete` names
    the nodes that are known to have all their rows (default: every node without a gap is taken to have them).
    """

    def __init__(
        self,
        batches: Callable[[], Iterable[pa.RecordBatch]],
        *,
        dense: Collection[str] | None = None,
        complete: Collection[object] | None = None,
        look: Collection[str] = tuple(OWNERS),
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        check_dense(dense)
        self._kinds = kinds or {}
        self._words: set[str] = set()
        self._batches = batches
        self._dense = dense
        self._complete = complete
        self._look = look if dense is None else dense
        self._found: dict[str, Numbers] = {}
        self._nodes: set[object] = set()
        self._begun = False

    def __call__(self) -> Iterator[pa.RecordBatch]:
        first, self._begun = not self._begun, True
        for batch in self._batches():
            if first:
                self._add(batch)
            yield batch

    def _add(self, batch: pa.RecordBatch) -> None:
        names = batch.schema.names
        for what, owner in OWNERS.items():
            if what in names and owner in names and what in self._look:
                self._found.setdefault(what, Numbers(what, owner)).add(batch)
        self._words.update(str(word) for word in batch.column("kind").unique().to_pylist() if word is not None)
        if self._complete is not None:
            self._nodes.update(batch.column("node").unique().to_pylist())

    def judge(self) -> Completeness:
        """What is missing, after the batches have been read."""
        return completeness_of(
            self._found,
            self._nodes,
            lambda numbers, who: _gap(numbers, who, self._batches),
            dense=self._dense,
            complete=self._complete,
            odd=alike(self._words, self._kinds),
        )


def check_dense(dense: Collection[str] | None) -> None:
    for name in dense or ():
        if name not in OWNERS:
            raise ConfigurationError(f"expected {', '.join(OWNERS)} or none, got {name!r}", field="--dense")


def completeness_of(
    found: Mapping[str, Numbers],
    nodes: Collection[object],
    gap: Callable[[Numbers, Who], str],
    *,
    dense: Collection[str] | None,
    complete: Collection[object] | None,
    odd: Mapping[str, str],
) -> Completeness:
    """What the numbers of nodes and sources say; `gap` tells one of their gaps in words. `odd` are words for kinds
    that are not counted and look like those that are."""
    unsettled = left_out_words(odd)
    for what, numbers in found.items():
        if dense is None and not numbers.dense():
            continue
        holes = numbers.holes()
        if complete is not None and what == "pos":
            holes = {who: span for who, span in holes.items() if str(who[1]) not in complete}
        if holes:
            first = sorted(holes, key=lambda who: tuple(map(str, who)))[:EXAMPLES]
            examples = [gap(numbers, who) for who in first]
            count = sum(span.missing(numbers.base) for span in holes.values())
            unsettled.append(_words(what, count, len(holes), examples))
    if complete is None:
        return Completeness("the log has every broadcast and delivery of its nodes", tuple(unsettled))
    open_ = sorted(str(node) for node in nodes if str(node) not in complete)
    if open_:
        some = listed(open_ if len(open_) <= 6 else [*open_[:6], f"{len(open_) - 6} more"])
        nodes_ = plural(len(open_), "node")
        unsettled.append(f"not known to be complete: {nodes_} ({some}); a log with all their rows would settle it")
    there = set(map(str, nodes))
    unknown = sorted(str(node) for node in complete if str(node) not in there)
    assumed = f"complete: {', '.join(sorted(map(str, complete))) or 'no node'}"
    return Completeness(assumed + (f"; no row of {', '.join(unknown)}" if unknown else ""), tuple(unsettled))


def _words(what: str, count: int, owners: int, examples: Sequence[str]) -> str:
    if what == "pos":
        head = f"{plural(count, 'position is', 'positions are')} missing at {plural(owners, 'node')}"
    else:
        head = f"{plural(count, 'broadcast is', 'broadcasts are')} missing from {plural(owners, 'source')}"
    more = f"; if the log never had them, say --dense {'seq' if what == 'pos' else 'pos'} or none"
    return f"{head}: {'; '.join(examples)}{more}"


@compiled
def _ranges(
    keys: NDArray[np.int64], values: NDArray[np.int64], size: int
) -> tuple[LongArray, LongArray, LongArray]:
    """The least and the largest value of each key, and how many there are."""
    low, high, counts = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    for i in range(len(keys)):
        key, value = keys[i], values[i]
        if counts[key] == 0 or value < low[key]:
            low[key] = value
        if counts[key] == 0 or value > high[key]:
            high[key] = value
        counts[key] += 1
    return low, high, counts


def _gap(numbers: Numbers, who: Who, batches: Callable[[], Iterable[pa.RecordBatch]]) -> str:
    """The first numbers that one node or source lacks."""
    what, owner = numbers.what, numbers.owner
    values: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    for batch in batches():
        mine = np.array([each == who[1] for each in batch.column(owner).to_pylist()], np.bool_)
        if "run" in batch.schema.names:
            mine &= np.array([each == who[0] for each in batch.column("run").to_pylist()], np.bool_)
        if what == "seq":
            mine &= batch.column("kind").cast(pa.string()).to_numpy(zero_copy_only=False) == "broadcast"
        values.append(batch.column(what).filter(pa.array(mine)).drop_null().to_numpy(zero_copy_only=False))
    return gap_words(numbers, who, np.concatenate(values))


def gap_words(numbers: Numbers, who: Who, values: NDArray[np.int64]) -> str:
    """The first numbers that one node or source lacks, from all that it has."""
    there = np.unique(values)
    start = min(int(there[0]), numbers.base)
    steps = np.flatnonzero(np.diff(there, prepend=start - 1) > 1)
    first = int(there[steps[0] - 1]) + 1 if steps[0] else start
    last = int(there[steps[0]]) - 1
    run = f"run {who[0]}, " if who[0] is not None else ""
    lacking = str(first) if first == last else f"{first} to {last}"
    return f"{run}{'node' if numbers.what == 'pos' else 'source'} {who[1]} has no {lacking}"
