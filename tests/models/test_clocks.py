"""Vector clocks: the verdict is that of the definitions, taken literally, on small logs of any kind."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sound_logs import clock_events

from antecast.importers.clock_events import ClockEvents, ClockLog
from antecast.importers.source import Place
from antecast.models import clocks
from antecast.models.clocks import concurrent_with, judge

Event = tuple[str, dict[str, int]]


def log_of(events: list[Event], executions: list[int] | None = None) -> ClockLog:
    found = ClockEvents()
    for number, (host, clock) in enumerate(events):
        if executions is not None and number and executions[number] != executions[number - 1]:
            found.next_execution(f"run {executions[number]}")
        found.add(host, clock, f"e{number}", Place("log", number + 1))
    return found.finish()


def own(event: Event) -> int:
    return event[1].get(event[0], 0)


def before(f: Event, e: Event) -> bool:
    """What the clocks say: e knows f."""
    return e[1].get(f[0], 0) >= own(f)


def below(f: Event, e: Event) -> bool:
    return all(e[1].get(name, 0) >= value for name, value in f[1].items())


def broken_pairwise(events: list[Event]) -> bool:
    """Whether some event or two break a rule, without what a log must have up to its end."""
    if any(not own(event) for event in events):
        return True
    for f, e in combinations(events, 2):
        if f[0] == e[0] and own(f) == own(e):
            return True
        for one, other in ((f, e), (e, f)):
            if before(one, other) and not below(one, other):
                return True
        if before(f, e) and before(e, f):
            return True
    return False


def from_nowhere(events: list[Event]) -> bool:
    last: dict[str, int] = {}
    for host, clock in events:
        last[host] = max(last.get(host, 0), clock.get(host, 0))
    return any(
        value > last.get(name, 0) for host, clock in events for name, value in clock.items() if name != host
    )


def points_into_gap(events: list[Event]) -> bool:
    there = {(host, clock.get(host, 0)) for host, clock in events}
    known = ((name, value) for host, clock in events for name, value in clock.items() if name != host and value)
    return any(each not in there for each in known)


hosts = st.sampled_from("abc")
wild = st.lists(st.tuples(hosts, st.dictionaries(hosts, st.integers(0, 3), max_size=3)), min_size=1, max_size=6)


@st.composite
def nearly_sound(draw: Any) -> list[Event]:
    """A sound log with one number changed, or some events lost."""
    events = [
        (host, dict(clock))
        for host, clock, _ in clock_events(draw(st.integers(2, 9)), 3, draw(st.integers(0, 400)))
    ]
    kept = [event for event in events if draw(st.integers(0, 5))] or events
    if draw(st.booleans()):
        _, clock = draw(st.sampled_from(kept))
        name = draw(st.sampled_from(["h0", "h1", "h2"]))
        clock[name] = max(0, clock.get(name, 0) + draw(st.integers(-2, 2)))
    return kept


@given(st.one_of(wild, nearly_sound()))
def test_the_verdict_is_that_of_the_definitions(events: list[Event]) -> None:
    verdict = judge(log_of(events))
    expected = "inconclusive" if points_into_gap(events) else "sound"
    if broken_pairwise(events) or from_nowhere(events):
        expected = "violated"
    assert verdict.outcome == expected, events


@given(st.one_of(wild, nearly_sound()))
def test_what_is_listed_is_real_and_no_witness_is_larger_than_it_must_be(events: list[Event]) -> None:
    """A witness of two events breaks a rule by itself, and neither of its events does so alone."""
    verdict = judge(log_of(events))
    for story in verdict.stories:
        told = [events[event.place.line - 1] for event in story.events if event.place is not None]
        if story.kind == clocks.NOWHERE:
            assert len(told) == 1 and from_nowhere(events)
        elif story.kind == clocks.NO_OWN:
            assert len(told) == 1 and not own(told[0])
        else:
            assert len(told) == 2 and broken_pairwise(told)
            assert all(not broken_pairwise([each]) or not own(each) for each in told)


@given(st.integers(1, 30), st.integers(0, 500))
def test_concurrent_pairs_are_counted_and_named(count: int, seed: int) -> None:
    events = [(host, clock) for host, clock, _ in clock_events(count, 4, seed)]
    log = log_of(events)
    verdict = judge(log)
    pairs = [
        (f, e)
        for f, e in combinations(range(count), 2)
        if not before(events[f], events[e]) and not before(events[e], events[f])
    ]
    assert verdict.counts["concurrent_pairs"] == len(pairs)
    assert concurrent_with(log, 0) == [other for one, other in pairs if one == 0]
    assert any("order of the file is causal" in note for note in verdict.notes)


@given(st.permutations(range(8)))
def test_the_order_of_the_file_is_causal_exactly_if_no_event_stands_before_its_past(order: list[int]) -> None:
    events = [(host, clock) for host, clock, _ in clock_events(8, 3, 5)]
    shuffled = [events[each] for each in order]
    late = [
        place
        for place, event in enumerate(shuffled)
        if any(before(other, event) for other in shuffled[place + 1 :])
    ]
    verdict = judge(log_of(shuffled), ordered=True)
    assert [row["line"] - 1 for row in verdict.violations.to_pylist()] == late


def test_gaps_are_named_with_the_line_behind_them() -> None:
    verdict = judge(log_of([("a", {"a": 1}), ("a", {"a": 5}), ("b", {"b": 2})]))
    assert verdict.outcome == "sound"
    assert verdict.tables["gaps"].to_pylist() == [
        {"host": "a", "first": 2, "last": 4, "file": "log", "line": 2},
        {"host": "b", "first": 1, "last": 1, "file": "log", "line": 3},
    ]
    assert "2 gaps in the counts of hosts, the first before log:2: a has no event 2 to 4" in verdict.notes


def test_executions_do_not_know_each_other() -> None:
    events: list[Event] = [("a", {"a": 1}), ("b", {"a": 1, "b": 1}), ("a", {"a": 1}), ("b", {"a": 1, "b": 1})]
    assert judge(log_of(events, [0, 0, 1, 1])).outcome == "sound"
    assert judge(log_of(events)).found[clocks.TWICE] == 2


def test_a_host_that_may_be_incomplete_leaves_the_verdict_open() -> None:
    events: list[Event] = [("a", {"a": 1, "b": 7}), ("b", {"b": 1})]
    assert judge(log_of(events)).outcome == "violated"
    assert judge(log_of(events), complete=["a"]).outcome == "inconclusive"
    assert judge(log_of(events), complete=["a", "b"]).outcome == "violated"


@pytest.mark.parametrize("cells", [1, 50, 1 << 20])
def test_large_logs_are_looked_at_in_parts(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "_CELLS", cells)
    events = [(host, dict(clock)) for host, clock, _ in clock_events(60, 5, 3)]
    assert judge(log_of(events)).outcome == "sound"
    host, clock = events[50]
    clock.update({name: 0 for name in clock if name != host})
    assert [row["line"] for row in judge(log_of(events)).violations.to_pylist()][:1] == [51]
