"""All that an object holds, as nested tuples that can be compared.

A snapshot is what survives a crash. What a call has changed may lie outside it: links, offers, quotas, caches. Two
states are equal if the same objects hold the same values in the same order.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from itertools import chain
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import msgspec

from antecast.core import Codec

_PLAIN = (int, float, str, bytes, type(None), type, Enum)
_CALLS = (FunctionType, BuiltinFunctionType, MethodType)


def whole_state(thing: object) -> object:
    """All that an object holds, caches included.

    >>> whole_state({1: [2, {3}]})
    ('dict', (1, ('list', 2, ('set', 3))))
    """
    return _walk(thing, {})


def _walk(value: Any, seen: dict[int, int]) -> object:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, _CALLS):
        return "call", value.__qualname__
    if isinstance(value, Codec) or id(value) in seen:
        return "again", seen.get(id(value))
    seen[id(value)] = len(seen)
    kind = type(value).__name__
    if isinstance(value, dict):
        return kind, *((_walk(key, seen), _walk(each, seen)) for key, each in value.items())
    if isinstance(value, set | frozenset):
        return kind, *sorted((_walk(each, seen) for each in value), key=repr)
    if isinstance(value, list | tuple | deque):
        return kind, *(_walk(each, seen) for each in value)
    names: Any = value.__struct_fields__ if isinstance(value, msgspec.Struct) else [
        *chain.from_iterable(getattr(each, "__slots__", ()) for each in type(value).__mro__),
        *getattr(value, "__dict__", ()),
    ]  # fmt: skip
    return kind, *((name, _walk(getattr(value, name), seen)) for name in names if hasattr(value, name))
