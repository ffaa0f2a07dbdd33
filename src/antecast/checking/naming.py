"""How the effects of a call name messages and timers, and how broadcasts are told apart by what they say.

Anything else in an effect, such as a text in place of a number, cannot be carried out: a `TypeError` says so.
"""

from __future__ import annotations

from operator import index
from typing import Any

from antecast.core import Message, MessageId, NodeId, Timer


def payload(node: NodeId, count: int, now: int | None = None) -> bytes:
    """What a node says in its broadcast with this count: no two are alike. Where deadlines count, when it was."""
    return (f"{node}.{count}" if now is None else f"{node}.{count}.{now}").encode()


def said_in(message: Message[Any]) -> tuple[int, int | None]:
    """The count of the broadcast that a message has the payload of, and when it was, if it says so; -1 if its
    source never said that."""
    if not isinstance(message.payload, bytes | bytearray | memoryview):
        raise TypeError(f"the payload of a message is bytes, not {message.payload!r}")
    _, *numbers = bytes(message.payload).split(b".")
    if 1 <= len(numbers) <= 2 and all(each.isdigit() for each in numbers):
        count, now = int(numbers[0]), int(numbers[1]) if len(numbers) == 2 else None
        if message.payload == payload(message.origin, count, now):
            return count, now
    return -1, None


def message_named(name: object) -> MessageId:
    """The name of a message: two whole numbers, of whatever kind."""
    if not isinstance(name, MessageId):
        raise TypeError(f"{name!r} is not the name of a message")
    return MessageId(index(name.origin), index(name.seq))


def token_named(token: object) -> Timer:
    """The name of a timer."""
    if not isinstance(token, str):
        raise TypeError(f"a timer is named by a text, not by {token!r}")
    return token
