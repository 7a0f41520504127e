"""Nested mappings, Structs and dataclasses as attributes with dotted names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.client.encoding import merge_attributes
from reefcast.errors import InvalidValueError
from reefcast.model.flat import MAX_DEPTH, as_sent


class Item(msgspec.Struct, rename="camel", tag="item"):
    unit_price: float
    note: str | msgspec.UnsetType | None = msgspec.UNSET


@dataclass
class Order:
    item: Item
    count: int = 1


@pytest.mark.parametrize(
    ("given", "attributes"),
    [
        ({"order": {"price": 3, "at": {"x": 1}}}, {"order.price": 3, "order.at.x": 1}),
        ({"order.price": 3, "order": {"id": 4}}, {"order.price": 3, "order.id": 4}),
        ({"a": {}, "b": {"c": None}, "d": None}, {}),
        ({"a.b": None, "a": {"b": 1}}, {"a.b": 1}),
        ({"a": {None: None, "b": 1}}, {"a.b": 1}),
        (Item(2.5), {"unitPrice": 2.5, "type": "item"}),
        (Item(2.5, None), {"unitPrice": 2.5, "type": "item"}),
        (Order(Item(2.5)), {"item.unitPrice": 2.5, "item.type": "item", "count": 1}),
        (
            {"order": Order(Item(1, "x"), 2)},
            {
                "order.item.unitPrice": 1,
                "order.item.note": "x",
                "order.item.type": "item",
                "order.count": 2,
            },
        ),
    ],
)
def test_names(given: Any, attributes: dict[str, object]) -> None:
    assert as_sent(merge_attributes(given, {})) == attributes


def test_a_struct_with_keywords_beside_it() -> None:
    assert as_sent(merge_attributes(Item(1), {"type": "other", "x": Order(Item(2))})) == {
        "unitPrice": 1,
        "type": "other",
        "x.item.unitPrice": 2,
        "x.item.type": "item",
        "x.count": 1,
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": {"b": 1}, "a.b": 2}, "attribute 'a.b' occurs twice"),
        ({"a.b": {"c": 1}, "a": {"b.c": 2}}, "attribute 'a.b.c' occurs twice"),
        ({"a": {1: 2}}, "the key 1 within attribute 'a' is not a non-empty string"),
        ({"a": {"b": {"": 2}}}, "the key '' within attribute 'a.b' is not a non-empty"),
        ({"": {"a": 2}}, "attribute name '' is not a non-empty string"),
    ],
)
def test_what_has_no_name_of_its_own_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        as_sent(given)


def test_a_mapping_that_holds_itself() -> None:
    endless: dict[str, object] = {}
    endless["a"] = endless
    with pytest.raises(InvalidValueError, match=f"attribute 'a' is nested {MAX_DEPTH} levels deep"):
        as_sent(endless)


def test_a_class_is_no_instance() -> None:
    for kind in (Item, Order):
        with pytest.raises(InvalidValueError, match="publish takes attributes by name"):
            merge_attributes(kind, {})  # type: ignore[arg-type]  # what a checker finds


def twin(given: dict[str, Any]) -> list[tuple[str, object]]:
    """Return all paths to what is no mapping, with dots between their parts."""
    paths: list[tuple[str, object]] = []
    for key, value in given.items():
        if isinstance(value, dict):
            paths += [(f"{key}.{rest}", inner) for rest, inner in twin(value)]
        elif value is not None:
            paths.append((key, value))
    return paths


NAMES = st.sampled_from(("a", "b", "a.b", "c.a", "c"))
SCALARS = st.none() | st.integers(0, 3) | st.sampled_from(("x", True, 0.5))
NESTED = st.recursive(
    st.dictionaries(NAMES, SCALARS, max_size=3),
    lambda inner: st.dictionaries(NAMES, SCALARS | inner, max_size=3),
    max_leaves=6,
)


@given(NESTED)
def test_paths_are_names_or_collide(given: dict[str, Any]) -> None:
    paths = twin(given)
    if len(dict(paths)) == len(paths):
        assert list(as_sent(given).items()) == paths
    else:
        with pytest.raises(InvalidValueError, match="occurs twice"):
            as_sent(given)
