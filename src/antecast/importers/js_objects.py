"""Objects as Node.js prints them (`util.inspect`): names without quotes, three kinds of quotes, `undefined`.

{ name: 'GET', 'service.name': "it's", id: '6e0c', parentId: undefined, timestamp: 1714557600000000.2, links: [] }
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from antecast.importers.source import Place, Source

_TOKEN = re.compile(
    r"""(?P<short>\[[A-Z]\w*(?:[: (][^\]]*)?\])
    | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`\\]|\\.)*`)
    | (?P<number>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)n?(?![\w$.])
    | (?P<word>[\w$.+<>()*-]+)
    | (?P<mark>[{}\[\]:])""",
    re.VERBOSE | re.DOTALL,
)
_SPACE = re.compile(r"[\s,]*")
_WORDS = {"undefined": None, "null": None, "true": True, "false": False, "NaN": None}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}
_NOTHING = object()


@dataclass
class _Open:
    """An object or a list that is being read."""

    place: Place
    value: dict[str, Any] | list[Any]
    key: Any = _NOTHING
    named: bool = False
    """Whether a colon came behind the key."""

    def put(self, value: Any, place: Place) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        elif not self.named:
            if self.key is not _NOTHING:
                raise place.error(f"not an object of JavaScript: {self.key!r} has no value")
            self.key = value
        else:
            if self.key in self.value:
                raise place.error(f"the key {self.key!r} is there twice")
            self.value[str(self.key)] = value
            self.key, self.named = _NOTHING, False


def objects(source: Source, file: Path) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The objects of a file, one after the other, and where each begins."""
    text, line = source.text_of(file)
    name, at, seen = str(file), 0, 0
    stack: list[_Open] = []
    while (at := cast("re.Match[str]", _SPACE.match(text, at)).end()) < len(text):
        line += text.count("\n", seen, at)
        seen, place = at, Place(name, line)
        found = _TOKEN.match(text, at)
        if found is None or (not stack and found[0] != "{"):
            raise place.error(f"not an object of JavaScript: unexpected {text[at : at + 20]!r}")
        at, token = found.end(), found[0]
        if token in ("{", "["):
            stack.append(_Open(place, {} if token == "{" else []))
        elif token == ":":
            if stack[-1].key is _NOTHING or stack[-1].named or isinstance(stack[-1].value, list):
                raise place.error("not an object of JavaScript: a colon without a name")
            stack[-1].named = True
        elif token in ("}", "]"):
            done = stack.pop()
            if done.key is not _NOTHING or isinstance(done.value, list) != (token == "]"):
                raise place.error(f"not an object of JavaScript: unexpected {token!r}")
            if stack:
                stack[-1].put(done.value, place)
            else:
                yield done.place, cast("dict[str, Any]", done.value)
        else:
            stack[-1].put(_atom(found), place)
    if stack:
        raise stack[0].place.error("the object has no end: the log is cut short")


def _atom(found: re.Match[str]) -> Any:
    token = found[0]
    if found.lastgroup == "text":
        return _ESCAPE.sub(_unescaped, token[1:-1])
    if found.lastgroup == "number":
        number = found["number"]
        return int(number) if number.lstrip("-").isdecimal() else float(number)
    return _WORDS.get(token, token)  # a word may be a name; what Node cuts, such as [Object], stands for itself


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _ESCAPED.get(found[3], found[3])
