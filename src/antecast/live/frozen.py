"""A protocol object as bytes, whole: links included, in the middle of its life.

`Protocol.snapshot()` holds what survives a crash. To cut the journal of a node that goes on running, more is
needed: the very object, so that the calls that follow can be replayed on it. `freeze` walks the structure of an
object as
`antecast.core.structure` does, and `thaw` builds it again. They are for the code that wrote them; an upgrade goes
over `snapshot()`.

What cannot be written (a codec, a function with a closure) is taken from a *template*: a new object of the same
number and settings, in which it stands in the same place. An object that holds such a thing in another place
cannot be frozen; `freeze` raises `TypeError`, and its node has to let go of its links to cut its journal.

Only classes of Antecast, of the protocol's own package and plain containers are built, and no constructor is
called: a journal from elsewhere cannot make this process run anything.
"""

from __future__ import annotations

import importlib
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import msgspec

from antecast.core import AntecastError, Codec, Frame, Protocol
from antecast.core.structure import attributes, check_object

_PLAIN: Final = frozenset({str, bytes, bool, float, type(None)})
_FLAT: Final = _PLAIN | {int}
_PACKAGES: Final = ("antecast.core", "antecast.protocols")
_BUILTINS: Final[dict[str, Any]] = {
    f"{kind.__module__}:{kind.__qualname__}": kind
    for kind in (int, float, str, bytes, bool, list, dict, set, frozenset, tuple, deque, defaultdict, OrderedDict)
}
_REF, _TUPLE, _LIST, _DICT, _SET, _OBJECT, _METHOD, _TEMPLATE, _TYPE, _ENUM, _BIG, _NUMBER, _FUNCTION = range(13)
_FRAME: Final = 13
"""A frame by its own encoding: most of what a node keeps are messages, and this takes a fraction of the time."""


def freeze(protocol: Protocol, template: Protocol) -> bytes:
    """The whole object; raises `TypeError` if it holds something that has no place in a new one."""
    try:
        return msgspec.msgpack.encode(_Freezer(template, template.codec).write(protocol))
    except _Shared:
        return msgspec.msgpack.encode(_Freezer(template, None).write(protocol))


class _Shared(Exception):
    """Something else holds a part of a frame, too: then frames have to be written part by part."""


def thaw(data: bytes, template: Protocol) -> Protocol:
    """The object again. `template` is a new one of the same number and settings, and is used up."""
    made: Protocol = _Thawer(template).read(msgspec.msgpack.decode(data, strict=False))
    return made


class _Freezer:
    def __init__(self, template: Protocol, codec: Codec | None) -> None:
        self._template, self._codec = template, codec
        self._seen: dict[int, int] = {}
        self._inside: set[int] = set()
        """What can change in frames that were written by their own encoding."""
        self._held: list[Any] = []
        self._path: list[Any] = []

    def write(self, thing: Any) -> Any:
        kind = type(thing)
        if kind in _PLAIN:
            return thing
        if kind is int:
            return thing if -(1 << 63) <= thing < 1 << 64 else [_BIG, str(thing)]
        if issubclass(kind, type):
            return [_TYPE, _name(thing)]
        if issubclass(kind, Enum):
            return [_ENUM, _name(kind), thing.name]
        if issubclass(kind, int):
            return [_NUMBER, _name(kind), int(thing)]
        if kind in (types.MethodType, types.BuiltinMethodType):
            if isinstance(thing.__self__, types.ModuleType):
                return [_TEMPLATE, self._place_of(thing)]
            return [_METHOD, self.at("method", thing.__self__), thing.__name__]
        known = self._seen.get(id(thing))
        if known is not None:
            return [_REF, known]
        if kind is tuple and set(map(type, thing)) == {int} and min(thing) >= -(1 << 63) and max(thing) < 1 << 64:
            return [_TUPLE, None, thing]  # the name of a message, say
        if issubclass(kind, tuple):
            return [_TUPLE, None if kind is tuple else _name(kind), self._items(thing)]
        if id(thing) in self._inside:
            raise _Shared
        encoded = self._encoded(thing) if issubclass(kind, Frame) and self._codec is not None else None
        self._seen[id(thing)] = len(self._seen)
        self._held.append(thing)
        return self._write_new(thing, kind) if encoded is None else [_FRAME, encoded]

    def _encoded(self, frame: Frame) -> bytes | None:
        """A frame as it goes over a link, if it comes out of that as the very same: its parts are plain, or flat
        containers that nothing else holds."""
        assert self._codec is not None
        parts, containers = msgspec.structs.astuple(frame), []
        for part in parts:
            kind = type(part)
            if kind is list or kind is dict:
                flat = set(map(type, part)) <= _FLAT and (kind is list or set(map(type, part.values())) <= _FLAT)
                if not flat or id(part) in self._seen or id(part) in self._inside:
                    return None
                containers.append(id(part))
            elif kind not in _FLAT:
                return None
        try:
            data = self._codec.encode(frame)
            same = self._codec.decode(data)
        except (AntecastError, TypeError, OverflowError):
            return None  # kept, but no frame for a link
        if same != frame or list(map(type, msgspec.structs.astuple(same))) != list(map(type, parts)):
            return None
        self._inside.update(containers)
        return data

    def at(self, step: Any, thing: Any) -> Any:
        self._path.append(step)
        try:
            return self.write(thing)
        finally:
            self._path.pop()

    def _items(self, things: Any) -> list[Any]:
        return [self.at(place, each) for place, each in enumerate(things)]

    def _write_new(self, thing: Any, kind: type) -> Any:
        if isinstance(thing, Codec | types.ModuleType):
            return [_TEMPLATE, self._place_of(thing)]
        if isinstance(thing, types.FunctionType):
            place = self._place_of(thing)
            cells = [self.at(["cell", n], c.cell_contents) for n, c in enumerate(thing.__closure__ or ())]
            return [_FUNCTION, place, cells]
        named = None if kind in (list, dict, set, frozenset) else _name(kind)
        if issubclass(kind, dict):
            pairs = [(self.write(key), self.at(["key", key], value)) for key, value in thing.items()]
            factory = self.at("default_factory", getattr(thing, "default_factory", None))
            return [_DICT, named, pairs, factory, self._attributes(thing)]
        if issubclass(kind, list | deque):
            return [_LIST, named, self._items(thing), getattr(thing, "maxlen", None), self._attributes(thing)]
        if issubclass(kind, set | frozenset):
            frozen = issubclass(kind, frozenset)
            return [_SET, named, frozen, [self.write(each) for each in thing], self._attributes(thing)]
        check_object(thing, kind)
        return [_OBJECT, named, self._attributes(thing)]

    def _place_of(self, thing: Any) -> list[Any]:
        """Where a new object has the same thing."""
        path = list(self._path)
        try:
            same = type(_found(self._template, path)) is type(thing)
        except (AttributeError, LookupError, TypeError):
            same = False
        if not same:
            raise TypeError(f"a new protocol object has no {type(thing).__name__} at {path}")
        return path

    def _attributes(self, thing: Any) -> list[Any]:
        return [(name, self.at(name, value)) for name, value in attributes(thing)]


class _Thawer:
    """Reads in the order in which `_Freezer` wrote, so that the numbers of things agree."""

    def __init__(self, template: Protocol) -> None:
        self._template, self._codec = template, template.codec
        self._packages = (*_PACKAGES, type(template).__module__.partition(".")[0])
        self._made: list[Any] = []
        self._classes: dict[str, Any] = dict(_BUILTINS)
        self._readers: list[Callable[..., Any]] = [
            lambda number: self._made[number],
            self._tuple,
            self._list,
            self._dict,
            self._set,
            self._object,
            lambda owner, name: getattr(self.read(owner), name),
            self._from_template,
            self._class,
            lambda name, member: self._class(name)[member],
            int,
            lambda name, value: self._class(name)(value),
            self._function,
            self._frame,
        ]

    def read(self, data: Any) -> Any:
        if type(data) is not list:
            return data
        return self._readers[data[0]](*data[1:])

    def _place(self, thing: Any) -> int:
        self._made.append(thing)
        return len(self._made) - 1

    def _frame(self, data: bytes) -> Frame:
        frame = self._codec.decode(data)
        self._place(frame)
        return frame

    def _tuple(self, name: str | None, items: list[Any]) -> Any:
        parts = [self.read(each) for each in items]
        return tuple(parts) if name is None else self._class(name)._make(parts)

    def _list(self, name: str | None, items: list[Any], maxlen: int | None, attrs: list[Any]) -> Any:
        kind = list if name is None else self._class(name)
        made: Any = deque(maxlen=maxlen) if kind is deque else kind.__new__(kind)
        self._place(made)
        for each in items:
            made.append(self.read(each))
        return self._with_attributes(made, attrs)

    def _dict(self, name: str | None, pairs: list[Any], factory: Any, attrs: list[Any]) -> Any:
        kind = dict if name is None else self._class(name)
        made: Any = kind.__new__(kind)
        self._place(made)
        for key, value in pairs:
            made[self.read(key)] = self.read(value)
        if issubclass(kind, defaultdict):
            made.default_factory = self.read(factory)
        return self._with_attributes(made, attrs)

    def _set(self, name: str | None, frozen: bool, items: list[Any], attrs: list[Any]) -> Any:
        place = self._place(None)
        kind = (frozenset if frozen else set) if name is None else self._class(name)
        made: Any = frozenset(map(self.read, items)) if frozen else kind.__new__(kind)
        self._made[place] = made
        if not frozen:
            made.update(map(self.read, items))
        return self._with_attributes(made, attrs)

    def _object(self, name: str, attrs: list[Any]) -> Any:
        kind = self._class(name)
        if issubclass(kind, msgspec.Struct):
            place = self._place(None)
            values = {field: self.read(value) for field, value in attrs}
            self._made[place] = made = kind(**values)
            return made
        made = kind.__new__(kind)
        self._place(made)
        return self._with_attributes(made, attrs)

    def _with_attributes(self, made: Any, attrs: list[Any]) -> Any:
        for name, value in attrs:
            object.__setattr__(made, name, self.read(value))
        return made

    def _from_template(self, path: list[Any]) -> Any:
        found = _found(self._template, path)
        self._place(found)
        return found

    def _function(self, path: list[Any], cells: list[Any]) -> Any:
        function = _found(self._template, path)
        place = self._place(function)
        if cells:
            contents = tuple(types.CellType(self.read(each)) for each in cells)
            self._made[place] = function = types.FunctionType(
                function.__code__, function.__globals__, function.__name__, function.__defaults__, contents
            )
        return function

    def _class(self, name: str) -> Any:
        kind = self._classes.get(name)
        if kind is None:
            module, _, qualified = name.partition(":")
            if not any(module == each or module.startswith(f"{each}.") for each in self._packages):
                raise ValueError(f"a frozen protocol names {name}, which is none of its classes")
            kind = importlib.import_module(module)
            for part in qualified.split("."):
                kind = getattr(kind, part)
            if not isinstance(kind, type):
                raise ValueError(f"a frozen protocol names {name}, which is not a class")
            self._classes[name] = kind
        return kind


def _found(template: Any, path: list[Any]) -> Any:
    """What stands at a place of an object."""
    found = template
    for step in path:
        if isinstance(step, int):
            found = found[step]
        elif isinstance(step, list):
            found = found[step[1]] if step[0] == "key" else found.__closure__[step[1]].cell_contents
        else:
            found = found.__self__ if step == "method" else getattr(found, step)
    return found


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"
