"""Who can run on a network, with which settings, what the others lack; and that all are offered the same."""

import re
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecast.comparison.candidates import (
    REMEDIES,
    base_scenario,
    comparison_study,
    find_candidates,
    parse_settings,
)
from antecast.comparison.measures import digest, measure
from antecast.core import ConfigurationError
from antecast.protocols import Need, specification, specifications
from antecast.sim.run import run
from antecast.traces.schema import CONTACTS

COMPLETE = {
    "nodes": 5,
    "duration": "1s",
    "network": {"fifo": True, "delay": {"kind": "uniform", "low": "1ms", "high": "150ms"}},
    "workload": [{"kind": "poisson", "rate": 6.0}],
}
CRASHING = COMPLETE | {
    "faults": [{"kind": "crash", "at": "300ms", "node": 2}, {"kind": "recover", "at": "600ms", "node": 2}]
}
CELLS = {
    "nodes": 9,
    "duration": "4s",
    "drain": "4s",
    "protocol": {"name": "cellular"},
    "network": {"topology": {"kind": "cells", "stations": 3}},
    "workload": [{"kind": "poisson", "rate": 0.5, "start": "1s"}],
}


def candidates(values, **options):
    return find_candidates(base_scenario(values, Path()), own=values.get("protocol"), **options)


def lacking(values, **options):
    return {each.name: each.lacks for each in candidates(values, **options) if each.lacks}


def changed(values, **network):
    return values | {"network": values["network"] | network}


@pytest.fixture
def meeting(tmp_path):
    """Three nodes that meet in turn: 0 and 1, then 1 and 2."""
    names = pa.array(["0", "1", "2"]).dictionary_encode()
    a, b = names.take(pa.array([0, 1, 0])), names.take(pa.array([1, 2, 2]))
    times = [0, 2 * 10**9, 4 * 10**9], [10**9, 3 * 10**9, 6 * 10**9]
    pq.write_table(pa.table([a, b, *times], schema=CONTACTS), tmp_path / "contacts.parquet")
    return {
        "network": {"topology": {"kind": "contacts", "file": str(tmp_path / "contacts.parquet")}},
        "workload": [{"kind": "periodic", "every": "1s"}],
    }


def test_every_registered_protocol_is_listed_and_each_need_has_words():
    assert [each.name for each in candidates(COMPLETE)] == [each.name for each in specifications()]
    assert set(REMEDIES) == set(Need)


def test_those_who_cannot_run_say_what_they_lack():
    ring = changed(COMPLETE, topology={"kind": "ring"}, fifo=False)
    found = lacking(ring)
    assert found["pc-broadcast"] == ("links that keep the order of their frames: network.fifo = true",)
    assert found["vcube"] == ('a link between every two nodes: topology = { kind = "complete" }',)
    assert found["cellular"] == ('stations and cells: topology = { kind = "cells" }',)
    assert "vector" not in found


def test_on_a_complete_fifo_graph_only_the_protocols_of_cells_cannot_run():
    assert lacking(COMPLETE).keys() == {"cellular", "tcp-flooding"}


def test_in_cells_only_the_protocols_of_cells_can_run():
    assert {each.name for each in candidates(CELLS) if not each.lacks} == {"cellular", "tcp-flooding"}


def test_a_scenario_of_cells_need_not_name_a_protocol():
    assert lacking({key: value for key, value in CELLS.items() if key != "protocol"}) == lacking(CELLS)


def test_among_contacts_those_run_that_need_no_graph(meeting):
    able = {each.name for each in candidates(meeting) if not each.lacks}
    assert {"epidemic", "barrier", "delta", "epidemic-vector", "vector"} <= able
    assert not {"vcube", "cellular", "pc-broadcast"} & able


def test_where_links_lose_a_protocol_that_can_repair_runs_with_repair_and_says_so():
    found = {each.name: each for each in candidates(changed(COMPLETE, loss=0.1))}
    assert found["vector"].settings == {"repair": "100ms"} and found["vector"].adjusted == ("repair",)
    assert found["vector"].needs == ()
    assert found["barrier"].lacks == ("reliable links: network.loss = 0 and no queue_limit",)


def test_settings_of_the_user_are_not_adjusted():
    lossy = changed(COMPLETE, loss=0.1)
    own = {each.name: each for each in candidates(lossy | {"protocol": {"name": "fifo", "repair": "30ms"}})}
    assert own["fifo"].settings == {"repair": "30ms"} and own["fifo"].adjusted == ()
    assert own["vector"].settings == {"repair": "100ms"}
    given = {each.name: each for each in candidates(lossy, given={"fifo": {"repair": "50ms"}})}
    assert given["fifo"].settings == {"repair": "50ms"} and given["fifo"].adjusted == ()
    assert lacking(lossy, given={"fifo": {"repair": "0s"}})["fifo"] == (REMEDIES[Need.RELIABLE_LINKS],)


def test_a_workload_with_lifetimes_is_for_those_who_know_them():
    mortal = COMPLETE | {"workload": [{"kind": "poisson", "rate": 6.0, "lifetime": "500ms"}]}
    able = [each.name for each in candidates(mortal) if not each.lacks]
    assert able == ["delta"]
    assert lacking(mortal)["vector"] == ("messages without lifetimes: no lifetime in the workload",)


def test_choosing_some_leaves_out_the_others():
    assert [each.name for each in candidates(COMPLETE, chosen=["vector", "fifo", "vector"])] == ["vector", "fifo"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"chosen": ["vektor"]}, "--protocol: unknown protocol 'vektor'; did you mean 'vector'?"),
        ({"chosen": ["fifo"], "given": {"vector": {}}}, "--with: vector is not among the protocols compared"),
    ],
)
def test_wrong_choices_are_refused(options, words):
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        candidates(COMPLETE, **options)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("delta", "--with: expected PROTOCOL.SETTING=VALUE"),
        ("delta.lifetime", "--with: expected PROTOCOL.SETTING=VALUE"),
        ("dleta.lifetime=1s", "--with: unknown protocol 'dleta'; did you mean 'delta'?"),
        ("delta.lifetme=1s", "--with delta: unknown key 'lifetme'; did you mean 'lifetime'?"),
        ("delta.lifetime=3", "--with delta.lifetime: expected a duration with its unit"),
    ],
)
def test_wrong_settings_are_refused(text, words):
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        parse_settings([text])


def test_a_scenario_that_broadcasts_nothing_is_refused():
    with pytest.raises(ConfigurationError, match="add a \\[\\[workload\\]\\]"):
        base_scenario({"nodes": 3}, Path())


def test_seeds_go_up_from_the_scenario_s_own_and_frames_are_always_logged():
    values = COMPLETE | {"seed": 7, "log": {"events": "order"}}
    study = comparison_study(values, candidates(values), name="x", folder=Path(), seeds=2)
    assert study.values("seed") == [7, 8]
    assert study.scenario_of(0).log.events == "all"
    assert {table["name"] for table in study.values("protocol")}.isdisjoint({"cellular", "tcp-flooding"})


def broadcasts(values):
    """The broadcasts of each protocol as bytes, and its measures."""
    base = base_scenario(values, Path())
    for each in find_candidates(base, own=values.get("protocol")):
        if not each.lacks:
            result = run(msgspec.structs.replace(base, protocol=each.table))
            table = result.events.filter(pa.compute.equal(result.events["kind"], "broadcast"))
            rows = sorted(table.select(["t", "node", "bytes"]).to_pylist(), key=str)
            units = each.specification.gauges
            numbers = measure(
                result.events, result.samples, applications=base.total_nodes, until=base.duration, units=units
            )
            yield each.name, repr(rows).encode(), numbers


@pytest.mark.parametrize("values", [COMPLETE, CRASHING, CELLS], ids=["complete", "crashing", "cells"])
def test_all_protocols_are_offered_the_same_broadcasts_byte_for_byte(values):
    offers = list(broadcasts(values))
    assert len(offers) >= 2
    assert len({rows for _, rows, _ in offers}) == 1
    assert len({numbers["offered_digest"] for _, _, numbers in offers}) == 1
    assert offers[0][2]["offered"] > 5


def test_answers_to_deliveries_cannot_be_the_same_and_the_digest_shows_it():
    talking = changed(COMPLETE, fifo=False) | {
        "workload": [*COMPLETE["workload"], {"kind": "chatter", "answers": 0.9}]
    }
    assert len({numbers["offered_digest"] for _, _, numbers in broadcasts(talking)}) > 1


@pytest.mark.parametrize("column", ["t", "node", "bytes"])
def test_the_digest_sees_any_difference(column):
    table = pa.table({"t": [1, 2], "node": [0, 1], "bytes": [64, 64]})
    other = table.to_pydict()
    other[column][0] += 1
    assert digest(table) == digest(table.take([1, 0]))
    assert digest(table) != digest(pa.table(other))


def test_every_gauge_of_every_protocol_is_declared():
    """A new gauge of ours belongs into its `Specification`; those of the network are no memory."""
    network = {"radio_received", "radio_missed"}
    for values in (CRASHING, CELLS):
        for name, _, numbers in broadcasts(values):
            assert numbers["gauges"].keys() - network <= specification(name).gauges.keys(), name
            assert numbers["memory"]["messages"] is not None
