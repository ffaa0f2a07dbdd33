"""Kinds of vehicles: the route types of GTFS and the extended ones that many feeds use instead.

A kind is a name such as `bus`. The extended codes (those of the European TPEG standard) go by the
hundred: 700 to 799 are buses of one sort or another.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from antecast.core.errors import ConfigurationError

BASIC: Final = {
    0: "tram",
    1: "subway",
    2: "rail",
    3: "bus",
    4: "ferry",
    5: "cable",
    6: "gondola",
    7: "funicular",
    11: "trolleybus",
    12: "monorail",
}
_HUNDREDS: Final = {
    1: "rail",
    2: "coach",
    3: "rail",
    4: "subway",
    5: "subway",
    6: "subway",
    7: "bus",
    8: "trolleybus",
    9: "tram",
    10: "ferry",
    11: "air",
    12: "ferry",
    13: "gondola",
    14: "funicular",
    15: "taxi",
}
_MONORAIL: Final = 405
KINDS: Final = tuple(dict.fromkeys([*BASIC.values(), *_HUNDREDS.values(), "other"]))


def speed_limit(kind: str) -> float:
    """Metres per second above which a timetable cannot be meant literally.

    Generous: it is there to find times that were rounded, not drivers that speed.
    """
    return {"rail": 100.0, "air": 300.0}.get(kind, 35.0)


def kind_of(code: int) -> str:
    """The kind that a route type stands for.

    >>> kind_of(3), kind_of(704), kind_of(900), kind_of(405), kind_of(1700)
    ('bus', 'bus', 'tram', 'monorail', 'other')
    """
    if code == _MONORAIL:
        return "monorail"
    return BASIC.get(code) or (_HUNDREDS.get(code // 100) if code >= 100 else None) or "other"


def chosen(wanted: Sequence[str], code: int) -> bool:
    """Whether a route type is among those asked for, by name or by number. Default: all.

    >>> chosen(["tram", "715"], 715), chosen(["tram"], 3), chosen([], 3)
    (True, False, True)
    """
    return not wanted or kind_of(code) in wanted or str(code) in wanted


def check_wanted(wanted: Sequence[str]) -> None:
    """Refuse unknown names of route types."""
    for each in wanted:
        if each not in KINDS and not each.isdecimal():
            near = difflib.get_close_matches(each, KINDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(KINDS)}, or a number of GTFS"
            raise ConfigurationError(f"unknown route type {each!r}; {hint}", field="--route-type")
