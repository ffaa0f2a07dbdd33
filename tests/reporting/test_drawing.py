"""Plots as they are drawn: ticks and texts keep apart, marks stay inside, and moments far away squeeze nothing."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antecast.reporting import figures
from antecast.reporting.drawing import HALF, NARROW, WIDE, draw
from antecast.reporting.labels import Box, Wanted, place
from antecast.reporting.order import by_size
from antecast.reporting.plot import COLOURS, Area, Axis, Dot, Label, Line, Plot, looks
from antecast.reporting.scale import text_width
from antecast.reporting.timeline import Timeline
from antecast.reporting.units import Unit

TEXT = re.compile(r'<text[^>]*class="tick" x="([\d.-]+)" y="([\d.-]+)"[^>]*text-anchor="middle">([^<]*)</text>')
number = st.floats(-1e7, 1e7, allow_nan=False)


@given(low=number, width=st.floats(1e-6, 1e7), log=st.booleans(), share=st.booleans())
@example(low=1234567.0, width=1e-3, log=False, share=False)
@example(low=99999.2734375, width=1.0, log=False, share=False)
@pytest.mark.parametrize("pixels", [WIDE, HALF, NARROW])
def test_ticks_never_run_into_each_other_or_out_of_the_picture(pixels, low, width, log, share):
    low = abs(low) + 1e-3 if log else low
    marks = [Line(points=[(low, 0.0), (low + width, 1.0)])]
    svg = draw(Plot(x=Axis(log=log, share=share, zero=False), y=Axis(), marks=marks), pixels)
    ticks = [(float(x), text) for x, _, text in TEXT.findall(svg)]
    spans = [(x - text_width(text) / 2, x + text_width(text) / 2) for x, text in ticks]
    assert all(right < left for (_, right), (left, _) in pairwise(spans)), ticks
    assert len({text for _, text in ticks}) == len(ticks)  # no two ticks are told alike
    assert all(left >= -0.1 and right <= pixels + 0.1 for left, right in spans), ticks


places = st.lists(
    st.tuples(st.floats(0, 700), st.floats(0, 400), st.sampled_from(["pc-broadcast", "vector", "vcube-single"])),
    max_size=14,
)


@given(places)
@example([(350.0, 200.0, "pc-broadcast-paper")] * 14)
def test_labels_never_cover_each_other_and_stay_inside(marks):
    room = Box(0, 0, 700, 400)
    boxes = place([Wanted(x, y, text_width(text)) for x, y, text in marks], room)
    for i, box in enumerate(boxes):
        assert box is not None and box.inside(room)
        assert not any(box.meets(other) for other in boxes[:i])


def test_a_label_that_is_alone_stays_beside_its_mark():
    (box,) = place([Wanted(100, 100, 50)], Box(0, 0, 700, 400))
    assert box.left == 109 and (box.top + box.bottom) / 2 == 100


def test_a_label_keeps_clear_of_lines_where_it_can():
    right, left = (100.0, 100.0, 300.0, 100.0), (100.0, 100.0, 0.0, 100.0)
    room = Box(0, 0, 700, 400)
    (box,) = place([Wanted(100, 100, 50)], room, lines=[right, left])
    assert not box.crossed(right) and not box.crossed(left)
    hedge = [(0.0, y, 700.0, y) for y in range(0, 400, 5)]
    assert place([Wanted(100, 100, 50)], room, lines=hedge) == place([Wanted(100, 100, 50)], room)


@pytest.mark.parametrize(
    ("line", "crossed"),
    [
        ((0, 15, 50, 15), True),
        ((15, 0, 15, 50), True),
        ((0, 0, 30, 30), True),
        ((0, 5, 50, 5), False),
        ((0, 0, 9, 9), False),
        ((0, 30, 12, 22), False),
    ],
)
def test_a_line_goes_through_a_box_or_not(line, crossed):
    assert Box(10, 10, 20, 20).crossed(line) is crossed


def test_a_label_that_had_to_move_is_led_back_to_its_mark():
    marks = [Dot(x=1, y=1), *(Label(x=1, y=1, text=f"protocol {i}") for i in range(9))]
    svg = draw(Plot(x=Axis(), y=Axis(), marks=marks), WIDE)
    assert svg.count('class="label"') == 9 and 0 < svg.count('class="leader"') < 9


@given(
    st.lists(st.tuples(st.floats(0, 50), st.floats(0, 30), st.floats(0, 30)), min_size=2, max_size=12),
)
def test_bands_of_counts_never_fall_below_zero(rows):
    """Student's interval around 1, 0 and 0 goes below zero; what is drawn does not."""
    table = [
        {"x": i, "mean": mean, "low": mean - down, "high": mean + up} for i, (mean, down, up) in enumerate(rows)
    ]
    plot = figures.curves(table, Axis(), Axis(), ("x", "mean"), band=("low", "high"))
    (band,) = [mark for mark in plot.marks if isinstance(mark, Area)]
    assert all(low >= 0 for _, low, _ in band.points)
    assert [high for _, _, high in band.points] == [row["high"] for row in table]
    named = [row | {"value": "a"} for row in table]
    spans = [
        mark for mark in figures.intervals(named, Axis(names=["a"]), Axis()).marks if not isinstance(mark, Dot)
    ]
    assert all(span.x >= 0 for span in spans)


def test_bands_of_what_can_be_negative_stay_as_they_are():
    rows = [{"x": 0, "mean": -1.0, "low": -2.0, "high": 0.5}]
    plot = figures.curves(rows, Axis(), Axis(), ("x", "mean"), band=("low", "high"))
    assert plot.marks[0].points == [(0, -2.0, 0.5)]


def test_one_slow_delivery_does_not_squeeze_the_others_into_a_corner():
    assert not figures.time_axis("ms", [0.0, 1.0, 2.0, 9.0]).log
    axis = figures.time_axis("ms", [0.0, 1.0, 2.0, 3.0, 2000.0])
    rows = [{"x": x, "y": i / 4} for i, x in enumerate((0.0, 1.0, 2.0, 3.0, 2000.0))]
    svg = draw(figures.curves(rows, axis, Axis(), ("x", "y")), WIDE)
    (path,) = re.findall(r'class="line"[^>]*d="([^"]*)"', svg)
    at = [float(pair.split()[0]) for pair in re.split("[ML]", path)[1:]]
    assert at[0] < 0 and (at[3] - at[1]) / WIDE > 0.1  # zero lies off the axis


# Moments.


@pytest.mark.parametrize("far", [1e3, -1e3])
def test_one_moment_far_away_does_not_squeeze_the_others(far):
    line = Timeline.of([0.1, 0.2, 0.35, 0.5, 0.6, far])
    near = [line.place(moment) for moment in (0.1, 0.6)]
    assert (near[1] - near[0]) / (line.high - line.low) > 0.7
    ((_, left_out),) = line.breaks
    assert left_out == pytest.approx(abs(far), rel=0.01)


def test_moments_that_are_alike_are_drawn_to_scale():
    line = Timeline.of([0.0, 1.0, 2.0, 3.5, 4.0])
    assert line.breaks == [] and [line.place(each) for each in (0.0, 2.5, 4.0)] == [0.0, 2.5, 4.0]


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=30))
def test_moments_keep_their_order_and_ticks_lie_on_the_line(moments):
    line = Timeline.of(moments)
    drawn = [line.place(each) for each in sorted(moments)]
    assert drawn == sorted(drawn) and line.low <= drawn[0] and drawn[-1] <= line.high
    assert sum(length for _, length in line.breaks) <= max(moments) - min(moments)
    for at, text in line.ticks(Unit(10**9, "s")):
        assert line.low - 1e-6 <= at <= line.high + 0.05 * line.high and text


# Names and looks.


@pytest.mark.parametrize(
    "names, order",
    [
        (["120'", "20'", "none", "40'", "5'"], ["5'", "20'", "40'", "120'", "none"]),
        (["20min", "5min", "100s"], ["100s", "5min", "20min"]),
        (["ε = 30", "ε = 5"], ["ε = 5", "ε = 30"]),
        (["R-broadcast, 1,000", "PC-broadcast, 500"], ["R-broadcast, 1,000", "PC-broadcast, 500"]),
        (["vector", "fifo"], ["vector", "fifo"]),
        (["10", "9.5", "100"], ["9.5", "10", "100"]),
    ],
)
def test_names_with_sizes_stand_in_the_order_of_these(names, order):
    assert by_size(names) == order


def test_more_series_than_colours_differ_in_their_dashes():
    found = looks([str(i) for i in range(4 * len(COLOURS))])
    assert len({(each.colour, each.dash) for each in found}) == len(found)


def test_names_that_are_too_long_stand_above_their_rows():
    names = Axis(names=["a protocol with a name that is longer than a third of a phone", "b"])
    svg = draw(Plot(x=Axis(), y=names, marks=[Dot(x=1, y=0), Dot(x=2, y=1)]), NARROW)
    (left,) = re.findall(r'class="tick" x="([\d.]+)"[^>]*>a protocol', svg)
    assert float(left) < 10


def test_a_long_line_keeps_its_peaks_and_loses_its_bulk():
    points = [(float(i), 100.0 if i == 7_777 else float(i % 3)) for i in range(20_000)]
    svg = draw(Plot(x=Axis(), y=Axis(), marks=[Line(points=points)]), NARROW)
    assert len(svg) < 40_000
    (path,) = re.findall(r'class="line"[^>]*d="([^"]*)"', svg)
    heights = [float(pair.split()[1]) for pair in re.split("[ML]", path)[1:]]
    assert min(heights) < 20 < sorted(heights)[1]
