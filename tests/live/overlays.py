"""A network for members of an overlay, without sockets: words and links take time, and time is a number."""

from __future__ import annotations

import heapq
from random import Random

from antecast.live.overlay.member import Member
from antecast.live.overlay.records import SprayOptions
from antecast.live.overlay.words import decode_word, encode_word

OPTIONS = SprayOptions(every=10.0, patience=20.0, linger=1.0)


class World:
    """Members, each with its own ground; links become safe a while after they are up."""

    def __init__(self, seed: int, *, delay: float = 0.05, safe_after: float = 0.5) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.members: dict[int, Member] = {}
        self.links: dict[tuple[int, int], float] = {}
        """Links by their ends, smaller first, and since when they are up."""
        self.apart: set[int] = set()
        """The members on one side of a partition."""
        self.kept: dict[int, dict] = {}
        self._delay, self._safe_after = delay, safe_after
        self._events: list = []
        self._count = 0

    def later(self, seconds, action, *arguments):
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, action, arguments))

    def join(self, number: int, contacts=()):
        ground = Ground(self, number)
        member = Member(
            number,
            f"127.0.0.1:{number + 1}",
            ground,
            contacts=[f"127.0.0.1:{each + 1}" for each in contacts],
            options=OPTIONS,
            random=Random(self.random.getrandbits(32)),
        )
        if number in self.kept:
            member.load(self.kept.pop(number))
        self.members[number] = member
        member.start(self.now)
        self.later(0.2, self._turn, member)

    def _turn(self, member):
        if self.members.get(member.number) is member:
            member.turn(self.now)
            self.later(0.2, self._turn, member)

    def crash(self, number: int, *, keep=True):
        member = self.members.pop(number)
        if keep:
            self.kept[number] = member.state()
        for pair in [pair for pair in self.links if number in pair]:
            self.cut(*pair)

    def split(self, side):
        self.apart = set(side)
        for a, b in list(self.links):
            if (a in self.apart) != (b in self.apart):
                self.cut(a, b)

    def cut(self, a, b):
        if self.links.pop((min(a, b), max(a, b)), None) is not None:
            for end, other in ((a, b), (b, a)):
                self.later(self.random.uniform(0, self._delay), self._down, end, other)

    def _down(self, end, other):
        if end in self.members and (min(end, other), max(end, other)) not in self.links:
            self.members[end].unlinked(other, self.now)

    def connect(self, a, place, by):
        b = int(place.rpartition(":")[2]) - 1
        if a not in self.members:
            return
        if b not in self.members or a == b or (a in self.apart) != (b in self.apart):
            self.members[a].dialled(place, None, self.now)
            return
        pair = min(a, b), max(a, b)
        self.links[pair] = self.now
        self.members[b].linked(a, self.now, dialled=False)
        self.members[a].linked(b, self.now, dialled=True)
        self.members[a].dialled(place, b, self.now)

    def carry(self, sender, to, born, data):
        if self.links.get((min(sender, to), max(sender, to))) == born and to in self.members:
            self.members[to].heard(sender, decode_word(data), self.now)

    def run(self, seconds):
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, action, arguments = heapq.heappop(self._events)
            action(*arguments)
        self.now = end

    @property
    def arcs(self) -> int:
        return sum(len(member.view) for member in self.members.values())

    def reached(self) -> set[int]:
        """Who can be reached over links that are safe both ways, from one member."""
        seen, todo = set(), [next(iter(self.members))]
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                member = self.members[at]
                todo += [peer for peer in member.neighbours if member.both_safe(peer)]
        return seen


class Ground:
    def __init__(self, world, number):
        self._world, self._number = world, number

    def dial(self, place, by):
        self._world.later(self._world._delay, self._world.connect, self._number, place, by)

    def part(self, peer):
        self._world.cut(self._number, peer)

    def tell(self, peer, word):
        pair = min(self._number, peer), max(self._number, peer)
        if pair in self._world.links:
            data = encode_word(word)
            world = self._world
            world.later(world._delay, world.carry, self._number, peer, world.links[pair], data)

    def safe(self, peer):
        pair = min(self._number, peer), max(self._number, peer)
        since = self._world.links.get(pair)
        return since is not None and self._world.now - since >= self._world._safe_after
