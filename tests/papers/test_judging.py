"""How figures are judged: shares by their smaller side, by limits that are argued for; and an honest headline."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from antecast import papers
from antecast.core import ConfigurationError, InputError
from antecast.core.settings import read_settings
from antecast.history.confidence import Estimate
from antecast.papers import STUDIES
from antecast.papers.findings import Mark, Results, Tolerance, as_table, figure, from_table, headline, statement
from antecast.papers.layout import markdown, summary
from antecast.papers.paper import Paper, last_digit, load_paper, seconds
from antecast.reporting.study import rebuild, study_page

SHARES = st.floats(0, 1)
TOLERANCES = st.floats(0, 0.5).map(lambda share: Tolerance(share=share, why="drawn by the test"))


def judged(paper, ours, tolerance, unit="share", low=None, high=None):
    estimate = Estimate(ours, low, high, 1 if low is None else 5)
    return figure("T", "q", "", unit, paper=paper, ours=estimate, tolerance=tolerance)


# Shares.

SEVENTH = Tolerance(share=0.15, why="what every figure was judged by once")


@pytest.mark.parametrize(
    ("paper", "ours", "mark"),
    [
        (1.0, 0.9982, Mark.DIFFERS),  # 99.82 % is not 100 %
        (0.9519, 0.9883, Mark.DIFFERS),  # 4.81 % and 1.17 % are missing
        (0.0481, 0.0117, Mark.DIFFERS),
        (0.9519, 0.9560, Mark.AGREES),
        (1.0, 1.0, Mark.AGREES),
        (0.0, 0.0, Mark.AGREES),
        (0.5, 0.57, Mark.AGREES),
        (0.5, 0.58, Mark.DIFFERS),
    ],
)
def test_a_share_near_one_is_judged_by_what_is_missing(paper, ours, mark):
    assert judged(paper, ours, SEVENTH).mark is mark


@given(SHARES, SHARES, TOLERANCES)
def test_a_share_and_its_complement_have_the_same_mark(paper, ours, tolerance):
    limit = tolerance.around(paper, "share")
    assume(abs(abs(ours - paper) - limit) > 1e-6)  # on the edge rounding decides
    assert judged(paper, ours, tolerance).mark is judged(1 - paper, 1 - ours, tolerance).mark


@given(SHARES, SHARES, TOLERANCES)
def test_a_share_that_agrees_misses_about_as_much(paper, ours, tolerance):
    if judged(paper, ours, tolerance).mark is Mark.AGREES:
        for theirs, own in ((paper, ours), (1 - paper, 1 - ours)):
            assert abs(own - theirs) <= tolerance.share * theirs + 1e-6


@given(SHARES, st.integers(1, 10**6))
def test_a_sample_is_known_to_two_standard_deviations(paper, size):
    tolerance = Tolerance(sample=size, why="drawn by the test")
    by_share = tolerance.around(paper, "share")
    assert by_share == pytest.approx(2 * (paper * (1 - paper) / size) ** 0.5, abs=1e-12)
    assert tolerance.around(paper * size, "number") == pytest.approx(by_share * size, rel=1e-6, abs=1e-6)


# Intervals.


def test_a_wide_interval_agrees_with_nothing():
    tolerance = load_paper("cellular").tolerance("Fig. 6", "delivery delay")
    found = figure(
        "Fig. 6", "delay", "", "s", paper=2.0, ours=Estimate(2.8, 1.4, 4.3, 6), tolerance=tolerance, reading=0.5
    )
    assert found.mark is Mark.DIFFERS
    assert found.open  # more runs might bring it nearer


@given(st.floats(0.1, 100), st.floats(0.1, 100), TOLERANCES, st.floats(0, 1000), st.floats(0, 1000))
def test_an_interval_decides_nothing(paper, ours, tolerance, below, above):
    plain = judged(paper, ours, tolerance, "number")
    wide = judged(paper, ours, tolerance, "number", low=ours - below, high=ours + above)
    assert wide.mark is plain.mark
    assert not plain.open


def test_a_mark_is_open_where_the_interval_reaches_the_other_one():
    def is_open(ours, low, high):
        return judged(100, ours, SEVENTH, "number", low=low, high=high).open

    assert not is_open(100, 90, 110)
    assert is_open(100, 80, 120)
    assert is_open(130, 110, 150)
    assert not is_open(130, 120, 140)
    assert is_open(130, 60, 200)


# Counts and times.


def test_no_packets_of_two_agree_with_next_to_none():
    """VCube, Fig. 8 with 8 nodes: both are shown as 0."""
    paper = load_paper("vcube")
    item, quantity = "Fig. 8", "packets of two with 8 nodes"
    for packets in (0.0, 1 / 30, 0.3):
        assert paper.figure(item, quantity, "8", Estimate(packets)).mark is Mark.AGREES
    assert paper.figure(item, quantity, "8", Estimate(0.6)).mark is Mark.DIFFERS


@given(st.integers(0, 10**6), st.floats(0, 10**6), TOLERANCES)
def test_counts_that_are_shown_alike_agree(paper, ours, tolerance):
    if abs(ours - paper) < 0.5:
        assert judged(paper, ours, tolerance, "count").mark is Mark.AGREES


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_a_printed_time_is_known_to_half_of_its_last_digit(hours, minutes, rest):
    text = f"{hours}h{minutes}'{rest}\""
    assert last_digit(text) == 1
    assert last_digit(f"{hours}h{minutes}'") == 60
    assert seconds(f'{rest}.25"') - rest == pytest.approx(0.25)
    assert last_digit(f'{rest}.25"') == pytest.approx(0.01)


# What a file must say.


def paper_with(**quantity):
    item = {"title": "", "quantities": {"q": {"unit": "number", "values": {"a": 1}} | quantity}}
    return read_settings({"title": "", "authors": "", "items": {"T": item}}, Paper)


ARGUED = {"share": 0.1, "why": "its own runs differ by so much"}


@pytest.mark.parametrize(
    ("quantity", "problem"),
    [
        ({}, "'q' has values and no tolerance"),
        ({"tolerance": {"share": 0.1}}, "'why' is missing"),
        ({"tolerance": {"share": 0.1, "why": ""}}, "needs an argument in words"),
        ({"tolerance": {"share": 0.1, "why": "because"}}, "needs an argument in words"),
        ({"tolerance": 0.15}, "a table"),
        ({"tolerance": {"share": -0.1, "why": "its runs differ"}}, "0"),
        ({"tolerance": ARGUED, "limits": {"few": {"at": 3, "why": "a few are three"}}}, "those of a statement"),
        ({"unit": "statement", "values": {}, "claim": "few", "limits": {"few": {"at": 3}}}, "'why' is missing"),
        ({"unit": "statement", "values": {}, "claim": "few", "limits": {"few": {"at": 3, "why": " "}}}, "words"),
        ({"unit": "statement", "values": {}, "claim": "few", "words": ["few"]}, "'few' is not among the words"),
        ({"unit": "statement", "claim": "few"}, "no values"),
    ],
)
def test_a_limit_without_an_argument_is_refused(quantity, problem):
    with pytest.raises(ConfigurationError, match=problem):
        paper_with(**quantity)


def test_a_limit_with_an_argument_is_taken():
    assert paper_with(tolerance=ARGUED).tolerance("T", "q").share == 0.1


@pytest.mark.parametrize("study", STUDIES)
def test_every_number_of_a_paper_can_be_judged(study):
    paper = load_paper(study)
    for item, what in paper.items.items():
        for quantity, each in what.quantities.items():
            for setting in each.values:
                value = paper.value(item, quantity, setting)
                found = paper.figure(item, quantity, setting, Estimate(value))
                assert found.mark is Mark.AGREES
                assert found.why
                far = paper.figure(
                    item, quantity, setting, Estimate(value + 2 * found.within + 1e-3 * abs(value) + 1e-6)
                )
                assert far.mark is Mark.DIFFERS


CHOSEN = {
    "cellular/judgement": {0.95, 25.0, 30},  # a level of confidence, a load, the time between faults
    "observer/judgement": {4, 20, 40, 60, 80, 100},  # the values of c, and how much is listed
    "observer/statements": set(),
    "preventive/judgement": {1e-9},  # an equality of floats
    "vcube/judgement": set(),
}
"""Numbers of the programs that judge, beside nothing, one and two, which limit nothing."""


@pytest.mark.parametrize("module", CHOSEN)
def test_no_limit_of_a_judgement_stands_in_the_program(module):
    """What something is compared with, or a constant of the module, comes from the paper's file."""
    source = Path(papers.__file__).parent / f"{module}.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    named = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    found = [
        f"line {node.lineno}: {each.value}"
        for node in (*compared, *named)
        for each in ast.walk(node)
        if isinstance(each, ast.Constant)
        and isinstance(each.value, int | float)
        and each.value not in {0, 1, 2} | CHOSEN[module]
    ]
    assert found == []


# Points of plots.


def chart_with(*points):
    chart = {"kind": "line", "x": "t", "y": "kept", "series": "who", "x_title": "", "y_title": ""}
    item = {"title": "", "chart": chart, "points": list(points)}
    return read_settings({"title": "", "authors": "", "items": {"F": item}}, Paper)


def test_points_are_rows_of_the_chart():
    points = [{"who": "a", "t": 1, "kept": 2}, {"who": "a", "kept": 3}, {"who": "b", "t": 5, "from": 1, "to": 2}]
    assert chart_with(*points).points("F") == points
    with pytest.raises(ConfigurationError, match="no column 'when'"):
        chart_with({"when": 1, "kept": 2})
    with pytest.raises(ConfigurationError, match="a range"):
        chart_with({"who": "a", "t": 1})
    with pytest.raises(ConfigurationError, match="the item has none"):
        item = {"title": "", "points": [{"t": 1}]}
        read_settings({"title": "", "authors": "", "items": {"F": item}}, Paper)


@pytest.mark.parametrize("study", STUDIES)
def test_points_are_numbers_that_the_paper_gives_elsewhere_in_the_file(study):
    paper = load_paper(study)
    known = {0.0}
    for item, what in paper.items.items():
        for quantity, each in what.quantities.items():
            known |= {paper.value(item, quantity, setting) for setting in each.values}
    for item, what in paper.items.items():
        for point in what.points:
            for name in {what.chart.y, "from", "to"} & point.keys():
                number = float(point[name])
                assert number in known or number / 100 in known, (item, point)  # shares are drawn in per cent


# The headline.

MARKS = st.lists(st.sampled_from(Mark), max_size=5)


def findings_with(marks):
    one = statement("Fig. 1", "size", "", claim="grows", holds=True, observed="grows")
    return [replace(one, mark=mark, reason="a reason") for mark in marks]


@given(MARKS)
def test_a_headline_never_says_more_than_its_least_mark(marks):
    found = headline(findings_with(marks))
    assert (found.mark is Mark.AGREES) == (Mark.AGREES in marks and Mark.DIFFERS not in marks)
    assert (found.mark is Mark.DIFFERS) == (Mark.DIFFERS in marks)
    assert sum(found.marks.values()) == len(marks)
    for mark, words in ((Mark.AGREES, "agree"), (Mark.DIFFERS, "differ")):
        assert (f"{marks.count(mark)} {words}" in found.text) == (mark in marks)
    assert ("ours only" in found.text) == (Mark.OURS_ONLY in marks)


def test_a_page_is_green_only_if_nothing_differs(tmp_path):
    def tone(*marks):
        findings = [replace(each, item="Fig. 7") for each in findings_with(marks)]
        return study_page([(Results(study="preventive", findings=findings), tmp_path)], command="").tone

    assert tone(Mark.AGREES, Mark.OURS_ONLY) == "good"
    assert tone(*[Mark.AGREES] * 50, Mark.DIFFERS) != "good"
    assert tone(Mark.OURS_ONLY) != "good"


def test_the_headline_stands_above_the_tables_and_says_what_more_runs_could_change():
    paper = load_paper("preventive")
    found = [paper.figure("Fig. 7", "path of R-broadcast", "1,000", Estimate(2.75, 2.6, 2.9, 5))]
    page = markdown(paper, Results(study="preventive", findings=found))
    assert page.splitlines()[2] == "Of 1 figures and statements 1 agrees. More runs could change 1 of these marks."
    assert "2.74 ± 0.04" in page
    assert "- Limit of path of R-broadcast: the smallest difference that the figure shows" in page


def test_the_papers_only_have_a_column_where_there_are_any():
    paper = load_paper("preventive")
    all_run = [replace(each, item="Fig. 7") for each in findings_with([Mark.AGREES])]
    left_out = [replace(each, item="Fig. 7") for each in findings_with([Mark.PAPER_ONLY])]
    assert summary(paper, all_run).header[3:] == ("agrees", "differs", "ours only")
    assert summary(paper, all_run + left_out).header[3:] == ("agrees", "differs", "ours only", "paper only")


# Results of another version.


def test_findings_of_another_version_are_refused_in_one_line(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = as_table(findings_with([Mark.AGREES]))
    with pytest.raises(ValueError, match="without 'within'"):
        from_table(table.drop_columns(["within"]))
    place = table.column_names.index("mark")
    old = table.set_column(place, "mark", pa.array(["cannot be compared"]))
    (tmp_path / "results.md").write_text("# preventive: x\n\n## y\n", encoding="utf-8")
    pq.write_table(old, tmp_path / "findings.parquet")
    with pytest.raises(InputError, match=r"findings\.parquet: findings of another version, with the mark 'cannot"):
        rebuild(tmp_path)
