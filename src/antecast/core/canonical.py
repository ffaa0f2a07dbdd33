"""The canonical form of an object's state: a value that is the same only for states that behave equally.

A form is made of text, whole numbers, bytes, None and tuples. Text, whole numbers, bytes and None stand for
themselves; all else becomes a tuple that begins with what it is: the name of something built in, or the form of a
class, which is a tuple. So nothing that a protocol can hold looks like something else, and equality (which takes
`True` for `1` and `-0.0` for `0.0`) tells all apart. What counts is described in `core.structure`.
"""

from __future__ import annotations

import hashlib
import itertools
import marshal
import struct
import sys
import types
from collections import defaultdict, deque
from collections.abc import Hashable
from contextlib import suppress
from enum import Enum, Flag
from functools import cache, partial
from operator import attrgetter
from typing import Any, Final, cast

import msgspec

from antecast.core.structure import (
    METHODS,
    NUMBERS_AND_TEXT,
    TOO_DEEP,
    NotAStructure,
    base_of,
    check_bare,
    check_object,
    factory_of,
    is_empty,
    is_still,
    is_value,
    known_objects,
    known_still,
    mark_of,
    name_of,
    of_its_class,
    slots,
)
from antecast.core.wire import Codec

_PLAIN = frozenset({int, str, bytes, type(None)})
"""Types whose values are their own form."""
_BARE = frozenset({dict, list, set, deque, bytearray})
"""Containers without attributes."""
_TRUE, _FALSE = ("bool", 1), ("bool", 0)


def canonical_form(thing: object) -> object:
    """A value made of tuples that is equal for equal structures, and for no others; its `repr` is, too.

    >>> canonical_form({1: [2]}) == canonical_form({1: [2]}), canonical_form([1]) == canonical_form([True])
    (True, False)
    """
    try:
        seen: dict[int, int] = {}
        held = _Held()
        form = _form(thing, seen, held)
        if held.shared or not held.inside.isdisjoint(seen):  # something in a struct is held elsewhere, too
            form = _form(thing, {}, _Held(apart=False))
    except RecursionError:
        raise NotAStructure(TOO_DEEP) from None
    return cast("object", form)


class _Held(list[Any]):
    """What a walk has come to. While it is held, no other thing has its id."""

    def __init__(self, *, apart: bool = True) -> None:
        super().__init__()
        self.apart = apart
        """Whether structs are walked by themselves: then it does not matter which of two equal ones is where."""
        self.inside: set[int] = set()
        """What can change, in structs that cannot."""
        self.structs: dict[int, Any] = {}
        """The forms of these structs."""
        self.shared = False
        """Whether two of these structs hold the same, or one holds itself."""


def _form(thing: Any, seen: dict[int, int], held: _Held) -> Any:
    kind = type(thing)
    if kind in _PLAIN:
        return thing
    if kind is bool:
        return _TRUE if thing else _FALSE
    if is_value(kind):
        if is_still(thing):
            return _value_form(thing, kind)
        if held.apart:
            return _form_of_struct(thing, kind, held)
    if kind in known_objects and thing.__dict__:
        known = seen.get(id(thing))
        if known is not None:
            return ("again", known)
        seen[id(thing)] = len(seen)
        held.append(thing)
        skipped = _skipped(cast("Hashable", kind))
        fields = [
            (name, value if type(value) in _PLAIN else _form(value, seen, held))
            for name, value in thing.__dict__.items()
            if name not in skipped
        ]
        return (class_form(kind), (), tuple(fields))
    if issubclass(kind, tuple):
        check_bare(thing, kind)
        return (
            "tuple" if kind is tuple else class_form(kind),
            *[each if type(each) in _PLAIN else _form(each, seen, held) for each in tuple.__iter__(thing)],
        )
    if kind is frozenset:
        return ("frozenset", *_set_form(thing, seen, held))
    if kind in METHODS:  # made anew on each access, so their identity means nothing
        return _method_form(thing, seen, held)
    known = seen.get(id(thing))
    if known is not None:
        return ("again", known)
    seen[id(thing)] = len(seen)
    held.append(thing)
    if issubclass(kind, dict):
        parts: tuple[Any, ...] = tuple(
            [
                (
                    k if type(k) in _PLAIN else _form(k, seen, held),
                    v if type(v) in _PLAIN else _form(v, seen, held),
                )
                for k, v in (thing.items() if kind is dict else base_of(kind).items(thing))
            ]
        )
        if issubclass(kind, defaultdict):
            parts = (parts, _form(factory_of(thing), seen, held))
    elif issubclass(kind, set | frozenset):
        parts = _set_form(thing, seen, held)
    elif issubclass(kind, list | deque):
        each_of = (list if issubclass(kind, list) else deque).__iter__(thing)
        parts = tuple([each if type(each) in _PLAIN else _form(each, seen, held) for each in each_of])
        if issubclass(kind, deque):
            parts = (parts, thing.maxlen)
    elif issubclass(kind, bytearray):
        parts = (bytes(memoryview(thing)),)
    else:
        parts = _other_form(thing, kind, seen, held)
    if kind in _BARE:
        return (kind.__name__, parts)
    return (class_form(kind), parts, *_attributes(thing, kind, seen, held))


def _attributes(thing: Any, kind: type, seen: dict[int, int], held: _Held) -> list[tuple[Any, ...]]:
    """What an object keeps in its dict, in the order in which it does, and in its slots."""
    if kind is types.FunctionType:
        return []
    skipped = _skipped(kind)
    own = getattr(thing, "__dict__", None) or {}
    named = [(name, _form(value, seen, held)) for name, value in own.items() if name not in skipped]
    found: list[tuple[Any, ...]] = []
    if issubclass(kind, msgspec.Struct):
        found += [(name, getattr(thing, name)) for name in kind.__struct_fields__ if hasattr(thing, name)]
    for place, (name, slot) in enumerate(slots(kind)):
        with suppress(AttributeError):
            found.append((name, slot.__get__(thing), place))
    fields = [(name, _form(value, seen, held), *place) for name, value, *place in found if name not in skipped]
    return [tuple(named), tuple(fields)] if fields else [tuple(named)]


@cache
def _skipped(kind: Hashable) -> tuple[str, ...]:
    """What a class names in `tallies`; something else may have that name by chance."""
    named = getattr(kind, "tallies", ())
    good = isinstance(named, tuple | list | set | frozenset) and all(isinstance(each, str) for each in named)
    return tuple(named) if good else ()


def _form_of_struct(thing: Any, kind: Any, held: _Held) -> Any:
    """A frozen struct that holds what can change, by itself."""
    if id(thing) in held.structs:
        known = held.structs[id(thing)]
        held.shared |= known is None
        return known
    held.structs[id(thing)] = None
    held.append(thing)
    inside: dict[int, int] = {}
    fields = [_form(_field(thing, kind, name), inside, held) for name in kind.__struct_fields__]
    held.shared |= not held.inside.isdisjoint(inside)
    held.inside.update(inside)
    form = held.structs[id(thing)] = (class_form(kind), *fields)
    return form


def _field(thing: Any, kind: type, name: str) -> Any:
    try:
        return getattr(thing, name)
    except AttributeError as error:
        raise NotAStructure(f"a {name_of(kind)} is not complete: {error}") from None


def _set_form(thing: Any, seen: dict[int, int], held: _Held) -> tuple[Any, ...]:
    thing, before = list((set if isinstance(thing, set) else frozenset).__iter__(thing)), len(seen)
    forms = [_form(each, seen, held) for each in thing]
    if len(seen) == before:
        return tuple(sorted(forms, key=repr))
    for each in list(seen)[before:]:  # things with an identity are numbered in an order that can be told again
        del seen[each]
    ordered = sorted(thing, key=lambda each: repr(_form(each, {}, _Held())))
    return tuple([_form(each, seen, held) for each in ordered])


def _other_form(thing: Any, kind: type, seen: dict[int, int], held: _Held) -> tuple[Any, ...]:
    if kind is types.FunctionType:
        return _function_form(thing, seen, held)
    if kind is types.CellType:
        return () if is_empty(thing) else (_form(thing.cell_contents, seen, held),)
    if kind is partial:
        return tuple(_form(each, seen, held) for each in (thing.func, thing.args, thing.keywords))
    check_object(thing, kind)
    name = mark_of(thing, kind)
    return () if name is None else ("held as", name)


def _function_form(thing: Any, seen: dict[int, int], held: _Held) -> tuple[Any, ...]:
    cells = [_form(cell, seen, held) for cell in thing.__closure__ or ()]
    kept = [_form(each, seen, held) for each in (thing.__defaults__, thing.__kwdefaults__, thing.__dict__ or None)]
    return (thing.__module__, thing.__qualname__, _code(thing.__code__), *cells, *kept)


def _method_form(thing: Any, seen: dict[int, int], held: _Held) -> tuple[Any, ...]:
    owner, name = thing.__self__, thing.__name__
    form = _form(owner, seen, held)
    if not isinstance(thing, types.MethodType):
        return ("method in C", thing.__qualname__, form)
    if of_its_class(thing):
        return ("method", name, form)
    return ("method", name, form, _form(thing.__func__, seen, held))


def _value_form(thing: Any, kind: type) -> Any:
    if issubclass(kind, msgspec.Struct):
        known = _known_forms.get(id(thing))
        if known is None:
            form = (
                class_form(kind),
                *[_form(getattr(thing, name), {}, _Held()) for name in kind.__struct_fields__],
            )
            if len(_known_forms) >= _MOST_FORMS:
                _known_forms.clear()
                known_still.clear()
            known_still[id(thing)] = thing
            known = _known_forms[id(thing)] = form
        return known
    if issubclass(kind, Enum):
        return _member_form(thing, kind)
    if issubclass(kind, type):
        return class_form(thing)
    if issubclass(kind, types.ModuleType):
        return ("module", thing.__name__)
    if issubclass(kind, Codec):
        return _codec_form(thing, kind)
    if kind is float:
        return ("float", struct.pack(">d", thing))
    if kind is complex:
        return ("complex", struct.pack(">dd", thing.real, thing.imag))
    for base in NUMBERS_AND_TEXT:
        if issubclass(kind, base):  # its own methods may say anything
            exact = cast("Any", base).__getnewargs__(thing)
            return (class_form(kind), *[_form(each, {}, _Held()) for each in exact])
    return ("value", repr(thing))


def _member_form(thing: Any, kind: Any) -> tuple[Any, ...]:
    """Members have names of their own; sums of flags may have none."""
    if issubclass(kind, Flag):
        return (class_form(kind), "flags", int(thing._value_))
    if kind.__members__.get(thing._name_) is not thing:
        raise NotAStructure(
            f"a {name_of(kind)} is not a member of its enumeration; keep the member, or plain values"
        )
    return (class_form(kind), "member", thing._name_)


def _codec_form(thing: Any, kind: type) -> tuple[Any, ...]:
    own = {name: value for name, value in vars(thing).items() if name not in _OF_ANY_CODEC}
    more = [(name, _form(value, {}, _Held())) for name, value in own.items()]
    return (class_form(kind), thing.max_frame, repr(thing.frames), *more)


_OF_ANY_CODEC = frozenset(vars(Codec([int])))

_MOST_FORMS: Final = 100_000
_known_forms: dict[int, Any] = {}
"""Forms of frozen structs by identity, as long as these are in `known_still`."""


@cache
def _code(code: types.CodeType) -> bytes:
    """What a function does: others may have its name."""
    return hashlib.blake2b(marshal.dumps(code, 2), digest_size=16).digest()  # later versions look at identities


# Classes.

_known_classes: dict[type, tuple[Any, ...]] = {}
_alone = itertools.count()
_OF_ANY_CLASS = frozenset(
    {"__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "_abc_impl"}
)


def class_form(kind: type) -> tuple[Any, ...]:
    """A class: by its name where its module has it under that name. Others, such as one that a function makes
    each time that it is called, may have the name of another: they are known by all that is in them."""
    found = _known_classes.get(kind)
    if found is None:
        found = ("class", kind.__module__, kind.__qualname__)
        if not _is_there(kind):
            _known_classes[kind] = found  # what is in it may speak of it
            digest = hashlib.blake2b(repr(_contents(kind)).encode(), digest_size=16).digest()
            found = (*found, digest)
        _known_classes[kind] = found
    return found


def _is_there(kind: type) -> bool:
    with suppress(AttributeError, KeyError):
        return attrgetter(kind.__qualname__)(sys.modules[kind.__module__]) is kind
    return False


def _contents(kind: type) -> tuple[Any, ...]:
    try:
        bases = tuple([class_form(each) for each in (type(kind), *kind.__bases__)])
        own = [(name, each) for name, each in vars(kind).items() if name not in _OF_ANY_CLASS]
        return (bases, *[(name, _part(each)) for name, each in own])
    except (NotAStructure, RecursionError):
        return (next(_alone),)


def _part(thing: Any) -> Any:
    """What a class holds under a name."""
    if isinstance(thing, staticmethod | classmethod):
        return (type(thing).__name__, canonical_form(thing.__func__))
    if isinstance(thing, property):
        return ("property", *[canonical_form(each) for each in (thing.fget, thing.fset, thing.fdel)])
    if isinstance(thing, types.MemberDescriptorType | types.GetSetDescriptorType):
        return ("slot", thing.__name__)
    return canonical_form(thing)
