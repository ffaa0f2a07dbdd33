"""Counters: what a node did, and everything that it dropped, with the reason.

Every bound of a node (a size, a rate, a queue, a timeout) has a counter here and a line in the log, so that an
operator can tell a hostile peer from a slow one.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

COUNTERS: Final = {
    "broadcasts": "messages that this node has broadcast",
    "deliveries": "messages handed to the application",
    "frames_received": "frames that the protocol took",
    "frames_sent": "frames written to links",
    "bytes_received": "bytes of packets received",
    "bytes_sent": "bytes of packets written",
    "groups": "groups of calls committed to the journal",
    "snapshots": "snapshots written",
    "links_up": "links that came up",
    "links_down": "links that ended",
    "timers": "timers that fired",
    "alerts": "alerts of the protocol",
    "discarded": "messages that will never be delivered here",
    "expired": "messages whose lifetime ended before they could be delivered",
    "unreadable": "deliveries whose payload this node has no key for",
    "other_lives": "numbers that stand for two journals: a node has lost its state, or runs twice",
    "dropped_refused": "frames that the protocol refused",
    "dropped_malformed": "packets that are no frames of this protocol",
    "dropped_forged": "packets with a missing or wrong signature; the link was closed",
    "dropped_oversize": "packets above the largest size; the link was closed",
    "throttled": "times that reading from a link paused because its peer sent faster than allowed",
    "dropped_astray": "frames for peers without a link",
    "dropped_link_gone": "frames whose link ended before they could be sent",
    "dropped_slow": "links closed because their peer read too slowly",
    "dropped_silent": "links closed because nothing was heard for too long",
    "refused_hello": "connections refused: no greeting, or a wrong one",
    "refused_identity": "connections refused: the peer is not who it says it is",
    "refused_in_use": "connections refused: the number is in use, or its node has lost its journal",
    "refused_duplicate": "connections closed because another one to the same peer is kept",
    "refused_room": "connections refused: too many at once",
    "dial_failures": "connections that could not be made",
}


class Counters(Counter[str]):
    """Counts by name; all names are known from the start."""

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COUNTERS, 0))
