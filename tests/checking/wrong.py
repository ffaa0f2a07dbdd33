"""A protocol that is right, and others made from it that are wrong in ways in which one can be wrong."""

import msgspec

from antecast.core import Accepted, Codec, Deliver, Discard, Frame, Message, MessageId, Protocol, Send, SetTimer


class Ping(Frame, frozen=True, array_like=True, gc=False, tag=1):
    n: int


class Flood(Protocol):
    """Vector clocks, passed on to everyone; the whole log goes to a peer whose link comes up. It is right."""

    codec = Codec([Message[dict[int, int]], Ping])

    def __init__(self, node, settings):
        self.node = node
        self.clock = {}
        self.links = []
        self.log = []
        self.pending = []
        self.known = set()

    def broadcast(self, payload, now, *, lifetime=None):
        seq = self.clock.get(self.node, 0) + 1
        message = Message(self.node, seq, payload, dict(self.clock))
        self.clock[self.node] = seq
        self.log.append(message)
        self.known.add(message.id)
        return [*(Send(peer, message) for peer in self.links), Deliver(message)]

    def receive(self, frame, sender, now):
        if frame.id in self.known:
            return []
        self.known.add(frame.id)
        self.log.append(frame)
        self.pending.append(frame)
        return [*(Send(peer, frame) for peer in self.links if peer != sender), *self.drained()]

    def drained(self):
        found = []
        while ready := next((each for each in self.pending if self.is_ready(each)), None):
            self.pending.remove(ready)
            self.clock[ready.origin] = ready.seq
            found.append(Deliver(ready))
        return found

    def is_ready(self, message):
        in_turn = self.clock.get(message.origin, 0) == message.seq - 1
        return in_turn and all(self.clock.get(source, 0) >= count for source, count in message.stamp.items())

    def link_up(self, peer, now):
        self.link_down(peer, now)
        self.links.append(peer)
        return [Send(peer, message) for message in self.log]

    def link_down(self, peer, now):
        if peer in self.links:
            self.links.remove(peer)
        return []

    def timer(self, token, now):
        return []

    def snapshot(self):
        log = [[each.origin, each.seq, each.payload, each.stamp] for each in self.log]
        return {"clock": self.clock, "log": log, "pending": [list(each.id) for each in self.pending]}

    def restore(self, state):
        self.clock = state["clock"]
        self.log = [Message(*each) for each in state["log"]]
        self.known = {each.id for each in self.log}
        waiting = {tuple(each) for each in state["pending"]}
        self.pending = [each for each in self.log if each.id in waiting]

    def gauges(self):
        return {"pending": len(self.pending)}


# What is handed to the application.


class WithoutPayload(Flood):
    """Delivers the right names with nothing in them."""

    def drained(self):
        return [Deliver(msgspec.structs.replace(each.message, payload=b"")) for each in super().drained()]


class OldPayload(Flood):
    """Delivers what a source said first, again and again."""

    def drained(self):
        first = {each.origin: each.payload for each in reversed(self.log)}
        return [
            Deliver(msgspec.structs.replace(each.message, payload=first[each.message.origin]))
            for each in super().drained()
        ]


class AcceptsAndForgets(Flood):
    """Gives a message its name, and never does anything with it."""

    def broadcast(self, payload, now, *, lifetime=None):
        self.clock[self.node] = self.clock.get(self.node, 0) + 1
        return [Accepted(MessageId(self.node, self.clock[self.node]))]


# The contract.


class ForgetsToReturn(Flood):
    def receive(self, frame, sender, now):
        super().receive(frame, sender, now)


class RaisesLate(Flood):
    """Gives its effects one by one, and raises in the middle of it."""

    def receive(self, frame, sender, now):
        yield from super().receive(frame, sender, now)
        raise RuntimeError("too late")


class NotAFrame(Flood):
    def broadcast(self, payload, now, *, lifetime=None):
        return [Send(self.links[0], payload), *super().broadcast(payload, now)]


class NotAMessage(Flood):
    def receive(self, frame, sender, now):
        return [Deliver(None), *super().receive(frame, sender, now)]


class UnknownFrame(Flood):
    """Sends what its codec has never heard of."""

    def broadcast(self, payload, now, *, lifetime=None):
        class Pong(Frame, frozen=True, array_like=True, gc=False, tag=7):
            n: int

        return [Send(self.links[0], Pong(1)), *super().broadcast(payload, now)]


class CannotSave(Flood):
    def snapshot(self):
        return {"log": [] if not self.log else [][0]}


class SavesItself(Flood):
    def snapshot(self):
        return {"self": self}


class CannotCount(Flood):
    def gauges(self):
        return {"pending": 0 // (2 - len(self.log))}


class RaisesAtTheStart(Flood):
    def link_up(self, peer, now):
        raise ValueError("no links today")


class DownTwice(Flood):
    """Is told that a link is gone which never came up (rule 6)."""

    def link_up(self, peer, now):
        if peer in self.links:
            self.links.remove(peer)
        self.links.append(peer)
        return [Send(peer, message) for message in self.log]

    def link_down(self, peer, now):
        self.links.remove(peer)
        return []


class CannotCountWhatWaits(Flood):
    """The first message of a source has no entry for it in its stamp. At rest nothing waits."""

    def gauges(self):
        counts = [each.stamp[each.origin] for each in self.pending]
        return {"pending": len(self.pending), "oldest": min(counts, default=0)}


class CountsNothing(Flood):
    def gauges(self):
        return {"pending": None}


class SavesLessWithoutLinks(Flood):
    """Node 1, while it has no links, does not save its own count: its next message has the name of an earlier."""

    def snapshot(self):
        saved = super().snapshot()
        others = {source: count for source, count in self.clock.items() if source != self.node}
        return {**saved, "clock": others} if self.node == 1 and not self.links else saved


class HoldsItsOwnBack(Flood):
    """Node 2 says that it holds something back if nobody but itself has spoken."""

    def gauges(self):
        alone = self.node == 2 and self.clock == {2: 1}
        return {"pending": len(self.pending) + alone}


class NumbersTheOtherWay(Flood):
    """Messages are numbered 2, 1, 4, 3, and others deliver them in the order of these numbers."""

    said = 0

    def broadcast(self, payload, now, *, lifetime=None):
        self.said += 1
        message = Message(self.node, self.said + (1 if self.said % 2 else -1), payload, {})
        self.log.append(message)
        self.known.add(message.id)
        return [*(Send(peer, message) for peer in self.links), Deliver(message)]

    def is_ready(self, message):
        return message.seq % 2 == 1 or self.clock.get(message.origin, 0) == message.seq - 1


class Expires(Flood):
    """It is right: what is older than a second is dropped. The time of its broadcast is part of a message."""

    grace = 0

    def broadcast(self, payload, now, *, lifetime=None):
        *sends, delivery = super().broadcast(payload, now)
        message = self.log[-1] = msgspec.structs.replace(delivery.message, stamp={99: now})
        return [*(Send(each.to, message) for each in sends), Deliver(message)]

    def receive(self, frame, sender, now):
        return [] if now > frame.stamp[99] + 10**9 + self.grace else super().receive(frame, sender, now)

    def is_ready(self, message):
        return True


class DeliversLate(Expires):
    grace = 10**9


class ForgetsThatItExpired(Expires):
    """Discards what has expired, and takes the next copy."""

    def receive(self, frame, sender, now):
        effects = super().receive(frame, sender, now)
        if not effects and frame.id not in self.known:
            self.grace = 10**12
            return [Discard(frame.id, "expired")]
        return effects


class GivesUp(Flood):
    """It is right: what waits for another message is given up after a while, and is not taken later."""

    keeps_its_word = True

    def receive(self, frame, sender, now):
        effects = super().receive(frame, sender, now)
        return [*effects, SetTimer("wait", now + 10)] if self.pending else effects

    def timer(self, token, now):
        given_up = list(self.pending)
        if self.keeps_its_word:
            self.pending.clear()
        for each in given_up:
            self.clock[each.origin] = max(self.clock.get(each.origin, 0), each.seq if self.keeps_its_word else 0)
        return [Discard(each.id, "late") for each in given_up]


class TakesItBack(GivesUp):
    """What it has discarded it delivers when the other message comes after all."""

    keeps_its_word = False


class DiscardsCopies(Flood):
    """It is right: of what it has delivered, it says that it will not deliver it again."""

    def receive(self, frame, sender, now):
        copy = frame.id in self.known and frame not in self.pending
        return [*super().receive(frame, sender, now), *([Discard(frame.id, "copy")] if copy else [])]


# Never ending.


class Talks(Flood):
    """A ping goes to and fro for ever once node 2 has heard of node 1 before it heard of node 0."""

    def receive(self, frame, sender, now):
        if isinstance(frame, Ping):
            return [Send(sender, Ping(1 - frame.n))]
        news = not self.clock and frame.origin == sender == 1 and self.node == 2
        return [*super().receive(frame, sender, now), *([Send(sender, Ping(0))] if news else [])]


class Asks(Flood):
    """It is right: node 0 asks node 1 again and again whether a message has arrived, until it has. On that link
    alone it would never end."""

    def broadcast(self, payload, now, *, lifetime=None):
        effects = super().broadcast(payload, now)
        if self.node != 0:
            return effects
        return [*(each for each in effects if getattr(each, "to", None) != 1), Send(1, Ping(2 * self.clock[0]))]

    def receive(self, frame, sender, now):
        if not isinstance(frame, Ping):
            return super().receive(frame, sender, now)
        if frame.n % 2:
            return [Send(sender, Ping(frame.n - 1))]
        return [] if self.clock.get(0, 0) >= frame.n // 2 else [Send(sender, Ping(frame.n + 1))]


class Ticks(Flood):
    """Sets a timer again and again, for nothing."""

    def link_up(self, peer, now):
        return [*super().link_up(peer, now), SetTimer(f"beat {peer}", now + 10)]

    def timer(self, token, now):
        return [SetTimer(token, now + 10)]


class Beats(Flood):
    """Tells its neighbours again and again that it lives, and counts how often it did."""

    beats = 0

    def link_up(self, peer, now):
        return [*super().link_up(peer, now), SetTimer("beat", now + 10)]

    def timer(self, token, now):
        self.beats += 1
        return [*(Send(peer, self.sign()) for peer in self.links), SetTimer("beat", now + 10)]

    def sign(self):
        return Ping(self.beats)

    def receive(self, frame, sender, now):
        return [] if isinstance(frame, Ping) else super().receive(frame, sender, now)


class BeatsAlike(Beats):
    """The same without a count."""

    def sign(self):
        return Ping(0)

    def timer(self, token, now):
        effects = super().timer(token, now)
        self.beats = 0
        return effects


class ResendsForEver(Flood):
    """Sends its last message again and again, though everyone has had it long since."""

    def broadcast(self, payload, now, *, lifetime=None):
        return [*super().broadcast(payload, now), SetTimer("again", now + 10)]

    def timer(self, token, now):
        return [*(Send(peer, self.log[-1]) for peer in self.links), SetTimer("again", now + 10)]


class ResendsBesideBeats(BeatsAlike):
    """The same, more and more rarely, beside signs of life."""

    wait = 10

    def broadcast(self, payload, now, *, lifetime=None):
        return [*super().broadcast(payload, now), SetTimer("again", now + self.wait)]

    def timer(self, token, now):
        if token == "beat":
            return super().timer(token, now)
        self.wait = min(2 * self.wait, 80)
        return [*(Send(peer, self.log[-1]) for peer in self.links), SetTimer("again", now + self.wait)]


class ResendsUntilHeard(Flood):
    """It is right: a message is sent again until all neighbours have acknowledged it."""

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.unheard = {}

    def broadcast(self, payload, now, *, lifetime=None):
        effects = super().broadcast(payload, now)
        self.unheard[self.clock[self.node]] = dict.fromkeys(self.links)
        return [*effects, SetTimer("again", now + 10)]

    def receive(self, frame, sender, now):
        if isinstance(frame, Ping):
            self.unheard.get(frame.n, {}).pop(sender, None)
            return []
        said = [Send(sender, Ping(frame.seq))] if frame.origin == sender else []
        return [*said, *super().receive(frame, sender, now)]

    def timer(self, token, now):
        unheard = [(peer, seq) for seq, peers in self.unheard.items() for peer in peers if peer in self.links]
        sends = [Send(peer, each) for peer, seq in unheard for each in self.log if each.id == (self.node, seq)]
        return [*sends, SetTimer("again", now + 10)] if sends else []


class DropsAcknowledgements(ResendsUntilHeard):
    """The second message is not acknowledged, and sent for ever."""

    def receive(self, frame, sender, now):
        effects = super().receive(frame, sender, now)
        return [
            each for each in effects if len(self.log) == 1 or not isinstance(getattr(each, "frame", None), Ping)
        ]


class StartsAStorm(BeatsAlike):
    """A sign of life is answered, and so is the answer."""

    def receive(self, frame, sender, now):
        return [Send(sender, frame)] if isinstance(frame, Ping) else super().receive(frame, sender, now)


class ResendsOnce(Flood):
    """Sends a message again when a timer fires, once."""

    def broadcast(self, payload, now, *, lifetime=None):
        return [*super().broadcast(payload, now), SetTimer("again", now + 10)]

    def timer(self, token, now):
        return [Send(peer, message) for message in self.log for peer in self.links]


class TakesTurns(Flood):
    """A message waits for a timer that sets another, which sets the first."""

    def receive(self, frame, sender, now):
        if frame.id not in self.known:
            self.known.add(frame.id)
            self.pending.append(frame)
        return [SetTimer("this", now + 5)]

    def timer(self, token, now):
        return [SetTimer("that" if token == "this" else "this", now + 7)]


class LooksForItsTime(Flood):
    """It is right: what it hears it delivers later, and looks now and then whether that time has come."""

    def receive(self, frame, sender, now):
        if frame.id in self.known:
            return []
        self.until = now + 1000
        self.known.add(frame.id)
        self.log.append(frame)
        self.pending.append(frame)
        return [*(Send(peer, frame) for peer in self.links if peer != sender), SetTimer("look", now + 10)]

    def timer(self, token, now):
        return self.drained() if now >= self.until else [SetTimer("look", now + 10)]


class SecondFirst(Flood):
    """A message is sent when a timer fires, and a ping behind it. Whoever gets the ping first, and then the
    message by a detour, takes it for a stray: a rare order, and nothing is under way until the timer fires."""

    def __init__(self, node, settings):
        super().__init__(node, settings)
        self.confused = False

    def broadcast(self, payload, now, *, lifetime=None):
        return [SetTimer("send", now + 10), super().broadcast(payload, now)[-1]]

    def timer(self, token, now):
        last = self.log[-1]
        return [Send(peer, frame) for peer in self.links for frame in (last, Ping(last.seq))]

    def receive(self, frame, sender, now):
        if isinstance(frame, Ping):
            self.confused |= MessageId(sender, frame.n) not in self.known
            return []
        if self.confused and sender != frame.origin:
            self.known.add(frame.id)
        return super().receive(frame, sender, now)
