"""The retained log: what a node has received, the messages it still keeps for others, and the comparison of
two such logs.

Two nodes compare with a `Summary`: for each source all messages up to a number, and single ones beyond it. The
other sends what is missing there and, when it lacks something itself, answers with a summary of its own.

A node keeps the last `retain` messages that are settled: delivered, or given up. One that was away for longer,
or that joins late, cannot get what came before; it is told so in a `Base`, the first messages that are still to
be had. A newcomer starts from there at once. A node with a past waits `patience`, in case another neighbour
still has them, and then gives them up, which the layer above reports.

Since messages are dropped in the order of their delivery, a base holds with each message all that it depends
on: skipping it cannot break an order.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from antecast.core import Clock, Effect, Frame, Message, NodeId, Send, SetTimer, State, Timer
from antecast.protocols.dissemination import Above
from antecast.protocols.received import Gaps, Received, covers


class Summary(Frame, frozen=True, array_like=True, tag=1):
    """What a node has: for each source all up to a number, and single ones beyond it."""

    upto: Clock
    beyond: Gaps
    answer: bool
    """Set when this replies to a summary, so that two nodes do not go on for ever."""


class Base(Frame, frozen=True, array_like=True, tag=2):
    """For each source, the last message that the sender no longer keeps."""

    upto: Clock


PATIENCE: Timer = "retained/patience"


class RetainedLog:
    """Part of a dissemination, which sets `above` to the layer above itself and hands over the frames and the
    timer named here."""

    above: Above

    def __init__(
        self, node: NodeId, *, retain: int | None, patience: int, ordered: bool, newcomers_wait: bool = False
    ) -> None:
        self._node = node
        self._retain = retain
        self._patience = patience
        self._ordered = ordered
        self._newcomers_wait = newcomers_wait
        """Whether also a node that has delivered nothing yet lets its patience run out before it takes a base:
        needed where comparisons may overtake the first messages."""
        self.received = Received()
        """What has been received so far; it changes as more is."""
        self._store: dict[tuple[NodeId, int], Message[Any]] = {}
        self._settled: deque[tuple[NodeId, int]] = deque()
        self._trimmed: dict[NodeId, int] = {}
        self._offered: dict[NodeId, int] = {}

    def add(self, message: Message[Any]) -> bool:
        """Note and keep a message; False if it was here already."""
        origin, seq = message.origin, message.seq
        if not self.received.add(origin, seq):
            return False
        self._store[origin, seq] = message
        return True

    def settled(self, message: Message[Any]) -> None:
        """The layer above is done with a message: it counts among the last ones from now on."""
        self._settled.append((message.origin, message.seq))
        if self._retain is not None and len(self._settled) > self._retain:
            origin, seq = self._settled.popleft()
            del self._store[origin, seq]
            self._trimmed[origin] = max(seq, self._trimmed.get(origin, 0))

    def compare(self, peer: NodeId, out: list[Effect], *, answer: bool = False) -> None:
        """Tell a node what is here, so that it sends what is not and asks for what it lacks."""
        out.append(Send(peer, Summary(self.received.upto.copy(), self.received.gaps(), answer)))

    def take_summary(self, summary: Summary, sender: NodeId, out: list[Effect]) -> None:
        """Send what the other lacks, and ask for what is lacking here."""
        if self._ordered and not covers(summary.upto, self._trimmed):
            out.append(Send(sender, Base(self._trimmed.copy())))
        out += [Send(sender, message) for message in self._missing_in(summary)]
        if not summary.answer and self.received.lacks(summary.upto, summary.beyond):
            self.compare(sender, out, answer=True)

    def _missing_in(self, summary: Summary) -> Iterator[Message[Any]]:
        if not self.received.beyond and covers(summary.upto, self.received.upto):
            return  # the usual case of a repair: nothing to send, no need to walk the store
        beyond = {origin: set(numbers) for origin, numbers in summary.beyond.items()}
        for (origin, seq), message in self._store.items():
            if seq > summary.upto.get(origin, 0) and seq not in beyond.get(origin, ()):
                yield message

    def take_base(self, base: Base, sender: NodeId, now: int, out: list[Effect]) -> None:
        """Another no longer keeps what is lacking here: start from what it keeps, now or in a while."""
        progress = self.above.progress()
        if covers(progress, base.upto):
            return
        if not self._newcomers_wait and progress.keys() <= {self._node}:
            self._start_from(base.upto, out)
            return
        if not self._offered:
            out.append(SetTimer(PATIENCE, now + self._patience))
        for source, count in base.upto.items():
            self._offered[source] = max(count, self._offered.get(source, 0))

    def _start_from(self, base: Mapping[NodeId, int], out: list[Effect]) -> None:
        self.received.advance(base)
        for source, count in base.items():
            self._trimmed[source] = max(count, self._trimmed.get(source, 0))
        self.above.skipped(base, out)

    def timer(self, now: int, out: list[Effect]) -> None:
        """Patience has run out."""
        base, self._offered = self._offered, {}
        if not covers(self.above.progress(), base):
            self._start_from(base, out)

    def resume(self, now: int, out: list[Effect]) -> None:
        if self._offered:
            out.append(SetTimer(PATIENCE, now + self._patience))

    def stored(self) -> list[Message[Any]]:
        """The messages kept, in the order in which they came."""
        return list(self._store.values())

    def snapshot(self) -> State:
        return {
            "upto": dict(self.received.upto),
            "beyond": self.received.gaps(),
            "settled": [list(key) for key in self._settled],
            "trimmed": dict(self._trimmed),
            "offered": dict(self._offered),
        }

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self.received.upto = dict(state["upto"])
        self.received.beyond = {origin: set(numbers) for origin, numbers in state["beyond"].items()}
        self._settled = deque((origin, seq) for origin, seq in state["settled"])
        self._trimmed = dict(state["trimmed"])
        self._offered = dict(state["offered"])
        self._store = {(message.origin, message.seq): message for message in messages}

    def gauges(self) -> dict[str, int]:
        return {
            "stored": len(self._store),
            "out_of_turn": sum(len(numbers) for numbers in self.received.beyond.values()),
        }
