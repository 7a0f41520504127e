"""Numbers for rows, from 0 without gaps, in an order: at any size, whatever the partitions.

A window over all rows would give the same numbers, in one task. Here rows are cut into slices of
about equally many, by quantiles; each is numbered by itself, and begins where those before it end.
So many rows at the same time that quantiles of the time cannot separate them are cut by what breaks
ties.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

SLICES = 64
Passes = Callable[[Any, Any], Any]
"""`>` or `>=`."""

_ACCURACY = 10_000
_HASH, _TIE, _REST, _SLICE, _BEFORE = "_hash", "_tie", "_rest", "_slice", "_before"


def numbered(rows: DataFrame, name: str, order: str, tie: Column) -> DataFrame:
    """Return the rows with a first column `name`: their numbers by `order` (int64), then `tie`
    (int64), then a hash of all their values. Runs one job, for the quantiles. No slice is much
    larger than two in `SLICES` of the rows, unless they agree in both."""
    given = rows.columns
    hashed = rows.withColumn(_TIE, tie).withColumn(_REST, F.xxhash64(*given))
    sliced = hashed.withColumn(_SLICE, _slice(order, *_cuts(hashed, order)))
    within = Window.partitionBy(_SLICE).orderBy(order, _TIE, _REST)
    return (
        sliced.withColumn(name, F.row_number().over(within).cast("bigint") - 1)
        .join(F.broadcast(_before(sliced)), _SLICE)
        .select((F.col(name) + F.col(_BEFORE)).alias(name), *given)
    )


def numbered_by_hash(rows: DataFrame, name: str, *keys: str) -> DataFrame:
    """Return the rows with numbers in an order that means nothing, by a hash of `keys`."""
    hashed = rows.withColumn(_HASH, F.xxhash64(*keys))
    return numbered(hashed, name, _HASH, F.lit(0).cast("bigint")).drop(_HASH)


def _cuts(rows: DataFrame, order: str) -> tuple[list[int], list[int]]:
    """Return quantiles of `order` and of the tie, each ascending and without repetition."""
    shares = F.array(*(F.lit(i / SLICES) for i in range(1, SLICES)))
    row = rows.agg(
        *(F.percentile_approx(name, shares, _ACCURACY).alias(name) for name in (order, _TIE))
    ).collect()[0]
    return _different(row[order]), _different(row[_TIE])


def _different(cuts: Sequence[int] | None) -> list[int]:
    return sorted(set(cuts or ()))


def _slice(order: str, cuts: list[int], tie_cuts: list[int]) -> Column:
    """Return the number of a row's slice, which ascends with (order, tie). Between two cuts lies a
    slice; a cut itself has as many slices as the ties."""
    value = F.col(order)
    place = _passed(value, cuts, operator.gt) + _passed(value, cuts, operator.ge)  # odd: a cut
    of_tie = F.when(place % 2 == 1, _passed(F.col(_TIE), tie_cuts, operator.gt))
    return place * (len(tie_cuts) + 1) + F.coalesce(of_tie, F.lit(0))


def _passed(value: Column, cuts: Sequence[int], passes: Passes, first: int = 0) -> Column:
    """Return `first` plus the number of cuts that the value passes, by binary search: Spark would
    look at each element of a list."""
    if not cuts:
        return F.lit(first)
    middle = len(cuts) // 2
    above = _passed(value, cuts[middle + 1 :], passes, first + middle + 1)
    below = _passed(value, cuts[:middle], passes, first)
    return F.when(passes(value, cuts[middle]), above).otherwise(below)


def _before(sliced: DataFrame) -> DataFrame:
    """Return each slice with the number of rows in the slices before it."""
    earlier = Window.orderBy(_SLICE).rowsBetween(Window.unboundedPreceding, -1)
    return (
        sliced.groupBy(_SLICE)
        .count()
        .select(_SLICE, F.coalesce(F.sum("count").over(earlier), F.lit(0)).alias(_BEFORE))
    )
