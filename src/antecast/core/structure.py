"""The state of an object as a structure: copies of it, and its canonical form.

A protocol keeps its state in ordinary attributes, so a copy, and a value for comparing it (`core.canonical`), can
be made without its help. Both walk the same structure:

- *Values* never change and are shared: numbers, text, bytes, enumerations, types, modules, frozen structs of such
  (frames, settings), codecs, functions that keep nothing, and objects without a state that their module holds
  under a name.
- *Containers* are lists, dicts, sets, deques, bytearrays and tuples, and what derives from them. The order of a
  dict counts, since effects may follow it; that of a set does not, and must not matter to its owner.
- *Objects* are known by their class and their attributes, `__slots__` included. A class can name attributes that
  only `gauges()` reports in `tallies`: they are copied, but are not part of the canonical form.
- *Methods* and functions are known by their code and by what they are bound to: an object, a closure, defaults.

What is reached twice stays one thing: two attributes that share a list differ from two that hold equal lists. That
goes for what can change alone; which of two equal tuples or frozen sets an attribute holds, nobody can tell. A
frozen struct can hold what is not frozen, such as a clock: that is copied with it, and if something else holds the
same clock, too, the canonical form says so.
Copies are made by the types that are built in, never by a class's own `__new__`, `__init__` or `__setattr__`:
those may count, check, or give out the same object again.
Anything else, such as an iterator, a generator of random numbers or an open file, is a `NotAStructure` that names
it; a class that needs one implements `clone()` and `canonical()`.
"""

from __future__ import annotations

import struct
import sys
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from functools import partial
from operator import is_
from typing import Any, TypeVar, cast

import msgspec

from antecast.core.wire import Codec

T = TypeVar("T")

_VALUES = (int, float, complex, str, bytes, bool, type(None), type, Enum, Codec, types.ModuleType, type(Ellipsis))

NUMBERS_AND_TEXT = (int, float, complex, str, bytes)

_PLAIN = frozenset({int, str, bytes, bool, float, type(None)})
"""Types whose values are shared as they are."""
METHODS = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)
_IN_C = (types.MethodDescriptorType, types.WrapperDescriptorType)
_NOTHING: Any = object()
_FACTORY: Any = vars(defaultdict)["default_factory"]
_SHALLOW: Any = cast("Any", msgspec.Struct).__copy__
_OF_A_CLASS_STATEMENT = 1 << 9
"""A flag of types that a `class` statement made, not an extension in C."""
_POINTER = struct.calcsize("P")


class NotAStructure(TypeError):
    """Something has a state that is not in its attributes."""


def copy_structure(thing: T) -> T:
    """A copy that shares only values with its original, nothing that can change.

    >>> shared = [1]
    >>> first, second = copy_structure((shared, shared))
    >>> first is second, first is shared
    (True, False)
    """
    try:
        return cast("T", _copy(thing, {}))
    except RecursionError:
        raise NotAStructure(TOO_DEEP) from None


TOO_DEEP = (
    "a structure is too deep to be copied; hold what follows each other in a list, not each in the one before"
)


def _copy(thing: Any, done: dict[int, Any]) -> Any:
    kind = type(thing)
    if kind in _PLAIN or (is_value(kind) and is_still(thing)):
        return thing
    known = done.get(id(thing))
    if known is not None:
        return known
    if kind is dict:
        made: Any = {}
        done[id(thing)] = made
        for key, value in thing.items():
            made[key if type(key) in _PLAIN else _copy(key, done)] = (
                value if type(value) in _PLAIN else _copy(value, done)
            )
        return made
    if kind is list:
        made = []
        done[id(thing)] = made
        made.extend([each if type(each) in _PLAIN else _copy(each, done) for each in thing])
        return made
    if issubclass(kind, tuple):
        check_bare(thing, kind)
        parts = [each if type(each) in _PLAIN else _copy(each, done) for each in tuple.__iter__(thing)]
        return thing if all(map(is_, parts, tuple.__iter__(thing))) else tuple.__new__(kind, parts)
    if kind is frozenset:
        parts = [_copy(each, done) for each in thing]
        return thing if all(map(is_, parts, thing)) else frozenset(parts)
    if kind is set:
        done[id(thing)] = made = set()
        made.update([each if type(each) in _PLAIN else _copy(each, done) for each in thing])
        return made
    if kind in known_objects and thing.__dict__:
        made = done[id(thing)] = object.__new__(kind)
        new = made.__dict__
        for name, value in thing.__dict__.items():
            new[name] = value if type(value) in _PLAIN else _copy(value, done)
        return made
    return _copy_other(thing, kind, done)


def base_of(kind: type) -> type[dict[Any, Any]]:
    return OrderedDict if issubclass(kind, OrderedDict) else dict


def _copy_other(thing: Any, kind: Any, done: dict[int, Any]) -> Any:
    made: Any
    if kind is types.FunctionType:
        return _copy_function(thing, done)
    if kind in METHODS:
        return _copy_method(thing, done)
    if kind is types.CellType:
        made = done[id(thing)] = types.CellType()
        if not is_empty(thing):
            made.cell_contents = _copy(thing.cell_contents, done)
        return made
    if kind is partial:
        made = partial(_copy(thing.func, done), *_copy(thing.args, done), **_copy(thing.keywords, done))
        done[id(thing)] = made
    elif issubclass(kind, deque):  # a class of its own may mean something else by the methods of what it is
        made = done[id(thing)] = deque.__new__(kind)
        deque.__init__(made, (), thing.maxlen)
        deque.extend(made, [_copy(each, done) for each in deque.__iter__(thing)])
    elif issubclass(kind, dict):
        base = base_of(kind)
        made = done[id(thing)] = base.__new__(kind)
        for key, value in base.items(thing):
            base.__setitem__(made, _copy(key, done), _copy(value, done))
        if issubclass(kind, defaultdict):
            _FACTORY.__set__(made, _copy(factory_of(thing), done))
    elif issubclass(kind, list):
        made = done[id(thing)] = list.__new__(kind)
        list.extend(made, [_copy(each, done) for each in list.__iter__(thing)])
    elif issubclass(kind, set):
        made = done[id(thing)] = set.__new__(kind)
        set.update(made, [_copy(each, done) for each in set.__iter__(thing)])
    elif issubclass(kind, bytearray):
        made = done[id(thing)] = bytearray.__new__(kind)
        bytearray.extend(made, memoryview(thing))
    else:
        check_object(thing, kind)
        if mark_of(thing, kind) is not None:
            return thing
        if issubclass(kind, msgspec.Struct):
            return _copy_struct(thing, kind, done)
        made = done[id(thing)] = (root := _root(kind)).__new__(kind)
        if root is object and getattr(thing, "__dict__", None) and not slots(kind):
            known_objects.add(kind)
    _copy_attributes(thing, made, kind, done)
    return made


def factory_of(thing: Any) -> Any:
    """What makes the missing values of a defaultdict; its class may have something else under that name."""
    return _FACTORY.__get__(thing)


def _root(kind: type) -> Any:
    """The type that makes objects of a class, past all that classes do then."""
    return next(base for base in kind.__mro__ if isinstance(vars(base).get("__new__"), types.BuiltinMethodType))


def _copy_struct(thing: Any, kind: Any, done: dict[int, Any]) -> Any:
    try:
        made = done[id(thing)] = _SHALLOW(thing)
    except AttributeError as error:
        raise NotAStructure(f"a {name_of(kind)} is not complete: {error}") from None
    for name in kind.__struct_fields__:
        msgspec.structs.force_setattr(made, name, _copy(getattr(thing, name), done))
    _copy_attributes(thing, made, kind, done)
    return made


def _copy_attributes(thing: Any, made: Any, kind: type, done: dict[int, Any]) -> None:
    own = getattr(thing, "__dict__", None)
    if own:
        made.__dict__.update({name: _copy(value, done) for name, value in own.items()})
    for _, slot in slots(kind):
        value = _NOTHING
        with suppress(AttributeError):
            value = slot.__get__(thing)
        if value is not _NOTHING:
            slot.__set__(made, _copy(value, done))


def _copy_function(function: types.FunctionType, done: dict[int, Any]) -> Any:
    kept = (function.__defaults__, function.__kwdefaults__, function.__dict__ or None)
    parts = tuple(_copy(each, done) for each in kept)
    if not function.__closure__ and all(map(is_, parts, kept)):
        return function
    cells = tuple(_copy(cell, done) for cell in function.__closure__ or ())
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, parts[0], cells)
    made.__kwdefaults__ = parts[1]
    made.__dict__.update(parts[2] or {})
    made.__module__, made.__qualname__ = function.__module__, function.__qualname__
    done[id(function)] = made
    return made


def of_its_class(method: types.MethodType) -> bool:
    """Whether a method is the one that the class of its object has under that name."""
    return getattr(type(method.__self__), method.__name__, None) is method.__func__


def _copy_method(method: Any, done: dict[int, Any]) -> Any:
    """The same method of the copy of its object; of C, it is looked up past what hides it in a class."""
    owner = _copy(method.__self__, done)
    if isinstance(method, types.MethodType):
        function = method.__func__
        return types.MethodType(function if of_its_class(method) else _copy(function, done), owner)
    if owner is method.__self__:
        return method
    for base in type(owner).__mro__:
        found = vars(base).get(method.__name__)
        if isinstance(found, _IN_C):
            return found.__get__(owner)
    raise NotAStructure(f"{method.__qualname__} cannot be copied with what it is bound to; write clone()")


_known_values: dict[type, bool] = {}
_known_slots: dict[type, tuple[tuple[str, Any], ...]] = {}
_known_marks: dict[type, dict[int, tuple[Any, str]]] = {}
known_objects: set[type] = set()
"""Facts about a class, found out once: whether its objects are values, their slots, those that its module holds,
and whether they keep all attributes in a dict."""

known_still: dict[int, Any] = {}
"""Frozen structs of which nothing can change, by identity: settings and frames are met again and again. Each is
held, so that no other has its identity."""


def is_value(kind: type) -> bool:
    found = _known_values.get(kind)
    if found is None:
        frozen = issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen and not kind.__dictoffset__
        found = _known_values[kind] = frozen or issubclass(kind, _VALUES)
    return found


def is_still(value: Any) -> bool:
    """Whether a value holds nothing that can change: frozen structs may hold a list, say."""
    if not isinstance(value, msgspec.Struct):
        if isinstance(value, NUMBERS_AND_TEXT):
            check_bare(value, type(value))
        return True
    if id(value) in known_still:
        return True
    return all(_stays(getattr(value, name, [])) for name in type(value).__struct_fields__)


def _stays(thing: Any) -> bool:
    kind = type(thing)
    if kind in _PLAIN:
        return True
    if issubclass(kind, tuple | frozenset):
        return all(map(_stays, thing))
    return is_value(kind) and is_still(thing)


def is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  (the only way to ask)
    except ValueError:
        return True
    return False


def check_bare(thing: object, kind: type) -> None:
    """Refuse numbers, text and tuples with attributes: these are not part of what they are taken for."""
    if isinstance(thing, Enum):
        return
    fields = getattr(kind, "n_fields", 0) if issubclass(kind, tuple) else 0
    hidden = isinstance(fields, int) and fields > getattr(kind, "n_sequence_fields", fields)
    if hidden or getattr(thing, "__dict__", None) or slots(kind):
        raise NotAStructure(
            f"a {name_of(kind)} is a value with attributes of its own; keep these elsewhere, or write clone()"
        )


def check_object(thing: object, kind: type) -> None:
    if issubclass(kind, msgspec.Struct):
        return
    own = hasattr(thing, "__dict__") or bool(slots(kind)) or bool(kind.__flags__ & _OF_A_CLASS_STATEMENT)
    room = object.__basicsize__ + _POINTER * (len(slots(kind)) + 2)  # for attributes, and for what refers to it
    if not own or kind.__basicsize__ > room or kind.__itemsize__:
        raise NotAStructure(
            f"a {name_of(kind)} cannot be copied as a structure; keep plain values, or write clone()"
        )


def name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def mark_of(thing: Any, kind: type) -> str | None:
    """The name under which its module holds an object without any state, such as a mark for what is missing:
    everybody who compares with it means that very object."""
    if getattr(thing, "__dict__", None) or any(hasattr(thing, name) for name, _ in slots(kind)):
        return None
    found = _known_marks.get(kind)
    if found is None:
        module = vars(sys.modules.get(kind.__module__, types))
        found = {id(held): (held, name) for name, held in module.items() if type(held) is kind}
        _known_marks[kind] = found
    return found[id(thing)][1] if id(thing) in found else None


def attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    """What an object keeps in its dict, in the order in which it does, then in its fields and slots."""
    kind = type(thing)
    yield from (getattr(thing, "__dict__", None) or {}).items()
    for name in kind.__struct_fields__ if issubclass(kind, msgspec.Struct) else ():
        with suppress(AttributeError):
            yield name, getattr(thing, name)
    for name, slot in slots(kind):
        with suppress(AttributeError):
            yield name, slot.__get__(thing)


def slots(kind: type) -> tuple[tuple[str, Any], ...]:
    """The slots of a class and of those it derives from, by the class that has them: two may have one name."""
    found = _known_slots.get(kind)
    if found is None:
        found = _known_slots[kind] = () if issubclass(kind, msgspec.Struct) else tuple(_find_slots(kind))
    return found


def _find_slots(kind: type) -> list[tuple[str, Any]]:
    made = [base for base in kind.__mro__ if "__slots__" in vars(base)]
    return [
        (name, slot)
        for base in made
        for name, slot in sorted(vars(base).items())
        if isinstance(slot, types.MemberDescriptorType) and slot.__objclass__ is base
    ]
