"""VCube's diagnosis: who works, found by tests of a few nodes and by what these have heard of the others.

**Tests.** Each round a node tests, in each of its clusters, the nodes in their order up to the first that it takes
to be correct; so it tests log₂ N nodes while all is well. Whoever is tested answers with what it knows of
everyone. A node that does not answer in time is *doubted*, and so is one whose link goes down; the tests then go
on to the next node of its cluster. A doubted node stays in the tests (it comes before the first correct one), and
anything heard from it, or a new link to it, ends the doubt. Each time a node turns out to have been doubted for
being slow, its tester allows it twice the time: where links have some bound on their delays, known or not, doubts
of correct nodes come to an end. Until then they cost copies and detours, but no order and no message.

**News.** What is known of a node is a number that only grows, and the larger number is the later news: even while
the node is taken to be correct, odd while it is doubted. A node that hears itself doubted takes the next even
number, which spreads in turn.

**Lies.** A node sends to exactly the nodes that it tests itself, so news from others can only make it turn to the
next node of a cluster early or late. What keeps them from doing more:

- News is kept and passed on only about nodes that are linked here, or were until a while ago: nodes without a link
  to them ignore news of nodes that do not exist or left for good.
- A number more than `LEAP` ahead of the known one is ignored. No node is doubted so often, and a number that one
  frame could drive to the end of the scale would silence all later news.
- What a node sees for itself counts, whatever the number says.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from antecast.core import MAX_SOURCES, Clock, Effect, Frame, NodeId, Send, SetTimer, Timer
from antecast.core.frames import Count
from antecast.protocols.vcube.view import View

ROUND: Timer = "vcube/round"
OVERDUE: Timer = "vcube/overdue"

LEAP: Final = 1 << 32
"""A node would have to be doubted and believed twice a second for 68 years to get this far."""

HIGHEST: Final = 1 << 62
"""Larger numbers are not believed, so that a node's own next number always fits into a frame."""

ROUNDS_REMEMBERED: Final = 64
"""For this many rounds a node whose link is down stays in the news, which reaches everyone in about log₂ N
rounds."""


class Test(Frame, frozen=True, array_like=True, gc=False, tag=4):
    """Are you there?"""

    __test__ = False  # not a pytest test


class Reply(Frame, frozen=True, array_like=True, gc=False, tag=5):
    """Yes; this is what I have received, and what I know of the others."""

    digest: Count
    news: Clock


class Diagnosis:
    """Keeps a view up to date: it is told of links, and finds out doubts."""

    def __init__(self, view: View, *, interval: int, timeout: int) -> None:
        self._view = view
        self._interval = interval
        self._timeout = timeout
        self._news: dict[NodeId, int] = {}
        self._answer_due: dict[NodeId, int] = {}
        """When the answers to tests are due, by peer."""
        self._time_allowed: dict[NodeId, int] = {}
        """How long a peer may take to answer, where this is more than the timeout."""
        self._late: set[NodeId] = set()
        """Peers that are doubted because they did not answer in time."""
        self._parted: dict[NodeId, int] = {}
        """Nodes whose links are down, in the order in which they went, and the rounds made by then."""
        self._next_round: int | None = None
        self._next_look: int | None = None
        self.rounds = 0
        """Rounds of tests made so far."""
        self.tested: frozenset[NodeId] = frozenset()
        """The nodes that the last round tested."""

    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._parted.pop(peer, None)
        self._view.link(peer)
        self._believe(peer)
        self.hasten(now, out)

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._view.unlink(peer)
        self._doubt(peer)
        self._answer_due.pop(peer, None)
        self._late.discard(peer)
        self._parted[peer] = self.rounds
        self.hasten(now, out)

    def news(self) -> dict[NodeId, int]:
        """What is known of the nodes that were ever doubted, as much as a frame holds."""
        news = self._news
        return news.copy() if len(news) <= MAX_SOURCES else dict(islice(news.items(), MAX_SOURCES))

    def hasten(self, at: int, out: list[Effect]) -> None:
        """Bring the next round forward to this time, if it would come later."""
        if self._next_round is None or at < self._next_round:
            self._next_round = at
            out.append(SetTimer(ROUND, at))

    def round(self, now: int, out: list[Effect]) -> None:
        self._next_round = None
        self._forget_the_gone()
        if not self._view.linked:
            return
        self.rounds += 1
        tested = [peer for s in range(1, self._view.dimension + 1) for peer in self._view.candidates(s)]
        for peer in tested:
            out.append(Send(peer, Test()))
            self._answer_due.setdefault(peer, now + self._time_allowed.get(peer, self._timeout))
        self.tested = frozenset(tested)
        self.hasten(now + self._interval, out)
        self._look_later(out)

    def _forget_the_gone(self) -> None:
        while self._parted and self._parted[peer := next(iter(self._parted))] + ROUNDS_REMEMBERED <= self.rounds:
            del self._parted[peer]
            self._news.pop(peer, None)
            self._time_allowed.pop(peer, None)
            self._view.trust(peer)

    def look(self, now: int, out: list[Effect]) -> bool:
        """Doubt those who should have answered by now; returns whether this changes the view."""
        self._next_look = None
        overdue = [peer for peer, due in self._answer_due.items() if due <= now]
        changed = False
        for peer in overdue:
            del self._answer_due[peer]
            if self._view.usable(peer):
                self._doubt(peer)
                self._late.add(peer)
                changed = True
        self._look_later(out)
        return changed

    def _look_later(self, out: list[Effect]) -> None:
        if self._answer_due:
            due = min(self._answer_due.values())
            if due != self._next_look:
                self._next_look = due
                out.append(SetTimer(OVERDUE, due))

    def answered(self, peer: NodeId, news: Mapping[NodeId, int]) -> bool:
        """A reply came; returns whether what it says changes the view."""
        self._answer_due.pop(peer, None)
        changed = False
        for node, number in news.items():
            known = self._news.get(node, 0)
            if not known < number <= min(known + LEAP, HIGHEST):
                continue
            if node == self._view.node:
                number += number & 1
            elif node not in self._view.linked and node not in self._parted:
                continue
            elif number & 1 and node not in self._view.doubted:
                changed = True
                self._view.doubt(node)
            elif not number & 1 and node in self._view.doubted:
                changed = True
                self._view.trust(node)
            self._news[node] = number
        return changed

    def heard(self, peer: NodeId) -> bool:
        """Something came from a peer, so it works; returns whether this changes the view."""
        if peer not in self._view.doubted:
            return False
        if peer in self._late:
            self._late.remove(peer)
            self._time_allowed[peer] = 2 * self._time_allowed.get(peer, self._timeout)
        self._believe(peer)
        return True

    def _doubt(self, peer: NodeId) -> None:
        number = self._news.get(peer, 0)
        self._news[peer] = number + 1 - (number & 1)
        self._view.doubt(peer)

    def _believe(self, peer: NodeId) -> None:
        number = self._news.get(peer, 0)
        if number & 1:
            self._news[peer] = number + 1
        if peer in self._view.doubted:
            self._view.trust(peer)
