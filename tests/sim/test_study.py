"""Studies: what a TOML file says, the runs it makes, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.core import ConfigurationError, InputError
from antecast.sim.run import run
from antecast.sim.study import (
    MAX_RUNS,
    Range,
    column_name,
    expected_steps,
    link_count,
    load_study,
    make_study,
    plan,
)
from antecast.sim.topology import Complete, Explicit, Grid, Random, Ring, Star, Topology, Tree, edges

SCENARIO: dict[str, Any] = {"nodes": 4, "duration": "1s", "workload": [{"kind": "poisson", "rate": 2.0}]}


def study(**keys: Any) -> Any:
    return make_study({"scenario": SCENARIO} | keys)


def points(**keys: Any) -> list[dict[str, Any]]:
    made = study(**keys)
    return [made.point(index) for index in range(len(made))]


def refused(**keys: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        plan(make_study({"scenario": SCENARIO} | keys, source="study.toml"))
    return str(caught.value)


# Points.


def test_a_grid_is_the_product_with_the_last_field_fastest_and_seeds_faster_still() -> None:
    made = points(grid={"nodes": [2, 3], "network.loss": [0.0, 0.1]}, seeds=2)
    assert [tuple(point.values()) for point in made] == [
        (2, 0.0, 1), (2, 0.0, 2), (2, 0.1, 1), (2, 0.1, 2), (3, 0.0, 1), (3, 0.0, 2), (3, 0.1, 1), (3, 0.1, 2),
    ]  # fmt: skip
    assert list(made[0]) == ["nodes", "network.loss", "seed"]


def test_zip_goes_in_lockstep_and_combines_with_the_grid() -> None:
    made = points(grid={"network.loss": [0.0, 0.1]}, zip={"nodes": [2, 3], "duration": ["2s", "1s"]})
    assert [(p["network.loss"], p["nodes"], p["duration"]) for p in made] == [
        (0.0, 2, "2s"), (0.0, 3, "1s"), (0.1, 2, "2s"), (0.1, 3, "1s"),
    ]  # fmt: skip


def test_a_field_may_be_a_path_or_a_table() -> None:
    as_path = points(grid={"network.loss": [0.1], "workload.0.rate": [1.0, 2.0]})
    as_table = points(grid={"network": {"loss": [0.1]}, "workload": {"0": {"rate": [1.0, 2.0]}}})
    assert as_path == as_table


def test_a_field_called_start_is_no_range() -> None:
    assert points(grid={"workload": {"0": {"start": ["0s", "1s"]}}})[1]["workload.0.start"] == "1s"


def test_whole_tables_may_vary() -> None:
    made = study(grid={"protocol": [{"name": "vector", "repair": "1s"}, {"name": "fifo"}]})
    assert [made.scenario_of(i).protocol["name"] for i in range(2)] == ["vector", "fifo"]
    assert made.scenario_of(0).protocol["repair"] == "1s"


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [(3, [1, 2, 3]), ([7, 5], [7, 5]), ({"start": 10, "stop": 20, "step": 5}, [10, 15, 20]), (None, [1])],
)
def test_seeds_are_a_count_a_list_or_a_range(seeds: Any, expected: list[int]) -> None:
    keys = {} if seeds is None else {"seeds": seeds}
    assert [point["seed"] for point in points(**keys)] == expected


def test_without_seeds_the_seed_of_the_scenario_counts() -> None:
    made = make_study({"scenario": SCENARIO | {"seed": 42}, "grid": {"nodes": [2, 3]}})
    assert [made.scenario_of(index).seed for index in range(2)] == [42, 42]


def test_a_point_changes_its_scenario_and_nothing_else() -> None:
    made = study(grid={"network.loss": [0.0, 0.25]}, seeds=2)
    scenario = made.scenario_of(3)
    assert (scenario.network.loss, scenario.seed, scenario.nodes) == (0.25, 2, 4)
    assert made.scenario == SCENARIO


# Ranges.


def test_decimal_steps_are_exact() -> None:
    assert Range(start=0, stop=1, step=0.1).values() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


@given(st.integers(-1000, 1000), st.integers(1, 400), st.integers(1, 50), st.integers(0, 4))
def test_a_range_holds_its_decimals_as_they_are_written(start: int, step: int, count: int, digits: int) -> None:
    scale = 10**digits
    ends = {"start": start / scale, "stop": (start + step * count) / scale, "step": step / scale}
    assert Range(**ends).values() == [(start + step * k) / scale for k in range(count + 1)]


def test_a_range_may_end_before_its_stop_and_may_descend() -> None:
    assert Range(start=1, stop=6, step=2).values() == [1, 3, 5]
    assert Range(start=3, stop=1, step=-1).values() == [3, 2, 1]
    assert Range(start="1s", stop="2s", step="500ms").values() == ["1s", "1.5s", "2s"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"start": 0, "stop": 1, "step": 0}, "a step of 0 does not lead from 0 to 1"),
        ({"start": 0, "stop": 1, "step": -1}, "a step of -1 does not lead from 0 to 1"),
        ({"start": 0, "stop": 1}, "the key 'step' is missing"),
        ({"start": 0, "stop": 10**9, "step": 1}, "more than the 100000 runs"),
        ({"start": 0, "stop": float("inf"), "step": 1}, "finite"),
        ({"start": "0s", "stop": "1s", "step": 2}, "expected a duration with its unit"),
    ],
)
def test_a_range_that_leads_nowhere_is_refused(value: dict[str, Any], words: str) -> None:
    text = refused(grid={"network.loss": value})
    assert text.startswith("study.toml: grid.network.loss")
    assert words in text


# Refusals: each names the file, the field, and what is wrong.


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"grdi": {}}, "study.toml: unknown key 'grdi'; did you mean 'grid'?"),
        ({"grid": {}}, "study.toml: grid: is empty"),
        ({"grid": {"nodes": []}}, "study.toml: grid.nodes: is an empty list"),
        ({"grid": {"nodes": 3}}, "study.toml: grid.nodes: expected a list of values or a range"),
        (
            {"zip": {"nodes": [1, 2], "network.loss": [0.1]}},
            "study.toml: zip: all lists must have one length; nodes has 2, network.loss has 1",
        ),
        ({"grid": {"nodes": [2]}, "zip": {"nodes": [3]}}, "study.toml: nodes: varies twice"),
        (
            {"grid": {"network": [{}], "network.loss": [0.1]}},
            "study.toml: network: varies as a whole, so network.loss cannot vary too",
        ),
        ({"grid": {"seed": [1, 2]}}, "study.toml: seed: seeds are given by the key `seeds`"),
        ({"seeds": 0}, "study.toml: seeds: "),
        ({"seeds": []}, "study.toml: seeds: is an empty list"),
        ({"seeds": {"start": 0.5, "stop": 2, "step": 0.5}}, "study.toml: seeds: expected whole numbers"),
        ({"seeds": [1, 1]}, "study.toml: two runs are the same: seed=1 and seed=1"),
        (
            {"grid": {"network.delay": ["10ms", "0.01s"]}},
            "study.toml: two runs are the same: network.delay=10ms seed=1 and network.delay=0.01s seed=1",
        ),
        (
            {"grid": {"network.loss": [0.5, 1.5]}},
            "study.toml: network.loss: expected a share from 0 to 1, got 1.5 (in the run with network.loss=1.5)",
        ),
        ({"grid": {"network.los": [0.5]}}, "study.toml: network: unknown key 'los'; did you mean 'loss'?"),
        ({"grid": {"workload.5.rate": [1.0]}}, "study.toml: workload has 1 entries, numbered from 0"),
        ({"grid": {"nodes": [2, 3], "seed-x": [1]}, "seeds": MAX_RUNS}, "more than the 100000 a study may have"),
        ({"name": "../elsewhere"}, "study.toml: name: "),
    ],
)
def test_a_bad_study_is_refused_in_one_line(keys: dict[str, Any], expected: str) -> None:
    text = refused(**keys)
    assert expected in text
    assert "\n" not in text


def test_dates_are_no_values(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text("[scenario]\n[grid]\nnodes = [2026-01-01]\n")
    with pytest.raises(ConfigurationError, match=r"grid\.nodes: a scenario has no dates"):
        load_study(file)


# Files.


def test_a_scenario_file_is_found_beside_the_study_and_its_own_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "net.toml").write_text('nodes = 3\nworkload = [{ kind = "trace", file = "sent.csv" }]\n')
    (tmp_path / "nets" / "sent.csv").write_text("t,node\n0.1,0\n")
    (tmp_path / "pairs.toml").write_text('scenario = "nets/net.toml"\n[grid]\nnetwork.loss = [0, 0.5]\n')
    made = load_study(tmp_path / "pairs.toml", overrides=["nodes=5"])
    assert (made.name, len(plan(made)), made.scenario_of(0).nodes) == ("pairs", 2, 5)
    assert run(made.scenario_of(0)).steps > 0


def test_files_are_named_in_full_for_workers_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study.toml").write_text('[scenario]\nworkload = [{ kind = "trace", file = "sent.csv" }]\n')
    monkeypatch.chdir(tmp_path)
    made = load_study("study.toml")
    monkeypatch.chdir("/")
    assert str(tmp_path / "sent.csv") in str(made.scenario_of(0).workload)


def test_an_override_of_a_field_that_varies_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="--set: nodes is varied by the study"):
        make_study({"scenario": SCENARIO, "grid": {"nodes": [2, 3]}}, overrides=["nodes=4"])


def test_more_seeds_than_a_study_has_runs_are_refused_before_they_are_listed() -> None:
    with pytest.raises(ConfigurationError, match="seeds: got 1,000,000,000,000; a study has at most 100,000 runs"):
        make_study({"scenario": SCENARIO}, seeds=10**12)


def test_errors_in_files_name_them(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('scenario = "missing.toml"\n')
    with pytest.raises(InputError, match=r"missing\.toml: cannot read"):
        load_study(file)
    file.write_text("[grid\n")
    with pytest.raises(InputError, match=r"study\.toml:1: not valid TOML"):
        load_study(file)


def test_values_and_seeds_may_grow_without_making_another_study() -> None:
    small, large = study(grid={"nodes": [2]}), study(grid={"nodes": [2, 3]}, seeds=5)
    assert small.identity() == large.identity()
    assert small.identity() != study(grid={"network.loss": [0.1]}).identity()
    assert (
        small.identity() != make_study({"scenario": SCENARIO | {"drain": "1s"}, "grid": {"nodes": [2]}}).identity()
    )


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "file", sorted((ROOT / "examples" / "studies").glob("*.toml")), ids=lambda file: file.name
)
def test_example_studies_are_valid(file: Path) -> None:
    assert plan(load_study(file))


def test_the_studies_in_the_documentation_are_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "sweeps.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for text in blocks:
        (tmp_path / "study.toml").write_text(text)
        assert len(plan(load_study(tmp_path / "study.toml"))) > 10


# Cost.


@pytest.mark.parametrize(
    "topology",
    [Complete(), Ring(), Ring(reach=3), Star(), Tree(arity=3), Grid(width=4), Grid(width=5), Random(degree=4),
     Explicit(links=[(0, 1), (1, 2)])],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("nodes", [8, 20, 23])
def test_links_are_counted_without_making_them(topology: Topology, nodes: int) -> None:
    assert link_count(topology, nodes) == len(edges(topology, nodes, seed=1))


def test_long_runs_are_expected_to_be_long() -> None:
    made = study(grid={"nodes": [3, 12, 6]}, seeds=1)
    expected = [expected_steps(made.scenario_of(index)) for index in range(3)]
    actual = [run(made.scenario_of(index)).steps for index in range(3)]
    assert sorted(range(3), key=expected.__getitem__) == sorted(range(3), key=actual.__getitem__) == [0, 2, 1]
    assert all(0.2 < e / a < 5 for e, a in zip(expected, actual, strict=True))


def test_columns_have_no_dots() -> None:
    assert column_name("workload.0.rate") == "workload_0_rate"
