"""Effects: what a protocol asks its driver to do. Frozen values, carried out in the order given.

The driver hands a `Deliver` to the application before it goes on to the next effect. What the
application broadcasts from inside that delivery is the next call: see rule 1 in `core.protocol`.
"""

from typing import Any, TypeAlias

import msgspec

from antecast.core.frames import Frame, Message
from antecast.core.ids import MessageId, NodeId, Timer


class Send(msgspec.Struct, frozen=True, gc=False):
    """Send a frame over the link to one neighbour."""

    to: NodeId
    frame: Frame


class Transmit(msgspec.Struct, frozen=True, gc=False):
    """Send a frame to whoever hears it: the whole cell of a shared medium."""

    frame: Frame


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Hand a message to the application. This is the event that orders are about."""

    message: Message[Any]


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The broadcast just asked for has this name. Where a node's own messages come back to it through the
    network, this stands in the effects of `broadcast` instead of the delivery, which follows later."""

    id: MessageId


class Discard(msgspec.Struct, frozen=True, gc=False):
    """A message will never be delivered here; the reason is a word for logs and counts."""

    id: MessageId
    reason: str


class Alert(msgspec.Struct, frozen=True, gc=False):
    """Something is wrong that a person should know about: this node may have lost its state, or a neighbour is
    broken or lying. The protocol goes on. The driver logs the text and counts it; each is said once per link."""

    text: str


class SetTimer(msgspec.Struct, frozen=True, gc=False):
    """Call `timer(token)` at this time of the local clock; replaces a time set before."""

    token: Timer
    at: int


class CancelTimer(msgspec.Struct, frozen=True, gc=False):
    """Forget a timer; nothing happens if it is not set."""

    token: Timer


Effect: TypeAlias = Send | Transmit | Deliver | Accepted | Discard | Alert | SetTimer | CancelTimer
