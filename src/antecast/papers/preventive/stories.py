"""Where PC-broadcast as printed lets a link into use too early, or never.

Four processes A, B, D and E, as in the paper's figures; frames move when the story says so.
"""

from __future__ import annotations

from collections.abc import Callable

from antecast.core import LinkSafety
from antecast.papers.demonstration import Demonstration, Outcome
from antecast.papers.stage import Stage

A, B, D, E = range(4)


class Links(Stage):
    """A – B – D, and E beside A and B."""

    def __init__(self, protocol: str, **settings: object) -> None:
        super().__init__(protocol, "ABDE", **settings)
        for pair in ((A, B), (B, D), (A, E), (E, B)):
            self.open(*pair)
        self.carry()
        self.broadcast(A)
        self.carry()

    def safe(self, a: int, b: int) -> bool:
        node = self.nodes[a]
        assert isinstance(node, LinkSafety)
        return node.safe(b)


def stale_pong(stage: Links) -> Outcome:
    stage.close(A, E)
    stage.open(A, D)
    stage.carry(A, B)  # the ping waits on B → D …
    stage.close(A, D)
    stage.broadcast(A)
    stage.carry(A, B)  # … and the message behind it
    stage.open(A, D)
    stage.carry(B, D, frames=1)
    stage.carry(D, A)
    stage.broadcast(A)
    stage.carry(A, D)
    stage.carry()
    return stage.log.outcome(D)


def stale_acknowledgement(stage: Links) -> Outcome:
    stage.close(A, E)
    stage.open(A, D)
    stage.carry(A, B)
    stage.close(A, D)
    stage.open(A, D)
    stage.lose(A, B)
    stage.carry(B, D)
    stage.carry(D, A)
    for _ in range(10):
        stage.broadcast(A)
    stage.rest()
    if stage.safe(A, D):
        return Outcome(False, "The link becomes safe.")
    kept = stage.nodes[A].gauges()["buffered"]
    return Outcome(True, f"After a minute the link is not safe, and {kept} messages wait in a buffer meant for 2.")


def lost_ping(stage: Links) -> Outcome:
    stage.close(A, E)
    stage.open(A, D)
    stage.lose(A, B)
    return _comes_into_use(stage)


def only_link(stage: Links) -> Outcome:
    stage.close(A, E)
    stage.broadcast(A)
    stage.carry(A, B)
    stage.close(A, B)
    stage.open(A, D)
    stage.carry(A, D)
    stage.carry(D, A)
    stage.broadcast(A)
    stage.carry(A, D)
    stage.carry()
    return stage.log.outcome(D)


def set_as_buffer(stage: Links) -> Outcome:
    stage.open(A, D)
    stage.carry(A, E, B, D)
    stage.broadcast(E)
    stage.carry(E, A)
    stage.broadcast(A)
    stage.carry(D, A)
    stage.carry(A, D)
    stage.carry()
    return stage.log.outcome(D)


def impatient(stage: Links) -> Outcome:
    stage.open(A, D)
    stage.wait(1)
    stage.carry(A, B, D, frames=1)
    stage.broadcast(A)
    stage.carry(D, A)
    return _in_use(stage, "The answer to the first ping opens nothing, nor does any later one.")


def small_buffer(stage: Links) -> Outcome:
    stage.open(A, D)
    for _ in range(3):
        for _ in range(4):
            stage.broadcast(A)
        stage.carry()
    return _comes_into_use(stage)


def route_cut(stage: Links) -> Outcome:
    stage.close(A, E)
    stage.open(A, D)
    stage.carry(A, B)
    stage.close(B, D)
    stage.open(B, D)
    return _comes_into_use(stage)


def _comes_into_use(stage: Links) -> Outcome:
    stage.rest()
    return _in_use(stage, "The link from A to D never comes into use.")


def _in_use(stage: Links, otherwise: str) -> Outcome:
    return Outcome(False, "The link becomes safe.") if stage.safe(A, D) else Outcome(True, otherwise)


def _demonstration(
    tell: Callable[[Links], Outcome],
    *,
    title: str,
    story: str,
    printed: str,
    ours: str,
    paper: dict[str, object] | None = None,
    settings: dict[str, object] | None = None,
) -> Demonstration:
    by_paper = {"algorithm": 2} | (paper or {})
    return Demonstration(
        name=tell.__name__.replace("_", "-"),
        study="preventive",
        title=title,
        story=story,
        printed=printed,
        ours=ours,
        by_paper=lambda: tell(Links("pc-broadcast-paper", **by_paper)),
        by_us=lambda: tell(Links("pc-broadcast", **(settings or {}))),
    )


_CHECKED: dict[str, object] = {"algorithm": 3, "ids": "checked"}

DEMONSTRATIONS = (
    _demonstration(
        stale_pong,
        title="the answer to a ping of a link that is gone opens the next one",
        story=(
            "A opens a link to D, and its ping travels by B. A closes the link, broadcasts, and opens it"
            " again. The first ping arrives, then its answer, before the message that is behind the ping."
        ),
        printed="The code looks at where an answer comes from; only the prose looks at its number.",
        ours="An answer counts for the very link whose ping it answers, and no other.",
    ),
    _demonstration(
        stale_acknowledgement,
        title="an old answer stops the attempts of the link that took its place",
        story="The same, the second ping gets lost, and ten messages follow. Buffers are meant to hold 2.",
        printed="An answer clears the count of attempts, whichever link it is for (Algorithm 3).",
        ours="What answers no outstanding ping of this link is ignored.",
        paper=_CHECKED | {"buffer": 2, "timeout": "1s"},
        settings={"retain": 2},
    ),
    _demonstration(
        lost_ping,
        title="a process with one other link never tries again",
        story="A has a link to B, opens one to D, and the ping is lost.",
        printed=(
            "A further attempt calls `open`, which pings only if there are other links, and by then counts"
            " them wrongly."
        ),
        ours="A further attempt always pings.",
        paper={"algorithm": 3, "timeout": "1s"},
    ),
    _demonstration(
        only_link,
        title="a link is not safe for being the only one",
        story="A broadcasts to B, its only neighbour, closes that link, opens one to D and broadcasts again.",
        printed="A process without other links uses a new one at once.",
        ours=(
            "Only a process that has an empty past may. Others ping; who cannot ping compares pasts with the"
            " neighbour."
        ),
    ),
    _demonstration(
        set_as_buffer,
        title="a buffer that is a set is emptied in any order",
        story="While the ping is under way A delivers a message of E's and broadcasts one of its own.",
        printed="Buffers are sets, so they are emptied in any order.",
        ours="What waits is kept in the order of delivery, which is also the order in which it leaves.",
        paper={"buffers": "set"},
    ),
    _demonstration(
        impatient,
        title="a time-out below the round trip keeps a link from ever opening",
        story="The answer to the first ping comes after the second ping has left.",
        printed="Only the newest ping counts, so each attempt voids the one before (Algorithm 3).",
        ours="The answer to any outstanding ping of the link counts if its start is still kept.",
        paper=_CHECKED | {"timeout": "1s", "retries": 100},
        settings={"timeout": "1s"},
    ),
    _demonstration(
        small_buffer,
        title="a buffer below the deliveries of one round trip gives the link up",
        story="Each round trip sees four deliveries, and the buffer holds one.",
        printed="After the last attempt the link is closed (Algorithm 3).",
        ours="After the last attempt the two compare pasts, and one sends what the other lacks.",
        paper=_CHECKED | {"buffer": 1, "retries": 1},
        settings={"retain": 1},
    ),
    _demonstration(
        route_cut,
        title="a ping that is lost with its route is never sent again",
        story="The link from B to D breaks while A's ping is on it, and comes back.",
        printed="Algorithm 2 has no time-out: it presumes that a safe way stays.",
        ours="Pings have a time-out.",
    ),
)
