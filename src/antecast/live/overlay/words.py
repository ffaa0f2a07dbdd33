"""What members of an overlay say to each other, beside the packets of the protocol, over the links they have.

A word is MessagePack, bounded at 64 KiB before it is read. One that does not decode costs its sender the link.
What a word says is never more than a hint where to dial: who answers there has to greet as any other node does.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from antecast.core import RemoteFault
from antecast.core.wire import UNDECODABLE

MAX_WORD: Final = 1 << 16
MOST_OFFERS: Final = 64
MOST_NEAR: Final = 2048

_Number = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
_Token = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_Place = Annotated[str, msgspec.Meta(min_length=3, max_length=270)]
_Numbers = Annotated[list[_Number], msgspec.Meta(max_length=MOST_NEAR)]


class BadWord(RemoteFault):
    """No member says this."""


class Here(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=0):
    """The first word over a link: where this member listens, and who is near it."""

    place: _Place
    near: _Numbers
    """Its neighbours and theirs."""


class State(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=1):
    """How this end of the link stands; said again when it changes."""

    safe: bool
    """Whether this way is safe."""
    needed: bool
    """Whether this member needs the connection."""


class Near(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=2):
    """This member's neighbours."""

    near: _Numbers


class Offer(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An arc that is lent: its end, where that listens, and a name for the answer."""

    token: _Token
    peer: _Number
    place: _Place


_Offers = Annotated[list[Offer], msgspec.Meta(max_length=MOST_OFFERS)]


class Exchange(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=3):
    """Let us swap half of our views; the arc between us turns round."""

    token: _Token
    offers: _Offers


class Answer(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=4):
    token: _Token
    agreed: bool
    offers: _Offers


class Join(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=5):
    """A newcomer asks its contact to tell others; or first, with hops left, for another contact.

    Many may have been given the same contact. If it told its neighbours of all of them, its view would grow and
    grow, and theirs; Spray's arithmetic is for contacts that are chosen at random.
    """

    hops: Annotated[int, msgspec.Meta(ge=0, le=8)]


class Welcome(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=6):
    """A contact asks a neighbour to take an arc to a newcomer."""

    offer: Offer


class Refer(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=7):
    """A contact names another one in its place."""

    offer: Offer
    hops: Annotated[int, msgspec.Meta(ge=0, le=8)]


class Reply(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=8):
    """Whether an arc that was offered was taken."""

    token: _Token
    taken: bool


Word: TypeAlias = Here | State | Near | Exchange | Answer | Join | Welcome | Refer | Reply

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Word] = msgspec.msgpack.Decoder(Word)


def encode_word(word: Word) -> bytes:
    """
    >>> decode_word(encode_word(Reply(3, True)))
    Reply(token=3, taken=True)
    """
    return _encoder.encode(word)


def decode_word(data: bytes) -> Word:
    """Raises `BadWord`."""
    try:
        return _decoder.decode(data)
    except UNDECODABLE:
        raise BadWord("it sent a word that no member of an overlay says") from None
