"""Times, dates and decimals: values that travel in another form (docs/reference/values.md).

Reading takes each form that a client or a writer may have chosen, and makes NULL of anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, DateType, DecimalType, TimestampType

_WIDE = pa.decimal256(76, 37)
_LEAST = 1e-37
"""What is nearer to 0 is 0 in every decimal."""
_EPOCH = date(1970, 1, 1).toordinal()
_DAYS = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH
"""The first and the last day that has a name, as days since 1970; further ones would end who
collects them in Python."""
_DAY_US = 86_400_000_000
_MICROS = _DAYS[0] * _DAY_US, (_DAYS[1] + 1) * _DAY_US - 1


def cast_or_null(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array; what cannot be cast becomes NULL. It is looked for by halves."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return pa.nulls(1, kind)
    half = len(array) // 2
    parts = [cast_or_null(array[:half], kind), cast_or_null(array[half:], kind)]
    return pa.concat_arrays(parts)


def _between(numbers: pa.Array, bounds: tuple[int, int]) -> pa.Array:
    """Make NULL of the numbers outside of the bounds."""
    first, last = bounds
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return pc.if_else(inside, numbers, None)


def _times(forms: list[pa.Array], kind: pa.DataType) -> pa.Array:
    micros, texts = forms
    return pc.coalesce(_between(micros, _MICROS).cast(kind), cast_or_null(texts, kind))


def _dates(forms: list[pa.Array], kind: pa.DataType) -> pa.Array:
    days, texts = forms
    return pc.coalesce(_between(days, _DAYS).cast(kind), cast_or_null(texts, kind))


def _decimals(forms: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return decimals, rounded as Spark does: a half away from 0."""
    whole, numbers, texts = forms
    tiny = pc.less(pc.abs(numbers), _LEAST)
    numbers = pc.if_else(pc.fill_null(tiny, False), 0.0, numbers)
    written = pc.coalesce(whole.cast(pa.string()), numbers.cast(pa.string()), texts)
    wide = cast_or_null(written, _WIDE)
    if kind.scale < _WIDE.scale:
        wide = pc.round(wide, kind.scale, round_mode="half_towards_infinity")
    return cast_or_null(wide, kind)


FORMS: dict[type[DataType], Callable[[list[pa.Array], Any], pa.Array]] = {
    TimestampType: _times,
    DateType: _dates,
    DecimalType: _decimals,
}
"""By type: makes a column of the arrays of the forms in which its values came, each NULL where
another one is not."""
