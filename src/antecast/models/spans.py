"""The model *spans*: does the time of a trace agree with its causes, and which clock skew explains it if not?

A span is caused by its parent, so it cannot start before it. By the clocks that wrote the log, these are wrong:

- `child before parent`: a span starts before the span that called it;
- `link before its target`: a span ends before one that it links to has started;
- `response before request`: a span ends before it starts, or a client has its response before the server starts;
- `same id twice`: two spans of a trace have one id;
- `cycle`: a span is its own ancestor.

Clocks of two services may differ. If every service's clock is off by a constant, the times of parents and children
bound how far: the clock of the child's service is behind by at least the lead of its earliest child. `skew` has
these bounds for each pair of services, and whether constants exist that explain all of the log: differences that
contradict each other, or an early child in the service of its parent, are no matter of skew.

A parent that is not in the log leaves its children unjudged, and so does the target of a link: the verdict is
inconclusive at best.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecast.importers.span_table import SpanLog
from antecast.models.judgement import VIOLATIONS, Happening, Judgement, Story, sampled
from antecast.text.wording import plural, time_text

CHILD, LINK, RESPONSE, TWICE, CYCLE, FILE = KINDS = (
    "child before parent",
    "link before its target",
    "response before request",
    "same id twice",
    "cycle",
    "file out of order",
)

SKEW = pa.schema(
    [
        ("service", pa.string()),
        ("other", pa.string()),
        ("calls", pa.int64()),
        ("early", pa.int64()),
        ("behind_at_least", pa.int64()),
        ("behind_at_most", pa.int64()),
    ]
)
"""For each pair of services that call each other: by how many nanoseconds the clock of `other` is behind that of
`service`. Negative means ahead; null means that the log does not bound it."""

Ints = NDArray[np.int64]

Skew: TypeAlias = dict[tuple[str, str], tuple[int, int, int, int]]
"""By caller and called: calls, early ones, the largest lead of a child, the least time from the end of a server's
span to that of its client (`_UNBOUND` where no such pair is known)."""

_UNBOUND = np.iinfo(np.int64).max


def judge(log: SpanLog, *, limit: int = 10_000, skew: int = 0, ordered: bool = False) -> Judgement:
    """Judge the times of spans. `skew` is how far, in ns, the clocks of two services may differ unreproached."""
    there = log.parent >= 0
    parent, child, link = log.parent[there], log.child[there], log.link[there]
    apart = log.service[parent] != log.service[child]
    allowed = np.where(apart, skew, 0)
    lead = _minus(log.start[parent], log.start[child])
    early = ~link & (lead > allowed)
    unlinked = link & (_minus(log.start[parent], log.end[child]) > allowed)
    calls = ~link & (log.kind[parent] == 1) & (log.kind[child] == 2)
    answered = calls & (_minus(log.start[child], log.end[parent]) > allowed)
    reversed_ = np.flatnonzero(log.end < log.start)
    swapped = child > parent if log.ordered else child < parent
    # A link says that its target has started before the span ends, so spans may link to each other.
    called = ~link | (log.noun != "span")
    cycle = _cycle(log, parent[called], child[called])
    pairs: dict[str, list[tuple[int, int]]] = {
        CHILD: _pairs(parent, child, early),
        LINK: _pairs(parent, child, unlinked),
        RESPONSE: [(-1, each) for each in reversed_.tolist()] + _pairs(parent, child, answered),
        TWICE: list(log.twins),
        CYCLE: [(cycle[-1], cycle[0])] if cycle else [],
        FILE: _pairs(parent, child, swapped & ordered),
    }
    rows, stories = [], []
    for kind, found in pairs.items():
        told = set(sampled(min(len(found), limit)))
        for number, (other, span) in enumerate(found[:limit]):
            story = _story(kind, log, other, span, cycle)
            rows.append(_row(story, log, other, span))
            if number in told:
                stories.append(story)
    lost = log.child[~there & ~log.link] if log.noun == "span" else log.child[~there]
    astray = log.child[~there & log.link] if log.noun == "span" else lost[:0]
    clocks = skew_of(log)
    bounds = _table(clocks)
    services = len(np.unique(log.service))
    by = "service" if log.noun == "span" else "committer"
    traces = f" of {plural(len(np.unique(log.trace)), 'trace')}" if log.noun == "span" else ""
    return Judgement(
        model="spans",
        scope=f"{plural(len(log), log.noun)}{traces} by {plural(services, by)}",
        counts={
            f"{log.noun}s": len(log),
            "traces": len(np.unique(log.trace)),
            f"{by}s": services,
            "parents": len(parent),
            "missing_parents": len(lost),
        },
        found={kind: len(found) for kind, found in pairs.items()},
        unsettled={
            "have a parent that is not in the log": len(lost),
            "link to a span that is not in the log": len(astray),
        },
        violations=pa.Table.from_pylist(rows, schema=VIOLATIONS),
        stories=tuple(stories),
        notes=tuple(_notes(log, lost, astray, clocks, pairs, swapped, (parent, child), skew)),
        tables={"skew": pa.Table.from_pylist(bounds, schema=SKEW)},
    )


def _minus(left: Ints, right: Ints) -> Ints:
    """The difference; where 64 bits do not hold it, the largest number that they do, with its sign."""
    found = left - right
    over = (left < 0) != (right < 0)
    over &= (found < 0) != (left < 0)
    return np.where(over, np.where(left < 0, -_UNBOUND, _UNBOUND), found)


def _pairs(parent: Ints, child: Ints, chosen: NDArray[np.bool_]) -> list[tuple[int, int]]:
    return list(zip(parent[chosen].tolist(), child[chosen].tolist(), strict=True))


def _cycle(log: SpanLog, parent: Ints, child: Ints) -> list[int]:
    """A shortest cycle among those through the first spans that are on one; each causes the next. Or nothing."""
    waiting = np.bincount(child, minlength=len(log))
    children: dict[int, list[int]] = defaultdict(list)
    for cause, effect in zip(parent.tolist(), child.tolist(), strict=True):
        children[cause].append(effect)
    queue = deque(np.flatnonzero(waiting == 0).tolist())
    left = waiting.tolist()
    while queue:
        for effect in children.get(queue.popleft(), ()):
            left[effect] -= 1
            if not left[effect]:
                queue.append(effect)
    stuck = [span for span, count in enumerate(left) if count]
    best: list[int] = []
    for span in stuck[:_CYCLES]:
        found = _way_back(span, children)
        if found and (not best or len(found) < len(best)):
            best = found
    return best


_CYCLES = 64
"""Spans on or behind cycles from which a shortest one is looked for."""


def _way_back(span: int, children: Mapping[int, list[int]]) -> list[int]:
    before, queue = {span: span}, deque([span])
    while queue:
        each = queue.popleft()
        for effect in children.get(each, ()):
            if effect == span:
                way = [each]
                while way[-1] != span:
                    way.append(before[way[-1]])
                return way[::-1]
            if effect not in before:
                before[effect] = each
                queue.append(effect)
    return []


def skew_of(log: SpanLog) -> Skew:
    """What calls from service to service say of the clocks."""
    there = log.parent >= 0
    parent, child, link = log.parent[there], log.child[there], log.link[there]
    calls = ~link & (log.service[parent] != log.service[child])
    parent, child = parent[calls], child[calls]
    keys = log.service[parent].astype(np.int64) * len(log.services) + log.service[child]
    lead, tail = _minus(log.start[parent], log.start[child]), _minus(log.end[parent], log.end[child])
    tail = np.where((log.kind[parent] == 1) & (log.kind[child] == 2), tail, _UNBOUND)
    order = np.argsort(keys, kind="stable")
    names, starts = np.unique(keys[order], return_index=True)
    skew: Skew = {}
    if not len(keys):
        return skew
    for key, some in zip(names.tolist(), np.split(order, starts[1:]), strict=True):
        one, other = divmod(key, len(log.services))
        early = int(np.count_nonzero(lead[some] > 0))
        skew[log.services[one], log.services[other]] = (
            len(some), early, int(lead[some].max()), int(tail[some].min())
        )  # fmt: skip
    return skew


def _table(skew: Skew) -> list[dict[str, Any]]:
    """A row for each pair of services, those with early children first."""
    rows = []
    for (one, other), (calls, early, lead, tail) in skew.items():
        back = skew.get((other, one))
        if back is not None and (one > other if early == back[1] else early < back[1]):
            continue  # the row of the other direction says it
        least = [lead] + ([-back[3]] if back is not None and back[3] != _UNBOUND else [])
        most = ([tail] if tail != _UNBOUND else []) + ([-back[2]] if back is not None else [])
        rows.append(
            {
                "service": one,
                "other": other,
                "calls": calls + (back[0] if back is not None else 0),
                "early": early + (back[1] if back is not None else 0),
                "behind_at_least": max(least),
                "behind_at_most": min(most, default=None),
            }
        )
    return sorted(rows, key=lambda row: (-row["early"], row["service"], row["other"]))


def offsets(skew: Skew, *, ends: bool = False) -> dict[str, int] | None:
    """What to add to each service's clock so that no child is early; None if no constants do it. With `ends`, no
    server ends after its client either.

    Difference constraints, solved by the method of Bellman and Ford: x(called) - x(caller) is at least the largest
    lead, and at most the least time from the end of a server to that of its client.
    """
    place = dict.fromkeys((name for pair in skew for name in pair), 0)
    for _ in range(len(place) + 1):
        changed = False
        for (caller, called), (_, _, lead, tail) in skew.items():
            if place[called] < place[caller] + lead:
                place[called] = place[caller] + lead
                changed = True
            if ends and tail != _UNBOUND and place[caller] < place[called] - tail:
                place[caller] = place[called] - tail
                changed = True
        if not changed:
            return place
    return None


def _notes(
    log: SpanLog,
    lost: Ints,
    astray: Ints,
    clocks: Skew,
    pairs: Mapping[str, list[tuple[int, int]]],
    swapped: NDArray[np.bool_],
    edges: tuple[Ints, Ints],
    skew: int,
) -> list[str]:
    notes = []
    early = pairs[CHILD]
    if early:
        inside = sum(log.service[parent] == log.service[child] for parent, child in early)
        for row in [row for row in _table(clocks) if row["early"]][:5]:
            notes.append(_bound_words(row))
        if inside:
            notes.append(f"no skew explains {inside:,} of them: child and parent have one clock")
        elif offsets(clocks) is None:
            notes.append(
                "no constant skew explains them all: the bounds between the services contradict each other"
            )
        else:
            words = "constant clock skew between the services explains all early children"
            ends = offsets(clocks, ends=True) is not None
            notes.append(words if ends else f"{words}, but not that servers end after their clients")
    for some, verb in ((lost, "has the parent"), (astray, "links to")):
        for first in some[:1].tolist():
            missing = (log.child == first) & (log.parent < 0) & (log.link == (verb == "links to"))
            edge = int(np.flatnonzero(missing if missing.any() else (log.child == first) & (log.parent < 0))[0])
            words = f"{log.place(first)} {verb} {log.parent_ids[edge]}, which is not in the log"
            notes.append(f"{words}; the file that has it would settle it")
    if log.ordered and len(edges[0]):
        wrong = np.flatnonzero(swapped)
        if not len(wrong):
            notes.append("the order of the file is causal, newest first")
        else:
            parent, child = int(edges[0][wrong[0]]), int(edges[1][wrong[0]])
            notes.append(
                f"the order of the file is not causal: {log.place(parent)} stands before its child "
                f"{log.place(child)}"
            )
    notes.append(
        f"assumed: clocks of services differ by at most {time_text(skew)}" if skew else "assumed: one clock"
    )
    notes.append(f"assumed: the log has every {log.noun}")
    return notes


def _bound_words(row: Mapping[str, Any]) -> str:
    words = f"the clock of {row['other']} is behind that of {row['service']} by at least "
    words += time_text(row["behind_at_least"])
    if row["behind_at_most"] is not None and row["behind_at_most"] >= row["behind_at_least"]:
        words += f" and at most {time_text(row['behind_at_most'])}"
    return f"{words}, from {plural(row['calls'], 'call')}, {row['early']:,} of them early"


def _row(story: Story, log: SpanLog, other: int, span: int) -> dict[str, object]:
    place, there = log.place(span), None if other < 0 else log.place(other)
    return {
        "kind": story.kind,
        "file": place.file,
        "line": place.line,
        "node": log.services[log.service[span]],
        "words": story.words,
        "other_file": None if there is None else there.file,
        "other_line": None if there is None else there.line,
    }


def _story(kind: str, log: SpanLog, other: int, span: int, cycle: list[int]) -> Story:
    """What is wrong with a span, told with the other that shows it."""
    noun, this = log.noun, _name(log, span)
    if other < 0:
        gap = int(log.start[span]) - int(log.end[span])
        events = (_happening(log, span, "end"), _happening(log, span, "start"))
        return Story(kind, f"{this} ends {time_text(gap)} before it starts", events)
    that = _name(log, other)
    if kind == TWICE:
        return Story(kind, f"{this} has the id of {that}", (_happening(log, other, ""), _happening(log, span, "")))
    if kind == CYCLE:
        arrows = tuple((place, (place + 1) % len(cycle)) for place in range(len(cycle)))
        words = f"{this} is its own ancestor: {' → '.join(log.ids[each] for each in [*cycle, cycle[0]])}"
        return Story(kind, words, tuple(_happening(log, each, "") for each in cycle), arrows)
    if kind == FILE:
        words = f"{this} and its parent {that} stand in the wrong order"
        return Story(kind, words, (_happening(log, other, ""), _happening(log, span, "")), ((0, 1),))
    if kind == RESPONSE:
        gap = int(log.start[span]) - int(log.end[other])
        words = f"{this} starts {time_text(gap)} after its client {that} has the response"
        return Story(kind, words, (_happening(log, other, "end"), _happening(log, span, "start")), ((1, 0),))
    if kind == LINK:
        gap = int(log.start[other]) - int(log.end[span])
        words = f"{this} ends {time_text(gap)} before {that}, to which it links, has started"
        return Story(kind, words, (_happening(log, span, "end"), _happening(log, other, "start")), ((1, 0),))
    gap = int(log.start[other]) - int(log.start[span])
    verb = "starts" if noun == "span" else "is dated"
    words = f"{this} {verb} {time_text(gap)} before its parent {that}"
    return Story(kind, words, (_happening(log, span, "start"), _happening(log, other, "start")), ((1, 0),))


def _name(log: SpanLog, span: int) -> str:
    service, name = log.services[log.service[span]], log.names[span]
    inside = ", ".join(each for each in (service, repr(_short(name)) if name else "") if each)
    return f"{log.place(span)} ({log.noun} {log.ids[span][:16]}{', ' if inside else ''}{inside})"


def _happening(log: SpanLog, span: int, verb: str) -> Happening:
    what = _short(log.names[span]) or log.ids[span][:16]
    return Happening(log.services[log.service[span]], f"{verb} {what}".strip(), log.place(span))


def _short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
