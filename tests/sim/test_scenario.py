"""Scenarios: what is wrong is refused with the path of the field, and overrides reach every field."""

import pytest

from antecast.core import ConfigurationError, InputError
from antecast.protocols import Need
from antecast.sim import run
from antecast.sim.scenario import load_scenario, make_scenario, override, read_toml


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"protocol": {"name": "vectr"}}, r"protocol\.name: unknown protocol 'vectr'; did you mean 'vector'"),
        ({"protocol": {}}, r"protocol\.name: expected the name of a protocol"),
        ({"protocol": {"name": "vector", "retian": 3}}, r"protocol: unknown key 'retian'; did you mean 'retain'"),
        ({"netwrk": {}}, "unknown key 'netwrk'; did you mean 'network'"),
        ({"network": {"dely": "1s"}}, "network: unknown key 'dely'; did you mean 'delay'"),
        ({"network": {"delay": "-5ms"}}, "network: delay: expected a duration of zero or more, got '-5ms'"),
        (
            {"network": {"delay": {"kind": "uniform", "low": "-1ms", "high": "1s"}}},
            r"network\.delay\.low: expected a dur",
        ),
        (
            {"network": {"delay": {"kind": "uniform", "low": "2s", "high": "1s"}}},
            r"network\.delay: low \(2s\) must not",
        ),
        (
            {"network": {"delay": {"kind": "unifrm"}}},
            r"network\.delay\.kind: expected one of 'con.*, got 'unifrm'",
        ),
        ({"network": {"queue": "lane"}}, r"network\.queue: expected one of 'link', 'node', got 'lane'"),
        (
            {"network": {"topology": "ring"}},
            r'topology: expected a table, got text; did you mean { kind = "ring" }',
        ),
        (
            {"network": {"topology": "mesh"}},
            r"topology: expected a table, got text; its kind is one of 'complete',",
        ),
        ({"workload": [{"rate": 1.0}]}, r"workload\[0\]: the key 'kind' is missing; it is one of 'periodic',"),
        ({"network": {"delay": "fast"}}, r"network: delay: expected a duration with its unit"),
        (
            {"network": {"delay": 20}},
            r"network\.delay: expected text .* number 20; a delay is written .* \"20ms\"",
        ),
        (
            {"workload": [{"kind": "chatter", "delay": 0.5}]},
            r"workload\[0\]\.delay: .* its unit, such as \"0\.5ms\"",
        ),
        ({"seed": -1}, r"seed: expected a whole number from 0 to 9,223,372,036,854,775,807, got -1"),
        ({"network": {"loss": 1.5}}, r"network\.loss: expected a share from 0 to 1, got 1\.5"),
        ({"nodes": 0}, "nodes: expected a whole number from 1 to 10,000,000, got 0"),
        ({"nodes": "many"}, "nodes: expected a whole number, got text"),
        ({"duration": 10}, "duration: expected a duration with its unit"),
        ({"workload": [{"kind": "poisson"}]}, r"workload\[0\]: the key 'rate' is missing"),
        (
            {"workload": [{"kind": "poisson", "rate": 1.0, "senders": [99]}]},
            r"workload\[0\]\.senders: there is no node 99",
        ),
        (
            {"faults": [{"kind": "crash", "at": "1s", "node": 8}]},
            r"faults\[0\]\.node: there is no node 8; nodes are 0 to 7",
        ),
        (
            {"faults": [{"kind": "join", "at": "1s", "node": 3}]},
            r"faults\[0\]\.node: node 3 is there from the start",
        ),
        ({"network": {"links": [{"a": 0, "b": 50}]}}, r"network\.links\[0\]\.b: there is no node 50"),
        ({"clocks": {"fixed": {"77": "1s"}}}, r"clocks\.fixed: there is no node 77"),
        ({"name": "../../etc"}, "name: expected text matching regex"),
        (
            {"network": {"topology": {"kind": "contacts", "file": "a\0b"}}},
            r"network\.topology\.file: expected text matching regex",
        ),
        ({"workload": [{"kind": "trace", "file": "a\0b"}]}, r"workload\[0\]\.file: expected text matching regex"),
    ],
)
def test_a_mistake_is_named_by_its_field(values, message):
    with pytest.raises(ConfigurationError, match=message):
        make_scenario(values)


def test_a_protocol_may_be_only_a_name(tmp_path):
    assert make_scenario({"protocol": "vcube"}) == make_scenario({"protocol": {"name": "vcube"}})
    path = tmp_path / "short.toml"
    path.write_text('protocol = "fifo"\n')
    assert load_scenario(path).protocol == {"name": "fifo"}
    assert load_scenario(path, ["protocol.repair=1s"]).protocol == {"name": "fifo", "repair": "1s"}
    assert load_scenario(path, ["protocol=vcube"]).protocol == {"name": "vcube"}


def test_a_file_is_named_in_front_of_the_field(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("[network]\nloss = 2\n")
    with pytest.raises(ConfigurationError, match=rf"^{path}: network\.loss: expected"):
        load_scenario(path)


def test_a_syntax_error_is_named_by_its_line(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text('nodes = 3\nname = "unclosed\n')
    with pytest.raises(InputError, match=r"bad\.toml:2: not valid TOML") as caught:
        read_toml(path)
    assert caught.value.line == 2


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, content):
    path = tmp_path / "scenario.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=r"scenario\.toml: (cannot read|not a text file)"):
        read_toml(path)


def test_overrides_reach_tables_lists_and_new_fields():
    values = {"network": {"loss": 0.0}, "workload": [{"kind": "poisson", "rate": 1.0}]}
    changes = ["network.loss=0.25", "workload.0.rate=5", "protocol.name=fifo", "duration='3s'", "log.sample=1s"]
    assert override(values, changes) == {
        "network": {"loss": 0.25},
        "workload": [{"kind": "poisson", "rate": 5}],
        "protocol": {"name": "fifo"},
        "duration": "3s",
        "log": {"sample": "1s"},
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("network", "expected FIELD=VALUE"),
        ("=3", "expected FIELD=VALUE"),
        ("workload.7.rate=5", "workload has 1 entries, numbered from 0; got '7'"),
        ("nodes.x=5", "nodes is not a table"),
    ],
)
def test_a_wrong_override_is_explained(change, message):
    with pytest.raises(ConfigurationError, match=f"--set: {message}"):
        override({"nodes": 3, "workload": [{}]}, [change])


def test_a_plain_scenario_reads_back_as_the_same():
    scenario = make_scenario({"network": {"delay": "5ms"}, "workload": [{"kind": "chatter", "delay": "1s"}]})
    assert make_scenario(scenario.plain()).plain() == scenario.plain()


def test_unmet_needs_are_known():
    assert make_scenario({"network": {"loss": 0.1}}).unmet_needs() == [Need.RELIABLE_LINKS]
    repaired = {"network": {"loss": 0.1}, "protocol": {"name": "vector", "repair": "1s"}}
    assert make_scenario(repaired).unmet_needs() == []


@pytest.mark.parametrize(
    ("protocol", "network", "problem"),
    [
        ({"name": "pc-broadcast", "timeout": "0s"}, {"fifo": True}, "timeout must be above 0s"),
        ({"name": "cellular", "retransmit": "0s"}, {"topology": {"kind": "cells"}}, "retransmit must be above 0s"),
    ],
)
def test_a_time_that_would_keep_a_run_in_one_instant_for_ever_is_refused(protocol, network, problem):
    with pytest.raises(ConfigurationError, match=problem):
        make_scenario({"nodes": 4, "protocol": protocol, "network": network})


def test_repair_every_0_s_is_none():
    """It kept a run in one instant for ever."""
    values = {
        "nodes": 3,
        "duration": "1s",
        "workload": [{"kind": "at", "broadcasts": [{"t": "500ms", "node": 0}]}],
    }
    results = [
        run(make_scenario(values | {"protocol": {"name": "fifo"} | each})) for each in ({}, {"repair": "0s"})
    ]
    assert [result.steps for result in results] == [results[0].steps] * 2
