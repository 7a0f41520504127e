"""The part of a query's conditions that filters can express, so that storages apply it.

A condition is pushed only if the storages then leave out what Spark would, and nothing else:

- texts, truth values and numbers compare in the same way in both; unlike types satisfy nothing. A
  literal of 2^53 or more against a double column stays with Spark, which rounds ints there.
- A column is NULL where the attribute is missing, or of another type; so IS NULL asks for both. For
  integer columns it stays with Spark: no filter tells 7.5 from 7.
- An integer column is NULL for 7.5, too, which a filter such as `x > 7` wants: such rows are left
  out where they are read (`Pushed.present`).
- `timestamp` is the time of publication: comparisons with it bound the stretch that is read.

Equivalence with NULL (`<=>`) is pushed unless it is negated; NOT IN only without NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from reefcast.errors import FilterSyntaxError
from reefcast.model.filters import TOPIC, parse_filter
from reefcast.model.publication import INT64_MAX, INT64_MIN
from reefcast.model.topics import topic_patterns_of
from reefcast.pipeline.connector.columns import RESERVED, TIMESTAMP
from reefcast.pipeline.connector.options import EPOCH

EXACT = 2**53
ESCAPE = "!"
COMPARISONS = {
    EqualTo: "=",
    EqualNullSafe: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
PATTERNS = {
    StringStartsWith: ("", "%"),
    StringEndsWith: ("%", ""),
    StringContains: ("%", "%"),
}
_TEXT, _TRUTH = "{0} >= ''", "{0} IN (TRUE, FALSE)"
_NUMBER = "({0} > 0 OR {0} <= 0)"
IS_OF: dict[type[DataType], str] = {
    StringType: _TEXT,
    BooleanType: _TRUTH,
    DoubleType: _NUMBER,
    LongType: _NUMBER,
    IntegerType: _NUMBER,
}
"""Holds for what a column of this type shows."""
IS_NOT_OF: dict[type[DataType], str] = {
    StringType: f"({{0}} IS NULL OR {_NUMBER} OR {_TRUTH})",
    BooleanType: f"({{0}} IS NULL OR {_NUMBER} OR {_TEXT})",
    DoubleType: f"({{0}} IS NULL OR {_TEXT} OR {_TRUTH})",
}
INTEGERS = (LongType, IntegerType)


class Pushed(NamedTuple):
    """A filter, the stretch of time (microseconds, `until_us` exclusive), and columns in which rows
    with NULL are left out."""

    filter: str
    since_us: int | None
    until_us: int | None
    present: tuple[str, ...] = ()


class Pushdown:
    """Takes the conditions of one query on top of what was asked for before."""

    def __init__(self, schema: StructType, before: Pushed) -> None:
        self._kinds: Mapping[str, type[DataType]] = {f.name: type(f.dataType) for f in schema}
        self.pushed = before
        self._conditions = [f"({before.filter})"]

    def push(self, condition: Filter) -> bool:
        """Push a condition down; return whether it was, else Spark must apply it."""
        column = _column(condition)
        if column == TIMESTAMP and TIMESTAMP in self._kinds:
            return self._take_time(condition)
        kind = self._kinds.get(column)
        if kind is None or column in RESERVED or column == TOPIC:
            return False
        text = _text(condition, column, kind)
        if text is None or not self._add(text):
            return False
        if kind in INTEGERS and column not in self.pushed.present:
            self.pushed = self.pushed._replace(present=(*self.pushed.present, column))
        return True

    def _add(self, text: str) -> bool:
        """Add a condition; return false if the whole would be too large for a filter, or for its
        normal form. All conditions stand on one level: parsing slows with depth."""
        whole = " AND ".join((*self._conditions, text))
        try:
            if topic_patterns_of(parse_filter(whole)) is None:
                return False
        except FilterSyntaxError:
            return False
        self._conditions.append(text)
        self.pushed = self.pushed._replace(filter=whole)
        return True

    def _take_time(self, condition: Filter) -> bool:
        if isinstance(condition, IsNotNull):
            return True
        if type(condition) not in COMPARISONS:
            return False
        value = condition.value  # type: ignore[attr-defined]  # all comparisons have one
        if not isinstance(value, datetime) or value.tzinfo is None:
            return False
        time_us = (value - EPOCH) // timedelta(microseconds=1)
        sign = COMPARISONS[type(condition)]
        if sign in ("=", ">", ">="):
            self._since(time_us + (sign == ">"))
        if sign in ("=", "<", "<="):
            self._until(time_us + (sign != "<"))
        return True

    def _since(self, time_us: int) -> None:
        since_us = self.pushed.since_us
        self.pushed = self.pushed._replace(
            since_us=time_us if since_us is None else max(since_us, time_us)
        )

    def _until(self, time_us: int) -> None:
        until_us = self.pushed.until_us
        self.pushed = self.pushed._replace(
            until_us=time_us if until_us is None else min(until_us, time_us)
        )


def _column(condition: Filter) -> str:
    """Return the column that the condition is about; "" for a part of a column."""
    inner = condition.child if isinstance(condition, Not) else condition
    path: Sequence[str] = getattr(inner, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _text(condition: Filter, column: str, kind: type[DataType]) -> str | None:
    """Return the condition as a filter; None if it must stay with Spark."""
    name = '"' + column.replace('"', '""') + '"'
    if isinstance(condition, Not):
        child = condition.child
        if isinstance(child, IsNull | IsNotNull):
            other = IsNotNull if isinstance(child, IsNull) else IsNull
            return _text(other(child.attribute), column, kind)
        if isinstance(child, EqualNullSafe) or (isinstance(child, In) and None in child.value):
            return None
        text = _positive(child, name, kind)
        return None if text is None else f"NOT ({text})"
    return _positive(condition, name, kind)


def _positive(condition: Filter, name: str, kind: type[DataType]) -> str | None:
    if isinstance(condition, EqualNullSafe) and condition.value is None:
        condition = IsNull(condition.attribute)
    if isinstance(condition, IsNull | IsNotNull):
        texts = IS_NOT_OF if isinstance(condition, IsNull) else IS_OF
        text = texts.get(kind)
        return None if text is None else text.format(name)
    if isinstance(condition, In):
        values = [_literal(value, kind) for value in condition.value if value is not None]
        return (
            None if None in values or not values else f"{name} IN ({', '.join(map(str, values))})"
        )
    if isinstance(condition, StringStartsWith | StringEndsWith | StringContains):
        return _like(name, condition.value, *PATTERNS[type(condition)])
    sign = COMPARISONS.get(type(condition))
    if sign is None:
        return None
    literal = _literal(condition.value, kind)  # type: ignore[attr-defined]  # as above
    return None if literal is None else f"{name} {sign} {literal}"


def _like(name: str, value: str, before: str, after: str) -> str:
    escaped = "".join(ESCAPE + c if c in ("%", "_", ESCAPE) else c for c in value)
    pattern = _quoted(before + escaped + after)
    return f"{name} LIKE {pattern}" + ("" if escaped == value else f" ESCAPE '{ESCAPE}'")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _integer(value: Any) -> str | None:
    return str(value) if type(value) is int and INT64_MIN <= value <= INT64_MAX else None


def _double(value: Any) -> str | None:
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) >= EXACT:
        return None
    return repr(float(value))


def _string(value: Any) -> str | None:
    return _quoted(value) if type(value) is str else None


def _boolean(value: Any) -> str | None:
    return str(value).upper() if type(value) is bool else None


_LITERALS: dict[type[DataType], Callable[[Any], str | None]] = {
    LongType: _integer,
    IntegerType: _integer,
    DoubleType: _double,
    StringType: _string,
    BooleanType: _boolean,
}


def _literal(value: Any, kind: type[DataType]) -> str | None:
    make = _LITERALS.get(kind)
    return None if make is None else make(value)
