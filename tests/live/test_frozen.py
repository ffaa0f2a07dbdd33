"""A protocol object that was frozen in the middle of its life goes on as if nothing had happened."""

import tracemalloc
from typing import Any

import pytest
from journals import restless

from antecast.core import Codec, Message, Protocol
from antecast.live.frozen import freeze, thaw
from antecast.protocols import specifications
from antecast.protocols.contact import Request
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


def kept(*things: object) -> tuple[Protocol, list[Any]]:
    """A node that holds things beside its own, and the same things after it was frozen and thawed."""
    bench = Bench("vector", nodes=1)
    node: Any = bench.nodes[0]
    node._dissemination.kept = list(things)
    copy: Any = again(bench, node)
    assert copy.canonical() == node.canonical()
    return node, copy._dissemination.kept


@pytest.mark.parametrize("message_first", [True, False])
def test_a_clock_that_a_message_and_its_node_share_is_shared_afterwards(message_first):
    clock = {3: 4}
    message = Message(0, 1, b"", clock)
    _, (one, two) = kept(*((message, clock) if message_first else (clock, message)))
    message, clock = (one, two) if message_first else (two, one)
    assert message.stamp is clock


def test_messages_that_share_a_clock_or_are_one_stay_so():
    clock = {3: 4}
    first = Message(0, 1, b"", clock)
    _, (one, two, three) = kept(first, Message(0, 2, b"", clock), first)
    assert one.stamp is two.stamp
    assert one is three


@pytest.mark.parametrize(
    "stamp",
    [
        {2: 7, 1: 9},
        {1: 1 << 70},
        {1: -(1 << 70)},
        {1: [2]},
        {1: True},
        [1, 2],
        (1, 2),
        {1},
        None,
        "text",
        {"a": 1},
        1.0,
    ],
)
def test_a_message_comes_back_as_it_was_even_if_no_link_would_carry_it(stamp):
    _, (message,) = kept(Message(0, 1, b"", stamp))
    assert repr(message.stamp) == repr(stamp)  # the order of its entries and their types, too


def test_a_frame_that_is_never_sent_is_written_part_by_part():
    wanted: Any = {1: 2}  # on a link of this protocol it would be a base
    _, (frame,) = kept(Request(wanted))
    assert frame == Request(wanted)


@pytest.mark.parametrize("name", [(0, 1), (1 << 64, 1), (-(1 << 70), 1), (True, 1), (1, "a"), ()])
def test_tuples_come_back_as_they_were(name):
    _, (again_,) = kept(name)
    assert repr(again_) == repr(name)


def test_a_node_that_keeps_many_messages_is_frozen_by_their_encoding():
    bench = Bench("vector", nodes=2)
    bench.link(0, 1)
    for n in range(50):
        bench.broadcast(n % 2, b"payload %d" % n)
    bench.transfer()
    node = bench.nodes[0]
    frozen, codec = freeze(node, bench.make(0)), node.codec
    assert all(codec.encode(each) in frozen for each in node._dissemination.stored())


def test_a_snapshot_of_many_messages_takes_little_memory_beside_them():
    """What a snapshot takes for a moment, a long-running process keeps in part: it scatters what is kept."""
    bench = Bench("vector", nodes=2)
    bench.link(0, 1)
    for n in range(1000):
        bench.broadcast(n % 2, b"%0100d" % n)
        bench.transfer()
    template = bench.make(0)
    tracemalloc.start()
    try:
        freeze(bench.nodes[0], template)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1000 * 1000  # 650 bytes per message; 1,470 if each were written part by part
