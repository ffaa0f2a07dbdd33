"""Messages are signed by their origins: honest runs of every protocol pass, and nothing forged or altered does."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from signed_bench import SignedBench, identity

from antecast.core import LocalMisuse, Message
from antecast.live.groups import packets
from antecast.live.groups.certificates import Refused
from antecast.live.groups.entries import RESTAMPED, entries, kept_by
from antecast.live.groups.packets import Packet, decode_packet
from antecast.live.groups.security import GroupSecurity
from antecast.live.groups.signatures import DEEPEST, Signatures, Unauthentic
from antecast.protocols import specification, specifications
from antecast.protocols.registry import Need
from antecast.protocols.vcube.packets import fill
from antecast.testing import assert_contract, conformance, plans

SECOND = 10**9
NAMES = [spec.name for spec in specifications()]
every_protocol = pytest.mark.parametrize("name", NAMES)


def run(name, seed=0):
    """Three nodes that broadcast, answer and relay; in cells, hosts that change their station."""
    spec = specification(name)
    cells = Need.CELLS in spec.needs(spec.configure({}))
    stations = (100, 101) if cells else ()
    bench = SignedBench(name, nodes=4, stations=stations, seed=seed, delay=lambda draw: draw.randrange(10**7))
    if cells:
        bench.link(*stations)
        for host in range(4):
            bench.move(host, stations[host % 2])
        bench.run(20 * SECOND)
    else:
        for a in range(4):
            for b in range(a):
                if Need.COMPLETE_GRAPH in bench.spec.needs(bench.settings) or a - b == 1:
                    bench.link(a, b)
    for turn in range(3):
        for node in range(4):
            bench.broadcast(node, b"%d by %d" % (turn, node))
            bench.run(SECOND // 100)
        if cells and Need.STATIC_MEMBERS not in bench.spec.needs(bench.settings):
            bench.move(turn, stations[(turn + 1) % 2])
    bench.run(30 * SECOND)
    return bench


@pytest.fixture(scope="module")
def runs():
    made = {}
    return lambda name: made.setdefault(name, None) or made.__setitem__(name, run(name)) or made[name]


@every_protocol
def test_an_honest_run_is_signed_from_end_to_end(name, runs):
    bench = runs(name)
    assert all(len(set(bench.delivered[node])) == 12 for node in range(4))
    counts = [bench.security[node].gauges() for node in range(4)]
    assert all(each["signatures_made"] >= 3 for each in counts)
    assert all(each["signatures_checked"] >= 9 for each in counts)


def play_plans(name, bench, monkeypatch):
    monkeypatch.setattr(conformance, "Bench", bench)
    spec = specification(name)

    @settings(max_examples=max(3, settings.default.max_examples // 8))
    @given(plans(spec, max_nodes=3, max_moves=10))
    def play(plan):
        assert_contract(spec, plan)

    play()


@every_protocol
def test_signatures_survive_whatever_the_contract_allows(name, monkeypatch):
    """Crashes in the middle of a call, tiny stores, newcomers: no honest packet is ever without its signatures."""
    play_plans(name, SignedBench, monkeypatch)


class Forgetful(SignedBench):
    """Restores the protocol without the signatures."""

    def save(self, node):
        data = super().save(node)
        self._kept[node] = b""
        return data


class Hasty(SignedBench):
    """Drops all signatures, whatever the protocol keeps."""

    def settle(self, node):
        self.security[node]._signatures._known.clear()


@pytest.mark.parametrize("wrong", [Forgetful, Hasty])
def test_a_driver_that_loses_signatures_is_caught(wrong):
    bench = wrong("vector", nodes=3)
    bench.link(0, 1)
    bench.broadcast(0)
    bench.run(SECOND)
    bench.crash(1)
    bench.recover(1)
    with pytest.raises(LocalMisuse, match="without a signature"):
        bench.link(1, 2)
        bench.run(SECOND)


@every_protocol
def test_only_the_stations_of_cellular_alter_a_stamp(name, runs):
    stamps = {}
    for frame, _ in runs(name).packets.values():
        for entry in entries(frame):
            stamps.setdefault((entry.origin, entry.seq), set()).add(msgspec.msgpack.encode(entry))
    altered = any(len(forms) > 1 for forms in stamps.values())
    assert altered == (name in RESTAMPED)


@every_protocol
def test_no_message_hides_from_the_signatures(name, runs):
    """A message anywhere in a frame is among its entries, whatever the frame says that it carries."""
    for frame, _ in runs(name).packets.values():
        inside = msgspec.to_builtins(frame)
        payloads = [entry.payload for entry in entries(frame) if isinstance(entry, Message)]
        assert str(inside).count(" by ") == 0 or len(payloads) == sum(b" by " in each for each in payloads)
        assert {message.id for message in frame.carried} <= {(each.origin, each.seq) for each in entries(frame)}
    assert any(entries(frame) for frame, _ in runs(name).packets.values())


# Attacks: a member takes an honest packet, changes it, and sends it on.


def changed(frame, **changes):
    """A frame in which the first entry is another one."""
    if entries(frame) == (frame,):
        return msgspec.structs.replace(frame, **changes)
    (field,) = [each for each in frame.__struct_fields__ if isinstance(getattr(frame, each), list | tuple)]
    those = getattr(frame, field)
    first = msgspec.structs.replace(those[0], **changes)
    return msgspec.structs.replace(frame, **{field: type(those)([first, *those[1:]])})


def other_stamp(stamp):
    if isinstance(stamp, dict):
        return {**stamp, 2: stamp.get(2, 0) + 1}
    return msgspec.structs.replace(stamp, deadline=stamp.deadline + 1)


def packets_of(bench):
    """Packets with messages that are not of node 3, which will receive them."""
    for frame, packet in bench.packets.values():
        those = entries(frame)
        if those and those[0].origin < 3 and isinstance(those[0], Message):
            yield frame, packet


def receiver(name, group="friends"):
    return GroupSecurity(identity(3, group), name)


def opened(security, frame, packet):
    data = msgspec.msgpack.encode(packet)
    security.split(data)
    security.verify(frame, data, 0)


@every_protocol
@pytest.mark.parametrize("attack", ["origin", "origin, endorsed", "payload", "stamp", "number", "none", "swapped"])
def test_a_packet_that_was_tampered_with_is_refused(name, attack, runs):
    bench = runs(name)
    security, tried = receiver(name), 0
    for frame, data in packets_of(bench):
        packet, first = decode_packet(data), entries(frame)[0]
        other = (first.origin + 1) % 3
        if attack == "origin":
            frame = changed(frame, origin=other)
        elif attack == "origin, endorsed":
            frame = changed(frame, origin=other)
            origins = dict.fromkeys(entry.origin for entry in entries(frame))
            keys = [identity(origin).endorsement for origin in origins]
            packet = Packet(keys, packet.signatures, packet.frame)
        elif attack == "payload":
            frame = changed(frame, payload=first.payload + b"!")
        elif attack == "stamp":
            if first.stamp is None or name in RESTAMPED:
                continue
            frame = changed(frame, stamp=other_stamp(first.stamp))
        elif attack == "number":
            frame = changed(frame, seq=first.seq + 1)
        elif attack == "none":
            packet = Packet(packet.endorsements, packet.signatures[1:], packet.frame)
        elif attack == "swapped":
            wrong = bytes(64) + packet.signatures[0][64:]
            packet = Packet(packet.endorsements, [wrong, *packet.signatures[1:]], packet.frame)
        tried += 1
        with pytest.raises((Unauthentic, Refused)):
            opened(security, frame, packet)
        if tried == 5:
            break
    assert tried or (attack == "stamp" and not stamped(bench))
    assert not len(security._signatures), "nothing that is refused is remembered"


def stamped(bench):
    return bench.spec.name not in RESTAMPED and any(
        e.stamp is not None for f, _ in packets_of(bench) for e in entries(f)
    )


@every_protocol
def test_a_message_of_another_group_or_protocol_is_refused(name, runs):
    frame, data = next(packets_of(runs(name)))
    with pytest.raises(Refused, match="not endorsed by the authority of this group"):
        opened(receiver(name, "strangers"), frame, decode_packet(data))
    with pytest.raises(Unauthentic, match="is not signed by node"):
        opened(receiver(f"not-{name}"), frame, decode_packet(data))
    opened(receiver(name), frame, decode_packet(data))  # and this is how it should be


def test_a_relay_cannot_forge_the_notice_that_a_source_is_gone():
    """PC-broadcast numbers its notices as messages: a forged one would take the place of a message."""
    bench = SignedBench("pc-broadcast", nodes=[0, 1], settings={"founders": 1})
    bench.link(0, 1)
    bench.run(SECOND)
    bench.broadcast(1)
    bench.run(SECOND)
    notices = [(f, p) for f, p in bench.packets.values() if type(f).__name__ == "Notice"]
    assert notices and notices[0][0].origin == 0
    frame, data = notices[0]
    opened(receiver("pc-broadcast"), frame, decode_packet(data))
    for changes in ({"gone": True}, {"source": 2}, {"seq": 2}, {"origin": 1}):
        with pytest.raises((Unauthentic, Refused)):
            opened(receiver("pc-broadcast"), msgspec.structs.replace(frame, **changes), decode_packet(data))


def test_a_station_s_stamp_is_not_covered_in_cellular(runs):
    frame, data = next((f, p) for f, p in packets_of(runs("cellular")) if isinstance(f.stamp, int))
    security = receiver("cellular")
    opened(security, msgspec.structs.replace(frame, stamp=frame.stamp + 1), decode_packet(data))
    assert security._signatures.verified == 1


# The store.


def test_a_copy_costs_no_signature(runs):
    frame, data = next(packets_of(runs("vector")))
    security = receiver("vector")
    for _ in range(3):
        opened(security, frame, decode_packet(data))
    assert (security._signatures.verified, security._signatures.repeated) == (1, 2)


def test_a_copy_with_another_signature_is_looked_at(runs):
    """Packets are passed on as they came: a wrong signature beside a known message would be passed on, too, and
    cost an honest relay its links."""
    frame, data = next(packets_of(runs("vector")))
    packet, security = decode_packet(data), receiver("vector")
    opened(security, frame, packet)
    with pytest.raises(Unauthentic):
        opened(security, frame, Packet(packet.endorsements, [bytes(64)], packet.frame))
    with pytest.raises(Refused):
        opened(security, frame, Packet([packet.endorsements[0][:32] + bytes(64)], packet.signatures, packet.frame))


def test_the_store_is_bounded_by_what_the_protocol_keeps():
    bench = SignedBench("vector", nodes=2, settings={"retain": 10})
    bench.link(0, 1)
    for _ in range(200):
        bench.broadcast(0)
        bench.transfer()
    assert all(len(security._signatures) == 10 for security in bench.security.values())


def test_without_an_order_to_drop_at_once_the_store_stays_within_twice_that(monkeypatch):
    monkeypatch.setattr("antecast.live.groups.signatures._SLACK", 50)
    protocol = specification("vector").make(0, specification("vector").configure({"retain": 100}))
    signatures, most = Signatures(identity(0), "vector"), 0
    for number in range(2000):
        message = protocol.broadcast(b"x", number)[-1].message
        signatures.of(message)
        signatures.settle(protocol)
        most = max(most, len(signatures))
    assert 100 <= most <= 2 * 100 + 50 + 250  # a quarter of the values looked at, too


def test_what_a_protocol_keeps_is_found_wherever_it_keeps_it():
    """Against the snapshot, which names every message in bytes."""
    for name in ("vector", "barrier", "pc-broadcast", "vcube", "delta"):
        bench = SignedBench(name, nodes=3)
        for a, b in ((0, 1), (1, 2), (0, 2)):
            bench.link(a, b)
        for number in range(5):
            bench.broadcast(number % 3, b"payload %d" % number)
            bench.run(SECOND // 10)
        saved = bench.save(1)
        kept = {entry.payload for those in kept_by(bench.nodes[1])[0].values() for entry in those}
        assert {b"payload %d" % number for number in range(5)} == kept
        assert all(payload in saved for payload in kept)


def test_an_origin_that_signs_two_messages_of_one_number_costs_no_relay_its_link(caplog):
    liar, honest = Signatures(identity(0), "vector"), receiver("vector")
    protocol = specification("vector").make(3, specification("vector").configure({}))
    protocol.link_up(0, 0)
    for number in range(100):
        message = Message(0, 1, b"version %d" % number, {})
        packet = Packet([identity(0).endorsement], [liar.of(message)], b"")
        opened(honest, message, packet)
        protocol.receive(message, 0, 0)
    honest._signatures.settle(protocol, now=True)
    assert len(honest._signatures) == 1, "only the version that the protocol took is kept"
    assert honest._signatures.liars == {0}
    assert caplog.messages == ["node 3: node 0 signed two messages as 0:1"]
    honest.seal(Message(0, 1, b"version 0", {}), b"")


def test_what_the_protocol_alters_is_not_sent():
    frame = Message(0, 1, b"mine", {})
    with pytest.raises(LocalMisuse, match="did the protocol alter it"):
        receiver("vector").seal(frame, b"")


# Batches.


@given(st.integers(1, 70), st.data())
def test_one_signature_serves_a_batch_and_fits_no_other_place(size, data):
    batch = [Message(0, seq, b"%d" % seq, None) for seq in range(1, size + 1)]
    signer, verifier = Signatures(identity(0), "fifo"), Signatures(identity(3), "fifo")
    signer.sign(batch)
    assert signer.signed == 1
    verifier.introduce(0, identity(0).endorsement)
    one, other = data.draw(st.sampled_from(batch)), data.draw(st.sampled_from(batch))
    if one is not other:
        with pytest.raises(Unauthentic):
            verifier.check(one, signer.of(other))
    for message in batch:
        verifier.check(message, signer.of(message))
    assert verifier.verified <= 3 if size > 1 else verifier.verified == 1


def test_a_batch_beyond_the_deepest_tree_takes_more_signatures():
    signer = Signatures(identity(0), "fifo")
    signer.sign(Message(0, seq, b"", None) for seq in range(1, (1 << DEEPEST) + 2))
    assert signer.signed == 2


def test_the_fullest_packet_of_any_protocol_can_be_sealed_and_opened():
    codec = specification("vcube").make(0, specification("vcube").configure({})).codec
    signer, verifier = Signatures(identity(0), "vcube"), Signatures(identity(3), "vcube")
    frame = next(fill([Message(0, seq, b"\0", {}) for seq in range(1, 7000)], 65_535))
    signer.sign(frame.messages)
    packet = decode_packet(packets.seal(frame, codec.encode(frame), signer))
    packets.verify(codec.decode(packet.frame), packet, verifier)
    assert len(verifier) == len(frame.messages) > 6000


@given(st.binary(max_size=500))
def test_arbitrary_signatures_are_refused(signature):
    verifier = Signatures(identity(3), "fifo")
    verifier.introduce(0, identity(0).endorsement)
    with pytest.raises(Unauthentic):
        verifier.check(Message(0, 1, b"", None), signature)


def test_a_number_has_one_key():
    verifier = Signatures(identity(3), "fifo")
    verifier.introduce(0, identity(0).endorsement)
    with pytest.raises(Refused):
        verifier.introduce(0, identity(1).endorsement)
    with pytest.raises(Refused):
        verifier.introduce(0, identity(0, "strangers").endorsement)
