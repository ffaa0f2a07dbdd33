"""PC-broadcast with one rule taken away, or put as one would at first. Each must be caught."""

from antecast.core import Deliver
from antecast.protocols.preventive.frames import Notice, Ping
from antecast.protocols.preventive.pc import PreventiveBroadcast


class AnyPong(PreventiveBroadcast):
    """A pong counts for the link as it is now, whichever ping it answers (line 15 of Algorithm 2)."""

    def _pong_arrived(self, number, link, now, out):
        if link.pings and number not in link.pings:
            number = max(link.pings)
        super()._pong_arrived(number, link, now, out)


class OnlyLinkIsSafe(PreventiveBroadcast):
    """A process's only link is used at once (line 7 of Algorithm 2)."""

    def link_up(self, peer, now):
        effects = super().link_up(peer, now)
        if len(self._links) == 1:
            self._safe[peer] = None
        return effects


class DeliveredNothingIsEmpty(PreventiveBroadcast):
    """A past that was taken as given does not count as one."""

    def link_up(self, peer, now):
        effects = super().link_up(peer, now)
        if not self._log and not self._past.first:
            self._safe[peer] = None
        return effects


class LinksAreReused(PreventiveBroadcast):
    """A connection that breaks and comes back goes on as it was."""

    def __init__(self, *args):
        super().__init__(*args)
        self._once_safe = set()

    def link_down(self, peer, now):
        if peer in self._safe:
            self._once_safe.add(peer)
        return super().link_down(peer, now)

    def link_up(self, peer, now):
        effects = super().link_up(peer, now)
        if peer in self._once_safe:
            self._safe[peer] = None
        return effects


class OldLinkStays(PreventiveBroadcast):
    """A link that comes up while the one before it has not gone down is the same link."""

    def link_up(self, peer, now):
        return [] if peer in self._links else super().link_up(peer, now)


class SafeAfterCrash(PreventiveBroadcast):
    """A process that comes back from a crash uses its links at once."""

    back = False

    def restore(self, state):
        super().restore(state)
        self.back = True

    def link_up(self, peer, now):
        effects = super().link_up(peer, now)
        if self.back:
            self._safe[peer] = None
        return effects


class DeliverFirst(PreventiveBroadcast):
    """A message is handed to the application before it is passed on."""

    def receive(self, frame, sender, now):
        effects = super().receive(frame, sender, now)
        return sorted(effects, key=lambda effect: not isinstance(effect, Deliver))


class BuffersAreSets(PreventiveBroadcast):
    """What a new link is sent first comes in the order of names."""

    def _use(self, link, first, out):
        super()._use(link, sorted(first, key=lambda entry: (entry.origin, entry.seq)), out)


class StartNeedNotBeHeld(PreventiveBroadcast):
    """A pong counts although part of what was delivered since its ping is no longer kept."""

    def _pong_arrived(self, number, link, now, out):
        if number in link.pings:
            link.pings[number] = max(link.pings[number], self._past.first)
        super()._pong_arrived(number, link, now, out)


class PingsAnyWay(PreventiveBroadcast):
    """Pings are passed on over links that are not safe yet."""

    def receive(self, frame, sender, now):
        safe = self._links.safe
        if isinstance(frame, Ping):
            self._links.safe = dict.fromkeys(self._links)
        effects = super().receive(frame, sender, now)
        self._links.safe = safe
        return effects


class NeverRefuses(PreventiveBroadcast):
    """A sync sends what is kept, whatever the other lacks."""

    def __init__(self, *args):
        super().__init__(*args)
        self._past.lacking = lambda *args: {}


class ListsAreIgnored(PreventiveBroadcast):
    """A sync looks at counters alone, not at sources that the other knows and that have gone here."""

    def __init__(self, *args):
        super().__init__(*args)
        self._past.gone_before = lambda *args: []


class BaseKeepsLinks(PreventiveBroadcast):
    """Whoever takes a base goes on using its links, and counts on its pings."""

    def _renew_all_but(self, giver, now, out):
        pass


class NoPatience(PreventiveBroadcast):
    """A process that is refused waits for another to have what it lacks, for ever."""

    def __init__(self, *args):
        super().__init__(*args)
        self._catching_up.lose_patience = lambda *args: None


class NoTimeOut(PreventiveBroadcast):
    """A ping that got lost is waited for, for ever."""

    def _attempt(self, link, now, out):
        if not link.attempts:
            super()._attempt(link, now, out)


class UnknownIsNew(PreventiveBroadcast):
    """A source can be forgotten, and a message of an unknown source starts a new one."""

    def receive(self, frame, sender, now):
        if not isinstance(frame, Notice) and hasattr(frame, "seq") and self._past.count(frame.origin) is None:
            self._vector[frame.origin] = frame.seq - 1
        return super().receive(frame, sender, now)


class NoBirths(PreventiveBroadcast):
    """A source that is not known was never heard of."""

    def __init__(self, *args):
        super().__init__(*args)
        self._past.came = lambda *args: False
        self._past._went_there = lambda *args, **kwargs: False


class GivenAsAsked(PreventiveBroadcast):
    """Only the sources that the giver names go with a base, not those heard of since it was asked."""

    def __init__(self, *args):
        super().__init__(*args)
        past = self._past
        take = past.take

        def naive(*args):
            past._went_there = lambda *args, **kwargs: False
            moved = take(*args)
            del past._went_there
            return moved

        past.take = naive
