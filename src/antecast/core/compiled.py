"""Compiled kernels: typed Python loops over arrays, made fast by Numba when they are first called.

Numba takes longer to import than most logs take to read, so nothing imports it until a kernel runs,
and the machine code is cached on disk. Kernels hold no lock of the interpreter and touch only the
arrays they are given. They do not call each other: to Numba a wrapper is an opaque Python object.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


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

        return numba.njit(cache=True, nogil=True)(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = kernel()(*args, **kwargs)
        return result

    return call
