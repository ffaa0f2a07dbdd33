"""Processes whose frames move when a test says so, link by link: the bench for the figures of papers."""

from collections import defaultdict, deque
from itertools import pairwise

from restless import SECOND, Restless


def kinds(frames):
    return [type(frame).__name__ for frame in frames]


class ByHand(Restless):
    """Links keep order, and hold on to every frame until it is carried over."""

    def __init__(self, nodes, links=(), **options):
        self.queues = defaultdict(deque)
        super().__init__(0, nodes=nodes, answers=0, stray=False, **options)
        for a, b in links:
            self.open(a, b)
        self.carry()

    def send(self, node, to, frame):
        if (node, to) in self.up:
            self.queues[node, to].append(frame)

    def close(self, a, b):
        super().close(a, b)
        self.queues.pop((a, b), None)
        self.queues.pop((b, a), None)

    def carry(self, *path, frames=None):
        """Carry frames over the links of a path, one after the other; without a path, all until nothing moves."""
        if path:
            for a, b in pairwise(path):
                for _ in range(len(self.queues[a, b]) if frames is None else frames):
                    if self.queues.get((a, b)):
                        self._carry_one(a, b)
            return
        while any(self.queues.values()):
            for a, b in sorted(self.queues):
                while self.queues.get((a, b)):  # a process may go, and its links with it
                    self._carry_one(a, b)

    def _carry_one(self, a, b):
        frame = self.queues[a, b].popleft()
        self.perform(b, self.nodes[b].receive(frame, a, self.now))

    def lose(self, a, b):
        """Drop what is on a link; only pings and pongs may be lost."""
        lost = list(self.queues[a, b])
        self.queues[a, b].clear()
        return lost

    def wait(self, seconds):
        """Let time pass, and timers fire. Frames stay where they are."""
        self.run(self.now + round(seconds * SECOND))

    def rest(self, seconds=60):
        """Let time pass, and everything arrive."""
        for _ in range(seconds):
            self.carry()
            self.wait(1)
        self.carry()

    def safe(self, a, b):
        return self.nodes[a].safe(b)
