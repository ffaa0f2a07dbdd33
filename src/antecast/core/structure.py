"""The state of an object as a structure: copies of it, and its canonical form.

A protocol keeps its state in ordinary attributes, so a copy, and a value for comparing it, can be made without its
help. Both walk the same structure:

- *Values* never change and are shared: numbers, text, bytes, enumerations, types, frozen structs of such (frames,
  settings), codecs, functions that keep nothing.
- *Containers* are lists, dicts, sets, deques and tuples, and what derives from them. The order of a dict counts,
  since effects may follow it; that of a set does not, and must not matter to its owner.
- *Objects* are known by their class and their attributes, `__slots__` included. A class can name attributes that
  only `gauges()` reports in `tallies`: they are copied, but are not part of the canonical form.
- *Methods* and functions are known by their code and by what they are bound to: an object, a closure, defaults.

What is reached twice stays one thing: two attributes that share a list differ from two that hold equal lists. That
goes for what can change alone; which of two equal tuples or frozen sets an attribute holds, nobody can tell. A
frozen struct can hold what is not frozen, such as a clock: that is copied with it, and if something else holds the
same clock, too, the canonical form says so.
Anything else, such as an iterator, a generator of random numbers or an open file, is a `NotAStructure` that names
it; a class that needs one implements `clone()` and `canonical()`.
"""

from __future__ import annotations

import marshal
import struct
import types
from collections import OrderedDict, deque
from collections.abc import Iterator
from enum import Enum
from functools import cache, partial
from operator import is_
from typing import Any, TypeVar, cast

import msgspec

from antecast.core.wire import Codec

T = TypeVar("T")

_VALUES = (int, float, complex, str, bytes, bool, type(None), type, Enum, Codec, types.ModuleType, type(Ellipsis))

_NUMBERS_AND_TEXT = (int, float, complex, str, bytes)

_PLAIN = frozenset({int, str, bytes, bool, float, type(None)})
"""Types whose values are their own canonical form."""
_BARE = frozenset({dict, list, set, frozenset, deque})
"""Containers without attributes."""
_METHODS = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)
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
    return cast("T", _copy(thing, {}))


def _copy(thing: Any, done: dict[int, Any]) -> Any:
    kind = type(thing)
    if kind in _PLAIN or (_is_value(kind) and _is_still(thing)):
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
        _check_bare(thing, kind)
        parts = [each if type(each) in _PLAIN else _copy(each, done) for each in thing]
        if all(map(is_, parts, thing)):
            return thing
        return kind._make(parts) if hasattr(kind, "_make") else kind(parts)
    if kind is frozenset:
        parts = [_copy(each, done) for each in thing]
        return thing if all(map(is_, parts, thing)) else frozenset(parts)
    if kind is set:
        done[id(thing)] = made = {each if type(each) in _PLAIN else _copy(each, done) for each in thing}
        return made
    if kind in _known_objects:
        made = done[id(thing)] = object.__new__(kind)
        new = made.__dict__
        for name, value in thing.__dict__.items():
            new[name] = value if type(value) in _PLAIN else _copy(value, done)
        return made
    return _copy_other(thing, kind, done)


def _base(kind: type) -> type[dict[Any, Any]]:
    return OrderedDict if issubclass(kind, OrderedDict) else dict


def _copy_other(thing: Any, kind: Any, done: dict[int, Any]) -> Any:
    made: Any
    if kind is types.FunctionType:
        return _copy_function(thing, done)
    if kind in _METHODS:
        return _method(_copy(thing.__self__, done), thing)
    if kind is types.CellType:
        made = done[id(thing)] = types.CellType()
        if not _is_empty(thing):
            made.cell_contents = _copy(thing.cell_contents, done)
        return made
    if kind is partial:
        return partial(_copy(thing.func, done), *_copy(thing.args, done), **_copy(thing.keywords, done))
    if issubclass(kind, deque):
        made = done[id(thing)] = kind(maxlen=thing.maxlen)
        deque.extend(made, (_copy(each, done) for each in deque.__iter__(thing)))
    elif issubclass(kind, dict | list | set):
        made = done[id(thing)] = kind.__new__(kind)
        if issubclass(kind, dict):
            base = _base(kind)
            for key, value in base.items(thing):  # a class of its own may mean something else by these methods
                base.__setitem__(made, _copy(key, done), _copy(value, done))
            if hasattr(thing, "default_factory"):
                made.default_factory = _copy(thing.default_factory, done)
        elif issubclass(kind, list):
            list.extend(made, (_copy(each, done) for each in list.__iter__(thing)))
        else:
            set.update(made, (_copy(each, done) for each in set.__iter__(thing)))
    else:
        _check_object(thing, kind)
        if issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen:
            parts = {name: _copy(getattr(thing, name), done) for name in kind.__struct_fields__}
            made = done[id(thing)] = msgspec.structs.replace(thing, **parts)
            return made
        made = done[id(thing)] = kind.__new__(kind)
        if hasattr(thing, "__dict__") and not issubclass(kind, msgspec.Struct) and not _slots(kind):
            _known_objects.add(kind)
    for name, value in _attributes(thing):
        object.__setattr__(made, name, _copy(value, done))
    return made


def _copy_function(function: types.FunctionType, done: dict[int, Any]) -> Any:
    kept = (function.__defaults__, function.__kwdefaults__, function.__dict__ or None)
    parts = tuple(_copy(each, done) for each in kept)
    if not function.__closure__ and all(map(is_, parts, kept)):
        return function
    cells = tuple(_copy(cell, done) for cell in function.__closure__ or ())
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, parts[0], cells)
    made.__kwdefaults__ = parts[1]
    made.__dict__.update(parts[2] or {})
    made.__qualname__ = function.__qualname__
    done[id(function)] = made
    return made


def _method(owner: Any, method: Any) -> Any:
    """The same method of another object; looked up again, since an attribute of the object may hide that of its
    class."""
    if isinstance(method, types.MethodType):
        return types.MethodType(method.__func__, owner)
    return getattr(owner, method.__name__)


def canonical_form(thing: object) -> object:
    """A value made of tuples that is equal for equal structures, and whose `repr` is too.

    >>> canonical_form({1: [2]}) == canonical_form({1: [2]}), canonical_form([1]) == canonical_form([2])
    (True, False)
    """
    seen: dict[int, int] = {}
    held = _Held()
    form = _form(thing, seen, held)
    if not held.inside.isdisjoint(seen):  # something in a struct is held elsewhere, too
        form = _form(thing, {}, _Held(apart=False))
    return cast("object", form)


class _Held(list[Any]):
    """What a walk has come to. While it is held, no other thing has its id."""

    def __init__(self, *, apart: bool = True) -> None:
        super().__init__()
        self.apart = apart
        """Whether structs are walked by themselves: then it does not matter which of two equal ones is where."""
        self.inside: set[int] = set()
        """What can change, in structs that cannot."""


def _form(thing: Any, seen: dict[int, int], held: _Held) -> Any:
    kind = type(thing)
    if kind in _PLAIN:
        return thing
    if _is_value(kind):
        if _is_still(thing):
            return _value_form(thing, kind)
        if held.apart:
            inside: dict[int, int] = {}
            fields = [_form(getattr(thing, name), inside, held) for name in kind.__struct_fields__]
            held.inside.update(inside)
            return (kind.__qualname__, *fields)
    if kind in _known_objects:
        known = seen.get(id(thing))
        if known is not None:
            return ("again", known)
        seen[id(thing)] = len(seen)
        held.append(thing)
        own, skipped = thing.__dict__, getattr(kind, "tallies", ())
        fields = []
        for name in sorted(own):
            if name not in skipped:
                value = own[name]
                fields.append((name, value if type(value) in _PLAIN else _form(value, seen, held)))
        return (kind.__qualname__, (), tuple(fields))
    if issubclass(kind, tuple):
        _check_bare(thing, kind)
        return (kind.__name__, *[each if type(each) in _PLAIN else _form(each, seen, held) for each in thing])
    if kind is frozenset:
        return ("frozenset", *_set_form(thing, seen, held))
    if kind in _METHODS:  # made anew on each access, so their identity means nothing
        name = getattr(thing, "__qualname__", thing.__name__)
        return (kind.__qualname__, name, _form(thing.__self__, seen, held))
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
                for k, v in (thing.items() if kind is dict else _base(kind).items(thing))
            ]
        )
        if kind is not dict and hasattr(thing, "default_factory"):
            parts = (*parts, ("made by", _form(thing.default_factory, seen, held)))
    elif issubclass(kind, set | frozenset):
        parts = _set_form(thing, seen, held)
    elif issubclass(kind, list | deque):
        each_of = (list if issubclass(kind, list) else deque).__iter__(thing)
        parts = tuple([each if type(each) in _PLAIN else _form(each, seen, held) for each in each_of])
        if issubclass(kind, deque) and thing.maxlen is not None:
            parts = (*parts, ("at most", thing.maxlen))
    else:
        parts = _other_form(thing, kind, seen, held)
    if kind in _BARE:
        return (kind.__qualname__, parts)
    skipped = getattr(kind, "tallies", ())
    named = tuple([(n, _form(v, seen, held)) for n, v in sorted(_attributes(thing)) if n not in skipped])
    return (kind.__qualname__, parts, named)


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
        cells = thing.__closure__ or ()
        contents = [_form(None if _is_empty(cell) else cell.cell_contents, seen, held) for cell in cells]
        kept = [
            _form(each, seen, held) for each in (thing.__defaults__, thing.__kwdefaults__, thing.__dict__) if each
        ]
        return (thing.__module__, thing.__qualname__, _code(thing.__code__), *contents, *kept)
    if kind is partial:
        return tuple(_form(each, seen, held) for each in (thing.func, thing.args, thing.keywords))
    _check_object(thing, kind)
    return ()


def _value_form(thing: Any, kind: type) -> Any:
    if issubclass(kind, msgspec.Struct):
        known = _known_forms.get(id(thing))
        if known is None:
            form = (
                kind.__qualname__,
                *[_form(getattr(thing, name), {}, _Held()) for name in kind.__struct_fields__],
            )
            if len(_known_forms) >= _MOST_FORMS:
                _known_forms.clear()
            known = _known_forms[id(thing)] = (thing, form)
        return known[1]
    if issubclass(kind, Enum):
        return (kind.__qualname__, thing.name)
    if issubclass(kind, type):
        return (thing.__module__, thing.__qualname__)
    if issubclass(kind, Codec | types.ModuleType):
        return kind.__qualname__
    return (kind.__qualname__, repr(thing)) if kind not in (int, complex) else thing


_MOST_FORMS = 100_000
_known_forms: dict[int, tuple[Any, Any]] = {}
"""Forms of frozen structs by identity: settings and frames are met again and again. Each is held with its form, so
that no other has its identity."""

_known_values: dict[type, bool] = {}
_known_slots: dict[type, tuple[str, ...]] = {}
_known_objects: set[type] = set()
"""Facts about a class, found out once: which are values, their slots, which keep all attributes in a dict."""


def _is_value(kind: type) -> bool:
    found = _known_values.get(kind)
    if found is None:
        frozen = issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen
        found = _known_values[kind] = frozen or issubclass(kind, _VALUES)
    return found


def _is_still(value: Any) -> bool:
    """Whether a value holds nothing that can change: frozen structs may hold a list, say."""
    if not isinstance(value, msgspec.Struct):
        if isinstance(value, _NUMBERS_AND_TEXT):
            _check_bare(value, type(value))
        return True
    if id(value) in _known_forms:
        return True
    return all(_stays(getattr(value, name)) for name in type(value).__struct_fields__)


def _stays(thing: Any) -> bool:
    kind = type(thing)
    if kind in _PLAIN:
        return True
    if issubclass(kind, tuple | frozenset):
        return all(map(_stays, thing))
    return _is_value(kind) and _is_still(thing)


@cache
def _code(code: types.CodeType) -> bytes:
    """What a function does: others may have its name."""
    return marshal.dumps(code, 2)  # later versions of the format look at identities, too


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  (the only way to ask)
    except ValueError:
        return True
    return False


def _check_bare(thing: object, kind: type) -> None:
    """Refuse numbers, text and tuples with attributes: these are not part of what they are taken for."""
    if getattr(thing, "__dict__", None) and not isinstance(thing, Enum):
        name = f"{kind.__module__}.{kind.__qualname__}"
        raise NotAStructure(
            f"a {name} is a value with attributes of its own; keep these elsewhere, or write clone()"
        )


def _check_object(thing: object, kind: type) -> None:
    if issubclass(kind, msgspec.Struct):
        return
    own = hasattr(thing, "__dict__") or bool(_slots(kind)) or bool(kind.__flags__ & _OF_A_CLASS_STATEMENT)
    room = object.__basicsize__ + _POINTER * (len(_slots(kind)) + 2)  # for attributes, and for what refers to it
    if not own or kind.__basicsize__ > room or kind.__itemsize__:
        name = f"{kind.__module__}.{kind.__qualname__}"
        raise NotAStructure(f"a {name} cannot be copied as a structure; keep plain values, or write clone()")


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    kind = type(thing)
    if kind is types.FunctionType or kind is partial:
        return
    own = getattr(thing, "__dict__", None)
    if own is not None:
        yield from own.items()
    names = kind.__struct_fields__ if issubclass(kind, msgspec.Struct) else _slots(kind)
    for name in names:
        try:
            yield name, getattr(thing, name)
        except AttributeError:
            continue


def _slots(kind: type) -> tuple[str, ...]:
    names = _known_slots.get(kind)
    if names is None:
        names = _known_slots[kind] = _find_slots(kind)
    return names


def _find_slots(kind: type) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                mangled = name.startswith("__") and not name.endswith("__")
                found[f"_{base.__name__.lstrip('_')}{name}" if mangled else name] = None
    return tuple(found)
