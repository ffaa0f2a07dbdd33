"""The fuzzer finds the faults of toys, with few steps, and none in our protocols."""

from dataclasses import replace
from random import Random

import msgspec
import pytest
import toys

from antecast.core import Message, MessageId
from antecast.protocols import Need, specification, specifications
from antecast.protocols.delta import Stamp
from antecast.protocols.preventive.frames import Part, Refuse, Start, Sync
from antecast.protocols.retained import Base, Summary
from antecast.testing import Bench, assert_unharmed
from antecast.testing.frames import FrameMaker
from antecast.testing.fuzz import Campaign, growth, main
from antecast.testing.hostile import HOSTILE, Fault, Play, Stage, Step, play, told
from antecast.testing.record import Record
from antecast.testing.state import whole_state

FRAMES = 2_000
everything = pytest.mark.parametrize("spec", specifications(), ids=lambda spec: spec.name)


def first_finding(make, frames=4_000):
    return next(Campaign(toys.spec_of(make)).findings(frames), None)


def test_a_protocol_that_bears_everything_passes():
    assert first_finding(toys.Gossip) is None


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (toys.Crashes, "crash", "IndexError"),
        (toys.Hangs, "hang", "CPU time"),
        (toys.ChangesFirst, "changed", "Poke"),
        (toys.TrustsStrangers, "no link", "without a link"),
        (toys.Believes, "lost", "never delivered"),
    ],
)
def test_a_fault_is_found_and_cut_down_to_a_step_or_two(make, kind, words, monkeypatch):
    monkeypatch.setattr("antecast.testing.hostile.STEP_SECONDS", 0.2)
    finding = first_finding(make)
    assert finding.fault.kind == kind
    assert words in str(finding)
    assert len(finding.steps) <= 2
    assert "bench.inject(" in str(finding)
    assert play(finding.stage, finding.steps).kind == kind


def test_a_base_that_was_waited_for_may_name_what_is_still_on_its_way():
    """The hostile node refuses node 0; 30 s later it offers a base with what node 1 has just broadcast."""
    spec = specification("pc-broadcast")
    stage, codec = Stage(spec, {}, (0,)), Bench(spec, nodes=1).nodes[0].codec

    def told_to_0(frame):
        return Step("frame", HOSTILE, 0, codec.encode(frame))

    steps = [
        told_to_0(Sync(upto={}, births={}, want=True, take=False)),
        told_to_0(Part(upto={12: 1}, births={}, gone=[])),
        Step("broadcast", 1),
        told_to_0(Refuse(lacking={}, provider=0)),
        Step("wait", 30 * 10**9),
        Step("broadcast", 1),
        Step("broadcast", 1),
        told_to_0(Start(base={1: 4}, births={}, gone=[], more=True)),
    ]
    assert play(stage, steps).kind == "lost"
    assert play(stage, steps, excuse=True) is None
    assert play(stage, [*steps[:-1], told_to_0(Start(base={1: 2}, births={}, gone=[], more=True))]) is None
    distrustful = Stage(replace(spec, trusts_bases=False), {}, (0,))
    assert play(distrustful, steps, excuse=True).kind == "lost"


def test_messages_passed_on_in_another_order_break_it_where_they_carry_nothing_that_tells():
    """The hostile node brings 1:2 to node 2 early, and what node 2 broadcasts then to node 0, which lacks 1:2."""
    spec = specification("pc-broadcast")
    stage, codec = Stage(spec, {}, (0, 2)), Bench(spec, nodes=1).nodes[0].codec
    steps = [
        Step("broadcast", 1),
        Step("frame", HOSTILE, 2, codec.encode(Message(1, 2, b"x", None))),
        Step("broadcast", 2),
        Step("frame", HOSTILE, 0, codec.encode(Message(2, 2, b"x", None))),
    ]
    assert play(stage, steps).kind == "order"
    assert play(stage, steps, excuse=True) is None
    assert play(replace(stage, spec=replace(spec, trusts_order=False)), steps, excuse=True).kind == "order"


def test_a_base_that_leaves_out_what_its_messages_depend_on_breaks_order_where_stamps_name_only_a_part():
    """Node 0 holds 1:2 and 2:5, which depends on it, behind messages of nodes that do not exist. A base with 2:6
    and without 1:2 makes it go on with 2:7. Stamps that name everything keep the order."""
    far = 9007199254740992
    codec = specification("vector-changes").make(0, specification("vector-changes").configure({})).codec

    def frame(to, frame):
        return Step("frame", HOSTILE, to, codec.encode(frame))

    steps = [
        frame(2, Message(65535, far, b"x", {})),
        Step("broadcast", 2),
        frame(2, Message(HOSTILE, 2, b"x", {0: 2, 12: 5})),
        Step("broadcast", 2),
        frame(0, Summary({65536: 3, 0: 0}, {HOSTILE: [1, 1, 11]}, False)),
        frame(0, Base({HOSTILE: 100, 0: 1})),
        frame(2, Message(HOSTILE, 1, b"", {})),
        frame(2, Summary({HOSTILE: 0, 10: 1}, {1: [], 4294967295: [3]}, False)),
        frame(2, Message(HOSTILE, 3, b"x", {11: far})),
        Step("broadcast", 2),
        frame(2, Base({65535: far - 1, HOSTILE: 4, 12: 3, 0: 2, 77: 5})),
        Step("broadcast", 0),
        frame(0, Message(HOSTILE, 8, b"x", {1: 2, 1000: 4, 77: 1})),
        frame(0, Base({11: far, 2: 2})),
        Step("wait", 30 * 10**9),
        Step("broadcast", 1),
        Step("broadcast", 2),
        frame(0, Message(HOSTILE, 4, b"x", {2: 4})),
        Step("wait", 10**9),
        Step("broadcast", 2),
        Step("broadcast", 2),
        frame(0, Base({2: 6, 77: 4})),
    ]
    spec = specification("vector-changes")
    stage = Stage(spec, {"repair": "2s"}, (0, 2))
    assert play(stage, steps).kind == "order"
    assert play(stage, steps, excuse=True) is None
    assert play(replace(stage, spec=replace(spec, trusts_closure=False)), steps, excuse=True).kind == "order"
    whole = play(Stage(specification("vector"), {"repair": "2s"}, (0, 2)), steps, excuse=True)
    assert whole is None or whole.kind != "order"


@pytest.mark.parametrize("rule", ["paper", "safe"])
def test_what_honest_nodes_broadcast_comes_after_what_they_delivered_from_a_liar(rule):
    """The hostile node gives two messages one tag. Node 2 delivers both and answers; the answer comes to node 0
    before the second message, for which under the published rule the first one stands."""
    performance = Play(Stage(specification("delta"), {"rule": rule}, (0, 2)))

    def send(to, frame):
        performance.do(Step("frame", HOSTILE, to, performance.codec.encode(frame)))

    for number in (1, 2):
        send(2, Message(HOSTILE, number, b"", Stamp(10**9, {})))
        if number == 1:
            performance.do(Step("wait", 10**8))
    performance.do(Step("broadcast", 2))
    send(0, next(frame for frame in performance.sent if isinstance(frame, Message) and frame.id == (2, 2)))
    if rule == "safe":
        performance.end()
        assert MessageId(HOSTILE, 2) not in performance.bench.delivered[0]
    else:
        with pytest.raises(Fault, match="node 0 delivered 2:2 before 9:2, which 2:2 depends on"):
            performance.end()


def test_the_suite_of_a_protocol_is_told_what_harm_was_done():
    assert_unharmed(toys.SPEC, frames=500)
    with pytest.raises(AssertionError, match="changed"):
        assert_unharmed(toys.spec_of(toys.ChangesFirst), frames=4_000)


def test_memory_that_grows_is_found():
    assert growth(toys.spec_of(toys.Short), frames=400).bounded
    assert not growth(toys.spec_of(toys.Hoards), frames=1200).bounded


def test_plays_are_the_same_each_time():
    campaigns = [Campaign(toys.SPEC, seed=5) for _ in range(2)]
    assert campaigns[0].play(3)[1] == campaigns[1].play(3)[1]
    assert campaigns[0].play(3)[1] != Campaign(toys.SPEC, seed=6).play(3)[1]


@everything
def test_every_type_of_frame_is_made_and_decodes(spec):
    codec = spec.make(0, spec.fit(spec.configure({}), 3)).codec
    maker = FrameMaker(codec, Random(1), (0, 1, 2), 9, forge=True)
    for kind in maker.kinds:
        for _ in range(20):
            frame = maker.make(kind)
            assert codec.decode(codec.encode(frame)) == frame


def test_without_forging_no_message_is_in_an_honest_name_and_names_stand_for_one_message():
    maker = FrameMaker(toys.SPEC.make(0, None).codec, Random(1), (0, 1, 2), 9, forge=False)
    genuine = Message(0, 1, b"x", None)
    maker.overhear(genuine)
    made = [frame for frame in (maker.make() for _ in range(2_000)) if isinstance(frame, Message)]
    assert {frame for frame in made if frame.origin in (0, 1, 2)} == {genuine}
    strange = {frame for frame in made if frame.origin not in (0, 1, 2)}
    assert len({frame.id for frame in strange}) == len(strange)


def test_a_step_that_would_be_a_forgery_is_not_played():
    data = msgspec.msgpack.encode(Message(1, 9, b"forged", None))
    stage = Stage(toys.spec_of(toys.Gossip))
    step = Step("frame", 9, 0, b"\x01" + data)
    assert play(stage, [step]) is None
    assert "Message(origin=1, seq=9" in told(stage, [step])


@everything
def test_hostile_frames_do_no_harm(spec):
    finding = next(Campaign(spec, seed=1).findings(FRAMES), None)
    assert finding is None, str(finding)


@everything
def test_hostile_frames_in_honest_names_neither_crash_nor_hang_and_a_refused_one_changes_nothing(
    spec, monkeypatch
):
    """Nothing at all: neither what a snapshot holds nor links, offers, quotas and caches. Every type of frame is
    refused now and then."""
    monkeypatch.setattr(Bench, "state", lambda bench, node: whole_state(bench.nodes[node]))
    refused, refuse = set(), Record.refuse

    def count(record, node, frame, *why):
        refused.add(type(frame).__name__)
        refuse(record, node, frame, *why)

    monkeypatch.setattr(Record, "refuse", count)
    finding = next(Campaign(spec, seed=2, forge=True).findings(FRAMES // 4), None)
    assert finding is None, str(finding)
    codec = spec.make(0, spec.fit(spec.configure({}), 3)).codec
    assert refused >= set(FrameMaker(codec, Random(1), (0, 1, 2), 9, forge=True).kinds)


@pytest.mark.parametrize("make", [toys.ChangesFirst, toys.ChangesApart])
def test_a_refused_frame_that_changed_something_is_found(make, monkeypatch):
    monkeypatch.setattr(Bench, "state", lambda bench, node: whole_state(bench.nodes[node]))
    assert first_finding(make).fault.kind == "changed"


@everything
def test_memory_does_not_grow_with_hostile_frames(spec, monkeypatch):
    monkeypatch.setattr("antecast.protocols.vcube.trees.FULL", 4000)  # bounds that a few frames reach
    monkeypatch.setattr("antecast.protocols.vcube.trees.WINDOW", 8)
    if Need.STATIC_MEMBERS in spec.needs(spec.configure({})):
        pytest.skip("a member that falls silent is a failed one, for which everything is kept")
    held = growth(spec, frames=600)
    assert held.bounded, held


def test_the_command_counts_and_exits_with_what_it_found(capsys):
    assert main(["epidemic", "--frames", "100"]) in (0, 1)
    assert "frames in" in capsys.readouterr().out
    assert main(["no-such-protocol"]) == 2
