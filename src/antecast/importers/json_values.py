"""JSON in files as programs write it: a value per line, one value per file, or values one after the other.

Every value comes with the line on which it begins. Where spans lie deep inside of one value, `Positions` finds the
line of each.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from antecast.importers.source import Place, Source

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_SPACE = re.compile(r"[\s,]*")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


@dataclass(frozen=True)
class Value:
    """A value, where it begins, and its text if that has several lines."""

    place: Place
    value: Any
    text: str | None = None
    first_line: int = 1
    """The line of the file on which `text` begins."""


def values(source: Source) -> Iterator[Value]:
    """All values of all files. A file whose first line is a value of its own has a value per line."""
    for file in source.files:
        first = next((text for _, text in source.lines_of(file) if text.strip()), "")
        yield from per_line(source, file) if _is_value(first) else _one_after_the_other(source, file)


def _is_value(line: str) -> bool:
    try:
        _decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def per_line(source: Source, file: Path) -> Iterator[Value]:
    """The values of a file that has one on each line; blank lines have none."""
    for place, text in source.lines_of(file):
        if text.strip():
            try:
                yield Value(place, _value(text))
            except (ValueError, RecursionError) as error:
                raise place.error(f"not JSON: {error}") from None


def _value(text: str) -> Any:
    """A value. The decoder keeps the last of two equal keys; what it gives then has a colon less than the text."""
    value = _decode(text)
    if text.count(":") != _encode(value).count(b":") or "\\u" in text:
        json.loads(text, object_pairs_hook=_no_key_twice)
    return value


def _one_after_the_other(source: Source, file: Path) -> Iterator[Value]:
    text, first = source.text_of(file)
    broken_at = lone_surrogate(text)
    if broken_at >= 0:
        raise Place(str(file), text.count("\n", 0, broken_at) + first).error("not JSON: half of a surrogate pair")
    decoder, at, line, seen = json.JSONDecoder(object_pairs_hook=_no_key_twice), 0, first, 0
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        line += text.count("\n", seen, at)
        seen = at
        if at == len(text):
            return
        place = Place(str(file), line)
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            broken = Place(str(file), text.count("\n", 0, error.pos) + first)
            raise broken.error(f"not JSON: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise place.error(f"not JSON: {error}") from None
        yield Value(place, value, text[at:end], line)
        at = end


def lone_surrogate(text: str) -> int:
    """Where an escape is half of a surrogate pair, which is no character and cannot be written; -1 if nowhere."""
    if "\\ud" not in text and "\\uD" not in text:
        return -1
    high_ends = -1
    for found in _ESCAPE.finditer(text):
        code = int(found[1], 16) if found[1] else 0
        if 0xDC00 <= code <= 0xDFFF and high_ends == found.start():
            high_ends = -1
            continue
        if high_ends >= 0:
            return high_ends - 6
        if 0xDC00 <= code <= 0xDFFF:
            return found.start()
        high_ends = found.end() if 0xD800 <= code <= 0xDBFF else -1
    return high_ends - 6 if high_ends >= 0 else -1


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def object_of(value: Any, place: Place, what: str) -> Mapping[str, Any]:
    """An object, empty if there is none."""
    if value is not None and not isinstance(value, dict):
        raise place.error(f"{what} is {_short(value)}, where an object is expected")
    return value or {}


def array_of(value: Any, place: Place, what: str) -> list[Any]:
    """An array, empty if there is none."""
    if value is not None and not isinstance(value, list):
        raise place.error(f"{what} is {_short(value)}, where an array is expected")
    return value or []


def objects_of(value: Any, place: Place, what: str) -> list[Mapping[str, Any]]:
    """An array of objects, empty if there is none."""
    return [object_of(each, place, f"an element of {what}") for each in array_of(value, place, what)]


def text_of(value: Any, place: Place, what: str) -> str:
    """A text, or a whole number that stands for one; empty if there is none."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise place.error(f"{what} is {_short(value)}, where a text is expected")


def id_of(value: Any, place: Place, what: str) -> str:
    """An id; empty if there is none, which some write as zeros."""
    text = text_of(value, place, what)
    return text if text.strip("0") else ""


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Positions:
    """The lines on which the elements of arrays begin, for arrays with one key in the order of the text."""

    def __init__(self, value: Value, key: str | None) -> None:
        self._value = value
        self._lines: Iterator[int] | None = None
        if value.text is not None:
            self._lines = _element_lines(value.text, key, value.first_line)

    def next(self) -> Place:
        """Where the next element begins; that of the whole value if it has one line."""
        if self._lines is None:
            return self._value.place
        return Place(self._value.place.file, next(self._lines, self._value.place.line))


def _element_lines(text: str, key: str | None, first_line: int) -> Iterator[int]:
    """Lines of the elements of every array that stands behind `"key":`; without a key, of the outermost array."""
    breaks = [found.start() for found in re.finditer("\n", text)]
    decoder = json.JSONDecoder()
    pattern = r"\s*\[" if key is None else rf'(?<!\\)"{re.escape(key)}"\s*:\s*\['
    at = 0
    while found := re.compile(pattern).search(text, at):
        at = found.end()
        while True:
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
            if text[at] == "]":
                break
            yield first_line + bisect_right(breaks, at)
            _, at = decoder.raw_decode(text, at)
        if key is None:
            return
