"""What is wrong with a setting, in the words of whoever wrote the file, and what would be right.

msgspec says what it met and where. Here its words become those of a file in TOML, and the keys or values that it
would have taken are added.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Any

from msgspec import inspect

_KINDS = {
    "object": "a table", "array": "a list", "str": "text", "int": "a whole number", "float": "a number",
    "bool": "true or false", "null": "nothing",
}  # fmt: skip
"""What msgspec calls the kinds of values, and what they are in a file."""


def explain(problem: str, values: object, kind: type, where: str) -> str:
    """The problem at a place (`.network.links[0]`) of values that should have been of a kind."""
    steps = re.findall(r"\w+|\[\d+\]|\[\.\.\.\]", where)
    if unknown := re.search(r"unknown field `(.+)`", problem):
        known = _keys(kind, values, steps)
        near = difflib.get_close_matches(unknown[1], known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}" if known else ""
        return f"unknown key {unknown[1]!r}" + (f"; {hint}" if hint else "")
    if invalid := re.fullmatch(r"Invalid (?:enum )?value (.+)", problem):
        return f"expected {_one_of(_choices(kind, values, steps))}, got {invalid[1]}"
    if missing := re.fullmatch(r"Object missing required field `(.+)`", problem):
        tags = _choices(kind, values, [*steps, missing[1]])
        return f"the key {missing[1]!r} is missing" + (f"; it is {_one_of(tags)}" if tags else "")
    info, value = _walk(kind, values, steps)
    if re.fullmatch(r"Expected `(int|float)` [<>]=? .+", problem) and (range_ := _range(info)):
        return f"expected {range_}, got {shown(value)}"
    text = re.sub(r"`([a-z| ]+)`", lambda found: _kinds(found[1]), problem)
    if text == "Expected a table, got text" and (tags := _choices(kind, values, [*steps, "kind"])):
        text += f'; did you mean {{ kind = "{value}" }}?' if value in tags else f"; its kind is {_one_of(tags)}"
    elif isinstance(value, str | int | float) and text.startswith("Expected"):
        text += f" {shown(value)}" if ", got " in text else f", got {shown(value)}"
        if type(value) in (int, float) and "constant" in _choices(kind, values, [*steps, "kind"]):
            text += f'; a delay is written with its unit, such as "{value}ms"'
    return text[:1].lower() + text[1:]


def shown(value: object) -> str:
    """A value as a file spells it, cut where it is long.

    >>> shown(50), shown(True), shown("lots")
    ('50', 'true', "'lots'")
    """
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _range(info: inspect.Type | None) -> str:
    """The numbers that a place takes; empty if that cannot be told.

    >>> _range(inspect.FloatType(ge=0, le=1)), _range(inspect.IntType(ge=1)), _range(inspect.FloatType(gt=0, lt=1))
    ('a share from 0 to 1', 'a whole number from 1 on', 'a number above 0 and below 1')
    """
    members = info.types if isinstance(info, inspect.UnionType) else (info,)
    for each in members:
        if isinstance(each, inspect.Metadata):
            each = each.type
        if not isinstance(each, inspect.IntType | inspect.FloatType):
            continue
        what = "a whole number" if isinstance(each, inspect.IntType) else "a number"
        if (each.ge, each.le) == (0, 1) and isinstance(each, inspect.FloatType):
            return "a share from 0 to 1"
        if each.ge is not None and each.le is not None:
            return f"{what} from {_figure(each.ge)} to {_figure(each.le)}"
        low = {" from {} on": each.ge, " above {}": each.gt}
        high = {" up to {}": each.le, " below {}": each.lt}
        ends = [text.format(_figure(end)) for side in (low, high) for text, end in side.items() if end is not None]
        return what + " and".join(ends)
    return ""


def _figure(value: float) -> str:
    """
    >>> _figure(0), _figure(1e9), _figure(0.5), _figure((1 << 63) - 1)
    ('0', '1,000,000,000', '0.5', '9,223,372,036,854,775,807')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"


def _kinds(theirs: str) -> str:
    """
    >>> _kinds("int"), _kinds("object | null")
    ('a whole number', 'a table or nothing')
    """
    return " or ".join(_KINDS.get(kind, f"`{kind}`") for kind in theirs.split(" | "))


def _one_of(choices: list[str]) -> str:
    """
    >>> _one_of(["a", "b"]), _one_of(["a"]), _one_of([])
    ("one of 'a', 'b'", "'a'", 'another value')
    """
    return ("one of " if len(choices) > 1 else "") + ", ".join(map(repr, choices)) or "another value"


def _keys(kind: Any, values: object, steps: list[str]) -> list[str]:
    """The keys that the settings at a place take; none if that cannot be told."""
    info, value = _walk(kind, values, steps)
    info = _pick(info, value)
    return [field.encode_name for field in info.fields] if isinstance(info, inspect.StructType) else []


def _choices(kind: Any, values: object, steps: list[str]) -> list[str]:
    """The values that a place takes, if they can be counted: those of a list of words, or the tags of tables."""
    info, _ = _walk(kind, values, steps)
    if isinstance(info, inspect.LiteralType):
        return [str(value) for value in info.values]
    around, _ = _walk(kind, values, steps[:-1])
    return [str(each.tag) for each in _structs(around) if steps and each.tag_field == steps[-1]]


def _walk(kind: Any, value: Any, steps: list[str]) -> tuple[inspect.Type | None, Any]:
    """The type and the value at the end of a path; no type if that cannot be told."""
    info: inspect.Type | None = inspect.type_info(kind)
    for step in steps:
        info = _pick(info, value)
        if isinstance(info, inspect.StructType) and isinstance(value, Mapping):
            info = {field.encode_name: field.type for field in info.fields}.get(step)
            value = value.get(step)
        elif isinstance(info, inspect.ListType | inspect.VarTupleType) and isinstance(value, list):
            position = step.strip("[]")
            info, value = info.item_type, value[int(position)] if position.isdigit() else None
        else:
            return None, None
    return info, value


def _pick(info: inspect.Type | None, value: Any) -> inspect.Type | None:
    """The member of a union that a value's tag chooses."""
    structs = _structs(info)
    for each in structs:
        if len(structs) == 1 or (isinstance(value, Mapping) and value.get(each.tag_field or "") == each.tag):
            return each
    return info


def _structs(info: inspect.Type | None) -> list[inspect.StructType]:
    members = info.types if isinstance(info, inspect.UnionType) else (info,)
    return [each for each in members if isinstance(each, inspect.StructType)]
