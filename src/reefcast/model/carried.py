"""The forms in which Python values travel: the rule of docs/reference/values.md, one function a
row.

A form is chosen for what filters make of it: times and durations compare as numbers, and so do
decimals. What comes back equals what was sent, or it is refused here. `typed` reads it back.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from reefcast.errors import InvalidValueError
from reefcast.model.values import plain

Form = Callable[[str, Any], object]
"""Takes the name and the value of an attribute."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

_SCALARS = (int, float, str)  # bool is an int
_TIMES = ("M", "m")
"""The kinds of numpy's datetime64 and timedelta64."""


def form_of(kind: type) -> Form:
    """Return the function that turns an attribute of this class into the form in which it travels;
    `foreign` for a class unknown here. The function raises `InvalidValueError` for values that
    would lose something on the way."""
    return next((form for base, form in _FORMS.items() if issubclass(kind, base)), foreign)


def _scalar(name: str, value: object) -> object:
    return plain(value)


def _instant(name: str, value: datetime) -> int:
    """Return microseconds since 1970, as `Event.time_us`."""
    _check_time(name, value)
    if value.utcoffset() is None:
        raise InvalidValueError(
            f"attribute {name!r} is the time {value}, without a time zone: send "
            ".replace(tzinfo=UTC) of it if it is UTC, .astimezone() if it is local time"
        )
    return _microseconds(name, value - EPOCH)


def _duration(name: str, value: timedelta) -> int:
    _check_time(name, value)
    return _microseconds(name, value)


def _check_time(name: str, value: datetime | timedelta) -> None:
    if value != value:  # noqa: PLR0124 (true of pandas' NaT only)
        raise InvalidValueError(
            f"attribute {name!r} is {value}, which is not a time: send None, or leave it out"
        )


def _microseconds(name: str, span: timedelta) -> int:
    number, rest = divmod(span, MICROSECOND)
    if rest:
        raise InvalidValueError(
            f"attribute {name!r} has nanoseconds, and times travel as microseconds: send "
            ".floor('us') of it, which loses them, or .value, a number of nanoseconds"
        )
    return number


def _day(name: str, value: date) -> str:
    return value.isoformat()


def _time_of_day(name: str, value: time) -> str:
    if value.tzinfo is not None:
        raise InvalidValueError(
            f"attribute {name!r} is the time of day {value} with a time zone, which does not "
            "compare: send a datetime, or .replace(tzinfo=None) of it"
        )
    return value.isoformat()


def _decimal(name: str, value: Decimal) -> float:
    """Return the nearest float64, if it reads back as the same decimal: always up to 15 digits."""
    number = float("nan" if value.is_nan() else value)
    if value.is_snan() or not (value.is_nan() or Decimal(repr(number)) == value):
        raise InvalidValueError(
            f"attribute {name!r} is the decimal {value}, and decimals travel as float64, which has "
            f"{number!r} next to it: send float(...), which rounds, or str(...), which filters "
            "compare as a text"
        )
    return number


def _uuid(name: str, value: UUID) -> str:
    return str(value)


def _enumeration(name: str, value: Enum) -> object:
    if not isinstance(value.value, _SCALARS):
        raise InvalidValueError(
            f"attribute {name!r} is {value}, whose value is of type {type(value.value).__name__}; "
            "an enumeration travels as its value, an int, a float, a bool or a str: send .name"
        )
    return plain(value.value)


def foreign(name: str, value: object) -> object:
    """Return a scalar of numpy as a Python value, and any other value as it is."""
    if not callable(getattr(value, "item", None)):
        return value
    if getattr(value, "ndim", 0):
        raise InvalidValueError(
            f"attribute {name!r} is an array; an attribute is one value: publish one event for "
            "each, or put them into the payload"
        )
    if getattr(getattr(value, "dtype", None), "kind", "") in _TIMES:
        return value  # its item is a number without the unit
    return value.item()  # type: ignore[attr-defined]  # looked for above


_FORMS: dict[type, Form] = {
    int: _scalar,
    float: _scalar,
    str: _scalar,
    datetime: _instant,  # before date, which it is, too
    date: _day,
    time: _time_of_day,
    timedelta: _duration,
    Decimal: _decimal,
    UUID: _uuid,
    Enum: _enumeration,
}
"""The forms; the first whose class fits counts: an enumeration of texts is a text."""
