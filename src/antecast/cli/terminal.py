"""A live node at a terminal or in a pipe: lines come in, deliveries go out, and neither holds up the node.

Deliveries are other people's words. As text each is one line, and moves no cursor.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from antecast.core import MAX_PAYLOAD, AntecastError, LocalMisuse
from antecast.text.wording import escaped

if TYPE_CHECKING:
    from antecast.live import Delivery, Node


def end_on_signals(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    """Ctrl-C, SIGTERM and the end of the terminal end a node cleanly. With nohup, it outlives its terminal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, ended.set)


class Output:
    """Standard output. Whoever reads it may stop reading for as long as they like: a write that would wait is made
    by a thread of its own, and the node goes on."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        try:
            self._file = sys.stdout.fileno()
            kind = os.fstat(self._file).st_mode
        except (AttributeError, OSError, ValueError):  # in the hands of a program that runs this one
            self._file = -1
            return
        self._never_waits = stat.S_ISREG(kind)
        self._tells = stat.S_ISFIFO(kind)
        """Whether it can be asked if there is room."""

    async def print(self, line: str) -> None:
        if self._file < 0:
            print(line, flush=True)
            return
        data = f"{line}\n".encode()
        if self._has_room(len(data)):
            _write(self._file, data)
            return
        if self._thread is None:  # not kept waiting for at the end of the program
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        written: asyncio.Future[None] = self._loop.create_future()
        self._lines.put((data, written))
        await written

    def _has_room(self, size: int) -> bool:
        if self._never_waits:
            return True
        return self._tells and size <= select.PIPE_BUF and bool(select.select([], [self._file], [], 0)[1])

    def _work(self) -> None:
        while True:
            data, written = self._lines.get()
            error: OSError | None = None
            try:
                _write(self._file, data)
            except OSError as raised:
                error = raised
            with suppress(RuntimeError):  # the loop is gone
                self._loop.call_soon_threadsafe(_answer, written, error)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _answer(written: asyncio.Future[None], error: OSError | None) -> None:
    if written.done():
        return
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)


def as_text(each: Delivery) -> str:
    said = f"({each.problem})" if each.problem else each.payload.decode(errors="replace")
    return f"{each.origin}:{each.seq} {escaped(said)}"


def as_row(each: Delivery) -> str:
    row: dict[str, Any] = {"number": each.number, "origin": each.origin, "seq": each.seq, "at": each.at}
    if each.problem:
        row["problem"] = each.problem
    else:
        try:
            row["payload"] = each.payload.decode()
        except UnicodeDecodeError:
            row["payload_base64"] = base64.b64encode(each.payload).decode()
    written = json.dumps(row, ensure_ascii=False)
    return written if written.isprintable() else json.dumps(row)  # the same row; a terminal may show it, too


async def watch_keys(node: Node, keys: Path) -> None:
    """Take over bulletins that antecast group update puts into the node's file, and pass them on."""
    from antecast.live.groups import load_identity

    log = logging.getLogger("antecast.live")
    seen: int | None = 0
    while True:
        try:
            changed = keys.stat().st_mtime_ns
            if changed != seen:
                seen = changed
                node.take_bulletin(load_identity(keys).signed_bulletin)
        except AntecastError as error:
            log.warning("%s: not taken over: %s", keys, error)
        except OSError as error:
            if seen is not None:  # said once, however long it is gone
                log.warning("%s: cannot be read any more: %s", keys, error.strerror)
            seen = None
        await asyncio.sleep(1.0)


def broadcast_lines(take: Callable[[bytes], None]) -> int:
    """Hand over the lines of standard input; returns how many were refused, each with a line that says why."""
    refused = 0
    with suppress(AntecastError, OSError, RuntimeError, CancelledError):  # the last ones: the loop has ended
        for number, line in enumerate(input_lines(), start=1):
            try:
                if len(line) > MAX_PAYLOAD:
                    raise LocalMisuse(f"longer than {MAX_PAYLOAD} bytes")
                take(line)
            except LocalMisuse as misuse:
                refused += 1
                print(f"error: line {number} of standard input is not broadcast: {misuse}", file=sys.stderr)
    return refused


def input_lines() -> Iterator[bytes]:
    """The lines of standard input, without their ends; of one that is too long, just more than is allowed. Read
    past Python's buffer, whose lock a thread would hold when the program ends."""
    rest = bytearray()
    while data := os.read(0, 1 << 16):
        first, *lines = data.split(b"\n")
        rest += first[: MAX_PAYLOAD + 2 - len(rest)]
        for line in lines:
            yield bytes(rest).removesuffix(b"\r")
            rest = bytearray(line)
    if rest:
        yield bytes(rest)
