"""The host's side: one cell at a time, one session a stay (Algorithm 1 of the paper, restated).

A host is *established* in a session from the station's `InitAck` until it changes cell or crashes. Only then
does it send, acknowledge and take messages: numbers mean something within a session alone. It delivers first
the messages that it missed elsewhere (`CatchUp`, in their own order), then the cell's messages by number,
stepping over those that the `InitAck` named as delivered elsewhere.

Each stay has a larger session number than all before. While it is not established the host repeats `Init`, or
`Join` if it never was a member. `Init` tells where it stood in the last established session, so that the
station that holds it knows what it has delivered, acknowledged or not.

What must outlive a crash is what `snapshot` returns: position and session change together with each delivery,
so a driver that saves it before it hands the deliveries on never delivers a message twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from antecast.core import (
    MAX_PAYLOAD,
    Accepted,
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
    Ack,
    Acks,
    CatchUp,
    Data,
    Gone,
    Init,
    InitAck,
    Join,
    Leave,
    LeaveAck,
)
from antecast.protocols.cellular.settings import CellularSettings
from antecast.protocols.dither import dither

CONNECT: Timer = "connect"
RESEND: Timer = "resend"
ACK: Timer = "ack"
ALIVE: Timer = "alive"

_SIGNS_OF_LIFE = 16
"""How often a silent host shows itself before it would be given up: half of all frames may be lost."""


class CellHost(Protocol):
    codec: ClassVar[Codec] = CODEC  # type: ignore[misc]

    def __init__(self, node: NodeId, settings: CellularSettings) -> None:
        self.node = node
        self._settings = settings
        # Durable.
        self._ses = 0
        self._lc = 0
        self._member = False
        self._seq = 0
        self._sent = 0
        self._unacknowledged: dict[int, Data] = {}
        self._co = 0
        self._seqc = 0
        self._leaving = False
        self._left = False
        # Of this session.
        self._station: NodeId | None = None
        self._established = False
        self._catch_up = 0
        self._skip: set[int] = set()
        self._early_catch_up: dict[int, Data] = {}
        self._early: dict[int, Data] = {}
        self._sent_at: dict[int, int] = {}
        self._ack_set = False
        self._resend_set = False
        self._spoke_at = 0
        self._dithered = 0

    # What the application and the driver ask.

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        if lifetime is not None:
            raise LocalMisuse("this protocol knows no lifetimes; use one that does, such as delta")
        if len(payload) > MAX_PAYLOAD:
            raise LocalMisuse(f"payload of {len(payload)} bytes exceeds the limit of {MAX_PAYLOAD}")
        if self._leaving:
            raise LocalMisuse("a host that leaves broadcasts no more")
        self._seq += 1
        message: Data = Message(self.node, self._seq, payload, None)
        self._unacknowledged[self._seq] = message
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
            if now - self._spoke_at >= self._settings.evict // _SIGNS_OF_LIFE:
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
            if self._acknowledged(frame.next.get(self.node, 0)):
                self._send_window(now, out)
                self._say_goodbye(now, out)
        elif isinstance(frame, InitAck):
            if frame.host == self.node and frame.ses == self._ses and not self._established:
                self._establish(frame, now, out)
        elif isinstance(frame, Gone):
            if frame.host == self.node and frame.ses == self._ses:
                self._new_session(now, out)
        elif isinstance(frame, LeaveAck):
            if frame.host == self.node and self._leaving:
                self._left = True
                self._established = False
                out += [CancelTimer(token) for token in (CONNECT, RESEND, ACK, ALIVE)]
        else:
            raise RemoteFault(f"a station does not send {type(frame).__name__} to its cell")
        return out

    # Sessions.

    def _new_session(self, now: int, out: list[Effect]) -> None:
        self._ses += 1
        self._established = False
        self._early.clear()
        self._early_catch_up.clear()
        self._sent_at.clear()
        self._connect(now, out)

    def _connect(self, now: int, out: list[Effect]) -> None:
        if self._station is None or self._left:
            return
        if self._leaving and not self._unacknowledged:
            self._speak(Leave(self._ses), now, out)
        elif self._established:
            return
        elif self._member:
            self._speak(Init(self._ses, self._lc, self._co, self._seqc, self._first_unsent()), now, out)
        else:
            self._speak(Join(self._ses, self._first_unsent()), now, out)
        out.append(SetTimer(CONNECT, now + self._settings.connect + self._dither(self._settings.connect)))

    def _establish(self, frame: InitAck, now: int, out: list[Effect]) -> None:
        self._member = self._established = True
        self._lc = self._ses
        self._co, self._catch_up = 0, frame.catch_up
        self._seqc = frame.seqc
        self._skip = set(frame.skip)
        if frame.fresh:
            lost = [seq for seq in self._unacknowledged if seq < frame.seqh]
            out += [Discard(MessageId(self.node, seq), "evicted") for seq in lost]
        self._acknowledged(frame.seqh)
        if self._settings.evict:
            out.append(SetTimer(ALIVE, now + self._settings.evict // _SIGNS_OF_LIFE))
        self._send_window(now, out)
        self._say_goodbye(now, out)

    def _say_goodbye(self, now: int, out: list[Effect]) -> None:
        if self._leaving and not self._unacknowledged and not self._left:
            self._connect(now, out)

    # Down: messages to deliver.

    def _take(self, message: Data, now: int, out: list[Effect]) -> None:
        stamp = message.stamp
        if isinstance(stamp, int):
            if self._may_take():
                self._take_numbered(stamp, message, now, out)
        elif isinstance(stamp, CatchUp):
            if stamp.host == self.node and stamp.ses == self._ses and self._may_catch_up():
                self._take_catch_up(stamp.index, message, now, out)
        else:
            raise RemoteFault("a station sends its cell only messages with a number")

    def _may_take(self) -> bool:
        return self._established

    def _may_catch_up(self) -> bool:
        return self._established

    def _take_numbered(self, number: int, message: Data, now: int, out: list[Effect]) -> None:
        if self._seqc <= number < self._seqc + self._settings.window:  # a station sends no further ahead
            self._early[number] = message
            if number == self._seqc:
                self._deliver_in_order(out)
        # An old one too: the station sends again what it thinks missing, so an acknowledgement was lost.
        self._set_ack(now, out)

    def _take_catch_up(self, index: int, message: Data, now: int, out: list[Effect]) -> None:
        if self._co <= index < self._co + self._settings.window:
            self._early_catch_up[index] = message
            self._deliver_in_order(out)
        self._set_ack(now, out)

    def _deliver_in_order(self, out: list[Effect]) -> None:
        while self._co < self._catch_up:
            message = self._early_catch_up.pop(self._co, None)
            if message is None:
                return
            self._co += 1
            out.append(Deliver(message))
        while True:
            if self._seqc in self._skip:  # delivered elsewhere; the station may not even have it any more
                self._skip.remove(self._seqc)
                self._early.pop(self._seqc, None)
            elif (message := self._early.pop(self._seqc, None)) is not None:
                out.append(Deliver(message))
            else:
                return
            self._seqc += 1

    def _set_ack(self, now: int, out: list[Effect]) -> None:
        if not self._ack_set:
            self._ack_set = True
            wait = self._settings.ack
            out.append(SetTimer(ACK, now + wait + self._dither(wait // 4)))

    def _acknowledge(self, now: int, out: list[Effect]) -> None:
        if self._may_acknowledge() and not (self._leaving and not self._unacknowledged):
            top = max(self._early, default=-1) + 1 if self._settings.selective else 0
            holes = [
                number
                for number in range(self._seqc, top)
                if number not in self._early and number not in self._skip
            ]
            self._speak(Ack(self._ses, self._co, self._seqc, top, holes), now, out)

    def _may_acknowledge(self) -> bool:
        return self._established

    # Up: messages of its own.

    def _send_window(self, now: int, out: list[Effect]) -> None:
        """Send what has not been sent in this session and finds room in the window."""
        if not self._unacknowledged or not self._may_send():
            return
        for seq, message in self._in_window():
            if seq not in self._sent_at:
                self._send(seq, message, now, out)
        self._set_resend(now, out)

    def _may_send(self) -> bool:
        return self._established

    def _first_unsent(self) -> int:
        """The number of the first message that no station can have."""
        return self._sent + 1

    def _in_window(self) -> Iterable[tuple[int, Data]]:
        first = next(iter(self._unacknowledged), 0)
        return [
            (seq, message) for seq, message in self._unacknowledged.items() if seq < first + self._settings.window
        ]

    def _send(self, seq: int, message: Data, now: int, out: list[Effect]) -> None:
        self._sent_at[seq] = now
        self._sent = max(self._sent, seq)
        self._speak(message, now, out)

    def _set_resend(self, now: int, out: list[Effect]) -> None:
        if not self._resend_set and self._sent_at:
            self._resend_set = True
            interval = self._settings.interval(len(self._sent_at))
            at = max(now, min(self._sent_at.values()) + interval)
            out.append(SetTimer(RESEND, at + self._dither(interval // 8)))

    def _resend(self, now: int, out: list[Effect]) -> None:
        if not self._may_send():
            return
        interval = self._settings.interval(len(self._sent_at))
        for seq, message in self._in_window():
            if seq not in self._sent_at or self._sent_at[seq] + interval <= now:
                self._send(seq, message, now, out)
        self._set_resend(now, out)

    def _acknowledged(self, upto: int) -> bool:
        """Everything below this number has reached a station; whether that is news."""
        done = [seq for seq in self._unacknowledged if seq < upto]
        for seq in done:
            del self._unacknowledged[seq]
            self._sent_at.pop(seq, None)
        return bool(done)

    def _speak(self, frame: Frame, now: int, out: list[Effect]) -> None:
        if self._station is not None:
            self._spoke_at = now
            out.append(Transmit(frame))

    def _dither(self, span: int) -> int:
        self._dithered += 1
        return dither(self.node, self._dithered, span)

    # Crashes.

    def snapshot(self) -> State:
        return {
            "ses": self._ses,
            "lc": self._lc,
            "member": self._member,
            "co": self._co,
            "seqc": self._seqc,
            "seq": self._seq,
            "sent": self._sent,
            "leaving": self._leaving,
            "left": self._left,
            "unacknowledged": [self.codec.encode(message) for message in self._unacknowledged.values()],
        }

    def restore(self, state: State) -> None:
        self._ses, self._lc, self._member = state["ses"], state["lc"], state["member"]
        self._co, self._seqc = state["co"], state["seqc"]
        self._seq, self._sent = state["seq"], state["sent"]
        self._leaving, self._left = state["leaving"], state["left"]
        frames = [self.codec.decode(data) for data in state["unacknowledged"]]
        self._unacknowledged = {frame.seq: frame for frame in frames if isinstance(frame, Message)}

    def gauges(self) -> dict[str, int]:
        return {
            "host_sent_buffer": len(self._unacknowledged),
            "host_received_buffer": len(self._early) + len(self._early_catch_up),
        }
