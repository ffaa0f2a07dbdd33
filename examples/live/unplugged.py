"""Three people chat; one is unplugged, misses a question and its answer, and comes back.

    python examples/live/unplugged.py FOLDER

Real nodes with journals, on real connections, here in one process. Cleo's node stops in the middle of the
conversation. When she is back she can reach only Ben, and reads everything that she missed, in causal order.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from group_chat import Chat

from antecast.live import Node
from antecast.live.links.tcp import Tcp

NAMES = ("ada", "ben", "cleo")


class Person:
    """A chat, and the node under it."""

    def __init__(self, number: int, folder: Path, friends: list[Person]) -> None:
        self.number, self.folder = number, folder / NAMES[number]
        self.folder.mkdir(parents=True, exist_ok=True)
        peers = [str(friend.tcp.listen) for friend in friends]
        self.tcp: Tcp = Tcp(listen="127.0.0.1:0", peers=peers)
        self.node = Node(number, "vector", journal=self.folder / "journal", transports=[self.tcp])

    async def join(self) -> None:
        await self.node.start()
        self.chat = Chat(self.node, self.folder / "history", NAMES[self.number], show=lambda line: None)
        self.task = asyncio.create_task(self.chat.follow())

    async def until(self, lines: int) -> None:
        while len(self.chat.lines()) < lines:
            await asyncio.sleep(0.005)

    async def leave(self) -> None:
        self.task.cancel()
        await self.node.stop()
        self.chat.close()


async def main(folder: Path) -> None:
    people: list[Person] = []
    for number in range(3):
        people.append(Person(number, folder, people))
        await people[-1].join()
    ada, ben, cleo = people
    await ada.chat.say("Good morning.")
    await asyncio.gather(*(person.until(1) for person in people))

    await cleo.leave()
    print("cleo is unplugged")
    await ada.chat.say("Who has the key?")
    await ben.until(2)
    await ben.chat.say("I have it.")
    await ada.until(3)

    cleo = Person(2, folder, [ben])  # the same number, the same journal; and only Ben to learn from
    await cleo.join()
    await cleo.until(3)
    print("cleo is back, and reads:")
    for line in cleo.chat.lines():
        print(f"  {line}")
    for person in (ada, ben, cleo):
        await person.leave()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
