"""Compiled kernels: typed Python loops over arrays, made fast by Numba when they are first called.

Numba takes longer to import than most logs take to read, so nothing imports it until a kernel runs,
and the machine code is cached on disk. Kernels release the interpreter lock and touch only the arrays they are
given. They do not call each other: to Numba a wrapper is an opaque Python object.

What several kernels need is a `part`: a plain function, compiled into each kernel that calls it. Parts
may call parts. The machine code on disk is used only while no file that holds a part has changed.
"""

import inspect
from collections.abc import Callable
from functools import cache, wraps
from hashlib import blake2b
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_parts: list[Callable[..., Any]] = []


def part(function: Callable[P, R]) -> Callable[P, R]:
    """A function that kernels may call.

    >>> @part
    ... def half(x: int) -> int:
    ...     return x // 2
    >>> half(8)
    4
    """
    _parts.append(function)
    return function


def compiled(function: Callable[P, R]) -> Callable[P, R]:
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

        _register_parts()
        dispatcher = numba.njit(cache=True, nogil=True)(function)
        _stamp(dispatcher)
        return dispatcher

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = kernel()(*args, **kwargs)
        return result

    return call


def _register_parts() -> None:
    """Register the parts that Numba does not know yet."""
    from numba.extending import register_jitable

    while _parts:
        each = _parts.pop()
        _registered.append(each)
        register_jitable(each)


_registered: list[Callable[..., Any]] = []


def _stamp(dispatcher: Any) -> None:
    """Numba notes the source file of a kernel beside its machine code; add the files of all parts."""
    file = getattr(dispatcher._cache, "_cache_file", None)
    if file is not None:
        digest = blake2b(digest_size=16)
        files = {Path(inspect.getfile(each)) for each in _registered}
        for path in sorted(path for path in files if path.is_file()):  # one typed at a prompt has no file
            digest.update(path.read_bytes())
        file._source_stamp = (file._source_stamp, digest.digest())
