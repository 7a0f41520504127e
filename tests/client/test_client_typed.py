"""Published values come back as the program's own types, through the frames of the wire."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.client.encoding import encode_event, merge_attributes
from reefcast.client.event import Event
from reefcast.errors import InvalidValueError
from reefcast.model import wire
from reefcast.protocol.frames import FrameReader


def received(published: Any) -> Event:
    """Return the event that a subscriber receives."""
    attributes = merge_attributes(published, {})
    [(_, payload)] = FrameReader().feed(encode_event(("p", 7), 0, attributes, ["t"], b""))
    return Event(wire.CLIENT_CODEC.decode_publish(payload).body)


class Side(Enum):
    BUY = "buy"
    SELL = "sell"


class Level(Enum):
    LOW = 1
    HIGH = 3


class Mode(StrEnum):
    FAST = "fast"


class Ratio(Enum):
    HALF = 0.5


class Customer(msgspec.Struct, rename="camel"):
    full_name: str
    born: date | None


@dataclass
class Delivery:
    at: time
    took: timedelta | None = None
    to: Customer | None = None


class Limits(TypedDict):
    low: float
    high: NotRequired[Decimal]


class Order(msgspec.Struct, tag=True):
    id: UUID
    when: datetime
    price: Decimal
    side: Side
    level: Level
    mode: Mode
    count: int
    share: float
    open: bool
    note: str | None
    customer: Customer
    limits: Limits
    delivery: Delivery | None
    rates: dict[str, float]
    customers: dict[str, Customer]
    urgent: bool | msgspec.UnsetType = msgspec.UNSET


def in_digits(digits: int, exponent: int) -> Decimal:
    return Decimal(digits).scaleb(exponent)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
keys = texts.filter(lambda key: key != "")
longs = st.integers(-(2**63), 2**63 - 1)
decimals = st.builds(in_digits, st.integers(-(10**15) + 1, 10**15 - 1), st.integers(-20, 20))
instants = st.datetimes(timezones=st.just(UTC))
spans = st.timedeltas(timedelta(days=-(10**8)), timedelta(days=10**8))
customers = st.builds(Customer, texts, st.none() | st.dates())
orders = st.builds(
    Order,
    id=st.uuids(),
    when=instants,
    price=decimals,
    side=st.sampled_from(Side),
    level=st.sampled_from(Level),
    mode=st.sampled_from(Mode),
    count=longs,
    share=st.floats(allow_nan=False),
    open=st.booleans(),
    note=st.none() | texts,
    customer=customers,
    limits=st.fixed_dictionaries({"low": st.floats(allow_nan=False)}, optional={"high": decimals}),
    delivery=st.none() | st.builds(Delivery, st.times(), st.none() | spans, st.none() | customers),
    rates=st.dictionaries(keys, st.floats(allow_nan=False), max_size=3),
    customers=st.dictionaries(keys.filter(lambda key: "." not in key), customers, max_size=2),
    urgent=st.booleans() | st.just(msgspec.UNSET),
)


@given(orders)
def test_what_is_published_comes_back(order: Order) -> None:
    assert received(order).as_(Order) == order


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (int, longs),
        (bool, st.booleans()),
        (str, texts),
        (float, st.floats(allow_nan=False)),
        (Decimal, decimals),
        (datetime, instants),
        (timedelta, spans),
        (date, st.dates()),
        (time, st.times()),
        (UUID, st.uuids()),
        (Side, st.sampled_from(Side)),
        (Level, st.sampled_from(Level)),
    ],
)
@given(data=st.data())
def test_mappings_of_one_kind_come_back(kind: Any, values: Any, data: st.DataObject) -> None:
    mapping = data.draw(st.dictionaries(keys, values, max_size=4))
    assert received(mapping).as_(dict[str, kind]) == mapping
    nested = {"a": mapping, "b": {}}
    expected = {"a": mapping} if mapping else {}
    assert received(nested).as_(dict[str, dict[str, kind]]) == expected


def test_forms_that_other_programs_chose() -> None:
    """A decimal comes as a text, a time as a text, an int for a float."""

    class Reading(msgspec.Struct):
        exact: Decimal
        when: datetime
        celsius: float
        raw: int | datetime

    reading = received(
        {"exact": "0.10", "when": "2026-01-01T01:00:00+01:00", "celsius": 5, "raw": 7}
    )
    assert reading.as_(Reading) == Reading(
        Decimal("0.10"), datetime(2026, 1, 1, tzinfo=UTC), 5.0, 7
    )
    assert math.isnan(received({"x": Decimal("NaN")}).as_(dict[str, Decimal])["x"])


class Tree(msgspec.Struct):
    value: int
    left: Tree | None
    right: Tree | None = None


def test_a_type_that_holds_itself() -> None:
    tree = Tree(1, Tree(2, None, Tree(3, None)))
    assert received(tree).as_(Tree) == tree


class Part(msgspec.Struct):
    name: str = "none"
    tags: list[str] = msgspec.field(default_factory=list)


@dataclass
class Whole:
    part: Part
    size: int | None = 5
    parts: dict[str, Part] = field(default_factory=dict)


def test_what_is_missing_is_the_default() -> None:
    assert received({}).as_(Whole) == Whole(Part())
    assert received({"size": None, "parts.a.name": "x", "more": 1}).as_(Whole) == Whole(
        Part(), 5, {"a": Part("x")}
    )


def test_an_attribute_beside_nested_ones() -> None:
    event = received({"part": 1, "part.name": "x"})
    assert event.as_(Whole) == Whole(Part("x"))
    assert event.as_(dict[str, int | str]) == {"part": 1, "part.name": "x"}


class Quote(msgspec.Struct, tag="quote", forbid_unknown_fields=True):
    when: datetime
    side: Side
    customer: Customer | None = None
    sizes: dict[str, int] | None = None


QUOTE = {"when": 5, "side": "buy"}


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        (
            {"side": "buy"},
            "it has no attribute 'when'; give the field a default, or ask for events "
            "with when IS NOT NULL",
        ),
        ({**QUOTE, "customer.born": "2026-01-01"}, "it has no attribute 'customer.fullName'; .*"),
        ({**QUOTE, "side": "hold"}, "attribute 'side' is 'hold': Invalid enum value 'hold'"),
        ({**QUOTE, "when": True}, "attribute 'when' is True: Expected `datetime`, got `bool`"),
        ({**QUOTE, "when": 2**62}, f"attribute 'when' is {2**62}, too many microseconds"),
        ({**QUOTE, "customer": 1}, "attribute 'customer' is 1: Expected `object . null`.*"),
        ({**QUOTE, "customer.fullName": 1}, "attribute 'customer.fullName' is 1: Expected `str`.*"),
        ({**QUOTE, "sizes.a.b": "x"}, "attribute 'sizes.a.b' is 'x': Expected `int`, got `str`"),
        ({**QUOTE, "sizes.a": "x", "sizes.b": 1}, r"attribute 'sizes\.\*': Expected `int`.*"),
        ({**QUOTE, "type": "trade"}, "attribute 'type' is 'trade': Invalid value 'trade'"),
        ({**QUOTE, "color": 1}, "Object contains unknown field `color`"),
    ],
)
def test_what_does_not_fit_is_named(attributes: dict[str, Any], problem: str) -> None:
    event = received(attributes)
    with pytest.raises(InvalidValueError, match=f"^event 7 of 'p' is no Quote: {problem}$"):
        event.as_(Quote)


class Listed(msgspec.Struct, array_like=True):
    x: int


class Either(msgspec.Struct):
    one: Tree | dict[str, int]


class Loose(msgspec.Struct):
    ratio: Ratio


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (int, "int: write a Struct of msgspec, a dataclass, a TypedDict or dict"),
        (Listed, "Listed: Listed is array_like, so its fields have no names"),
        (Either, "Either: "),
        (Loose, "Loose: Enums must contain either all str or all int values"),
    ],
)
def test_types_that_no_event_can_be(kind: type, problem: str) -> None:
    with pytest.raises(InvalidValueError, match=f"no event can be read as {problem}"):
        received({"x": 1}).as_(kind)


def test_a_name_that_is_not_known() -> None:
    class Local(msgspec.Struct):
        x: Nowhere  # type: ignore[name-defined]  # noqa: F821 (that is what is tested)

    with pytest.raises(InvalidValueError, match="read as Local: name 'Nowhere' is not defined"):
        received({"x": 1}).as_(Local)


class Trade(msgspec.Struct, forbid_unknown_fields=True):
    symbol: str
    price: Decimal
    id: UUID | None = None


@dataclass
class TradeOnADay:
    symbol: str
    price: Decimal
    id: UUID | None = None
    day: date = date.max


@pytest.mark.parametrize("kind", [Trade, TradeOnADay])
def test_types_that_msgspec_reads_directly(kind: Any) -> None:
    trade = kind("IBM", Decimal("9.95"), UUID(int=5))
    assert received(trade).as_(kind) == trade
    assert received({"symbol": "IBM", "price": 5}).as_(kind) == kind("IBM", Decimal(5))
    name = kind.__name__
    with pytest.raises(InvalidValueError, match=f"no {name}: it has no attribute 'price'"):
        received({"symbol": "IBM"}).as_(kind)
    with pytest.raises(InvalidValueError, match=f"no {name}: attribute 'symbol' is 5: Expected"):
        received({"symbol": 5, "price": 5}).as_(kind)


def test_a_field_that_is_not_known_is_refused_where_the_type_says_so() -> None:
    with pytest.raises(InvalidValueError, match="no Trade: Object contains unknown field `more`"):
        received({"symbol": "IBM", "price": 5, "more": 1}).as_(Trade)
