"""Every kind of report in a real browser: at three widths, light, dark and on paper, by mouse and by keyboard."""

import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from antecast.checking.check import check
from antecast.checking.scope import Scope
from antecast.history.confidence import Estimate
from antecast.papers.findings import Results
from antecast.papers.paper import load_paper
from antecast.protocols import specification
from antecast.reporting.audit import audit_page
from antecast.reporting.counterexample import counterexample_page
from antecast.reporting.page import write
from antecast.reporting.run import run_page
from antecast.reporting.study import study_page
from antecast.reporting.sweep import sweep_page

sys.path.insert(0, str(Path(__file__).parent))
from test_compare import NAMES, page_of, standing
from test_folders import FINE, WITNESS, make_audit, make_sweep

ARTEFACTS = Path(__file__).parents[2] / "artefacts"
"""Pictures of what the tests saw; git ignores them."""

WIDTHS = (1440, 768, 390)
A4 = 673
"""Pixels between the margins of a sheet."""

PAGES = ("run", "sweep", "audit", "compare", "study", "counterexample", "clocks", "spans", "kv")


@pytest.fixture(scope="module")
def pages(tmp_path_factory, violated):
    """A report of each kind, with what is hard to show: long names, many series, marks in one place."""
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "run": run_page(violated),
        "sweep": sweep_page(
            make_sweep(folder / "sweep", ["network.loss", "protocol.name", "lifetime"], _points())
        ),
        "audit": audit_page(_audit(folder / "audit")),
        "compare": _comparison(folder),
        "study": _study(),
        "counterexample": _counterexample(),
        **{name: _foreign(folder, name, text) for name, text in FOREIGN.items()},
    }
    made["run"] = replace(made["run"], facts=dict(made["run"].facts) | {f"input {'long/' * 9}feed.zip": "0f" * 32})
    for name, page in made.items():
        write(page, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in made}


FOREIGN = {
    "clocks": """frontend.shop.example {"frontend.shop.example":1}
POST /orders with a body that is logged in full and takes far more room than there is
orders.shop.example {"orders.shop.example":1, "frontend.shop.example":1}
received
payments.shop.example {"payments.shop.example":1, "orders.shop.example":1}
charged
payments.shop.example {"payments.shop.example":1, "orders.shop.example":1}
charged again
""",
    "spans": """TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano
t1,a,,shop-frontend-7d9f6c5b8-x2x4q,GET /cart?with=a&very=long&query=string,1000000,9000000
t1,b,a,ads-5c6b7d8f9-abcde,getAds,700000,4000000
t1,c,b,cart,getCart,2000000,3000000
t1,d,nowhere,cart,lost,2000000,3000000
""",
    "kv": (Path(__file__).parents[2] / "examples" / "logs" / "album.edn").read_text(encoding="utf-8"),
}
"""Logs of other systems, by the model that judges them; each is violated."""


def _foreign(folder, name, text):
    from antecast.api import audit_files

    file = folder / f"{name}.log"
    file.write_text(text, encoding="utf-8")
    done = audit_files([file])
    assert (done.model, done.verdict.outcome) == (name, "violated")
    done.write(folder / name)
    return audit_page(folder / name)


def _counterexample():
    """A link that never becomes safe: frames, timers, links that break, and a long calm."""
    scope = Scope(nodes=3, topology="line", broadcasts=1, breaks=1, appears=1, safe_links=True)
    settings = {"algorithm": 3, "retries": 2}
    done = check(specification("pc-broadcast-paper"), scope, settings=settings, strategy="growing")
    return counterexample_page(done.counterexample, Path("pc-broadcast-paper.counterexample.json"))


def _points():
    loud = {"latency_max_ns": 2.3e9, "control_bytes_per_broadcast": 964.0}
    for loss in (0.0, 0.05, 0.1):
        for name in ("a-protocol-with-quite-a-long-name", "vector", "fifo"):
            for life in ("20min", "5min", "100s"):
                for seed in (1, 2, 3):
                    changed = {"latency_mean_ns": 1e6 * (10 * loss + seed * 3), "early": seed * (name == "fifo")}
                    yield (loss, name, life), seed, FINE | changed | (loud if name == "vector" else {})


def _audit(folder):
    found = [(f"host-{i}.rack-{i % 7}.example", problem) for i in range(40) for problem in ("early", "late")]
    command = [
        "antecast",
        "audit",
        *(f"logs/of/a/very/deep/folder/part-{i}.csv" for i in range(9)),
        "--out",
        "here",
    ]
    return make_audit(folder, "violated", {"early": 40, "late": 40}, found, witness=WITNESS, command=command)


def _comparison(folder):
    """Several protocols at one place, as on a network on which they do the same."""
    places = [(2e8, 49.0)] * 5 + [(2.1e8, 124.0)] * 2 + [(2e8 * (1 + i), 60.0 * (1 + i)) for i in range(5)]
    ran = [standing(name, *place) for name, place in zip(NAMES, places, strict=True)]
    ran[-1] = replace(ran[-1], promises=(), early=30)
    return page_of(folder, ran, latency=5e8)


def _study():
    paper = load_paper("barrier")
    findings = [
        paper.figure(name, quantity, setting, Estimate(1.0))
        for name, item in paper.items.items()
        for quantity, what in item.quantities.items()
        for setting in what.values
    ]
    lives = ("120'", "20'", "none", "5'", "60'", "40'", "10'", "15'")
    curve = [
        {"lifetime": life, "metric": metric, "share": step / 50, "seconds": 1.7**step / (1 + i)}
        for i, life in enumerate(lives)
        for metric in ("ltcy", "tdelay")
        for step in range(51)
    ]
    cells = [
        {"lifetime": life, "tdelay": 60.0 * i, "ltcy": 10.0 * j, "pairs": 10 ** ((i + j) % 5)}
        for life in lives[:4]
        for i in range(20)
        for j in range(8)
    ]
    spans = [{"node": str(i), "appearance": i, "from": i / 9, "to": i / 9 + 1} for i in range(60)]
    figures = {"fig-5": curve, "fig-10": curve, "fig-4": cells, "fig-3": spans}
    tables = {name: pa.Table.from_pylist(rows) for name, rows in figures.items()}
    results = Results(study="barrier", findings=findings, figures=tables, notes=["One network."])
    return study_page(
        [(results, Path("reproductions/barrier"))], command="antecast reproduce barrier " + "x" * 300
    )


CHECKS = (Path(__file__).parent / "page_checks.js").read_text(encoding="utf-8").strip()


@pytest.mark.parametrize("name", PAGES)
def test_nothing_overflows_overlaps_or_complains_at_any_size_and_medium(browser, pages, name):
    browser.errors.clear()
    browser.show()
    browser.open(pages[name])
    browser.evaluate("document.querySelector('.unfold')?.click()")
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            browser.show(width=width, scheme=scheme)
            assert browser.evaluate(f"{CHECKS}(false)") == [], (width, scheme)
    for width in (A4, *WIDTHS):
        browser.show(width=width, scheme="dark", paper=True)
        assert browser.evaluate(f"{CHECKS}(true)") == [], width
        assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    browser.show()
    browser.picture(ARTEFACTS / f"{name}.png")
    assert browser.errors == []


BROKEN_WORDS = """[...document.querySelectorAll('th, td:not(.lengthy)')].flatMap(cell => {
    const text = cell.firstChild
    if (!text || text.nodeType != Node.TEXT_NODE) return []
    return [...text.data.matchAll(/[^\\s-]+/g)].filter(word => {
        const range = document.createRange()
        range.setStart(text, word.index)
        range.setEnd(text, word.index + word[0].length)
        return new Set([...range.getClientRects()].map(each => each.top)).size > 1
    }).map(word => word[0])
})"""


@pytest.mark.parametrize("name", PAGES)
def test_no_short_word_of_a_table_is_broken_on_paper(browser, pages, name):
    browser.show(width=A4, paper=True)
    browser.open(pages[name])
    assert browser.evaluate(BROKEN_WORDS) == []
    browser.show()


@pytest.mark.parametrize("name", ["audit", "clocks", "spans", "kv"])
def test_violations_are_read_on_a_phone_without_scrolling_sideways(browser, pages, name):
    browser.show(width=390)
    browser.open(pages[name])
    tables = "[...document.querySelectorAll('.wide')]"
    tables += ".filter(each => each.textContent.match(/because of|what is wrong/))"
    assert browser.evaluate(f"{tables}.length") > 0
    assert browser.evaluate(f"{tables}.filter(each => each.scrollWidth > each.clientWidth + 1).length") == 0
    browser.show()


@pytest.mark.parametrize("name", PAGES)
def test_every_chart_tells_a_screen_reader_what_it_shows(browser, pages, name):
    """By the tree that assistive software gets, at a desk and on a phone."""
    browser.show()
    browser.open(pages[name])
    browser.evaluate("document.querySelector('.unfold')?.click()")
    words = browser.evaluate("[...document.querySelectorAll('.chart > .for-wide')].map(each => each.ariaLabel)")
    assert words and all(len(text) > 20 and "visualization" not in text for text in words)
    for width in (1440, 390):
        browser.show(width=width)
        assert browser.named("image") == words
    assert all(browser.named("button")) and all(browser.named("combobox")) and all(browser.named("region"))


def test_a_story_of_another_system_s_log_is_told_once_and_names_files_as_they_are(browser, pages):
    browser.show()
    browser.open(pages["spans"])
    text = browser.evaluate("document.body.innerText")
    assert text.count("before its parent") == 2, "in the story and in the table, not under the drawing too"
    assert "cause after its effect" in text
    assert "/spans.log:5 has the parent nowhere" in text
    browser.open(pages["kv"])
    assert "session 0" in browser.evaluate("document.querySelector('.for-wide').textContent")


def faint(figure: str) -> str:
    """An expression: how many marks of a figure are faded."""
    marks = f"[...{figure}.querySelectorAll('.for-wide [data-key]')]"
    return f"{marks}.filter(each => getComputedStyle(each).opacity < 0.2).length"


def titled(title: str) -> str:
    """An expression: the figure whose caption begins so."""
    captions = "[...document.querySelectorAll('figcaption')]"
    return f"{captions}.find(each => each.innerText.startsWith('{title}')).parentElement"


def test_a_message_and_a_series_can_be_picked_with_the_mouse(browser, pages):
    browser.show()
    browser.open(pages["run"])
    diagram = titled("Message ")
    assert browser.evaluate(faint(diagram)) == 0
    browser.click(f"{diagram}.querySelector('.for-wide circle.dot')")
    assert browser.evaluate(faint(diagram)) > 0
    assert ":" in browser.evaluate(f"{diagram}.querySelector('select').value")
    browser.click(f"{diagram}.querySelector('.for-wide .tick')")
    assert browser.evaluate(faint(diagram)) == 0

    latency = titled("How long")
    browser.click(f"{latency}.querySelector('.legend button')")
    assert browser.evaluate(faint(latency)) == 1
    assert browser.evaluate(f"{latency}.querySelector('.legend button').ariaPressed") == "true"

    browser.click("[...document.querySelectorAll('nav a')].find(each => each.innerText == 'Overhead')")
    browser.wait("location.hash != ''")
    assert -5 < browser.evaluate("document.querySelector(location.hash).getBoundingClientRect().top") < 60


def test_the_steps_of_a_counterexample_are_clicked_through(browser, pages):
    browser.show()
    browser.open(pages["counterexample"])
    figure = titled("What happens")
    steps = browser.evaluate(f"{figure}.querySelectorAll('.step').length")
    current = f"[...{figure}.querySelectorAll('.step')].findIndex(each => each.ariaCurrent == 'step') + 1"
    assert steps > 4
    dots = f"[...{figure}.querySelectorAll('.for-wide .dot')].map(each => each.getBoundingClientRect())"
    middles = browser.evaluate(f"{dots}.map(box => `${{Math.round(box.x)}} ${{Math.round(box.y)}}`)")
    assert len(set(middles)) == len(middles), "what one step does at a node covers itself"
    assert browser.evaluate(faint(figure)) == 0
    browser.click(f"{figure}.querySelector('.step')")
    faded = browser.evaluate(faint(figure))
    assert browser.evaluate(current) == 1
    browser.click(f"{figure}.querySelector('.next')")
    assert browser.evaluate(current) == 2
    assert 0 < browser.evaluate(faint(figure)) <= faded
    browser.press("ArrowDown")
    assert browser.evaluate(current) == 3
    browser.click(f"{figure}.querySelector('.back')")
    assert browser.evaluate(current) == 2
    browser.click(f"{figure}.querySelector('.whole')")
    assert (browser.evaluate(current), browser.evaluate(faint(figure))) == (0, 0)


@pytest.mark.parametrize("name", PAGES)
def test_every_control_is_reached_by_the_keyboard_and_shows_it(browser, pages, name):
    browser.show(width=768)
    browser.open(pages[name])
    operable = "[...document.querySelectorAll('a, button, select, summary, .wide, pre')]"
    wanted = browser.evaluate(f"{operable}.filter(each => each.checkVisibility()).length")
    browser.evaluate(
        "window.seen = new Set(); addEventListener('focusin', event => {"
        " if (getComputedStyle(event.target).outlineStyle != 'none') seen.add(event.target); })"
    )
    for _ in range(wanted):
        browser.press("Tab")
    assert browser.evaluate("seen.size") == wanted


def test_marks_are_picked_and_brought_back_by_keys(browser, pages):
    browser.show(width=768)
    browser.open(pages["run"])
    latency = titled("How long")
    browser.evaluate(f"{latency}.querySelector('.legend button').focus()")
    browser.press("Enter")
    assert browser.evaluate(faint(latency)) == 1
    browser.press("Escape")
    assert browser.evaluate(faint(latency)) == 0
    diagram = titled("Message ")
    browser.evaluate(f"{diagram}.querySelector('select').focus()")
    browser.press("ArrowDown")
    assert browser.evaluate(faint(diagram)) > 0


def test_sections_unfold_by_key_by_link_and_on_paper(browser, pages):
    browser.show()
    browser.open(pages["study"])
    opened = "[...document.querySelectorAll('details')].filter(each => each.open).length"
    count = browser.evaluate("document.querySelectorAll('details').length")
    assert count > 10 and browser.evaluate(opened) == 1
    browser.evaluate("document.querySelectorAll('summary')[1].focus()")
    browser.press("Enter")
    assert browser.evaluate(opened) == 2
    browser.click("document.querySelectorAll('nav a')[5]")
    browser.wait("document.querySelectorAll('details')[5].open")
    top = browser.evaluate("document.querySelectorAll('details')[5].getBoundingClientRect().top")
    assert -5 < top < 60
    browser.show(width=A4, paper=True)
    inside = "[...document.querySelectorAll('details .chart, details table')]"
    assert browser.evaluate(f"{inside}.filter(each => !each.checkVisibility()).length") == 0
    browser.show()
    browser.click("document.querySelector('.unfold')")
    assert browser.evaluate(opened) == count


def test_a_command_is_copied_as_it_stands(browser, pages):
    browser.show()
    browser.open(pages["audit"])
    browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    browser.click("document.querySelector('.copy')")
    browser.wait("document.querySelector('.copy').innerText == 'Copied'")
    text = browser.evaluate("navigator.clipboard.readText()")
    assert text.startswith("antecast audit logs/of/a/very") and text.endswith("--out here")
    assert browser.evaluate("document.querySelector('.told').innerText") == "Copied"


def test_colours_follow_the_reader_s_scheme_and_can_be_told_apart(browser, pages):
    """All eight against the paper, as WCAG asks for texts, and against each other."""
    browser.open(pages["run"])
    seen = {}
    for scheme in ("light", "dark"):
        browser.show(scheme=scheme)
        value = "getComputedStyle(document.documentElement).getPropertyValue"
        colours = [browser.evaluate(f"{value}('--c{i}')") for i in range(1, 9)]
        paper = browser.evaluate(f"{value}('--paper')")
        assert all(contrast(paper, each) > 4.5 for each in colours), (scheme, colours)
        near = min(distance(a, b) for i, a in enumerate(colours) for b in colours[:i])
        assert near > 18, (scheme, near)
        line = f"{titled('How long')}.querySelector('.line')"
        seen[scheme] = browser.evaluate(f"getComputedStyle({line}).stroke")
    assert seen["light"] != seen["dark"]


def test_pages_are_small(pages):
    """A page with two small charts was 900 kB; the largest here has 20 drawings."""
    sizes = {name: path.stat().st_size for name, path in pages.items()}
    assert max(sizes.values()) < 500_000 and sizes["audit"] < 100_000 and sizes["run"] < 200_000, sizes


def test_a_printer_gets_the_whole_page(browser, pages):
    browser.show(scheme="dark")
    browser.open(pages["compare"])
    browser.print(ARTEFACTS / "compare.pdf")
    assert (ARTEFACTS / "compare.pdf").read_bytes().startswith(b"%PDF")


def rgb(colour: str) -> list[float]:
    return [int(colour.strip()[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def linear(colour: str) -> list[float]:
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in rgb(colour)]


def contrast(*colours: str) -> float:
    """The ratio of two colours' luminances, as WCAG defines it; graphics need 3, texts 4.5."""
    light = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in map(linear, colours)]
    return (max(light) + 0.05) / (min(light) + 0.05)


def distance(*colours: str) -> float:
    """How far two colours are apart to the eye: Euclid's in CIELAB, where 2 is just seen."""
    places = []
    for r, g, b in map(linear, colours):
        xyz = (
            (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
            0.2126 * r + 0.7152 * g + 0.0722 * b,
            (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
        )
        x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in xyz)
        places.append((116 * y - 16, 500 * (x - y), 200 * (y - z)))
    return sum((a - b) ** 2 for a, b in zip(*places, strict=True)) ** 0.5
