"""Ours beside the paper's: when two figures agree, and how a table shows that they do not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import ConfigurationError
from antecast.core.settings import read_settings
from antecast.history.confidence import Estimate
from antecast.papers import STUDIES
from antecast.papers.findings import (
    UNEXPLAINED,
    Mark,
    Results,
    Tolerance,
    as_table,
    count_marks,
    figure,
    from_table,
    statement,
)
from antecast.papers.full import FILE, _notes, as_csv, full_marks
from antecast.papers.layout import lay_out, markdown, shown, summary
from antecast.papers.paper import Paper, load_paper, seconds

SEVENTH = Tolerance(share=0.15, why="an example for tests")


def of(paper, ours, **more):
    return figure("Table I", "nodes", "", "count", paper=paper, ours=ours, **{"tolerance": SEVENTH} | more)


def test_a_figure_within_the_tolerance_agrees():
    assert of(100, Estimate(115)).mark is Mark.AGREES
    assert of(100, Estimate(115.1)).mark is Mark.DIFFERS
    tenth = Tolerance(share=0.1, why="an example for tests")
    assert of(100, Estimate(89), tolerance=tenth).mark is Mark.DIFFERS
    assert of(100, Estimate(111), tolerance=tenth).within == pytest.approx(10)


def test_without_a_number_on_both_sides_there_is_nothing_to_compare():
    assert of(None, Estimate(3.0)).mark is Mark.OURS_ONLY
    assert of(3.0, None, reason="it was not run").mark is Mark.PAPER_ONLY
    assert of(3.0, None, reason="it was not run").reason == "it was not run"
    with pytest.raises(ValueError, match="without a tolerance"):
        of(3.0, Estimate(3.0), tolerance=None)


def test_what_differs_has_a_reason_or_says_that_nobody_knows_one():
    assert of(100, Estimate(50)).reason == UNEXPLAINED
    assert of(100, Estimate(50), reason="half the nodes").reason == "half the nodes"
    assert of(100, Estimate(100), reason="half the nodes").reason == ""
    said = {"claim": "grows", "observed": "falls"}
    assert statement("Fig. 1", "size", "", holds=False, **said).reason == UNEXPLAINED
    assert statement("Fig. 1", "size", "", holds=True, **said).mark is Mark.AGREES


def test_zero_in_the_paper_agrees_with_zero_alone():
    assert of(0, Estimate(0)).mark is Mark.AGREES
    assert of(0, Estimate(1)).mark is Mark.DIFFERS
    assert of(0, Estimate(1)).off is None


def test_an_interval_of_one_run_is_no_interval():
    assert Estimate.of([4.0]) == Estimate(4.0)
    with pytest.raises(ValueError, match="at least one"):
        Estimate.of([])


PAPER = read_settings(
    {
        "title": "A paper",
        "authors": "A. Author",
        "items": {
            "Table I": {
                "title": "counts",
                "layout": "grid",
                "tolerance": {"share": 0.15, "why": "an example for tests"},
                "quantities": {
                    "sent": {"unit": "count", "values": {"a": 10, "b": 20}, "reasons": {"b": "b is special"}},
                    "lost": {"unit": "share", "values": {"a": 0.5}},
                },
            },
            "Table II": {
                "title": "times",
                "layout": "spread",
                "tolerance": {"share": 0.15, "why": "an example for tests"},
                "quantities": {
                    "delay, min": {"unit": "s", "values": {"a": "4 ms"}},
                    "delay, max": {"unit": "s", "values": {"a": "1h02'"}},
                },
            },
            "Fig. 1": {"title": "a claim", "quantities": {"size": {"unit": "statement", "claim": "it grows"}}},
        },
    },
    Paper,
)


def found():
    return [
        PAPER.statement("Fig. 1", "size", "", holds=True, observed="from 1 to 7"),
        PAPER.figure("Table I", "sent", "a", Estimate(10)),
        PAPER.figure("Table I", "sent", "b", Estimate(40)),
        PAPER.figure("Table I", "lost", "a", Estimate(0.51)),
        PAPER.figure("Table II", "delay, min", "a", Estimate(0.004)),
        PAPER.figure("Table II", "delay, max", "a", Estimate(3720)),
    ]


def test_tables_come_in_the_papers_order_and_layout():
    one, two, three = lay_out(PAPER, found())
    assert one.header == ("", "a", "b")
    assert one.rows == (("sent", "10 (10)", "40 (20) ≠1"), ("lost", "51.00 % (50.00 %)", ""))
    assert one.notes == ("1. b is special", "- Limit of sent, lost: an example for tests")
    assert two.rows == (("a", "ours", "4 ms / 1h02'"), ("", "paper", "4 ms / 1h02'"))
    assert three.rows == (("size", "", "it grows", "from 1 to 7", "agrees"),)


def test_the_summary_counts_the_marks_of_each_item():
    rows = {row[0]: row[2:] for row in summary(PAPER, found()).rows}
    assert rows == {"Table I": ("3", "2", "1", ""), "Table II": ("2", "2", "", ""), "Fig. 1": ("1", "1", "", "")}
    assert count_marks(found()) == {Mark.AGREES: 5, Mark.DIFFERS: 1, Mark.OURS_ONLY: 0, Mark.PAPER_ONLY: 0}


def test_the_page_and_the_table_hold_every_finding():
    page = markdown(PAPER, Results(study="demo", findings=found(), notes=["One run."]))
    assert "- One run." in page
    assert "40 (20) ≠1" in page
    assert "1. b is special" in page
    table = as_table(found())
    assert table.num_rows == 6
    assert table["mark"].to_pylist().count("differs") == 1


@pytest.mark.parametrize("study", STUDIES)
def test_the_papers_figures_can_be_read(study):
    paper = load_paper(study)
    assert paper.title
    for name, item in paper.items.items():
        for quantity, what in item.quantities.items():
            assert (what.unit == "statement") == bool(what.claim), (name, quantity)
            for setting in what.values:
                assert paper.value(name, quantity, setting) is not None


def test_a_mistake_in_a_papers_file_names_its_field():
    with pytest.raises(ConfigurationError, match="layout"):
        read_settings({"title": "", "authors": "", "items": {"T": {"title": "", "layout": "pie"}}}, Paper)


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59))
def test_times_are_read_as_the_papers_write_them(hours, minutes, rest):
    assert seconds(f"{hours}h{minutes}'{rest}\"") == hours * 3600 + minutes * 60 + rest


@pytest.mark.parametrize("text", ["", "soon", "5 minutes", "3' 4' 5'"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(ValueError, match="expected a time"):
        seconds(text)


def test_figures_are_shown_for_people():
    assert shown(1234567, "count") == "1,234,567"
    assert shown(3725, "s") == "1h02'"
    assert shown(-5, "s") == '-5"'
    assert shown(0.00012, "number") == "0.00012"


def test_findings_survive_a_table():
    findings = [
        figure("Table I", "nodes", "", "count", paper=60, ours=Estimate(61.0), tolerance=SEVENTH),
        statement("Fig. 1", "shape", "x", claim="rises", holds=False, observed="falls"),
    ]
    assert from_table(as_table(findings)) == findings


def finding(quantity, mark):
    return replace(statement("Fig. 1", quantity, "", claim="", holds=True, observed=""), mark=mark)


def test_a_quick_run_says_which_marks_are_not_those_of_the_full_size():
    full = {("Fig. 1", name, ""): Mark.AGREES for name in ("a", "b", "c")}
    findings = [finding("a", Mark.AGREES), finding("b", Mark.DIFFERS), finding("d", Mark.AGREES)]
    changed, alone = _notes(findings, full, "it is small")
    assert changed.startswith(
        "1 of 2 marks are not those of the full size, since it is small: Fig. 1, b (differs,"
    )
    assert alone.startswith("1 figures")
    assert _notes(findings[:1], {("Fig. 1", "a", ""): Mark.AGREES}, "") == [
        "All 1 marks are those of the full size."
    ]


def test_what_a_quick_run_leaves_out_is_no_other_mark():
    full = {("Table I", "nodes", "1024"): Mark.DIFFERS}
    left_out = figure("Table I", "nodes", "1024", "count", paper=60, ours=None, reason="not run at the quick size")
    assert _notes([left_out], full, "") == [
        "All 0 marks are those of the full size.",
        "1 figures are made at the full size only.",
    ]


def test_marks_are_read_back_from_what_was_written(tmp_path, monkeypatch):
    findings = [finding("a, b", Mark.AGREES), finding('"c"', Mark.OURS_ONLY)]
    monkeypatch.setattr("antecast.papers.full.resources.files", lambda package: tmp_path)
    assert full_marks("barrier") == {}
    (tmp_path / "barrier").mkdir()
    (tmp_path / "barrier" / FILE).write_text(as_csv(findings))
    assert full_marks("barrier") == {("Fig. 1", "a, b", ""): Mark.AGREES, ("Fig. 1", '"c"', ""): Mark.OURS_ONLY}
