"""A damaged journal is refused in words, or its damage makes no difference: never silently wrong."""

import asyncio
import logging
import shutil
from random import Random

import pytest

from antecast.live.entries import Durability, JournalError
from antecast.live.journal import Journal
from antecast.live.links.memory import connect
from antecast.live.machine import Machine
from antecast.live.node import Node
from antecast.live.pacing import Limits
from antecast.live.recovery import recover
from antecast.torture.damage import Copy, damage

READ = 25
"""Deliveries that the application has acknowledged."""


def make_node(folder, number):
    limits = Limits(snapshot_every=1500, history=3000)
    path = folder / f"{number}.journal"
    return Node(number, "vector", members=2, journal=path, durability="normal", limits=limits)


@pytest.fixture(scope="module")
def journals(tmp_path_factory):
    """The files of a node that was killed, and of the same node when it had stopped."""
    folder = tmp_path_factory.mktemp("journals")

    async def make():
        nodes = [make_node(folder, number) for number in (0, 1)]
        for node in nodes:
            await node.start()
        connect(*nodes)
        for k in range(40):
            await nodes[k % 2].broadcast(b"message %d" % k)
        async for each in nodes[0].deliveries():
            if each.number == 40:
                break
        nodes[0].acknowledge(READ)
        await nodes[0].broadcast(b"the last")  # written after the acknowledgement
        shutil.copytree(folder, folder / "killed", ignore=shutil.ignore_patterns("1.*", "killed"))
        for node in nodes:
            await node.stop()
        shutil.copytree(folder, folder / "stopped", ignore=shutil.ignore_patterns("1.*", "killed", "stopped"))

    asyncio.run(make())
    return folder


def state_of(folder):
    """Everything that a node takes from its journal."""
    node = make_node(folder, 0)
    journal = Journal.open(folder / "0.journal", node.identity, Durability.NORMAL)
    try:
        recovery = recover(journal, Machine(node.spec, 0, node.settings, node.security))
        rows = [tuple(each) for each in journal.deliveries(READ)]
        place = (journal.position, journal.delivered, journal.life, journal.lives(), journal.recovered().events)
        return journal.acknowledged, (recovery.machine.save(), recovery.now, recovery.known, *place, rows)
    finally:
        journal.close()


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_no_flipped_bit_torn_page_or_missing_end_goes_unnoticed(journals, tmp_path, request, how):
    logging.disable(logging.CRITICAL)
    examples = request.config.getoption("--property-examples") or 100
    place = tmp_path / "it"
    shutil.copytree(journals / how, place)
    copy = Copy(place / "0.journal")
    acknowledged, truth = state_of(place)
    random, refused = Random(how), 0
    for _ in range(examples):
        copy.restore()
        done = damage(place / "0.journal", random)
        try:
            found, state = state_of(place)
        except JournalError as error:
            assert "\n" not in str(error), done
            refused += 1
            continue
        assert state == truth, done
        assert found <= acknowledged, done  # an acknowledgement may be lost: it is said again
    assert 0 < refused < examples
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    "damage",
    [
        "update deliveries set origin = origin + 1 where number = 30",
        "update deliveries set seq = seq + 1 where number = 30",
        "update deliveries set at = at + 1 where number = 30",
        "update deliveries set payload = 'text' where number = 30",
        "delete from deliveries where number = 30",
        "delete from deliveries where number = 26",
        "delete from deliveries where number >= 40",
        "update snapshots set delivered = delivered - 1",
        "update snapshots set now = now - 1",
        "update snapshots set events = 'many'",
        "update meta set value = value + 1 where key = 'acknowledged'",
        "update meta set value = zeroblob(16) where key = 'life'",
        "update meta set value = 'other' where key = 'settings'",
        "update meta set value = '{' where key = 'open'",
        "drop table lives",
    ],
)
def test_a_damaged_column_is_noticed(journals, tmp_path, damage):
    import sqlite3

    place = tmp_path / "it"
    shutil.copytree(journals / ("killed" if "'open'" in damage else "stopped"), place)
    with sqlite3.connect(place / "0.journal") as db:
        db.execute(damage)
    db.close()
    with pytest.raises(JournalError):
        state_of(place)
