"""Draws that are a function of a seed, a purpose and the row's number: built-in hashes.

`rand()` depends on the partition that a row is in; these do not, so a workload is the same on a
laptop and on a cluster, and a task that is run again makes what it made before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column

    Floats = NDArray[np.float64]

MOST_RANKS = 100_000
_BITS = 53


def uniform(seed: int, purpose: str, *numbers: Column) -> Column:
    """Draw evenly over [0, 1), float64; another value for each purpose and row."""
    hashed = F.xxhash64(F.lit(seed).cast("bigint"), F.lit(purpose), *numbers)
    return F.shiftrightunsigned(hashed, 64 - _BITS) * F.lit(2.0**-_BITS)


def whole(below: int, drawn: Column) -> Column:
    """Turn a value of `uniform` into a whole number from 0, evenly."""
    return F.floor(drawn * below).cast("bigint")


def zipf(number: int, exponent: float) -> Floats:
    """Return the probability of each of this many ranks: in proportion to rank^-exponent; 0 is
    even."""
    if not (0 < number <= MOST_RANKS and exponent >= 0):
        raise ConfigurationError(
            f"Zipf's law takes 1 to {MOST_RANKS} ranks and an exponent from 0 on, not {number} and "
            f"{exponent:g}"
        )
    weights = np.arange(1, number + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum(), np.float64)


def ranks(chances: Floats, drawn: Column) -> Column:
    """Turn a value of `uniform` into a number from 0, with these chances, by Walker's alias method.
    Each number has a slot of equal width, of which an alias has the rest: two look-ups, however
    many."""
    kept, alias = _alias_table(chances)
    scaled = drawn * len(chances)
    slot = F.floor(scaled).cast("int")
    own = scaled - slot < F.get(F.lit(kept), slot)
    return F.when(own, slot.cast("bigint")).otherwise(F.get(F.lit(alias), slot))


def _alias_table(chances: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return, for each slot, its own share, and the alias that has the rest (Vose)."""
    left = chances * len(chances)
    alias = np.arange(len(chances))
    short = [i for i in range(len(left)) if left[i] < 1]
    over = [i for i in range(len(left)) if left[i] >= 1]
    kept = np.ones(len(left))
    while short and over:
        low, high = short.pop(), over[-1]
        kept[low], alias[low] = left[low], high
        left[high] -= 1 - left[low]
        if left[high] < 1:
            short.append(over.pop())
    return kept, alias
