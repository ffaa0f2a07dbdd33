"""Plain values as TOML, the notation in which scenarios are written. A value that is None is left out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 90
"""Tables that fit into so many characters stand in one line."""


def format_toml(values: Mapping[str, Any]) -> str:
    """
    >>> print(format_toml({"nodes": 4, "network": {"loss": 0.1, "fifo": None}, "workload": [{"kind": "once"}]}))
    nodes = 4
    network = { loss = 0.1 }
    <BLANKLINE>
    [[workload]]
    kind = "once"
    """
    return "\n".join(_table(values, ())).strip()


def _table(values: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines, later = [], []
    for key, value in values.items():
        if value is None:
            continue
        line = f"{_key(key)} = {_value(value)}"
        name = ".".join(map(_key, (*path, key)))
        if isinstance(value, Mapping) and (len(line) > _WIDTH or len(value) > 4):
            later += ["", f"[{name}]", *_table(value, (*path, key))]
        elif isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
            for each in value:
                later += ["", f"[[{name}]]", *_table(each, (*path, key))]
        else:
            lines.append(line)
    return lines + later


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items() if each is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return _text(value)
    return repr(value) if isinstance(value, float) else json.dumps(value)


def _text(value: str) -> str:
    """TOML's basic strings are those of JSON, but for one character that only TOML forbids."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
