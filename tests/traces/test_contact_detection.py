"""Contacts from movement: exact to the nanosecond, however the work is divided."""

from __future__ import annotations

import itertools
from decimal import ROUND_FLOOR, Decimal, getcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import ConfigurationError
from antecast.traces import read
from antecast.traces.contact_detection import (
    BrokenTrajectories,
    find_contacts,
    make_plan,
    read_segments,
    search,
    survey,
)
from antecast.traces.contact_kernels import cut
from antecast.traces.schema import CONTACTS, TRAJECTORIES, node_order
from antecast.traces.statistics import contact_statistics, most_at_once, movement_statistics

S = 10**9
SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "mobility" / "ostermalm_003_sample.tr.gz"

Segment = tuple[str, int, float, float, int, float, float]


def table(segments: list[Segment]) -> pa.Table:
    columns = zip(*segments, strict=True) if segments else [()] * len(TRAJECTORIES)
    types = (pa.string(), *TRAJECTORIES.types[1:])
    return pa.table(
        [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)], TRAJECTORIES.names
    )


def contacts(segments: list[Segment], reach: float, **options: int) -> list[tuple[str, str, int, int]]:
    return [tuple(row.values()) for row in find_contacts(table(segments), reach, **options).to_pylist()]


def brute_force(segments: list[Segment], reach: float) -> list[tuple[str, str, int, int]]:
    """Every segment with every other, in fractions and sixty digits."""
    getcontext().prec = 60
    found = []
    for p, q in itertools.combinations(segments, 2):
        since, until = max(p[1], q[1]), min(p[4], q[4])
        if p[0] == q[0] or since >= until:
            continue

        def apart(t: int, p: Segment = p, q: Segment = q) -> list[Fraction]:
            at = []
            for axis in (2, 3):
                one, other = (
                    Fraction(each[axis])
                    + (Fraction(each[axis + 3]) - Fraction(each[axis])) * Fraction(t - each[1], each[4] - each[1])
                    for each in (p, q)
                )
                at.append(one - other)
            return at

        (x, y), (x1, y1) = apart(since), apart(until)
        vx, vy = (x1 - x) / (until - since), (y1 - y) / (until - since)
        a, b, c = vx**2 + vy**2, x * vx + y * vy, x**2 + y**2 - Fraction(reach) ** 2
        if a == 0:
            start, end = (since, until) if c <= 0 else (0, 0)
        elif b * b <= a * c:
            continue
        else:
            root = decimal(b * b - a * c).sqrt()
            ends = [(sign * root - decimal(b)) / decimal(a) + Decimal("0.5") for sign in (-1, 1)]
            start, end = (since + int(each.to_integral_value(ROUND_FLOOR)) for each in ends)
            start, end = max(start, since), min(end, until)
        if start < end:
            found.append((*sorted((p[0], q[0]), key=node_order), start, end))
    joined: list[tuple[str, str, int, int]] = []
    for a_, b_, start, end in sorted(found):
        if joined and joined[-1][:2] == (a_, b_) and start <= joined[-1][3]:
            start, end = joined[-1][2], max(end, joined.pop()[3])
        joined.append((a_, b_, start, end))
    return sorted(joined, key=lambda row: (row[2], row[3], node_order(row[0]), node_order(row[1])))


def decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


@st.composite
def movements(draw: st.DrawFn) -> list[Segment]:
    """Up to six nodes that walk, run, stand, jump and go away, on a lattice or anywhere, in seconds or in ns."""
    place = draw(
        st.sampled_from([st.integers(-40, 40).map(float), st.floats(-100, 100), st.floats(6.7e6, 6.7e6 + 100)])
    )
    unit = draw(st.sampled_from([1, 1000, S]))
    segments: list[Segment] = []
    for number in range(draw(st.integers(2, 6))):
        t, x, y = draw(st.integers(0, 20)) * unit, draw(place), draw(place)
        for _ in range(draw(st.integers(1, 6))):
            kind = draw(st.sampled_from(["go", "go", "stand", "jump", "away"]))
            span = draw(st.integers(1, 30)) * unit + draw(st.integers(0, 3))
            if kind == "away":
                t += span
                continue
            if kind == "jump":
                x, y = draw(place), draw(place)
            to = (x, y) if kind == "stand" else (draw(place), draw(place))
            segments.append((f"n{number}", t, x, y, t + span, *to))
            t, (x, y) = t + span, to
    return segments


@given(movements(), st.sampled_from([1.0, 5.0, 10.0, 25.0, 33.3, 500.0]), st.sampled_from([1000, 7, 2]))
def test_contacts_are_those_of_brute_force_to_the_nanosecond(segments, reach, a_part):
    assert contacts(segments, reach, a_part=a_part) == brute_force(segments, reach)


def test_many_nodes_in_many_parts_find_what_brute_force_finds():
    draw = np.random.default_rng(3)
    segments: list[Segment] = []
    for node in range(40):
        corners = draw.uniform(0, 1500, (12, 2))
        for leg, ((x, y), (x1, y1)) in enumerate(itertools.pairwise(corners.tolist())):
            segments.append((f"{node}", leg * 60 * S + node, x, y, (leg + 1) * 60 * S + node, x1, y1))
    expected = brute_force(segments, 120.0)
    assert len(expected) > 500
    for a_part in (10_000, 100, 9):
        assert contacts(segments, 120.0, a_part=a_part) == expected


def standing(node: str, x: float, y: float = 0.0, since: int = 0, until: int = 100 * S) -> Segment:
    return (node, since, x, y, until, x, y)


def passing(node: str, y: float, *, speed: float = 10.0) -> Segment:
    """From 500 m west of the origin to 500 m east of it, y metres to the north."""
    return (node, 0, -500.0, y, round(1000 / speed * S), 500.0, y)


def test_nodes_that_stand_are_in_contact_up_to_the_range_and_no_further():
    segments = [standing("a", 0.0), standing("b", 200.0), standing("c", np.nextafter(200.0, 300.0))]
    assert contacts(segments, 200.0) == [("a", "b", 0, 100 * S), ("b", "c", 0, 100 * S)]


def test_a_node_that_passes_is_in_contact_between_two_exact_instants():
    assert contacts([standing("a", 0.0), passing("b", 120.0)], 200.0) == [("a", "b", 34 * S, 66 * S)]


def test_touching_the_range_for_an_instant_is_no_contact():
    assert contacts([standing("a", 0.0), passing("b", 200.0)], 200.0) == []
    assert len(contacts([standing("a", 0.0), passing("b", float(np.nextafter(200.0, 0.0)))], 200.0)) == 1


def test_moving_side_by_side_at_exactly_the_range_is_a_contact():
    third = (1 / 3, 2 / 3)  # what cannot be written exactly in a double is still the same for both
    pair = [("a", 0, *third, 7 * S, 91.7, 12.3), ("b", 0, third[0], third[1] + 32, 7 * S, 91.7, 12.3 + 32)]
    assert contacts(pair, 32.0) == brute_force(pair, 32.0)


def test_nodes_that_appear_and_disappear_in_range_begin_and_end_there():
    segments = [
        standing("a", 0.0),
        standing("b", 10.0, since=7, until=20),
        standing("b", 10.0, since=21, until=30),
    ]
    assert contacts(segments, 50.0) == [("a", "b", 7, 20), ("a", "b", 21, 30)]


def test_a_contact_goes_on_over_any_number_of_segments():
    steps = [("b", t, float(t % 7), 0.0, t + 1, float((t + 1) % 7), 0.0) for t in range(1000)]
    for a_part in (10_000, 10):
        assert contacts([standing("a", 0.0), *steps], 50.0, a_part=a_part) == [("a", "b", 0, 1000)]


def test_a_segment_without_length_in_time_is_nowhere():
    assert contacts([standing("a", 0.0), standing("b", 0.0, since=5, until=5)], 50.0) == []


def test_names_are_kept_and_ordered_as_numbers():
    segments = [standing(name, 0.0) for name in ("bus10", "bus9", "10", "9")]
    found = find_contacts(table(segments), 1.0)
    assert found.schema.equals(CONTACTS, check_metadata=True)
    pairs = list(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True))
    assert pairs == list(itertools.combinations(["9", "10", "bus9", "bus10"], 2))


def test_no_movement_makes_no_contacts():
    assert find_contacts(table([]), 10.0).schema == CONTACTS


def compared(segments: list[Segment], reach: float) -> int:
    arrays = read_segments(table(segments))
    return sum(part.compared for part in search(arrays, make_plan(reach, survey(arrays), a_part=1000)))


def test_nodes_that_are_never_near_are_never_compared():
    far = [standing(f"{x}-{y}", 1000.0 * x, 1000.0 * y) for x in range(20) for y in range(20)]
    assert compared(far, 200.0) == 0
    same_place_later = [standing(f"{k}", 0.0, since=k * S, until=(k + 1) * S) for k in range(100)]
    assert compared(same_place_later, 200.0) == 0


def test_standing_for_a_year_is_one_piece_and_a_fast_segment_a_few():
    year = 365 * 86400 * S
    plan = (0, year, 200.0, 400.0, -(1 << 31), -(1 << 31), 1 << 32)
    rows = cut(*read_segments(table([standing("a", 0.0, until=year)])).motion, *plan)
    assert len(rows) <= 4
    flight = [("a", 0, 0.0, 0.0, 3600 * S, 400_000.0, 400_000.0)]
    rows = cut(*read_segments(table(flight)).motion, *plan)
    assert len(rows) < 10 * 400_000 * 2**0.5 / 400  # along its way, not in the square around it


def test_a_small_range_does_not_cut_long_segments_to_shreds():
    arrays = read_segments(table([passing(f"{k}", float(k)) for k in range(10)]))
    plan = make_plan(1e-6, survey(arrays), a_part=1000)
    assert plan.cell == 250.0


@pytest.mark.parametrize("reach", [0.0, -1.0, float("nan"), float("inf")])
def test_a_range_must_be_above_zero(reach):
    with pytest.raises(ConfigurationError, match="--range: expected a range in metres above zero"):
        find_contacts(table([]), reach)


@pytest.mark.parametrize(
    ("segment", "problem"),
    [
        (("b", 5, 0.0, 0.0, 4, 0.0, 0.0), "row 2, node b: the segment ends before it starts"),
        (("b", 5, 0.0, float("nan"), 6, 0.0, 0.0), "row 2, node b: the segment has no finite coordinates"),
        (("b", 5, 0.0, None, 6, 0.0, 0.0), "column 'y0' holds nulls"),
        ((None, 5, 0.0, 0.0, 6, 0.0, 0.0), "column 'node' holds nulls"),
    ],
)
def test_what_cannot_be_used_is_refused(segment, problem):
    with pytest.raises(BrokenTrajectories, match=problem):
        find_contacts(table([standing("a", 0.0), segment]), 10.0)
    with pytest.raises(BrokenTrajectories, match="no column 't0'"):
        find_contacts(pa.table({"node": ["a"]}), 10.0)


def test_statistics_count_stays_and_contacts():
    assert most_at_once(np.array([0, 5, 5, 9]), np.array([5, 9, 7, 12])) == 2
    segments = [standing("a", 0.0, until=10), standing("a", 1.0, since=10, until=20), standing("b", 0.0, since=15)]
    moved = movement_statistics(table(segments))
    assert (moved.nodes, moved.at_once, moved.start, moved.end) == (2, 2, 0, 100 * S)
    assert (moved.activity.min, moved.activity.max) == (20, 100 * S - 15)
    met = contact_statistics(find_contacts(table(segments), 50.0))
    assert (met.contacts, met.duration.min, met.duration.mean) == (1, 5, 5)
    assert movement_statistics(table([])).nodes == contact_statistics(find_contacts(table([]), 1.0)).contacts == 0


@pytest.mark.skipif(not SAMPLE.exists(), reason="the Östermalm sample is not here")
def test_the_oestermalm_sample_has_the_contacts_it_is_known_for():
    met = contact_statistics(find_contacts(read(SAMPLE).table, 50.0))
    assert met.contacts == 1089
    assert round(met.duration.mean / S, 1) == 55.5
    assert round(met.duration.max / S, 1) == 398.4
