"""Values of a protocol's settings that are worth trying, from their declared types alone.

For each field a short list, the default first, so that Hypothesis shrinks towards it. Numbers are tried at the
bottom of their range, where buffers are full and windows closed; durations at a tenth; choices and switches in
every position. A specification can name other values itself (`draws`), where its promises hold only for some.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

from antecast.core import ConfigurationError, NodeId
from antecast.core.settings import Duration, parse_duration, plain_settings
from antecast.protocols.registry import Specification

_SMALL = (0, 1, 2, 3, 4, 5, 20)
_DURATIONS = "100ms", "1s"


def choices(spec: Specification) -> dict[str, list[Any]]:
    """Plain values for each setting, as a scenario would give them.

    >>> from antecast.protocols import specification
    >>> choices(specification("vector"))["retain"]
    [10000, 0, 1, 2, 3, 4, 5, 20]
    """
    info = inspect.type_info(spec.settings)
    assert isinstance(info, inspect.StructType)
    defaults = plain_settings(spec.configure({}))
    found: dict[str, list[Any]] = {}
    for each in info.fields:
        default = defaults[each.encode_name]
        values = list(spec.draws[each.name]) if each.name in spec.draws else _values(each.type, default)
        first = [] if each.name in spec.draws else [default]
        found[each.name] = first + [value for value in values if value != default or each.name in spec.draws]
    return found


def _values(kind: inspect.Type, default: Any) -> list[Any]:
    match kind:
        case inspect.UnionType():
            return [value for each in kind.types for value in _values(each, default)]
        case inspect.BoolType():
            return [False, True]
        case inspect.IntType():
            edges = {kind.ge, kind.ge + 1} if kind.ge is not None else set()
            return [number for number in sorted({*_SMALL, *edges}) if _fits(number, kind)]
        case inspect.LiteralType():
            return list(kind.values)
        case inspect.EnumType():
            return [each.value for each in kind.cls]
        case inspect.CustomType() if issubclass(kind.cls, Duration):
            return list(_DURATIONS) if default is None else [_tenth(default)] if default != "0s" else []
        case _:
            return []


def _fits(number: int, kind: inspect.IntType) -> bool:
    above = (kind.ge is None or number >= kind.ge) and (kind.gt is None or number > kind.gt)
    return above and (kind.le is None or number <= kind.le) and (kind.lt is None or number < kind.lt)


def _tenth(duration: str) -> str:
    return str(Duration(parse_duration(duration) // 10))


@st.composite
def drawn_settings(draw: st.DrawFn, spec: Specification) -> dict[str, Any]:
    """Settings as plain values, without those at their default and those that do not go with the others."""
    drawn: dict[str, Any] = {}
    defaults = plain_settings(spec.configure({}))
    for name, values in choices(spec).items():
        value = draw(st.sampled_from(values))
        if value is None or value == defaults[name]:
            continue
        try:
            spec.configure(drawn | {name: value})
        except ConfigurationError:
            continue
        drawn[name] = value
    return drawn


def messages_kept(settings: Any, nodes: Iterable[NodeId]) -> int | None:
    """The least number of delivered messages that a node keeps; None for all.

    Where sources beyond the `founders` are announced, their notices take room beside the messages.
    """
    retain: int | None = getattr(settings, "retain", None)
    founders: int | None = getattr(settings, "founders", None)
    if retain is None or founders is None:
        return retain
    return max(0, retain - 2 * sum(node >= founders for node in nodes))
