"""Sixteen printed rules of the cellular protocol that break its promise, each in the smallest story that shows it.

Stations A, B and C are joined by wires; host 0 is the one to watch. Frames arrive when the story says so.
"""

from __future__ import annotations

from collections.abc import Callable

from antecast.papers.cellular.cells import A, B, C, Cells
from antecast.papers.demonstration import Demonstration, Outcome

_told: list[Demonstration] = []


def _story(
    rule: str,
    *,
    title: str,
    story: str,
    printed: str,
    ours: str,
    wires: tuple[tuple[int, int], ...] = ((A, B),),
) -> Callable[[Callable[[Cells], None]], Callable[[Cells], None]]:
    def keep(play: Callable[[Cells], None]) -> Callable[[Cells], None]:
        def outcome(*published: str) -> Outcome:
            stage = Cells(*wires, published=list(published))
            play(stage)
            wrong = stage.wrong()
            words = "; ".join(wrong) or "Every host delivers everything once, in causal order, and nothing is kept"
            return Outcome(bool(wrong), f"{words[0].upper()}{words[1:]}.")

        _told.append(
            Demonstration(
                name=rule,
                study="cellular",
                title=title,
                story=story,
                printed=printed,
                ours=ours,
                by_paper=lambda: outcome(rule),
                by_us=outcome,
            )
        )
        return play

    return keep


def crossing(stage: Cells) -> None:
    """Host 1 at A broadcasts x, host 2 at B broadcasts y; A numbers x, y and B numbers y, x. Host 0 at A has
    delivered x, but not y."""
    stage.at(A, 0, 1)
    stage.at(B, 2)
    stage.close(A, B)
    stage.close(B, A)
    stage.broadcast(1)
    stage.broadcast(2)
    stage.settle()
    stage.open(A, B)
    stage.open(B, A)
    stage.wire()
    stage.lose("Message", to=0)
    stage.settle()
    assert stage.delivered[0] == [(1, 1)]


@_story(
    "take-always",
    title="a joiner delivers before it is told where to begin",
    story=(
        "Host 1 joins at A; its request is on its way when host 0 broadcasts, and the message is heard before"
        " the answer."
    ),
    printed=(
        "A cell's messages are taken in any state (Algorithm 1, line 15). The joiner delivers the message, then"
        " is told to begin with it."
    ),
    ours="Messages are taken once the session is established.",
)
def take_always(stage: Cells) -> None:
    stage.at(A, 0)
    stage.enter(1, A)
    join = stage.hold("Join")
    stage.broadcast(0)
    stage.settle()
    stage.put(join)


@_story(
    "ack-always",
    title="an acknowledgement mixes the new session with the old cell's numbers",
    story=(
        "Stations A and B have numbered two messages in different orders. Host 0 has delivered the first at A"
        " and moves to B. An acknowledgement goes out between the handoff and its confirmation, which is lost."
    ),
    printed=(
        "Acknowledgements go out in any state (Algorithm 1, line 48): the new station takes the old cell's"
        " number for its own, and drops what the host lacks."
    ),
    ours="A host acknowledges once its session is established.",
)
def ack_always(stage: Cells) -> None:
    crossing(stage)
    stage.move(0, B)
    init = stage.hold("Init")
    stage.put(init)
    stage.wire()
    stage.lose("InitAck")
    stage.fire(0, "ack")
    stage.settle()


@_story(
    "mark-copies",
    title="a copy from before the handoff does not say that it was delivered",
    story=(
        "The same two orders. Host 0 moves to B, and a copy of what it has delivered leaves B before B knows that."
    ),
    printed=(
        "Who has delivered a message elsewhere is written on its copies (line 20; Algorithm 4, line 86); a copy"
        " that left earlier lacks it."
    ),
    ours="`InitAck` names the numbers to step over.",
)
def mark_copies(stage: Cells) -> None:
    crossing(stage)
    stage.move(0, B)
    stage.close(B, A)
    stage.settle()
    stage.fire(B, "resend")
    stage.now += 2000 * 10**6
    if (B, "resend") in stage.timers:
        stage.fire(B, "resend")
    copies = stage.hold("Message", sender=B, to=0)
    assert len(copies) == 2
    stage.open(B, A)
    stage.settle()
    stage.put(copies)


@_story(
    "send-always",
    title="two stations take the same message",
    story="Host 0 joins at A and broadcasts. A takes the message, but nothing A says is heard; host 0 joins at B.",
    printed=(
        "A host sends before it is established (Algorithm 1, lines 10 and 51). A takes its message, and B, which"
        " counts from one, takes it again."
    ),
    ours="A host sends once its session is established.",
)
def send_always(stage: Cells) -> None:
    stage.at(A, 1)
    stage.enter(0, A)
    join = stage.hold("Join")
    stage.broadcast(0)
    app = stage.hold("Message", sender=0)
    stage.put(join)
    stage.lose("InitAck")
    stage.put(app)
    stage.move(0, B)


@_story(
    "accept-early",
    title="a station accepts what it has accepted in an earlier stay",
    story=(
        "Host 0 broadcasts at B, moves to A and back. A copy of its message from the first stay arrives when B"
        " has asked for the host again."
    ),
    printed="The new station accepts a host's messages before the handoff has ended (Algorithm 2, line 2).",
    ours="Only when the handoff is complete: the answer has come, behind all that the host may depend on.",
)
def accept_early(stage: Cells) -> None:
    stage.at(B, 0)
    stage.at(A, 1)
    stage.broadcast(0)
    copy = stage.hold("Message", sender=0)
    stage.put(copy)
    stage.settle()
    stage.move(0, A)
    stage.settle()
    assert stage.nodes[0].established
    stage.close(B, A)
    stage.move(0, B)
    stage.settle()
    stage.put(copy)


@_story(
    "accept-late",
    title="the old station accepts after it has told the new one what to expect",
    story=(
        "Host 0 broadcasts at A and moves to B. Its message reaches A when A has already told B what to expect"
        " from it."
    ),
    printed="The old station accepts a host's messages after `Rsp1` (Algorithm 2, line 2).",
    ours="From `Rsp1` on the record is locked.",
)
def accept_late(stage: Cells) -> None:
    stage.at(A, 0, 1)
    stage.broadcast(0)
    app = stage.hold("Message", sender=0)
    stage.move(0, B)
    stage.close(A, B)
    stage.settle()
    stage.put(app)


@_story(
    "no-lock",
    title="a host that turns round leaves a station waiting for ever",
    story="Host 0 goes from A to B and back, before A's answer has reached B.",
    printed="`Req1` does not lock the old station (Algorithm 4, line 54).",
    ours="The record is locked until `Req2`; a host that comes back takes part in a further handoff.",
)
def no_lock(stage: Cells) -> None:
    stage.at(A, 0, 1)
    stage.move(0, B)
    stage.close(A, B)
    stage.settle()
    stage.move(0, A)
    stage.settle()
    stage.broadcast(1)


@_story(
    "one-request",
    title="two moves in a row, and no station has the host",
    story="Host 0 goes from A to B and on to C, which hears of B's request after it has made its own.",
    printed=(
        "One pending request is kept, and any station that knows a newer session deletes older ones (Algorithm"
        " 4, line 55)."
    ),
    ours="All requests are kept; only the holder rejects, and serves the newest.",
    wires=((B, A), (A, C)),
)
def one_request(stage: Cells) -> None:
    stage.at(A, 0, 1)
    stage.close(A, C)
    stage.close(A, B)
    stage.move(0, B)
    stage.settle()
    stage.close(C, A)
    stage.move(0, C)
    stage.settle()
    stage.open(A, C)
    stage.wire()
    stage.open(C, A)


@_story(
    "catch-up-first",
    title="the end of the catch-up is tested with the wrong counter",
    story="B has given a message to all its hosts and dropped it; host 0, which lacks it, comes from A.",
    printed=(
        "`InitAck` follows the catch-up, whose end is tested with the station's numbers (Algorithm 2, line 13)."
    ),
    ours="`InitAck` comes first, and the two counters are apart.",
)
def catch_up_first(stage: Cells) -> None:
    stage.at(A, 0, 1)
    stage.at(B, 2)
    stage.broadcast(1)
    stage.put(stage.hold("Message", sender=1))
    stage.lose("Message", to=0)
    stage.settle()
    stage.fire(2, "ack")
    stage.settle()
    assert stage.kept(A)
    assert not stage.kept(B)
    stage.move(0, B)


@_story(
    "list-all",
    title="what was acknowledged counts as not delivered",
    story="Host 0 has acknowledged a message at A, crashes and recovers there, is not told so, and goes to B.",
    printed=(
        "Unless the session is the last established one, everything a station keeps counts as not delivered"
        " (Algorithm 4, line 66)."
    ),
    ours="By position: what was acknowledged was delivered.",
)
def list_all(stage: Cells) -> None:
    stage.at(A, 0, 1)
    stage.broadcast(1)
    stage.settle()
    stage.fire(0, "ack")
    stage.settle()
    assert stage.kept(A)
    stage.crash(0)
    stage.recover(0)
    stage.put(stage.hold("Init"))
    stage.lose("InitAck")
    stage.move(0, B)


@_story(
    "any-session",
    title="a late request pulls a session back",
    story="Host 0 recovers twice in a row; the first recovery's request arrives last.",
    printed="Sessions are compared with ≠ (Algorithm 2, line 21), where > is meant.",
    ours="A session never goes back.",
)
def any_session(stage: Cells) -> None:
    stage.at(A, 0, 1)
    stage.crash(0)
    stage.recover(0)
    late = stage.hold("Init")
    stage.crash(0)
    stage.recover(0)
    stage.settle()
    stage.put(late)
    stage.broadcast(1)


@_story(
    "no-floor",
    title="a late copy of a join makes a second record",
    story="Host 0 wants to join at A, and goes on to B; a copy of its first request arrives at A afterwards.",
    printed="Nothing is remembered of hosts that are elsewhere.",
    ours="Sessions are remembered for a time (`forget`).",
)
def no_floor(stage: Cells) -> None:
    stage.at(A, 1)
    stage.enter(0, A)
    late = stage.hold("Join")
    stage.move(0, B)
    stage.settle()
    stage.put(late)
    stage.broadcast(1)


@_story(
    "keep-stale",
    title="the radio overtakes the wires, and an old record is believed",
    story=(
        "Host 0 joins at A without hearing the answer, is taken in by B, delivers a message there, and is back"
        " at A before A hears of B."
    ),
    printed="A record older than the host's last established session is used.",
    ours="Such a record is dropped; the handoff goes by the newer one.",
)
def keep_stale(stage: Cells) -> None:
    stage.at(A, 1)
    stage.enter(0, A)
    stage.put(stage.hold("Join"))
    stage.lose("InitAck")
    stage.close(B, A)
    stage.move(0, B)
    stage.settle()
    stage.broadcast(1)
    stage.settle()
    assert stage.delivered[0] == [(1, 1)]
    stage.move(0, A)
    stage.settle()


@_story(
    "silent-rejoin",
    title="joining again tells nobody",
    story="Host 0 joins at A, at B, and at A again; no answer has reached it but the last.",
    printed="A station that knows a host does not tell the others that it joined (Algorithm 2, line 19).",
    ours="The others are always told.",
)
def silent_rejoin(stage: Cells) -> None:
    stage.at(A, 1)
    stage.enter(0, A)
    stage.put(stage.hold("Join"))
    stage.close(B, A)
    stage.move(0, B)
    stage.put(stage.hold("Join"))
    stage.lose("InitAck")
    stage.move(0, A)
    stage.settle()


@_story(
    "leave-if-known",
    title="a leave in the middle of a handoff leaves a record behind",
    story="Host 0 moves from A to B, and leaves before B has heard of it.",
    printed="Only a station that has the host passes its leave on (Algorithm 2, line 40).",
    ours="Every station passes it on.",
)
def leave_if_known(stage: Cells) -> None:
    stage.at(A, 0, 1)
    stage.move(0, B)
    stage.lose("Init")
    stage.leave(0)


@_story(
    "save-with-acks",
    title="a crash between delivery and acknowledgement repeats the delivery",
    story="Host 0 crashes between a delivery and its acknowledgement.",
    printed="What was received is saved with acknowledgements (section IV.E).",
    ours="The position is saved with each delivery.",
)
def save_with_acks(stage: Cells) -> None:
    stage.at(A, 0, 1)
    stage.broadcast(1)
    stage.settle()
    stage.crash(0)
    stage.recover(0)


DEMONSTRATIONS = tuple(_told)
