"""A protocol as small as one can be, and copies of it with one fault each. Each must be caught.

`Gossip` floods, keeps everything, and tells a new neighbour all of it: reliable, in no order.
"""

from dataclasses import replace

from antecast.core import Accepted, Codec, Deliver, Frame, Message, Protocol, RemoteFault, Send, SetTimer
from antecast.core.settings import Settings
from antecast.protocols import Guarantee, Need, Specification

SECOND = 10**9


class Poke(Frame, frozen=True, array_like=True, tag=1):
    """Does nothing."""

    node: int
    list: list[int]


class Gossip(Protocol):
    codec = Codec([Message[None], Poke])

    def __init__(self, node, settings):
        self.node = node
        self.seq = 0
        self.messages = {}
        self.links = set()

    def broadcast(self, payload, now, *, lifetime=None):
        self.seq += 1
        message = Message(self.node, self.seq, payload, None)
        return self.take(message, None)

    def take(self, message, sender):
        self.messages[message.id] = message
        return [*(Send(peer, message) for peer in sorted(self.links) if peer != sender), Deliver(message)]

    def receive(self, frame, sender, now):
        if sender not in self.links:
            raise RemoteFault(f"no link to {sender}")
        if isinstance(frame, Poke):
            return []
        if frame.origin >= 100 or frame.seq > 500:
            raise RemoteFault("nobody has sent this")
        if frame.id in self.messages or frame.origin == self.node:
            return []
        return self.take(frame, sender)

    def link_up(self, peer, now):
        self.links.add(peer)
        return [Send(peer, message) for message in self.messages.values()]

    def link_down(self, peer, now):
        self.links.discard(peer)
        return []

    def timer(self, token, now):
        return []

    def snapshot(self):
        return {"seq": self.seq, "messages": [self.codec.encode(each) for each in self.messages.values()]}

    def restore(self, state):
        self.seq = state["seq"]
        self.messages = {each.id: each for each in map(self.codec.decode, state["messages"])}

    def gauges(self):
        return {}


SPEC = Specification(
    name="gossip",
    title="for tests",
    reference="",
    guarantees=frozenset({Guarantee.INTEGRITY, Guarantee.AGREEMENT}),
    needs=lambda settings: frozenset({Need.RELIABLE_LINKS}),
    control="",
    memory="",
    delivery="",
    settings=Settings,
    make=Gossip,
)


def spec_of(make, **changes):
    return replace(SPEC, name=f"toy-{make.__name__.lower()}", make=make, **changes)


# Faults that plans find.


class Slow(Gossip):
    """Correct: delivers what others broadcast a second later."""

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.waiting = []

    def take(self, message, sender):
        effects = super().take(message, sender)
        if sender is None:
            return effects
        self.waiting.append(message)
        return [*effects[:-1], SetTimer("later", self.now + SECOND)]

    def receive(self, frame, sender, now):
        self.now = now
        return super().receive(frame, sender, now)

    def timer(self, token, now):
        waiting, self.waiting = self.waiting, []
        return [Deliver(message) for message in waiting]

    def snapshot(self):
        return super().snapshot() | {"waiting": [self.codec.encode(each) for each in self.waiting]}

    def restore(self, state):
        super().restore(state)
        self.waiting = [self.codec.decode(each) for each in state["waiting"]]

    def resume(self, now):
        return [SetTimer("later", now)] if self.waiting else []


class LosesTimers(Slow):
    """What waits when a node crashes waits for ever."""

    def resume(self, now):
        return []


class Punctual(Slow):
    """Forgets what waits when its timer fires a second late."""

    most = SECOND

    def timer(self, token, now):
        late = now - self.now > SECOND + self.most
        return super().timer(token, now)[: 0 if late else None]

    def resume(self, now):
        self.now = now
        return super().resume(now)


class Leapless(Punctual):
    """The same after a minute: no timer is that late unless a clock leaps."""

    most = 60 * SECOND


class Forgets(Gossip):
    """Delivers everything again after a crash."""

    def snapshot(self):
        return {"seq": self.seq, "messages": []}


class Reuses(Gossip):
    """Uses a number twice after a crash."""

    def restore(self, state):
        super().restore(state)
        self.seq = max(0, self.seq - 1)


class KeepsOldLink(Gossip):
    """Does not notice that a link is a new one."""

    def link_up(self, peer, now):
        return [] if peer in self.links else super().link_up(peer, now)


class SendsIntoNowhere(Gossip):
    """Remembers peers whose links are gone."""

    def link_down(self, peer, now):
        return []


class TrustsStrangers(Gossip):
    """Takes frames without a link."""

    def receive(self, frame, sender, now):
        self.links.add(sender)
        return super().receive(frame, sender, now)


class NamesTwice(Gossip):
    """Says twice that a broadcast was taken."""

    def broadcast(self, payload, now, *, lifetime=None):
        effects = super().broadcast(payload, now)
        return [*effects, Accepted(effects[-1].message.id)]


class Rolls(Gossip):
    """Another object, another order."""

    calls = 0

    def link_up(self, peer, now):
        Rolls.calls += 1
        effects = super().link_up(peer, now)
        return effects[:: 1 if Rolls.calls % 2 else -1]


class Minds(Gossip):
    """A link that goes down without having been up is noted."""

    def link_down(self, peer, now):
        self.seq += peer not in self.links
        return super().link_down(peer, now)


class Halves(Gossip):
    """Keeps the last two messages for others, and promises more."""

    def link_up(self, peer, now):
        return super().link_up(peer, now)[-2:]


# Faults that hostile frames find.


class Crashes(Gossip):
    def receive(self, frame, sender, now):
        if isinstance(frame, Poke) and frame.list:
            frame.list[frame.node]
        return super().receive(frame, sender, now)


class Hangs(Gossip):
    def receive(self, frame, sender, now):
        while isinstance(frame, Poke) and frame.node == self.node:
            pass
        return super().receive(frame, sender, now)


class ChangesFirst(Gossip):
    """Counts what it refuses as broadcast."""

    def receive(self, frame, sender, now):
        if isinstance(frame, Poke) and frame.node < 0:
            self.seq += 1
            raise RemoteFault("no such node")
        return super().receive(frame, sender, now)


class ChangesApart(Gossip):
    """Remembers what it refuses, where no snapshot shows it."""

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.refused = []

    def receive(self, frame, sender, now):
        if isinstance(frame, Poke) and frame.node < 0:
            self.refused.append(sender)
            raise RemoteFault("no such node")
        return super().receive(frame, sender, now)


class Believes(Gossip):
    """Takes nothing from a node that another says has gone."""

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.gone = set()

    def receive(self, frame, sender, now):
        effects = super().receive(frame, sender, now)
        if isinstance(frame, Poke):
            self.gone.add(frame.node)
        return [] if getattr(frame, "origin", None) in self.gone else effects


class Short(Gossip):
    """Correct while links stay: keeps the last twenty messages."""

    def take(self, message, sender):
        effects = super().take(message, sender)
        for old in list(self.messages)[:-20]:
            del self.messages[old]
        return effects


class Hoards(Short):
    """Notes every poke."""

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.pokes = []

    def receive(self, frame, sender, now):
        if isinstance(frame, Poke):
            self.pokes.append(frame)
        return super().receive(frame, sender, now)


# A fault that only crowds find.

ENTRIES = 8


class Plausible(Gossip):
    """Causal order by clocks of eight entries, each shared by nodes whose numbers are equal modulo eight. Exact
    among eight sources, and only plausible among more."""

    codec = Codec([Message[tuple[int, ...]], Poke])

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.clock = [0] * ENTRIES
        self.counts = {}
        self.pending = []

    def broadcast(self, payload, now, *, lifetime=None):
        self.seq += 1
        message = Message(self.node, self.seq, payload, tuple(self.clock))
        effects = self.take(message, None)
        self.note(message)
        return effects

    def note(self, message):
        self.clock[message.origin % ENTRIES] += 1
        self.counts[message.origin] = message.seq

    def receive(self, frame, sender, now):
        if isinstance(frame, Poke) or frame.id in self.messages:
            return []
        effects = self.take(frame, sender)[:-1]
        self.pending.append(frame)
        while ready := next(filter(self.is_ready, self.pending), None):
            self.pending.remove(ready)
            self.note(ready)
            effects.append(Deliver(ready))
        return effects

    def is_ready(self, message):
        in_order = message.seq == self.counts.get(message.origin, 0) + 1
        return in_order and all(own >= count for own, count in zip(self.clock, message.stamp, strict=True))


PLAUSIBLE = spec_of(
    Plausible,
    guarantees=frozenset(Guarantee) - {Guarantee.DEADLINE},
    needs=lambda settings: frozenset({Need.RELIABLE_LINKS, Need.STATIC_MEMBERS}),
)
