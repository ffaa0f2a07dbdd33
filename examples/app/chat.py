"""Causal broadcast in a program of your own: a chat over TCP, whose nodes crash and come back.

    python examples/app/chat.py FOLDER

`Node` drives one protocol object as the contract asks for (`antecast.core.protocol`): one call at a time, state
saved before any effect leaves, a clock that never goes back, links with two ends. It is small enough to read whole
and to copy. It neither encrypts nor authenticates: docs/app.md says what to add.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from antecast.core import Alert, CancelTimer, Deliver, Effect, Protocol, RemoteFault, Send, SetTimer
from antecast.protocols import specification

Call = Callable[[int], list[Effect]]
Handler = Callable[["Node", int, str], None]
"""What the application does with a message: the node, the number of the author, the text."""


class Store:
    """A node's file: its number, the protocol's state, the latest time it has used, and all that was delivered."""

    def __init__(self, path: Path, number: int) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("pragma synchronous = full")  # a save is on the disk before an effect leaves
        self.db.execute("create table if not exists node (number integer, clock integer, state blob)")
        inbox = "place integer primary key, origin integer, payload blob, handled integer"
        self.db.execute(f"create table if not exists inbox ({inbox})")
        row = self.db.execute("select number, clock, state from node").fetchone()
        if row is None:
            self.db.execute("insert into node values (?, 0, null)", (number,))
            row = (number, 0, None)
        if row[0] != number:
            raise ValueError(f"{path} belongs to node {row[0]}, not to {number}")
        self.clock: int = row[1]
        self.state: bytes | None = row[2]

    def save(self, state: bytes, now: int, deliveries: Sequence[Deliver]) -> list[int]:
        """State, clock and deliveries of one call, all of it or nothing; gives the places in the inbox."""
        self.db.execute("begin")
        self.db.execute("update node set clock = ?, state = ?", (now, state))
        places = []
        for each in deliveries:
            row = (each.message.origin, each.message.payload)
            done = self.db.execute("insert into inbox (origin, payload, handled) values (?, ?, 0)", row)
            places.append(done.lastrowid or 0)
        self.db.execute("commit")
        return places

    def handled(self, place: int) -> None:
        self.db.execute("update inbox set handled = 1 where place = ?", (place,))

    def unhandled(self) -> list[tuple[int, int, bytes]]:
        rows = self.db.execute("select place, origin, payload from inbox where not handled order by place")
        return rows.fetchall()

    def lines(self) -> list[tuple[int, str]]:
        rows = self.db.execute("select origin, payload from inbox where handled order by place")
        return [(origin, payload.decode()) for origin, payload in rows]


class Node:
    """One member: a protocol object, its file, its links."""

    def __init__(self, number: int, path: Path, handler: Handler) -> None:
        spec = specification("vector")
        self.number = number
        self.handler = handler
        self.protocol: Protocol = spec.make(number, spec.configure({}))
        self.store = Store(path, number)
        self.latest = self.store.clock
        self.calls: deque[Call] = deque()
        self.calling = False
        self.links: dict[int, asyncio.StreamWriter] = {}
        self.timers: dict[str, asyncio.TimerHandle] = {}
        self.refused = 0
        self.changed = asyncio.Event()
        if self.store.state is not None:
            self.protocol.restore(msgspec.msgpack.decode(self.store.state, strict=False))
            self.calling = True  # what the application asks for meanwhile comes after `resume`
            for place, origin, payload in self.store.unhandled():  # saved before the crash, not handed on
                self._hand_on(place, origin, payload)
            self.calls.appendleft(self.protocol.resume)
            self._work_off()

    def broadcast(self, text: str) -> None:
        self.call(lambda now: self.protocol.broadcast(text.encode(), now))

    def now(self) -> int:
        """The time of day, except that it never goes back: not when the clock is set, not over a restart."""
        self.latest = max(self.latest + 1, time.time_ns())
        return self.latest

    def call(self, call: Call) -> None:
        """One call at a time: what is asked for meanwhile, from inside a delivery for example, comes next."""
        self.calls.append(call)
        if not self.calling:
            self._work_off()

    def _work_off(self) -> None:
        self.calling = True
        try:
            while self.calls:
                self._perform(self.calls.popleft())
        finally:
            self.calling = False

    def _perform(self, call: Call) -> None:
        now = self.now()
        try:
            effects = call(now)
        except RemoteFault:  # nothing has changed: drop the frame, count it, go on
            self.refused += 1
            return
        deliveries = [each for each in effects if isinstance(each, Deliver)]
        state = msgspec.msgpack.encode(self.protocol.snapshot())
        places = iter(self.store.save(state, now, deliveries))
        for effect in effects:  # in their order, and only now
            match effect:
                case Send(to=peer, frame=frame):
                    if peer in self.links:
                        data = self.protocol.codec.encode(frame)
                        self.links[peer].write(len(data).to_bytes(4, "big") + data)
                case Deliver(message=message):
                    self._hand_on(next(places), message.origin, message.payload)
                case SetTimer(token=token, at=at):
                    self._cancel(token)
                    ring = self._ring(token)
                    self.timers[token] = asyncio.get_running_loop().call_later((at - now) / 1e9, ring)
                case CancelTimer(token=token):
                    self._cancel(token)
                case Alert(text=text):
                    print(f"node {self.number}: {text}", file=sys.stderr)

    def _hand_on(self, place: int, origin: int, payload: bytes) -> None:
        self.handler(self, origin, payload.decode())
        self.store.handled(place)
        self.changed.set()

    def _ring(self, token: str) -> Callable[[], None]:
        return lambda: self.call(lambda now: self.protocol.timer(token, now))

    def _cancel(self, token: str) -> None:
        if (timer := self.timers.pop(token, None)) is not None:
            timer.cancel()

    async def link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection is one link: up when both have said who they are, down when it ends."""
        writer.write(self.number.to_bytes(4, "big"))
        peer = None
        try:
            peer = int.from_bytes(await reader.readexactly(4), "big")  # believed: see docs/app.md
            self.links[peer] = writer  # a link that was up before is gone; `link_up` says both
            self.call(lambda now: self.protocol.link_up(peer, now))
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                if size > self.protocol.codec.max_frame:
                    break
                data = await reader.readexactly(size)
                if self.links.get(peer) is not writer:  # this link is down at our end
                    break
                self.call(lambda now, data=data: self._receive(data, peer, now))  # type: ignore[misc]
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            if peer is not None and self.links.get(peer) is writer:
                del self.links[peer]
                self.call(lambda now: self.protocol.link_down(peer, now))

    def _receive(self, data: bytes, peer: int, now: int) -> list[Effect]:
        return self.protocol.receive(self.protocol.codec.decode(data), peer, now)

    async def until(self, lines: int) -> None:
        """Wait until so many messages have been handled."""
        while len(self.store.lines()) < lines:
            self.changed.clear()
            await self.changed.wait()


class Member:
    """A process of the chat, here a task: it listens, dials those with smaller numbers, and can crash."""

    def __init__(self, number: int, folder: Path) -> None:
        self.node = Node(number, folder / f"node-{number}.db", answer)
        self.tasks: list[asyncio.Task[None]] = []
        self.port = 0

    async def start(self, others: Sequence[Member]) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.tasks.append(asyncio.current_task())  # type: ignore[arg-type]
            await self.node.link(reader, writer)

        self.server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        for other in others:
            streams = await asyncio.open_connection("127.0.0.1", other.port)
            self.tasks.append(asyncio.create_task(self.node.link(*streams)))

    async def crash(self) -> None:
        """Gone at once: nothing is said to anyone, nothing more is saved."""
        self.node.call = lambda call: None  # type: ignore[method-assign]
        self.server.close()
        for writer in self.node.links.values():
            writer.transport.abort()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.node.store.db.close()


NAMES = ("ada", "ben", "cleo")


def answer(node: Node, author: int, text: str) -> None:
    """The application: Ben answers questions. What he broadcasts from inside a delivery depends on it."""
    if node.number == 1 and text.endswith("?"):
        node.broadcast("I have it.")


async def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    ada, ben, cleo = members = [Member(number, folder) for number in range(3)]
    for number, member in enumerate(members):
        await member.start(members[:number])
    ada.node.broadcast("Good morning.")
    await asyncio.gather(*(member.node.until(1) for member in members))

    await cleo.crash()
    print("cleo has crashed")
    ada.node.broadcast("Who has the key?")
    await asyncio.gather(ada.node.until(3), ben.node.until(3))

    cleo = Member(2, folder)  # the same number, the same file
    await cleo.start([ben])  # and only Ben to learn from
    await cleo.node.until(3)
    print("cleo is back, and has read:")
    for author, text in cleo.node.store.lines():
        print(f"  {NAMES[author]}: {text}")
    for member in (ada, ben, cleo):
        await member.crash()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
