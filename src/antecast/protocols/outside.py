"""Protocols from outside: found by entry point or import path, known by their code, taken along to workers.

Antecast is a framework for other people's protocols too, so three things must hold for code that is not part of
this package:

- *It is found*: by the name of an entry point of an installed package (group `antecast.protocols`), or by an
  import path, `package.module:NAME`. The working folder is searched as Python searches it for a script.
- *It counts*: a run's identity covers the source of the protocol's package, or of its module if that stands alone,
  and of the user's own packages that it imports. Changed code makes different runs.
- *It travels*: a task on another machine gets that source (`pack`), and uses it unless the same code is there
  already (`unpack`).
"""

from __future__ import annotations

import ast
import atexit
import importlib
import importlib.metadata
import importlib.util
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from hashlib import blake2b
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, TypeAlias

from antecast.core.errors import ConfigurationError
from antecast.core.forms import compiled_form, form

GROUP = "antecast.protocols"

_OURS = __name__.partition(".")[0]

Sources: TypeAlias = dict[str, bytes]
"""The Python files of a package or module, by their path relative to the folder that holds it."""


@cache
def entry_points() -> Mapping[str, importlib.metadata.EntryPoint]:
    """The protocols of installed packages, by name; nothing is imported yet."""
    return {each.name: each for each in importlib.metadata.entry_points(group=GROUP)}


_targets: dict[str, str] = {}
"""Entry points of the machine that sent its protocols here."""


def is_known(name: str) -> bool:
    """Whether a name is an import path or an entry point."""
    return ":" in name or name in entry_points() or name in _targets


def _target(name: str) -> str:
    """The import path behind a name."""
    if name in _targets:
        return _targets[name]
    return entry_points()[name].value if name in entry_points() else name


def module_of(name: str) -> tuple[str, ...]:
    """The module that an entry point or import path leads to; none for other names."""
    module, colon, _ = _target(name).partition(":")
    return (module,) if colon else ()


def load(name: str, *, path: str, expected: str = "expected package.module:NAME of a Specification") -> Any:
    """What an entry point or import path names."""
    module_name, _, attribute = _target(name).partition(":")
    if "/" in module_name or not all((*module_name.split("."), *attribute.split("."))):
        raise ConfigurationError(f"{name} is no import path; {expected}", field=path)
    _search_working_folder()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"{name} needs the module {error.name}, which is not there", field=path
            ) from None
        where = f"the working folder ({Path.cwd()}) and Python's path"
        raise ConfigurationError(f"there is no module {error.name!r} for {name} in {where}", field=path) from None
    except (Exception, SystemExit) as error:  # a script that ends itself must not end this program
        raise ConfigurationError(f"{name} cannot be imported: {_told(error)}", field=path) from error
    try:
        found: Any = module
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError:
        problem = f"{module_name} has no {attribute!r}; {expected}"
        raise ConfigurationError(problem, field=path) from None
    return found


def _told(error: BaseException) -> str:
    """An error that ended the loading of a module, with the user's line that led to it."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):  # names its line itself
        return text
    ours = str(Path(__file__).parents[1])
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.suffix == ".py" and not frame.filename.startswith(("<", ours)) and not _is_library(file):
            return f"{text} ({file.name}, line {frame.lineno})"
    return text


def _search_working_folder() -> None:
    """Make modules beside the user's scenario importable, as for a script in that folder."""
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


# The code that counts.


def homes(parts: Iterable[object]) -> list[str]:
    """The packages and modules, other than Antecast's own and Python's, in which functions and classes live, and
    those of the user that these import. The code of a protocol counts wherever it is installed."""
    found = list(dict.fromkeys(_home(_module(part)) for part in parts))
    found = [home for home in found if home == "__main__" or not _is_common(home)]
    for home in found:  # grows while it is walked
        found += [each for each in sorted(_imported(home)) if each not in found and _is_users(each)]
    return sorted(found)


def _module(part: object) -> str:
    """The module of a function or class, or of the function that a `partial` calls."""
    while isinstance(part, partial):
        part = part.func
    return part if isinstance(part, str) else str(getattr(part, "__module__", ""))


def _home(module: str) -> str:
    """The package that a module belongs to, or the module if it stands alone.

    That is its top-level package, unless this is a folder without `__init__.py`: such a folder may be shared by
    many, and holds no code itself, so it is left out and what is inside it stands alone.
    """
    first, *others = module.split(".")
    home = first
    for name in others:
        if not _is_folder(home):
            break
        home = f"{home}.{name}"
    return home


def _is_common(home: str) -> bool:
    """Whether code is Antecast's or Python's."""
    first = home.partition(".")[0]
    return not first or first == _OURS or first in sys.stdlib_module_names


def _is_users(home: str) -> bool:
    """Whether code that a protocol imports is the user's: not Antecast's, not Python's, not that of a library."""
    return not _is_common(home) and (not _is_installed(home) or home in _advertised())


def _is_installed(home: str) -> bool:
    file = _file(home)
    return file is not None and _is_library(file)


def _is_library(file: Path) -> bool:
    return bool({"site-packages", "dist-packages"} & set(file.parts))


@cache
def _advertised() -> frozenset[str]:
    """Installed packages that hold protocols: their code counts as if it were the user's."""
    return frozenset(_home(each.value.partition(":")[0]) for each in entry_points().values())


def _spec(home: str) -> ModuleSpec | None:
    module = sys.modules.get(home)
    if module is not None:
        return getattr(module, "__spec__", None)
    try:
        return importlib.util.find_spec(home)
    except (ImportError, ValueError):
        return None


def _is_folder(home: str) -> bool:
    """Whether this is a folder of modules without `__init__.py`."""
    spec = _spec(home)
    return spec is not None and spec.submodule_search_locations is not None and not spec.has_location


def _file(home: str) -> Path | None:
    module = sys.modules.get(home)
    if module is None:
        spec = _spec(home)
        origin = None if spec is None else spec.origin
    else:
        origin = getattr(module, "__file__", None)
    return None if origin is None else Path(origin)


@cache
def _imported(home: str) -> set[str]:
    """The packages and modules that a package imports, anywhere in its files."""
    names: set[str] = set()
    for name, data in sources(home).items():
        package = name.removesuffix("/__init__.py") if name.endswith("/__init__.py") else name.rpartition("/")[0]
        for node in ast.walk(ast.parse(data)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                module = _absolute(node, package.replace("/", "."))
                folder = _home(module) == module and _is_folder(module)
                # What is imported from a folder is a module.
                names |= {f"{module}.{alias.name}" for alias in node.names} if folder else {module}
    found = {_home(name) for name in names if name and not _is_common(name)}
    return {each for each in found if _file(each) is not None}


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The module that an import is from; empty if a relative one leads out of everything."""
    try:
        return importlib.util.resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return ""


def sources(home: str) -> Sources:
    """The Python files of a package, or of a module that stands alone; empty if it has none, as in a notebook."""
    files = _files(home)
    if not files:
        return {}
    up = home.count(".") + (files[0].name == "__init__.py")
    folder = files[0].parents[up]
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in files}


def _files(home: str) -> list[Path]:
    """The Python files of a package, that of the package itself first."""
    file = _file(home)
    if file is None or file.suffix != ".py" or not file.exists():
        return []
    others = sorted(file.parent.rglob("*.py")) if file.name == "__init__.py" else []
    return [file, *(each for each in others if each != file)]


_seen: dict[str, tuple[str, dict[Path, int]]] = {}
"""Fingerprints of packages as this process first saw them, and when their files were last changed."""


def fingerprint(home: str) -> str:
    """A hash of what a package's source says (`antecast.core.forms`): rewording changes nothing.

    Where there is no source (a notebook, a terminal) it is one of the compiled code, taken anew each time. Where
    the source has changed since it was loaded, what runs is not what the files say, and no hash would be right.
    """
    if home not in _seen:
        digest = blake2b(digest_size=8)
        files = sources(home)
        for name, data in sorted(files.items()):
            digest.update(f"{name}\0{form(data)}\0".encode())
        if not files:
            return _typed(home)
        _seen[home] = digest.hexdigest(), _changed(home)
    known, changed = _seen[home]
    if changed != _changed(home):
        problem = f"the source of {home} has changed since it was loaded; start the program again to load it"
        raise ConfigurationError(problem, field="protocol.name")
    return known


def _typed(home: str) -> str:
    """A hash of code that was typed, and may be retyped at any time."""
    module = sys.modules.get(home)
    text = f"{home} is not here" if module is None else compiled_form(module)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _changed(home: str) -> dict[Path, int]:
    return {each: each.stat().st_mtime_ns for each in _files(home)}


def code_of(parts: Iterable[object]) -> dict[str, str]:
    """The fingerprints of all code from outside that a protocol is made of; empty for one of Antecast's own."""
    return {home: fingerprint(home) for home in homes(parts)}


# Code for workers.


@dataclass(frozen=True)
class Package:
    """A package or module from outside, as it travels."""

    home: str
    fingerprint: str
    files: Sources
    modules: tuple[str, ...]
    """What to import of it: modules may register protocols when they are loaded."""


@dataclass(frozen=True)
class Packed:
    """Code for workers: plain values that any pickler takes."""

    targets: Mapping[str, str]
    """Names that are entry points here, and may not be there, with their import paths."""
    packages: tuple[Package, ...]


def pack(protocols: Mapping[str, Iterable[object]]) -> Packed:
    """The code of protocols, given for each name what the protocol is made of."""
    packages: dict[str, Package] = {}
    for name, parts in protocols.items():
        modules = {_module(part) for part in parts}
        for home in homes(modules):
            files = sources(home)
            if not files and _is_installed(home):
                continue  # compiled: it has to be installed there, too
            if home == "__main__" or not files:
                problem = (
                    f"{name} is defined in a script or notebook, which workers cannot import; put it into a "
                    'module and name it by its import path, protocol = { name = "my_module:SPEC" }'
                )
                raise ConfigurationError(problem, field="protocol.name")
            mine = {module for module in modules if f"{module}.".startswith(f"{home}.")}
            known = packages.get(home)
            mine |= set(known.modules) if known else set()
            packages[home] = Package(home, fingerprint(home), files, tuple(sorted(mine)))
    return Packed({name: _target(name) for name in protocols if ":" in _target(name)}, tuple(packages.values()))


def unpack(packed: Packed) -> None:
    """Make protocols known here; their code is written here unless the same code is here already. Packages may
    import each other, so all are written before one is loaded."""
    if not all(_is_here(package) for package in packed.packages):
        for package in packed.packages:
            _put_here(package)
    for package in packed.packages:
        for module in package.modules:
            importlib.import_module(module)
    _targets.update(packed.targets)


def _is_here(package: Package) -> bool:
    try:
        return bool(_files(package.home)) and fingerprint(package.home) == package.fingerprint
    except ConfigurationError:
        return False


def _put_here(package: Package) -> None:
    """Write a package into a folder of this process, and put that folder first on the path."""
    folder = Path(tempfile.mkdtemp(prefix=f"antecast-{package.home}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, data in package.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    for loaded in [each for each in sys.modules if f"{each}.".startswith(f"{package.home}.")]:
        del sys.modules[loaded]
    parent, _, name = package.home.rpartition(".")
    if parent in sys.modules:
        vars(sys.modules[parent]).pop(name, None)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    _seen.pop(package.home, None)
    _imported.cache_clear()
