"""A group chat on a live node: the application behind `antecast chat`, small enough to read whole and to copy.

    python examples/live/group_chat.py FOLDER NUMBER NAME LISTEN [PEER ...]

The node delivers a message once it has delivered all that the message depends on: nobody sees an answer before its
question. The chat keeps its lines in a database of its own. Each line is saved together with the number of its
delivery, so that after a crash the node hands over exactly what is missing: every line is there once, in order.
Numbers are those of one journal, which the node calls its life; if it is lost, the chat goes on with another.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from unicodedata import category

from antecast.live import Delivery, Node
from antecast.live.links.tcp import Tcp


class Chat:
    """The lines of a conversation, and a node that brings new ones."""

    def __init__(self, node: Node, history: Path, name: str, show: Callable[[str], None] = print) -> None:
        self.node, self.name, self.show = node, name, show
        self._db = sqlite3.connect(history, isolation_level=None)
        self._db.execute(
            "create table if not exists lines (life blob, number integer, name text, words text,"
            " primary key (life, number))"
        )
        self._db.execute("create table if not exists names (name text primary key, origin integer)")

    def lines(self) -> list[str]:
        """The conversation so far."""
        rows = self._db.execute("select name, words from lines order by rowid")
        return [f"{name}: {words}" for name, words in rows]

    async def say(self, words: str) -> None:
        """Say something. It is in the journal when this returns, and reaches everyone, whatever happens."""
        await self.node.broadcast(json.dumps([self.name, words]).encode())

    async def follow(self) -> None:
        """Save and show each new line. The number says what is there already."""
        life = self.node.life
        (last,) = self._db.execute("select max(number) from lines where life = ?", (life,)).fetchone()
        async for delivery in self.node.deliveries(after=last):
            name, words = read(delivery)
            name = self._own(name, delivery.origin)
            self._db.execute("insert into lines values (?, ?, ?, ?)", (life, delivery.number, name, words))
            self.show(f"{name}: {words}")
            if delivery.number % 100 == 0:  # the node need not keep what is saved here
                self.node.acknowledge(delivery.number)

    def _own(self, name: str, origin: int) -> str:
        """A name is that of the node that has used it first; anyone else who takes it is told apart. Who a message
        is from is known for certain, in a group with keys, but not what they call themselves."""
        self._db.execute("insert or ignore into names values (?, ?)", (name, origin))
        (owner,) = self._db.execute("select origin from names where name = ?", (name,)).fetchone()
        return name if owner == origin else f"{name} (node {origin})"

    def close(self) -> None:
        self._db.close()


def read(delivery: Delivery) -> tuple[str, str]:
    """Whoever is a member can send anything: what is no line of a chat is shown as it is. A name ends at a colon:
    with what follows, it could pass for a line of somebody else."""
    try:
        name, words = json.loads(delivery.payload)
        return " ".join(plain(name).partition(":")[0].split()) or f"node {delivery.origin}", plain(words)
    except (ValueError, TypeError, RecursionError):
        return f"node {delivery.origin}", delivery.problem or repr(delivery.payload[:200])


def plain(said: object) -> str:
    """Text that is one line and moves no cursor."""
    text = str(said)
    return text if text.isprintable() else "".join(map(_plain, text))


def _plain(each: str) -> str:
    joins = each in "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"  # part of how some scripts are written
    obeyed = category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp") and not joins
    return "\N{REPLACEMENT CHARACTER}" if obeyed else each


async def main(folder: Path, number: int, name: str, listen: str, peers: list[str]) -> None:
    node = Node(number, "vector", journal=folder / "journal", transports=[Tcp(listen=listen, peers=peers)])
    async with node:
        chat = Chat(node, folder / "history", name)
        for line in chat.lines():
            print(line)
        following = asyncio.create_task(chat.follow())
        while words := await asyncio.to_thread(sys.stdin.readline):
            await chat.say(words.strip())
        following.cancel()
        chat.close()


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(place, int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:]))
