"""Dissemination over the cube: each message travels down a tree, several in a packet where that costs nothing.

Every node is the root of a tree of its own (`cube`), or all share the tree of one (`single`: a source sends its
message to the root, and the root down the tree; the paper's baseline). A node passes a message on to the first
node of each of its clusters below that in which its parent lies. With aggregation it holds back from a child
what the child could not deliver yet (`holding`), and sends it with what it waited for, in one packet.

Within a packet the message that set the others free comes last, and a receiver takes the messages in one by one,
in that order. Each of the others then waits there, too, for the one that all of them wait for, and all travel
on together. It also keeps aggregation from ever delaying a delivery: the packet leaves when its last
message would have left alone, and none of the others could have been delivered before that one. (Across a
packet that had to be split this does not hold.)

A node that is doubted but has a link still gets its copy, besides the one that takes its place: if it was only
slow, nothing is lost. Why everybody gets everything while links hold: the first node of a cluster to get a message
gets it from outside the cluster, with the duty for all of it, and passes it on to some node of each of its parts.

Packets come from peers that may be broken. A packet from a node without a link, and one with a message that
depends on itself, are refused. A message in this node's own name that it never broadcast, or one that depends on
it, is left out, and an `Alert` says so once per link: the peer is wrong or was misled, or this node has lost its
state. What waits is bounded (`backlog`), and so is the number of sources. A message that comes from another than
its tree's parent may come with less duty than the parent's copy would have brought, and that copy counts for
nothing afterwards; so where nobody repairs, a node takes at least the duty that it calculates for itself in the
tree.

What follows from Algorithm 2 but is not in it: messages go out before they are delivered (an application may
answer inside a delivery, and the answer leaves behind what it answers), copies are dropped, and `vector_max` is
the count of what was received without a gap.
"""

from typing import Any, ClassVar, Final

from antecast.core import (
    MAX_SOURCES,
    Deliver,
    Effect,
    Frame,
    LocalMisuse,
    Message,
    MessageId,
    NodeId,
    RemoteFault,
    Send,
    State,
    Timer,
)
from antecast.protocols.dissemination import Dissemination
from antecast.protocols.lost_state import lost_state
from antecast.protocols.received import Received
from antecast.protocols.vcube.backlog import FULL, WINDOW, weigh
from antecast.protocols.vcube.holding import HoldBack, Part
from antecast.protocols.vcube.packets import Packet, fill
from antecast.protocols.vcube.view import View

STRANGERS: Final = MAX_SOURCES // 2
"""With this many sources, a new one is only taken if its node is linked: half of the places in a clock are kept
for members, whatever names others invent."""


class Trees(Dissemination):
    """For members and links that stay, over links that lose nothing: N − 1 packets per message, and no others."""

    __slots__ = (
        "_abroad", "_alerted", "_backlog", "_hold", "_linked", "_node", "_received", "_room", "_single", "_spread",
        "_view", "above",
    )  # fmt: skip

    frames: ClassVar[tuple[type[Frame], ...]] = (Packet,)

    keeps: ClassVar[bool] = False
    """Without copies for others, what a tree did not bring never comes."""

    def __init__(
        self, node: NodeId, *, aggregate: bool, single: bool, room: int, received: Received | None = None
    ) -> None:
        self._node = node
        self._single = single
        self._room = room
        self._view = View(node)
        self._linked = self._view.linked
        self._received = Received() if received is None else received
        self._backlog = 0
        """The bytes of the messages that wait for others."""
        self._hold = HoldBack(self._received, self._height if single else self._view.height) if aggregate else None
        self._spread = 0
        """The number of this node's last message."""
        self._abroad: dict[int, int] = {}
        """Own messages sent to the root of the single tree, and when; they come back down the tree."""
        self._alerted: set[NodeId] = set()
        """Links over which messages came that claim what this node knows to be wrong."""

    def _height(self, source: NodeId) -> int:
        return self._view.height(self._view.root() if self._single else source)

    def enter(self) -> None:
        if len(self._received.upto) >= MAX_SOURCES:
            raise LocalMisuse(
                f"{MAX_SOURCES} other sources are known here, as many as a clock can name; let several sources"
                " broadcast through one node, or split the group"
            )

    def spread(self, message: Message[Any], now: int, out: list[Effect]) -> None:
        self._spread = message.seq
        self._note(message)
        root = self._view.root() if self._single else self._node
        if root == self._node:
            self._send_down(Packet((message,)), 0, self._view.dimension, out)
        else:
            self._abroad[message.seq] = now
            out += [Send(peer, Packet((message,))) for peer in self._view.roots()]

    def receive(self, frame: Frame, sender: NodeId, now: int, out: list[Effect]) -> None:
        if frame.__class__ is not Packet:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, which this protocol does not know")
        if sender not in self._linked:
            raise RemoteFault(f"node {sender} sent a packet without a link")
        messages = frame.messages
        for message in messages:
            if message.origin in message.stamp:
                self._refuse_self_dependence(message, sender)
        height = (self._node ^ sender).bit_length() - 1  # the sender's cluster (`cube`), less one
        if self._single and self._view.root() == self._node:
            height = self._view.dimension
        if len(messages) == 1:
            self._take(messages[0], frame, sender, height, now, out, out)
            return
        deliveries: list[Effect] = []
        for message in messages:
            self._take(message, None, sender, height, now, out, deliveries)
        out += deliveries

    def _refuse_self_dependence(self, message: Message[Any], sender: NodeId) -> None:
        if message.stamp.get(message.origin, 0) >= message.seq:
            raise RemoteFault(f"node {sender} sent message {message.id}, which waits for itself")

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
        """Take a message in, pass it on as the root of a subtree of a height, and hand it up. `packet` is one
        that holds it alone, if there is one already."""
        origin, node, stamp = message.origin, self._node, message.stamp
        if node in stamp and stamp[node] > self._spread:
            self._deny(stamp[node], sender, out)
            return
        if not self.keeps:
            apart = node ^ origin
            if node ^ sender != apart & -apart or self._single:  # perhaps not from the parent
                height = max(height, self._height(origin))
        if origin == node:
            if message.seq > self._spread:
                self._deny(message.seq, sender, out)
            elif self._abroad.pop(message.seq, None) is not None:
                self._pass_on(message, packet, height, message.seq, out)
            return
        upto, hold = self._received.upto, self._hold
        if (self._backlog > FULL or len(upto) >= STRANGERS) and self._no_place(message, now):
            return
        before = 0 if hold is None else upto.get(origin, 0)
        if self._note(message):
            if hold is not None:
                self._pass_on(message, packet, height, before, out)
            elif height:
                self._send_down(packet or Packet((message,)), 0, height, out)
            first = len(deliveries) + 1
            self.above.arrived(message, now, deliveries)
            others = len(deliveries) - first
            if others > 0:  # these had waited for this one
                waited = deliveries[first:]
                self._backlog -= sum(weigh(each.message) for each in waited if isinstance(each, Deliver))
            elif others < 0:
                self._backlog += weigh(message)

    def _deny(self, number: int, sender: NodeId, out: list[Effect]) -> None:
        """A peer has a message of this node that it never broadcast, or one that depends on it: say so, once."""
        if sender not in self._alerted:
            self._alerted.add(sender)
            out.append(lost_state(sender, MessageId(self._node, number)))

    def _no_place(self, message: Message[Any], now: int) -> bool:
        """Whether a message is turned away: there are many sources, or the backlog is full."""
        origin, received, linked = message.origin, self._received, self._linked
        is_known = origin in received.upto or origin in received.beyond or origin in linked
        if not is_known and len(received.upto) >= STRANGERS:
            return True
        if self._backlog <= FULL or not self.above.early(message, now):
            return False
        return origin not in linked or message.seq > self.above.progress().get(origin, 0) + WINDOW

    def _note(self, message: Message[Any]) -> bool:
        """Count a message as received; False if it was here already."""
        return self._received.add(message.origin, message.seq)

    def _pass_on(
        self, message: Message[Any], packet: Packet | None, height: int, before: int, out: list[Effect]
    ) -> None:
        """Send a message down as the root of a subtree of a height, with what it sets free; `before` is the count
        of its source's messages that had come without a gap before it."""
        level = 0
        if self._hold is not None:
            level = self._hold.keep(message, height) if height else 0
            released = self._hold.release(message.origin, before)
            if released:
                self._send_parts([*released, Part(message, level, height)], out)
                return
        if level < height:
            self._send_down(packet or Packet((message,)), level, height, out)

    def _send_down(self, packet: Packet, above: int, upto: int, out: list[Effect]) -> None:
        """Send a packet to children `above` + 1 to `upto`."""
        view = self._view
        if view.doubted:
            upto = min(upto, view.dimension)
            out += [Send(peer, packet) for s in range(above, upto) for peer in view.candidates(s + 1)]
            return
        for child in view.children[above:upto]:
            if child is not None:
                out.append(Send(child, packet))

    def _send_parts(self, parts: list[Part], out: list[Effect]) -> None:
        """To each child what may go to it, in the order given, in as few packets as hold it."""
        view = self._view
        for index, child in enumerate(view.children):
            batch = [part.message for part in parts if part.above <= index < part.upto]
            if batch:
                peers = view.candidates(index + 1) if view.doubted else [child]
                packets = list(fill(batch, self._room))
                out += [Send(peer, packet) for peer in peers if peer is not None for packet in packets]

    def _let_go(self, out: list[Effect]) -> None:
        """The trees have changed: hold nothing back for reasons that may be gone."""
        if self._hold:
            self._send_parts(self._hold.let_go(), out)

    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        if self._alerted:
            self._alerted.discard(peer)
        self._view.link(peer)
        if self._hold:
            self._let_go(out)

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        if peer in self._linked:
            self._view.unlink(peer)
            self._let_go(out)

    def timer(self, token: Timer, now: int, out: list[Effect]) -> None:
        pass

    def stored(self) -> list[Message[Any]]:
        return []

    def snapshot(self) -> State:
        return {"spread": self._spread, "upto": dict(self._received.upto), "beyond": self._received.gaps()}

    def restore(self, state: State, messages: list[Message[Any]]) -> None:
        self._spread = state["spread"]
        self._received.upto = dict(state["upto"])
        self._received.beyond = {origin: set(numbers) for origin, numbers in state["beyond"].items()}

    def gauges(self) -> dict[str, int]:
        return {"held": 0 if self._hold is None else len(self._hold)}
