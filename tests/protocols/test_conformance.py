"""Every registered protocol keeps its promises on random networks, and the contract on a restless bench. New
protocols need no new test."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.history.oracle import judge
from antecast.protocols import Guarantee, Specification, specifications
from antecast.sim import run
from antecast.sim.scenario import make_scenario
from antecast.testing import assert_conforms, assert_contract, encounters, odd_clocks, plans, scenarios
from antecast.testing.encounters import can_meet

everything = pytest.mark.parametrize("spec", specifications(), ids=lambda spec: spec.name)
meeting = pytest.mark.parametrize("spec", [*filter(can_meet, specifications())], ids=lambda spec: spec.name)


@everything
@given(data=st.data())
def test_a_protocol_keeps_its_promises_on_random_networks(spec: Specification, data: st.DataObject) -> None:
    assert_conforms(data.draw(scenarios(spec)))


@meeting
@given(data=st.data())
def test_a_protocol_keeps_its_promises_where_nodes_meet_and_part(
    spec: Specification, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert_conforms(data.draw(encounters(spec, tmp_path_factory.getbasetemp())))


@meeting
@given(data=st.data())
def test_a_protocol_bears_clocks_that_are_off_and_only_a_wild_one_suffers(
    spec: Specification, data: st.DataObject
) -> None:
    odd = data.draw(odd_clocks(spec))
    assert_conforms(odd.scenario, besides=odd.wild)


@everything
@given(data=st.data())
def test_a_protocol_keeps_the_contract(spec: Specification, data: st.DataObject) -> None:
    assert_contract(spec, data.draw(plans(spec)))


@everything
@given(data=st.data())
def test_frames_survive_the_wire(spec: Specification, data: st.DataObject) -> None:
    """What the simulator passes as an object is what a socket would carry."""
    scenario = data.draw(scenarios(spec, max_nodes=4, max_broadcasts=8, crowd=0))
    frames: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        from antecast.sim.links import Link

        send, send_all = Link.send, Link.send_all
        patch.setattr(Link, "send", lambda link, parcel: (frames.append(parcel), send(link, parcel))[1])
        patch.setattr(Link, "send_all", lambda link, parcels: (frames.extend(parcels), send_all(link, parcels))[1])
        run(scenario)
    codec = spec.make(0, scenario.protocol_settings).codec
    for frame, size in frames:
        encoded = codec.encode(frame)
        assert len(encoded) == size
        assert codec.decode(encoded) == frame


@pytest.mark.parametrize(
    "spec",
    [each for each in specifications() if Guarantee.CAUSAL not in each.guarantees],
    ids=lambda spec: spec.name,
)
def test_the_oracle_catches_protocols_that_promise_no_causal_order(spec: Specification) -> None:
    """The negative control: over a triangle with one slow side, and another that reorders, an answer
    overtakes the question."""
    values = {
        "nodes": 3,
        "protocol": {"name": spec.name},
        "network": {
            "delay": "1ms",
            "links": [
                {"a": 0, "b": 2, "delay": "1s"},
                {"a": 1, "b": 2, "delay": {"kind": "uniform", "low": "1ms", "high": "500ms"}},
            ],
        },
        "workload": [{"kind": "at", "broadcasts": [{"t": "5s", "node": 0}, {"t": "5002ms", "node": 1}]}],
    }
    early = [judge(run(make_scenario(values | {"seed": seed})).events).early for seed in range(20)]
    assert any(early)
    assert not all(early)
