"""Compile a numerical kernel once, and cache the machine code wherever a cache can be written."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def compiled(kernel: Kernel) -> Kernel:
    """Compile `kernel` with numba on its first call; the type checker still sees the plain function.

    The code is cached beside the source or in the user's cache. Where neither can be written (a
    read-only install, no home) numba refuses when the decorator runs, which is at import: there the
    kernel is compiled afresh in each process instead.
    """
    return _compile(kernel, into_callers=False)


def inlined(kernel: Kernel) -> Kernel:
    """Compile `kernel` into the kernels that call it: for parts so small that the call itself would show."""
    return _compile(kernel, into_callers=True)


def linked(kernel: Kernel) -> Kernel:
    """Compile `kernel` afresh in each process: it calls kernels of other files, whose changes a cache would miss."""
    return cast(Kernel, numba.njit(nogil=True, error_model="numpy")(kernel))


def _compile(kernel: Kernel, *, into_callers: bool) -> Kernel:
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "forceinline": into_callers}
    try:
        return cast(Kernel, numba.njit(cache=True, **options)(kernel))
    except RuntimeError:  # numba: "no locator available for file ..."
        return cast(Kernel, numba.njit(**options)(kernel))
