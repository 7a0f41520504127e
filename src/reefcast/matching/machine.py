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
from numba import njit, types
from numba.core.ccallback import CFunc
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])
Array = npt.NDArray[Any]
Int = Any
"""An integer or an address, of Python or of a kernel."""

WORD = ir.IntType(64)
GROUP = ir.VectorType(WORD, 8)
GROUP_WORDS, GROUP_BYTES = 8, 64
"""What `survivors_of` treats at once: 512 rows, a line of the cache."""


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
copy_bytes = _library("memcpy", types.int64(types.int64, types.int64, types.int64))

# --- memory by address ----------------------------------------------------------------------------


def _place(builder: Any, address: Any, index: Any, bits: int) -> Any:
    shift = {8: 0, 16: 1, 32: 2, 64: 3}[bits]
    offset = builder.shl(index, ir.Constant(WORD, shift))
    return builder.inttoptr(builder.add(address, offset), ir.IntType(bits).as_pointer())


def _reader(bits: int, align: int) -> Callable[..., Any]:
    def read(_context: Any, _address: Any, _index: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, index = arguments
            value = builder.load(_place(builder, address, index, bits), align=align)
            return value if bits == 64 else builder.zext(value, WORD)

        return types.int64(types.int64, types.int64), generate

    return read


def _writer(bits: int) -> Callable[..., Any]:
    def write(_context: Any, _address: Any, _index: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, index, value = arguments
            value = value if bits == 64 else builder.trunc(value, ir.IntType(bits))
            builder.store(value, _place(builder, address, index, bits))
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
def prefetch(_context: Any, _address: Any) -> Any:
    """Asks for the line of the cache that the address is in; it will be read soon."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        name = "llvm.prefetch.p0i8"
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        hints = [ir.Constant(number, hint) for hint in (0, 3, 1)]  # to read, to keep, data
        builder.call(function, [builder.inttoptr(arguments[0], byte), *hints])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _any_bit(builder: Any, group: Any) -> Any:
    whole = ir.IntType(512)
    some = builder.icmp_unsigned("!=", builder.bitcast(group, whole), ir.Constant(whole, 0))
    return builder.zext(some, WORD)


def _loop(builder: Any, count: Any, start: Any, step: Callable[[Any, Any], Any]) -> Any:
    """A loop over i below `count`: start, step(i, what the last step gave), ..."""
    zero, entry = ir.Constant(WORD, 0), builder.block
    loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed(">", count, zero), loop, done)
    builder.position_at_end(loop)
    i, value = builder.phi(WORD), builder.phi(start.type)
    larger = step(i, value)
    following = builder.add(i, ir.Constant(WORD, 1))
    for phi, at_first, later in ((i, zero, following), (value, start, larger)):
        phi.add_incoming(at_first, entry)
        phi.add_incoming(later, loop)
    builder.cbranch(builder.icmp_signed("<", following, count), loop, done)
    builder.position_at_end(done)
    result = builder.phi(start.type)
    result.add_incoming(start, entry)
    result.add_incoming(larger, loop)
    return result


def _union(builder: Any, start: Any, base: Any, slots: Any, count: Any, shift: Any) -> Any:
    def step(i: Any, union: Any) -> Any:
        slot = builder.load(_place(builder, slots, i, 64), align=8)
        place = builder.inttoptr(builder.add(base, builder.shl(slot, shift)), GROUP.as_pointer())
        return builder.or_(union, builder.load(place, align=8))

    return _loop(builder, count, start, step)


@built_in
def filled_words(_context: Any, _words: Any) -> Any:
    """filled_words(words): bit i is 1 if word i of the 8 is not 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        words = builder.load(builder.inttoptr(arguments[0], GROUP.as_pointer()), align=8)
        filled = builder.icmp_signed("!=", words, ir.Constant(GROUP, [0] * GROUP_WORDS))
        return builder.zext(builder.bitcast(filled, ir.IntType(8)), WORD)

    return types.int64(types.int64), generate


@built_in
def survivors_of(
    _context: Any, _dead: Any, _base: Any, _slots: Any, _count: Any, _shift: Any, _out: Any
) -> Any:
    """survivors_of(dead, base, slots, count, shift, out): out[0:8] gets the bits that are neither
    in dead[0:8], nor, for any of the `count` numbers at `slots`, in the 8 words at
    base + (number << shift).

    1 if there is a bit, else 0. In vectors, whatever the machine has: this loop is where matching
    spends its time.
    """

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        dead, base, slots, count, shift, out = arguments
        first = builder.load(builder.inttoptr(dead, GROUP.as_pointer()), align=8)
        left = builder.not_(_union(builder, first, base, slots, count, shift))
        builder.store(left, builder.inttoptr(out, GROUP.as_pointer()), align=8)
        return _any_bit(builder, left)

    return types.int64(*[types.int64] * 6), generate


@built_in
def common_of(
    _context: Any, _start: Any, _base: Any, _slots: Any, _count: Any, _shift: Any, _out: Any
) -> Any:
    """common_of(start, base, slots, count, shift, out): out[0:8] gets the bits of start[0:8] that
    are in any of the others, as above."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        start, base, slots, count, shift, out = arguments
        zeros = ir.Constant(GROUP, [0] * GROUP_WORDS)
        union = _union(builder, zeros, base, slots, count, shift)
        first = builder.load(builder.inttoptr(start, GROUP.as_pointer()), align=8)
        both = builder.and_(first, union)
        builder.store(both, builder.inttoptr(out, GROUP.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), generate


@built_in
def compare_lanes(_context: Any, _bounds: Any, _keys: Any, _groups: Any) -> Any:
    """compare_lanes(bounds, keys, groups): for 8 * groups keys of 16 bits, and for each 8 of them 8
    lower bounds and 8 upper ones: bit 0 of the result says that a key is outside its bounds, bit 1
    that one equals a bound. Keys that are 0 do not count."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bounds, keys, groups = arguments
        lanes, byte = ir.VectorType(ir.IntType(16), 8), ir.IntType(8)
        zeros = ir.Constant(lanes, [0] * 8)

        def load(address: Any, i: Any, size: int, offset: int) -> Any:
            at = builder.add(address, builder.mul(i, ir.Constant(WORD, size)))
            at = builder.add(at, ir.Constant(WORD, offset))
            return builder.load(builder.inttoptr(at, lanes.as_pointer()), align=2)

        def step(i: Any, result: Any) -> Any:
            low, high = load(bounds, i, 32, 0), load(bounds, i, 32, 16)
            key = load(keys, i, 16, 0)
            counted = builder.icmp_unsigned("!=", key, zeros)
            for flag, left, right in (
                (1, builder.icmp_unsigned("<", key, low), builder.icmp_unsigned(">", key, high)),
                (2, builder.icmp_unsigned("==", key, low), builder.icmp_unsigned("==", key, high)),
            ):
                either = builder.and_(builder.or_(left, right), counted)
                some = builder.icmp_unsigned(
                    "!=", builder.bitcast(either, byte), ir.Constant(byte, 0)
                )
                more = builder.select(some, ir.Constant(WORD, flag), ir.Constant(WORD, 0))
                result = builder.or_(result, more)
            return result

        return _loop(builder, groups, ir.Constant(WORD, 0), step)

    return types.int64(*[types.int64] * 3), generate


@built_in
def count_up_to(_context: Any, _words: Any, _groups: Any, _value: Any) -> Any:
    """count_up_to(words, groups, value): how many of the 8 * groups words are at or below `value`.
    Without a branch that depends on them."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        words, groups, value = arguments
        zero, zeros = ir.Constant(WORD, 0), ir.Constant(GROUP, [0] * GROUP_WORDS)
        single = builder.insert_element(zeros, value, zero)
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), GROUP_WORDS), [0] * GROUP_WORDS)
        values = builder.shuffle_vector(single, zeros, lanes)

        def step(i: Any, counts: Any) -> Any:
            offset = builder.shl(i, ir.Constant(WORD, 6))
            at = builder.inttoptr(builder.add(words, offset), GROUP.as_pointer())
            below = builder.icmp_signed("<=", builder.load(at, align=8), values)
            return builder.sub(counts, builder.sext(below, GROUP))

        result = _loop(builder, groups, zeros, step)
        name, kind = "llvm.vector.reduce.add.v8i64", ir.FunctionType(WORD, [GROUP])
        sum_of = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(sum_of, [result])

    return types.int64(*[types.int64] * 3), generate
