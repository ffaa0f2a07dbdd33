"""Names in the order that a reader expects: numbers and times by size, other names as they come."""

from __future__ import annotations

import re
from collections.abc import Iterable

from antecast.core.settings import parse_duration
from antecast.papers.paper import seconds

_PARTS = re.compile(r"(\d[\d,]*\.?\d*)")


def by_size(names: Iterable[str]) -> list[str]:
    """Sorted by their numbers, if all have some in the same places; else in the order given.

    >>> by_size(["120'", "20'", "none", "5'"]), by_size(["1h", "5min", "100s"]), by_size(["b", "a"])
    (["5'", "20'", "120'", 'none'], ['100s', '5min', '1h'], ['b', 'a'])
    >>> by_size(["ε = 30", "ε = 5", "ε = 10"])
    ['ε = 5', 'ε = 10', 'ε = 30']
    """
    given = list(names)
    keys = {name: size_key(name) for name in given}
    sized = [key for key in keys.values() if key[0] == 0]
    if len(sized) >= 2 and len({key[2] for key in sized}) == 1:
        return sorted(given, key=lambda name: (keys[name][0], keys[name][1]))
    return given


def size_key(name: str) -> tuple[int, float, str]:
    """A key to sort by: names with a size first, and of these the smallest; what has no size comes last."""
    for read in (lambda text: parse_duration(text) / 1e9, seconds, lambda text: float(text.replace(",", ""))):
        try:
            return 0, read(name), ""
        except ValueError:
            continue
    parts = _PARTS.split(name)
    if len(parts) > 1:
        return 0, float(parts[1].replace(",", "")), "".join(parts[0::2])
    return 1, 0.0, name
