"""The model *clocks*: are the vector clocks of a log sound, which events are concurrent, is the file in causal
order?

An event e of host h has a clock V(e); V(e)[h] is its own count. The clocks say that f of host k happened before e
if V(e)[k] ≥ V(f)[k]. They are sound if

- every event counts itself, and no two events of a host have the same count (`no own count`, `counted twice`);
- a host's clock never goes back: in the order of its counts every component grows or stays (`clock goes back`);
- no clock knows an event that its host never had: V(e)[k] is at most the last count of k (`clock from nowhere`);
- order is transitive: if f happened before e then V(f) ≤ V(e) (`not transitive`), and never e before f as well
  (`cycle`).

A count that no event in the log has is a gap. Gaps are accepted and named: hosts may count what they do not log.
A clock that points into a gap is judged against the last event before it; what the missing event itself knew
cannot be checked, so such a log is inconclusive at best. Lines may stand in any order; whether theirs is causal is
said, and is a rule only if asked for (`file out of order`). Each of these rules speaks of one event or two, so
every witness has one event or two, and no smaller one exists.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.importers.clock_events import ClockLog
from antecast.models.judgement import VIOLATIONS, Happening, Judgement, Story, sampled
from antecast.text.wording import plural, share_text

NO_OWN, TWICE, BACK, NOWHERE, INTRANSITIVE, CYCLE, FILE = KINDS = (
    "no own count",
    "counted twice",
    "clock goes back",
    "clock from nowhere",
    "not transitive",
    "cycle",
    "file out of order",
)

_CELLS = 4 << 20
"""Numbers that are spread out at a time."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Findings:
    """For each event, the event or component that shows what is wrong with it; -1 where nothing is."""

    twice: Ints
    """The event with the same count."""
    back: Ints
    """A component that is smaller than at the host's event before."""
    nowhere: Ints
    """A component larger than the last count of its host."""
    gap: Ints
    """A component that points to a count that no event has."""
    transitive: Ints
    """An event of its past that knows more than it."""
    cycle: Ints
    """An event that is before and after it."""
    past: Ints
    """Events that happened before it."""
    overtaken: Ints
    """An event of its past that stands after it in the file."""
    own: Ints
    order: Ints
    """Events by host and count."""
    previous: Ints
    """The event of its host with the next smaller count."""


def judge(
    log: ClockLog, *, limit: int = 10_000, complete: Collection[str] | None = None, ordered: bool = False
) -> Judgement:
    """Judge the clocks of a log.

    `complete` names the hosts whose events up to the last are all in the log (default: all of them); what a clock
    says of others beyond their last event cannot be judged. With `ordered`, the file must be in causal order, too.
    """
    found = examine(log)
    whole = np.array([complete is None or name in complete for name in log.hosts], np.bool_)
    unknown = (found.nowhere >= 0) & ~whole[np.maximum(found.nowhere, 0)]
    wrong = {
        NO_OWN: found.own == 0,
        TWICE: found.twice >= 0,
        BACK: found.back >= 0,
        NOWHERE: (found.nowhere >= 0) & ~unknown,
        INTRANSITIVE: found.transitive >= 0,
        CYCLE: found.cycle >= 0,
        FILE: (found.overtaken >= 0) & ordered,
    }
    counts = {kind: int(np.count_nonzero(events)) for kind, events in wrong.items()}
    rows: list[dict[str, object]] = []
    stories: list[Story] = []
    for kind, events in wrong.items():
        listed = np.flatnonzero(events)[:limit].tolist()
        told = set(sampled(len(listed)))
        for place, event in enumerate(listed):
            story = _story(kind, log, found, event)
            other = story.events[0].place if len(story.events) > 1 else None
            where = log.place(event)
            rows.append(
                {
                    "kind": kind,
                    "file": where.file,
                    "line": where.line,
                    "node": log.host_name(int(log.host[event])),
                    "words": story.words,
                    "other_file": None if other is None else other.file,
                    "other_line": None if other is None else other.line,
                }
            )
            if place in told:
                stories.append(story)
    hosts = len(np.unique(log.host))
    scope = f"{plural(len(log), 'event')} of {plural(hosts, 'host')}"
    if len(log.executions) > 1:
        scope += f" in {plural(len(log.executions), 'execution')}"
    pairs, concurrent = _concurrency(log, found)
    unsettled = {
        "point to an event that is not in the log": int(np.count_nonzero(found.gap >= 0)),
        "point beyond the end of a log that is not complete": int(np.count_nonzero(unknown)),
    }
    sound = not any(counts.values())
    gaps = _gaps(log, found)
    return Judgement(
        model="clocks",
        scope=scope,
        counts={
            "events": len(log),
            "hosts": hosts,
            "executions": len(log.executions),
            "gaps": len(gaps),
            "pairs": pairs,
            "concurrent_pairs": concurrent if sound else 0,
            "unmatched_lines": len(log.unmatched),
        },
        found=counts,
        unsettled=unsettled,
        violations=pa.Table.from_pylist(rows, schema=VIOLATIONS),
        stories=tuple(stories),
        notes=(
            *([_concurrent_words(pairs, concurrent)] if sound else []),
            *([_file_order(log, found)] if sound else []),
            *_gap_words(gaps, log, found),
            *_unmatched(log),
            _assumed(complete, log),
        ),
        tables={"gaps": pa.Table.from_pylist(gaps, schema=_GAPS)},
    )


_GAPS = pa.schema(
    [
        ("host", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("file", pa.string()),
        ("line", pa.int64()),
    ]
)


def examine(log: ClockLog) -> Findings:
    """Everything that is to be known of the clocks, event by event."""
    count, hosts = len(log), len(log.hosts)
    row = np.repeat(np.arange(count), np.diff(log.indptr))
    mine = log.component == log.host[row]
    own = np.zeros(count, np.int64)
    own[row[mine]] = log.value[mine]
    order = np.lexsort((np.arange(count), own, log.host)).astype(np.int64)
    starts = np.searchsorted(log.host[order], np.arange(hosts + 1)).astype(np.int64)
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    previous = np.full(count, -1, np.int64)
    same_host = log.host[order][1:] == log.host[order][:-1]
    previous[order[1:][same_host]] = order[:-1][same_host]
    twice = np.where((previous >= 0) & (own > 0) & (own == own[previous]), previous, -1)

    # For each entry of a clock, how far it reaches into the events of its host: `stop` is the first beyond.
    stop = np.empty(len(row), np.int64)
    by_component = np.argsort(log.component, kind="stable")
    bounds = np.searchsorted(log.component[by_component], np.arange(hosts + 1))
    for k in range(hosts):
        entries = by_component[bounds[k] : bounds[k + 1]]
        counts = own[order[starts[k] : starts[k + 1]]]
        stop[entries] = starts[k] + np.searchsorted(counts, log.value[entries], side="right")
    stop[mine] = place[row[mine]]
    known = stop - starts[log.component]
    past = np.bincount(row, known, count).astype(np.int64)
    newest = order[np.maximum(stop - 1, 0)]
    last = np.where(np.diff(starts) > 0, own[order[np.maximum(starts[1:] - 1, 0)]], 0)
    beyond = ~mine & (log.value > last[log.component])
    missing = ~mine & ~beyond & ((known == 0) | (own[newest] != log.value))
    latest = _latest_in_file(order, starts)[np.maximum(stop - 1, 0)] if count else newest
    late = (known > 0) & (latest > row)
    back, transitive, cycle = _compare(log, row, mine, known, newest, previous, own)
    return Findings(
        twice=twice,
        back=back,
        nowhere=_first(row, beyond, log.component, count),
        gap=_first(row, missing, log.component, count),
        transitive=transitive,
        cycle=cycle,
        past=past,
        overtaken=_first(row, late, latest, count),
        own=own,
        order=order,
        previous=previous,
    )


def _latest_in_file(order: Ints, starts: Ints) -> Ints:
    """For each place in `order`, the largest event number of its host so far: the one last in the file."""
    latest = order.copy()
    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        np.maximum.accumulate(latest[start:stop], out=latest[start:stop])
    return latest


def _first(row: Ints, chosen: NDArray[np.bool_], values: NDArray[np.integer[Any]], count: int) -> Ints:
    """For each event the value of its first chosen entry; -1 if there is none."""
    found = np.full(count, -1, np.int64)
    entries = np.flatnonzero(chosen)[::-1]  # the first one is written last
    found[row[entries]] = values[entries]
    return found


def _compare(
    log: ClockLog,
    row: Ints,
    mine: NDArray[np.bool_],
    known: Ints,
    newest: Ints,
    previous: Ints,
    own: Ints,
) -> tuple[Ints, Ints, Ints]:
    """Compare each clock with the one before it at its host and with those of the newest events that it knows.

    An entry that is as it was at the host's event before needs no second look: that event was compared. Nor does
    one that another event brought along, which knows it just as well: that one was compared, too, and knows less
    in all, so by induction nothing wrong stays unseen; it may be listed at one event and not at those that follow.
    Clocks are spread out, a row of numbers per event, for some events at a time.
    """
    count, hosts = len(log), len(log.hosts)
    back, transitive, cycle = (np.full(count, -1, np.int64) for _ in range(3))
    lengths = np.diff(log.indptr)
    size = np.bincount(row, log.value.astype(np.float64), count)
    cost = np.bincount(row, lengths[newest], count) // 8 + 2 * hosts
    chunk = (np.cumsum(cost) // _CELLS).astype(np.int64) if count else np.zeros(0, np.int64)
    edges = [*np.flatnonzero(np.diff(chunk, prepend=-1)).tolist(), count]
    for first, end in pairwise(edges):
        spread = np.zeros((end - first, hosts), np.int64)
        inside = slice(log.indptr[first], log.indptr[end])
        rows, parts, values = row[inside], log.component[inside], log.value[inside]
        spread[rows - first, parts] = values
        before = np.zeros_like(spread)
        has = np.flatnonzero(previous[first:end] >= 0)
        entries, pair = _entries(log, previous[first:end][has])
        before[has[pair], log.component[entries]] = log.value[entries]
        behind = np.argmax(before > spread, axis=1)
        wrong = np.flatnonzero(before[np.arange(len(spread)), behind] > spread[np.arange(len(spread)), behind])
        back[first + wrong] = behind[wrong]

        look = ~mine[inside] & (known[inside] > 0) & (before[rows - first, parts] != values)
        events, others = rows[look], newest[inside][look]
        # The one with the largest clock is most likely the message that brought the rest along.
        order = np.lexsort((size[others], events))
        last = order[np.flatnonzero(np.diff(events[order], append=-1))]
        entries, pair = _entries(log, others[last])
        brought = before  # no longer needed, and as large
        brought[:] = 0
        brought[events[last][pair] - first, log.component[entries]] = log.value[entries]
        alone = brought[events - first, parts[look]] < values[look]
        alone[last] = True
        events, others = events[alone], others[alone]
        entries, pair = _entries(log, others)
        component, value = log.component[entries], log.value[entries]
        more = np.flatnonzero(value > spread[events[pair] - first, component])[::-1]
        transitive[events[pair[more]]] = others[pair[more]]
        both = np.flatnonzero((component == log.host[events[pair]]) & (value >= own[events[pair]]))[::-1]
        cycle[events[pair[both]]] = others[pair[both]]
    return back, transitive, cycle


def _entries(log: ClockLog, events: Ints) -> tuple[Ints, Ints]:
    """The entries of the clocks of some events one after the other, and the place of the event of each."""
    lengths = log.indptr[events + 1] - log.indptr[events]
    pair = np.repeat(np.arange(len(events)), lengths)
    starts = np.cumsum(lengths) - lengths
    return log.indptr[events][pair] + np.arange(len(pair)) - starts[pair], pair


def _concurrency(log: ClockLog, found: Findings) -> tuple[int, int]:
    """Pairs of events of one execution, and those of them that are concurrent."""
    sizes = np.bincount(log.execution_of[log.host], minlength=len(log.executions)).tolist()
    pairs = sum(size * (size - 1) // 2 for size in sizes)
    return pairs, pairs - int(found.past.sum())


def concurrent_with(log: ClockLog, event: int) -> list[int]:
    """The events that are concurrent with one, by number, in a log whose clocks are sound."""
    mine, count = log.clock(event), len(log)
    execution = log.execution_of[log.host[event]]
    own_name = log.hosts[log.host[event]]
    alike = []
    for other in range(count):
        host = int(log.host[other])
        if other == event or log.execution_of[host] != execution:
            continue
        theirs = log.clock(other)
        before = mine.get(log.hosts[host], 0) >= theirs.get(log.hosts[host], 0)
        after = theirs.get(own_name, 0) >= mine.get(own_name, 0)
        if not before and not after:
            alike.append(other)
    return alike


def _concurrent_words(pairs: int, concurrent: int) -> str:
    share = f" ({share_text(concurrent / pairs)})" if pairs else ""
    return f"{concurrent:,} of {plural(pairs, 'pair')} of events are concurrent{share}"


def _file_order(log: ClockLog, found: Findings) -> str:
    events = np.flatnonzero(found.overtaken >= 0)
    if not len(events):
        return "the order of the file is causal"
    first = int(events[0])
    other = int(found.overtaken[first])
    return (
        f"the order of the file is not causal: {log.place(first)} stands before {log.place(other)}, "
        "which happened before it; hosts that are logged one after the other look like this"
    )


def _gaps(log: ClockLog, found: Findings) -> list[dict[str, object]]:
    """Counts that no event has, host by host, with the event after each gap."""
    before = np.where(found.previous >= 0, found.own[found.previous], 0)
    gaps = []
    for event in np.flatnonzero(found.own > before + 1).tolist():
        place = log.place(event)
        host = log.host_name(int(log.host[event]))
        first, last = int(before[event]) + 1, int(found.own[event]) - 1
        gaps.append({"host": host, "first": first, "last": last, "file": place.file, "line": place.line})
    return gaps


def _gap_words(gaps: list[dict[str, object]], log: ClockLog, found: Findings) -> list[str]:
    words = []
    if gaps:
        first = gaps[0]
        counts = str(first["first"]) if first["first"] == first["last"] else f"{first['first']} to {first['last']}"
        words.append(
            f"{plural(len(gaps), 'gap')} in the counts of hosts, the first before "
            f"{first['file']}:{first['line']}: {first['host']} has no event {counts}"
        )
    if len(pointing := np.flatnonzero(found.gap >= 0)):
        event = int(pointing[0])
        host = int(found.gap[event])
        value = log.clock(event)[log.hosts[host]]
        words.append(
            f"{log.place(event)} knows event {value} of {log.host_name(host)}, which is not in the log; "
            "the log of that event would settle it"
        )
    return words


def _unmatched(log: ClockLog) -> list[str]:
    if not log.unmatched:
        return []
    lines = plural(len(log.unmatched), "line has no clock and is", "lines have no clock and are")
    return [f"{lines} left out, the first {log.unmatched[0]}"]


def _assumed(complete: Collection[str] | None, log: ClockLog) -> str:
    if complete is None:
        return "assumed: every host's log runs to its last event"
    names = ", ".join(sorted(complete)) or "no host"
    unknown = ", ".join(sorted(set(complete) - set(log.hosts)))
    return f"assumed: the logs of {names} run to the last event{unknown and f'; there is no host {unknown}'}"


def _story(kind: str, log: ClockLog, found: Findings, event: int) -> Story:
    """What is wrong with an event, told with one other event at most."""
    host = log.host_name(int(log.host[event]))
    where, own = log.place(event), int(found.own[event])
    clock = log.clock(event)
    this = f"{where} ({host}:{own}, {_short(log.texts[event])!r})"
    if kind == NO_OWN:
        words = f"{where}: {host} does not count itself: its clock is {_clock(clock)}"
        return Story(kind, words, (_happening(log, found, event),))
    if kind == NOWHERE:
        source = int(found.nowhere[event])
        name = log.host_name(source)
        value = clock[log.hosts[source]]
        last = found.own[log.host == source]
        has = (
            f"the last event of {name} in the log is {int(last.max())}" if len(last) else f"the log has no {name}"
        )
        return Story(kind, f"{this} knows event {value} of {name}, but {has}", (_happening(log, found, event),))
    other = _other(kind, found, event)
    there = log.place(other)
    name = log.host_name(int(log.host[other]))
    count = int(found.own[other])
    that = f"{there} ({name}:{count}, {_short(log.texts[other])!r})"
    events = (_happening(log, found, other), _happening(log, found, event))
    if kind == TWICE:
        return Story(kind, f"{this} has the same count as {that}", events)
    if kind == FILE:
        return Story(kind, f"{this} stands before {that} in the file, which happened before it", events, ((0, 1),))
    if kind == BACK:
        part = log.hosts[found.back[event]]
        had = log.clock(other)[part]
        words = f"{this} knows {plural(clock.get(part, 0), 'event')} of {part}, but {that}, before it, knows {had}"
        return Story(kind, words, events)
    theirs = log.clock(other)
    if kind == CYCLE:
        words = f"{this} happened before {that} and after it: each knows the other"
        return Story(kind, words, events, ((0, 1), (1, 0)))
    part = next(part for part, value in theirs.items() if clock.get(part, 0) < value)
    words = (
        f"{this} knows {that}, which knows {plural(theirs[part], 'event')} of {part}, "
        f"but it knows {clock.get(part, 0)} of them itself"
    )
    return Story(kind, words, events, ((0, 1),))


def _other(kind: str, found: Findings, event: int) -> int:
    others = {
        TWICE: found.twice,
        BACK: found.previous,
        INTRANSITIVE: found.transitive,
        CYCLE: found.cycle,
        FILE: found.overtaken,
    }
    return int(others[kind][event])


def _happening(log: ClockLog, found: Findings, event: int) -> Happening:
    host = log.host_name(int(log.host[event]))
    return Happening(host, f"{int(found.own[event])}: {_short(log.texts[event])}", log.place(event))


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _clock(clock: dict[str, int]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in clock.items()) + "}"
