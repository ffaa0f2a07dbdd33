"""A node at a terminal: what others say moves no cursor, and whoever reads slowly holds up nobody."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antecast.cli import terminal
from antecast.live import Delivery

HOSTILE = "\x1b]0;owned\x07\x1b[2J\n0:9 forged\r\x9b31m\u202egnp\u2028\x7f"


@given(st.binary() | st.text().map(str.encode))
def test_a_delivery_is_one_line_that_a_terminal_only_shows(payload):
    line = terminal.as_text(Delivery(1, 5, 1, 0, payload, ""))
    assert line.startswith("5:1 ")
    assert line.splitlines() in ([line], [])
    assert not {*line} & {"\x1b", "\x07", "\x08", "\x7f", "\x9b", "\u202e", "\u2028"}


def test_what_a_terminal_would_obey_is_shown_instead():
    line = terminal.as_text(Delivery(1, 5, 1, 0, HOSTILE.encode(), ""))
    assert line == "5:1 " + r"\x1b]0;owned\x07\x1b[2J\n0:9 forged\r\x9b31m\u202egnp\u2028\x7f"
    assert terminal.as_text(Delivery(1, 5, 1, 0, "a\tb déjà\u00a0vu".encode(), "")) == "5:1 a\tb déjà\u00a0vu"


@given(st.text())
def test_a_row_is_the_same_row_and_one_line_of_it(said):
    line = terminal.as_row(Delivery(1, 5, 1, 0, said.encode(), ""))
    assert line.isprintable()
    assert json.loads(line)["payload"] == said


def test_nobody_reading_holds_up_nobody_but_the_printing(monkeypatch):
    read, write = os.pipe()

    class Piped:
        def fileno(self):
            return write

    monkeypatch.setattr(sys, "stdout", Piped())

    async def main():
        output = terminal.Output()
        lines = asyncio.create_task(flood(output))
        before = -1
        while before < (before := len(printed)) or not output._thread:
            await asyncio.sleep(0.01)  # the loop turns, and the pipe is full
        assert not lines.done()
        got = bytearray()
        while len(got) < 100 * 1100:
            got += await asyncio.to_thread(os.read, read, 1 << 16)
        await lines
        assert got.split(b"\n")[:-1] == [b"%0*d" % (1099, n) for n in range(100)]

    printed = []

    async def flood(output):
        for n in range(100):
            await output.print(f"{n:01099}")
            printed.append(n)

    asyncio.run(main())
    os.close(read)
    os.close(write)


def test_a_reader_that_has_gone_is_told(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    monkeypatch.setattr(sys, "stdout", type("Piped", (), {"fileno": lambda _: write})())

    async def main():
        output = terminal.Output()
        for size in (10, 10_000):
            with pytest.raises(BrokenPipeError):
                await output.print("x" * size)

    asyncio.run(main())
    os.close(write)


def test_closed_standard_streams_are_not_taken_by_a_journal(tmp_path):
    command = [sys.executable, "-m", "antecast", "node", "--number", "0", "--journal", "j", "--for", "0"]
    program = f"import os; [os.close(file) for file in range(3)]; os.execv({command[0]!r}, {command})"
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path)
    assert ended.returncode == 0


def test_with_nohup_a_node_outlives_its_terminal():
    async def main():
        terminal.end_on_signals(asyncio.get_running_loop(), ended := asyncio.Event())
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        await ended.wait()
        return signal.getsignal(signal.SIGHUP)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert asyncio.run(main()) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
