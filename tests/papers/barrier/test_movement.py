"""Generated movement is like that of the barrier paper's traces."""

from pathlib import Path

import pytest

from antecast.papers.barrier.movement import TARGETS, TOLERANCES, compare, markdown

SEEDS = 10
PAGE = Path(__file__).parents[3] / "docs" / "generators.md"


@pytest.mark.parametrize("name", TARGETS)
def test_means_over_seeds_are_those_of_the_paper_and_of_the_documentation(name):
    target = TARGETS[name]
    rows = compare(target, range(1, SEEDS + 1))
    assert not [row for row in rows if not row.met]
    assert {row.figure for row in rows} >= TOLERANCES.keys()
    assert markdown(target, rows, SEEDS) in PAGE.read_text(encoding="utf-8"), "renew it: antecast generate compare"
