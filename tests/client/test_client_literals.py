"""Filters made of values find the events that have these values."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reefcast
from reefcast.model.flat import as_sent


class Side(Enum):
    BUY = "buy"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "1767225600000000"),
        (Side.BUY, "'buy'"),
        ("it's", "'it''s'"),
        (True, "TRUE"),
        (Decimal("9.95"), "9.95e0"),
    ],
)
def test_what_is_written(value: object, text: str) -> None:
    assert reefcast.literal(value) == text


@given(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.integers(-(2**63), 2**63 - 1)
    | st.booleans()
    | st.floats()
    | st.datetimes(timezones=st.just(UTC))
    | st.dates()
    | st.uuids()
)
def test_a_filter_holds_for_the_value_it_is_made_of(value: object) -> None:
    event = as_sent({"x": value})
    assert reefcast.parse_filter(f"x = {reefcast.literal(value)}").holds(event)
    greater = reefcast.parse_filter(f"x > {reefcast.literal(value)}")
    assert not greater.holds(event)
    if isinstance(value, float) and not math.isnan(value):
        assert greater.holds({"x": math.nan})


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (None, "None is not a value of one attribute: write IS NULL"),
        ({"a": 1}, "write a condition for each of its parts"),
        ({"": 1}, "not a non-empty string"),
        ([1], "of type list"),
        (datetime(2026, 1, 1), "without a time zone"),
    ],
)
def test_what_no_filter_can_write(value: object, advice: str) -> None:
    with pytest.raises(reefcast.InvalidValueError, match=advice):
        reefcast.literal(value)
