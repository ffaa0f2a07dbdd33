"""The application of a tortured node: it writes down what it was promised, and what it got.

Its record is a file of JSON lines. A line is there as soon as the `write` is done, and a process that is killed
loses none of them. After a restart the application goes on from its record: it asks for the deliveries after the
last number in it, as an application does that commits its state and the number together.

    ["r"]                                   the process has started
    ["i", k]                                message k is about to be broadcast
    ["a", k, origin, seq]                   the node has said that message k is durable
    ["d", number, origin, seq, at, payload] a delivery
    ["x", origin, seq]                      the node does without this message and those before it

The payload is JSON too: the node, its k, whether it is an answer, and the last message of each origin that the
application had been shown when it spoke. So each delivery can be checked for causal order by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from antecast.core import Discard, Effect
from antecast.live.engine import Engine
from antecast.live.entries import Delivery
from antecast.live.node import Node


class _TellingEngine(Engine):
    """Writes down at once what its node gives up. A crash may undo that, and the message may still come;
    what is not undone is in the record."""

    def _perform_rare(self, effect: Effect) -> None:
        if isinstance(effect, Discard) and isinstance(self._owner, TellingNode):
            line = json.dumps(["x", effect.id.origin, effect.id.seq]).encode() + b"\n"
            with self._owner.record.open("ab", buffering=0) as file:
                file.write(line)
        super()._perform_rare(effect)


class TellingNode(Node):
    """A node of which the record also says what it has given up."""

    engine_class = _TellingEngine

    def __init__(self, number: int, protocol: str, *, record: Path, **options: Any) -> None:
        super().__init__(number, protocol, **options)
        self.record = record


class Application:
    """Broadcasts on request, answers some of what it is shown, and writes everything down."""

    def __init__(self, node: Node, record: Path) -> None:
        self._node = node
        self.number = self._next = 0
        self._seen: dict[int, int] = {}
        self._read(record)
        self._file = os.open(record, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._work: asyncio.Queue[tuple[int, bool]] = asyncio.Queue()
        self._put(["r"])

    def _read(self, record: Path) -> None:
        """Where it stood. A last line without its end was never written, as far as anybody knows."""
        if not record.exists():
            return
        data = record.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(record, len(whole))
        for line in whole.splitlines():
            kind, *rest = json.loads(line)
            if kind == "i":
                self._next = rest[0] + 1
            elif kind == "d":
                self.number = rest[0]
                self._seen[rest[1]] = max(rest[2], self._seen.get(rest[1], 0))

    def _put(self, *lines: list[Any]) -> None:
        os.write(self._file, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def ask(self, count: int) -> None:
        """Broadcast so many messages, one after the other."""
        for _ in range(count):
            self._put(self._intend(answer=False))

    def _intend(self, *, answer: bool) -> list[Any]:
        k, self._next = self._next, self._next + 1
        self._work.put_nowait((k, answer))
        return ["i", k]

    async def speak(self) -> None:
        while True:
            k, answer = await self._work.get()
            payload = json.dumps([self._node.number, k, answer, sorted(self._seen.items())]).encode()
            name = await self._node.broadcast(payload)
            self._put(["a", k, name.origin, name.seq])

    async def listen(self) -> None:
        async for each in self._node.deliveries(after=self.number):
            self._take(each)

    def _take(self, each: Delivery) -> None:
        lines: list[list[Any]] = [
            ["d", each.number, each.origin, each.seq, each.at, each.payload.decode("latin-1")]
        ]
        self._seen[each.origin] = max(each.seq, self._seen.get(each.origin, 0))
        self.number = each.number
        node, k, answer, _ = json.loads(each.payload)
        if not answer and node != self._node.number and (k + self._node.number) % 3 == 0:
            lines.append(self._intend(answer=True))
        self._put(*lines)
        if each.number % 3 == 0:
            self._node.acknowledge(each.number)
