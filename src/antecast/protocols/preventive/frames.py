"""What PC-broadcast sends beside messages.

A message is a `Message` with no stamp: its name, `(origin, seq)`, is all the control information it carries.
Everything else here is sent when links or sources come and go, never once a message.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from antecast.core import MAX_SOURCES, Clock, Codec, Frame, Message
from antecast.core.frames import Count, Seq, Source

Sources: TypeAlias = Annotated[list[Source], msgspec.Meta(max_length=MAX_SOURCES)]

Births: TypeAlias = Annotated[dict[Source, tuple[Source, Seq]], msgspec.Meta(max_length=MAX_SOURCES)]
"""For each source that was announced, the name of the message that did."""

HOPS: Final = 255
"""How far a flooded ping goes. Copies are recognised by a table that is bounded, so a limit has to end what
the table has forgotten."""

EVERYTHING: Final = (1 << 63) - 1
"""In a refusal: all messages of a source that the refusing process has forgotten."""


class Notice(Frame, frozen=True, array_like=True, tag=1, gc=False):
    """A source comes, or goes. It is numbered, spread and kept as a message of its origin is."""

    origin: Source
    seq: Seq
    source: Source
    gone: bool


class Ping(Frame, frozen=True, array_like=True, tag=2, gc=False):
    """Behind everything `origin` had delivered, to `target`, over safe links only."""

    origin: Source
    target: Source
    id: Count
    hops: Annotated[int, msgspec.Meta(ge=0, le=HOPS)]
    """How much further it may go."""


class Pong(Frame, frozen=True, array_like=True, tag=3, gc=False):
    """The ping of that number has arrived."""

    id: Count


class Hello(Frame, frozen=True, array_like=True, tag=4, gc=False):
    """The sender has a past: a newcomer may join through it."""


class Sync(Frame, frozen=True, array_like=True, tag=5):
    """What the sender has, so that the receiver can make its link to it safe at once."""

    upto: Clock
    births: Births
    want: bool
    """Asks for the same in return."""
    take: bool
    """What the receiver no longer keeps will be taken as given."""


class Refuse(Frame, frozen=True, array_like=True, tag=6):
    """The sender no longer keeps some of what the receiver lacks."""

    lacking: Clock
    provider: Source | None
    """Who may still keep it: the one through whom the sender joined."""


class Start(Frame, frozen=True, array_like=True, tag=7):
    """The link is safe from here on."""

    base: Clock
    """This counts as received."""
    births: Births
    gone: Sources
    """The sources that went last within the base."""
    more: bool
    """Whether others went before them."""


class Ask(Frame, frozen=True, array_like=True, tag=8, gc=False):
    """Please announce me as a source."""


class Known(Frame, frozen=True, array_like=True, tag=9, gc=False):
    """The sender was asked to announce the receiver, and will not: it is known already."""


Entry: TypeAlias = Message[None] | Notice
"""What has a number, is kept and is passed on."""

CODEC: Final = Codec([Message[None], Notice, Ping, Pong, Hello, Sync, Refuse, Start, Ask, Known])
