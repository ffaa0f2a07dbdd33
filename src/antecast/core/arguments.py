"""Arguments of the functions that users call from Python: one of a wrong type is named in one clear error."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike

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


def check_count(name: str, value: object, *, least: int) -> None:
    """A whole number, or nothing."""
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise unexpected(name, value, f"a whole number from {least} on")
    if value < least:
        raise LocalMisuse(f"{name}: expected a whole number from {least} on, got {value}")


def check_path(name: str, value: object) -> None:
    """A path, or nothing."""
    if value is not None and not isinstance(value, str | PathLike):
        raise unexpected(name, value, "a path")
