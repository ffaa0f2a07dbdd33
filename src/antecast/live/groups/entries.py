"""What origins sign: the numbered entries inside frames, and those that a protocol may still send.

An *entry* is a message, or whatever else a protocol numbers, keeps and passes on under the name of its origin,
such as the notices of PC-broadcast. It is known by its fields: a struct with `origin` and `seq`. Where a frame
has its entries follows from the declared types of its fields, so a protocol that bundles messages needs to
declare nothing.

A signature covers the whole entry as the wire has it. Exception: where relays put stamps of their own on messages
(`RESTAMPED`), it cannot cover the stamp.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import inspect

from antecast.core import Codec, Frame, Message, NodeId, Protocol

Name: TypeAlias = tuple[NodeId, int]
"""Origin and number of an entry."""

RESTAMPED: Final = frozenset({"cellular"})
"""Protocols whose relays replace the stamps of messages: a station writes its own order into them. There the stamp
is the word of the station that sends the frame, which TLS vouches for, not of the origin."""

_encode = msgspec.msgpack.Encoder().encode

_NOTHING: tuple[Any, ...] = ()


def entries(frame: Frame) -> tuple[Any, ...]:
    """The entries inside a frame, in order.

    >>> from antecast.core import Message
    >>> [(each.origin, each.seq) for each in entries(Message(3, 1, b"hi", None))]
    [(3, 1)]
    """
    if frame.__class__ is Message:
        return (frame,)
    return _finder(frame.__class__)(frame)


@cache
def _finder(kind: type[Frame]) -> Callable[[Any], tuple[Any, ...]]:
    if _is_entry(kind):
        return lambda frame: (frame,)
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    fields = [each.name for each in info.fields if _may_hold_entries(each.type, set())]
    if not fields:
        return lambda frame: _NOTHING
    return lambda frame: tuple(each for field in fields for each in _walk(getattr(frame, field)))


def _is_entry(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct) and {"origin", "seq"} <= set(kind.__struct_fields__)


def _may_hold_entries(declared: inspect.Type, seen: set[Any]) -> bool:
    if isinstance(declared, inspect.StructType):
        if {"origin", "seq"} <= {each.name for each in declared.fields}:
            return True
        if declared.cls in seen:
            return False
        return any(_may_hold_entries(each.type, seen | {declared.cls}) for each in declared.fields)
    parts: list[inspect.Type] = []
    for name in ("item_type", "key_type", "value_type", "type"):
        part = getattr(declared, name, None)
        parts += [part] if isinstance(part, inspect.Type) else []
    for name in ("item_types", "types"):
        parts += getattr(declared, name, ())
    return isinstance(declared, inspect.AnyType) or any(_may_hold_entries(each, seen) for each in parts)


def _walk(value: Any) -> Iterable[Any]:
    if isinstance(value, msgspec.Struct):
        if _is_entry(type(value)):
            yield value
        else:
            for field in value.__struct_fields__:
                yield from _walk(getattr(value, field))
    elif isinstance(value, dict):
        for each in value.values():
            yield from _walk(each)
    elif isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from _walk(each)


def content(entry: Any, *, stamped: bool = True) -> bytes:
    """What is signed of an entry: its encoding, without the stamp where relays replace that."""
    if not stamped and isinstance(entry, Message) and entry.stamp is not None:
        entry = Message(entry.origin, entry.seq, entry.payload, None)
    return _encode(entry)


_LEAVES = (int, float, complex, str, bytes, bool, type(None), type, Enum, Codec, types.ModuleType)
_METHODS = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)


def kept_by(protocol: Protocol) -> tuple[dict[Name, list[Any]], int]:
    """The entries that a protocol object holds, by name, and how many values were looked at.

    A protocol does no I/O and has no state but its own object, so an entry that it will ever send again, other
    than those in the call at hand, can be reached from that object: this finds all of them."""
    found: dict[Name, list[Any]] = {}
    seen: set[int] = set()
    stack: list[Any] = [protocol]
    looked_at = 0
    while stack:
        thing = stack.pop()
        kind: Any = type(thing)
        parts = _parts_of(kind)
        if parts is None:
            continue
        looked_at += 1
        if parts is _ENTRY:
            found.setdefault((thing.origin, thing.seq), []).append(thing)
        elif id(thing) not in seen:
            seen.add(id(thing))
            stack += parts(thing)
    return found, looked_at


def _entry(thing: Any) -> list[Any]:
    return []


_ENTRY = _entry
"""Marks the types that are entries."""


@cache
def _parts_of(kind: type) -> Callable[[Any], Iterable[Any]] | None:
    """How to get at what a thing of this type holds; None if it holds nothing of interest."""
    if issubclass(kind, _LEAVES):
        return None
    if issubclass(kind, msgspec.Struct):
        fields = kind.__struct_fields__
        return _ENTRY if _is_entry(kind) else lambda thing: [getattr(thing, field) for field in fields]
    if kind in _METHODS:
        return lambda thing: [thing.__self__]
    if kind is types.FunctionType:  # not its globals
        empty = types.CellType()
        return lambda thing: [cell.cell_contents for cell in thing.__closure__ or () if cell != empty]
    return gc.get_referents
