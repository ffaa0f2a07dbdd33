"""VCube's diagnosis: who works, found by tests of a few nodes and by what these have heard of the others.

Each round a node tests, in each of its clusters, the nodes in their order up to the first that it takes to be
correct; so it tests log₂ N nodes while all is well. Whoever is tested answers with what it knows of everyone. A
node that does not answer in time is *doubted*, and so is one whose link goes down; the tests then go on to the
next node of its cluster. A doubted node stays in the tests (it comes before the first correct one), and
anything heard from it, or a new link to it, ends the doubt.

What is known of a node is a number that only grows, and the larger number is the later news: even while the
node is taken to be correct, odd while it is doubted. A node that hears itself doubted takes the next even
number, which spreads in turn. Each time a node turns out to have been doubted for being slow, its tester allows
it twice the time: where links have some bound on their delays, known or not, doubts of correct nodes come to an
end. Until then they cost copies and detours, no order and no message.
"""

from collections.abc import Mapping

from antecast.core import Clock, Effect, Frame, NodeId, Send, SetTimer, Timer
from antecast.protocols.vcube.view import View

ROUND: Timer = "vcube/round"
OVERDUE: Timer = "vcube/overdue"


class Test(Frame, frozen=True, array_like=True, gc=False, tag=4):
    """Are you there?"""

    __test__ = False  # not a test of pytest's


class Reply(Frame, frozen=True, array_like=True, gc=False, tag=5):
    """Yes; this is what I have received, and what I know of the others."""

    digest: int
    news: Clock


class Diagnosis:
    def __init__(self, view: View, *, interval: int, timeout: int) -> None:
        self._view = view
        self._interval = interval
        self._timeout = timeout
        self.news: dict[NodeId, int] = {}
        self._due: dict[NodeId, int] = {}
        self._allowed: dict[NodeId, int] = {}
        self._late: set[NodeId] = set()
        self._next_round: int | None = None
        self._next_look: int | None = None

    def link_up(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._view.link(peer)
        self._believe(peer)
        self.hasten(now, out)

    def link_down(self, peer: NodeId, now: int, out: list[Effect]) -> None:
        self._view.unlink(peer)
        self._doubt(peer)
        self._due.pop(peer, None)
        self._late.discard(peer)
        self.hasten(now, out)

    def hasten(self, at: int, out: list[Effect]) -> None:
        """Make the next round then, if it would come later."""
        if self._next_round is None or at < self._next_round:
            self._next_round = at
            out.append(SetTimer(ROUND, at))

    def round(self, now: int, out: list[Effect]) -> None:
        self._next_round = None
        if not self._view.linked:
            return
        for s in range(1, self._view.dimension + 1):
            for peer in self._view.candidates(s):
                out.append(Send(peer, Test()))
                self._due.setdefault(peer, now + self._allowed.get(peer, self._timeout))
        self.hasten(now + self._interval, out)
        self._look_later(out)

    def look(self, now: int, out: list[Effect]) -> bool:
        """Doubt those who should have answered by now; whether this changes the view."""
        self._next_look = None
        overdue = [peer for peer, due in self._due.items() if due <= now]
        changed = False
        for peer in overdue:
            del self._due[peer]
            if self._view.usable(peer):
                self._doubt(peer)
                self._late.add(peer)
                changed = True
        self._look_later(out)
        return changed

    def _look_later(self, out: list[Effect]) -> None:
        if self._due:
            due = min(self._due.values())
            if due != self._next_look:
                self._next_look = due
                out.append(SetTimer(OVERDUE, due))

    def answered(self, peer: NodeId, news: Mapping[NodeId, int]) -> bool:
        """A reply came; whether what it says changes the view."""
        self._due.pop(peer, None)
        changed = False
        for node, number in news.items():
            known = self.news.get(node, 0)
            if number <= known:
                continue
            if node == self._view.node:
                number += number & 1
            elif (number ^ known) & 1:
                changed = True
                if number & 1:
                    self._view.doubt(node)
                else:
                    self._view.trust(node)
            self.news[node] = number
        return changed

    def heard(self, peer: NodeId) -> bool:
        """Something came from a peer, so it works; whether this changes the view."""
        if peer not in self._view.doubted:
            return False
        if peer in self._late:
            self._late.remove(peer)
            self._allowed[peer] = 2 * self._allowed.get(peer, self._timeout)
        self._believe(peer)
        return True

    def _doubt(self, peer: NodeId) -> None:
        number = self.news.get(peer, 0)
        if not number & 1:
            self.news[peer] = number + 1
        self._view.doubt(peer)

    def _believe(self, peer: NodeId) -> None:
        number = self.news.get(peer, 0)
        if number & 1:
            self.news[peer] = number + 1
            self._view.trust(peer)
