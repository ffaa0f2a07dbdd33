"""Any frame of the protocol, with any values, at any time, from a member or a stranger: it is refused without a
trace or does no lasting harm. Honest nodes deliver all that they send to each other.

What is left out, because no receiver can tell it from the truth: a message in an honest node's name under a number
that this node will use; two different messages under one name; and without diagnosis, where nothing is repaired, a
message that only some of the others get and that can be delivered.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshes import MS, SECOND, Mesh

from antecast.core import Message
from antecast.protocols.retained import Base, Summary
from antecast.protocols.vcube.diagnosis import Reply, Test
from antecast.protocols.vcube.packets import Packet
from antecast.testing.judging import order_faults

NODES, LIAR, STRANGER, NOBODY = 6, 4, 77, 999
USED = 100
"""Honest nodes broadcast fewer messages than this."""

NUMBERS = st.one_of(
    st.integers(0, 9), st.sampled_from([USED, 2**16, 2**31, 2**32, 2**32 + 1, 2**62, 2**63 - 2, 2**63 - 1])
)
PLACES = st.one_of(st.integers(0, NODES + 1), st.sampled_from([STRANGER, 255, 2**16, 2**31, 2**32 - 1]))
CLOCKS = st.dictionaries(PLACES, NUMBERS, max_size=5)
GAPS = st.dictionaries(PLACES, st.lists(NUMBERS.map(lambda number: max(1, number)), max_size=3), max_size=3)


@st.composite
def messages(draw):
    origin, seq = draw(PLACES), max(1, draw(NUMBERS))
    if origin < NODES and origin != LIAR:
        seq += USED if seq < USED else 0
    return Message(origin, seq, draw(st.binary(max_size=2)), draw(CLOCKS))


def waiting_for_ever(message):
    return Message(message.origin, message.seq, message.payload, message.stamp | {NOBODY: 1})


def packets(carried):
    return st.lists(carried, min_size=1, max_size=4).map(lambda each: Packet(tuple(each)))


FRAMES = {
    "static": packets(messages().map(waiting_for_ever)),
    "diagnosis": st.one_of(
        packets(messages()),
        messages(),
        st.just(Test()),
        st.builds(Reply, NUMBERS, CLOCKS),
        st.builds(Summary, CLOCKS, GAPS, st.booleans()),
        st.builds(Base, CLOCKS),
    ),
}
SETTINGS = {
    "static": {"diagnosis": 0},
    "diagnosis": {"diagnosis": "100ms", "timeout": "100ms", "patience": "1s", "retain": 50},
}


def consistent(frame, said):
    """The same frame, with the message that was said before under each name."""
    if isinstance(frame, Message):
        return said.setdefault(frame.id, frame)
    if isinstance(frame, Packet):
        return Packet(tuple(said.setdefault(message.id, message) for message in frame.messages))
    return frame


def steps(frames):
    """What happens, and how many milliseconds pass before it."""
    honest = st.integers(0, NODES - 1).filter(lambda node: node != LIAR)
    lie = st.tuples(st.just("lie"), honest, st.sampled_from([LIAR, LIAR, LIAR, STRANGER]), frames)
    again = st.tuples(st.just("again"), honest, st.integers(0, 20))
    broadcast = st.tuples(st.just("broadcast"), honest)
    return st.lists(st.tuples(st.integers(0, 300), st.one_of(lie, lie, lie, broadcast, again)), max_size=40)


@pytest.mark.parametrize("mode", ["static", "diagnosis"])
@pytest.mark.parametrize("name", ["vcube", "vcube-single"])
@given(data=st.data(), seed=st.integers(0, 2**32), aggregate=st.booleans())
def test_lies_do_no_lasting_harm(name, mode, data, seed, aggregate):
    mesh = Mesh(NODES, protocol=name, seed=seed, strict=False, aggregate=aggregate, **SETTINGS[mode])
    bench = mesh.bench
    bench.run(SECOND)
    lies, said, honest = [], {}, [node for node in range(NODES) if node != LIAR]
    for wait, (kind, node, *lie) in data.draw(steps(FRAMES[mode])):
        bench.run(wait * MS)
        if kind == "broadcast":
            bench.broadcast(node)
            continue
        if kind == "lie":
            lies.append(lie)
        elif lies:
            lie = lies[lie[0] % len(lies)]
        else:
            continue
        sender, frame = lie
        codec, refused = bench.nodes[node].codec, bench.refused[node]
        bench.inject(sender, node, codec.decode(codec.encode(consistent(frame, said))))
        assert sender == LIAR or bench.refused[node] > refused
    mesh.assert_alive(SECOND, honest)
    everything = {event.id for event in bench.log if event.kind == "broadcast"}
    for node in honest:
        missing = everything - set(bench.delivered[node])
        assert not missing, f"node {node} lacks {sorted(missing)}"
        assert len(bench.save(node)) < 100_000
        assert all(size < 1000 for size in bench.nodes[node].gauges().values())
    honest_log = [event for event in bench.log if event.id in everything]
    assert not list(order_faults(honest_log, fifo=True, causal=True))
