"""EDN, the notation of Clojure's data, in which Jepsen writes histories.

Values become Python's: vectors and lists are tuples, sets frozen sets, maps dictionaries; keywords and symbols are
text of types of their own. A tagged value is the value itself, since tags of histories only name a record
(`#jepsen.history.Op{...}`). Comments, commas and discarded forms (`#_`) are left out. Values nest without limit.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antecast.importers.source import Place, Source

_TOKEN = re.compile(
    r"""[\s,]+|;[^\n]*
    |(?P<open>\#\{|[\[({])|(?P<close>[\])}])
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<discard>\#_)|(?P<tag>\#[A-Za-z][\w.\-/]*)
    |(?P<char>\\(?:newline|return|space|tab|u[0-9a-fA-F]{4}|\S))
    |(?P<atom>[^\s,;"()\[\]{}\\]+)""",
    re.VERBOSE,
)
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_CHARACTERS = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t"}
_NAMED = {"nil": None, "true": True, "false": False}
_INTEGER = re.compile(r"[+-]?\d+N?")
_LONGEST_NUMBER = 1000
_FLOAT = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?M?")


class Keyword(str):
    """A keyword, without its colon."""

    __slots__ = ()


class Symbol(str):
    """A symbol."""

    __slots__ = ()


@dataclass
class _Frame:
    """A collection that is being read; the outermost one is the file."""

    opened: str
    line: int
    items: list[Any] = field(default_factory=list)
    discard: int = 0
    """How many of the values to come are discarded."""


def forms(source: Source, file: Path) -> Iterator[tuple[Place, Any]]:
    """The values of a file and where each begins; those of one outermost vector or list one by one."""
    text, first = source.text_of(file)
    yield from read_forms(text, str(file), first)


def read_forms(text: str, name: str = "edn", first: int = 1) -> Iterator[tuple[Place, Any]]:
    """The values of a text and where each begins; `first` is the number of its first line.

    >>> [value for _, value in read_forms("{:type :ok, :value [[:r 1 nil]]} ; a comment")]
    [{'type': 'ok', 'value': (('r', 1, None),)}]
    """
    at, line, counted = 0, first, 0
    stack = [_Frame("", first)]
    spread = False  # whether the file is one vector of operations
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            said = "a text without an end" if text[at] == '"' else f"unexpected {text[at]!r}"
            raise Place(name, line + text.count("\n", counted, at)).error(f"not EDN: {said}")
        kind, token = found.lastgroup, found.group()
        if kind is None:
            at = found.end()
            continue
        line += text.count("\n", counted, at)
        counted, at = at, found.end()
        place = Place(name, line)
        if kind == "tag":
            continue
        if kind == "discard":
            stack[-1].discard += 1
            continue
        if kind == "open":
            spread = spread or (len(stack) == 1 and token in "[(" and not stack[-1].discard)
            stack.append(_Frame(token, line))
            continue
        if kind == "close":
            if len(stack) == 1 or _CLOSES[stack[-1].opened] != token:
                raise place.error(f"not EDN: {token!r} closes nothing")
            frame = stack.pop()
            if spread and len(stack) == 1:
                spread = False
                continue
            value, place = _collection(frame.opened, frame.items, place), Place(name, frame.line)
        else:
            value = _atom(kind, token, place)
        if stack[-1].discard:
            stack[-1].discard -= 1
        elif len(stack) == 1 + spread:
            yield place, value
        else:
            stack[-1].items.append(value)
    if len(stack) > 1:
        raise Place(name, stack[-1].line).error(
            f"not EDN: {stack[-1].opened!r} has no end; is the file cut short?"
        )


def _collection(opened: str, items: list[Any], place: Place) -> Any:
    if opened in "[(":
        return tuple(items)
    if opened == "#{":
        return frozenset(hashable(each) for each in items)
    if len(items) % 2:
        raise place.error("not EDN: a map with a key and no value")
    keys = [hashable(each) for each in items[::2]]
    found = dict(zip(keys, items[1::2], strict=True))
    if len(found) < len(keys):
        raise place.error(f"not EDN: a map with the key {max(keys, key=keys.count)!r} twice")
    return found


def hashable(value: Any) -> Hashable:
    """A value that can be a key."""
    if isinstance(value, dict):
        return tuple(sorted((str(key), hashable(each)) for key, each in value.items()))
    return tuple(hashable(each) for each in value) if isinstance(value, tuple) else value


def _atom(kind: str, token: str, place: Place) -> Any:
    if kind == "string":
        return _ESCAPE.sub(_unescaped, token[1:-1])
    if kind == "char":
        name = token[1:]
        return chr(int(name[1:], 16)) if len(name) == 5 and name[0] == "u" else _CHARACTERS.get(name, name)
    if token in _NAMED:
        return _NAMED[token]
    if token[0] == ":":
        if len(token) == 1:
            raise place.error("not EDN: a keyword without a name")
        return Keyword(token[1:])
    if _INTEGER.fullmatch(token):
        if len(token) > _LONGEST_NUMBER:
            raise place.error(f"a number of {len(token)} digits")
        return int(token.rstrip("N"))
    if _FLOAT.fullmatch(token):
        return float(token.rstrip("M"))
    return Symbol(token)


def _unescaped(found: re.Match[str]) -> str:
    code = found.group(1)
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)
