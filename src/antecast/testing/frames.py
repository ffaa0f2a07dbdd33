"""Frames that no correct peer would send, made from the declared types of a protocol's frames.

`FrameMaker` works from what msgspec knows of the types, and knows no protocol: it makes values of every shape
that decodes, at and next to every declared bound, with numbers of nodes that exist and of some that do not, and
it changes copies of frames that were really sent in one place or several.

Without `forge` it leaves one lie out, which a protocol without signatures cannot see through: messages in the
name of a node that did not send them, and two different messages under one name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from antecast.core import Codec, Frame, LocalMisuse, NodeId

_FAR = (1000, 65_535, 65_536, (1 << 31) - 1, (1 << 32) - 1)
"""Numbers of nodes that do not exist, besides the next few: at the edges of what decodes."""

_COUNTS = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 100, 65_535, 65_536, 1 << 31, 1 << 32, 1 << 53, (1 << 62) - 1)
_SECONDS = (0, 1, -1, 10, 60, 1200)
_LENGTHS = (0, 1, 1, 1, 2, 2, 2, 3, 4, 6)
_LONG, _RARELY = 64, 200


class FrameMaker:
    def __init__(
        self, codec: Codec, random: Random, honest: Sequence[NodeId], hostile: NodeId, *, forge: bool
    ) -> None:
        info = inspect.type_info(codec.frames)
        kinds = info.types if isinstance(info, inspect.UnionType) else (info,)
        self.kinds: dict[str, inspect.StructType] = {
            each.cls.__name__: each for each in kinds if isinstance(each, inspect.StructType)
        }
        self._random, self._forge, self._hostile = random, forge, hostile
        self._honest = frozenset(honest)
        self._strange = (hostile, *(hostile + step for step in (1, 2, 3)), *_FAR)
        self._nodes = (*honest, *honest, hostile, hostile, *self._strange)
        self.now = 0
        self.modest = False
        """Whether claims of messages that honest nodes have not broadcast are left out too."""
        self._sent: list[Frame] = []
        self._numbers: list[int] = [1]
        self._genuine: dict[tuple[object, ...], list[Any]] = {}
        self._told: dict[tuple[object, ...], Any] = {}

    def overhear(self, frame: Frame) -> None:
        """Learn from a frame that an honest node sent."""
        if len(self._sent) < 400:
            self._sent.append(frame)
        else:
            self._sent[self._random.randrange(400)] = frame
        for entry in entries(frame):
            known = self._genuine.setdefault(name_of(entry), [])
            if len(known) < 4 and entry not in known:
                known.append(entry)
        if len(self._numbers) < 400:
            self._numbers += _numbers(frame)

    def make(self, kind: str | None = None) -> Frame:
        """A new frame: of the given type, or of any, perhaps from one that was sent."""
        draw = self._random
        way = draw.random() if kind is None and self._sent else 1.0
        if way < 0.1:
            return draw.choice(self._sent)
        if way < 0.5:
            frame = draw.choice(self._sent)
            changed = self._change(frame, self.kinds[type(frame).__name__], draw.choice((0.1, 0.3, 0.7)))
        else:
            changed = self._value(self.kinds[kind or draw.choice(list(self.kinds))])
        tamed: Frame = changed if self._forge else self._tame(changed)
        return tamed

    # Values of a type.

    def _value(self, kind: inspect.Type) -> Any:
        draw = self._random
        match kind:
            case inspect.StructType():
                if {"origin", "seq"} <= {each.name for each in kind.fields} and draw.random() < 0.4:
                    known = [each for each in self._all_genuine() if type(each) is _class(kind)]
                    if known:
                        return draw.choice(known)
                return _class(kind)(*(self._value(each.type) for each in kind.fields))
            case inspect.UnionType():
                return self._value(draw.choice(kind.types))
            case inspect.IntType():
                return self._int(kind)
            case inspect.BoolType():
                return draw.random() < 0.5
            case inspect.NoneType():
                return None
            case inspect.BytesType():
                return draw.choice((b"", b"h", b"hh", b"hostile"))
            case inspect.StrType():
                return draw.choice(("", "h", "hostile"))
            case inspect.FloatType():
                return draw.choice((0.0, 1.0, -1.0, 1e308, float("inf"), float("nan")))
            case inspect.TupleType():
                return tuple(self._value(each) for each in kind.item_types)
            case inspect.VarTupleType() | inspect.ListType() | inspect.CollectionType():
                values = self._values(kind.item_type, self._length(kind))
                return tuple(values) if isinstance(kind, inspect.VarTupleType) else values
            case inspect.DictType():
                keys = [self._key(kind.key_type) for _ in range(self._length(kind))]
                return {key: self._value(kind.value_type) for key in keys}
            case inspect.LiteralType():
                return draw.choice(kind.values)
            case inspect.EnumType():
                return draw.choice(list(kind.cls))
            case inspect.AnyType():
                return draw.choice((None, 0, b"", [], {}))
        raise LocalMisuse(f"the fuzzer does not support frames with fields of {type(kind).__name__}")

    def _values(self, kind: inspect.Type, length: int) -> list[Any]:
        values = [self._value(kind) for _ in range(length)]
        if isinstance(kind, inspect.IntType) and self._random.random() < 0.6:
            values = sorted(set(values))
            if len(values) % 2 and self._random.random() < 0.7:
                values.pop()
        return values

    def _length(self, kind: Any) -> int:
        least, most = kind.min_length or 0, kind.max_length or 1 << 16
        length = self._random.choice(_LENGTHS)
        if self._random.randrange(_RARELY) == 0:
            length = _LONG
        return max(least, min(length, most))

    def _key(self, kind: inspect.Type) -> Any:
        return self._random.choice(self._nodes) if isinstance(kind, inspect.IntType) else self._value(kind)

    def _int(self, kind: inspect.IntType) -> int:
        draw = self._random
        low = kind.ge if kind.ge is not None else -(1 << 63) if kind.gt is None else kind.gt + 1
        high = kind.le if kind.le is not None else (1 << 64) - 1 if kind.lt is None else kind.lt - 1
        way = draw.random()
        if way < 0.1:
            value = draw.choice((low, low + 1, high, high - 1))
        elif high == (1 << 32) - 1 and way < 0.9:
            value = draw.choice(self._nodes)
        elif way < 0.5:
            value = draw.choice(self._numbers) + draw.choice((-1, 0, 0, 1, 1, 2))
        elif way < 0.6:
            value = self.now + draw.choice(_SECONDS) * 10**9
        else:
            value = draw.choice(_COUNTS)
        return int(max(low, min(value, high)))

    def _change(self, value: Any, kind: inspect.Type, share: float) -> Any:
        """A copy with some of its parts replaced."""
        draw = self._random
        if isinstance(kind, inspect.UnionType):
            fitting = [each for each in kind.types if _is(value, each)]
            return self._change(value, fitting[0], share) if fitting else self._value(kind)
        if isinstance(kind, inspect.StructType):
            parts = zip(value.__struct_fields__, kind.fields, strict=True)
            return type(value)(*(self._change(getattr(value, name), each.type, share) for name, each in parts))
        if draw.random() < share:
            return self._value(kind)
        if isinstance(kind, inspect.DictType):
            return {key: self._change(each, kind.value_type, share) for key, each in value.items()}
        if isinstance(kind, inspect.ListType | inspect.CollectionType):
            return [self._change(each, kind.item_type, share) for each in value]
        if isinstance(kind, inspect.VarTupleType):
            return tuple(self._change(each, kind.item_type, share) for each in value)
        return value

    # Lies that are left out.

    def _all_genuine(self) -> list[Any]:
        return [entry for known in self._genuine.values() for entry in known]

    def _tame(self, value: Any) -> Any:
        """The same without messages in another's name, and with one message under each name."""
        if isinstance(value, msgspec.Struct):
            parts = [self._tame(getattr(value, name)) for name in value.__struct_fields__]
            value = type(value)(*parts)
            if not is_entry(value) or value in self._genuine.get(name_of(value), ()):
                return value
            if value.origin in self._honest:
                value = msgspec.structs.replace(value, origin=self._hostile)
            return self._told.setdefault(name_of(value), value)
        if isinstance(value, list | tuple):
            return type(value)(self._tame(each) for each in value)
        return value


def _class(kind: inspect.StructType) -> type[Any]:
    return kind.cls


def _is(value: Any, kind: inspect.Type) -> bool:
    """Whether a value is of one of the types of a union: msgspec allows one of each plain kind there."""
    match kind:
        case inspect.StructType():
            return isinstance(value, kind.cls)
        case inspect.NoneType():
            return value is None
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case inspect.DictType():
            return isinstance(value, dict)
        case _:
            return isinstance(value, bytes | str | list | tuple)


_ATOMS = frozenset({int, bool, bytes, str, float, type(None)})


def is_entry(value: Any) -> bool:
    """Whether this is a message or the like: something with a source and its number there."""
    return _names_a_message(value.__class__)


@cache
def _names_a_message(kind: type[object]) -> bool:
    return {"origin", "seq"} <= set(getattr(kind, "__struct_fields__", ()))


def name_of(entry: Any) -> tuple[object, ...]:
    return entry.origin, entry.seq


def entries(value: Any) -> list[Any]:
    """The messages in a frame, itself included."""
    found: list[Any] = []
    _gather(value, found)
    return found


def _gather(value: Any, found: list[Any]) -> None:
    if _names_a_message(value.__class__):
        found.append(value)
    for each in _parts(value):
        if type(each) not in _ATOMS:
            _gather(each, found)


def claims(value: Any) -> Iterator[tuple[NodeId, int]]:
    """What a frame says of the messages of nodes: numbers that stand under a node's number in a map."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from ((key, number) for number in _numbers(each) if isinstance(key, int))
    for each in _parts(value):
        if type(each) not in _ATOMS:
            yield from claims(each)


def _numbers(value: Any) -> list[int]:
    if isinstance(value, int):
        return [] if isinstance(value, bool) else [int(value)]
    return [number for each in _parts(value) for number in _numbers(each)]


def _parts(value: Any) -> Collection[Any]:
    kind = type(value)
    if kind is tuple or kind is list:
        return value  # type: ignore[no-any-return]
    if kind is dict:
        return value.values()  # type: ignore[no-any-return]
    if (fields := getattr(kind, "__struct_fields__", None)) is not None:
        return [getattr(value, name) for name in fields]
    return value if isinstance(value, list | tuple) else ()


def simpler(value: Any) -> Iterator[Any]:
    """Copies with one part left out, or one number made small."""
    if is_entry(value):
        return  # a different one under the same name would be another lie
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            for each in simpler(getattr(value, name)):
                yield msgspec.structs.replace(value, **{name: each})
    elif isinstance(value, dict):
        for key in value:
            yield {other: each for other, each in value.items() if other != key}
        for key, each in value.items():
            yield from (value | {key: other} for other in simpler(each))
    elif isinstance(value, list | tuple):
        make, parts = type(value), list(value)
        for place, each in enumerate(parts):
            yield make(parts[:place] + parts[place + 1 :])
            yield from (make([*parts[:place], other, *parts[place + 1 :]]) for other in simpler(each))
    elif isinstance(value, bytes) and value:
        yield b""
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from (small for small in (0, 1, 2, 5) if small < value)
