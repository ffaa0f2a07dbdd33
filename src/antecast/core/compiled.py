"""Compiled kernels: typed Python loops over arrays, made fast by Numba when they are first called.

Numba takes longer to import than most logs take to read, so nothing imports it until a kernel runs, and machine
code is kept on disk (`machine_code`). Kernels release the interpreter lock and touch only the arrays they are
given. They do not call each other: to Numba a wrapper is an opaque Python object.

What several kernels need is a `part`: a plain function, compiled into each kernel that calls it. Parts
may call parts. The machine code on disk is used only while no file has changed that holds a part of the kernel, or
the constants (in capitals) of one.
"""

import ast
import inspect
import sys
import time
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from antecast.core.one_module import one_module

P = ParamSpec("P")
R = TypeVar("R")

_BEGAN = time.time()
"""What is changed on disk from now on is not what runs here."""

_parts: list[Callable[..., Any]] = []


def part(function: Callable[P, R]) -> Callable[P, R]:
    """A function that kernels may call. It allocates no arrays.

    >>> @part
    ... def half(x: int) -> int:
    ...     return x // 2
    >>> half(8)
    4
    """
    _parts.append(function)
    return function


def inlined_part(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a function that becomes a piece of its callers.

    A part that is given a world of fifty arrays gets hundreds of words at each call. Where that is often, and in
    few places, this is quicker, to compile too.
    """
    _inlined.add(function)
    return part(function)


_inlined: set[Callable[..., Any]] = set()


def allocating_part(function: Callable[P, R]) -> Callable[P, R]:
    """The same for a function that makes arrays."""
    _allocating.add(function)
    return part(function)


_allocating: set[Callable[..., Any]] = set()


def bare(function: Callable[P, R]) -> Callable[P, R]:
    """`compiled` for a kernel that allocates nothing, no more than its parts do.

    Numba then keeps no counts of who uses an array. In kernels with many small parts that takes half of the time.
    """
    return compiled(function, allocates=False)


def compiled(function: Callable[P, R], *, allocates: bool = True) -> Callable[P, R]:
    """`numba.njit` on first call, with the type of the Python function kept.

    >>> @compiled
    ... def double(x: int) -> int:
    ...     return 2 * x
    >>> double.__name__
    'double'
    """

    @cache
    def kernel() -> Any:
        import numba

        from antecast.core.machine_code import keep

        _register_parts()
        options: dict[str, Any] = {"nogil": True, "_nrt": allocates, "no_cfunc_wrapper": True}
        dispatcher = numba.njit(**options)(function)
        keep(dispatcher, _sources(function), since=_BEGAN)
        compile_alone = dispatcher.compile

        def compile_whole(signature: Any) -> Any:
            with one_module(function, _registered, _inlined):
                return compile_alone(signature)

        dispatcher.compile = compile_whole
        return dispatcher

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = kernel()(*args, **kwargs)
        return result

    _kernels[call] = kernel
    return call


_kernels: dict[Callable[..., Any], Callable[[], Any]] = {}
"""The dispatchers of kernels, made when they are asked for."""


def is_cached(function: Callable[..., Any]) -> bool:
    """Whether a kernel has been compiled, in this process or into a file that is still up to date."""
    from antecast.core.machine_code import is_on_disk

    dispatcher = _kernels[function]()
    return bool(dispatcher.signatures) or is_on_disk(dispatcher)


def is_kept(function: Callable[..., Any]) -> bool:
    """Whether there is a place on disk for the machine code of a kernel."""
    from antecast.core import machine_code

    return machine_code.is_kept(_kernels[function]())


def _register_parts() -> None:
    """Register the parts that Numba does not know yet."""
    from numba.extending import register_jitable

    while _parts:
        each = _parts.pop()
        _registered.add(each)
        register_jitable(_nrt=each in _allocating, nogil=True, no_cfunc_wrapper=True)(each)


_registered: set[Callable[..., Any]] = set()


def _sources(kernel: Callable[..., Any]) -> set[Path]:
    """The files of all parts that a kernel calls, and those that their constants come from: the same in every
    process, whatever else it has imported."""
    reached: set[Callable[..., Any]] = set()
    called = [kernel]
    while called:
        function = called.pop()
        if function not in reached:
            reached.add(function)
            called += _parts_named(function)
    files = {Path(inspect.getfile(each)) for each in reached}
    left = [path for path in files if path.is_file()]  # one typed at a prompt has no file
    found: set[Path] = set()
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += _constants_of(path)
    return found


def _parts_named(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    values = [function.__globals__.get(name) for name in function.__code__.co_names]
    return [each for each in values if callable(each) and each in _registered]


@cache
def _constants_of(path: Path) -> list[Path]:
    """The loaded modules from which a file imports constants, by the look of their names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    wanted = (
        each.module
        for each in ast.walk(tree)
        if isinstance(each, ast.ImportFrom) and each.module and any(alias.name.isupper() for alias in each.names)
    )
    found = (getattr(sys.modules.get(name), "__file__", None) for name in wanted if _is_ours(name))
    return [Path(file) for file in found if file is not None]


def _is_ours(module: str) -> bool:
    """Whether a module may change: those of installed packages and of Python do so with a version."""
    return module.partition(".")[0] not in sys.stdlib_module_names | {"numpy", "numba"}
