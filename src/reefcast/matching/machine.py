"""How kernels are compiled, and what they need of the machine that numba has no name for.

The kernels of this layer keep their tables in memory of their own (`allocate`), reached by address,
as a program in C would: numba's arrays would cost more to hand over than a match takes, and could
not be linked into each other. Every number in a kernel is an int64; addresses too.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy.typing as npt
from llvmlite import binding, ir
from numba import types
from numba.core.ccallback import CFunc
from numba.extending import intrinsic

from reefcast.matching.kernel_cache import njit

F = TypeVar("F", bound=Callable[..., Any])
Array = npt.NDArray[Any]
Int = Any
"""An integer or an address, of Python or of a kernel."""

WORD = ir.IntType(64)


def _stamp() -> str:
    """Changes when any module of this folder does."""
    folder, digest = Path(__file__).parent, blake2b()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()


STAMP = _stamp()


def compiled(function: F) -> F:
    """A kernel that Python calls: compiled at its first use, then loaded from numba's cache.

    Numba compares the time and size of the file where a kernel stands, and of no other; but the
    parts of a kernel stand in other files of this folder. So its stamp is made of all of them.
    """
    kernel: Any = njit(cache=True, error_model="numpy")(function)
    kernel._cache._cache_file._source_stamp = STAMP
    return cast(F, kernel)


def kernel(function: F) -> F:
    """A kernel of int64 alone, compiled with the units it calls (`compile_units`): were it compiled
    at its first use, that could be within a collection of garbage, within compiling another."""
    made = compiled(function)
    _kernels.append((made, function.__code__.co_argcount))
    return made


def part(function: F) -> F:
    """A part of kernels and units, compiled into each of them."""
    options: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    inner: Any = njit(error_model="numpy", **options)(function)
    return cast(F, inner)


def unit(function: F) -> F:
    """A part that is compiled and cached once, by itself (`compile_units`), and called by others as
    a function of C's library is. Takes int64; returns int64 or nothing.

    Compiling each kernel with all its parts would take the square of the time. Units that a unit
    calls must be defined before it.
    """
    arguments = (types.int64,) * function.__code__.co_argcount
    result = types.void if function.__annotations__["return"] == "None" else types.int64
    name = f"reefcast_{function.__module__}_{function.__name__}".replace(".", "_")
    callback: Any = CFunc(function, (arguments, result), {}, {"error_model": "numpy"})
    _waiting.append((name, callback))
    return cast(F, types.ExternalFunction(name, result(*arguments)))


_waiting: list[tuple[str, Any]] = []
_kernels: list[tuple[Any, int]] = []
_units: list[Any] = []  # keeps their code alive


def compile_units() -> None:
    """Compiles the units and kernels defined since the last time, or loads them from numba's cache.
    For the modules of kernels, at their end."""
    for name, callback in _waiting:
        callback.enable_caching()
        callback._cache._cache_file._source_stamp = STAMP
        callback.compile()
        binding.add_symbol(name, callback.address)
        _units.append(callback)
    for made, arguments in _kernels:
        made.compile((types.int64,) * arguments)
    _waiting.clear()
    _kernels.clear()


def built_in(generator: Callable[..., Any]) -> Callable[..., Any]:
    """A function of machine code's own, for which neither Python nor numpy has a name."""
    function: Callable[..., Any] = intrinsic(generator)
    return function


def _library(name: str, signature: Any) -> Callable[..., Any]:
    """A function of C's library."""
    return cast(Callable[..., Any], types.ExternalFunction(name, signature))


allocate = _library("malloc", types.int64(types.int64))
allocate_zeroed = _library("calloc", types.int64(types.int64, types.int64))
release = _library("free", types.void(types.int64))
compare_bytes = _library("memcmp", types.int32(types.int64, types.int64, types.int64))
find_bytes = _library("memmem", types.int64(*[types.int64] * 4))
copy_bytes = _library("memcpy", types.int64(types.int64, types.int64, types.int64))

# --- memory by address ----------------------------------------------------------------------------


def place_of(builder: Any, address: Any, index: Any, bits: int) -> Any:
    """A pointer to item `index` of those of so many bits at the address."""
    shift = {8: 0, 16: 1, 32: 2, 64: 3}[bits]
    offset = builder.shl(index, ir.Constant(WORD, shift))
    return builder.inttoptr(builder.add(address, offset), ir.IntType(bits).as_pointer())


def _reader(bits: int, align: int) -> Callable[..., Any]:
    def read(_context: Any, _address: Any, _index: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, index = arguments
            value = builder.load(place_of(builder, address, index, bits), align=align)
            return value if bits == 64 else builder.zext(value, WORD)

        return types.int64(types.int64, types.int64), generate

    return read


def _writer(bits: int) -> Callable[..., Any]:
    def write(_context: Any, _address: Any, _index: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, index, value = arguments
            value = value if bits == 64 else builder.trunc(value, ir.IntType(bits))
            builder.store(value, place_of(builder, address, index, bits))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return write


get8 = built_in(_reader(64, 8))
"""get8(address, i): word i of the words there. `get4`, `get1` read 4 bytes or 1, without sign."""
get4 = built_in(_reader(32, 4))
get1 = built_in(_reader(8, 1))
get8_anywhere = built_in(_reader(64, 1))
"""The same at an address that no 8 divides."""
put8 = built_in(_writer(64))
"""put8(address, i, value)."""
put4 = built_in(_writer(32))
put2 = built_in(_writer(16))
put1 = built_in(_writer(8))


# --- bits -----------------------------------------------------------------------------------------


@built_in
def trailing_zeros(_context: Any, _word: Any) -> Any:
    """Number of zeros below the lowest 1 of a word; 64 if there is none."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@built_in
def ones(_context: Any, _word: Any) -> Any:
    """Number of ones in a word."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


@built_in
def swapped(_context: Any, _word: Any) -> Any:
    """The word with its bytes in the opposite order."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.int64(types.int64), generate


@built_in
def shifted_right(_context: Any, _word: Any, _count: Any) -> Any:
    """As `>>`, but zeros come in, whatever the sign."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.lshr(*arguments)

    return types.int64(types.int64, types.int64), generate


@built_in
def bits_of(_context: Any, _number: Any) -> Any:
    """A float64 as the word that stands for it."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], WORD)

    return types.int64(types.float64), generate


@built_in
def float_of(_context: Any, _word: Any) -> Any:
    """The float64 that a word stands for."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@built_in
def product_overflows(_context: Any, _left: Any, _right: Any) -> Any:
    """1 if the product of two int64 is none, else 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        both = builder.smul_with_overflow(*arguments)
        return builder.zext(builder.extract_value(both, 1), WORD)

    return types.int64(types.int64, types.int64), generate
