"""What an object holds, in bytes: itself and everything that can be reached from it."""

from __future__ import annotations

import gc
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import msgspec

from antecast.core import Codec

_SHARED = type, ModuleType, FunctionType, BuiltinFunctionType, Codec
"""Shared by objects, and not weighed."""


def weight(root: object) -> int:
    """
    >>> weight([bytes(1000)]) > 1000
    True
    """
    seen: set[int] = set()
    total, waiting = 0, [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, _SHARED):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        if isinstance(each, msgspec.Struct):
            waiting += [getattr(each, name) for name in each.__struct_fields__]
        elif isinstance(each, MethodType):
            waiting.append(each.__self__)
        else:
            waiting += gc.get_referents(each)
    return total
