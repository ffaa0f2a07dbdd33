"""Random networks find what small ones cannot, and show it in a form that can be run again."""

import time

import pytest
from hypothesis import given, settings
from toys import PLAUSIBLE, SPEC

from antecast.protocols import registry
from antecast.sim import load_scenario
from antecast.testing import Nonconforming, assert_conforms, scenarios

in_ci = settings(max_examples=40, deadline=None, database=None, derandomize=True, report_multiple_bugs=False)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """The toys have names here, and only here: other tests must not find them."""
    names = {spec.name: spec for spec in (PLAUSIBLE, SPEC)}
    monkeypatch.setattr(registry, "_registry", registry._registry | names)


def check(spec, **options):
    @in_ci
    @given(scenarios(spec, **options))
    def property_of_all(scenario):
        assert_conforms(scenario)

    property_of_all()


def test_a_correct_toy_conforms():
    check(SPEC)


def test_clocks_of_eight_entries_pass_among_six_nodes_and_fail_in_a_crowd(tmp_path):
    check(PLAUSIBLE, crowd=0)
    started = time.process_time()
    with pytest.raises(Nonconforming) as caught:
        check(PLAUSIBLE)
    assert time.process_time() - started < 60, "it should shrink in seconds"
    assert "causal" in caught.value.problem
    assert "before" in str(caught.value)
    path = tmp_path / "counterexample.toml"
    path.write_text(caught.value.toml)
    with pytest.raises(Nonconforming) as again:
        assert_conforms(load_scenario(path))
    assert again.value.problem == caught.value.problem
