"""How kernels are compiled, and what they need of the machine that numba has no name for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy.typing as npt
from numba import njit, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
Array = npt.NDArray[Any]
Records = Any
"""An array of one of the record types below."""
Int = Any
"""An integer, signed or not, of Python or numpy; the kernels' types are those numba infers."""


def compiled(function: F) -> F:
    """A kernel: compiled at its first use, then loaded from numba's cache on disk."""
    kernel: Any = njit(cache=True)(function)
    return cast(F, kernel)


def inlined(function: F) -> F:
    """A part of kernels. Inlined, because a call would count references to each table it gets."""
    part: Any = njit(forceinline=True)(function)
    return cast(F, part)


def built_in(generator: Callable[..., Any]) -> Callable[..., Any]:
    """A function of machine code's own, for which neither Python nor numpy has a name."""
    function: Callable[..., Any] = intrinsic(generator)
    return function


@built_in
def trailing_zeros(_context: Any, _word: Any) -> Any:
    """Number of zeros below the lowest 1 of a word that is not 0."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.int64(types.uint64), generate


@built_in
def pointer(_context: Any, _address: Any) -> Any:
    """The address as a pointer, for `carray`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), generate
