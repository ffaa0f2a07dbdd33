"""Random networks find what small ones cannot, and show it in a form that can be run again."""

import time

import pytest
from hypothesis import given, settings
from toys import PLAUSIBLE, SPEC

from antecast.protocols import registry, specification
from antecast.protocols.delta import Delta
from antecast.protocols.epidemic import Epidemic
from antecast.sim import load_scenario
from antecast.testing import Nonconforming, assert_conforms, odd_clocks, scenarios

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


def test_honest_nodes_that_suffer_from_a_wild_clock_are_found(monkeypatch):
    """A message that is refused once, since its deadline is too far ahead, and never asked for again."""

    def refuse(self, message, refusal, *_):
        self._refused += 1

    monkeypatch.setattr(Epidemic, "_refuse", refuse)
    made = Delta.__init__

    def make(self, *given, **settings):
        made(self, *given, **settings)
        self._beyond = self._furthest

    monkeypatch.setattr(Delta, "__init__", make)

    @settings(in_ci, max_examples=200)
    @given(odd_clocks(specification("delta")))
    def property_of_all(odd):
        assert_conforms(odd.scenario, besides=odd.wild)

    with pytest.raises(Nonconforming, match="never delivered") as caught:
        property_of_all()
    assert "fixed" in caught.value.toml
