"""A page holds what it was given, is safe from the names in it, loads nothing, and is small."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from antecast.core import OutputError
from antecast.history.confidence import Estimate
from antecast.papers import STUDIES
from antecast.papers.findings import Results
from antecast.papers.paper import Chart as Look
from antecast.papers.paper import load_paper
from antecast.reporting.charts import MOST_POINTS, chart
from antecast.reporting.page import MANY_SECTIONS, Chart, Code, Page, Section, TableBlock, Text, render, write
from antecast.reporting.plot import Dot
from antecast.reporting.study import study_page

LOOK = Look(kind="line", x="x", y="y", series="who", x_title="seconds", y_title="share")
POINTS = pa.table({"x": [0.0, 1.0, 0.0, 1.0], "y": [0.0, 1.0, 0.5, 0.7], "who": ["a", "a", "<b>", "<b>"]})


def page(**more):
    plots, note = chart(POINTS, LOOK)
    sections = [
        Section(
            "Protocols", [TableBlock("Costs", ("name", "bytes"), [("<script>alert(1)</script>", "7")], ["a note"])]
        ),
        Section("Latency", [Chart("A curve", plots, "It rises.", note), Text("x → y", pre=True)]),
    ]
    facts = {"command": "antecast run 'a&b.toml'"}
    return Page(title="A run", verdict="causal", tone="good", sections=sections, facts=facts, **more)


def test_a_page_holds_everything_it_was_given():
    html = render(page())
    for text in ("A run", "causal", "Protocols", "Costs", "a note", "It rises.", "x → y", "a&amp;b.toml"):
        assert text in html


def test_names_cannot_break_out_of_a_page():
    html = render(page())
    assert "<script>alert(1)" not in html and "<b>" not in html.partition("<main>")[2]
    assert "&lt;b&gt;" in html


def test_a_page_loads_nothing():
    html = re.sub(r"(<script[^>]*>).*?</script>", r"\1", render(page()), flags=re.DOTALL)
    assert html.count("<script") == 1
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(?!data:)", html)


def test_a_page_with_two_small_charts_is_small():
    """It was 900 kB, the runtime of the charts."""
    plots, note = chart(POINTS, LOOK)
    two = [Chart("A curve", plots, "It rises.", note, small=True)] * 2
    assert len(render(Page(title="Two", verdict="plain", sections=[Section("Both", two)]))) < 30_000


def test_every_chart_is_there_without_a_script_and_with_words():
    html = render(page()).partition("<script")[0]
    assert html.count('role="img" aria-label="A curve: It rises."') == 2  # drawn for a wide and for a narrow place
    assert html.count('class="line"') == 4


def test_a_command_is_whole_and_can_be_copied():
    html = render(Page(title="A", verdict="plain", sections=[Section("B", [Code("antecast run a.toml")])]))
    assert '<code>antecast run a.toml</code></pre><button type="button" class="copy">' in html


@pytest.mark.parametrize("count, folded", [(MANY_SECTIONS, 0), (MANY_SECTIONS + 1, MANY_SECTIONS + 1)])
def test_pages_of_many_sections_are_folded_and_have_an_index(count, folded):
    sections = [Section(f"Part {i}", [Text("words")], gist=f"{i} agree") for i in range(count)]
    html = render(Page(title="Many", verdict="plain", sections=sections))
    assert html.count("<details") == folded and html.count('<details class="section" id="s1" open') == bool(folded)
    assert len(re.findall(r'<a href="#s\d+"', html)) == count
    assert ("0 agree</span></li>" in html) == bool(folded)


def test_large_tables_are_thinned_and_the_chart_says_so():
    many = 3 * MOST_POINTS
    table = pa.table({"x": list(range(many)), "y": [0.5] * many, "who": ["a"] * many})
    (plot,), note = chart(table, LOOK)
    assert note == f"Every 3rd of {many:,} rows is shown."
    assert len(plot.marks[0].points) == MOST_POINTS


@pytest.mark.parametrize("kind", ["line", "points", "bars", "cells", "spans"])
def test_every_kind_of_chart_can_be_made(kind):
    table = POINTS.append_column("end", pa.array([1.0, 2.0, 1.0, 2.0])).append_column("n", pa.array([1, 2, 3, 4]))
    look = Look(
        kind=kind,
        x="x",
        y="y",
        x_title="x",
        y_title="y",
        end="end" if kind == "spans" else "",
        weight="n" if kind == "cells" else "",
        facet="who",
    )
    plots, _ = chart(table, look)
    assert [plot.title for plot in plots] == ["a", "<b>"] and all(plot.marks for plot in plots)


def test_a_study_becomes_a_page_with_its_findings_and_charts():
    paper = load_paper("barrier")
    findings = [
        paper.figure("Table II", "received", "20'", Estimate(50_000)),
        paper.figure("Table II", "received", "10'", Estimate(99_999)),
    ]
    curve = pa.table({"lifetime": ["20'"] * 2, "metric": ["ltcy"] * 2, "share": [0.0, 1.0], "seconds": [0.0, 9.0]})
    results = Results(study="barrier", findings=findings, figures={"fig-5": curve}, notes=["One network."])
    made = study_page([(results, Path("reproductions/barrier"))], command="antecast reproduce barrier")
    html = render(made)
    assert made.verdict == "Of 2 figures and statements 1 agrees, 1 differs."
    assert made.tone == "mixed"
    assert "50,000 (50,365)" in html
    assert "One network." in html
    assert html.count('class="chart ') == 1


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    write(page(), tmp_path / "new" / "report.html")
    assert (tmp_path / "new" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        write(page(), tmp_path / "file" / "report.html")


# The paper's own points.

PAPER = [
    {"who": "a", "x": 0.5, "y": 0.4},
    {"who": "<b>", "y": 0.6},
    {"who": "a", "x": 1.0, "from": 0.7, "to": 0.9},
    {"x": 1.0, "y": 1.0},
]


def test_what_the_paper_gives_is_drawn_beside_ours():
    (plot,), _ = chart(POINTS, LOOK, PAPER)
    point, level, span, loose = plot.marks[-4:]
    assert (point.x, point.y, point.shape, point.series) == (0.5, 0.4, "ring", "a")
    assert level.points == [(0.0, 0.6), (1.0, 0.6)] and level.dash and level.series == "<b>"
    assert (span.x, span.y, span.y2) == (1.0, 0.7, 0.9)
    assert loose.series == plot.series[-1].name == "the paper"
    assert "the paper: who a, seconds 0.5, share 0.4" in point.tip


def test_a_point_of_one_panel_is_not_in_the_others():
    look = Look(kind="line", x="x", y="y", facet="who", x_title="x", y_title="y")
    plots, _ = chart(POINTS, look, [{"who": "a", "x": 0.5, "y": 0.4}])
    assert [any(isinstance(mark, Dot) for mark in plot.marks) for plot in plots] == [True, False]


def test_a_series_that_only_the_paper_has_is_in_the_legend():
    (plot,), _ = chart(POINTS, LOOK, [{"who": "c", "x": 0.5, "y": 0.4}])
    assert [each.name for each in plot.series] == ["a", "<b>", "c", "the paper"]


def test_a_series_looks_the_same_in_every_panel():
    look = Look(kind="line", x="x", y="y", series="size", facet="who", x_title="x", y_title="y")
    table = POINTS.append_column("size", pa.array(["small"] * 4))
    printed = [
        {"who": "a", "size": "large", "x": 0.5, "y": 0.4},
        {"who": "<b>", "size": "huge", "x": 0.5, "y": 0.4},
    ]
    first, second = chart(table, look, printed)[0]
    assert first.series == second.series and len({each.colour for each in first.series}) == 4


def test_panels_and_series_stand_in_the_order_of_their_sizes():
    table = pa.table({"x": [1.0] * 4, "y": [1.0] * 4, "life": ["120'", "20'", "none", "5'"]})
    look = Look(kind="line", x="x", y="y", facet="life", x_title="x", y_title="y")
    assert [plot.title for plot in chart(table, look)[0]] == ["5'", "20'", "120'", "none"]
    (plot,), _ = chart(table, Look(kind="line", x="x", y="y", series="life", x_title="x", y_title="y"))
    assert [each.name for each in plot.series] == ["5'", "20'", "120'", "none"]


@pytest.mark.parametrize("study", STUDIES)
def test_every_point_of_a_paper_has_a_place_in_our_plots(study):
    """A table with the columns of the chart is enough to draw what the paper gives."""
    paper = load_paper(study)
    for name, item in paper.items.items():
        printed = paper.points(name)
        if item.chart is None or not printed:
            continue
        look = item.chart
        columns = [look.x, look.y, look.end, look.low, look.high, look.weight]
        table = {column: [1.0, 2.0] for column in columns if column}
        table |= {column: ["a", "a"] for column in (look.series, look.facet) if column}
        if look.facet:
            table[look.facet] = ["a", str(printed[0].get(look.facet, "a"))]
        plots, _ = chart(pa.table(table), look, printed)
        assert any(plot.series[-1].name == "the paper" for plot in plots), name


def test_a_study_draws_the_paper_s_points_and_says_so():
    curve = pa.table(
        {"lifetime": ["none"] * 2, "metric": ["ltcy"] * 2, "share": [0.0, 1.0], "seconds": [0.0, 9.0]}
    )
    finding = load_paper("barrier").figure("Table II", "received", "20'", Estimate(50_365))
    results = Results(study="barrier", findings=[finding], figures={"fig-5": curve})
    made = study_page([(results, Path("x"))], command="antecast reproduce barrier")
    (drawn,) = [block for part in made.sections for block in part.blocks if isinstance(block, Chart)]
    assert "what the paper gives" in drawn.alternative
    assert any(isinstance(mark, Dot) and mark.shape == "ring" for mark in drawn.plots[0].marks)
    assert made.tone == "good"


def test_one_difference_among_many_agreements_is_not_green():
    paper = load_paper("barrier")
    same = [paper.figure("Table II", "received", "20'", Estimate(50_365))] * 50
    other = paper.figure("Table II", "received", "10'", Estimate(99_999))
    results = Results(study="barrier", findings=[*same, other])
    made = study_page([(results, Path("x"))], command="antecast reproduce barrier")
    assert made.tone == "mixed" and [figure.value for figure in made.figures] == ["98.04 %", "1.96 %"]
    ours = paper.figure("Table II", "expired", "none", Estimate(1.0))
    alone = study_page([(Results(study="barrier", findings=[ours]), Path("x"))], command="")
    assert alone.tone == "plain"
