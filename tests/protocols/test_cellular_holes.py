"""The sixteen rules of the paper that break its promise, each in the smallest story that shows it.

A story is played twice: under the printed rule something must go wrong, in the words given; under ours
nothing may.
"""

import pytest
from cellular_stage import A, B, C, Stage

STORIES = {}


def story(rule, *wires, symptom):
    def keep(play):
        STORIES[rule] = (play, wires or ((A, B),), symptom)
        return play

    return keep


@pytest.mark.parametrize("rule", ["take-always", "ack-always", "mark-copies", "send-always", "accept-early",
                                  "accept-late", "no-lock", "one-request", "catch-up-first", "list-all",
                                  "any-session", "no-floor", "keep-stale", "silent-rejoin", "leave-if-known",
                                  "save-with-acks"])  # fmt: skip
def test_a_printed_rule_breaks_what_ours_keeps(rule):
    play, wires, symptom = STORIES[rule]
    printed = Stage(*wires, published=[rule])
    play(printed)
    wrong = printed.wrong()
    assert any(symptom in fault for fault in wrong), wrong
    ours = Stage(*wires)
    play(ours)
    assert not ours.wrong()


def crossing(stage):
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


@story("take-always", symptom="delivered (0, 1) twice")
def take_always(stage):
    """A joiner hears message 0 before it is told where to start."""
    stage.at(A, 0)
    stage.enter(1, A)
    join = stage.hold("Join")
    stage.broadcast(0)
    stage.settle()
    stage.put(join)


@story("ack-always", symptom="0 never delivered (2, 1)")
def ack_always(stage):
    """An acknowledgement fires between the handoff and its confirmation."""
    crossing(stage)
    stage.move(0, B)
    init = stage.hold("Init")
    stage.put(init)
    stage.wire()
    stage.lose("InitAck")
    stage.fire(0, "ack")
    stage.settle()


@story("mark-copies", symptom="0 delivered (1, 1) twice")
def mark_copies(stage):
    """A copy of x leaves B before B knows that host 0 has delivered it."""
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


@story("send-always", symptom="delivered (0, 1) twice")
def send_always(stage):
    """A takes a joiner's message, but the joiner never hears of it and joins at B."""
    stage.at(A, 1)
    stage.enter(0, A)
    join = stage.hold("Join")
    stage.broadcast(0)
    app = stage.hold("Message", sender=0)
    stage.put(join)
    stage.lose("InitAck")
    stage.put(app)
    stage.move(0, B)


@story("accept-early", symptom="delivered (0, 1) twice")
def accept_early(stage):
    """A copy of a message from the first stay at B arrives when B has asked for the host again."""
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


@story("accept-late", symptom="delivered (0, 1) twice")
def accept_late(stage):
    """A host's message reaches A when A has already told B what to expect from it."""
    stage.at(A, 0, 1)
    stage.broadcast(0)
    app = stage.hold("Message", sender=0)
    stage.move(0, B)
    stage.close(A, B)
    stage.settle()
    stage.put(app)


@story("no-lock", symptom="101 is stuck with a handoff of 0")
def no_lock(stage):
    """From A to B and back, before A's answer has reached B."""
    stage.at(A, 0, 1)
    stage.move(0, B)
    stage.close(A, B)
    stage.settle()
    stage.move(0, A)
    stage.settle()
    stage.broadcast(1)


@story("one-request", (B, A), (A, C), symptom="0 is not established")
def one_request(stage):
    """From A to B to C; C hears of B's request after it has made its own."""
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


@story("catch-up-first", symptom="0 is not established")
def catch_up_first(stage):
    """B has given message 0 to all its hosts and dropped it; host 0 comes and lacks it."""
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


@story("list-all", symptom="0 delivered (1, 1) twice")
def list_all(stage):
    """A host that has acknowledged x recovers at A, is not told so, and goes to B."""
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


@story("any-session", symptom="100 keeps messages")
def any_session(stage):
    """Two recoveries in a row; the first one's request arrives last."""
    stage.at(A, 0, 1)
    stage.crash(0)
    stage.recover(0)
    late = stage.hold("Init")
    stage.crash(0)
    stage.recover(0)
    stage.settle()
    stage.put(late)
    stage.broadcast(1)


@story("no-floor", symptom="100 still holds 0")
def no_floor(stage):
    """A copy of the joiner's first request arrives when it has joined elsewhere."""
    stage.at(A, 1)
    stage.enter(0, A)
    late = stage.hold("Join")
    stage.move(0, B)
    stage.settle()
    stage.put(late)
    stage.broadcast(1)


@story("keep-stale", symptom="0 delivered (1, 1) twice")
def keep_stale(stage):
    """A joiner is established at B and back at A before A hears of it."""
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


@story("silent-rejoin", symptom="101 still holds 0")
def silent_rejoin(stage):
    """A joiner at A, at B, and at A again; no answer has reached it but the last."""
    stage.at(A, 1)
    stage.enter(0, A)
    stage.put(stage.hold("Join"))
    stage.close(B, A)
    stage.move(0, B)
    stage.put(stage.hold("Join"))
    stage.lose("InitAck")
    stage.move(0, A)
    stage.settle()


@story("leave-if-known", symptom="100 still holds 0")
def leave_if_known(stage):
    """A host leaves where it is not known yet."""
    stage.at(A, 0, 1)
    stage.move(0, B)
    stage.lose("Init")
    stage.leave(0)


@story("save-with-acks", symptom="0 delivered (1, 1) twice")
def save_with_acks(stage):
    """A host crashes between a delivery and its acknowledgement."""
    stage.at(A, 0, 1)
    stage.broadcast(1)
    stage.settle()
    stage.crash(0)
    stage.recover(0)
