"""`antecast examples`: the files that the documentation uses, written into the current folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import antecast
from antecast.cli.console import out
from antecast.core import OutputError

_PACKAGE = Path(antecast.__file__).parent
_SOURCES = (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples")
"""Inside the package where a wheel was installed, beside it in a clone."""


def examples(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="The folder to write.")] = Path("examples"),
    force: Annotated[bool, typer.Option("--force", help="Replace files that differ.")] = False,
) -> None:
    """Write the example scenarios, studies and logs that the documentation uses.

    Files that are there already and differ are kept, and named, unless --force is given.
    """
    written, kept = write_examples(folder, force=force)
    out.print(f"{folder}: {written} example files", soft_wrap=True)
    for path in kept:
        out.print(f"kept {path}, which differs from the example; --force replaces it", soft_wrap=True)


def source_folder() -> Path:
    """Where the examples lie."""
    return next(path for path in _SOURCES if path.is_dir())


def write_examples(folder: Path, *, force: bool = False) -> tuple[int, list[Path]]:
    """Copy the examples; gives how many are as shipped, and the files that were left because they differ."""
    source = source_folder()
    fresh, kept = 0, []
    try:
        for file in sorted(path for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            target, text = folder / file.relative_to(source), file.read_bytes()
            if target.exists() and target.read_bytes() != text and not force:
                kept.append(target)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
            fresh += 1
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", path=folder) from error
    return fresh, kept
