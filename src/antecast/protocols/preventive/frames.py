"""What PC-broadcast sends besides messages.

A message is a `Message` with no stamp: its name, `(origin, seq)`, is all the control information it carries.
Everything else here is sent when links or sources come and go, never per message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from antecast.core import MAX_SOURCES, Clock, Codec, Frame, Message, NodeId
from antecast.core.frames import Count, Seq, Source

Sources: TypeAlias = Annotated[list[Source], msgspec.Meta(max_length=MAX_SOURCES)]

Births: TypeAlias = Annotated[dict[Source, tuple[Source, Seq]], msgspec.Meta(max_length=MAX_SOURCES)]
"""For each source that was announced, the name of the message that did."""

HOPS: Final = 255
"""How far a flooded ping goes. A bounded table recognises copies, so a limit has to end those that the table has
forgotten."""

EVERYTHING: Final = (1 << 63) - 1
"""In a refusal: all messages of a source that the refusing process has forgotten."""

MOST_SOURCES: Final = 1 << 18
"""The most sources that a process knows. Whoever can name a source can make others remember it; this bounds the
cost to some 50 MiB."""

PIECE: Final = 1 << 15
"""Entries of one kind in a frame. Half of what the decoder takes, since the frame as a whole has a limit too."""


class Notice(Frame, frozen=True, array_like=True, tag=1, gc=False):
    """A source comes, or goes. It is numbered, spread and kept as a message of its origin is."""

    origin: Source
    seq: Seq
    source: Source
    gone: bool


class Ping(Frame, frozen=True, array_like=True, tag=2, gc=False):
    """Travels behind everything `origin` had delivered, to `target`, over safe links only."""

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


class Part(Frame, frozen=True, array_like=True, tag=10):
    """Belongs to the `Sync`, `Refuse` or `Start` that follows on the link, which is too large for one frame."""

    upto: Clock
    births: Births
    gone: Sources


class Gap(Frame, frozen=True, array_like=True, tag=11, gc=False):
    """The receiver sent a message without the one before it. What it sent since has been dropped; its link to the
    sender has to begin anew."""


class Anew(Frame, frozen=True, array_like=True, tag=12, gc=False):
    """The sender has read the `Gap`: from here on this link is a new one."""


class Claim(Frame, frozen=True, array_like=True, tag=13, gc=False):
    """The sender has this many messages of the receiver, and no longer keeps them all."""

    upto: Seq


class Disown(Frame, frozen=True, array_like=True, tag=14, gc=False):
    """The receiver has more messages of the sender than the sender ever broadcast: only this many are its own."""

    upto: Count


Entry: TypeAlias = Message[None] | Notice
"""What has a number, is kept and is passed on."""

Summary: TypeAlias = Sync | Refuse | Start
"""What grows with the number of sources."""

CODEC: Final = Codec(
    [Message[None], Notice, Ping, Pong, Hello, Sync, Refuse, Start, Ask, Known, Part, Gap, Anew, Claim, Disown]
)

V = TypeVar("V")


def _pieces(entries: Mapping[NodeId, V]) -> Iterator[dict[NodeId, V]]:
    items = iter(entries.items())
    while piece := dict(islice(items, PIECE)):
        yield piece


def in_parts(frame: Summary) -> list[Frame]:
    """Splits a frame that may be too large for a receiver; the last part has the type of the frame.

    >>> [type(each).__name__ for each in in_parts(Sync(dict.fromkeys(range(100_000), 1), {}, True, False))]
    ['Part', 'Part', 'Part', 'Sync']
    """
    parts: list[Frame] = []
    if isinstance(frame, Refuse):
        *most, last = [*_pieces(frame.lacking)] or [{}]
        return [*(Part(piece, {}, []) for piece in most), Refuse(last, frame.provider)]
    upto = frame.upto if isinstance(frame, Sync) else frame.base
    gone: list[NodeId] = [] if isinstance(frame, Sync) else frame.gone
    if max(len(upto), len(frame.births), len(gone)) <= PIECE:
        return [frame]
    *most, upto = [*_pieces(upto)] or [{}]
    parts += [Part(piece, {}, []) for piece in most]
    *some, births = [*_pieces(frame.births)] or [{}]
    parts += [Part({}, piece, []) for piece in some]
    *rest, gone = [gone[at : at + PIECE] for at in range(0, len(gone), PIECE)] or [[]]
    parts += [Part({}, {}, piece) for piece in rest]
    if isinstance(frame, Sync):
        return [*parts, Sync(upto, births, frame.want, frame.take)]
    return [*parts, Start(upto, births, gone, frame.more)]


def joined(parts: list[Part], frame: Summary) -> Summary:
    """Joins what was sent in parts."""
    upto: dict[NodeId, int] = {}
    births: dict[NodeId, tuple[NodeId, int]] = {}
    gone: list[NodeId] = []
    for part in parts:
        upto |= part.upto
        births |= part.births
        gone += part.gone
    match frame:
        case Sync():
            return Sync(upto | frame.upto, births | frame.births, frame.want, frame.take)
        case Refuse():
            return Refuse(upto | frame.lacking, frame.provider)
        case Start():
            return Start(upto | frame.base, births | frame.births, gone + frame.gone, frame.more)
