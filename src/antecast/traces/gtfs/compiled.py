"""Loops over arrays that Numba compiles when they are first called, and keeps on disk.

Numba takes longer to import than most feeds take to read, so nothing imports it until a kernel runs.
Kernels do not call each other: to Numba a wrapper is an opaque Python object.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`numba.njit` on first call, with the type of the Python function kept."""

    @cache
    def kernel() -> Any:
        import numba

        return numba.njit(cache=True, nogil=True)(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R = kernel()(*args, **kwargs)
        return result

    return call
