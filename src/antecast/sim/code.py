"""What code says, apart from how it says it: digests that rewording leaves alone and a changed rule does not.

A run must never pass yesterday's numbers off as those of a protocol that was changed since: that is the worst a
study tool can do. So code counts unless it surely cannot matter. A module counts by its syntax tree, from which
only this is taken:

- comments, blank lines and layout, which the tree does not have;
- docstrings and other texts that stand alone;
- texts inside `raise`, and those of a variable that is used in `raise` and nowhere else: what an error says is in
  no log;
- what a `Specification` says for people: title, reference, and costs in words.

Everything else counts, names and annotations included. That some of it could not change a run either costs a run
that is made again; a mistake the other way would cost the trust in all of them.

The digest does not depend on the version of Python: fields that are empty are left out, since versions differ in
which ones there are.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

_PROSE = frozenset({"title", "reference", "control", "memory", "delivery"})
"""Arguments of `Specification` that are for people."""

_FORM = 1
"""To be counted up when `form` takes away more or less, so that no digest of before is taken for one of now."""

_MOST_KEPT = 1000
"""Digests kept on disk before those that are not in use are dropped."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def code_of(module: ModuleType | str) -> str:
    """A digest of the code of a protocol that is not ours: of its whole package, and of what it imports beside it.

    The package is the outermost one. Of modules that lie elsewhere, those of the standard library and of Antecast
    are left out (the latter are part of every run's identity), those of installed distributions count by their
    version, and all others as if they were part of the package. Data files do not count. A module without a file,
    such as a notebook, counts by what Python has compiled of it.
    """
    name = module if isinstance(module, str) else module.__name__
    loaded = sys.modules.get(name)
    spec = getattr(loaded, "__spec__", None)
    known = _known.get(name)
    if known is None or spec is None or known[0] is not spec:
        known = _known[name] = (spec, _digest(_parts_of(name)))
    return known[1]


_known: dict[str, tuple[object, str]] = {}
"""Digests from when a module was first asked for: a file that is changed later is not what this process runs."""


def digest_of(files: Iterable[Path], base: Path) -> str:
    """A digest of Python files, by what they say and by their places under a folder."""
    forms = _Forms()
    found = _digest((file.relative_to(base).as_posix(), forms.of(file)) for file in sorted(files))
    forms.keep()
    return found


def form(source: str | bytes) -> str:
    """What a module says, as text: two sources have the same form if no run can tell them apart.

    >>> form("x = 1  # one") == form('"A module."\\nx=1'), form("x = 1") == form("x = 2")
    (True, False)
    >>> form("raise ValueError('no')") == form("raise ValueError('never')")
    True
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            _blank(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Specification":
            for keyword in node.keywords:
                if keyword.arg in _PROSE:
                    _blank(keyword.value)
        elif isinstance(node, _FUNCTIONS):
            _blank_raised_names(node)
    parts: list[str] = []
    _write(tree, parts)
    return " ".join(parts)


def _blank(node: ast.AST) -> None:
    """Take the texts out of an expression or statement."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            each.value = ""


def _blank_raised_names(function: ast.AST) -> None:
    """Take the texts out of variables that are only there to be raised, such as `problem = f"…"`."""
    inside = {id(each) for node in ast.walk(function) if isinstance(node, ast.Raise) for each in ast.walk(node)}
    raised: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            (raised if id(node) in inside else used).add(node.id)
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            (target,) = node.targets
            if isinstance(target, ast.Name) and target.id in raised - used:
                _blank_text(node.value)


def _blank_text(value: ast.expr) -> None:
    """Take the words out of an expression that is but a text; what it calls may do more than speak, and stays."""
    match value:
        case ast.Constant(value=str()):
            value.value = ""
        case ast.JoinedStr(values=parts):
            for part in parts:
                _blank_text(part)
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, op=ast.Add(), right=other):
            _blank_text(one)
            _blank_text(other)


def _write(node: object, parts: list[str]) -> None:
    if isinstance(node, ast.Constant):
        parts.append(repr(node.value))
    elif isinstance(node, ast.AST):
        parts.append(type(node).__name__)
        for name in node._fields:
            value = getattr(node, name, None)
            if value is not None and value != []:
                parts.append(name)
                _write(value, parts)
        parts.append(")")
    elif isinstance(node, list):
        for each in node:
            if not _stands_alone(each):
                _write(each, parts)
        parts.append("]")
    else:
        parts.append(repr(node))


def _stands_alone(node: object) -> bool:
    """Whether a statement is but a text: a docstring, of whatever it is one."""
    return (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


def _digest(parts: Iterable[tuple[str, str]]) -> str:
    digest = blake2b(digest_size=8)
    for name, what in parts:
        digest.update(f"{name}\0{what}\0".encode())
    return digest.hexdigest()


class _Forms:
    """Digests of forms by file, kept beside Python's own compiled files: parsing takes longer than most imports.

    They are found by what the files hold, so that none can be out of date.
    """

    def __init__(self) -> None:
        self._file = Path(__file__).parent / "__pycache__" / f"forms-{_FORM}.json"
        try:
            self._kept: dict[str, str] = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._kept = {}
        self._used: dict[str, str] = {}

    def of(self, file: Path) -> str:
        source = file.read_bytes()
        key = blake2b(source, digest_size=16).hexdigest()
        found = self._kept.get(key)
        if found is None:
            found = blake2b(form(source).encode(), digest_size=16).hexdigest()
        self._used[key] = found
        return found

    def keep(self) -> None:
        """Write down what was found now; where that is not possible, it is found again next time."""
        if self._used.keys() <= self._kept.keys():
            return
        partial = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(exist_ok=True)
            known = self._used if len(self._kept) > _MOST_KEPT else self._kept | self._used
            partial.write_text(json.dumps(known), encoding="utf-8")
            partial.replace(self._file)
        except OSError:
            partial.unlink(missing_ok=True)


# Modules of others.


def _parts_of(name: str) -> Iterator[tuple[str, str]]:
    """Names and digests of all that a module's code consists of, in a fixed order."""
    found: dict[str, str] = {}
    own = name.partition(".")[0]
    waiting, seen = [own], {"antecast", *sys.stdlib_module_names} - {own}
    while waiting:
        top = waiting.pop()
        if top in seen:
            continue
        seen.add(top)
        files, base = _files(top)
        if base is None:
            found[top] = _compiled_digest(top) if top in sys.modules else "not there"
        elif top != own and {"site-packages", "dist-packages"} & set(base.parts):
            found[top] = _version(top)
        else:
            for file in files:
                label = f"{top}/{file.relative_to(base).as_posix()}"
                source = file.read_bytes()
                if file.suffix != ".py":
                    found[label] = blake2b(source, digest_size=16).hexdigest()
                    continue
                found[label] = blake2b(form(source).encode(), digest_size=16).hexdigest()
                waiting += _imports(source)
    yield from sorted(found.items())


def _files(top: str) -> tuple[list[Path], Path | None]:
    """The code files of a package or module, and the folder they lie in; None if it has no file."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):  # as `__main__` of a program that was typed
        spec = None
    file = getattr(sys.modules.get(top), "__file__", None)
    if spec is not None and spec.submodule_search_locations:
        folders = [Path(place) for place in spec.submodule_search_locations]
        suffixes = (".py", *EXTENSION_SUFFIXES)
        files = [each for folder in folders for each in folder.rglob("*") if each.name.endswith(suffixes)]
        return sorted(files), folders[0]
    if spec is not None and spec.origin not in (None, "built-in", "frozen"):
        file = spec.origin
    return ([], None) if file is None else ([Path(file)], Path(file).parent)


def _imports(source: bytes) -> set[str]:
    """The outermost packages that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def _version(top: str) -> str:
    """The version of the installed distribution that a package comes with."""
    try:
        return metadata.version(top)
    except metadata.PackageNotFoundError:  # it has another name than its package
        names = metadata.packages_distributions().get(top, [])
        return ", ".join(f"{name} {metadata.version(name)}" for name in sorted(set(names)))


def _compiled_digest(top: str) -> str:
    """A digest of a module's functions and classes as Python has compiled them, and of constants they name."""
    parts: list[tuple[str, str]] = []
    own = vars(sys.modules[top])
    for name, value in sorted(own.items()):
        if getattr(value, "__module__", None) == top:
            parts += ((name, part) for part in _compiled(value))
    named = " ".join(part for _, part in parts)
    plain = (bool, int, float, str, bytes, tuple, frozenset)
    parts += (
        (name, _plain(value)) for name, value in sorted(own.items()) if isinstance(value, plain) and name in named
    )
    return _digest(parts)


def _compiled(value: object) -> Iterator[str]:
    if isinstance(value, type):
        yield ", ".join(base.__qualname__ for base in value.__bases__)
        for name, each in sorted(vars(value).items()):
            if name not in ("__doc__", "__dict__", "__weakref__", "__firstlineno__"):
                yield name
                yield from _compiled(each)
    elif isinstance(value, FunctionType):
        yield repr(value.__defaults__)
        yield from _compiled(value.__code__)
    elif isinstance(value, CodeType):
        yield f"{value.co_code.hex()} {value.co_names} {value.co_varnames}"
        for each in value.co_consts:
            yield from _compiled(each)
    elif isinstance(value, (staticmethod, classmethod)):
        yield from _compiled(value.__func__)
    elif isinstance(value, property):
        for each in (value.fget, value.fset):
            yield from _compiled(each)
    else:
        yield _plain(value)


def _plain(value: object) -> str:
    """A constant as text, the same in every process; anything else by its kind."""
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_plain, value)))}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    return type(value).__qualname__
