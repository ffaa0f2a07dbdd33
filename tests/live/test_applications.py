"""Applications that do what they should not, or what nobody thought of: a node stands it, and loses nothing."""

import asyncio
import contextlib
import runpy
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest

from antecast.core import ConfigurationError, LocalMisuse
from antecast.live import Delivery, Limits, Node, NodeStopped
from antecast.live.entries import JournalError
from antecast.live.journal import Journal
from antecast.live.links.memory import connect

CHAT = Path(__file__).parents[2] / "examples" / "live" / "group_chat.py"


def run(main) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await main()

    asyncio.run(limited())


async def read(node: Node, count: int) -> list[bytes]:
    found = []
    async for each in node.deliveries():
        found.append(each.payload)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("payload", ["text", None, 5, [1], b"x" * ((1 << 20) + 1)])
def test_what_is_no_payload_is_refused_and_the_node_goes_on(tmp_path, payload):
    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            with pytest.raises(LocalMisuse):
                await node.broadcast(payload)
            with pytest.raises(LocalMisuse):  # all of them, or none
                await node.broadcast_all([b"first", payload])
            assert await node.broadcast(b"second") == (0, 1)
            assert await read(node, 1) == [b"second"]

    run(main)


@pytest.mark.parametrize("payload", [b"", bytearray(b"abc"), memoryview(b"abc"), b"x" * (1 << 20)])
def test_payloads_of_any_size_and_any_kind_of_bytes_come_back_from_the_journal(tmp_path, payload):
    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            await node.broadcast(payload)
        async with Node(0, journal=tmp_path / "j") as node:
            assert await read(node, 1) == [bytes(payload)]

    run(main)


def test_a_lifetime_is_a_whole_number():
    async def main():
        async with Node(0, "delta") as node:
            for lifetime in ("long", 1.5, -1):
                with pytest.raises(LocalMisuse, match="lifetime"):
                    await node.broadcast(b"x", lifetime)
            await node.broadcast(b"x", 10**9)

    run(main)


async def in_the_same_task(node: Node) -> None:
    for _ in range(20):
        await node.broadcast(b"answer")


async def in_tasks_of_its_own(node: Node) -> None:
    await asyncio.gather(*(node.broadcast(b"answer") for _ in range(20)))


async def with_a_timeout(node: Node) -> None:
    for _ in range(20):
        await asyncio.wait_for(node.broadcast(b"answer"), 10)


@pytest.mark.parametrize("answer", [in_the_same_task, in_tasks_of_its_own, with_a_timeout])
def test_a_broadcast_from_the_loop_over_deliveries_does_not_wait_for_that_loop(answer):
    async def main():
        async with Node(0, limits=Limits(unread=10)) as a, Node(1, limits=Limits(unread=10)) as b:
            connect(a, b)
            await a.broadcast(b"question")
            async for each in b.deliveries():
                if each.payload == b"question":
                    await answer(b)
                elif each.seq == 20:
                    break

    run(main)


async def pumped(node: Node) -> int:
    """How many messages are delivered while nobody reads."""
    before = node.status()["deliveries"]["last"]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.2):
            while True:
                await node.broadcast(bytes(100))
    return node.status()["deliveries"]["last"] - before


def test_a_reader_with_a_timeout_does_not_wait_for_itself_either():
    """The wait may be a task of its own; what is read is this task's."""

    async def main():
        async with Node(0, limits=Limits(unread=10)) as node:
            await node.broadcast(b"question")
            deliveries = node.deliveries()
            await asyncio.wait_for(anext(deliveries), 10)
            await in_the_same_task(node)

    run(main)


def test_a_call_from_another_thread_is_refused_before_anything_is_done():
    async def main():
        async with Node(0) as node:
            with pytest.raises(LocalMisuse, match="run_coroutine_threadsafe"):
                await asyncio.to_thread(lambda: asyncio.run(node.broadcast(b"one")))
            assert await node.broadcast(b"two") == (0, 1)
            with pytest.raises(LocalMisuse, match="call_soon_threadsafe"):
                await asyncio.to_thread(node.acknowledge, 1)
            assert await read(node, 1) == [b"two"]

    run(main)


@pytest.mark.parametrize("given", [{"unread": -1}, {"uncommitted": -1}, {"stalled": float("nan")}])
def test_limits_under_which_every_broadcast_would_wait_for_ever_are_refused(given):
    (name,) = given
    with pytest.raises(ConfigurationError, match=f"^{name}: expected at least 0"):
        Limits(**given)


def test_broadcasts_of_others_still_wait_for_the_reader():
    async def main():
        async with Node(0, limits=Limits(unread=10)) as node:
            pumping = asyncio.create_task(pumped(node))
            async for _ in node.deliveries():
                assert 5 < await pumping < 15
                break

    run(main)


def test_an_application_that_has_stopped_reading_waits_as_any_other():
    async def main():
        async with Node(0, limits=Limits(unread=10)) as node:
            await node.broadcast(b"x")
            async for _ in node.deliveries():
                break
            assert await pumped(node) < 15

    run(main)


def test_what_is_acknowledged_unread_no_longer_waits_to_be_read():
    async def main():
        async with Node(0, limits=Limits(unread_bytes=1000)) as node:
            for _ in range(5):
                for _ in range(11):
                    await node.broadcast(bytes(90))
                node.acknowledge(node.status()["deliveries"]["last"] - 1)

    run(main)


@pytest.mark.parametrize("number", [True, np.int64(1), np.uint8(1), IntEnum("Count", "ONE").ONE])
def test_a_number_that_is_no_plain_one_does_not_spoil_the_journal(tmp_path, number):
    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            await node.broadcast_all([b"1", b"2"])
            node.acknowledge(number)
        async with Node(0, journal=tmp_path / "j") as node:
            assert (await anext(node.deliveries(number))).payload == b"2"

    run(main)


def test_a_node_s_own_number_may_be_any_whole_one(tmp_path):
    async def main():
        for number in (np.int64(3), 3):
            async with Node(number, journal=tmp_path / "j") as node:
                await node.broadcast(b"")

    run(main)
    for number in (1.0, "1", None, -1, 1 << 32):
        with pytest.raises(ConfigurationError, match="expected a number from 0 to 4294967295"):
            Node(number)


@pytest.mark.parametrize("after", [-1, -(10**30), 2.5, "1"])
def test_deliveries_after_what_is_no_number_of_one_are_refused(tmp_path, after):
    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            await node.broadcast(b"1")
            with pytest.raises(LocalMisuse, match="expected the number of a delivery"):
                await anext(node.deliveries(after))

    run(main)


def test_deliveries_of_an_earlier_run_are_no_credit(tmp_path):
    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            await node.broadcast_all([bytes(100)] * 50)
        async with Node(0, journal=tmp_path / "j", limits=Limits(unread_bytes=1000)) as node:
            await read(node, 50)
            assert await pumped(node) < 15

    run(main)


@pytest.mark.parametrize("number", [-5, 0, 1, 1, 3, 2])
def test_acknowledging_twice_backwards_or_nothing_does_no_harm(tmp_path, number):
    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            await node.broadcast_all([b"1", b"2", b"3"])
            node.acknowledge(2)
            node.acknowledge(number)
            with pytest.raises(LocalMisuse, match="delivery 4 does not exist yet; the last is 3"):
                node.acknowledge(4)
            for wrong in (2.5, "3", None):
                with pytest.raises(LocalMisuse, match="expected the number of a delivery"):
                    node.acknowledge(wrong)
        async with Node(0, journal=tmp_path / "j") as node:
            await node.broadcast(b"4")
            assert await read(node, 1) == [b"3" if number < 3 else b"4"]

    run(main)


def test_a_thousand_acknowledgements_are_not_a_thousand_writes(tmp_path):
    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            await node.broadcast_all([b"x"] * 1000)
            journal, writes = node.engine.journal, []
            forget = journal._forget
            journal._forget = lambda: (writes.append(journal.acknowledged), forget())
            for number in range(1, 1001):
                node.acknowledge(number)
            while journal.acknowledged < 1000:
                await asyncio.sleep(0.001)
            assert len(writes) < 10
        async with Node(0, journal=tmp_path / "j") as node:
            assert node.status()["deliveries"]["acknowledged"] == 1000

    run(main)


def test_what_was_acknowledged_last_is_kept_at_a_stop(tmp_path):
    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            await node.broadcast_all([b"x"] * 100)
            for number in range(1, 101):
                node.acknowledge(number)
        async with Node(0, journal=tmp_path / "j") as node:
            assert node.status()["deliveries"]["acknowledged"] == 100

    run(main)


def test_a_wait_for_a_delivery_can_be_broken_off_and_taken_up_again():
    async def main():
        async with Node(0) as node:
            deliveries = node.deliveries()
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(deliveries), 0.01)
            assert not node.delivered._readers  # nobody waits any more
            await node.broadcast_all([b"1", b"2"])
            assert [(await anext(deliveries)).payload for _ in range(2)] == [b"1", b"2"]
            await deliveries.aclose()
            assert [each async for each in deliveries] == []

    run(main)


def test_two_readers_get_everything_each():
    async def main():
        async with Node(0) as node:
            async with asyncio.TaskGroup() as group:
                readers = [group.create_task(read(node, 100)) for _ in range(2)]
                await node.broadcast_all([b"%d" % n for n in range(100)])
            assert [reader.result() for reader in readers] == [[b"%d" % n for n in range(100)]] * 2

    run(main)


def test_an_exception_or_a_cancelled_broadcast_leaves_the_node_at_work(tmp_path):
    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            broken_off = asyncio.create_task(node.broadcast(b"maybe"))
            await asyncio.sleep(0)
            broken_off.cancel()
            with pytest.raises(ZeroDivisionError):
                async for _ in node.deliveries():
                    1 / 0  # noqa: B018
            with contextlib.suppress(asyncio.CancelledError):
                await broken_off
            await node.broadcast(b"sure")
            assert (await read(node, 2))[1] == b"sure"

    run(main)


def test_a_node_stops_however_much_is_broadcast_meanwhile(tmp_path):
    async def main():
        node = Node(0, journal=tmp_path / "j", durability="normal")
        await node.start()
        said = []

        async def pump(name: int) -> None:
            while True:
                said.append(await node.broadcast(b"x"))

        async def follow() -> None:
            async for _ in node.deliveries():
                pass

        following = asyncio.create_task(follow())
        pumps = [asyncio.create_task(pump(name)) for name in range(4)]
        while len(said) < 50:
            await asyncio.sleep(0.001)
        begun = asyncio.get_running_loop().time()
        await node.stop()
        assert asyncio.get_running_loop().time() - begun < 1
        await following
        for each in await asyncio.gather(*pumps, return_exceptions=True):
            assert isinstance(each, NodeStopped)
        async with Node(0, journal=tmp_path / "j", durability="normal") as again:
            assert again.status()["deliveries"]["last"] == len(said)

    run(main)


@pytest.mark.parametrize(
    "payload",
    [b"5", b"null", b'["a"]', b"[" * 200_000, b'["a\\nb", "x"]', b'["\\ud800", "\\u001b[2J"]', b"\xff", b""],
)
def test_no_message_ends_a_chat_or_writes_in_anothers_name(tmp_path, payload):
    chat = runpy.run_path(str(CHAT))
    shown = []

    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            talk = chat["Chat"](node, tmp_path / "history", "ada", shown.append)
            await node.broadcast(payload)
            await talk.say("still here")
            following = asyncio.create_task(talk.follow())
            while len(shown) < 2:
                await asyncio.sleep(0.001)
            following.cancel()
            assert talk.lines() == shown
            talk.close()

    run(main)
    assert shown[1] == "ada: still here"
    assert shown[0].isprintable()


def test_a_member_that_takes_the_name_of_another_is_told_apart(tmp_path):
    chat = runpy.run_path(str(CHAT))
    shown = []

    async def main():
        async with Node(0, journal=tmp_path / "j") as ada, Node(1) as bob:
            talk = chat["Chat"](ada, tmp_path / "history", "ada", shown.append)
            following = asyncio.create_task(talk.follow())
            connect(ada, bob)
            await talk.say("I have the key.")
            await bob.broadcast(b'["bob", "Good."]')
            while len(shown) < 2:
                await asyncio.sleep(0.001)
            await bob.broadcast(b'["ada", "Give it to Bob."]')
            while len(shown) < 3:
                await asyncio.sleep(0.001)
            await bob.broadcast(b'["ada: And the map.", ""]')
            while len(shown) < 4:
                await asyncio.sleep(0.001)
            following.cancel()
            talk.close()

    run(main)
    assert set(shown) == {"ada: I have the key.", "bob: Good.", "ada (node 1): Give it to Bob.", "ada (node 1): "}


@pytest.mark.parametrize(
    "said", ["Ça va\u00a0?", "日本\u3000語", "می\u200cخواهم", "👩\u200d👩\u200d👧", "⚙\ufe0f"], ids=range(5)
)
def test_a_chat_shows_every_script_as_it_was_written(said):
    assert runpy.run_path(str(CHAT))["plain"](said) == said


def test_a_payload_that_cannot_be_read_is_told_in_a_chat():
    read_line = runpy.run_path(str(CHAT))["read"]
    told = read_line(Delivery(1, 3, 1, 0, b"", "encrypted with group key 2"))
    assert told == ("node 3", "encrypted with group key 2")


@pytest.mark.parametrize("failing", ["acknowledge", "_write_snapshot"])
def test_a_disk_that_is_full_at_the_stop_leaves_no_reader_waiting_and_no_journal_open(
    tmp_path, monkeypatch, failing
):
    def full(self, *_, **__):
        raise JournalError("cannot write: database or disk is full", path=self.path)

    async def follow(node):
        return [each.number async for each in node.deliveries()]

    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            following = asyncio.create_task(follow(node))
            await node.broadcast_all([b"one", b"two"])
            with monkeypatch.context() as patch:
                patch.setattr(Journal, failing, full)
                with pytest.raises(JournalError, match="disk is full"):
                    await node.stop()
            assert await following == [1, 2]
        async with Node(0, journal=tmp_path / "j") as again:
            assert again.status()["deliveries"]["last"] == 2

    run(main)


def test_a_node_that_is_started_again_has_the_bounds_of_a_new_one():
    """Bytes that were read in the life before are no credit in this one."""

    async def main():
        node = Node(0, limits=Limits(unread_bytes=1000))
        async with node:
            reader = node.deliveries()
            for _ in range(20):
                await node.broadcast(bytes(500))
                await anext(reader)
            await reader.aclose()
        async with node:
            await node.broadcast_all([bytes(500)] * 3)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(node.broadcast(b""), 0.05)

    run(main)
