"""A protocol object that was frozen in the middle of its life goes on as if nothing had happened."""

import pytest
from journals import restless

from antecast.core import Codec, Message, Protocol
from antecast.live.frozen import freeze, thaw
from antecast.protocols import specifications
from antecast.testing import Bench

LINKED = [spec.name for spec in specifications() if spec.make_station is None]


def busy(name: str, seed: int) -> Bench:
    """A network in which links come and go, frames are in flight and messages wait."""
    return restless(name, seed, steps=60)


def again(bench: Bench, node: Protocol) -> Protocol:
    return thaw(freeze(node, bench.make(node.node)), bench.make(node.node))


@pytest.mark.parametrize("name", LINKED)
def test_a_thawed_object_is_the_object_it_was(name):
    for seed in range(4):
        bench = busy(name, seed)
        for number, node in bench.nodes.items():
            copy = again(bench, node)
            assert copy.canonical() == node.canonical(), (name, seed, number)
            assert copy.gauges() == node.gauges()


@pytest.mark.parametrize("name", LINKED)
def test_both_give_the_same_effects_from_then_on(name):
    one, two = busy(name, 7), busy(name, 7)
    for number in range(4):
        two.nodes[number] = again(two, two.nodes[number])
    for bench in (one, two):
        bench.record = True
        bench.transfer()
        for number in range(4):
            bench.broadcast(number, b"after")
        bench.run(10**9)
    assert one.calls == two.calls


@pytest.mark.parametrize("name", ["cellular", "tcp-flooding"])
@pytest.mark.parametrize("role", ["make", "make_station"])
def test_hosts_and_stations_freeze_too(name, role):
    (spec,) = (each for each in specifications() if each.name == name)
    settings = spec.fit(spec.configure({}), 3)
    make = getattr(spec, role)
    node = make(1, settings)
    node.link_up(0, 5)
    assert thaw(freeze(node, make(1, settings)), make(1, settings)).canonical() == node.canonical()


def test_a_journal_from_elsewhere_cannot_name_any_class():
    import msgspec

    bench = Bench("vector", nodes=1)
    for name in ("subprocess:Popen", "antecast.cli.app:main", "antecast.core.wire:reduce"):
        with pytest.raises(ValueError, match="names"):
            thaw(msgspec.msgpack.encode([5, name, []]), bench.make(0))


@pytest.mark.parametrize("stray", [iter([1]), lambda: stray_cell, Codec([Message[None]])])
def test_what_has_no_place_in_a_new_object_is_refused_when_it_is_frozen(stray):
    bench = Bench("vector", nodes=1)
    bench.nodes[0]._dissemination.stray = stray
    with pytest.raises(TypeError):
        freeze(bench.nodes[0], bench.make(0))


stray_cell = 1
