"""`antecast new`: a package for a protocol of one's own, ready to test, run and install."""

from __future__ import annotations

import keyword
import re
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from antecast.cli.console import out
from antecast.core import ConfigurationError, OutputError

_TEMPLATES = Path(__file__).parent / "new_protocol"

_FILES = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "scenario.toml": "scenario.toml.txt",
    "study.toml": "study.toml.txt",
    "src/$module/__init__.py": "init.py.txt",
    "src/$module/ordering.py": "ordering.py.txt",
    "tests/test_$module.py": "test.py.txt",
}
"""Where each template goes."""


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The protocol's name, such as my-protocol.")],
    folder: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FOLDER", help="Where to put the package.", show_default="./NAME"),
    ] = None,
) -> None:
    """Write a package for a protocol of your own: the protocol, its conformance test, a scenario, a study.

    It works as it is (FIFO order over flooding), so that every change can be tested at once.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        problem = f"expected lowercase letters, digits and single hyphens, such as my-protocol, got {name!r}"
        raise ConfigurationError(problem, field="NAME")
    from antecast.protocols import specifications

    if name in [each.name for each in specifications()]:
        raise ConfigurationError(f"there is a protocol {name} already; choose another name", field="NAME")
    if why := _why_not_imported(_module(name)):
        raise ConfigurationError(f"{why}; choose another name", field="NAME")
    package = Path(name) if folder is None else folder
    write_package(name, package)
    out.print(f"{package} holds a protocol that works. Next:")
    for line in (f"cd {package}", "pip install -e '.[test]'", "pytest", "antecast run scenario.toml"):
        out.print(f"  {line}", style="bold")
    start = package / "src" / _module(name) / "ordering.py"
    out.print(f"{start} is where it decides what may be delivered.")


def write_package(name: str, folder: Path) -> None:
    """Write the files of a protocol's package into a folder that is new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} exists already; name another folder", field="--out")
    module = _module(name)
    words = {"name": name, "module": module, "Class": "".join(part.capitalize() for part in name.split("-"))}
    try:
        for target, template in _FILES.items():
            path = folder / Template(target).substitute(words)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (_TEMPLATES / template).read_text(encoding="utf-8")
            path.write_text(Template(text).substitute(words), encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write: {error.strerror}", path=folder) from error


def _module(name: str) -> str:
    return name.replace("-", "_")


def _why_not_imported(module: str) -> str | None:
    """Why no package can be imported by this name, or only in place of another one."""
    if keyword.iskeyword(module):
        return f"{module} is a Python keyword, so no module can have that name"
    found = find_spec(module)
    if found is not None and found.origin is not None:  # a folder without code hides nothing
        return f"there is a Python module {module} already, which the package would hide"
    return None
