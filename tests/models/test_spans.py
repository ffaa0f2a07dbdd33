"""Spans: what is early, and the constants that explain it, against the definitions on small traces."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antecast.importers.source import Place
from antecast.importers.span_table import SpanLog, Spans
from antecast.models.spans import judge, offsets, skew_of

Row = tuple[int, int, int, int]
"""Parent (its number, -1 for a root), service, start, length."""


def log_of(rows: list[Row]) -> SpanLog:
    spans = Spans()
    for number, (parent, service, start, length) in enumerate(rows):
        spans.add(
            Place("log", number + 1),
            trace="t",
            span=f"s{number}",
            parent="" if parent < 0 else f"s{parent}",
            service="xyz"[service],
            start=start,
            end=start + length,
        )
    return spans.finish("log")


@st.composite
def traces(draw: Any, *, wild: bool = False) -> list[Row]:
    count = draw(st.integers(1, 7))
    rows = []
    for number in range(count):
        parent = draw(st.integers(-1, count if wild else number - 1))
        rows.append((parent, draw(st.integers(0, 2)), draw(st.integers(0, 6)), draw(st.integers(0, 4))))
    return rows


@given(traces())
def test_early_children_are_those_that_start_before_their_parents(rows: list[Row]) -> None:
    verdict = judge(log_of(rows))
    early = [number for number, row in enumerate(rows) if row[0] >= 0 and row[2] < rows[row[0]][2]]
    found = [row["line"] - 1 for row in verdict.violations.to_pylist() if row["kind"] == "child before parent"]
    assert sorted(found) == early
    assert verdict.outcome == ("violated" if early else "sound")
    assert all(len(story.events) == 2 for story in verdict.stories)


@given(traces())
def test_constants_exist_exactly_if_a_search_finds_them(rows: list[Row]) -> None:
    """Every choice of offsets that could matter is tried: times are small whole numbers."""
    log = log_of(rows)
    edges = [(rows[row[0]], row) for row in rows if row[0] >= 0]
    between = [(parent, child) for parent, child in edges if parent[1] != child[1]]

    def explained(shift: tuple[int, ...]) -> bool:
        return all(child[2] + shift[child[1]] >= parent[2] + shift[parent[1]] for parent, child in between)

    found = offsets(skew_of(log))
    possible = any(explained((0, *shift)) for shift in product(range(-13, 14), repeat=2))
    assert (found is not None) == possible
    if found is not None:
        assert explained(tuple(found.get(name, 0) for name in "xyz"))


@given(traces(wild=True))
def test_cycles_and_missing_parents_are_never_sound(rows: list[Row]) -> None:
    verdict = judge(log_of(rows))
    parents = {number: row[0] for number, row in enumerate(rows)}

    def circles(number: int) -> bool:
        seen = set()
        while number in parents and number not in seen:
            seen.add(number)
            number = parents[number]
        return number in seen

    looping, lost = any(map(circles, parents)), any(parent >= len(rows) for parent in parents.values())
    assert (verdict.found["cycle"] > 0) == looping
    assert verdict.counts["missing_parents"] == sum(parent >= len(rows) for parent in parents.values())
    if looping or lost:
        assert verdict.outcome != "sound"
    for story in verdict.stories:
        if story.kind == "cycle":  # each is the parent of the next, and no shorter cycle goes through the first
            told = [event.place.line - 1 for event in story.events if event.place is not None]
            assert all(parents[child] == parent for parent, child in pairwise([*told, told[0]]))
            assert len(set(told)) == len(told)


@given(st.lists(st.sets(st.integers(0, 5), max_size=3), min_size=1, max_size=6))
def test_the_cycle_that_is_told_is_a_shortest_one(parents: list[set[int]]) -> None:
    """Commits have several parents. Every walk from every commit is tried."""
    log = Spans("commit")
    for number, some in enumerate(parents):
        links = [("", str(each)) for each in some]
        log.add(Place("log", number + 1), trace="", span=str(number), service="a", start=0, end=0, links=links)
    shortest = 0
    for start in range(len(parents)):
        reached = {start}
        for length in range(1, len(parents) + 1):
            reached = {above for each in reached for above in parents[each] if above < len(parents)}
            if start in reached and (not shortest or length < shortest):
                shortest = length
    verdict = judge(log.finish("log"))
    assert verdict.found["cycle"] == bool(shortest)
    assert [len(story.events) for story in verdict.stories if story.kind == "cycle"] == [shortest] * bool(shortest)


def test_the_bounds_on_skew_come_from_both_directions_and_from_servers() -> None:
    spans = Spans()
    common = {"trace": "t", "name": "n"}
    spans.add(Place("f", 1), span="a", service="x", start=100, end=200, kind="client", **common)
    spans.add(Place("f", 2), span="b", parent="a", service="y", start=90, end=150, kind="server", **common)
    spans.add(Place("f", 3), span="c", parent="b", service="x", start=130, end=140, kind="internal", **common)
    (row,) = judge(spans.finish("f")).tables["skew"].to_pylist()
    assert (row["service"], row["other"], row["calls"], row["early"]) == ("x", "y", 2, 1)
    assert (row["behind_at_least"], row["behind_at_most"]) == (10, 40)


def test_skew_that_explains_children_but_not_the_ends_of_servers_is_said_to() -> None:
    spans = Spans()
    spans.add(Place("f", 1), trace="t", span="a", service="x", start=100, end=200, kind="client")
    spans.add(Place("f", 2), trace="t", span="b", parent="a", service="y", start=90, end=250, kind="server")
    verdict = judge(spans.finish("f"))
    assert any(
        note.endswith("all early children, but not that servers end after their clients") for note in verdict.notes
    )
    assert any("by at least 10 ns, from 1 call" in note for note in verdict.notes), verdict.notes


def test_spans_may_link_to_each_other_and_to_their_children() -> None:
    spans = Spans()
    spans.add(Place("f", 1), trace="t", span="a", service="x", start=0, end=9, links=[("t", "b"), ("t", "c")])
    spans.add(Place("f", 2), trace="t", span="b", service="x", start=1, end=8, links=[("t", "a")])
    spans.add(Place("f", 3), trace="t", span="c", parent="a", service="x", start=2, end=3)
    assert judge(spans.finish("f")).outcome == "sound"


def test_an_early_child_in_the_service_of_its_parent_is_no_matter_of_skew() -> None:
    verdict = judge(log_of([(-1, 0, 5, 1), (0, 0, 3, 1)]), skew=10**9)
    assert verdict.outcome == "violated"
    assert any("no skew explains 1 of them" in note for note in verdict.notes)


def test_bounds_that_contradict_each_other_are_said_to() -> None:
    rows = [(-1, 0, 5, 1), (0, 1, 3, 1), (-1, 1, 5, 1), (2, 0, 3, 1)]
    assert any("no constant skew explains them all" in note for note in judge(log_of(rows)).notes)
