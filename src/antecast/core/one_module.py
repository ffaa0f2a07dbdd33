"""A kernel and its parts as one module, which Numba compiles once.

Numba makes a library of each part: it optimises it together with all that it calls and makes machine code of it,
and does the same again for whoever calls it, up to the kernel. Most of the time goes into code that nothing runs.
While one of our kernels is compiled, parts are therefore only put into it, and the kernel is optimised as a whole.
Its parts become private to it. LLVM then also takes away the arguments that a part does not use: of a world of
fifty arrays, most. Which parts become pieces of their callers is said here too, and not to Numba: it compiles a
part once for each set of flags of its callers.

This reaches into Numba's code libraries. Where these look different, kernels are compiled in Numba's own way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

_METHODS = ("finalize", "_optimize_final_module", "_raise_if_finalized")


@contextmanager
def one_module(
    kernel: Callable[..., Any],
    parts: Collection[Callable[..., Any]],
    inlined: Collection[Callable[..., Any]] = (),
) -> Iterator[None]:
    """Compile a kernel in this block, with what it calls of some parts; `inlined` become pieces of their
    callers. Libraries have names without modules: a part with the name of the kernel is left to Numba."""
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
    from numba.core.compiler_lock import global_compiler_lock

    library_kind: Any = JITCodeLibrary
    codegen_kind: Any = JITCPUCodegen
    if not all(hasattr(library_kind, name) for name in _METHODS) or not hasattr(codegen_kind, "set_env"):
        yield
        return
    finalize, optimise = library_kind.finalize, library_kind._optimize_final_module
    set_environment = codegen_kind.set_env
    names = {each.__qualname__ for each in parts} - {kernel.__qualname__}
    pieces = tuple(map(_mangled, inlined))
    put_off: dict[str, Any] = {}

    def finalize_kernels(library: Any) -> None:
        if library.name in names:
            library._raise_if_finalized()
            library._finalized = True  # its code is there to be linked, which is all that is done with it
        else:
            library._linking_libraries = _all_linked(library, names)
            finalize(library)

    def optimise_whole(library: Any) -> None:
        for function in library._final_module.functions:
            if function.name.startswith("_ZN") and function.linkage.name == "linkonce_odr":
                function.linkage = "internal"
                if function.name.startswith(pieces):
                    function.add_function_attribute("alwaysinline")
        optimise(library)

    def set_where_it_is(codegen: Any, name: str, environment: Any) -> None:
        if codegen._engine.get_global_value_address(name):
            set_environment(codegen, name, environment)
        else:
            put_off[name] = codegen, environment

    changed = (
        (library_kind, "finalize", finalize_kernels),
        (library_kind, "_optimize_final_module", optimise_whole),
        (codegen_kind, "set_env", set_where_it_is),
    )
    with global_compiler_lock, ExitStack() as stack:
        for kind, name, method in changed:
            stack.enter_context(_replaced(kind, name, method))
        yield
        for name, (codegen, environment) in put_off.items():
            if codegen._engine.get_global_value_address(name):
                set_environment(codegen, name, environment)


@contextmanager
def _replaced(kind: type, name: str, method: Any) -> Iterator[None]:
    """Another method for a while."""
    before = kind.__dict__.get(name)
    setattr(kind, name, method)
    try:
        yield
    finally:
        if before is None:
            delattr(kind, name)  # it was inherited
        else:
            setattr(kind, name, before)


def _mangled(function: Callable[..., Any]) -> str:
    """How the names of a function's versions in machine code begin.

    >>> _mangled(_all_linked)
    '_ZN8antecast4core10one_module11_all_linkedB'
    """
    place = [*function.__module__.split("."), function.__qualname__]
    return "_ZN" + "".join(f"{len(each)}{each}" for each in place) + "B"


def _all_linked(library: Any, parts: Collection[str]) -> list[Any]:
    """The libraries that a library needs, and those that its parts do, each once."""
    found: dict[Any, None] = {}
    left = list(reversed(library._linking_libraries))
    while left:
        each = left.pop()
        if each not in found:
            found[each] = None
            if each.name in parts:
                left += reversed(each._linking_libraries)
    return list(found)
