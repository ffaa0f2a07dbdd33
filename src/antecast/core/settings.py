"""Settings: typed, immutable configuration with errors that a person can act on.

A settings class is a msgspec struct that refuses unknown keys. `read_settings` turns plain values,
as TOML gives them, into one, and every error names the path of the field, what is wrong with it and
what would be right. Durations, rates and sizes are written with their unit (`"250ms"`, `"10Mb/s"`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from math import isfinite
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from antecast.core.errors import ConfigurationError
from antecast.text.mistakes import explain

NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_BITS_A_SECOND: Final = {"b/s": 1, "kb/s": 10**3, "Mb/s": 10**6, "Gb/s": 10**9}
_MOST: Final = 1 << 62
"""Quantities are smaller, so that a sum of two fits into 64 bits: in nanoseconds, 146 years."""
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\D+?)\s*")


FileName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]*$")]
"""The path of a file. No path holds the character NUL."""


class Duration(int):
    """A length of time in nanoseconds, read from text such as "1.5s"; zero or more."""

    def __str__(self) -> str:
        return format_duration(self)


class Offset(Duration):
    """A difference of two times, which may be negative."""


class BitRate(int):
    """Bits per second, read from text such as "10Mb/s"."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all settings."""


T = TypeVar("T")


def parse_duration(text: object) -> int:
    """Nanoseconds from text such as "250ms"; a bare 0 needs no unit.

    >>> parse_duration("1.5s"), parse_duration("2min"), parse_duration(0)
    (1500000000, 120000000000, 0)
    """
    return _quantity(text, NANOSECONDS, "a duration with its unit", '"250ms" or "1.5s"')


def format_duration(ns: int) -> str:
    """The shortest exact way to write a duration.

    >>> format_duration(1_500_000_000), format_duration(0), format_duration(90_000)
    ('1.5s', '0s', '90us')
    """
    if ns == 0:
        return "0s"
    for unit in ("h", "min", "s", "ms", "us"):
        scale = NANOSECONDS[unit]
        if ns % scale == 0 or (unit in ("s", "ms", "us") and abs(ns) >= scale and ns % (scale // 1000) == 0):
            return f"{(Decimal(ns) / scale).normalize():f}{unit}"
    return f"{ns:d}ns"


def _quantity(value: object, units: Mapping[str, int], what: str, example: str) -> int:
    if value == 0 and not isinstance(value, bool | str):
        return 0
    if isinstance(value, str) and (match := _QUANTITY.fullmatch(value)) and match[2] in units:
        return _whole(match[1], units[match[2]], value)
    shown = f"got {value!r}" + (" without a unit" if isinstance(value, int | float) else "")
    raise ValueError(f"expected {what}, such as {example} (units: {', '.join(units)}), {shown}")


def _whole(digits: str, unit: int, value: str) -> int:
    """The quantity in whole units; a large exponent is never written out, which would take all memory."""
    try:
        amount = Decimal(digits) * unit
    except ArithmeticError:
        amount = Decimal(_MOST)
    if abs(amount) >= _MOST:
        raise ValueError(f"{value!r} is too large")
    return int(amount.to_integral_value())


def _decode(kind: type, value: object) -> object:
    if issubclass(kind, Duration):
        ns = kind(parse_duration(value))
        if ns < 0 and not issubclass(kind, Offset):
            raise ValueError(f"expected a duration of zero or more, got {value!r}")
        return ns
    if issubclass(kind, BitRate):
        rate = BitRate(_quantity(value, _BITS_A_SECOND, "a bit rate with its unit", '"10Mb/s"'))
        if rate <= 0:
            raise ValueError(f"expected a bit rate above zero, got {value!r}")
        return rate
    raise TypeError(f"settings cannot hold a {kind.__name__}")


def _encode(value: object) -> object:
    if isinstance(value, Duration):
        return format_duration(value)
    if isinstance(value, BitRate):
        return f"{int(value)}b/s"
    raise TypeError(f"settings cannot hold a {type(value).__name__}")


def read_settings(values: Mapping[str, object], kind: type[T], *, path: str = "") -> T:
    """Build settings of a kind from plain values, or raise a `ConfigurationError` that names the field."""
    for field, value in _endless(values):
        raise ConfigurationError(f"expected a finite number, got {value}", field=_join(path, field))
    try:
        return msgspec.convert(values, kind, dec_hook=_decode)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).rpartition(" - at `$")
        if not problem:
            problem, where = str(error), "`"
        field = _join(path, where.rstrip("`").strip("."))
        raise ConfigurationError(explain(problem, values, kind, where.rstrip("`")), field=field or None) from None


def _endless(value: object, path: str = "") -> Iterator[tuple[str, float]]:
    """The numbers among plain values that are infinite or not a number, which TOML can spell, and their fields."""
    if isinstance(value, float) and not isfinite(value):
        yield path, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _endless(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _endless(each, f"{path}[{index}]")


def plain_settings(settings: Any) -> dict[str, Any]:
    """The plain values that `read_settings` would turn into these settings again."""
    plain = msgspec.to_builtins(settings, enc_hook=_encode)
    assert isinstance(plain, dict)
    return plain


def _join(path: str, rest: str) -> str:
    return f"{path}.{rest}" if path and rest and not rest.startswith("[") else path + rest
