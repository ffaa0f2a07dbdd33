"""Trees that outlive their nodes: diagnosis finds who works, comparison finds what is missing.

Trees are built from the nodes that diagnosis takes to be correct, so new messages go around those that are
not. What was on its way through a node when it crashed, what was sent to it before others knew, what a
partition or a lossy link swallowed: all of that is found in one way. Each answer to a test holds a digest of
the messages its sender has received. Where digests differ, the two compare what they have, message by message
and in both directions (the summaries of `retained`), and send what the other lacks.

Why everybody gets everything: the tests connect all correct nodes. Within a cube of dimension s, let each half be
connected; a node of one half tests the first correct node of the other, if there is any, and so joins them. Along
each such pair the sets of received messages become equal, and so they do everywhere.

This depends on no packet in particular, and asks nothing of the node that crashed. A node asks one other per round
for what it lacks: a node that was away for long gets what it missed once, not once from each neighbour.

Nodes are asked in *turns*, so that a peer whose digest never agrees, because it is broken or lies, does not keep
the others from being asked. Each of the t nodes under test has a turn every t rounds; all others that offer
something, which may be many, share one every 2t rounds. So of 2t rounds in which one node under test has something
to offer, the others take at most 2 (t − 1) + 1, and one is left for it. (Where nobody whose turn it is has
anything to offer, the one passed over is asked at the end of the round.)
"""

from hashlib import blake2b
from typing import Any, ClassVar

import msgspec

from antecast.core import MAX_SOURCES, Effect, Frame, Message, NodeId, RemoteFault, Send, State, Timer
from antecast.protocols.dissemination import Above
from antecast.protocols.received import first_of
from antecast.protocols.retained import Base, RetainedLog, Summary
from antecast.protocols.vcube.backlog import weigh
from antecast.protocols.vcube.cuts import Cuts
from antecast.protocols.vcube.diagnosis import OVERDUE, ROUND, Diagnosis, Reply, Test
from antecast.protocols.vcube.packets import Packet
from antecast.protocols.vcube.trees import Trees


class ReliableTrees(Trees):
    """For nodes that crash, recover, join and leave, partitions that heal, and links that lose."""

    keeps = True

    frames: ClassVar[tuple[type[Frame], ...]] = (Packet, Summary, Base, Test, Reply)

    def __init__(
        self,
        node: NodeId,
        *,
        aggregate: bool,
        single: bool,
        room: int,
        interval: int,
        timeout: int,
        retain: int,
        patience: int,
    ) -> None:
        self._log = RetainedLog(node, retain=retain, patience=patience, ordered=True, newcomers_wait=True)
        """A reply to a test may overtake a packet, so nobody takes a base at once: what it covers may be on its
        way."""
        super().__init__(node, aggregate=aggregate, single=single, room=room, received=self._log.received)
        self._diagnosis = Diagnosis(self._view, interval=interval, timeout=timeout)
        self._cuts = Cuts(self._received, self._linked, patience=patience)
        self._digest: int | None = None
        """The digest of what has been received; None when more has come since."""
        self._asked_in_round = -1
        """The last round in which another node was asked for what is missing here."""
        self._turns: dict[NodeId | None, int] = {}
        """When nodes under test were asked last, by round, and under None when any other was."""
        self._passed_over: NodeId | None = None
        """A node that had something to offer in this round, when it was not its turn."""
        self._patience = patience
        self._waiting: set[tuple[NodeId, int]] = set()
        """What waited for other messages when it was last looked at, a patience ago or less."""
        self._looks_at: int | None = None
        """When to look again; None while nothing waits."""
        self._overtaken: dict[tuple[NodeId, int], int] = {}
        """Messages that came by comparison, and when. The packet that is still on its way brings the duty to pass
        them on."""

    def attach(self, above: Above) -> None:
        super().attach(above)
        self._log.attach(above)

    def receive(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None:
        changed = False
        if isinstance(frame, Packet):
            super().receive(frame, sender, now, out)
        elif sender not in self._linked:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__} without a link")
        elif isinstance(frame, Test):
            out.append(Send(sender, Reply(self._digest_of_received(), self._diagnosis.news())))
        elif isinstance(frame, Reply):
            changed = self._diagnosis.answered(sender, frame.news)
            if frame.digest != self._digest_of_received() and self._may_ask(sender):
                self._log.compare(sender, out)
        elif isinstance(frame, Message):
            self._take_late(frame, sender, now, out)
        elif isinstance(frame, Summary):
            self._compare(frame, sender, out)
        elif isinstance(frame, Base):
            self._take_base(frame, sender, now, out)
        else:
            super().receive(frame, sender, now, out)
        if self._diagnosis.heard(sender) or changed:
            self._rearrange(now, out)

    def _take_late(self, message: Message[Any], sender: NodeId, now: int, out: list[Effect]) -> None:
        """A message that another sent because it was missing here."""
        self._refuse_self_dependence(message, sender)
        name = message.origin, message.seq
        if name not in self._received:
            self._take(message, None, sender, 0, now, out, out)
            if name in self._received:
                self._overtaken[name] = now
                if len(self._overtaken) > MAX_SOURCES:
                    del self._overtaken[next(iter(self._overtaken))]

    def _take(
        self,
        message: Message[Any],
        packet: Packet | None,
        sender: NodeId,
        height: int,
        now: int,
        out: list[Effect],
        deliveries: list[Effect],
    ) -> None:
        if height and self._overtaken and self._overtaken.pop((message.origin, message.seq), None) is not None:
            self._pass_on(message, packet, height, self._received.upto.get(message.origin, 0), out)
        else:
            super()._take(message, packet, sender, height, now, out, deliveries)

    def _may_ask(self, peer: NodeId) -> bool:
        """Whether to ask a peer for what is missing here: nobody was asked in this round, and it is its turn."""
        rounds, tested = self._diagnosis.rounds, self._diagnosis.tested
        if self._asked_in_round == rounds:
            return False
        whose = peer if peer in tested else None
        pause = len(tested) if whose is not None else 2 * len(tested)
        last = self._turns.get(whose)
        if last is not None and rounds - last < pause:
            self._passed_over = peer
            return False
        self._asked_in_round = self._turns[whose] = rounds
        return True

    def _ask_whom_we_passed_over(self, out: list[Effect]) -> None:
        """At the end of a round in which nobody was asked: ask one that had something, though not its turn."""
        peer, self._passed_over = self._passed_over, None
        if peer in self._linked and self._asked_in_round != self._diagnosis.rounds:
            self._log.compare(peer, out)

    def _compare(self, summary: Summary, sender: NodeId, out: list[Effect]) -> None:
        """Send what the other lacks, and ask for what is missing here if it is its turn."""
        self._cuts.heard(sender, summary.upto)
        is_question = not summary.answer
        if is_question and self._received.lacks(summary.upto, summary.beyond) and not self._may_ask(sender):
            summary = msgspec.structs.replace(summary, answer=True)
        self._log.take_summary(summary, sender, out)

    def _take_base(self, base: Base, sender: NodeId, now: int, out: list[Effect]) -> None:
        """A peer no longer keeps what is missing here."""
        if not self._log.has_asked(sender):
            raise RemoteFault(f"node {sender} sent a base, though it was not asked what it has")
        cut = base.upto
        if self._log.is_false_claim(cut.get(self._node, 0), sender, out):
            cut = {source: count for source, count in cut.items() if source != self._node}
        self._cuts.heard(sender, cut)
        self._cuts.offer(sender, cut, now)

    def _take_cuts(self, now: int, out: list[Effect]) -> None:
        """Go on without what nobody keeps, and ask sources whether they have broadcast as much as is claimed."""
        taken, unknown = self._cuts.due(now)
        for peer, cut in taken:
            self._log.give_up(cut, peer, out)
            self._after_skipping(out)
        for source in unknown:
            self._log.compare(source, out)

    def _after_skipping(self, out: list[Effect]) -> None:
        self._find_stuck()
        self._digest = None
        self._weigh_backlog()
        self._let_go(out)

    def _look_for_stuck(self, now: int) -> None:
        """Once per patience: what waited at the last look and still does is stuck."""
        if self._looks_at is None:
            self._looks_at = now
        if self._looks_at <= now:
            self._find_stuck()
            self._waiting = {(each.origin, each.seq) for each in self.above.pending()}
            self._looks_at = now + self._patience if self._waiting else None

    def _find_stuck(self) -> None:
        stuck = first_of(each for each in self.above.pending() if (each.origin, each.seq) in self._waiting)
        if stuck != self._log.stuck:
            self._log.stuck = self._cuts.stuck = stuck
            self._digest = None

    def _weigh_backlog(self) -> None:
        delivered = self.above.progress()
        waiting = (each for each in self._log.stored() if each.seq > delivered.get(each.origin, 0))
        self._backlog = sum(map(weigh, waiting))

    def _rearrange(self, now: int, out: list[Effect]) -> None:
        """The view has changed: let go of what was held for the old trees, and test the new neighbours."""
        self._let_go(out)
        self._diagnosis.hasten(now, out)

    def _note(self, message: Message[Any]) -> bool:
        if not self._log.add(message):
            return False
        self._digest = None
        return True

    def _deny(self, number: int, sender: NodeId, out: list[Effect]) -> None:
        self._log.is_false_claim(number, sender, out)

    def _digest_of_received(self) -> int:
        """A digest of the messages received, and of those that are stuck: equal for equal sets, and different for
        others except once in 2⁶³."""
        if self._digest is None:
            here = [sorted(self._received.upto.items()), sorted(self._received.gaps().items())]
            if self._log.stuck:
                here.append(sorted(self._log.stuck.items()))
            digest = blake2b(msgspec.msgpack.encode(here), digest_size=8).digest()
            self._digest = int.from_bytes(digest, "big") >> 1
        return self._digest

    def settled(self, message: Message[Any]) -> None:
        self._log.settled(message)

    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        if peer in self._linked:
            self.link_down(peer, now, out)
        self._diagnosis.link_up(peer, now, out)
        self._let_go(out)

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        if peer in self._linked:
            self._turns.pop(peer, None)
            self._log.link_down(peer)
            self._cuts.link_down(peer)
            self._diagnosis.link_down(peer, now, out)
            self._let_go(out)

    def timer(self, token: Timer, now: int, out: list[Effect]) -> None:
        if token == ROUND:
            self._ask_whom_we_passed_over(out)
            if self._backlog or self._looks_at is not None:
                self._look_for_stuck(now)
            if self._cuts:
                self._take_cuts(now, out)
            self._forget(now - self._patience)
            self._diagnosis.round(now, out)
        elif token == OVERDUE and self._diagnosis.look(now, out):
            self._rearrange(now, out)

    def _forget(self, before: int) -> None:
        """Packets that should have come before this time are not waited for."""
        while self._overtaken and self._overtaken[message := next(iter(self._overtaken))] < before:
            del self._overtaken[message]
        while self._abroad and self._abroad[number := next(iter(self._abroad))] < before:
            del self._abroad[number]

    def stored(self) -> list[Message[Any]]:
        return self._log.stored()

    def snapshot(self) -> State:
        return {"spread": self._spread, "kept": self._log.snapshot()}

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self._spread = state["spread"]
        self._digest = None
        self._log.restore(state["kept"], messages)
        self._weigh_backlog()

    def gauges(self) -> dict[str, int]:
        return super().gauges() | self._log.gauges() | {"doubted": len(self._view.doubted)}
