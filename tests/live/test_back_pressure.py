"""A node waits for those that are behind, and for nobody for ever."""

import asyncio

import pytest
from nodes import read, run

from antecast.core import LocalMisuse
from antecast.live import Limits, Node
from antecast.live.delivered import Delivered
from antecast.live.links.memory import connect
from antecast.live.recent import Recent


def test_deliveries_that_are_no_longer_in_memory_come_from_the_journal(tmp_path):
    async def main():
        async with Node(0, journal=tmp_path / "a", durability="normal") as a:
            a.delivered._recent = Recent(most=10)
            payloads = [b"%d" % n for n in range(500)]
            await a.broadcast_all(payloads)
            assert await read(a, 500) == payloads

    run(main)


def test_what_was_acknowledged_is_gone_and_what_is_to_come_cannot_be_acknowledged():
    async def main():
        async with Node(0) as a:
            await a.broadcast_all([b"1", b"2"])
            with pytest.raises(LocalMisuse, match="delivery 3 does not exist yet; the last is 2"):
                a.acknowledge(3)
            a.acknowledge(2)
            a.delivered._recent.forget(2)
            with pytest.raises(LocalMisuse, match="deliveries after 0 are gone"):
                await read(a, 1, after=0)

    run(main)


def test_broadcasts_wait_for_an_application_that_does_not_read():
    async def main():
        async with Node(0, limits=Limits(unread=10)) as a:
            sending = asyncio.ensure_future(a.broadcast_all([b"x"] * 50))
            await asyncio.sleep(0.05)
            assert not sending.done()
            assert a.delivered.shown <= 12
            assert len(await read(a, 50)) == 50
            await sending

    run(main)


def test_large_deliveries_count_by_their_bytes():
    async def main():
        async with Node(0, limits=Limits(unread_bytes=5000)) as a:
            sending = asyncio.ensure_future(a.broadcast_all([bytes(1000)] * 20))
            await asyncio.sleep(0.05)
            assert a.delivered.shown <= 7
            assert len(await read(a, 20)) == 20
            await sending

    run(main)


def test_a_node_without_a_journal_forgets_what_was_read_long_ago():
    async def main():
        async with Node(0) as a:
            reading = asyncio.ensure_future(read(a, 15_000))
            for _ in range(150):
                await a.broadcast_all([b"x"] * 100)
            await reading
            assert len(a._engine.journal._volatile) <= 10_200

    run(main)


def test_reading_from_links_stops_while_the_application_is_behind():
    async def main():
        async with Node(0) as a, Node(1, limits=Limits(unread=10)) as b:
            connect(a, b)
            for n in range(60):
                await a.broadcast(b"%d" % n)
            await asyncio.sleep(0.02)
            assert b._pacing.paused
            assert b.delivered.shown < 30
            assert len(await read(b, 60)) == 60
            assert not b._pacing.paused

    run(main)


def test_a_peer_that_does_not_read_loses_its_link_and_nothing_else():
    async def main():
        limits = Limits(sending=1000, stalled=0.05)
        async with Node(0, limits=limits) as a, Node(1) as b, Node(2) as c:
            _, deaf = connect(a, b)
            connect(a, c)
            deaf.held = True
            payloads = [bytes(500) for _ in range(20)]
            for payload in payloads:
                await a.broadcast(payload)
            assert a.counters["dropped_slow"] == 1
            assert await read(c, 20) == payloads
            connect(a, b)
            assert await read(b, 20) == payloads

    run(main)


def test_a_peer_that_comes_back_and_still_does_not_read_holds_up_nobody():
    async def main():
        limits = Limits(sending=1000, sending_most=9000, stalled=0.05)
        async with Node(0, limits=limits) as a, Node(1) as b:
            connect(a, b)[1].held = True
            for _ in range(10):
                await a.broadcast(bytes(500))
            assert a.counters["dropped_slow"] == 1
            _, deaf = connect(a, b)
            deaf.held = True
            waited = []
            a._pacing.room = lambda: waited.append(1)
            for _ in range(10):
                await a.broadcast(bytes(500))
            assert not waited
            while a.links:  # until it is as much as any link may hold
                await a.broadcast(bytes(500))
            assert a.counters["dropped_slow"] == 2

    run(main)


def test_a_peer_that_is_behind_now_and_then_keeps_its_link(monkeypatch):
    async def say(node):
        for _ in range(10):
            await node.broadcast(bytes(500))

    async def main():
        loop, later = asyncio.get_running_loop(), [0.0]
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + later[0])
        async with Node(0, limits=Limits(sending=1000, stalled=1.0)) as a, Node(1) as b:
            _, link = connect(a, b)
            for _ in range(3):
                link.held = True
                saying = asyncio.create_task(say(a))
                while not a._pacing.waiters:
                    await asyncio.sleep(0)
                link.release()
                await saying
                later[0] += 0.9
            assert a.counters["dropped_slow"] == 0

    run(main)


def test_an_application_far_ahead_of_its_acknowledgements_does_not_hold_up_its_node(tmp_path, monkeypatch):
    async def main():
        plenty = Limits(unread=10**6, unread_bytes=1 << 40)
        async with Node(0, journal=tmp_path / "a", durability="normal", limits=plenty) as a:
            for _ in range(5):
                await a.broadcast_all([b"x"] * 1000)
        async with Node(0, journal=tmp_path / "a", durability="normal", limits=Limits(unread=10)) as a:
            looked = []
            monkeypatch.setattr(
                a.delivered, "after", lambda last: looked.append(last) or Delivered.after(a.delivered, last)
            )
            assert await read(a, 1, after=4990) == [b"x"]
            assert len(looked) <= 2  # not once for every few that it has long had
            await a.broadcast(b"y")
            assert (await read(a, 11, after=4990))[-1] == b"y"

    run(main)
