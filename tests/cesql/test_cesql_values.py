"""What becomes of an attribute's value in CESQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import pytest

from reefcast import cesql

ODD = timezone(timedelta(hours=2))


class Side(StrEnum):
    BUY = "buy"


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ("a", "a"),
        (Side.BUY, "buy"),
        (True, True),
        (5, 5),
        (-(2**31), -(2**31)),
        (2**31, "2147483648"),
        (5.0, 5),
        (-0.0, 0),
        (2.0**31, "2147483648"),
        (5.5, "5.5"),
        (float("inf"), "inf"),
        (b"\x00\xff", "AP8="),
        (bytearray(b"a"), "YQ=="),
        (datetime(2026, 11, 26, 16, 5, 9, tzinfo=UTC), "2026-11-26T16:05:09Z"),
        (datetime(2018, 4, 26, 14, 48, 9, 500_000, ODD), "2018-04-26T14:48:09.500000+02:00"),
    ],
)
def test_an_attribute_is_of_one_of_three_types(value: object, seen: Any) -> None:
    found, error = cesql.evaluate("x", {"x": value})
    assert (found, type(found), error) == (seen, type(seen), None)


@pytest.mark.parametrize("value", [[1], {"a": 1}, datetime(2026, 11, 26), object()])
def test_a_value_that_no_attribute_has_is_an_error(value: object) -> None:
    found, error = cesql.evaluate("x = 1", {"x": value})
    assert error is not None
    assert (found, error.kind) == (False, "generic")
    assert "the attribute x has a value of type" in str(error)
    assert cesql.parse("EXISTS x").matches({"x": value})
