"""Operations of kernels on several words at once: groups of 512 rows, lanes of scaled keys,
boundaries.

All are written as vectors, whatever the machine has: matching spends its time in these loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reefcast.matching.machine import built_in, place_of
from reefcast.matching.native.llvm import ir, types, word

GROUP_WORDS, GROUP_BYTES = 8, 64
"""512 rows, a cache line."""


@built_in
def prefetch(_context: Any, _address: Any) -> Any:
    """Request the cache line of this address, which will be read soon."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        name = "llvm.prefetch.p0i8"
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        hints = [ir.Constant(number, hint) for hint in (0, 3, 1)]  # to read, to keep, data
        builder.call(function, [builder.inttoptr(arguments[0], byte), *hints])
        return context.get_dummy_value()

    return types.void(types.int64), generate


# --- parts of the code that is made ---------------------------------------------------------------


def _group() -> Any:
    return ir.VectorType(word(), GROUP_WORDS)


def _group_at(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, _group().as_pointer()), align=8)


def _put_group(builder: Any, group: Any, address: Any) -> None:
    builder.store(group, builder.inttoptr(address, _group().as_pointer()), align=8)


def _no_bits() -> Any:
    return ir.Constant(_group(), [0] * GROUP_WORDS)


def _any_bit(builder: Any, group: Any) -> Any:
    whole = ir.IntType(64 * GROUP_WORDS)
    return builder.icmp_unsigned("!=", builder.bitcast(group, whole), ir.Constant(whole, 0))


def _loop(
    builder: Any,
    count: Any,
    starts: Sequence[Any],
    step: Callable[[Any, list[Any]], list[Any]],
    more: Callable[[list[Any]], Any] | None = None,
) -> list[Any]:
    """Build a loop over i below `count`: starts, step(i, the last step's result), ...; it ends
    early when `more` of a step's result is false."""
    zero, entry = ir.Constant(word(), 0), builder.block
    loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed(">", count, zero), loop, done)
    builder.position_at_end(loop)
    i, values = builder.phi(word()), [builder.phi(start.type) for start in starts]
    later = step(i, values)
    following = builder.add(i, ir.Constant(word(), 1))
    _join(entry, loop, [(i, zero, following), *zip(values, starts, later, strict=True)])
    goes_on = builder.icmp_signed("<", following, count)
    builder.cbranch(builder.and_(goes_on, more(later)) if more else goes_on, loop, done)
    builder.position_at_end(done)
    results = [builder.phi(start.type) for start in starts]
    _join(entry, loop, zip(results, starts, later, strict=True))
    return results


def _join(entry: Any, loop: Any, values: Iterable[tuple[Any, Any, Any]]) -> None:
    """Merge the values: each is that on entry, or the loop's."""
    for phi, at_first, later in values:
        phi.add_incoming(at_first, entry)
        phi.add_incoming(later, loop)


def _union(builder: Any, start: Any, base: Any, slots: Any, count: Any, shift: Any) -> Any:
    def step(i: Any, union: list[Any]) -> list[Any]:
        slot = builder.load(place_of(builder, slots, i, 64), align=8)
        bitmap = _group_at(builder, builder.add(base, builder.shl(slot, shift)))
        return [builder.or_(union[0], bitmap)]

    return _loop(builder, count, [start], step)[0]


def _fold(
    builder: Any, rows: Any, base: Any, offsets: Any, count: Any, change: Callable[[Any, Any], Any]
) -> Any:
    """Build change(rows, bitmap) for one bitmap after the other, as long as any bit is left."""

    def step(i: Any, rows: list[Any]) -> list[Any]:
        offset = builder.load(place_of(builder, offsets, i, 64), align=8)
        return [change(rows[0], _group_at(builder, builder.add(base, offset)))]

    return _loop(builder, count, [rows], step, lambda rows: _any_bit(builder, rows[0]))[0]


def _counts_up_to(builder: Any, words: Any, groups: Any, values: Sequence[Any]) -> list[Any]:
    """Build, for each value, the count of the 8 * groups words at or below it."""
    spread = [_spread(builder, value) for value in values]

    def step(i: Any, counts: list[Any]) -> list[Any]:
        group = _group_at(builder, builder.add(words, builder.shl(i, ir.Constant(word(), 6))))
        below = [builder.icmp_signed("<=", group, value) for value in spread]
        return [
            builder.sub(count, builder.sext(each, _group()))
            for count, each in zip(counts, below, strict=True)
        ]

    counts = _loop(builder, groups, [_no_bits() for _ in values], step)
    return [_sum(builder, count) for count in counts]


def _spread(builder: Any, value: Any) -> Any:
    """Build a group of eight copies of this word."""
    single = builder.insert_element(_no_bits(), value, ir.Constant(word(), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), GROUP_WORDS), [0] * GROUP_WORDS)
    return builder.shuffle_vector(single, _no_bits(), lanes)


def _sum(builder: Any, group: Any) -> Any:
    name, kind = "llvm.vector.reduce.add.v8i64", ir.FunctionType(word(), [_group()])
    sum_of = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(sum_of, [group])


# --- rows -----------------------------------------------------------------------------------------


@built_in
def filled_words(_context: Any, _words: Any) -> Any:
    """Compute filled_words(words): bit i is 1 if word i of the 8 is not 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        filled = builder.icmp_signed("!=", _group_at(builder, arguments[0]), _no_bits())
        return builder.zext(builder.bitcast(filled, ir.IntType(8)), word())

    return types.int64(types.int64), generate


@built_in
def survivors_of(
    _context: Any, _dead: Any, _base: Any, _slots: Any, _count: Any, _shift: Any, _out: Any
) -> Any:
    """Compute survivors_of(dead, base, slots, count, shift, out): out[0:8] gets the bits that are
    neither in dead[0:8], nor, for any of the `count` numbers at `slots`, in the 8 words at base +
    (number << shift). Return 1 if there is a bit, else 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        dead, base, slots, count, shift, out = arguments
        first = _group_at(builder, dead)
        left = builder.not_(_union(builder, first, base, slots, count, shift))
        _put_group(builder, left, out)
        return builder.zext(_any_bit(builder, left), word())

    return types.int64(*[types.int64] * 6), generate


@built_in
def common_of(
    _context: Any, _start: Any, _base: Any, _slots: Any, _count: Any, _shift: Any, _out: Any
) -> Any:
    """Compute common_of(start, base, slots, count, shift, out): out[0:8] gets the bits of
    start[0:8] that are in any of the others, as above."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        start, base, slots, count, shift, out = arguments
        union = _union(builder, _no_bits(), base, slots, count, shift)
        _put_group(builder, builder.and_(_group_at(builder, start), union), out)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), generate


@built_in
def select_rows(
    _c: Any, _base: Any, _out_of: Any, _outs: Any, _in_all: Any, _ins: Any, _start: Any, _out: Any
) -> Any:
    """Compute select_rows(base, out_of, outs, in_all, ins, start, out): out[0:8] = start[0:8]
    without the bits in any of the bitmaps whose offsets from `base` are the `outs` words at
    `out_of`, and only with those in each of the `ins` bitmaps at `in_all`. Return 1 if any bit is
    left."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        base, out_of, outs, in_all, ins, start, out = arguments

        def without(rows: Any, bitmap: Any) -> Any:
            return builder.and_(rows, builder.not_(bitmap))

        rows = _fold(builder, _group_at(builder, start), base, out_of, outs, without)
        rows = _fold(builder, rows, base, in_all, ins, builder.and_)
        _put_group(builder, rows, out)
        return builder.zext(_any_bit(builder, rows), word())

    return types.int64(*[types.int64] * 7), generate


# --- keys -----------------------------------------------------------------------------------------


@built_in
def compare_lanes(_context: Any, _bounds: Any, _keys: Any, _groups: Any) -> Any:
    """Compute compare_lanes(bounds, keys, groups): compare 8 * groups keys of 16 bits with 8 lower
    and 8 upper bounds for each 8 of them. Bit 0 of the result says that a key is outside its
    bounds, bit 1 that one equals a bound. Keys that are 0 do not count."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        bounds, keys, groups = arguments
        lanes, byte = ir.VectorType(ir.IntType(16), 8), ir.IntType(8)
        zeros = ir.Constant(lanes, [0] * 8)

        def load(address: Any, i: Any, size: int, offset: int) -> Any:
            at = builder.add(address, builder.mul(i, ir.Constant(word(), size)))
            at = builder.add(at, ir.Constant(word(), offset))
            return builder.load(builder.inttoptr(at, lanes.as_pointer()), align=2)

        def step(i: Any, results: list[Any]) -> list[Any]:
            result = results[0]
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
                more = builder.select(some, ir.Constant(word(), flag), ir.Constant(word(), 0))
                result = builder.or_(result, more)
            return [result]

        return _loop(builder, groups, [ir.Constant(word(), 0)], step)[0]

    return types.int64(*[types.int64] * 3), generate


@built_in
def count_up_to(_context: Any, _words: Any, _groups: Any, _value: Any) -> Any:
    """Compute count_up_to(words, groups, value): how many of the 8 * groups words are at or below
    `value`. It has no branch that depends on the words, which is faster than a binary search."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        words, groups, value = arguments
        return _counts_up_to(builder, words, groups, [value])[0]

    return types.int64(*[types.int64] * 3), generate


@built_in
def count_up_to_both(_context: Any, _words: Any, _groups: Any, _low: Any, _high: Any) -> Any:
    """Compute count_up_to_both(words, groups, low, high): `count_up_to` of `low`, and 2^32 times
    that of `high`."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        words, groups, *ends = arguments
        low, high = _counts_up_to(builder, words, groups, ends)
        return builder.or_(low, builder.shl(high, ir.Constant(word(), 32)))

    return types.int64(*[types.int64] * 4), generate
