"""Hostile bytes on the sockets of live nodes do no harm, for every protocol that runs over connections.

`--property-examples N` sends N times 40 inputs to each; `python -m antecast.testing.sockets` any number.
"""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import settings

from antecast.core import Message
from antecast.live.groups.signatures import Signatures
from antecast.protocols import specification, specifications
from antecast.testing.hostile_member import Attacker, raises_an_alarm
from antecast.testing.sockets import Campaign, Fault, _Witness, can_be_attacked

NAMES = [spec.name for spec in specifications() if can_be_attacked(spec)]


@pytest.mark.parametrize("name", NAMES)
def test_hostile_bytes_do_no_harm(name):
    inputs = max(300, 40 * settings.default.max_examples if settings.default.max_examples > 25 else 0)
    campaign = Campaign(specification(name))
    asyncio.run(campaign.run(inputs))
    assert campaign.sent >= inputs
    assert campaign.tally.inputs["frame"] and campaign.tally.inputs["replay"] and campaign.tally.links


def test_a_word_is_not_damaged_into_one_that_an_honest_node_rightly_complains_of(monkeypatch):
    alarm = msgspec.msgpack.encode([(1, bytes(8))])
    monkeypatch.setattr(Attacker, "_damaged", lambda self, data: alarm)
    attacker = object.__new__(Attacker)
    attacker._draw, attacker._keys = Random(1), SimpleNamespace(bulletin=b"bulletin")
    words = [attacker._word() for _ in range(2000)]
    assert not any(alarm in word for word in words)
    assert not raises_an_alarm(msgspec.msgpack.encode([(150, bytes(8))]))


def believe(signatures, number, endorsement):
    signatures._members.setdefault(number, (None, endorsement))


def test_a_group_that_checks_no_signatures_is_caught(monkeypatch):
    """The negative control: a message in an honest node's name takes the place of its own."""
    monkeypatch.setattr("antecast.testing.hostile_member._ENDS", ("forged",))
    monkeypatch.setattr(
        Signatures, "introduce", lambda self, number, endorsement: believe(self, number, endorsement)
    )
    monkeypatch.setattr(Signatures, "_verify", lambda self, entry, digest, signature: None)
    monkeypatch.setattr("antecast.testing.sockets.REST", 2.0)
    with pytest.raises(Fault):
        asyncio.run(Campaign(specification("r-broadcast")).run(2000))


def test_a_protocol_that_breaks_is_caught(monkeypatch):
    from antecast.protocols.flood import Flood

    receive = Flood.receive

    def fragile(self, frame, sender, now, out):
        if isinstance(frame, Message) and frame.origin == 3 and frame.seq > 1000:
            raise KeyError(frame.seq)
        receive(self, frame, sender, now, out)

    monkeypatch.setattr(Flood, "receive", fragile)
    monkeypatch.setattr("antecast.testing.sockets.REST", 5.0)
    monkeypatch.setattr("antecast.testing.hostile_member.PATIENCE", 5.0)
    with pytest.raises(Fault, match="KeyError"):
        asyncio.run(Campaign(specification("fifo")).run(2000))


def test_what_arrives_while_nobody_looks_is_not_lacking(monkeypatch):
    witness = object.__new__(_Witness)
    witness._nodes, witness._known = [SimpleNamespace(number=0)], {1: set()}

    async def speak(_):
        asyncio.get_running_loop().call_later(0.001, witness._known[1].add, "a")
        return "a"

    monkeypatch.setattr(witness, "speak", speak, raising=False)
    assert asyncio.run(witness._round(0.003)) is None  # looks again after 5 ms only
    witness._known = {1: {"b"}}
    witness._nodes = []
    assert witness._lacking(["b", "c"]) == "node 1 does not deliver c"
