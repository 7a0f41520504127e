"""Columns of a DataFrame as attributes of events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from reefcast.errors import LocalError
from reefcast.model.filters import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CASTS: tuple[tuple[type[T.DataType], str | None], ...] = (
    (T.BooleanType, None),
    (T.LongType, None),
    (T.DoubleType, None),
    (T.NullType, None),
    (T.StringType, None),
    (T.CharType, "string"),
    (T.VarcharType, "string"),
    (T.IntegralType, "bigint"),
    (T.FloatType, "double"),
    (T.DecimalType, "double"),
)
"""Spark's types that hold values, and what the others than the four of the language become."""


def with_attributes(
    events: DataFrame, id_name: str, wanted: Collection[str]
) -> tuple[DataFrame, list[str]]:
    """Return the id and those of the wanted attributes that exist, and their names. Other columns
    are not even read."""
    place = places(events, [id_name], wanted)
    kinds = [field.dataType for field in events.schema.fields]
    names = sorted(name for name in place if name in wanted)
    attributes = [
        as_value(F.col(f"c{place[name]}"), name, kinds[place[name]]).alias(f"a{i}")
        for i, name in enumerate(names)
    ]
    return by_place(events).select(F.col(f"c{place[id_name]}").alias("id"), *attributes), names


def by_place(frame: DataFrame) -> DataFrame:
    """Rename the columns to c0, c1 and so on: Spark finds names in a way of its own, in either
    case, and with dots for what is inside of them."""
    return frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))


def places(
    frame: DataFrame, needed: Collection[str], wanted: Collection[str] = ()
) -> dict[str, int]:
    """Return where the needed columns are, and the wanted ones that exist. Raises `LocalError` if a
    needed one is missing, or there are two of a name."""
    count = Counter(frame.columns)
    for name in needed:
        if name not in count:
            there = ", ".join(map(repr, frame.columns))
            raise LocalError(f"there is no column {name!r}; there are {there}")
    named = {*needed, *wanted}
    twice = [name for name in count if count[name] > 1 and name in named]
    if twice:
        raise LocalError(f"two columns are named {twice[0]!r}; rename or drop one")
    return {name: i for i, name in enumerate(frame.columns) if name in named}


def as_value(column: Column, name: str, kind: T.DataType) -> Column:
    """Return the column as one of values. Raises `LocalError` if Spark's type holds none."""
    if (
        name == TOPIC
        and isinstance(kind, T.ArrayType)
        and isinstance(kind.elementType, T.StringType)
    ):
        return column
    for accepted, cast in _CASTS:
        if isinstance(kind, accepted):
            return column.cast(cast) if cast else column
    raise LocalError(
        f"column {name!r} is of type {kind.simpleString().upper()}, which holds no values of an "
        f"event (numbers, BOOLEAN, STRING): {_advice(name, kind)}, or drop the column"
    )


def _advice(name: str, kind: T.DataType) -> str:
    if isinstance(kind, T.TimestampType):
        return f"make it a number, as by unix_micros({name})"
    if isinstance(kind, T.DateType):
        return f"make it a number, as by unix_date({name}), or a STRING"
    if isinstance(kind, T.StructType):
        return "make columns of its fields"
    if isinstance(kind, T.ArrayType):
        return f"only {TOPIC!r} may be an array, of strings; explode it"
    return "cast it to one of these"
