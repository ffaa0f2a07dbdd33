"""What the papers left open: each printed rule fails in its story, ours holds, and the page says what happens."""

import json
from pathlib import Path

import pytest

from antecast.papers.left_open import as_markdown, demonstrations
from antecast.protocols.cellular.settings import Rule

PAGE = Path(__file__).parents[2] / "docs" / "left-open.md"


@pytest.mark.parametrize("each", demonstrations(), ids=lambda each: each.name)
def test_the_printed_rule_fails_and_ours_holds(each):
    played = each.play()
    assert played.paper.broken, played.paper.words
    assert not played.ours.broken, played.ours.words


def test_every_printed_rule_of_the_cellular_protocol_has_its_story():
    assert {each.name for each in demonstrations() if each.study == "cellular"} == set(Rule) - {Rule.ALL}


def test_names_are_told_apart():
    names = [each.name for each in demonstrations()]
    assert len(names) == len(set(names))


def test_the_page_is_what_the_stories_say():
    """Made anew by `antecast demonstrate --markdown > docs/left-open.md`."""
    assert PAGE.read_text(encoding="utf-8") == as_markdown(each.play() for each in demonstrations())


@pytest.fixture
def demonstrate(antecast):
    def call(*words):
        code, out, err = antecast("demonstrate", *words)
        return code, " ".join(out.split()), err

    return call


def test_the_command_lists_tells_and_sums_up(demonstrate):
    assert "stale-pong" in demonstrate()[1]
    code, told, _ = demonstrate("mixed-lifetimes")
    assert code == 0
    assert "but A:1 → E:2" in told
    assert "16 of 16 end as described" in demonstrate("cellular")[1]
    (one,) = json.loads(demonstrate("modulus", "--json")[1])
    assert one["as_claimed"] and one["by_paper"]["broken"]


def test_an_unknown_name_is_told(demonstrate):
    code, _, complaint = demonstrate("stale-ping")
    assert code == 2
    assert "unknown demonstration 'stale-ping'" in complaint
