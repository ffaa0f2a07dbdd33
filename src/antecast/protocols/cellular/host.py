"""The host's side: one cell at a time, one session per stay (Algorithm 1 of the paper, restated).

A host is *established* in a session from the station's `InitAck` until it changes cell or crashes. Only then does
it send, acknowledge and take messages: numbers mean something only within a session. It first delivers the
messages that it missed elsewhere, then the cell's messages by number (`inbox.py`).

Each stay has a larger session number than all before. While it is not established, the host repeats `Init`, or
`Join` if it was never a member. `Init` tells where it stood in the last established session, so that the station
that holds it knows what it has delivered, acknowledged or not.

`snapshot` returns what must survive a crash: position and session change together with each delivery. A driver
that saves it with the deliveries of each call loses none and repeats none.
"""

from __future__ import annotations

from typing import ClassVar

from antecast.core import (
    MAX_PAYLOAD,
    Accepted,
    Alert,
    CancelTimer,
    Codec,
    Deliver,
    Discard,
    Effect,
    Frame,
    LocalMisuse,
    Message,
    MessageId,
    NodeId,
    Protocol,
    RemoteFault,
    SetTimer,
    State,
    Timer,
    Transmit,
)
from antecast.protocols.cellular.frames import (
    CODEC,
    MAX_LISTED,
    Acks,
    CatchUp,
    Data,
    Gone,
    Init,
    InitAck,
    Join,
    Leave,
    LeaveAck,
    Marked,
)
from antecast.protocols.cellular.inbox import Inbox
from antecast.protocols.cellular.outbox import Outbox
from antecast.protocols.cellular.rules import Rules
from antecast.protocols.cellular.settings import CellularSettings
from antecast.protocols.dither import Dither
from antecast.protocols.lost_state import lost_state

CONNECT: Timer = "connect"
RESEND: Timer = "resend"
ACK: Timer = "ack"
ALIVE: Timer = "alive"

_SIGNS_OF_LIFE = 16
"""How often a silent host gives a sign of life before it would be given up: half of all frames may be lost."""

_ACKS_PER_WINDOW = 6
"""An acknowledgement waits for at most this part of a window: the station must not run out of room."""

_MOST_NUMBERS = 1 << 62
"""No station comes near this number: a host that began there could not count further."""

_UNKNOWN = 1 << 62
"""Catch-up messages to come, while the station has not said how many (printed rules only)."""


class CellHost(Protocol):
    codec: ClassVar[Codec] = CODEC  # type: ignore[misc]

    def __init__(self, node: NodeId, settings: CellularSettings) -> None:
        self.node = node
        self._settings = settings
        self._rules = Rules.of(settings.published)
        self._dither = Dither(node)
        # Durable, with parts of inbox and outbox.
        self._session = 0
        self._last_established = 0
        self._member = False
        self._leaving = False
        self._left = False
        self._inbox = Inbox(settings.window, selective=settings.selective)
        self._outbox = Outbox(node, settings)
        # Of this session.
        self._station: NodeId | None = None
        self._established = False
        self._catching_up = False
        """Printed rules only: messages to catch up on have come before `InitAck`."""
        self._ack_set = False
        self._resend_set = False
        self._ack_after = max(1, settings.window // _ACKS_PER_WINDOW) if settings.measured else settings.window
        self._reported_at = 0
        """When it last told what it has: only then does a station that has given it up say so."""
        self._alerted = False
        self._saved = (0, 0)
        """Printed rules only: the position that was last acknowledged."""

    # Calls of the application and the driver.

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        if lifetime is not None:
            raise LocalMisuse("this protocol does not support lifetimes; use one that does, such as delta")
        if len(payload) > MAX_PAYLOAD:
            raise LocalMisuse(f"payload of {len(payload)} bytes exceeds the limit of {MAX_PAYLOAD}")
        if self._leaving:
            raise LocalMisuse("a host that leaves broadcasts no more")
        message: Data = Message(self.node, self._outbox.last + 1, payload, None)
        self._outbox.add(message)
        out: list[Effect] = [Accepted(message.id)]
        self._send_window(now, out)
        return out

    def leave(self, now: int) -> list[Effect]:
        """Leave once everything broadcast has reached a station; the stations are told until one confirms."""
        self._leaving = True
        out: list[Effect] = []
        self._say_goodbye(now, out)
        return out

    @property
    def left(self) -> bool:
        return self._left

    @property
    def established(self) -> bool:
        return self._established

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        """The host is in the cell of this station now: a new session begins."""
        self._station = peer
        self._alerted = False
        out: list[Effect] = []
        self._new_session(now, out)
        return out

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        if peer != self._station:
            return []
        self._station = None
        self._established = False
        return [CancelTimer(CONNECT)]

    def timer(self, token: Timer, now: int) -> list[Effect]:
        out: list[Effect] = []
        if token == CONNECT:
            self._connect(now, out)
        elif token == RESEND:
            self._resend_set = False
            self._resend(now, out)
        elif token == ACK:
            self._ack_set = False
            self._acknowledge(now, out)
        elif token == ALIVE and self._established:
            if now - self._reported_at >= self._settings.evict // _SIGNS_OF_LIFE:
                self._acknowledge(now, out)
            out.append(SetTimer(ALIVE, now + self._settings.evict // _SIGNS_OF_LIFE))
        return out

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        if sender != self._station or self._left:
            return []  # another cell's, or from before the last move
        out: list[Effect] = []
        if isinstance(frame, Message):
            self._take(frame, now, out)
        elif isinstance(frame, Acks):
            if self._outbox.acknowledged(self._believable(frame.next.get(self.node, 0), out), now):
                self._send_window(now, out)
                self._say_goodbye(now, out)
        elif isinstance(frame, InitAck):
            if frame.host == self.node:
                self._confirmed(frame, now, out)
        elif isinstance(frame, Gone):
            if frame.host == self.node and frame.ses == self._session:
                self._new_session(now, out)
        elif isinstance(frame, LeaveAck):
            if frame.host == self.node and self._leaving and not self._outbox:
                self._left = True
                self._established = False
                out += [CancelTimer(token) for token in (CONNECT, RESEND, ACK, ALIVE)]
        else:
            raise RemoteFault(f"a station does not send {type(frame).__name__} to its cell")
        return out

    # Sessions.

    def _new_session(self, now: int, out: list[Effect]) -> None:
        self._session += 1
        self._established = self._catching_up = False
        self._inbox.clear()
        self._outbox.begin()
        self._connect(now, out)

    def _connect(self, now: int, out: list[Effect]) -> None:
        if self._station is None or self._left:
            return
        first_unsent = 1 if self._rules.send_always else self._outbox.sent + 1  # hole 4
        if self._leaving and not self._outbox:
            self._speak(Leave(self._session), out)
        elif self._established:
            return
        elif self._member:
            position = self._inbox.caught_up, self._inbox.next
            self._speak(Init(self._session, self._last_established, *position, first_unsent), out)
        else:
            self._speak(Join(self._session, first_unsent), out)
        out.append(SetTimer(CONNECT, now + self._settings.connect + self._dither(self._settings.connect)))

    def _confirmed(self, frame: InitAck, now: int, out: list[Effect]) -> None:
        if frame.catch_up > MAX_LISTED or frame.seqc >= _MOST_NUMBERS:
            raise RemoteFault(f"{frame.catch_up} messages to catch up on, then number {frame.seqc}")
        if any(not frame.seqc <= number < _MOST_NUMBERS for number in frame.skip):
            raise RemoteFault(f"numbers to step over that are not behind {frame.seqc}")
        if frame.ses > self._session:
            self._alert(
                f"station {self._station} knows session {frame.ses} of this node, which has begun "
                f"{self._session}: the station is wrong, or this node has lost its state; if so, start it under a "
                "new number",
                out,
            )
        elif frame.ses == self._session and not self._established:
            self._establish(frame, now, out)

    def _believable(self, acknowledged: int, out: list[Effect]) -> int:
        """A station cannot have what was never sent."""
        known = self._outbox.sent + 1
        if acknowledged > known and not self._rules.printed:
            self._alert(lost_state(self._station or 0, MessageId(self.node, acknowledged - 1)).text, out)
            return known
        return acknowledged

    def _alert(self, text: str, out: list[Effect]) -> None:
        if not self._alerted:
            self._alerted = True
            out.append(Alert(text))

    def _establish(self, frame: InitAck, now: int, out: list[Effect]) -> None:
        self._member = self._established = True
        self._catching_up = False
        self._last_established = self._session
        self._inbox.begin(frame)
        if self._rules.mark_copies:  # hole 3
            self._inbox.skip.clear()
        passed_on = self._outbox.acknowledged(self._believable(frame.seqh, out), now)
        if frame.fresh:
            out += [Discard(message, "evicted") for message in passed_on]
        if self._settings.evict:
            out.append(SetTimer(ALIVE, now + self._settings.evict // _SIGNS_OF_LIFE))
        self._send_window(now, out)
        self._say_goodbye(now, out)

    def _say_goodbye(self, now: int, out: list[Effect]) -> None:
        if self._leaving and not self._outbox and not self._left:
            self._connect(now, out)

    # Down: messages to deliver.

    def _take(self, message: Data, now: int, out: list[Effect]) -> None:
        stamp = message.stamp
        if isinstance(stamp, int):
            if self._established or self._rules.take_always:  # hole 1
                self._deliver(self._inbox.take(stamp, message), now, out)
        elif isinstance(stamp, CatchUp):
            if stamp.host == self.node and stamp.ses == self._session and self._may_catch_up():
                self._deliver(self._inbox.take_catch_up(stamp.index, message), now, out)
        elif isinstance(stamp, Marked) and self._rules.mark_copies:  # hole 3
            if self._established or self._rules.take_always:
                marked = self._inbox.step_over(stamp.number) if self.node in stamp.hosts else []
                self._deliver(marked + self._inbox.take(stamp.number, message), now, out)
        else:
            raise RemoteFault("a station sends its cell only messages with a number")

    def _may_catch_up(self) -> bool:
        if not self._established and self._rules.catch_up_first and not self._catching_up:  # hole 9
            self._catching_up = True
            self._last_established = self._session
            self._inbox.begin_unannounced(_UNKNOWN)
        return self._established or self._catching_up

    def _deliver(self, messages: list[Data], now: int, out: list[Effect]) -> None:
        for message in messages:
            if message.origin == self.node and message.seq > self._outbox.last:
                self._alert(lost_state(self._station or 0, message.id).text, out)
            else:
                out.append(Deliver(message))
        if self._inbox.taken > self._ack_after:
            self._acknowledge(now, out)  # otherwise the station would have to wait with the next window
        # Even for an old message: the station sends again what it thinks is missing, so an acknowledgement was
        # lost.
        elif not self._ack_set:
            self._ack_set = True
            wait = self._settings.ack
            out.append(SetTimer(ACK, now + wait + self._dither(wait // 4)))

    def _acknowledge(self, now: int, out: list[Effect]) -> None:
        may = self._established or self._catching_up or self._rules.ack_always  # hole 2
        if may and not (self._leaving and not self._outbox):
            self._reported_at = now
            self._speak(self._inbox.report(self._session), out)
            self._saved = self._inbox.caught_up, self._inbox.next

    # Up: its own messages.

    def _may_send(self) -> bool:
        return self._established or self._rules.send_always  # hole 4

    def _send_window(self, now: int, out: list[Effect]) -> None:
        """Send what has not been sent in this session and fits into the window."""
        if self._outbox and self._may_send():
            for message in self._outbox.unsent(now):
                self._speak(message, out)
            self._set_resend(now, out)

    def _resend(self, now: int, out: list[Effect]) -> None:
        if self._may_send():
            for message in self._outbox.overdue(now):
                self._speak(message, out)
            self._set_resend(now, out)
            if now - self._reported_at > self._settings.silence:
                self._acknowledge(now, out)  # does the station know this host at all?

    def _set_resend(self, now: int, out: list[Effect]) -> None:
        due_at = self._outbox.due_at
        if due_at is not None and not self._resend_set:
            self._resend_set = True
            out.append(SetTimer(RESEND, max(now, due_at) + self._dither(self._outbox.interval // 8)))

    def _speak(self, frame: Frame, out: list[Effect]) -> None:
        if self._station is not None:
            out.append(Transmit(frame))

    # Crashes.

    def snapshot(self) -> State:
        saved_with_acks = self._rules.save_with_acks  # hole 16
        caught_up, following = self._saved if saved_with_acks else (self._inbox.caught_up, self._inbox.next)
        return {
            "session": self._session,
            "last_established": self._last_established,
            "member": self._member,
            "caught_up": caught_up,
            "next": following,
            "last": self._outbox.last,
            "sent": self._outbox.sent,
            "leaving": self._leaving,
            "left": self._left,
            "unacknowledged": [self.codec.encode(message) for message in self._outbox.unacknowledged.values()],
        }

    def restore(self, state: State) -> None:
        self._session, self._last_established = state["session"], state["last_established"]
        self._member, self._leaving, self._left = state["member"], state["leaving"], state["left"]
        self._inbox.caught_up, self._inbox.next = state["caught_up"], state["next"]
        self._outbox.last, self._outbox.sent = state["last"], state["sent"]
        frames = [self.codec.decode(data) for data in state["unacknowledged"]]
        self._outbox.unacknowledged = {frame.seq: frame for frame in frames if isinstance(frame, Message)}

    def gauges(self) -> dict[str, int]:
        return {"host_sent_buffer": len(self._outbox), "host_received_buffer": len(self._inbox)}
