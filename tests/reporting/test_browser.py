"""A report in a real browser: plots have marks, clicks do something, nothing complains; phones and paper too."""

from pathlib import Path

import pytest
from browser import CHROMIUM, Browser

from antecast.reporting.page import write
from antecast.reporting.run import run_page

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here; apt-get install chromium to see reports drawn and clicked"
)

ARTEFACTS = Path(__file__).parents[2] / "artefacts"
"""Pictures of what the tests saw; git ignores them."""

MARKS = (
    "[...document.querySelectorAll('.chart')]"
    ".map(each => each.querySelectorAll('.role-mark [d], .role-mark line').length)"
)


@pytest.fixture(scope="module")
def page(violated):
    path = violated / "report.html"
    write(run_page(violated), path)
    return path


def faint(chart: str) -> str:
    """An expression: how many marks of a chart are faded."""
    marks = f"[...{chart}.querySelectorAll('.role-mark [opacity]')]"
    return f"{marks}.filter(each => each.getAttribute('opacity') < 0.2).length"


def figure(title: str) -> str:
    """An expression: the figure whose caption begins so."""
    return f"[...document.querySelectorAll('figure')].find(each => each.innerText.startsWith('{title}'))"


def test_a_run_s_page_is_drawn_and_can_be_clicked(page):
    with Browser(width=1200, height=900) as browser:
        browser.open_report(page)
        marks = browser.evaluate(MARKS)
        assert len(marks) >= 7 and all(marks), marks
        assert browser.evaluate("document.querySelector('.verdict.bad').innerText").startswith(
            "Causal order violated"
        )
        browser.picture(ARTEFACTS / "report.png", whole=True)

        diagram = figure("Message ")
        assert browser.evaluate(faint(diagram)) == 0
        browser.click(f"{diagram}.querySelector('.mark-symbol.role-mark path')")
        browser.wait(f"{faint(diagram)} > 0")
        chosen = browser.evaluate(f"{diagram}.querySelector('select').value")
        assert chosen != "null" and ":" in chosen

        latency = figure("How long")
        assert browser.evaluate(faint(latency)) == 0
        browser.click(f"{latency}.querySelector('.role-legend-symbol path')")
        browser.wait(f"{faint(latency)} == 1")

        browser.click("[...document.querySelectorAll('nav a')].find(each => each.innerText == 'Overhead')")
        browser.wait("location.hash != ''")
        top = browser.evaluate("document.querySelector(location.hash).getBoundingClientRect().top")
        assert -5 < top < 60
        assert browser.errors == []


def test_colours_follow_the_reader_s_scheme(page):
    seen = []
    for scheme in ("light", "dark"):
        with Browser(scheme=scheme) as browser:
            browser.open_report(page)
            line = f"{figure('How long')}.querySelector('.mark-line.role-mark path')"
            seen.append(
                browser.evaluate(
                    f"[getComputedStyle(document.body).backgroundColor, getComputedStyle({line}).stroke]"
                )
            )
            if scheme == "dark":
                browser.picture(ARTEFACTS / "report-dark.png")
            assert browser.errors == []
    (light, first), (dark, second) = seen
    assert light != dark and first != second
    for paper, ink in seen:
        assert contrast(paper, ink) > 3


def test_a_phone_need_not_scroll_sideways(page):
    with Browser(width=390, height=800) as browser:
        browser.open_report(page)
        assert browser.evaluate("document.documentElement.scrollWidth") == 390
        assert all(browser.evaluate(MARKS))
        browser.picture(ARTEFACTS / "report-phone.png", whole=True)
        assert browser.errors == []


def test_paper_is_white_and_holds_the_plots(page):
    with Browser(width=700, scheme="dark") as browser:
        browser.open_report(page)
        browser.call("Emulation.setEmulatedMedia", media="print")
        style = "getComputedStyle(document.querySelector({})).{}"
        assert browser.evaluate(style.format("'body'", "backgroundColor")) == "rgb(255, 255, 255)"
        assert browser.evaluate(style.format("'nav'", "display")) == "none"
        assert browser.evaluate("document.documentElement.scrollWidth") <= 700
        # A printer does not wait for plots to be drawn anew: they shrink as they are.
        browser.evaluate("document.body.style.width = '400px'")
        widths = "[...document.querySelectorAll('.chart svg')].map(each => each.getBoundingClientRect().width)"
        assert max(browser.evaluate(widths)) <= 400
        browser.evaluate("document.body.style.width = ''")
        browser.picture(ARTEFACTS / "report-print.png", whole=True)
        browser.print(ARTEFACTS / "report.pdf")
        assert (ARTEFACTS / "report.pdf").read_bytes().startswith(b"%PDF")


def contrast(*colours: str) -> float:
    """The ratio of two colours' luminances, as WCAG defines it; graphics need 3."""
    light = []
    for text in colours:
        parts = [int(part) / 255 for part in text.removeprefix("rgb(").removesuffix(")").split(",")]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)
