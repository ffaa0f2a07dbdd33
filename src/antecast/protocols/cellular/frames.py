"""What travels in a cellular network: over the radio, up and down a cell, and over the wires between stations.

Application messages are `Message` frames everywhere; their stamp says on which leg of the way they are:

- none: up from its host to the station, and over the wires;
- a number: down to the cell, the message's place in the station's own order;
- `CatchUp`: down to one host that missed it in another cell;
- `Carried`: over the wires to one station, for such a host.

The other frames keep the names that Algorithms 1 to 4 of the paper give them. Frames up the radio need not name
their host: a radio frame says who sent it. `Echo`, `Gone` and `Reject` are not in the paper (`station.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec

from antecast.core import Codec, Frame, Message
from antecast.core.frames import Count, Seq, Source

MAX_LISTED = 1 << 16
"""The most messages that a list may name: a station that keeps more than this for one host is lost anyway."""

MOST_SESSIONS = 1 << 62
"""A host begins one session per stay: it never comes near this number."""

MOST_MESSAGES = 1 << 62
"""Nor does it broadcast this many messages."""

Id: TypeAlias = tuple[Source, Seq]
Ids: TypeAlias = Annotated[Sequence[Id], msgspec.Meta(max_length=MAX_LISTED)]
Numbers: TypeAlias = Annotated[list[Count], msgspec.Meta(max_length=MAX_LISTED)]


class CatchUp(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=1):
    """Number `index` of the messages that a host delivers before it goes on with the cell's own."""

    host: Source
    ses: Count
    index: Count


class Carried(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=2):
    """On its way to a station that no longer has it; part of the answer to `Req2`."""

    host: Source
    ses: Count
    to: Source
    by: Source
    wave: Count


class Marked(msgspec.Struct, frozen=True, array_like=True, gc=False, tag=3):
    """A number in the cell's order with the hosts that have delivered the message elsewhere: the paper's M_d,
    which only the published rules use."""

    number: Count
    hosts: Annotated[list[Source], msgspec.Meta(max_length=MAX_LISTED)]


Stamp: TypeAlias = Count | CatchUp | Carried | Marked | None
Data: TypeAlias = Message[Stamp]


# Up the radio, from a host to its station.


class Join(Frame, frozen=True, array_like=True, gc=False, tag=1):
    """A host that is not a member yet asks to become one."""

    ses: Count
    next: Seq
    """The number of its first message that was never sent."""


class Init(Frame, frozen=True, array_like=True, gc=False, tag=2):
    """A member asks this station to take over from the one that holds it."""

    ses: Count
    lc: Count
    """The last session that was established."""
    co: Count
    seqc: Count
    """What it had delivered in that session: catch-up messages, and the next number of that cell."""
    next: Seq


class Ack(Frame, frozen=True, array_like=True, gc=False, tag=3):
    """What a host has delivered in this session, and which later messages it lacks."""

    ses: Count
    co: Count
    seqc: Count
    top: Count = 0
    """It has all messages below this number that it has not delivered, except the holes."""
    holes: Numbers = []


class Leave(Frame, frozen=True, array_like=True, gc=False, tag=4):
    ses: Count


# Down the radio, from a station to its cell.


class InitAck(Frame, frozen=True, array_like=True, gc=False, tag=5):
    """A session is established: deliver `catch_up` messages first, then the cell's from `seqc` on, except those in
    `skip`, which were delivered elsewhere."""

    host: Source
    ses: Count
    catch_up: Count
    seqc: Count
    skip: Numbers
    seqh: Seq
    """The number of the host's next message: those before have been passed on."""
    fresh: bool
    """Whether the host had been given up: what it missed, and its own messages under way, are gone."""


class Acks(Frame, frozen=True, array_like=True, gc=False, tag=6):
    """For each host the number of the next message expected from it."""

    next: Annotated[dict[Source, Seq], msgspec.Meta(max_length=MAX_LISTED)]


class LeaveAck(Frame, frozen=True, array_like=True, gc=False, tag=7):
    host: Source


class Gone(Frame, frozen=True, array_like=True, gc=False, tag=8):
    """The station knows nothing of a host that thinks it is established: it was given up."""

    host: Source
    ses: Count


# Over the wires, to all stations.


class Delete(Frame, frozen=True, array_like=True, gc=False, tag=9):
    """A host has joined in this session: whatever an older one left behind is void."""

    host: Source
    ses: Count


class Left(Frame, frozen=True, array_like=True, gc=False, tag=10):
    host: Source


class Req1(Frame, frozen=True, array_like=True, gc=False, tag=11):
    """A host is here now, in session `ses`: whoever holds it, hand it over."""

    host: Source
    ses: Count
    lc: Count
    co: Count
    seqc: Count
    who: Source
    """The station that asks."""
    wave: Count
    """Its count of requests, which tells their echoes and handoffs apart."""


class Echo(Frame, frozen=True, array_like=True, gc=False, tag=12):
    """All stations on this side have seen a request; whether one of them has the host."""

    who: Source
    wave: Count
    found: bool


# Over the wires, to one station.


class Addressed(Frame, frozen=True, array_like=True, gc=False):
    host: Source
    ses: Count
    to: Source
    by: Source
    wave: Count
    """The number of the `Req1` that the handoff began with."""


class Rsp1(Addressed, frozen=True, array_like=True, gc=False, tag=13):
    """What the host has not delivered yet. The holder is locked from here on."""

    missing: Ids


class Req2(Addressed, frozen=True, array_like=True, gc=False, tag=14):
    """Those of them that the new station no longer has."""

    wanted: Ids


class Rsp2(Addressed, frozen=True, array_like=True, gc=False, tag=15):
    """The wanted messages were sent before; the holder has let the host go."""

    received: Ids
    """What came in since `Rsp1`."""
    seqh: Seq
    fresh: bool


class Reject(Addressed, frozen=True, array_like=True, gc=False, tag=16):
    """No: to a request older than the session that the holder knows, to an offer of a host that is not awaited,
    or to a `Req2` for an offer that no longer stands."""


CODEC = Codec(
    [
        Message[Stamp], Join, Init, Ack, Leave, InitAck, Acks, LeaveAck, Gone, Delete, Left, Req1, Echo,
        Rsp1, Req2, Rsp2, Reject,
    ]
)  # fmt: skip
"""Hosts and stations share one codec."""
