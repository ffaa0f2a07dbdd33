"""How far studies have come, and how long they still take."""

from antecast.cli.pace import Pace
from antecast.papers import STUDIES
from antecast.papers.job import Stage


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_the_time_left_is_that_of_all_studies_at_the_pace_so_far():
    clock = Clock()
    pace = Pace(["observer", "vcube"], known=True, clock=clock)
    total = 9 + 1 + 10 + 3 + 7
    clock.now = 18.0
    share, text = pace.at(Stage("observer: runs", 0.5, "15 of 30 points"))
    assert abs(share - 4.5 / total) < 1e-9
    assert text == "study 1 of 2, 15 of 30 points, about 1 min 42 s left"
    pace.end("observer")
    clock.now = 40.0
    share, text = pace.at(Stage("vcube: compare", 1e-9, "0 of 30 points"))
    assert text.startswith("study 2 of 2, ")
    assert abs(share - 9 / (total - 1)) < 1e-6, "overhead was never made, and takes no time"


def test_a_stage_that_was_there_before_is_no_work():
    clock = Clock()
    pace = Pace(["vcube"], known=True, clock=clock)
    pace.at(Stage("vcube: compare", 1.0, "points are there; making figures"))
    clock.now = 10.0
    share, text = pace.at(Stage("vcube: load", 0.5, "5 of 10 points"))
    assert abs(share - 3.5 / 10) < 1e-9 and text == "5 of 10 points, about 19 s left"


def test_where_nothing_is_known_it_is_the_time_of_the_stage():
    clock = Clock()
    pace = Pace(["vcube"], known=False, clock=clock)
    pace.at(Stage("vcube: compare", 0.01, "1 of 100 points"))
    clock.now = 30.0
    assert pace.at(Stage("vcube: compare", 0.25, "25 of 100 points")) == (
        0.25,
        "25 of 100 points, about 1 min 30 s left",
    )


def test_every_study_has_a_pace():
    for study in STUDIES:
        assert Pace([study], known=True).at(Stage(f"{study}: nothing", 0.5, ""))[0] == 0.0
