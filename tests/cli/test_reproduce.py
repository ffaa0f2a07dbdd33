"""`antecast reproduce`: each study's report is there when it ends, and progress says how long the rest takes."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from antecast.papers.findings import Finding, Mark, Results
from antecast.papers.job import Stage
from antecast.papers.paper import load_paper


@pytest.fixture
def studies(monkeypatch):
    """In place of hours on Spark: results that are there at once, and an interrupt where one is wanted."""
    from antecast.papers import reproduce
    from antecast.spark import session

    interrupted = set()

    def make(study, *, out, on_progress, **_):
        if study in interrupted:
            raise KeyboardInterrupt
        assert Path(out).is_dir()
        for share in (0.5, 1.0):
            on_progress(Stage(f"{study}: runs", share, f"{share:.0%} of the points"))
        item = next(iter(load_paper(study).items))
        found = Finding(
            item=item, quantity="latency", setting="50 nodes", unit="s", paper=1.0, ours=1.1, mark=Mark.AGREES
        )
        return Results(study=study, findings=[found])

    monkeypatch.setattr(reproduce, "reproduce", make)
    monkeypatch.setattr(session, "spark_session", lambda *_, **__: nullcontext())
    return interrupted


def test_each_report_is_there_when_its_study_ends(antecast, studies):
    studies.add("vcube")
    code, out, err = antecast("reproduce", "observer", "vcube", "--quick")
    assert code == 130 and err.endswith("interrupted; what is finished is kept, the same command continues\n")
    assert "report: reproductions/observer-quick/report.html" in out
    page = Path("reproductions/observer-quick/report.html").read_text(encoding="utf-8")
    assert "antecast reproduce observer --quick" in page


def test_several_studies_have_a_report_of_all_beside_their_own(antecast, studies):
    code, out, err = antecast("reproduce", "observer", "vcube", "--quick")
    assert code == 0, err
    assert out.endswith("report of all: reproductions/report-quick.html\n")
    for name in ("observer-quick/report.html", "vcube-quick/report.html", "report-quick.html"):
        assert (Path("reproductions") / name).is_file()
    assert "study 1 of 2, 50% of the points, about" in err and " left" in err


def test_one_study_has_one_report(antecast, studies):
    code, out, _ = antecast("reproduce", "observer", "--quick", "--quiet")
    assert (code, out) == (0, "report: reproductions/observer-quick/report.html\n")
