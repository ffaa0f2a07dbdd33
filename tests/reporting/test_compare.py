"""The page of a comparison: what is told apart, in which unit, and when its verdict is green."""

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from antecast.comparison.demands import Demands
from antecast.comparison.judgement import judge
from antecast.comparison.result import Comparison
from antecast.comparison.standings import CURVE, Standing
from antecast.history.confidence import Estimate
from antecast.reporting.compare import compare_page
from antecast.reporting.page import Chart, TableBlock
from antecast.reporting.plot import Dot

NAMES = [
    "vector",
    "vector-changes",
    "barrier",
    "delta",
    "epidemic-vector",
    "vcube",
    "vcube-single",
    "pc-broadcast",
]
NAMES += ["pc-broadcast-paper", "r-broadcast", "epidemic", "fifo"]


def around(mean, part=0.1):
    return Estimate(mean, mean * (1 - part), mean * (1 + part), 3)


def standing(name, latency_ns=2e8, size=64.0, **more):
    return Standing(
        name=name,
        promises=("causal",),
        runs=3,
        deliveries=1000,
        elsewhere=900,
        delivered=Estimate(1.0, 1.0, 1.0, 3),
        violation_share=Estimate(0.0, 0.0, 0.0, 3),
        latency_mean=around(latency_ns),
        latency_p50=around(latency_ns / 300),
        latency_p99=around(latency_ns),
        control_bytes=around(size),
        control_bytes_frame=around(size),
        frames=around(3.0),
        messages_mean=around(5.0),
        messages_peak=around(20.0),
        entries_mean=around(5.0),
        entries_peak=around(9.0),
        **more,
    )


def comparison(tmp_path, standings, **demands):
    rows = [
        {"protocol": each.name, "seed": None, "share": share, "latency_ns": share * each.latency_p99.mean}
        for each in standings
        for share in (0.25, 0.5, 1.0)
    ]
    return Comparison(
        name="a network",
        folder=tmp_path,
        seeds=(1, 2, 3),
        standings=tuple(standings),
        excluded=(),
        judgement=judge(standings, Demands(**demands)),
        curves=pa.Table.from_pylist(rows, CURVE),
        offered={each.name: (9, 9, 9) for each in standings},
        same_offer=True,
        answers=False,
    )


def page_of(*args, **demands):
    return compare_page(comparison(*args, **demands), network={}, command="antecast compare a.toml")


def charts(page):
    return [block for each in page.sections for block in each.blocks if isinstance(block, Chart)]


def tables(page):
    return [block for each in page.sections for block in each.blocks if isinstance(block, TableBlock)]


def test_latency_has_one_unit_in_all_texts_tables_and_axes(tmp_path):
    page = page_of(tmp_path, [standing("quick", 2e6), standing("slow", 5e9)], latency=1e9)
    assert " ms" in page.verdict and not re.search(r"\d (s|µs)\b", " ".join([page.verdict, *page.lead]))
    limits = next(section for section in page.sections if section.title == "Who does not qualify")
    assert "5,000 ± 500 ms" in limits.blocks[0].rows[0][1]
    latencies = tables(page)[2]
    cells = [cell for row in latencies.rows for cell in row[1:4]]
    assert {cell.split()[-1] for cell in cells} == {"ms"}
    for chart in charts(page):
        assert chart.plots[0].x.title.endswith("(ms)")
        assert " s," not in chart.alternative and " µs" not in chart.alternative


def test_every_protocol_has_a_look_of_its_own(tmp_path):
    page = page_of(tmp_path, [standing(name) for name in NAMES])
    (over_time,) = [chart for chart in charts(page) if chart.title == "Deliveries over time"]
    looks = [(each.colour, each.dash) for each in over_time.plots[0].series]
    assert len(set(looks)) == len(looks) == len(NAMES)
    assert len({colour for colour, _ in looks}) == 8


def test_marks_of_two_kinds_in_one_place_are_both_seen(tmp_path):
    page = page_of(tmp_path, [standing("vector"), replace(standing("fifo"), promises=()), standing("barrier")])
    dots = [mark for mark in charts(page)[0].plots[0].marks if isinstance(mark, Dot)]
    above = {dot.key: dot.size for dot in dots}
    assert (
        dots[-1].key == page.verdict.split()[1].rstrip(":") and above["fifo"] > above["vector"] == above["barrier"]
    )


def test_violations_are_compared_as_shares(tmp_path):
    page = page_of(tmp_path, [standing("vector"), standing("fifo", early=5, late=3)])
    (order,) = [section for section in page.sections if section.title == "Causal order"]
    row = next(row for row in order.blocks[0].rows if row[0] == "fifo")
    assert row[3:5] == ["0.50 %", "0.30 %"]


KEPT = {"promises": ()}
FAILED = {"failed": 1, "error": "ran longer than 1 s"}
BROKEN = {"broken": ("causal",), "early": 2}


@pytest.mark.parametrize(
    "other, tone",
    [
        ({}, "good"),
        (KEPT, "good"),
        (FAILED, "plain"),
        (BROKEN, "bad"),
    ],
    ids=["all well", "another only kept order", "another failed", "another broke its promise"],
)
def test_the_verdict_is_green_only_if_all_is_well(tmp_path, other, tone):
    assert page_of(tmp_path, [standing("vector"), replace(standing("other", 9e8), **other)]).tone == tone


def test_order_that_is_kept_but_not_promised_is_not_green(tmp_path):
    page = page_of(tmp_path, [replace(standing("fifo"), promises=())])
    assert page.tone == "plain"


def test_no_protocol_at_all_is_bad(tmp_path):
    assert page_of(tmp_path, [standing("vector", 2e8)], latency=1.0).tone == "bad"
