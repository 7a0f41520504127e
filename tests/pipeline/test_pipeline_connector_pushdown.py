"""A pushed condition means to storages what it means to Spark, whatever the events contain."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
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
    StructField,
    StructType,
    TimestampType,
)
from row_by_row import converted

from reefcast.model.filters import parse_filter
from reefcast.model.values import compare
from reefcast.pipeline.connector.pushdown import Pushdown, Pushed

NAME = 'a "b'
ASKED = Pushed("topic = 'fx'", None, None)
COMPARED = (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)

texts = st.text(alphabet="ab%_!'\\", max_size=3)
numbers = st.sampled_from(
    (0, 1, -1, 7, 7.5, -0.0, 1.0, 2.0, 2**53, 2**53 + 1, 2.0**53, 2**31, -(2**63), 2**63 - 1)
) | st.sampled_from((math.nan, math.inf, -math.inf, 1e-7, 2.5e300))
values = st.one_of(texts, numbers, st.booleans(), st.none())
LITERALS: dict[type[DataType], st.SearchStrategy[Any]] = {
    LongType: numbers.filter(lambda v: isinstance(v, int)),
    IntegerType: st.sampled_from((0, 1, -1, 7, 2**31 - 1)),
    DoubleType: numbers.map(float),
    StringType: texts,
    BooleanType: st.booleans(),
}
kinds = st.sampled_from(list(LITERALS))


def conditions(kind: type[DataType]) -> st.SearchStrategy[Filter]:
    path, literal = st.just((NAME,)), LITERALS[kind]
    simple = [
        *(st.builds(compared, path, literal) for compared in COMPARED),
        st.builds(In, path, st.lists(literal | st.none(), min_size=1, max_size=4)),
        st.builds(EqualNullSafe, path, st.none()),
        st.builds(IsNull, path),
        st.builds(IsNotNull, path),
    ]
    if kind is StringType:
        patterns = (StringStartsWith, StringEndsWith, StringContains)
        simple += [st.builds(pattern, path, literal) for pattern in patterns]
    return st.one_of(simple) | st.builds(Not, st.one_of(simple))


def spark_says(condition: Filter, value: Any) -> bool | None:
    """Return the three-valued result of Spark SQL for a condition on a column with this value."""
    if isinstance(condition, Not):
        inner = spark_says(condition.child, value)
        return None if inner is None else not inner
    if isinstance(condition, IsNull | IsNotNull):
        return (value is None) is isinstance(condition, IsNull)
    literal = condition.value  # type: ignore[attr-defined]  # all the others have one
    if isinstance(condition, EqualNullSafe):
        if value is None or literal is None:
            return value is literal
        return compare(value, literal) == 0
    if value is None:
        return None
    if isinstance(condition, In):
        if any(compare(value, each) == 0 for each in literal if each is not None):
            return True
        return None if None in literal else False
    if isinstance(condition, StringStartsWith):
        return bool(value.startswith(literal))
    if isinstance(condition, StringEndsWith):
        return bool(value.endswith(literal))
    if isinstance(condition, StringContains):
        return literal in value
    order = compare(value, literal)
    assert order is not None
    return {
        EqualTo: order == 0,
        GreaterThan: order > 0,
        GreaterThanOrEqual: order >= 0,
        LessThan: order < 0,
        LessThanOrEqual: order <= 0,
    }[type(condition)]


def taken(kind: type[DataType], *some: Filter) -> tuple[Pushdown, list[Filter]]:
    pushdown = Pushdown(StructType([StructField(NAME, kind())]), ASKED)
    return pushdown, [condition for condition in some if pushdown.push(condition)]


@given(st.data(), kinds)
def test_the_same_events_are_chosen(data: st.DataObject, kind: type[DataType]) -> None:
    some = data.draw(st.lists(conditions(kind), min_size=1, max_size=3))
    pushdown, pushed = taken(kind, *some)
    filter = parse_filter(pushdown.pushed.filter)
    for raw in data.draw(st.lists(values, min_size=1, max_size=10)):
        attributes = {} if raw is None else {NAME: raw}
        (value,) = converted([raw], kind)
        read = filter.holds(attributes, ("fx",)) and not (pushdown.pushed.present and value is None)
        assert read is all(spark_says(each, value) is True for each in pushed), (raw, filter.text)


@given(st.data(), kinds)
def test_nearly_everything_is_pushed(data: st.DataObject, kind: type[DataType]) -> None:
    condition = data.draw(conditions(kind))
    left = not taken(kind, condition)[1]
    inner = condition.child if isinstance(condition, Not) else condition
    literals = getattr(inner, "value", None)
    listed = literals if isinstance(literals, list) else [literals]
    rounded = any(isinstance(v, float) and not abs(v) < 2**53 for v in listed)
    null = None in listed and not isinstance(inner, IsNull | IsNotNull)
    integer = kind in (LongType, IntegerType)
    assert left <= (
        rounded
        or (null and (isinstance(condition, Not) or integer or listed == [None] * len(listed)))
        or (isinstance(condition, Not) and isinstance(inner, EqualNullSafe))
        or (integer and isinstance(inner, IsNull | IsNotNull))
    )


@pytest.mark.parametrize(
    ("kind", "condition", "text"),
    [
        (StringType, EqualTo((NAME,), "it's"), "\"a \"\"b\" = 'it''s'"),
        (StringType, StringContains((NAME,), "5%"), "\"a \"\"b\" LIKE '%5!%%' ESCAPE '!'"),
        (DoubleType, Not(In((NAME,), [1.0, -2.5])), 'NOT ("a ""b" IN (1.0, -2.5))'),
        (LongType, GreaterThan((NAME,), -5), '"a ""b" > -5'),
        (BooleanType, EqualTo((NAME,), True), '"a ""b" = TRUE'),
        (StringType, StringStartsWith((NAME,), "a!_"), "\"a \"\"b\" LIKE 'a!!!_%' ESCAPE '!'"),
        (
            StringType,
            IsNull((NAME,)),
            '("a ""b" IS NULL OR ("a ""b" > 0 OR "a ""b" <= 0) OR "a ""b" IN (TRUE, FALSE))',
        ),
    ],
)
def test_how_it_is_said(kind: type[DataType], condition: Filter, text: str) -> None:
    assert taken(kind, condition)[0].pushed.filter == f"(topic = 'fx') AND {text}"


FIELDS = StructType(
    [
        StructField("timestamp", TimestampType()),
        StructField("publisher", StringType()),
        StructField("seq", LongType()),
        StructField("topic", StringType()),
        StructField("price", DoubleType()),
        StructField("size", LongType()),
    ]
)
TIME = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
TIME_US = (TIME - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("condition", "since_us", "until_us"),
    [
        (EqualTo(("timestamp",), TIME), TIME_US, TIME_US + 1),
        (GreaterThan(("timestamp",), TIME), TIME_US + 1, None),
        (GreaterThanOrEqual(("timestamp",), TIME), TIME_US, None),
        (LessThan(("timestamp",), TIME), None, TIME_US),
        (LessThanOrEqual(("timestamp",), TIME), None, TIME_US + 1),
        (IsNotNull(("timestamp",)), None, None),
    ],
)
def test_the_time_of_publication_bounds_what_is_read(
    condition: Filter, since_us: int | None, until_us: int | None
) -> None:
    pushdown = Pushdown(FIELDS, ASKED)
    assert pushdown.push(condition)
    assert pushdown.pushed == Pushed("topic = 'fx'", since_us, until_us)
    narrow = ASKED._replace(since_us=TIME_US - 9, until_us=TIME_US + 9)
    pushdown = Pushdown(FIELDS, narrow)
    assert pushdown.push(condition)
    assert pushdown.pushed == narrow._replace(
        since_us=since_us or narrow.since_us, until_us=until_us or narrow.until_us
    )


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("publisher",), "p"),
        EqualTo(("seq",), 1),
        EqualTo(("topic",), "fx"),
        EqualTo(("price", "part"), 1.0),
        EqualTo(("unknown",), 1.0),
        EqualTo(("price",), "text"),
        In(("price",), [float(n) for n in range(9000)]),
        EqualTo(("price",), 2.0**53),
        LessThan(("price",), math.nan),
        Not(In(("price",), [1.0, None])),
        In(("price",), [None]),
        Not(EqualNullSafe(("price",), 1.0)),
        IsNull(("size",)),
        EqualNullSafe(("size",), None),
        Not(EqualTo(("timestamp",), TIME)),
        In(("timestamp",), [TIME]),
        IsNull(("timestamp",)),
        EqualTo(("timestamp",), datetime(2026, 1, 1)),
    ],
)
def test_what_storages_cannot_decide_stays_with_spark(condition: Filter) -> None:
    pushdown = Pushdown(FIELDS, ASKED)
    assert not pushdown.push(condition)
    assert pushdown.pushed == ASKED


def test_what_is_too_much_for_one_filter_stays_with_spark() -> None:
    """A hundred conditions are not too many, if their text is not too long."""
    names = [f"c{n}" for n in range(100)] + ["x" * 9_000, "y" * 9_000]
    pushdown = Pushdown(StructType([StructField(name, StringType()) for name in names]), ASKED)
    pushed = [pushdown.push(IsNull((name,))) for name in names]
    assert pushed == [*[True] * 101, False]
