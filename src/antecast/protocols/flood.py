"""Flooding: a message goes to every neighbour, and each passes it on the first time it sees it.

Over links that lose nothing this reaches everyone a path leads to. For links that come and go, and
for links that lose, a node keeps the messages it delivered last and two neighbours can compare what
they have:

- When a link comes up, a node that has anything says what in a `Summary`. The other sends what is
  missing there and, when it lacks something itself, answers with a summary of its own. A node that
  has nothing stays silent, so a network that starts empty starts without a word.
- With `repair`, each node sends a summary to its neighbours in turn, one every `repair`
  nanoseconds. Lost frames are then found and sent again: flooding becomes reliable over links that
  lose, as long as a frame gets through now and then.
- A node keeps the last `retain` messages it delivered. One that was away for longer, or that joins
  late, cannot get what came before; it is told so in a `Base`, the first messages that are still to
  be had. A newcomer starts from there at once. A node with a past waits `patience`, in case another
  neighbour still has them, and then gives them up, which the layer above reports.

Since messages are dropped in the order of their delivery, a base holds with each message all that
it depends on: skipping it cannot break an order.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from antecast.core import (
    CancelTimer,
    Clock,
    Effect,
    Frame,
    Message,
    MessageId,
    NodeId,
    RemoteFault,
    Send,
    SetTimer,
    State,
    Timer,
)
from antecast.protocols.dissemination import Dissemination
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


REPAIR: Timer = "flood/repair"
PATIENCE: Timer = "flood/patience"


class Flood(Dissemination):
    frames: ClassVar[tuple[type[Frame], ...]] = (Summary, Base)

    def __init__(
        self,
        node: NodeId,
        *,
        retain: int | None,
        repair: int | None,
        patience: int,
        ordered: bool,
        newcomers_wait: bool = False,
    ) -> None:
        self._node = node
        self._retain = retain
        self._repair = repair
        self._patience = patience
        self._ordered = ordered
        self._newcomers_wait = newcomers_wait
        """Whether also a node that has delivered nothing yet lets its patience run out before it takes a base:
        needed where comparisons may overtake the first messages."""
        self._peers: dict[NodeId, None] = {}
        self._received = Received()
        self._store: dict[tuple[NodeId, int], Message[Any]] = {}
        self._settled: deque[tuple[NodeId, int]] = deque()
        self._trimmed: dict[NodeId, int] = {}
        self._offered: dict[NodeId, int] = {}
        self._turn = 0

    def spread(self, message: Message[Any], now: int, out: list[Effect]) -> None:
        self._received.add(message.origin, message.seq)
        self._store[message.origin, message.seq] = message
        for peer in self._peers:
            out.append(Send(peer, message))

    def settled(self, message: Message[Any]) -> None:
        self._settled.append((message.origin, message.seq))
        if self._retain is not None and len(self._settled) > self._retain:
            origin, seq = self._settled.popleft()
            del self._store[origin, seq]
            self._trimmed[origin] = max(seq, self._trimmed.get(origin, 0))

    def receive(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None:
        if frame.__class__ is Message:
            self._pass_on(frame, sender, now, out)
        elif isinstance(frame, Summary):
            self._compare(frame, sender, out)
        elif isinstance(frame, Base):
            self._offer(frame.upto, now, out)
        else:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, which flooding does not know")

    def _pass_on(self, message: Message[Any], sender: NodeId, now: int, out: list[Effect]) -> None:
        origin, seq = message.origin, message.seq
        if origin == self._node and seq > self._received.upto.get(origin, 0):
            raise RemoteFault(f"node {sender} sent message {MessageId(origin, seq)}, never broadcast here")
        if not self._received.add(origin, seq):
            return
        self._store[origin, seq] = message
        out += [Send(peer, message) for peer in self._peers if peer != sender]
        self.above.arrived(message, now, out)

    def _compare(self, summary: Summary, sender: NodeId, out: list[Effect]) -> None:
        if self._ordered and not covers(summary.upto, self._trimmed):
            out.append(Send(sender, Base(self._trimmed.copy())))
        out += [Send(sender, message) for message in self._missing_in(summary)]
        if not summary.answer and self._received.lacks(summary.upto, summary.beyond):
            out.append(self._summary(sender, answer=True))

    def _missing_in(self, summary: Summary) -> Iterator[Message[Any]]:
        if not self._received.beyond and covers(summary.upto, self._received.upto):
            return  # the usual case of a repair: nothing to send, no need to walk the store
        beyond = {origin: set(numbers) for origin, numbers in summary.beyond.items()}
        for (origin, seq), message in self._store.items():
            if seq > summary.upto.get(origin, 0) and seq not in beyond.get(origin, ()):
                yield message

    @property
    def received(self) -> Received:
        """What has been received so far; it changes as more is."""
        return self._received

    def compare(self, peer: NodeId, out: list[Effect]) -> None:
        """Tell a node what is here, so that it sends what is not and asks for what it lacks."""
        out.append(self._summary(peer, answer=False))

    def _summary(self, peer: NodeId, *, answer: bool) -> Send:
        received = self._received
        return Send(peer, Summary(received.upto.copy(), received.gaps(), answer))

    def _offer(self, base: Mapping[NodeId, int], now: int, out: list[Effect]) -> None:
        progress = self.above.progress()
        if covers(progress, base):
            return
        if not self._newcomers_wait and progress.keys() <= {self._node}:
            self._start_from(base, out)
            return
        if not self._offered:
            out.append(SetTimer(PATIENCE, now + self._patience))
        for source, count in base.items():
            self._offered[source] = max(count, self._offered.get(source, 0))

    def _start_from(self, base: Mapping[NodeId, int], out: list[Effect]) -> None:
        self._received.advance(base)
        for source, count in base.items():
            self._trimmed[source] = max(count, self._trimmed.get(source, 0))
        self.above.skipped(base, out)

    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        if self._repair is not None and not self._peers:
            out.append(SetTimer(REPAIR, now + self._repair))
        self._peers[peer] = None
        if self._received:
            out.append(self._summary(peer, answer=False))

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._peers.pop(peer, None)
        if self._repair is not None and not self._peers:
            out.append(CancelTimer(REPAIR))

    def timer(self, token: Timer, now: int, out: list[Effect]) -> None:
        if token == REPAIR and self._repair is not None and self._peers:
            self._turn += 1
            peer = list(self._peers)[self._turn % len(self._peers)]
            out.append(self._summary(peer, answer=False))
            out.append(SetTimer(REPAIR, now + self._repair))
        elif token == PATIENCE:
            base, self._offered = self._offered, {}
            if not covers(self.above.progress(), base):
                self._start_from(base, out)

    def stored(self) -> list[Message[Any]]:
        return list(self._store.values())

    def snapshot(self) -> State:
        return {
            "upto": dict(self._received.upto),
            "beyond": self._received.gaps(),
            "settled": [list(key) for key in self._settled],
            "trimmed": dict(self._trimmed),
        }

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self._received.upto = dict(state["upto"])
        self._received.beyond = {origin: set(numbers) for origin, numbers in state["beyond"].items()}
        self._settled = deque((origin, seq) for origin, seq in state["settled"])
        self._trimmed = dict(state["trimmed"])
        self._store = {(message.origin, message.seq): message for message in messages}

    def gauges(self) -> dict[str, int]:
        return {
            "stored": len(self._store),
            "out_of_turn": sum(len(numbers) for numbers in self._received.beyond.values()),
        }
