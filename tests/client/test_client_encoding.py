"""Published values, encoded as a frame."""

from __future__ import annotations

from datetime import datetime
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from reefcast.client.encoding import encode_event, merge_attributes
from reefcast.errors import InvalidValueError
from reefcast.model import wire
from reefcast.model.filters import parse_filter
from reefcast.protocol.frames import FrameReader


@pytest.mark.parametrize(
    ("attributes", "topics"), [({"x": "\ud800"}, []), ({"\ud800": 1}, []), ({}, ["\ud800"])]
)
def test_text_that_is_no_unicode(attributes: dict[str, object], topics: list[str]) -> None:
    with pytest.raises(InvalidValueError, match="not Unicode"):
        encode_event(("p", 1), 0, attributes, topics, b"")


class Side(str, Enum):  # noqa: UP042 (the very class that was sent by its name)
    BUY = "buy"

    def __str__(self) -> str:
        return "to buy"


class Mode(StrEnum):
    FAST = "fast"


class Level(IntEnum):
    HIGH = 3


class Loud(float):
    def __float__(self) -> float:
        return 0.0


def sent(**attributes: object) -> dict[str, object]:
    """Return the attributes that arrive."""
    frame = encode_event(("p", 1), 0, attributes, ["t"], b"")
    [(_, payload)] = FrameReader().feed(frame)
    return wire.CLIENT_CODEC.decode_publish(payload).publication.attributes


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Side.BUY, "buy"),
        (Mode.FAST, "fast"),
        (Level.HIGH, 3),
        (Loud(2.5), 2.5),
        (np.str_("x"), "x"),
        (np.int8(-5), -5),
        (np.uint64(2**63 - 1), 2**63 - 1),
        (np.float32(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.bool_(True), True),
        (np.array(7), 7),
    ],
)
def test_values_of_other_classes_are_sent_as_what_they_are(value: object, plain: object) -> None:
    arrived = sent(x=value)["x"]
    assert (type(arrived), arrived) == (type(plain), plain)


def test_a_filter_takes_an_enumeration_for_what_it_is() -> None:
    assert parse_filter("side = 'buy'").holds({"side": Side.BUY})


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (Fraction(1, 3), r"send float\(...\)"),
        (np.longdouble("0.1"), r"send float\(...\)"),
        (np.array([1]), "an array; an attribute is one value"),
        (np.array([1, 2]), "an array; an attribute is one value"),
        (pd.Series([1]), "an array; an attribute is one value"),
        (np.uint64(2**63), "does not fit into 64 bits"),
        (b"x", "bytes go into the payload"),
        ([1], "of type list"),
        (datetime(2026, 1, 1), "without a time zone"),
    ],
)
def test_what_cannot_be_sent_without_loss_is_refused(value: object, advice: str) -> None:
    with pytest.raises(InvalidValueError, match=f"'x'.*{advice}"):
        sent(x=value)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ("text", r"this is a str; write publish\(text='...'\)"),
        (b"bytes", r"this is a bytes; write publish\(payload=...\)"),
        (5, r"this is a int; write publish\(name=value\)"),
        ([("a", 1)], r"this is a list; write publish\(name=value\)"),
    ],
)
@pytest.mark.parametrize("named", [{}, {"a": 1}])
def test_attributes_without_names_are_refused(
    given: object, advice: str, named: dict[str, object]
) -> None:
    with pytest.raises(InvalidValueError, match=f"takes attributes by name, and {advice}"):
        merge_attributes(given, named)


def test_attributes_of_several_forms() -> None:
    assert merge_attributes(None, {"a": 1}) == {"a": 1}
    assert merge_attributes({"a": 1, "b": 1}, {"b": 2}) == {"a": 1, "b": 2}
    row = pd.DataFrame({"a": [1], "b": ["x"]}).iloc[0]
    assert sent(**merge_attributes(row, {"c": 2})) == {"a": 1, "b": "x", "c": 2}
