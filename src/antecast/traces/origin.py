"""Where the time of a run begins in a trace.

Some traces count their seconds from their own start or from midnight, others from 1970. A run that took the
latter at their word would simulate decades of nothing. So where a trace begins a day or more after its zero, and
later than it is long, time 0 of the run is the start of the trace. Its own times are kept for display.
"""

from datetime import UTC, datetime, timedelta

from antecast.core.settings import format_duration

DAY = 86_400 * 10**9
_CALENDAR = 10_000 * DAY
"""Times beyond this (May 1997) are taken for those of a calendar, when they are shown."""


def find_origin(start: int, end: int, shift: bool | None = None) -> int:
    """The time in a trace, of which `start` and `end` are the first and last, that is 0 in a run.

    >>> find_origin(31_220 * 10**9, 60_000 * 10**9), find_origin(1_246_255_220 * 10**9, 1_246_300_000 * 10**9)
    (0, 1246255220000000000)
    """
    if shift is None:
        shift = start >= DAY and start > end - start
    return start if shift else 0


def describe_origin(origin: int) -> str:
    """
    >>> describe_origin(1_246_255_220 * 10**9)
    'time 0 of the run is 1246255220 s in the trace (2009-06-29 06:00:20 UTC, if it counts from 1970)'
    """
    seconds = format_duration(origin) if origin % 10**9 else f"{origin // 10**9} s"
    date = ""
    if origin > _CALENDAR:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=origin // 1000)
        date = f" ({moment:%Y-%m-%d %H:%M:%S} UTC, if it counts from 1970)"
    return f"time 0 of the run is {seconds} in the trace{date}"
