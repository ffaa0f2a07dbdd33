"""The tables of the barrier study: both rules beside the paper, and what the fit was made of."""

import pytest

from antecast.papers.barrier.experiment import BUSES, NETWORKS, PEDESTRIANS, rules
from antecast.papers.barrier.judgement import Beside
from antecast.papers.barrier.measured_run import OUT_OF_ORDER
from antecast.papers.barrier.study import BROADCASTS, fit_in_words
from antecast.papers.findings import Mark
from antecast.papers.paper import load_paper


def as_printed(network, lifetime, other):
    """A run whose figures are those of the paper."""
    paper = load_paper("barrier")
    values = {
        quantity: paper.value(item, quantity, lifetime)
        for item in (network.counts, network.delays)
        for quantity in paper.items[item].quantities
    }
    return {"run": "r", "lifetime": lifetime} | values | {OUT_OF_ORDER: 0} | other


def tables(network, published=None, *, comparable=True):
    runs = [as_printed(network, lifetime, {}) for lifetime in network.lifetimes]
    points = rules(network, [("c", "p")], quick=False)
    by_rules = [as_printed(network, point["lifetime"], point | (published or {})) for point in points]
    found = Beside(network, comparable=comparable).tables(runs, runs, by_rules)
    return {(each.item, each.quantity, each.setting): each for each in found}


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_the_paper_agrees_with_itself_by_either_rule(network):
    found = tables(network)
    assert {each.mark for each in found.values() if each.paper is not None} == {Mark.AGREES}
    settings = [setting for item, quantity, setting in found if quantity == OUT_OF_ORDER]
    shortest = network.lifetimes[-1]
    by_rule = [f"{lifetime} published" for lifetime in network.lifetimes if lifetime != "none"]
    apart = [f'{shortest}, clocks ±2"', f'{shortest} published, clocks ±2"']
    assert sorted(settings) == sorted([*network.lifetimes, *by_rule, *apart])


def test_what_the_published_rule_gives_is_judged_by_the_papers_figures_for_its_own_reasons():
    found = tables(PEDESTRIANS, {"expired": 3000, OUT_OF_ORDER: 7})
    safe, published = (found["Table V", "expired", setting] for setting in ("20'", "20' published"))
    assert (safe.paper, safe.mark) == (1573, Mark.AGREES)
    assert (published.paper, published.ours, published.mark) == (1573, 3000, Mark.DIFFERS)
    assert "predecessors" in published.reason
    assert found["Table V", OUT_OF_ORDER, "20'"].ours == 0
    assert found["Table V", OUT_OF_ORDER, "20' published"].ours == 7


def test_runs_with_clocks_that_differ_stand_alone():
    found = tables(BUSES)["Table II", "co-delivered", "10' published, clocks ±2\""]
    assert found.paper is None and found.ours == 23572
    assert "clocks" in found.reason


def test_on_a_network_that_is_not_the_papers_nothing_is_judged():
    found = tables(PEDESTRIANS, comparable=False)
    assert ("Table V", "expired", "20' published") in found
    assert not {each.mark for each in found.values()} & {Mark.AGREES, Mark.DIFFERS}


def test_figures_that_were_fitted_are_counted_apart():
    found = tables(PEDESTRIANS, {"ltcy, avg": 1000.0})
    words = fit_in_words(list(found.values()))
    assert words.startswith("Of the 8 figures that the radios are fitted to, 8 agree; of the ")
    judging = [each for each in found.values() if each.paper is not None]
    assert f"of the {len(judging) - 8} others, {len(judging) - 8 - 4} do" in words


def test_the_broadcasts_that_the_paper_prints_are_not_those_of_its_rule():
    """2,092 stays of 325 s on average: the first message after 20 s, then one a minute."""
    expected = 2092 * ((325 - 20) / 60 + 0.5)
    assert expected == pytest.approx(11_670, rel=0.002)
    assert load_paper("barrier").value("Table V", "broadcast", "20'") == 10_557
    for text in (BROADCASTS, load_paper("barrier").items["Table V"].quantities["broadcast"].reason):
        assert "11,670" in text and "10,557" in text
