"""A network file that is written and read again is the same, whatever its contents."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal, get_type_hints

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reefcast.network.file import NetworkFile, dump_network, parse_network
from reefcast.network.sections import SECTIONS, BrokerEntry, NetworkSection, Section
from reefcast.routing.registry import ROUTINGS, routing_named

NOT_IN_UTF_8 = "Cs"
TEXTS = st.text(st.characters(exclude_categories=[NOT_IN_UTF_8]), max_size=8)
INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
TIMES = st.one_of(
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=-3.5))])),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(TEXTS, INTS, FLOATS, st.booleans(), TIMES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
"""The values that TOML can express: no null, and no sets or tuples."""
TABLES = st.dictionaries(TEXTS, VALUES, max_size=4)
OF_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXTS,
    str | None: st.none() | TEXTS,
    bool: st.booleans(),
    int: INTS,
    int | None: st.none() | INTS,
    float: FLOATS,
    float | None: st.none() | FLOATS,
    list[str]: st.lists(TEXTS, max_size=3),
    dict[str, str]: st.dictionaries(TEXTS, TEXTS, max_size=3),
    dict[str, Any]: TABLES,
    tuple[str, str]: st.tuples(TEXTS, TEXTS),
    Literal["always", "interval"]: st.sampled_from(("always", "interval")),
    bool | None: st.none() | st.booleans(),
    Literal["mqtt", "http"]: st.sampled_from(["mqtt", "http"]),
    Literal["json", "none"]: st.sampled_from(["json", "none"]),
    Literal["text", "json"]: st.sampled_from(["text", "json"]),
    Literal["debug", "info", "warning", "error"]: st.sampled_from(["debug", "info", "error"]),
    Literal["none", "optional", "required"]: st.sampled_from(["none", "optional", "required"]),
}


def sections(kind: type[Section]) -> st.SearchStrategy[Any]:
    """Draw a section with any values in all fields; fields with a default may be left out."""
    hints, fields = get_type_hints(kind), msgspec.structs.fields(kind)
    needed = {field.name: OF_TYPE[hints[field.name]] for field in fields if field.required}
    others = {field.name: OF_TYPE[hints[field.name]] for field in fields if not field.required}
    return st.fixed_dictionaries(needed, optional=others).map(lambda given: kind(**given))


def some(title: str) -> st.SearchStrategy[Any]:
    """Draw what may stand under this title."""
    one = sections(SECTIONS[title])
    return st.lists(one, max_size=3) if title.startswith("[[") else one


NETWORKS = st.fixed_dictionaries(
    {}, optional={"routing": TABLES} | {title.strip("[]"): some(title) for title in SECTIONS}
).map(lambda given: NetworkFile(**given))


def gossip(**routing: Any) -> NetworkFile:
    broker = BrokerEntry("a", "127.0.0.1:1", routing={"topics": {}})
    return NetworkFile(network=NetworkSection(routing="gossip"), routing=routing, broker=[broker])


@given(NETWORKS)
@example(gossip(contacts=["a"], topics={}))
@example(gossip(contacts=["a"], round_s=float("inf")))
@example(gossip(topics={"\x7f": ["a\x7f\u2028", "\U0001f600"]}))
def test_what_is_written_reads_the_same(network: NetworkFile) -> None:
    assert parse_network(dump_network(network)) == network


def test_every_part_of_the_file_is_tried() -> None:
    titles = {title.strip("[]") for title in SECTIONS}
    assert titles | {"routing"} == {field.name for field in msgspec.structs.fields(NetworkFile)}


# --- options of routings --------------------------------------------------------------------------


def values_of(kind: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Draw values of a type as they stand in a file."""
    if isinstance(kind, msgspec.inspect.IntType):
        low = kind.ge if kind.ge is not None else -(2**63)
        return st.integers(low, kind.le if kind.le is not None else 2**63 - 1)
    if isinstance(kind, msgspec.inspect.FloatType):
        low, high = (
            (kind.ge if kind.gt is None else kind.gt),
            (kind.le if kind.lt is None else kind.lt),
        )
        return st.floats(
            low,
            high,
            exclude_min=kind.gt is not None,
            exclude_max=kind.lt is not None,
            allow_nan=False,
        )
    if isinstance(kind, msgspec.inspect.LiteralType):
        return st.sampled_from(kind.values)
    if isinstance(kind, msgspec.inspect.VarTupleType):
        return st.lists(values_of(kind.item_type), max_size=3)
    if isinstance(kind, msgspec.inspect.DictType):
        return st.dictionaries(TEXTS, values_of(kind.value_type), max_size=3)
    return {msgspec.inspect.StrType: TEXTS, msgspec.inspect.BoolType: st.booleans()}[type(kind)]


def options(routing: str) -> st.SearchStrategy[dict[str, Any]]:
    info = msgspec.inspect.type_info(routing_named(routing).options)
    assert isinstance(info, msgspec.inspect.StructType)
    given = {field.encode_name: values_of(field.type) for field in info.fields}
    return st.fixed_dictionaries({}, optional=given)


@pytest.mark.parametrize("routing", sorted(ROUTINGS))
@given(st.data())
def test_the_options_of_each_routing_are_kept_for_all_brokers_and_for_one(
    routing: str, data: st.DataObject
) -> None:
    own = BrokerEntry("b", routing=data.draw(options(routing)))
    network = NetworkFile(
        network=NetworkSection(routing=routing),
        routing=data.draw(options(routing)),
        broker=[BrokerEntry("a"), own],
    )
    assert parse_network(dump_network(network)) == network
