"""The options of `antecast audit` as values: names, lists, sizes and times from what was typed."""

from __future__ import annotations

from antecast.core import ConfigurationError
from antecast.text.sizes import parse_size


def pairs_of(option: str, text: str | None, known: tuple[str, ...]) -> dict[str, str]:
    """Names from text such as `node=host,pos=offset`."""
    pairs: dict[str, str] = {}
    for part in (text or "").split(",") if text else ():
        name, equals, value = (each.strip() for each in part.partition("="))
        if name not in known or not equals or not value or name in pairs:
            problem = f"expected NAME=VALUE with each of {', '.join(known)} at most once, got {part.strip()!r}"
            raise ConfigurationError(problem, field=option)
        pairs[name] = value
    return pairs


def names_of(text: str | None) -> list[str] | None:
    """A list such as `a,b`; `all` is no list, and `none` an empty one.

    >>> names_of("a, b"), names_of("all"), names_of("none")
    (['a', 'b'], None, [])
    """
    if text is None or text == "all":
        return None
    return [] if text == "none" else [each.strip() for each in text.split(",") if each.strip()]


def dense_of(text: str | None) -> list[str] | None:
    """Which numbers are dense: `pos`, `seq`, `pos,seq` or `none`; None to find out."""
    if text in (None, "auto"):
        return None
    return [] if text == "none" else [each.strip() for each in str(text).split(",")]


def bytes_of(option: str, text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise ConfigurationError(str(error), field=option) from None


def nanoseconds_of(option: str, text: str | None) -> int:
    """A duration such as `5ms`."""
    from antecast.comparison.demands import parse_latency

    if text is None:
        return 0
    try:
        return round(parse_latency(text))
    except ValueError as error:
        raise ConfigurationError(str(error), field=option) from None
