"""A stage: nodes of a real protocol, and links that hold every frame until the story carries it over.

Nothing happens by itself. Links keep order; `carry` lets frames arrive, `lose` drops some, `wait` lets time pass.
What nodes broadcast and deliver is written down as an event log, and `outcome` has the auditor judge it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa

from antecast.core import Accepted, CancelTimer, Deliver, Effect, Frame, Message, NodeId, Send, SetTimer, Timer
from antecast.history.audit import audit
from antecast.papers.demonstration import Outcome
from antecast.protocols import specification

SECOND = 10**9


class Logbook:
    """Broadcasts and deliveries by the names of their nodes, as a log that can be audited."""

    def __init__(self, names: str) -> None:
        self._names = names
        self._rows: list[tuple[str, int, str, str, int]] = []

    def broadcast(self, node: NodeId, seq: int) -> None:
        self._write(node, "broadcast", node, seq)

    def deliver(self, node: NodeId, origin: NodeId, seq: int) -> None:
        self._write(node, "deliver", origin, seq)

    def _write(self, node: NodeId, kind: str, origin: NodeId, seq: int) -> None:
        names = self._names
        self._rows.append((names[node], len(self._rows), kind, names[origin], seq))

    def delivered(self, node: NodeId) -> list[str]:
        """What a node delivered, in its order, such as `A:1`."""
        name = self._names[node]
        return [f"{row[3]}:{row[4]}" for row in self._rows if row[0] == name and row[2] == "deliver"]

    def outcome(self, node: NodeId) -> Outcome:
        """The auditor's verdict on order and repeated deliveries; if all is well, what a node delivered."""
        columns = zip(*self._rows, strict=True)
        table = pa.table(dict(zip(("node", "pos", "kind", "origin", "seq"), map(list, columns), strict=True)))
        verdict = audit(table)
        if verdict.witness is None:
            order = ", then ".join(self.delivered(node))
            return Outcome(False, f"Causal order is kept: {self._names[node]} delivers {order}.")
        words = verdict.witness.words
        return Outcome(True, words[0].upper() + words[1:], verdict.witness.diagram)


class Stage:
    """Nodes 0, 1, … of a protocol, called by the letters of `names` in what is told about them."""

    def __init__(self, protocol: str, names: str, **settings: object) -> None:
        spec = specification(protocol)
        fitted = spec.fit(spec.configure(settings), len(names))
        self.log = Logbook(names)
        self.now = 0
        self.clocks = dict.fromkeys(range(len(names)), 0)
        """How far each node's clock is ahead."""
        self.nodes = {node: spec.make(node, fitted) for node in range(len(names))}
        self.on_deliver: Callable[[NodeId, Message[Any]], None] | None = None
        """The application, which may broadcast from inside a delivery."""
        self._links: dict[tuple[NodeId, NodeId], deque[Frame]] = {}
        self._timers: dict[tuple[NodeId, Timer], int] = {}

    def _clock(self, node: NodeId) -> int:
        return self.now + self.clocks[node]

    def _perform(self, node: NodeId, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to=to, frame=frame):
                    if (node, to) in self._links:
                        self._links[node, to].append(frame)
                case Deliver(message=message):
                    self.log.deliver(node, message.origin, message.seq)
                    if self.on_deliver is not None:
                        self.on_deliver(node, message)
                case SetTimer(token=token, at=at):
                    self._timers[node, token] = at - self.clocks[node]
                case CancelTimer(token=token):
                    self._timers.pop((node, token), None)

    # Links.

    def open(self, a: NodeId, b: NodeId) -> None:
        for one, other in ((a, b), (b, a)):
            self._links[one, other] = deque()
        for one, other in ((a, b), (b, a)):
            self._perform(one, self.nodes[one].link_up(other, self._clock(one)))

    def close(self, a: NodeId, b: NodeId) -> None:
        for one, other in ((a, b), (b, a)):
            del self._links[one, other]
            self._perform(one, self.nodes[one].link_down(other, self._clock(one)))

    def meet(self, a: NodeId, b: NodeId, *, without: tuple[NodeId, int] | None = None) -> None:
        """A contact in which everything is exchanged, except for a message that is lost on its way."""
        self.open(a, b)
        while any(self._links.values()):
            for pair in ((a, b), (b, a)):
                if without is not None:
                    self._links[pair] = deque(frame for frame in self._links[pair] if not _carries(frame, without))
                self.carry(*pair)
        self.close(a, b)

    def carry(self, *path: NodeId, frames: int | None = None) -> None:
        """Carry frames over the links of a path, one after the other; without a path, all until nothing moves."""
        if path:
            for a, b in pairwise(path):
                for _ in range(len(self._links[a, b]) if frames is None else frames):
                    self._carry_one(a, b)
            return
        while any(self._links.values()):
            for (a, b), queue in sorted(self._links.items()):
                while queue:
                    self._carry_one(a, b)

    def _carry_one(self, a: NodeId, b: NodeId) -> None:
        frame = self._links[a, b].popleft()
        self._perform(b, self.nodes[b].receive(frame, a, self._clock(b)))

    def lose(self, a: NodeId, b: NodeId) -> None:
        """Drop what is on a link."""
        self._links[a, b].clear()

    # Messages and time.

    def broadcast(self, node: NodeId, *, lifetime: float | None = None) -> None:
        ns = None if lifetime is None else round(lifetime * SECOND)
        effects = self.nodes[node].broadcast(b"", self._clock(node), lifetime=ns)
        for effect in effects:
            if isinstance(effect, Deliver):
                self.log.broadcast(node, effect.message.seq)
            elif isinstance(effect, Accepted):
                self.log.broadcast(node, effect.id.seq)
        self._perform(node, effects)

    def wait(self, until: float) -> None:
        """Let time pass up to a second of the story; timers fire, frames stay where they are."""
        end = round(until * SECOND)
        while due := [(at, *who) for who, at in self._timers.items() if at <= end]:
            at, node, token = min(due)
            self.now = max(self.now, at)
            del self._timers[node, token]
            self._perform(node, self.nodes[node].timer(token, self._clock(node)))
        self.now = end

    def rest(self, seconds: int = 60) -> None:
        """Let time pass, and everything arrive."""
        for _ in range(seconds):
            self.carry()
            self.wait(self.now / SECOND + 1)
        self.carry()


def _carries(frame: Frame, name: tuple[NodeId, int]) -> bool:
    return any((message.origin, message.seq) == name for message in frame.carried)
