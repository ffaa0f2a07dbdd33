"""Arguments of the functions that users call from Python: one of a wrong type is named in one clear error."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from os import PathLike, fspath

from antecast.core.errors import LocalMisuse


def unexpected(name: str, value: object, expected: str) -> LocalMisuse:
    """The error for an argument of a wrong type."""
    return LocalMisuse(f"{name}: expected {expected}, got {type(value).__name__}")


def check_texts(name: str, value: object, example: str) -> None:
    """Several texts. One alone is a mistake, as its letters would be taken for them."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise unexpected(name, value, f"a list of texts, such as [{example!r}]")
    for each in value:
        if not isinstance(each, str):
            raise unexpected(name, each, f"texts, such as {example!r}")


def check_count(name: str, value: object, *, least: int, needed: bool = False) -> None:
    """A whole number, or nothing unless it is needed."""
    if value is None and not needed:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise unexpected(name, value, f"a whole number from {least} on")
    if value < least:
        raise LocalMisuse(f"{name}: expected a whole number from {least} on, got {value}")


def check_path(name: str, value: object) -> None:
    """A path, or nothing."""
    if value is None:
        return
    if not isinstance(value, str | PathLike):
        raise unexpected(name, value, "a path")
    if "\0" in str(fspath(value)):
        raise LocalMisuse(f"{name}: a path cannot hold the character NUL, got {value!r}")


def check_text(**values: object) -> None:
    """Texts, or nothing."""
    for name, value in values.items():
        if value is not None and not isinstance(value, str):
            raise unexpected(name, value, "a text")


def check_switch(**values: object) -> None:
    """True or False. A text such as "no" would count as True."""
    for name, value in values.items():
        if not isinstance(value, bool):
            raise unexpected(name, value, "True or False")


def check_function(**values: object) -> None:
    """Functions to be called later, or nothing."""
    for name, value in values.items():
        if value is not None and not callable(value):
            raise unexpected(name, value, "a function")


def check_amount(**values: object) -> None:
    """Numbers from 0 on, or nothing."""
    for name, value in values.items():
        if value is None:
            continue
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise unexpected(name, value, "a number from 0 on")
        if not (isfinite(value) and value >= 0):
            raise LocalMisuse(f"{name}: expected a number from 0 on, got {value}")
