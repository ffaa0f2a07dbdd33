"""The retained log: what a node has received, the messages it still keeps for others, and the comparison of
two such logs.

Two nodes compare with a `Summary`: for each source all messages up to a number, and single ones beyond it. The
other sends what is missing there and, when it lacks something itself, answers with a summary of its own.

A node keeps the last `retain` messages that it delivered. One that was away for longer, or that joins late,
cannot get what came before. It is told so in a `Base`: for each source, the last message that is no longer kept.
It may then give up what it waits for (`offers`). A node that has given something up tells its `neighbours` by a
comparison, since what it delivers from now on may depend on messages that it cannot give them: they learn what
was given up as they would have from a node that delivered and dropped it.

Nothing is given up silently: a `Discard` names the last message of each source that is skipped, and each message
that came and is dropped. (A newcomer, who has no past, begins where the others are, and says nothing.)

A base is causally closed: messages are dropped in the order of their delivery, and what was given up was closed
itself (or stamps are complete, and it need not be).

Peers may be wrong, or lie. A summary or a base that has more of this node's own messages than it broadcast is
corrected in that entry, and an `Alert` says so, once per link. A base that does not answer a summary is refused.
Everything here takes time proportional to the size of the frame.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from antecast.core import (
    MAX_SOURCES,
    Clock,
    Discard,
    Effect,
    Frame,
    LocalMisuse,
    Message,
    MessageId,
    NodeId,
    RemoteFault,
    Send,
    State,
)
from antecast.protocols.dissemination import Above
from antecast.protocols.lost_state import lost_state
from antecast.protocols.offers import PATIENCE, Offers
from antecast.protocols.received import Gaps, Received, covers, first_of, some_gaps

__all__ = ["PATIENCE", "Base", "RetainedLog", "Summary"]


class Summary(Frame, frozen=True, array_like=True, tag=1):
    """What a node has: for each source all up to a number, and single ones beyond it."""

    upto: Clock
    beyond: Gaps
    answer: bool
    """Set when this replies to a summary, so that two nodes do not go on for ever."""


class Base(Frame, frozen=True, array_like=True, tag=2):
    """For each source, the last message that the sender no longer keeps."""

    upto: Clock


class RetainedLog:
    """Part of a dissemination, which attaches it below the same layer, and passes it the frames and the timer
    named here, the links that go down, and the messages that wait."""

    def __init__(
        self,
        node: NodeId,
        *,
        retain: int | None,
        patience: int,
        ordered: bool,
        newcomers_wait: bool = False,
        names_held: bool = False,
        neighbours: Collection[NodeId] = (),
    ) -> None:
        self._node = node
        self._retain = retain
        self._ordered = ordered
        self._newcomers_wait = newcomers_wait
        """Whether even a node that has delivered nothing yet lets its patience run out before it takes a base:
        needed where comparisons may overtake the first messages."""
        self._names_held = names_held
        """Whether summaries name held messages, so that these can be offered too."""
        self.stuck: Mapping[NodeId, int] = {}
        """For each source, the first of its messages that has waited here for too long: named as well."""
        self._neighbours = neighbours
        """Who is told when messages were given up; it changes as links do."""
        self.received = Received()
        """What has been received so far; it changes as more is."""
        self.offers = Offers(
            self.received, patience=patience, ordered=ordered, ask=self.compare, give_up=self.give_up
        )
        self.store: dict[tuple[NodeId, int], Message[Any]] = {}
        """The messages kept, and those that wait."""
        self._settled: deque[tuple[NodeId, int]] = deque()
        self._trimmed: dict[NodeId, int] = {}
        self._when_given_up: dict[NodeId, int] = {}
        """What was no longer kept when messages were last given up, including these."""
        self._first_heard: dict[NodeId, Mapping[NodeId, int]] = {}
        """While nothing was delivered here: the first summary on each link."""
        self._alerted: set[NodeId] = set()

    def attach(self, above: Above) -> None:
        self.above = self.offers.above = above

    # The messages.

    def check_room(self, origin: NodeId, peer: NodeId) -> None:
        """Refuse a message of one source too many: clocks could not name it."""
        if not self.received.knows(origin) and self.received.sources() >= MAX_SOURCES:
            raise RemoteFault(
                f"node {peer} sent a message of node {origin}, but {MAX_SOURCES} other sources are known here,"
                " as many as a clock can name"
            )

    def enter(self) -> None:
        """The same for this node's own first message."""
        if not self.received.knows(self._node) and self.received.sources() >= MAX_SOURCES:
            raise LocalMisuse(
                f"{MAX_SOURCES} other sources are known here, as many as a clock can name; let several sources"
                " broadcast through one node, or split the group"
            )

    def add(self, message: Message[Any]) -> bool:
        """Note and keep a message; False if it was here already."""
        origin, seq = key = message.origin, message.seq
        if not self.received.add(origin, seq):
            return False
        self.store[key] = message
        return True

    def settled(self, message: Message[Any]) -> None:
        """The layer above is done with a message: from now on it counts among the last ones, unless it was given
        up. (In order, a message that is delivered is beyond all that were given up or dropped of its source.)"""
        self.all_settled([message])

    def all_settled(self, messages: list[Message[Any]]) -> None:
        """The same for several. This runs for every delivery."""
        store, settled, trimmed, retain = self.store, self._settled, self._trimmed, self._retain
        for message in messages:
            origin, seq = key = message.origin, message.seq
            if self._ordered and origin in trimmed and seq <= trimmed[origin]:
                del store[key]
                continue
            settled.append(key)
            if retain is not None and len(settled) > retain:
                origin, seq = key = settled.popleft()
                del store[key]
                if seq > trimmed.get(origin, 0):
                    trimmed[origin] = seq

    # Comparisons.

    def compare(self, peer: NodeId, out: list[Effect], *, answer: bool = False) -> None:
        """Tell a node what is here, so that it sends what is missing here and asks for what it lacks."""
        self.offers.linked.add(peer)
        upto, beyond = self.received.upto.copy(), self.received.beyond
        if self.stuck or self._holds():
            upto, beyond = self._with_held_apart(upto)
        out.append(Send(peer, Summary(upto, some_gaps(beyond, MAX_SOURCES), answer)))

    def _with_held_apart(self, upto: dict[NodeId, int]) -> tuple[dict[NodeId, int], dict[NodeId, set[int]]]:
        """For each source, what is settled and what was received beyond: messages that wait here are named one by
        one. A neighbour that has given one of them up sees that this node has not (`offers`)."""
        beyond = self.received.beyond.copy()
        for source, seq in (first_of(self.above.pending()) if self._names_held else self.stuck).items():
            last = upto.get(source, 0)
            if seq <= last:
                upto[source] = seq - 1
                beyond[source] = beyond.get(source, set()).union(range(seq, last + 1))
        return {source: count for source, count in upto.items() if count}, beyond

    def take_summary(self, summary: Summary, sender: NodeId, out: list[Effect]) -> None:
        """Send what the other lacks, and ask for what is missing here."""
        upto, beyond = summary.upto, summary.beyond
        if self._node in upto or self._node in beyond:
            claimed = max([upto.get(self._node, 0), *beyond.get(self._node, ())])
            if self.is_false_claim(claimed, sender, out):
                upto = {source: count for source, count in upto.items() if source != self._node}
                beyond = {source: numbers for source, numbers in beyond.items() if source != self._node}
        if sender not in self._first_heard and self._is_newcomer():
            self._first_heard[sender] = upto
        if not covers(upto, self._trimmed):
            base = self._base_for(upto, beyond)
            if not covers(upto, base):
                out.append(Send(sender, Base(base)))
        out += [Send(sender, message) for message in self._missing_in(upto, beyond)]
        if not summary.answer and (self.received.lacks(upto, beyond) or self._holds_any(upto)):
            self.compare(sender, out, answer=True)

    def _holds_any(self, upto: Mapping[NodeId, int]) -> bool:
        """Whether a message that another is done with waits here."""
        return self._holds() and any(each.seq <= upto.get(each.origin, 0) for each in self.above.pending())

    def _holds(self) -> bool:
        return self._names_held and len(self.store) > len(self._settled)

    def _missing_in(
        self, upto: Mapping[NodeId, int], beyond: Mapping[NodeId, list[int]]
    ) -> Iterator[Message[Any]]:
        if not self.received.beyond and covers(upto, self.received.upto):
            return  # the usual case of a repair: nothing to send, no need to walk the store
        store, single = self.store, {origin: set(numbers) for origin, numbers in beyond.items()}
        ahead = self.received.ahead_of(upto, len(store) // 4)
        if ahead is None:
            for (origin, seq), message in store.items():
                if seq > upto.get(origin, 0) and seq not in single.get(origin, ()):
                    yield message
            return
        # Few are missing there, mostly the last ones: walk back until they are found.
        missing = {name for name in ahead if name in store and name[1] not in single.get(name[0], ())}
        found = []
        for name in reversed(store) if missing else ():
            if name in missing:
                found.append(store[name])
                if len(found) == len(missing):
                    break
        yield from reversed(found)

    def _base_for(self, upto: Mapping[NodeId, int], beyond: Mapping[NodeId, list[int]]) -> dict[NodeId, int]:
        """What is no longer kept, for a node that lacks some of it.

        If that is enough, what was no longer kept when messages were last given up here: a base that holds less
        drops less of what the other has received.
        """
        if not self._ordered:  # what came out of order leaves gaps, which others may be able to fill
            here = self.received.upto
            return {source: least for source, n in self._trimmed.items() if (least := min(n, here.get(source, 0)))}
        for source, count in self._trimmed.items():
            enough = max(upto.get(source, 0), self._when_given_up.get(source, 0))
            if enough < count and len({n for n in beyond.get(source, ()) if enough < n <= count}) < count - enough:
                return self._trimmed.copy()
        return self._when_given_up.copy()

    def is_false_claim(self, claimed: int, peer: NodeId, out: list[Effect]) -> bool:
        """Whether a peer knows of a message of this node that it never broadcast. If so, an `Alert` says so."""
        if claimed <= self.received.upto.get(self._node, 0):
            return False
        if peer not in self._alerted:
            self._alerted.add(peer)
            out.append(lost_state(peer, MessageId(self._node, claimed)))
        return True

    # Messages that nobody keeps.

    def has_asked(self, peer: NodeId) -> bool:
        """Whether a peer was sent a summary over this link, which a base may answer."""
        return peer in self.offers.linked

    def take_base(self, base: Base, sender: NodeId, now: int, out: list[Effect]) -> None:
        """A peer no longer keeps what is missing here."""
        if sender not in self.offers.linked:
            raise RemoteFault(f"node {sender} sent a base, though it was not asked what it has")
        upto: Mapping[NodeId, int] = base.upto
        if self.is_false_claim(upto.get(self._node, 0), sender, out):
            upto = {source: count for source, count in upto.items() if source != self._node}
        # What the base holds beyond the first summary was sent over the link since, and may be on its way.
        first = self._first_heard.get(sender)
        prompt = not self._newcomers_wait and self._is_newcomer() and first is not None and covers(first, upto)
        self.offers.offer(upto, sender, now, out, prompt=prompt)

    def _is_newcomer(self) -> bool:
        return self._ordered and self.above.progress().keys() <= {self._node}

    def give_up(self, base: Mapping[NodeId, int], peer: NodeId, out: list[Effect]) -> None:
        """Go on without some messages, as a peer does."""
        if len(self.received.upto.keys() | self.received.beyond.keys() | base.keys()) > MAX_SOURCES:
            return
        lost = {} if self._is_newcomer() else self._lacked(base)
        self.received.advance(base)
        for source, count in base.items():
            self._trimmed[source] = max(count, self._trimmed.get(source, 0))
        self._when_given_up = self._trimmed.copy()
        out += [Discard(MessageId(source, count), "skipped") for source, count in lost.items()]
        self.above.skipped(base, out)
        for neighbour in self._neighbours:
            if neighbour != peer:
                self.compare(neighbour, out)

    def _lacked(self, base: Mapping[NodeId, int]) -> dict[NodeId, int]:
        """For each source, the last message of a base that never came here. (What came and waits is discarded by
        the layer above, each by its name.)"""
        lacked = {}
        for source, count in base.items():
            beyond, upto = self.received.beyond.get(source, ()), self.received.upto.get(source, 0)
            while count in beyond:
                count -= 1
            if count > upto:
                lacked[source] = count
        return lacked

    def timer(self, now: int, out: list[Effect]) -> None:
        """Patience has run out."""
        self.offers.timer(now, out)

    def link_down(self, peer: NodeId) -> None:
        self.offers.link_down(peer)
        self._first_heard.pop(peer, None)
        self._alerted.discard(peer)

    def resume(self, now: int, out: list[Effect]) -> None:
        self.offers.resume(out)

    def stored(self) -> list[Message[Any]]:
        """The messages kept, in the order in which they came."""
        return list(self.store.values())

    def snapshot(self) -> State:
        return {
            "upto": dict(self.received.upto),
            "beyond": self.received.gaps(),
            "settled": [list(key) for key in self._settled],
            "trimmed": dict(self._trimmed),
            "when_given_up": dict(self._when_given_up),
            **self.offers.snapshot(),
        }

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self.received.upto = dict(state["upto"])
        self.received.beyond = {origin: set(numbers) for origin, numbers in state["beyond"].items()}
        self._settled = deque((origin, seq) for origin, seq in state["settled"])
        self._trimmed = dict(state["trimmed"])
        self._when_given_up = dict(state["when_given_up"])
        self.store.clear()
        self.store.update(((message.origin, message.seq), message) for message in messages)
        self.offers.restore(state)

    def gauges(self) -> dict[str, int]:
        return {"stored": len(self.store), "out_of_turn": self.received.out_of_turn}
