"""A node that is killed comes back as it was, and its application sees everything once."""

import asyncio
import sqlite3
from collections import defaultdict

import pytest
from nodes import Killed, kill, read, run, settled

from antecast.live import Node, NodeStopped
from antecast.live import node as node_module
from antecast.live.engine import Engine
from antecast.live.links.memory import connect
from antecast.live.machine import Machine
from antecast.live.recovery import Recovery


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
