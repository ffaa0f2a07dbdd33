"""Digests of code that change with its rules, and not with its wording.

A run must never pass yesterday's numbers off as those of a protocol that has changed since: that is the worst a
study tool can do. So all code counts, unless it certainly cannot matter. A module counts by its syntax tree, from
which only this is left out:

- comments, blank lines and layout, which the tree does not have;
- docstrings and other texts that stand alone;
- texts inside `raise`, and those of a variable that is used in `raise` and nowhere else: no log holds what an
  error says;
- what a `Specification` says for people: title, reference, and costs in words.

Everything else counts, names and annotations included. If some of it could not change a run after all, that run is
made again for nothing; a mistake the other way would cost the trust in all runs.

The digest does not depend on the version of Python: empty fields are left out, since versions differ in which
fields there are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

VERSION = 1
"""Raise it when `form` leaves out more or less, so that old digests are not mistaken for new ones."""

_PROSE = frozenset({"title", "reference", "control", "memory", "delivery"})
"""Arguments of `Specification` that are for people."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def form(source: str | bytes) -> str:
    """What a module says, as text: two sources have the same form if no run can tell them apart.

    >>> form("x = 1  # one") == form('"A module."\\nx=1'), form("x = 1") == form("x = 2")
    (True, False)
    >>> form("raise ValueError('no')") == form("raise ValueError('never')")
    True
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a file that is not valid Python counts as it stands
        return source if isinstance(source, str) else source.decode("utf-8", "replace")
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
    """Take the words out of an expression that is only text; calls in it may do more, and stay."""
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
    """Whether a statement is only text, such as a docstring."""
    return (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


def compiled_form(module: ModuleType) -> str:
    """What a module without a file says, such as a notebook: its functions and classes as Python has compiled
    them, and the constants that they name."""
    own = vars(module)
    parts: list[str] = []
    for name, value in sorted(own.items()):
        if getattr(value, "__module__", None) == module.__name__:
            parts += (name, *_compiled(value))
    named = " ".join(parts)
    plain = (bool, int, float, str, bytes, tuple, frozenset)
    for name, value in sorted(own.items()):
        if isinstance(value, plain) and not name.startswith("__") and name in named:
            parts += (name, _plain(value))
    return " ".join(parts)


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
