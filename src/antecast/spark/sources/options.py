"""The options of a source: known by name, turned into values, and refused in one line if they are wrong."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from antecast.core.errors import ConfigurationError, InputError
from antecast.core.settings import parse_duration

Parse: TypeAlias = Callable[[str], Any]
"""Turns the text of an option into its value, or raises ValueError saying what was expected."""

PATHS: Mapping[str, Parse] = {"path": str, "paths": json.loads}
"""How Spark hands over what `load` was given."""


def read_options(source: str, given: Mapping[str, str], known: Mapping[str, Parse]) -> dict[str, Any]:
    """The values of the options that were given. Capitals in their names do not count, as everywhere in Spark."""
    names = {name.lower(): name for name in known}
    values: dict[str, Any] = {}
    for key, text in given.items():
        name = names.get(key.lower())
        if name is None:
            near = difflib.get_close_matches(key.lower(), names, n=1)
            listed = ", ".join(name for name in known if name not in PATHS)
            hint = f"did you mean {names[near[0]]!r}?" if near else f"known are {listed}"
            raise ConfigurationError(f"unknown option {key!r}; {hint}", source=source)
        try:
            values[name] = known[name](text)
        except ValueError as error:
            raise ConfigurationError(str(error), source=source, field=name) from None
    return values


_WORDS = {
    "`antecast convert --from FORMAT`": ".option('format', FORMAT)",
    "--map": "columns",
    "--format": "format",
    "--model": "model",
    "--regex": "regex",
    "--delimiter": "delimiter",
    "--skip-unmatched": "skipUnmatched",
}
"""What the command calls its options, and what a source calls them."""


@contextmanager
def in_options(source: str) -> Iterator[None]:
    """Turn the command's words in an error into those of a source."""
    try:
        yield
    except ConfigurationError as error:
        field = _WORDS.get(error.field or "", error.field)
        raise ConfigurationError(_in_options(error.problem), source=source, field=field) from None
    except InputError as error:
        raise InputError(_in_options(error.problem), path=error.path, line=error.line) from None


def _in_options(problem: str) -> str:
    """
    >>> _in_options("say which with --map node=COLUMN, or --regex")
    "say which with .option('columns', 'node=COLUMN'), or the option 'regex'"
    """
    problem = re.sub(r"--map (\w\S*\w)", r".option('columns', '\1')", problem)
    for word, own in _WORDS.items():
        problem = problem.replace(word, own if own.startswith(".") else f"the option {own!r}")
    return problem


def required(source: str, values: Mapping[str, Any], name: str, example: str) -> Any:
    """An option that has no default."""
    if values.get(name) in (None, "", ()):
        raise ConfigurationError(
            f"this option is required, such as .option({name!r}, {example!r})", source=source, field=name
        )
    return values[name]


def positive(text: str) -> int:
    """A whole number above zero."""
    if not text.strip().isdecimal() or int(text) == 0:
        raise ValueError(f"expected a whole number above zero, got {text!r}")
    return int(text)


def natural(text: str) -> int:
    """A whole number from 0 on."""
    if not text.strip().isdecimal():
        raise ValueError(f"expected a whole number from 0 on, got {text!r}")
    return int(text)


def number(text: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"expected a number, got {text!r}") from None


def flag(text: str) -> bool:
    """True or false."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError(f"expected true or false, got {text!r}")
    return text.strip().lower() == "true"


def seconds(text: str) -> float:
    """A length of time, with its unit."""
    return parse_duration(text) / 1e9


def words(text: str) -> tuple[str, ...]:
    """Words that commas separate."""
    return tuple(word for word in (part.strip() for part in text.split(",")) if word)


def pairs(text: str) -> dict[str, str]:
    """Names and values: `node=host,pos=time`."""
    found = {}
    for word in words(text):
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise ValueError(f"expected NAME=VALUE, separated by commas, got {word!r}")
        found[name.strip()] = value.strip()
    return found


def one_of(*choices: str) -> Parse:
    """One of a few words."""

    def choose(text: str) -> str:
        if text not in choices:
            raise ValueError(f"expected {' or '.join(choices)}, got {text!r}")
        return text

    return choose
