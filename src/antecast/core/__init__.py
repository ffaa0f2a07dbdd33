"""The contract between protocols and whatever drives them. No I/O, no clock, no randomness.

A protocol is a state machine: calls go in (a broadcast, a received frame, a link that came up, a
timer), lists of effects come out. The simulator, the asyncio runtime and the tests all drive the
same object through this one contract.
"""

from antecast.core.effects import (
    Accepted,
    Alert,
    CancelTimer,
    Deliver,
    Discard,
    Effect,
    Send,
    SetTimer,
    Transmit,
)
from antecast.core.errors import (
    AntecastError,
    ConfigurationError,
    FrameTooLarge,
    InputError,
    LocalMisuse,
    MalformedFrame,
    OutputError,
    RemoteFault,
    UnsupportedVersion,
)
from antecast.core.frames import MAX_PAYLOAD, MAX_SOURCES, Clock, Frame, Message
from antecast.core.ids import MessageId, NodeId, Timer
from antecast.core.protocol import Leaving, LinkSafety, Protocol, State
from antecast.core.wire import Codec

__all__ = [
    "MAX_PAYLOAD",
    "MAX_SOURCES",
    "Accepted",
    "Alert",
    "AntecastError",
    "CancelTimer",
    "Clock",
    "Codec",
    "ConfigurationError",
    "Deliver",
    "Discard",
    "Effect",
    "Frame",
    "FrameTooLarge",
    "InputError",
    "Leaving",
    "LinkSafety",
    "LocalMisuse",
    "MalformedFrame",
    "Message",
    "MessageId",
    "NodeId",
    "OutputError",
    "Protocol",
    "RemoteFault",
    "Send",
    "SetTimer",
    "State",
    "Timer",
    "Transmit",
    "UnsupportedVersion",
]
