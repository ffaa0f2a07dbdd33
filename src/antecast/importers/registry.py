"""The importers by name, and the recognition of a format by what a file holds.

A format is recognised by the beginning of each file. All files of a log are of one format: a log of two formats
is two logs. Recognition never guesses: if two importers take a file for theirs, the person says which.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from antecast.core.errors import ConfigurationError, InputError
from antecast.importers.source import Head, Source


class Importer(Protocol):
    """What a module of this package must have to be an importer."""

    NAME: str
    """What `--format` calls it."""
    MODEL: str
    """The model that judges what it reads: broadcast, clocks, spans or kv."""

    def recognises(self, head: Head, /) -> bool:
        """Whether a file that begins so is of this format."""

    def read(self, source: Source, /) -> Any:
        """What the model takes. Raises `InputError` with the file and the line."""


@cache
def importers() -> Mapping[str, Importer]:
    """All importers by name."""
    package = import_module("antecast.importers")
    modules = [import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__)]
    found = [cast("Importer", module) for module in modules if hasattr(module, "NAME")]
    return {each.NAME: each for each in sorted(found, key=lambda each: each.NAME)}


def importer(name: str) -> Importer:
    """The importer with a name."""
    known = importers()
    if name not in known:
        raise ConfigurationError(f"no such format {name!r}; there are {', '.join(known)}", field="--format")
    return known[name]


def recognise(source: Source) -> Importer | None:
    """The importer for all files of a log; None if no file is of a format that is known here.

    An empty file among others that are recognised is refused: a part of the log is missing.
    """
    found = [_importer_of(source, file) for file in source.files]
    chosen = next((each for each in found if each is not None), None)
    if chosen is None:
        return None
    first = source.files[found.index(chosen)]
    for file, each in zip(source.files, found, strict=True):
        if each is not chosen:
            if not source.head(file).data.strip():
                raise InputError("the file is empty", path=file)
            ours = each.NAME if each is not None else "of no format that is known"
            problem = f"this file is {ours}, but {first} is {chosen.NAME}; a log has one format"
            raise InputError(problem, path=file)
    return chosen


def _importer_of(source: Source, file: Path) -> Importer | None:
    head = source.head(file)
    mine = [each for each in importers().values() if head.data.strip() and each.recognises(head)]
    if len(mine) > 1:
        names = " and ".join(each.NAME for each in mine)
        raise InputError(f"looks like {names}; say which with --format", path=file)
    return mine[0] if mine else None
