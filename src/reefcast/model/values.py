"""Values and their order, the one that filters, normal forms and indexes share.

Three kinds: numbers (int64 and float64 together), strings, booleans. Values of unlike kinds do not
compare at all. Within a kind the order is total, and that of Spark SQL:

- an int compares with a float exactly (Python does; a conversion would say 2^53 + 1 = 2^53.0);
- NaN equals itself and exceeds every number, +inf too; -0.0 = 0.0;
- strings compare by code point; FALSE < TRUE.

Python's own `==` will not do: it says `True == 1` and `nan != nan`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from reefcast.errors import InvalidValueError
from reefcast.model.publication import Value


class Kind(IntEnum):
    NUMBER = 0
    STRING = 1
    BOOLEAN = 2


NAN = math.nan
"""The only NaN inside constraints, so that tuples and sets find it by identity."""

_KINDS: dict[type, Kind] = {
    bool: Kind.BOOLEAN,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.STRING,
}


def kind_of(value: Value) -> Kind:
    """Return the kind of a value. Raises `InvalidValueError` for what is none (bytes, None,
    ...)."""
    kind = _KINDS.get(type(value))
    return _kind_of_subclass(value) if kind is None else kind


def _kind_of_subclass(value: Value) -> Kind:
    """Return the kind of a value of a subclass, such as enumerations and numpy's float64; bool goes
    first, because it is an int."""
    for base, kind in _KINDS.items():
        if isinstance(value, base):
            return kind
    raise InvalidValueError(
        f"{value!r} is not a value: a value is an int, a float, a bool or a str"
    )


def plain(value: object) -> Value:
    """Return a value of a subclass (numpy.float64, an enumeration) as one of the four types;
    encoders take no others. Raises `InvalidValueError` for what is no value."""
    for base, convert in _PLAIN.items():
        if isinstance(value, base):
            converted: Value = convert(value)
            return converted
    raise InvalidValueError(
        f"{value!r} is not a value: a value is an int, a float, a bool or a str"
    )


_PLAIN: dict[type, Callable[[Any], Value]] = {
    bool: bool,
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,  # str() would ask the subclass: 'Side.BUY'
}


def is_nan(value: Value) -> bool:
    return value != value  # noqa: PLR0124 (quicker than math.isnan, and true of nothing else)


def canonical(value: Value) -> Value:
    """Return the value itself, but `NAN` for every NaN."""
    return NAN if is_nan(value) else value


def compare(left: Any, right: Any) -> int | None:
    """Return -1, 0 or 1 as the value `left` is less than, equal to or greater than `right`; None if
    they are of unlike kinds."""
    if kind_of(left) is not kind_of(right):
        return None
    if left < right:
        return -1
    if left > right:
        return 1
    return 0 if left == right else is_nan(left) - is_nan(right)


def less(left: Any, right: Any) -> bool:
    """Return `left < right` for two values of one kind, neither NaN."""
    return bool(left < right)


def sort_key(value: Value) -> tuple[bool, Any]:
    """Return a key that sorts values of one kind by the order above."""
    nan = is_nan(value)
    return (nan, 0 if nan else value)
