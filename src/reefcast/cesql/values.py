"""The values of CESQL: three types, their zero values, casts between them, and what becomes of an
attribute's value (CESQL 1.0, sections 3.1, 3.2 and 3.7). Also the patterns of LIKE (3.4.3).

The types are Python's: str for String, int for Integer (32 bits), bool for Boolean; object stands
for any of them, as a parameter of functions."""

from __future__ import annotations

import base64
import math
import re
from datetime import datetime, timedelta

from reefcast.model.patterns import is_like

Value = str | int | bool
Type = type[str] | type[int] | type[bool] | type[object]

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
ZERO: dict[Type, Value] = {str: "", int: 0, bool: False, object: False}
"""The zero value of each type; where a type is not known it is taken for Boolean (section 3.2)."""
NAMES: dict[Type, str] = {str: "String", int: "Integer", bool: "Boolean", object: "Any"}

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,10})", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
ESCAPE = "\\"
_PATTERN = re.compile(r"\\[%_]|\\")


def type_of(value: Value) -> Type:
    """Return the type of a value: str, int or bool."""
    return type(value)


def is_integer(number: int) -> bool:
    """Return whether an int is an Integer: 32 bits with a sign."""
    return INT32_MIN <= number <= INT32_MAX


# --- casts ---------------------------------------------------------------------------------------


def cast(value: Value, target: Type) -> Value | None:
    """Return the value as one of another type; None where the standard demands a cast error, which
    only strings meet."""
    if target is object or type(value) is target:
        return value
    if target is str:
        return to_string(value)
    if target is int:
        return to_integer(value) if isinstance(value, str) else int(value)
    return _BOOLEANS.get(value.lower()) if isinstance(value, str) else value != 0


def to_string(value: Value) -> str:
    """Return a value as a String; this is always possible."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def to_integer(text: str) -> int | None:
    """Return the Integer that a string says in base 10, with or without a sign; None for any other
    string, also for one that says a number beyond 32 bits."""
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    number = int(found[1] + found[2])
    return number if is_integer(number) else None


# --- attributes ----------------------------------------------------------------------------------


def attribute_value(value: object) -> Value | None:
    """Return the value of an attribute as CESQL sees it; None for what no attribute can be.

    Numbers that are equal are represented equally: a whole number within 32 bits is an Integer, and
    so is a float that equals it; any other number is a String. So are times (RFC 3339), binary data
    (Base64) and URIs, as the type system of CloudEvents writes them."""
    if isinstance(value, str):
        return str.__str__(value)  # an enumeration's own would say its name
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        number = int.__int__(value)
        return number if is_integer(number) else str(number)
    if isinstance(value, float):
        return _of_float(float.__float__(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return _timestamp(value)
    return None


def _of_float(number: float) -> Value:
    if not math.isfinite(number) or not number.is_integer():
        return repr(number)
    return int(number) if is_integer(int(number)) else str(int(number))


def _timestamp(time: datetime) -> str:
    """Return an aware datetime as RFC 3339 writes it; its offset has whole minutes."""
    text = time.isoformat()
    return text[:-6] + "Z" if time.utcoffset() == timedelta() else text


# --- patterns ------------------------------------------------------------------------------------


def like_pattern(text: str) -> str:
    """Return a pattern of CESQL as Reefcast's filters write it, with `ESCAPE` as escape character.

    In CESQL a backslash takes the meaning from a % or _ that follows, and otherwise stands for
    itself."""
    return _PATTERN.sub(lambda found: found[0] if len(found[0]) > 1 else ESCAPE * 2, text)


def matches(text: str, pattern: str) -> bool:
    """Return whether a string matches a pattern that `like_pattern` returned. It takes at most the
    product of their lengths."""
    return is_like(text, pattern, ESCAPE)
