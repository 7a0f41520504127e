"""How kernels are compiled, and the machine instructions for which numba has no name.

The kernels of this layer keep their tables in memory of their own (`allocate`), and address it as a
C program would: passing numba's arrays would cost more than a match takes, and they could not be
linked into each other. Every number in a kernel is an int64; so is every address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy.typing as npt

from reefcast.matching.native.batches import Batch
from reefcast.matching.native.definitions import BuiltIn, External, Part, Unit
from reefcast.matching.native.llvm import ir, types, word

F = TypeVar("F", bound=Callable[..., Any])
Array = npt.NDArray[Any]
Int = Any
"""An integer or an address, of Python or of a kernel."""

_batch = Batch()


def kernel(function: F) -> F:
    """Make a unit that Python calls, and no other unit."""
    return cast(F, _batch.add(Unit(function, python=True)))


def part(function: F) -> F:
    """Make a part of kernels and units, compiled into each of them."""
    return cast(F, Part(function))


def unit(function: F) -> F:
    """Make a part that is compiled once, and called by others like a function of the C library. It
    takes int64 and returns int64 or nothing.

    Compiling each kernel with all its parts would take quadratic time. Units that a unit calls must
    be defined before it."""
    return cast(F, _batch.add(Unit(function, python=False)))


def compile_units() -> None:
    """Compile the units and kernels defined since the last call, or load their kept code. Modules
    of kernels call this at their end."""
    _batch.make()


def built_in(generator: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function from machine instructions, for which neither Python nor numpy has a name."""
    return cast(Callable[..., Any], BuiltIn(generator))


def _library(name: str, *signature: str) -> Callable[..., Any]:
    """Declare a function of the C library: its result, its arguments."""
    return cast(Callable[..., Any], External(name, *signature))


allocate = _library("malloc", "int64", "int64")
allocate_zeroed = _library("calloc", "int64", "int64", "int64")
reallocate = _library("realloc", "int64", "int64", "int64")
release = _library("free", "void", "int64")
compare_bytes = _library("memcmp", "int32", "int64", "int64", "int64")
find_bytes = _library("memmem", "int64", "int64", "int64", "int64", "int64")
copy_bytes = _library("memcpy", "int64", "int64", "int64", "int64")

# --- memory by address ----------------------------------------------------------------------------


def place_of(builder: Any, address: Any, index: Any, bits: int) -> Any:
    """Build a pointer to item `index` of the items of `bits` bits at the address."""
    shift = {8: 0, 16: 1, 32: 2, 64: 3}[bits]
    offset = builder.shl(index, ir.Constant(word(), shift))
    return builder.inttoptr(builder.add(address, offset), ir.IntType(bits).as_pointer())


def _reader(bits: int, align: int) -> Callable[..., Any]:
    def read(_context: Any, _address: Any, _index: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, index = arguments
            value = builder.load(place_of(builder, address, index, bits), align=align)
            return value if bits == 64 else builder.zext(value, word())

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
"""get8(address, i): word i of the words there. `get4` and `get1` read 4 bytes or 1, unsigned."""
get4 = built_in(_reader(32, 4))
get1 = built_in(_reader(8, 1))
get8_anywhere = built_in(_reader(64, 1))
"""The same at an address that is not a multiple of 8."""
put8 = built_in(_writer(64))
"""put8(address, i, value)."""
put4 = built_in(_writer(32))
put2 = built_in(_writer(16))
put1 = built_in(_writer(8))


# --- bits -----------------------------------------------------------------------------------------


@built_in
def trailing_zeros(_context: Any, _word: Any) -> Any:
    """Count the zeros below the lowest 1 of a word; 64 if there is none."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), generate


@built_in
def ones(_context: Any, _word: Any) -> Any:
    """Count the ones in a word."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


@built_in
def swapped(_context: Any, _word: Any) -> Any:
    """Return the word with its bytes in the opposite order."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.int64(types.int64), generate


@built_in
def shifted_right(_context: Any, _word: Any, _count: Any) -> Any:
    """Shift as `>>` does, but fill with zeros, whatever the sign."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.lshr(*arguments)

    return types.int64(types.int64, types.int64), generate


@built_in
def bits_of(_context: Any, _number: Any) -> Any:
    """Return a float64 as the word with its bits."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], word())

    return types.int64(types.float64), generate


@built_in
def float_of(_context: Any, _word: Any) -> Any:
    """Return the float64 with the bits of a word."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), generate


@built_in
def product_overflows(_context: Any, _left: Any, _right: Any) -> Any:
    """Return 1 if the product of two int64 does not fit into an int64, else 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        both = builder.smul_with_overflow(*arguments)
        return builder.zext(builder.extract_value(both, 1), word())

    return types.int64(types.int64, types.int64), generate
