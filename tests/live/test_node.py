"""A node between its application and its links: what leaves when, clean ends, failures of protocol and disk."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nodes import kill, read, run, settled

from antecast.core import ConfigurationError, LocalMisuse, Message, OutputError
from antecast.history.log_audit import audit_log
from antecast.history.log_files import open_log
from antecast.live import JournalError, Limits, Node, NodeStopped
from antecast.live.links.memory import connect
from antecast.live.links.tcp import Tcp
from antecast.live.machine import Machine


def test_messages_are_delivered_everywhere_with_numbers(tmp_path):
    async def main():
        async with Node(0, journal=tmp_path / "a") as a, Node(1, journal=tmp_path / "b") as b:
            connect(a, b)
            assert await a.broadcast(b"one") == (0, 1)
            assert await read(b, 1) == [b"one"]
            assert await b.broadcast_all([b"two", b"three"]) == [(1, 1), (1, 2)]
            assert await read(a, 3) == [b"one", b"two", b"three"]

    run(main)


def test_no_frame_leaves_before_its_call_is_committed(tmp_path):
    async def main():
        async with Node(0, journal=tmp_path / "a") as a, Node(1) as b:
            connect(a, b)
            await settled(a, b)
            journal, seen = a._engine.journal, []
            commit = journal.commit

            def watched(what):
                seen.append((b.counters["frames_received"], len(a.delivered._recent)))
                commit(what)

            journal.commit = watched
            before = b.counters["frames_received"], len(a.delivered._recent)
            await a.broadcast(b"one")
            await read(b, 1)
            assert seen[0] == before

    run(main)


def test_a_frame_for_a_link_that_has_ended_does_not_go_into_the_next_one(tmp_path):
    async def main():
        async with Node(0, "fifo", journal=tmp_path / "a") as a, Node(1, "fifo") as b:
            one, _ = connect(a, b)
            await settled(a, b)
            asking = asyncio.ensure_future(a.broadcast(b"one"))
            await asyncio.sleep(0)  # called, not committed
            one.close("cut")
            connect(a, b)
            await asking
            assert a.counters["dropped_link_gone"] >= 1
            assert await read(b, 1) == [b"one"]  # through the comparison of the new link

    run(main)


@pytest.mark.parametrize("durability", ["full", "normal", "none"])
def test_a_clean_stop_and_start_goes_on_where_it_was(tmp_path, durability):
    async def main():
        for start in range(3):
            async with Node(0, journal=tmp_path / "a", durability=durability) as a:
                assert await a.broadcast(b"%d" % start) == (0, start + 1)
                assert await read(a, start + 1) == [b"%d" % n for n in range(start + 1)]

    run(main)


def test_a_journal_that_cannot_be_written_stops_the_node_and_nothing_leaves(tmp_path):
    async def main():
        a, b = Node(0, journal=tmp_path / "a"), Node(1)
        await a.start()
        await b.start()
        connect(a, b)
        await settled(a, b)
        a._engine.journal._db.execute("pragma max_page_count = 1")
        received = b.counters["frames_received"]
        with pytest.raises(JournalError, match="disk is full"):
            await a.broadcast(bytes(1 << 19))
        with pytest.raises(JournalError, match="disk is full"):
            await a.broadcast(b"more")
        await settled(b)
        assert b.counters["frames_received"] == received
        await a.stop()
        await b.stop()

    run(main)


@pytest.mark.parametrize("gone", ["a", "a-wal", "a.mark"])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_journal_that_is_deleted_under_a_running_node_stops_it_and_nothing_leaves(tmp_path, gone, replaced):
    """What it says is in the journal is in none that a restart would find."""

    async def main():
        a, b = Node(0, journal=tmp_path / "a"), Node(1)
        await a.start()
        await b.start()
        connect(a, b)
        await a.broadcast(b"first")
        await settled(a, b)
        received = b.counters["frames_received"]
        kept = (tmp_path / gone).read_bytes()
        (tmp_path / gone).unlink()
        if replaced:
            (tmp_path / gone).write_bytes(kept)
        with pytest.raises(JournalError, match="deleted, moved or replaced while its node ran"):
            await a.broadcast(b"second")
        await settled(b)
        assert b.counters["frames_received"] == received
        await a.stop()
        await b.stop()

    run(main)


def test_a_running_node_cuts_its_journal_and_comes_back_from_the_cut(tmp_path):
    async def main():
        limits = Limits(snapshot_every=2000)
        async with Node(1) as b:
            a = Node(0, journal=tmp_path / "a", durability="normal", limits=limits)
            await a.start()
            connect(a, b)
            for n in range(120):
                await a.broadcast(b"%050d" % n)
            await settled(a, b)
            assert a.counters["snapshots"] >= 1
            journal = a._engine.journal
            assert journal.recovered().exact
            assert journal.position - journal.recovered().position < 120
            alive = a._engine.machine
            expected = alive.renewed(alive.save()).protocol.canonical()
            await kill(a)
            again = Node(0, journal=tmp_path / "a", durability="normal", limits=limits)
            await again.start()
            assert again._engine.machine.protocol.canonical() == expected
            await again.stop()

    run(main)


def test_misuse_is_the_callers_and_is_not_journalled(tmp_path):
    async def main():
        async with Node(0, journal=tmp_path / "a") as a:
            with pytest.raises(LocalMisuse, match="does not support lifetimes"):
                await a.broadcast(b"x", lifetime=5)
            with pytest.raises(LocalMisuse, match="exceeds the limit"):
                await a.broadcast(bytes(2 << 20))
            assert await a.broadcast(b"x") == (0, 1)
            assert a._engine.journal.position == 1

    run(main)


def test_a_defect_of_a_protocol_stops_the_node(tmp_path):
    async def main():
        a = Node(0, journal=tmp_path / "a")
        await a.start()
        a._engine.machine.protocol._dissemination = None
        with pytest.raises(NodeStopped, match="a defect of vector"):
            await a.broadcast(b"x")
        with pytest.raises(NodeStopped, match="a defect of vector"):
            await a.broadcast(b"x")
        with pytest.raises(NodeStopped, match="a defect of vector"):
            await read(a, 1)
        await a.stop()
        async with Node(0, journal=tmp_path / "a") as again:
            assert await again.broadcast(b"x") == (0, 1)

    run(main)


def test_frames_that_are_refused_are_counted_and_garbage_costs_the_link():
    async def main():
        async with Node(0, limits=Limits(refusals=5)) as a, Node(1) as b:
            _, two = connect(a, b)
            two.write([a.codec.encode(Message(5, 2, b"x", {5: 7}))])
            await settled(a, b)
            assert (a.counters["dropped_refused"], 1 in a.links) == (1, True)
            two.write([b"rubbish"])
            await settled(a, b)
            assert (a.counters["dropped_malformed"], 1 in a.links) == (1, False)

    run(main)


def test_a_stopped_node_says_so():
    async def main():
        a = Node(0)
        with pytest.raises(NodeStopped, match="not running"):
            await a.broadcast(b"x")
        await a.start()
        reading = asyncio.ensure_future(read(a, 1))
        await asyncio.sleep(0)
        await a.stop()
        assert await reading == []  # the messages end with the node
        with pytest.raises(NodeStopped):
            await a.broadcast(b"x")

    run(main)


@pytest.mark.parametrize("turns", [1, 2, 3, 5, 8, 13, 21])
def test_a_stop_that_is_cancelled_lets_go_of_the_journal_and_leaves_nobody_waiting(tmp_path, turns):
    async def main():
        a, b = Node(0, journal=tmp_path / "a", transports=[Tcp(listen="127.0.0.1:0")]), Node(1)
        await a.start()
        async with b:
            connect(a, b)
            broadcasts = [asyncio.ensure_future(a.broadcast(b"x" * 1000)) for _ in range(50)]
            stopping = asyncio.ensure_future(a.stop())
            for _ in range(turns):
                await asyncio.sleep(0)
            stopping.cancel()
            await asyncio.wait([stopping])
            outcomes = await asyncio.gather(*broadcasts, return_exceptions=True)
            assert not a.links
            with pytest.raises(NodeStopped):
                await a.broadcast(b"x")
        acknowledged = sum(not isinstance(each, NodeStopped) for each in outcomes)
        async with Node(0, journal=tmp_path / "a") as again:  # would be in use
            assert again.status()["deliveries"]["last"] >= acknowledged

    run(main)


def test_a_wait_for_the_end_that_is_cancelled_twice_still_ends_everything(tmp_path):
    async def main():
        a, b = Node(0, journal=tmp_path / "a"), Node(1)
        await a.start()
        async with b:
            connect(a, b)
            broadcast = asyncio.ensure_future(a.broadcast(b"x"))
            await asyncio.sleep(0)
            a.engine._commit = lambda: None  # a disk that takes its time
            stopping = asyncio.ensure_future(a.stop())
            for _ in range(2):
                await asyncio.sleep(0.01)
                stopping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stopping
            with pytest.raises(NodeStopped):
                await broadcast
        async with Node(0, journal=tmp_path / "a"):
            pass

    run(main)


def test_a_node_that_runs_is_not_started_again(tmp_path):
    async def main():
        for journal in (None, tmp_path / "a"):
            async with Node(0, journal=journal) as a:
                with pytest.raises(LocalMisuse, match="runs already"):
                    await a.start()
                await a.broadcast(b"x")
                assert await read(a, 1) == [b"x"]

    run(main)


def test_a_node_that_has_failed_is_started_again_when_the_cause_is_gone(tmp_path, monkeypatch):
    async def main():
        a = Node(0, journal=tmp_path / "a", transports=[Tcp(listen="127.0.0.1:0")])
        await a.start()
        await a.broadcast(b"one")
        monkeypatch.setattr(a.engine.journal, "commit", fails)
        with pytest.raises(JournalError, match="disk is full"):
            await a.broadcast(b"two")
        await a.start()
        await a.broadcast(b"three")
        assert await read(a, 2) == [b"one", b"three"]
        await a.stop()

    def fails(what):
        raise JournalError("cannot write: the disk is full", path="a")

    run(main)


def test_settings_and_numbers_are_checked():
    with pytest.raises(ConfigurationError, match="number: expected a number from 0"):
        Node(-1)
    with pytest.raises(ConfigurationError, match="vector has no role 'station'"):
        Node(0, role="station")
    with pytest.raises(ConfigurationError, match="unknown protocol"):
        Node(0, "vectr")


@settings(max_examples=settings().max_examples // 3)
@given(kills=st.lists(st.integers(0, 12), max_size=3, unique=True), cut=st.integers(200, 4000))
def test_the_event_logs_of_several_nodes_are_judged_together_also_over_kills(tmp_path_factory, kills, cut):
    folder = tmp_path_factory.mktemp("logs")

    async def main():
        def make(number: int) -> Node:
            return Node(
                number,
                journal=folder / f"{number}.journal",
                durability="normal",
                events=folder / "log",
                limits=Limits(snapshot_every=cut),
            )

        nodes = [make(number) for number in range(3)]
        for node in nodes:
            await node.start()
        connect(nodes[0], nodes[1])
        connect(nodes[1], nodes[2])
        for step in range(12):
            await nodes[step % 3].broadcast(b"%d" % step)
            if step in kills:
                await kill(nodes[1])
                nodes[1] = make(1)
                await nodes[1].start()
                connect(nodes[0], nodes[1])
                connect(nodes[1], nodes[2])
        await settled(*nodes)
        for node in nodes:
            await node.stop()

    run(main)
    verdict = audit_log(open_log([folder / "log"]))
    assert verdict.outcome == "causal"
    assert verdict.messages == 12
    assert verdict.tally.deliveries == 36


def test_a_node_says_goodbye_where_its_protocol_can():
    async def main():
        async with Node(0, "pc-broadcast") as a, Node(1, "pc-broadcast") as b:
            connect(a, b)
            await a.broadcast(b"last words")
            await a.leave()
            assert a._engine.machine.protocol.left
            assert await read(b, 1) == [b"last words"]
            with pytest.raises(LocalMisuse):
                await a.broadcast(b"too late")

    run(main)


def test_where_it_cannot_leaving_is_a_misuse():
    async def main():
        async with Node(0) as a:
            with pytest.raises(LocalMisuse, match="vector has no goodbye"):
                await a.leave()

    run(main)


@pytest.mark.parametrize("when", ["noted", "closed"])
def test_an_event_log_that_cannot_be_written_stops_the_node_and_loses_nothing(tmp_path, monkeypatch, when):
    """What was called is not half counted; the log is written again from the journal."""

    async def main():
        a, b = (Node(n, journal=tmp_path / str(n), events=tmp_path / "events") for n in range(2))
        await a.start()
        await b.start()
        connect(a, b)
        await a.broadcast(b"one")
        assert await read(b, 1) == [b"one"]

        def full(*_):
            raise OutputError("cannot write: No space left on device", path=tmp_path / "events")

        monkeypatch.setattr(b.engine._recorder, "note" if when == "noted" else "close", full)
        await a.broadcast_all([b"two", b"three"])
        if when == "noted":
            with pytest.raises(NodeStopped, match=r"the event log failed: .*No space left on device"):
                await read(b, 3)
            await b.stop()
        else:
            assert await read(b, 3) == [b"one", b"two", b"three"]
            with pytest.raises(OutputError):
                await b.stop()
        async with Node(1, journal=tmp_path / "1", events=tmp_path / "events") as again:
            connect(a, again)
            assert await read(again, 3) == [b"one", b"two", b"three"]
            await a.stop()

    run(main)
    assert audit_log(open_log([tmp_path / "events"])).outcome == "causal"


@pytest.mark.parametrize("durability", ["full", "normal", "none"])
def test_a_start_that_fails_leaves_the_journal_as_it_was(tmp_path, durability):
    """A wrong folder for the event log, say. With durability none, that is no crash that loses the state."""
    (tmp_path / "file").touch()

    async def main():
        async with Node(0, journal=tmp_path / "j", durability=durability) as node:
            await node.broadcast(b"one")
        with pytest.raises(OutputError):
            await Node(0, journal=tmp_path / "j", durability=durability, events=tmp_path / "file" / "x").start()
        async with Node(0, journal=tmp_path / "j", durability=durability) as node:
            assert await read(node, 1) == [b"one"]
            assert await node.broadcast(b"two") == (0, 2)

    run(main)


def test_a_snapshot_that_this_code_cannot_read_is_one_line_and_waits_for_the_code_that_can(tmp_path, monkeypatch):
    async def main():
        async with Node(0, journal=tmp_path / "j", durability="none") as node:
            await node.broadcast(b"one")
        with monkeypatch.context() as changed:
            changed.setattr(Machine, "load", lambda *_, **__: {}["a field that is new"])
            with pytest.raises(JournalError, match="snapshot after call 1 cannot be read by this code") as refused:
                await Node(0, journal=tmp_path / "j", durability="none").start()
        assert "\n" not in str(refused.value)
        async with Node(0, journal=tmp_path / "j", durability="none") as node:
            assert await node.broadcast(b"two") == (0, 2)

    run(main)
