"""The rule by which values of a program become values of an event, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntFlag
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import InvalidValueError
from reefcast.model.filters import parse_filter
from reefcast.model.flat import as_sent


class Colour(Enum):
    RED = "red"
    DEEP = 3
    HALF = 0.5
    NONE = False
    MIXED = (1, 2)


class Rights(IntFlag):
    READ = 1
    WRITE = 2


@dataclass
class Point:
    x: int


NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
NEW_YEAR_US = 1_767_225_600_000_000


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (NEW_YEAR, NEW_YEAR_US),
        (NEW_YEAR.astimezone(timezone(timedelta(hours=-7))), NEW_YEAR_US),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
        (pd.Timestamp(NEW_YEAR), NEW_YEAR_US),
        (timedelta(seconds=-1.5), -1_500_000),
        (pd.Timedelta(5, "us"), 5),
        (date(2026, 1, 1), "2026-01-01"),
        (time(3, 4, 5), "03:04:05"),
        (time(3, 4, 5, 6), "03:04:05.000006"),
        (Decimal("0.1"), 0.1),
        (Decimal("1.50"), 1.5),
        (Decimal(100), 100.0),
        (Decimal("-Infinity"), float("-inf")),
        (UUID("{12345678-1234-5678-1234-567812345678}"), "12345678-1234-5678-1234-567812345678"),
        (Colour.RED, "red"),
        (Colour.DEEP, 3),
        (Colour.HALF, 0.5),
        (Colour.NONE, False),
        (Rights.READ | Rights.WRITE, 3),
    ],
)
def test_forms(value: object, form: object) -> None:
    sent = as_sent({"x": value})["x"]
    assert (type(sent), sent) == (type(form), form)


def test_a_decimal_that_is_no_number() -> None:
    assert parse_filter("x > 1e300 AND x = x").holds(as_sent({"x": Decimal("NaN")}))


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (datetime(2026, 1, 1), r"without a time zone: send .replace\(tzinfo=UTC\)"),
        (pd.NaT, "is NaT, which is not a time: send None"),
        (pd.Timestamp(1, unit="ns", tz="UTC"), "has nanoseconds, .* .floor"),
        (pd.Timedelta(1, "ns"), "has nanoseconds, .* .floor"),
        (timedelta.max, "does not fit into 64 bits"),
        (time(1, tzinfo=UTC), "with a time zone, which does not compare: send a datetime"),
        (np.datetime64(5, "ns"), "send a datetime with a time zone"),
        (np.timedelta64(5, "ns"), "send a datetime with a time zone, a timedelta"),
        (Decimal("12345678901234567"), r"has 1.2345678901234568e\+16 next to it: send float"),
        (Decimal("1e400"), "has inf next to it"),
        (Decimal("1e-400"), "has 0.0 next to it"),
        (Decimal("sNaN"), "is the decimal sNaN"),
        (Fraction(1, 3), r"send float\(...\)"),
        (Colour.MIXED, "whose value is of type tuple; .*: send .name"),
        (b"x", "bytes go into the payload"),
        ((1, 2), "of type tuple.*: publish one event for each of its values"),
        ({1}, "of type set.*: publish one event for each of its values"),
        (Point, "of type type; an attribute is an int"),
    ],
)
def test_what_has_no_form_is_refused_with_advice(value: object, advice: str) -> None:
    with pytest.raises(InvalidValueError, match=f"'box.x'.*{advice}"):
        as_sent({"box": {"x": value}})


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_is_sent_exactly_or_refused(value: Decimal) -> None:
    try:
        (form,) = as_sent({"x": value}).values()
    except InvalidValueError:
        _, digits, exponent = value.as_tuple()
        assert len(digits) > 15 or not -300 < int(exponent) < 280
    else:
        assert isinstance(form, float)
        assert Decimal(repr(form)) == value


@given(st.datetimes(timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_forms_of_times_are_ordered_as_the_times(one: datetime, other: datetime) -> None:
    for make in (lambda when: when, lambda when: when.date(), lambda when: when.time()):
        forms = [as_sent({"x": make(when)})["x"] for when in (one, other)]
        assert (forms[0] < forms[1]) is (make(one) < make(other))
