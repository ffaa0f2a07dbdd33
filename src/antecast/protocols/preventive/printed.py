"""Algorithms 2 and 3 of PC-broadcast, line by line as they are printed. For studies, not for use.

Nédelec, Molli and Mostéfaoui, "Breaking the scalability barrier of causal broadcast for large and dynamic
systems". They keep causal order in networks that stay as they are. When links come and go they can break it, and
they can leave a link unused for ever; `antecast demonstrate preventive` has the smallest examples:

- Line 15 of Algorithm 2 looks only at the target of a pong: a pong to an earlier instance of the link makes the
  present one safe. The text and Fig. 6 say that the number counts too: `ids = "checked"`.
- Line 7 uses a process's only link at once, though what it sent over an earlier one may still be on its way.
- `retry` of Algorithm 3 calls `open`, whose `|Q| > 1` no longer counts the link: where one other link is left,
  nothing happens, and the buffer is not emptied.
- An acknowledgement that comes late deletes the count of retries of a link that waits for another.
- A buffer is written as a set: `buffers = "set"` empties it in the order of names, `"list"` in that of delivery.

What the paper leaves open is filled in as favourably as possible: the links that come up before a process has
delivered anything are its initial neighbourhood; pings are flooded over the safe links, or go through the
neighbour who introduced the two; pongs return over the new connection; a process that returns from a crash opens
its links.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal

import msgspec

from antecast.core import (
    MAX_PAYLOAD,
    Deliver,
    Effect,
    Frame,
    LocalMisuse,
    Message,
    NodeId,
    Protocol,
    RemoteFault,
    Send,
    SetTimer,
    State,
    Timer,
)
from antecast.core.settings import Duration, Settings
from antecast.protocols.lost_state import lost_state
from antecast.protocols.preventive.frames import CODEC, HOPS, Ping, Pong
from antecast.protocols.preventive.pings import SeenPings
from antecast.protocols.received import Received


class PrintedSettings(Settings, frozen=True, kw_only=True):
    algorithm: Literal[2, 3] = 3
    """Algorithm 2, or Algorithm 3 with its bounds, retries and time-outs."""
    buffer: Annotated[int, msgspec.Meta(ge=0)] = 1000
    """Messages that a buffer may hold (`maxSize`)."""
    retries: Annotated[int, msgspec.Meta(ge=0)] = 3
    """Pings after the first (`maxRetry`)."""
    timeout: Duration = Duration(10 * 10**9)
    ids: Literal["ignored", "checked"] = "ignored"
    """Whether a pong must carry the number of its link's last ping, as the text says and the code does not."""
    buffers: Literal["list", "set"] = "list"


class PrintedBroadcast(Protocol):
    """The names of the paper's variables are kept: Q, B, I and R."""

    tallies = ("_pings",)

    def __init__(self, node: NodeId, settings: PrintedSettings) -> None:
        self.node = node
        self.codec = CODEC
        self._settings = settings
        self._received = Received()
        self._seq = 0
        self._links: dict[NodeId, None] = {}
        self._q: dict[NodeId, None] = {}
        self._b: dict[NodeId, list[Message[None]]] = {}
        self._counter = 0
        self._last: dict[NodeId, int] = {}
        self._i: dict[int, NodeId] = {}
        self._r: dict[NodeId, int] = {}
        self._introduced: dict[NodeId, NodeId] = {}
        self._seen = SeenPings(settings.timeout)
        self._alerted: set[NodeId] = set()
        self._pings = 0

    # Algorithm 2, safety.

    def introduce(self, peer: NodeId, by: NodeId) -> None:
        self._introduced[peer] = by

    def safe(self, peer: NodeId) -> bool:
        return peer in self._q

    def link_up(self, peer: NodeId, now: int) -> list[Effect]:
        out: list[Effect] = []
        if peer in self._links:
            by = self._introduced.get(peer)
            out += self.link_down(peer, now)
            if by is not None:
                self._introduced[peer] = by
        self._links[peer] = None
        self._q[peer] = None
        if self._received:
            self._open(peer, now, out)
        return out

    def _open(self, q: NodeId, now: int, out: list[Effect]) -> None:
        if len(self._q) > 1:
            self._counter += 1
            self._q.pop(q, None)
            self._b[q] = []
            self._ping(q, now, out)

    def _ping(self, q: NodeId, now: int, out: list[Effect]) -> None:
        number = self._last[q] = self._counter
        if self._settings.algorithm == 3:
            self._r.setdefault(q, 0)
            self._i[number] = q
            out.append(SetTimer(f"printed/{number}", now + self._settings.timeout))
        self._pings += 1
        by = self._introduced.get(q)
        way: Collection[NodeId] = self._q if by is None else [by] if by in self._q else []
        ping = Ping(self.node, q, number, HOPS if by is None else 1)
        out += [Send(peer, ping) for peer in way]

    def _receive_ping(self, ping: Ping, sender: NodeId, now: int, out: list[Effect]) -> None:
        if not self._seen.first(ping, now):
            return
        if ping.target == self.node:
            if ping.origin in self._links:
                out.append(Send(ping.origin, Pong(ping.id)))
            return
        if not ping.hops:
            return
        way = [ping.target] if ping.target in self._q else self._q if ping.hops > 1 else []
        onward = msgspec.structs.replace(ping, hops=ping.hops - 1)
        out += [Send(peer, onward) for peer in way if peer not in (sender, ping.origin)]

    def _receive_pong(self, to: NodeId, number: int, out: list[Effect]) -> None:
        if self._settings.algorithm == 3:
            self._i.pop(number, None)
            self._r.pop(to, None)
        if to in self._b and (self._settings.ids == "ignored" or number == self._last[to]):
            buffered = self._b.pop(to)
            if self._settings.buffers == "set":
                buffered.sort(key=lambda message: message.id)
            out += [Send(to, message) for message in buffered]
            self._q[to] = None

    def link_down(self, peer: NodeId, now: int) -> list[Effect]:
        if peer not in self._links:
            return []
        del self._links[peer]
        self._q.pop(peer, None)
        self._introduced.pop(peer, None)
        self._alerted.discard(peer)
        self._close(peer)
        return []

    def _close(self, q: NodeId) -> None:
        self._b.pop(q, None)
        self._i = {number: to for number, to in self._i.items() if to != q}
        self._r.pop(q, None)

    # Algorithm 1 and 2, dissemination.

    def broadcast(self, payload: bytes, now: int, *, lifetime: int | None = None) -> list[Effect]:
        if lifetime is not None:
            raise LocalMisuse("this protocol does not support lifetimes; use one that does, such as delta")
        if len(payload) > MAX_PAYLOAD:
            raise LocalMisuse(f"payload of {len(payload)} bytes exceeds the limit of {MAX_PAYLOAD}")
        self._seq += 1
        return self._deliver(Message(self.node, self._seq, payload, None), self.node, now)

    def receive(self, frame: Frame, sender: NodeId, now: int) -> list[Effect]:
        if sender not in self._links:
            raise RemoteFault(f"node {sender} sent a {type(frame).__name__}, and has no link to node {self.node}")
        out: list[Effect] = []
        match frame:
            case Message():
                if frame.origin == self.node and frame.seq > self._seq:
                    return self._claimed(frame, sender)
                return self._deliver(frame, sender, now)
            case Ping():
                self._receive_ping(frame, sender, now, out)
            case Pong(id=number):
                self._receive_pong(sender, number, out)
            case _:
                raise RemoteFault(
                    f"node {sender} sent a {type(frame).__name__}, which this protocol does not know"
                )
        return out

    def _claimed(self, message: Message[None], sender: NodeId) -> list[Effect]:
        if sender in self._alerted:
            return []
        self._alerted.add(sender)
        return [lost_state(sender, message.id)]

    def _deliver(self, message: Message[None], sender: NodeId, now: int) -> list[Effect]:
        if not self._received.add(message.origin, message.seq):
            return []
        out: list[Effect] = [Send(peer, message) for peer in self._q if peer != sender]
        for buffered in self._b.values():
            buffered.append(message)
        out.append(Deliver(message))
        if self._settings.algorithm == 3:
            for q in [q for q, buffered in self._b.items() if len(buffered) > self._settings.buffer]:
                self._retry(q, now, out)
        return out

    # Algorithm 3.

    def _retry(self, q: NodeId, now: int, out: list[Effect]) -> None:
        self._i = {number: to for number, to in self._i.items() if to != q}
        if q in self._r:
            self._r[q] += 1
            if self._r[q] <= self._settings.retries:
                self._open(q, now, out)
            else:
                self._close(q)

    def timer(self, token: Timer, now: int) -> list[Effect]:
        out: list[Effect] = []
        q = self._i.get(int(token.removeprefix("printed/")))
        if q is not None:
            self._retry(q, now, out)
        return out

    def snapshot(self) -> State:
        return {
            "seq": self._seq,
            "counter": self._counter,
            "upto": dict(self._received.upto),
            "beyond": self._received.gaps(),
        }

    def restore(self, state: State) -> None:
        self._seq = state["seq"]
        self._counter = state["counter"]
        self._received.upto = dict(state["upto"])
        self._received.beyond = {origin: set(numbers) for origin, numbers in state["beyond"].items()}

    def gauges(self) -> dict[str, int]:
        return {
            "sources": len(self._received.upto),
            "buffered": sum(len(buffered) for buffered in self._b.values()),
            "links": len(self._links),
            "unsafe": len(self._links) - len(self._q),
            "pings": self._pings,
        }
