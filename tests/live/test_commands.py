"""The commands of live nodes: node, status, replay, audit of journals, chat."""

import asyncio
import errno
import json
import os
import socket
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from processes import Process

from antecast.cli import node as node_command
from antecast.cli import terminal
from antecast.live import Node
from antecast.live.control import Control, NotRunning, ask_status, socket_of
from antecast.live.links.memory import connect
from antecast.live.machine import Machine
from antecast.live.replay import Recording, describe_call


def told(path: Path, *words: bytes, number: int = 0) -> None:
    """A journal of a node that said these words."""

    async def main():
        async with Node(number, journal=path) as node:
            await node.broadcast_all(words)

    asyncio.run(main())


@pytest.fixture
def typed(monkeypatch):
    """What is on standard input."""

    def put(text: bytes) -> None:
        read, write = os.pipe()
        os.write(write, text)
        os.close(write)
        before = os.dup(0)
        os.dup2(read, 0)
        os.close(read)
        restored.append(before)

    restored = []
    yield put
    for before in restored:
        os.dup2(before, 0)
        os.close(before)


def test_lines_are_broadcast_and_deliveries_printed(antecast, typed):
    typed(b"one\ntwo\r\nthree")
    code, out, err = antecast("node", "--number", 4, "--until", 3)
    assert (code, out, err) == (0, "4:1 one\n4:2 two\n4:3 three\n", "")


def test_a_line_that_is_too_long_is_told_and_the_next_goes_on(monkeypatch, capfd):
    """Of a line without end, no more is kept than is needed to tell."""
    data = iter([b"one\n", b"x" * (1 << 20), b"x" * (1 << 20), b"x\ntwo\r\nthr", b"ee", b""])
    monkeypatch.setattr(terminal.os, "read", lambda *_: next(data))
    taken = []
    assert terminal.broadcast_lines(taken.append) == 1
    assert taken == [b"one", b"two", b"three"]
    problem = "error: line 2 of standard input is not broadcast: longer than 1048576 bytes\n"
    assert capfd.readouterr().err == problem


def test_lines_end_quietly_with_the_loop_that_broadcasts_them(monkeypatch):
    monkeypatch.setattr(terminal.os, "read", lambda *_: b"one\n")
    loop = asyncio.new_event_loop()

    async def stuck():
        await asyncio.Event().wait()

    def take(line):
        broadcast = asyncio.run_coroutine_threadsafe(stuck(), loop)

        async def end():
            for task in asyncio.all_tasks(loop) - {asyncio.current_task()}:
                task.cancel()

        loop.run_until_complete(end())
        loop.run_until_complete(asyncio.sleep(0))
        broadcast.result(timeout=10)

    assert terminal.broadcast_lines(take) == 0
    loop.close()


@pytest.mark.parametrize("name", ["a/b", ""])
def test_a_chat_needs_a_name_that_can_be_that_of_a_folder(antecast, name):
    code, _, err = antecast("chat", name, "--number", 0, "--for", 0)
    assert code == 2
    assert "NAME: expected a name that can be that of a folder" in err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "--number: a new node needs a number that was never used"),
        (("--number", "0", "--protocol", "vectr"), "--protocol: unknown protocol 'vectr'; did you mean 'vector'?"),
        (("--number", "0", "--set", "retain"), "--set: expected FIELD=VALUE, got 'retain'"),
        (("--number", "0", "--set", "retane=5"), "--set: unknown key 'retane'"),
        (("--number", "0", "--set", "retain=x"), "--set retain: expected a whole number"),
        (("--number", "0", "--role", "station"), "--role: vector has no role 'station'"),
        (("--number", "0", "--listen", "0.0.0.0:7000"), "--listen: a node without keys stays on this machine"),
        (("--number", "0", "--peer", "nowhere"), "--peer: expected HOST:PORT"),
        (("--number", "0", "--compact"), "--journal: --compact needs the journal to compact"),
        (
            ("--journal", "other.journal", "--number", "7"),
            "belongs to node 0 with vector, not to node 7 with vector",
        ),
        (("--journal", "other.journal", "--protocol", "fifo"), "not to node 0 with fifo"),
        (("--journal", "other.journal", "--protocol", "barrier"), "not to node 0 with barrier"),
        (("--journal", "nowhere/journal", "--number", "0"), "nowhere/journal: cannot open: No such file"),
    ],
)
def test_mistakes_are_one_line(antecast, arguments, problem):
    told(Path("other.journal"), b"x")
    code, out, err = antecast("node", *arguments)
    assert (code, out) == (2, "")
    assert problem in err
    assert err.rstrip("\n").count("\n") == ("note:" in err)


def test_settings_are_read_as_toml_does():
    found = node_command.read_pairs(["a=5", "b=true", "c=1s", "d=[1, 2]", "e="])
    assert found == {"a": 5, "b": True, "c": "1s", "d": [1, 2], "e": ""}


def test_compact_leaves_a_snapshot_and_no_tail(antecast):
    told(Path("a"), b"one")
    code, out, _ = antecast("node", "--journal", "a", "--compact")
    assert (code, out) == (0, "a: compacted; 2 calls so far\n")


def test_replay_shows_every_call_with_its_effects(antecast):
    told(Path("a"), b"one", b"two")
    code, out, _ = antecast("replay", "a")
    assert code == 0
    assert out == "1 broadcast b'one'\n    deliver 0:1 b'one'\n2 broadcast b'two'\n    deliver 0:2 b'two'\n"
    assert antecast("replay", "a", "--until", 1)[1].startswith("1 broadcast")
    assert antecast("replay", "a", "--from", 2)[1].startswith("2 broadcast")
    assert "expected a call from 1 to 2, got 9" in antecast("replay", "a", "--until", 9)[2]
    assert "no such file" in antecast("replay", "b")[2]


def test_replay_breaks_into_the_debugger(antecast, monkeypatch):
    told(Path("a"), b"one", b"two")
    seen = []

    def look() -> None:
        frame = sys._getframe(1)
        seen.append((frame.f_locals["call"].data, frame.f_locals["protocol"].gauges()["clock"]))

    monkeypatch.setattr("builtins.breakpoint", look)
    antecast("replay", "a", "--break", 2)
    assert seen == [(b"two", 1)]


@pytest.mark.parametrize("words", [b"", b"q\n"])
def test_whoever_leaves_the_debugger_ends_the_replay_quietly(antecast, typed, monkeypatch, words):
    told(Path("a"), b"one", b"two")
    typed(words)
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)  # not that of the tests
    monkeypatch.setattr(sys, "stdin", os.fdopen(os.dup(0)))
    code, out, err = antecast("replay", "a", "--break", 1)
    assert (code, err) == (0, "")
    assert "broadcast" not in out


def test_a_journal_of_other_code_is_not_replayed_unasked(antecast, monkeypatch):
    told(Path("a"), b"one")
    monkeypatch.setattr("antecast.live.replay.code_identity", lambda spec: "other")
    code, _, err = antecast("replay", "a")
    assert code == 2
    assert "was written by other code of vector" in err
    assert antecast("replay", "a", "--any-code")[0] == 0


@pytest.mark.parametrize("name", ["\udcff\x1b[2J", "n" * 246], ids=["no text", "long"])
def test_a_journal_is_audited_whatever_it_is_called(antecast, name):
    told(Path(name), b"one")
    code, out, err = antecast("audit", name)
    assert (code, err) == (0, "")
    assert out.startswith("causal: 1 deliver")


def test_a_snapshot_that_this_code_cannot_read_is_one_line_in_a_replay(antecast, monkeypatch):
    told(Path("a"), b"one")
    with sqlite3.connect("a") as db:  # a journal that has been cut: its recording begins with a snapshot
        db.execute("delete from groups where first = 1")
    monkeypatch.setattr(Machine, "load", lambda *_, **__: {}["a field that is new"])
    code, _, err = antecast("replay", "a", "--any-code")
    assert code == 2
    assert "a: the snapshot after call 1 cannot be read by this code" in err
    assert err.count("\n") == 1


def test_journals_that_cannot_be_audited_are_called_by_their_names(antecast, tmp_path):
    async def main():
        async with Node(0, journal=tmp_path / "a") as a, Node(1, journal=tmp_path / "b", durability="none") as b:
            await a.broadcast(b"")
            await b.broadcast(b"")

    asyncio.run(main())
    (tmp_path / "c").symlink_to(tmp_path / "a")
    for names, problem in (
        (["a", "a"], "a: the same journal is given twice"),
        (["a", "b", "c"], "c: the same journal is given twice"),
        (["b"], "b: has no events to judge: with durability none, a journal keeps no calls"),
    ):
        assert antecast("audit", *names) == (2, "", f"error: {problem}\n")


def test_journals_are_audited_together_over_restarts(antecast, tmp_path):
    async def main():
        for start in range(3):
            async with Node(0, journal=tmp_path / "a") as a, Node(1, journal=tmp_path / "b") as b:
                connect(a, b)
                await a.broadcast(b"%d" % start)
                async for each in b.deliveries(after=start):
                    assert each.number == start + 1
                    break

    asyncio.run(main())
    code, out, _ = antecast("audit", tmp_path / "a", tmp_path / "b")
    assert (code, out) == (
        0,
        "causal: 6 deliveries of 3 messages at 2 nodes\n"
        "  assumed: the log has every broadcast and delivery of its nodes\n",
    )
    code, out, _ = antecast("audit", tmp_path / "b")
    assert code == 3  # the broadcasts are in the other journal
    recording = Recording(tmp_path / "a")
    words = [describe_call(step) for step in recording.steps()]
    recording.close()
    assert words.count("resume") == 2
    assert words.count("link up 1") == 3


def test_status_shows_a_running_node(antecast, tmp_path):
    async def main():
        async with Node(0, journal=tmp_path / "a") as a, Node(1) as b:
            connect(a, b)
            (tmp_path / "also a").symlink_to(tmp_path / "a")
            control = Control(a, socket_of(tmp_path / "also a"))
            await control.start()
            await a.broadcast(b"x")
            asked = await asyncio.to_thread(ask_status, tmp_path / "a")
            shown = await asyncio.to_thread(antecast, "status", tmp_path / "a")
            text = await asyncio.to_thread(antecast, "status", tmp_path / "a", "--prometheus")
            await control.stop()
            return asked, shown, text

    asked, shown, text = asyncio.run(main())
    assert asked["counters"]["broadcasts"] == 1
    assert [link["peer"] for link in asked["links"]] == [1]
    assert shown[1].startswith("node 0, without keys: vector, durability full\n")
    assert "link to 1" in shown[1]
    assert 'antecast_broadcasts_total{node="0"} 1.0' in text[1].splitlines()
    assert 'antecast_link_waiting_bytes{node="0",peer="1"} 0.0' in text[1].splitlines()
    with pytest.raises(NotRunning, match="no node runs with this journal"):
        ask_status(tmp_path / "a")
    assert antecast("status", tmp_path / "a")[0] == 2


def test_status_without_the_package_says_what_to_install(antecast, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setattr("antecast.live.control.ask_status", lambda journal: {})
    code, _, err = antecast("status", "a", "--prometheus")
    assert code == 2
    assert "pip install 'antecast[metrics]'" in err


def test_a_chat_whose_history_cannot_be_used_says_so_in_one_line_and_lets_go_of_its_journal(antecast):
    Path("ada.chat").mkdir()
    Path("ada.chat/history").write_bytes(b"no database")
    code, _, err = antecast("chat", "ada", "--number", 0, "--for", 0)
    assert (code, err) == (
        2,
        "error: ada.chat/history: the conversation cannot be kept here: file is not a database\n",
    )
    Path("ada.chat/history").unlink()
    assert antecast("chat", "ada", "--for", 0)[0] == 0


def test_a_chat_shows_its_history_when_it_comes_back(antecast, typed):
    typed(b"hello\n")
    code, out, _ = antecast("chat", "ada", "--number", 0, "--for", 0.5)
    assert (code, out) == (0, "ada: hello\n")
    typed(b"again\n")
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(ask_until_answered, Path("ada.chat/journal").absolute())
        code, out, _ = antecast("chat", "ada", "--for", 0.5)
        assert (code, out) == (0, "ada: hello\nada: again\n")
        assert asked.result()["node"] == 0


def test_a_chat_whose_journal_is_lost_goes_on_under_a_new_number(antecast, typed):
    typed(b"hello\nanybody?\n")
    antecast("chat", "ada", "--number", 0, "--for", 0.5)
    for path in Path("ada.chat").glob("journal*"):
        path.unlink()
    typed(b"again\n")
    code, out, err = antecast("chat", "ada", "--number", 7, "--for", 0.5)
    assert (code, out, err) == (0, "ada: hello\nada: anybody?\nada (node 7): again\n", "")


def ask_until_answered(journal, seconds=20.0):
    end = time.monotonic() + seconds
    while True:
        try:
            return ask_status(journal)
        except NotRunning:
            if time.monotonic() > end:
                raise
            time.sleep(0.005)


def test_a_killed_node_is_looked_into_and_its_journal_read_while_it_runs(tmp_path):
    node = Process(tmp_path, 0, "--listen", "127.0.0.1:0")
    try:
        node.say("one")
        node.until(lambda: node.payloads == ["one"])
        found = ask_status(tmp_path / "0.journal")
        assert found["deliveries"]["last"] == 1
        recording = Recording(tmp_path / "0.journal")  # beside the running node
        assert [json.dumps(describe_call(step)) for step in recording.steps()] == ["\"broadcast b'one'\""]
        recording.close()
    finally:
        node.kill()


def test_a_node_without_a_place_for_its_window_runs_without(tmp_path, caplog):
    async def main():
        async with Node(0, journal=tmp_path / "j") as node:
            (tmp_path / "j.sock").mkdir()
            async with Control(node, socket_of(tmp_path / "j")):
                await node.broadcast(b"x")
            assert (tmp_path / "j.sock").is_dir()

    asyncio.run(main())
    assert "j.sock: nobody can look into this node: " in caplog.text


def test_a_node_without_descriptors_for_its_window_runs_without(tmp_path, monkeypatch, caplog):
    def none(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    async def main():
        async with Node(0) as node:
            with monkeypatch.context() as without:
                without.setattr("antecast.live.control.socket.socket", none)
                await Control(node, tmp_path / "j.sock").start()
            await node.broadcast(b"x")

    asyncio.run(main())
    assert "j.sock: nobody can look into this node: Too many open files" in caplog.text


@pytest.mark.parametrize("said", [b"", b'{"node": 0'])
def test_a_node_that_ends_while_it_is_asked_is_one_line(tmp_path, said):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "j.sock"))
        listening.listen()

        def answer():
            connection, _ = listening.accept()
            connection.sendall(said)
            connection.close()

        with ThreadPoolExecutor() as pool:
            pool.submit(answer)
            with pytest.raises(NotRunning, match="j: its node ended before it had answered"):
                ask_status(tmp_path / "j")
