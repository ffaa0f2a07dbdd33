"""A node between its application and its links: what leaves when, exactly once, back-pressure, clean ends."""

import asyncio
import sqlite3
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antecast.core import ConfigurationError, LocalMisuse, Message, OutputError
from antecast.history.log_audit import audit_log
from antecast.history.log_files import open_log
from antecast.live import JournalError, Limits, Node, NodeStopped
from antecast.live import node as node_module
from antecast.live.delivered import Delivered
from antecast.live.engine import Engine
from antecast.live.links.memory import connect
from antecast.live.links.tcp import Tcp
from antecast.live.machine import Machine
from antecast.live.recent import Recent
from antecast.live.recovery import Recovery


class Killed(Exception):
    """The process is gone."""


async def kill(node: Node) -> None:
    """End a node as kill -9 does: nothing more is written, sent or said."""
    engine = node._engine
    engine.stopped = True
    engine._timers.stop()
    links = list(node.links.values())
    engine.links.clear()
    for link in links:
        link.close("its process was killed")
    engine._writer.stop()
    if engine._recorder.active:
        engine._recorder._writer._sink.abandon()
    engine.journal.close()


async def settled(*nodes: Node) -> None:
    """Until nothing is uncommitted or in flight."""
    quiet = 0
    while quiet < 5:
        await asyncio.sleep(0.001)
        busy = any(not node._engine.idle or any(link.waiting for link in node.links.values()) for node in nodes)
        quiet = 0 if busy else quiet + 1


async def read(node: Node, count: int, after: int | None = None) -> list[bytes]:
    found = []
    async for each in node.deliveries(after=after):
        found.append(each.payload)
        if len(found) == count:
            break
    return found


def run(main) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await main()

    asyncio.run(limited())


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


# Killed at any commit, and what the test of it would catch.


async def story(folder, crash_at: int, *, after_commit: bool, make=Node) -> dict[str, list]:
    """Two nodes; one is killed at a commit of its journal and comes back. What each has delivered, by its name."""
    seen: dict[str, list] = defaultdict(list)
    states = {0: 0, 1: 0}

    async def follow(node: Node) -> None:
        async for each in node.deliveries(after=states[node.number]):
            seen[f"node {node.number}"].append((each.id, each.payload))
            states[node.number] = each.number

    b = Node(1, journal=folder / "b", durability="normal")
    await b.start()
    a = make(0, journal=folder / "a", durability="normal")
    await a.start()
    commits, journal = 0, a._engine.journal
    commit = journal.commit

    def dying(what):
        nonlocal commits
        commits += 1
        if commits == crash_at and not after_commit:
            raise Killed
        commit(what)
        if commits == crash_at:
            raise Killed

    journal.commit = dying
    tasks = [asyncio.ensure_future(follow(node)) for node in (a, b)]
    connect(a, b)
    for word in (b"one", b"two", b"three"):
        try:
            name = await a.broadcast(word)
        except (NodeStopped, Killed):
            break
        seen["acknowledged"].append((name, word))
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.002)
    await asyncio.gather(tasks[0], return_exceptions=True) if a._failure else tasks[0].cancel()
    await kill(a)
    again = make(0, journal=folder / "a", durability="normal")
    await again.start()
    connect(again, b)
    tasks.append(asyncio.ensure_future(follow(again)))
    seen["acknowledged"].append((await again.broadcast(b"after"), b"after"))
    await settled(again, b)
    for task in tasks:
        task.cancel()
    await again.stop()
    await b.stop()
    return seen


def judge(seen: dict[str, list]) -> None:
    """Nothing that was acknowledged is lost, nothing is delivered twice, no name is used twice."""
    payloads: dict[object, set] = defaultdict(set)
    for deliveries in seen.values():
        for name, payload in deliveries:
            payloads[name].add(payload)
    assert all(len(each) == 1 for each in payloads.values()), f"a name was used twice: {dict(payloads)}"
    for node in ("node 0", "node 1"):
        names = [name for name, _ in seen[node]]
        assert len(names) == len(set(names)), f"{node} delivered twice"
        assert {name for name, _ in seen["acknowledged"]} <= set(names), f"{node} lost what was acknowledged"


@pytest.mark.parametrize("after_commit", [False, True])
@pytest.mark.parametrize("crash_at", range(1, 7))
def test_killed_at_any_commit_nothing_is_lost_or_used_twice(tmp_path, crash_at, after_commit):
    async def main():
        judge(await story(tmp_path, crash_at, after_commit=after_commit))

    run(main)


class Hasty(Engine):
    """The mistake: effects leave before the commit."""

    def _commit(self):
        batch = self._batch
        if self._writing is None and not self.stopped:
            for link, packets in batch.frames.items():
                link.write(packets)
            batch.frames = {}
        super()._commit()


class HastyNode(Node):
    engine_class = Hasty


def caught(stories) -> bool:
    """Whether the judgement fails for one of these stories."""
    for seen in stories:
        try:
            judge(seen)
        except AssertionError:
            return True
    return False


def test_a_node_that_lets_effects_out_before_the_commit_is_caught(tmp_path):
    async def main():
        stories = []
        for crash_at in range(1, 7):
            folder = tmp_path / str(crash_at)
            folder.mkdir()
            stories.append(await story(folder, crash_at, after_commit=False, make=HastyNode))
        assert caught(stories)

    run(main)


def test_a_node_that_comes_back_without_the_tail_is_caught(tmp_path, monkeypatch):
    def forgetful(journal, machine: Machine, on_call=None) -> Recovery:
        start = journal.recovered()
        if start.state is not None:
            machine.load(start.state, exact=start.exact)
        return Recovery(machine, machine.save(), True, 0, False, start.now)

    monkeypatch.setattr(node_module, "recover", forgetful)

    async def main():
        stories = []
        for crash_at in range(2, 7):
            folder = tmp_path / str(crash_at)
            folder.mkdir()
            stories.append(await story(folder, crash_at, after_commit=True))
        assert caught(stories)

    run(main)


# The application's side.


def test_an_application_that_commits_number_and_state_together_sees_everything_exactly_once(tmp_path):
    """It is killed after handling any message, before or after its own commit."""

    async def main():
        db = sqlite3.connect(tmp_path / "application", isolation_level=None)
        db.execute("create table handled (number integer, payload blob)")
        expected = [b"%d" % n for n in range(10)]
        async with Node(0, journal=tmp_path / "a") as a:
            await a.broadcast_all(expected)
        for killed_after in (1, 3, 0, 2, 50):
            node = Node(0, journal=tmp_path / "a")
            await node.start()
            last = db.execute("select coalesce(max(number), 0) from handled").fetchone()[0]
            handled = 0
            if last < 10:
                async for each in node.deliveries(after=last):
                    db.execute("begin")
                    db.execute("insert into handled values (?, ?)", (each.number, each.payload))
                    if handled == killed_after:
                        db.execute("rollback")
                        break
                    db.execute("commit")
                    handled += 1
                    if each.number == 10:
                        break
            await kill(node)
        rows = db.execute("select payload from handled order by rowid").fetchall()
        assert [row[0] for row in rows] == expected

    run(main)


def test_without_a_number_of_its_own_an_application_sees_everything_at_least_once(tmp_path):
    async def main():
        async with Node(0, journal=tmp_path / "a") as a:
            await a.broadcast_all([b"1", b"2", b"3"])
            async for each in a.deliveries():
                if each.number == 2:
                    break
                a.acknowledge(each.number)
        async with Node(0, journal=tmp_path / "a") as a:
            assert await read(a, 2) == [b"2", b"3"]

    run(main)


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
