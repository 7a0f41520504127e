"""Numbers as keys: whole numbers (int64) in the order of the numbers that they stand for.

The key of a float64 is its bits, inverted for negative numbers; -0.0 is 0.0, and NaN is above all
others. So an open bound is the neighbouring key, and all comparisons are of whole numbers with
closed ends.

An int64 beyond 2^53 may lie between two floats. It has the key of the float64 nearest to it, and a
*rest*: twice the remainder. The order of the pairs (key, rest) is the order of the numbers, since
rounding is monotone; twice, so that an open bound is a closed one at the odd number beside it. Only
bounds from 2^53 on need their rests: numbers below have none."""

from __future__ import annotations

import numpy as np

from reefcast.matching.machine import Int, bits_of, part

NAN = 0x7FF8000000000000
INFINITY = 0x7FF0000000000000
EXACT = 1 << 53
"""From here on there are integers that no float64 equals."""

TURN = 2**63 - 1


@part
def key_of_bits(bits: Int) -> Int:
    """Return the key of the float64 with these bits."""
    if (bits & TURN) > INFINITY:
        return NAN
    if bits >= 0:
        return bits
    if bits == -(2**63):
        return 0
    return bits ^ TURN


@part
def key_of_float(number: float) -> Int:
    return key_of_bits(bits_of(number))


@part
def key_of_int(number: Int) -> tuple[Int, Int]:
    """Return an integer as (key, rest)."""
    nearest = np.float64(number)
    key = key_of_float(nearest)
    if -EXACT <= number <= EXACT:
        return key, 0
    if nearest == 9223372036854775808.0:  # no int64
        return key, 2 * (number - 9223372036854775807 - 1)
    return key, 2 * (number - np.int64(nearest))
