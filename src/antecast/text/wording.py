"""Words and numbers as people read them: three digits that count, and the unit that fits."""

from collections.abc import Iterable
from datetime import UTC, datetime
from math import isnan
from unicodedata import category

_TIMES = ((3_600 * 10**9, "h"), (60 * 10**9, "min"), (10**9, "s"), (10**6, "ms"), (10**3, "µs"), (1, "ns"))
_SIZES = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def escaped(text: str) -> str:
    """Words of others as one line that moves no cursor: what would be obeyed and not shown is escaped.

    >>> print(escaped("one\\ntwo, \\x1b[2Jthree"), escaped("déjà\\u00a0vu"))
    one\\ntwo, \\x1b[2Jthree déjà\xa0vu
    """
    return text if text.isprintable() else "".join(map(_escaped, text))


_JOINERS = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"
"""They are part of how some scripts are written."""


def _escaped(each: str) -> str:
    obeyed = category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp") and each not in _JOINERS and each != "\t"
    return repr(each)[1:-1] if obeyed else each


def time_unit(most: float) -> tuple[int, str]:
    """Nanoseconds of the unit for times up to `most` nanoseconds, and its sign.

    >>> time_unit(459e6), time_unit(90e9), time_unit(8e12)
    ((1000000, 'ms'), (1000000000, 's'), (60000000000, 'min'))
    """
    large = {"h": 10, "min": 10}  # 90 s and 90 min read better than fractions of the next unit
    return next(((size, sign) for size, sign in _TIMES if most >= size * large.get(sign, 1)), _TIMES[-1])


def time_text(ns: float | None) -> str:
    """
    >>> time_text(162_400_000), time_text(None), time_text(0)
    ('162 ms', '–', '0 s')
    """
    if ns is None or isnan(ns):
        return "–"
    if not ns:
        return "0 s"
    size, sign = time_unit(abs(ns))
    return f"{number(ns / size)} {sign}"


def number(value: float | None) -> str:
    """
    >>> number(40576), number(5.0234), number(0.00512), number(None)
    ('40,576', '5.02', '0.00512', '–')
    """
    if value is None or isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def size_text(count: float | None) -> str:
    """
    >>> size_text(39_082), size_text(64)
    ('39.1 kB', '64 B')
    """
    if count is None or isnan(count):
        return "–"
    for size, sign in _SIZES:
        if abs(count) >= size:
            return f"{number(count / size)} {sign}"
    return f"{number(count)} B"


def share_text(share: float | None) -> str:
    """A share in per cent; only what is whole is called whole, and only what is nothing is called nothing.

    >>> [share_text(share) for share in (1, 0.99999, 0.5, 0.000012, 0, None)]
    ['100 %', '> 99.99 %', '50.00 %', '0.0012 %', '0 %', '–']
    """
    if share is None or isnan(share):
        return "–"
    if 0.9999 < share < 1:
        return "> 99.99 %"
    return f"{100 * share:.2f} %" if 0.0001 <= share < 1 else f"{number(100 * share)} %"


def plural(count: int, word: str, many: str = "") -> str:
    """
    >>> plural(1, "run"), plural(1200, "run"), plural(2, "delivery", "deliveries")
    ('1 run', '1,200 runs', '2 deliveries')
    """
    return f"{count:,} {word if count == 1 else many or word + 's'}"


_YEARS = range(946_684_800 * 10**9, 4_102_444_800 * 10**9)
"""Nanoseconds from 2000 to 2100. No node counts so far: a position in here is a time."""


def position(pos: int) -> str:
    """A place in a node's history: a count, or a time where the log has times for positions.

    >>> position(5), position(1_772_359_200_300_000_000)
    ('5', '2026-03-01T10:00:00.3Z')
    """
    if pos not in _YEARS:
        return str(pos)
    seconds, rest = divmod(pos, 10**9)
    fraction = f".{rest:09}".rstrip("0").rstrip(".")
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


def at_position(pos: int) -> str:
    """
    >>> at_position(5), at_position(1_772_359_200_300_000_000)
    ('position 5', '2026-03-01T10:00:00.3Z')
    """
    return position(pos) if pos in _YEARS else f"position {pos}"


def listed(words: Iterable[str], last: str = "and") -> str:
    """
    >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
    ('a, b and c', 'a', 'none')
    """
    each = list(words)
    return f"{', '.join(each[:-1])} {last} {each[-1]}" if len(each) > 1 else (each or ["none"])[0]
