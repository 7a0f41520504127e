"""A publication, which the network carries unchanged.

A publication has one id, `(publisher, seq)`, whatever the number of its topics. It is encoded once,
by its publisher's client, and every broker forwards the very bytes (the *body*) that it received;
what changes from hop to hop is the `Header` in front of it (see `messages.Publish`)."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import Annotated

import msgspec

from reefcast.errors import InvalidValueError

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Int64 = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
Value = int | float | bool | str
WireValue = Int64 | float | bool | str
PublicationId = tuple[str, int]

MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
"""The largest payload; a frame that would exceed the wire's limit is refused at the publisher."""


class Publication(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`attributes` name -> int64, float64, bool or str; a missing attribute is NULL.

    `publisher` is unique for ever (a client's id carries a random part), `seq` counts from 1 per
    publisher, `time_us` is int64 microseconds UTC (simulated: since the start of the run).
    `topics` are the values of the attribute `topic`: a filter holds if it holds for one of them.
    """

    publisher: str
    seq: Int64
    time_us: Int64
    attributes: dict[str, WireValue]
    topics: tuple[str, ...] = ()
    payload: bytes = b""

    @property
    def id(self) -> PublicationId:
        return (self.publisher, self.seq)


def is_plain(attributes: Mapping[str, object]) -> bool:
    """Return whether `check_attributes` would leave these unchanged, and all of them are of the
    four classes themselves. For speed: nearly all attributes are."""
    for name, value in attributes.items():
        kind = type(value)
        if kind is int:
            if not INT64_MIN <= value <= INT64_MAX:  # type: ignore[operator]  # it is an int
                return False
        elif kind is not str and kind is not float and kind is not bool:
            return False
        if type(name) is not str or not name:
            return False
    return True


def check_attributes(attributes: Mapping[str, object]) -> dict[str, Value]:
    """Return the attributes as the wire takes them. Raises `InvalidValueError`, which names the
    attribute.

    None means missing and is left out (a data frame's row may be passed as it is).
    """
    checked: dict[str, Value] = {}
    for name, value in attributes.items():
        if value is None:
            continue
        if not isinstance(name, str) or not name:
            raise InvalidValueError(f"attribute name {name!r} is not a non-empty string")
        if not isinstance(value, (int, float, str)):  # bool is an int
            raise InvalidValueError(
                f"attribute {name!r} has the value {value!r} of type {type(value).__name__}; "
                f"an attribute is an int, a float, a bool or a str{_advice(value)}"
            )
        if isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
            raise InvalidValueError(f"attribute {name!r}: {value} does not fit into 64 bits")
        checked[name] = value
    return checked


def _advice(value: object) -> str:
    """Return what to send instead of a value that would lose something on the way."""
    if "time" in type(value).__name__:
        return ": send a datetime with a time zone, a timedelta, or a number in a unit of your own"
    if isinstance(value, Number):  # numpy's durations are some, too
        return ": send float(...), which may round, or str(...), which compares as a text"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return ": bytes go into the payload, publish(payload=...)"
    if isinstance(value, (list, tuple, set, frozenset)):
        return (
            ": publish one event for each of its values, or put them into the payload (as by "
            "msgspec.json.encode), which no filter sees"
        )
    return ": send those of its values that filters are to see, and the rest in the payload"
