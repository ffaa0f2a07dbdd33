"""The radios of the barrier study are found by a search on half of the paper's figures; the others judge."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from antecast.core.settings import Duration
from antecast.papers.barrier.experiment import NETWORKS, PEDESTRIANS, Radio, experiment, scenario
from antecast.papers.barrier.fit import BANDWIDTHS, SETUPS, Fitted, fit, fitted, main, movement, radio_at, search
from antecast.papers.barrier.measured_run import measured_run, with_radio
from antecast.papers.paper import load_paper
from antecast.sim.mobility.pedestrians import Pedestrians, pedestrians
from antecast.traces.contact_detection import find_contacts
from antecast.traces.presence import presence

PAGE = Path(__file__).parents[3] / "docs" / "studies.md"


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_the_fit_has_every_second_lifetime_and_the_longest_judges(network):
    figures = fitted(load_paper("barrier"), network)
    assert {each.lifetime for each in figures} == set(network.lifetimes[1::2])
    assert {each.quantity for each in figures} >= {"tdelay, avg", "ltcy, avg", "ltcy, stdev"}
    assert all(each.paper > 0 for each in figures)


def test_the_search_uses_all_that_is_called_fitted_and_nothing_else():
    paper = load_paper("barrier")
    named = [
        (quantity, setting)
        for item in paper.items.values()
        for quantity, what in item.quantities.items()
        for setting in what.fitted
    ]
    used = [(each.quantity, each.lifetime) for network in NETWORKS for each in fitted(paper, network)]
    assert sorted(used) == sorted(named)


@pytest.mark.parametrize("least", list(product((0, 3, 7, 14), (0, 4, 9))))
def test_the_search_finds_the_least_of_a_bowl(least):
    def bowl(point):
        return (point[0] - least[0]) ** 2 + 2 * (point[1] - least[1]) ** 2

    best, seen = search(bowl, (9, 2), (15, 10))
    assert best == least
    assert len(seen) < 50, "of 150"
    assert seen == {point: bowl(point) for point in seen}


@pytest.fixture(scope="module")
def short():
    """Seven minutes of pedestrians: a run takes a few milliseconds."""
    return pedestrians(1, Pedestrians(duration=Duration(400 * 10**9), walkers=60))


def made_by(hidden, moved, folder):
    """The figures of a run with a radio."""
    files = folder / "contacts.parquet", folder / "presence.parquet"
    pq.write_table(find_contacts(moved, PEDESTRIANS.reach), files[0])
    pq.write_table(presence(moved), files[1])
    values = with_radio(scenario(PEDESTRIANS, "5'", *map(str, files)), hidden)
    found = measured_run(values, "5'", audited=False)
    return [Fitted(name, "5'", found[name]) for name in ("tdelay, avg", "ltcy, avg", "ltcy, stdev")]


@pytest.mark.parametrize("hidden", [Radio("30kb/s", "7s"), Radio("500kb/s", "1s")], ids=str)
def test_the_search_finds_the_radio_that_made_the_figures(hidden, short, tmp_path):
    said, again = [], []
    figures = made_by(hidden, short, tmp_path)
    assert fit(PEDESTRIANS, short, figures, said.append) == (hidden, 0)
    assert said[-1].startswith(f"pedestrians: {hidden.bandwidth}, {hidden.setup}; misfit 0.000, the least of")
    fit(PEDESTRIANS, short, figures, again.append)
    assert again == said, "there is no chance in it"


def test_the_search_ends_where_no_neighbour_is_better():
    """Of a rough surface, with many such places."""

    def rough(point):
        return (point[0] * 7919 + point[1] * 104729) % 97

    best, seen = search(rough, (9, 2), (15, 10))
    around = {(best[0] + x, best[1] + y) for x, y in ((0, 1), (0, -1), (1, 0), (-1, 0))}
    inside = {point for point in around if 0 <= point[0] < 15 and 0 <= point[1] < 10}
    assert inside <= seen.keys()
    assert seen[best] == min(seen.values())


def test_a_ratio_near_one_counts_by_its_complement():
    one = Fitted("co-delivery ratio", "5'", 0.99)
    assert one.off({"co-delivery ratio": 0.98}) == pytest.approx(0.693, abs=1e-3)
    assert one.off({"co-delivery ratio": 0.995}) == pytest.approx(0.693, abs=1e-3)
    assert Fitted("ltcy, avg", "5'", 2.0).off({"ltcy, avg": 1.0}) == pytest.approx(0.693, abs=1e-3)


def test_pedestrians_are_fitted_on_an_hour_with_as_many_at_once():
    moved = movement(PEDESTRIANS, 101)
    assert max(moved["t1"].to_pylist()) <= 3600 * 10**9
    assert len(set(moved["node"].to_pylist())) == pytest.approx(2130 / 5, rel=0.15)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.name)
def test_the_study_runs_with_the_radio_that_was_found(network):
    """The documentation shows what the command printed last."""
    assert network.radio in {radio_at(point) for point in product(range(len(BANDWIDTHS)), range(len(SETUPS)))}
    printed = f"{network.name}: {network.radio.bandwidth}, {network.radio.setup}; misfit"
    assert printed in PAGE.read_text(encoding="utf-8")
    values = experiment(network, [(Path("c"), Path("p"))])["scenario"]["network"]
    assert (values["bandwidth"], values["topology"]["setup"]) == (network.radio.bandwidth, network.radio.setup)
    assert values["queue"] == "node"
    other = replace(network, radio=Radio("1Mb/s", "9s"))
    assert experiment(other, [(Path("c"), Path("p"))])["scenario"]["network"]["bandwidth"] == "1Mb/s"


def test_a_network_that_is_not_there_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["trams"])
    assert ended.value.code == 2
    assert "invalid choice: 'trams'" in capsys.readouterr().err
