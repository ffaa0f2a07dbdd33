"""Protocols small enough to be worked out by hand, and random ones."""

from dataclasses import replace

from antecast.core import Codec, Deliver, Frame, Message, Protocol, Send, SetTimer
from antecast.core.settings import Settings
from antecast.protocols import Guarantee, Need, Specification


class Direct(Protocol):
    """Sends to every neighbour, passes nothing on, delivers whatever comes: reliable over links that stay."""

    codec = Codec([Message[None]])

    def __init__(self, node, settings):
        self.node = node
        self.seq = 0
        self.links = []
        self.got = []

    def broadcast(self, payload, now, *, lifetime=None):
        self.seq += 1
        message = Message(self.node, self.seq, payload, None)
        self.got.append(message.id)
        return [*(Send(peer, message) for peer in self.links), Deliver(message)]

    def receive(self, frame, sender, now):
        if frame.id in self.got:
            return []
        self.got.append(frame.id)
        return [Deliver(frame)]

    def link_up(self, peer, now):
        if peer not in self.links:
            self.links.append(peer)
        return []

    def link_down(self, peer, now):
        if peer in self.links:
            self.links.remove(peer)
        return []

    def timer(self, token, now):
        return []

    def snapshot(self):
        return {"seq": self.seq, "got": [list(name) for name in self.got]}

    def restore(self, state):
        self.seq = state["seq"]
        self.got = [tuple(name) for name in state["got"]]

    def gauges(self):
        return {}


SPEC = Specification(
    name="direct",
    title="for tests",
    reference="",
    guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT}),
    needs=lambda settings: frozenset({Need.RELIABLE_LINKS}),
    control="",
    memory="",
    delivery="",
    settings=Settings,
    make=Direct,
)


def spec_of(make, **changes):
    return replace(SPEC, name=make.__name__.lower(), make=make, **changes)


class Repeats(Direct):
    """Delivers copies."""

    def receive(self, frame, sender, now):
        super().receive(frame, sender, now)
        return [Deliver(frame)]

    def broadcast(self, payload, now, *, lifetime=None):
        effects = super().broadcast(payload, now)
        return [*effects[:-1], *effects]


class Raises(Direct):
    """Has not thought of a second message."""

    def receive(self, frame, sender, now):
        return [Deliver(frame)] if frame.seq == 1 else [][0]


class Stray(Direct):
    """Does not notice that a link is gone."""

    def link_down(self, peer, now):
        return []


class Idles(Direct):
    """Waits for ever, and sets a timer to do so."""

    def receive(self, frame, sender, now):
        self.waiting = frame
        return [SetTimer("wait", now + 10)]

    def timer(self, token, now):
        return [SetTimer("wait", now + 10)]


class Whim(Protocol):
    """Does what a table says: any small automaton, sensible or not.

    An entry of the table is, for a state and the kind of a frame: the next state, whether the message is
    delivered, whether only once, to whom it is passed on (nobody, the sender, everyone), and as what kind.
    """

    codec = Codec([Message[tuple[int, int]]])
    table = {}
    numbered = False
    greets = False
    """Whether it sends the last message that it had over a link that comes up."""
    waits = None
    """The state in which it sets a timer; when that fires, it sends the last message to everyone, from state 0."""

    def __init__(self, node, settings):
        self.node = node
        self.seq = 0
        self.state = 0
        self.links = {}
        self.had = set()
        self.last = None

    def broadcast(self, payload, now, *, lifetime=None):
        self.seq += 1
        message = Message(self.node, self.seq, payload, (self.state % 2, 2))
        self.last = message if self.greets or self.waits is not None else None
        self.had.add(message.id)
        return [*(Send(peer, message) for peer in self.links), Deliver(message)]

    def receive(self, frame, sender, now):
        kind, hops = frame.stamp
        row = self.state + (self.node % 2 if self.numbered else 0)
        self.state, delivers, once, onward, next_kind = self.table[row % 3, kind]
        out = []
        if hops:
            copy = Message(frame.origin, frame.seq, frame.payload, (next_kind, hops - 1))
            if onward == 1:
                out.append(Send(sender, copy))
            elif onward == 2:
                out += [Send(peer, copy) for peer in self.links if peer != sender]
        if delivers and not (once and frame.id in self.had):
            self.had.add(frame.id)
            self.last = frame if self.greets or self.waits is not None else None
            out.append(Deliver(frame))
        return [*out, SetTimer("again", now + 10)] if self.state == self.waits else out

    def again(self):
        return Message(self.last.origin, self.last.seq, self.last.payload, (1, 0))

    def link_up(self, peer, now):
        self.links[peer] = None
        return [Send(peer, self.again())] if self.greets and self.last else []

    def link_down(self, peer, now):
        self.links.pop(peer, None)
        return []

    def timer(self, token, now):
        self.state = 0
        return [Send(peer, self.again()) for peer in self.links if self.last]

    def snapshot(self):
        last = self.last and [self.last.origin, self.last.seq, self.last.payload]
        return {"seq": self.seq, "state": self.state, "had": sorted(self.had), "last": last}

    def restore(self, state):
        self.seq, self.state = state["seq"], state["state"]
        self.had = {tuple(name) for name in state["had"]}
        self.last = state["last"] and Message(*state["last"], (1, 0))

    def gauges(self):
        return {}


class Note(Frame, frozen=True, array_like=True, tag=1):
    """Something to be remembered."""


class Notes(Whim):
    """A whim that also sends notes, which their receiver counts, and in which it is or is not interested."""

    codec = Codec([Message[tuple[int, int]], Note])
    thanks = False
    """Whether a note is sent for each message, too, not only over a link that comes up."""
    most = 1
    """Up to how many are counted."""
    kept = False
    """Whether they are remembered when the link is gone."""
    saved = False
    """Whether they outlast a crash."""
    dated = False
    """Whether it is remembered when they came."""
    matters = ""
    """What they make a difference to, if anything: whom a broadcast is sent to, whether a message is delivered
    again, what is sent over a link that comes up or goes down, or what is done with the next note."""

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.noted = {}

    def count(self, peer):
        return self.noted.get(peer, (0, 0))[0]

    def broadcast(self, payload, now, *, lifetime=None):
        effects = super().broadcast(payload, now)
        if self.matters != "broadcast":
            return effects
        return [each for each in effects if not isinstance(each, Send) or self.count(each.to)]

    def receive(self, frame, sender, now):
        if isinstance(frame, Note):
            again = self.matters == "next" and self.count(sender) == 1 and self.last
            self.noted[sender] = (min(self.most, self.count(sender) + 1), now if self.dated else 0)
            return [Send(sender, self.again())] if again else []
        effects = super().receive(frame, sender, now)
        if self.matters == "deliver" and any(map(self.count, self.links)):
            effects.append(Deliver(frame))
        return [*effects, Send(sender, Note())] if self.thanks else effects

    def link_up(self, peer, now):
        effects = [] if self.matters == "up" and self.count(peer) else super().link_up(peer, now)
        self.links[peer] = None
        return [*effects, Send(peer, Note())]

    def link_down(self, peer, now):
        linked = peer in self.links
        super().link_down(peer, now)
        told = linked and self.matters == "down" and self.count(peer) and self.last
        if linked and not self.kept:
            self.noted.pop(peer, None)
        return [Send(other, self.again()) for other in self.links] if told else []

    def snapshot(self):
        return super().snapshot() | ({"noted": sorted(self.noted.items())} if self.saved else {})

    def restore(self, state):
        super().restore(state)
        self.noted = {peer: tuple(each) for peer, each in state.get("noted", [])}
