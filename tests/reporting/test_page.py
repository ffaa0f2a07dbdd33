"""A page holds what it was given, is safe from the names in it, loads nothing, and draws in a real browser."""

import re
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from antecast.core import OutputError
from antecast.history.confidence import Estimate
from antecast.papers.findings import Results
from antecast.papers.paper import Chart as Look
from antecast.papers.paper import load_paper
from antecast.reporting.charts import MOST_POINTS, chart
from antecast.reporting.page import Chart, Page, Section, TableBlock, Text, render, write
from antecast.reporting.study import study_page

LOOK = Look(kind="line", x="x", y="y", series="who", x_title="seconds", y_title="share")
POINTS = pa.table({"x": [0.0, 1.0, 0.0, 1.0], "y": [0.0, 1.0, 0.5, 0.7], "who": ["a", "a", "<b>", "<b>"]})


def page(**more):
    spec, note = chart(POINTS, LOOK)
    sections = [
        Section(
            "Protocols", [TableBlock("Costs", ("name", "bytes"), [("<script>alert(1)</script>", "7")], ["a note"])]
        ),
        Section("Latency", [Chart("A curve", spec, "It rises.", note), Text("x → y", pre=True)]),
    ]
    facts = {"command": "antecast run 'a&b.toml'"}
    return Page(title="A run", verdict="causal", tone="good", sections=sections, facts=facts, **more)


def test_a_page_holds_everything_it_was_given():
    html = render(page())
    for text in ("A run", "causal", "Protocols", "Costs", "a note", "It rises.", "x → y", "a&amp;b.toml"):
        assert text in html


def test_names_cannot_break_out_of_a_page():
    html = render(page())
    assert "<script>alert(1)" not in html
    assert "\\u003cb>" in html


def test_a_page_loads_nothing():
    html = re.sub(r"(<script[^>]*>).*?</script>", r"\1", render(page()), flags=re.DOTALL)
    assert html.count("<script") == 2
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(?!data:)", html)


def test_the_scripts_are_there_once_and_only_for_charts():
    assert render(page()).count("window.vegaEmbed=") == 1
    assert len(render(Page(title="No charts", verdict="plain"))) < 10_000


def test_every_chart_has_words_for_those_who_cannot_see_it():
    assert 'role="img" aria-label="It rises."' in render(page())


def test_large_tables_are_thinned_and_the_chart_says_so():
    many = 3 * MOST_POINTS
    table = pa.table({"x": list(range(many)), "y": [0.5] * many, "who": ["a"] * many})
    spec, note = chart(table, LOOK)
    assert note == f"Every 3th of {many:,} rows is shown."
    assert len(spec["data"]["values"]) == MOST_POINTS


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
    assert chart(table, look)[0]["data"]["values"]


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
    assert "50,000 (50,365)" in html
    assert "One network." in html
    assert html.count('class="chart"') == 1


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    write(page(), tmp_path / "new" / "report.html")
    assert (tmp_path / "new" / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        write(page(), tmp_path / "file" / "report.html")


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; apt-get install chromium to see reports drawn")
@pytest.mark.parametrize("look", ["light", "dark"])
def test_a_browser_draws_the_charts_without_an_error(tmp_path, look):
    write(page(), tmp_path / "report.html")
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *(f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--virtual-time-budget=30000"),
        *(["--blink-settings=preferredColorScheme=0"] if look == "dark" else []),
        *("--dump-dom", (tmp_path / "report.html").as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr
    assert len(re.findall(r'<svg [^>]*class="marks"', done.stdout)) == 1
    assert len(re.findall(r'aria-roledescription="line mark"', done.stdout)) == 2
