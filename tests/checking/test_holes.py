"""What the papers left open is found from the printed rules alone."""

import json

import msgspec
import pytest
from holes import FILE, HOLES

from antecast.checking.check import BY_WALK, check
from antecast.checking.counterexample import replay
from antecast.checking.scope import Scope
from antecast.core.settings import read_settings
from antecast.papers.left_open import demonstrations
from antecast.protocols import specification

FOUND = {each["name"] for each in json.loads(FILE.read_text()) if each.get("verdict") == "violated"}


@pytest.mark.parametrize("hole", [each for each in HOLES if each.name in FOUND], ids=lambda hole: hole.name)
def test_a_hole_is_found_and_is_cured(hole, request):
    if not hole.quick and not request.config.getoption("--soak"):
        pytest.skip("takes a while: --soak")
    done = hole.look()
    assert done.found.verdict == "violated"
    assert replay(done.counterexample).problem.property == done.found.problem.property
    if hole.protocol == "cellular" and hole.strategy == "growing":
        settings = {"evict": "0s"}
        if BY_WALK in done.found.reduction:
            assert replay(msgspec.structs.replace(done.counterexample, settings=settings)).problem is None
        else:
            cured = check(specification("cellular"), done.scope, settings=settings, promises=hole.promises)
            assert cured.found.verdict == "exhausted"


def test_algorithm_2_of_vcube_reaches_all_once_the_first_cluster_counts():
    spec = specification("antecast.papers.vcube.printed:ALGORITHM_2")
    done = check(spec, Scope(nodes=4, broadcasts=1, answers=1), settings={"smallest": 1})
    assert (done.found.verdict, done.found.problem) == ("exhausted", None)


def test_every_hole_has_its_row():
    assert {hole.name for hole in HOLES} == {each.name for each in demonstrations()}
    assert [each["name"] for each in json.loads(FILE.read_text())] == [hole.name for hole in HOLES]


def test_scopes_are_valid():
    for hole in HOLES:
        if not hole.beyond:
            assert read_settings(hole.scope, Scope, path="scope").nodes
