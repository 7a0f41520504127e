"""What an index reports of itself agrees with what was added."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from reefcast.errors import LocalError
from reefcast.matching.index import CompiledIndex
from reefcast.model.covering import covers
from reefcast.model.filters import parse_filter


def texts(seed: int) -> list[str]:
    """Return filters: most are equalities with one of many values, some have a rare attribute."""
    random = Random(seed)
    found = []
    for number in range(4000):
        price = f"price > {random.random()!r}"
        found.append(
            {
                0: f"{price} AND size < 5",
                1: f"rare IS NOT NULL AND {price}",
                2: f"{price} OR flight = {-random.randrange(30)}.5",
                3: f"{price} AND price < size",
            }.get(number % 40, f"\"a 'b'\" = 'it''s {int(40 * random.random() ** 3)}' AND {price}")
        )
    return found


@pytest.fixture(scope="module")
def index() -> CompiledIndex[int]:
    built: CompiledIndex[int] = CompiledIndex()
    for key, text in enumerate(texts(1)):
        built.add(key, parse_filter(text))
    for key in range(0, 4000, 3):
        built.remove(key)
    return built


KEPT = {key: text for key, text in enumerate(texts(1)) if key % 3}


@pytest.fixture(scope="module")
def places_of(index: CompiledIndex[int]) -> dict[int, list[dict[str, Any]]]:
    return {key: index.plan_of(key) for key in KEPT}


@pytest.mark.long
def test_where_filters_lie(places_of: dict[int, list[dict[str, Any]]]) -> None:
    """A partition's condition follows from each of its filters, and its rows are those of these
    filters."""
    rows: Counter[str | None] = Counter()
    for key, text in KEPT.items():
        filter = parse_filter(text)
        places = places_of[key]
        assert len(places) == len(filter.conjunctions)
        rows.update(place["partition"] for place in places)
        if len(places) == 1 and places[0]["partition"] is not None:
            assert covers(parse_filter(places[0]["partition"]), filter)
        assert [place["with_residuals"] for place in places] == [
            bool(conjunction.residuals) for conjunction in filter.conjunctions
        ]
    assert len(rows) > 30
    for places in places_of.values():
        for place in places:
            assert place["rows"] == rows[place["partition"]]


@pytest.mark.long
def test_the_whole(index: CompiledIndex[int], places_of: dict[int, list[dict[str, Any]]]) -> None:
    plan = json.loads(json.dumps(index.plan()))
    places = [place for each in places_of.values() for place in each]
    assert (plan["filters"], plan["rows"]) == (len(KEPT), len(places))
    assert plan["bytes"] == index.memory_bytes()
    assert plan["with_residuals"] == sum(place["with_residuals"] for place in places)
    default = plan["default"]
    assert sum(group["rows"] for group in plan["partitions"]) + default["rows"] == len(places)
    assert default["rows"] == sum(place["partition"] is None for place in places)
    assert plan["partitions"][0] == {
        "attribute": "a 'b'",
        "by": "value",
        "values": 40,
        "rows": sum("it''s" in text for text in KEPT.values()),
        "checked_one_by_one": len(
            {
                place["partition"]
                for place in places
                if "it''s" in (place["partition"] or "") and place["plan"] == "one by one"
            }
        ),
        "bitmaps": len(
            {
                place["partition"]
                for place in places
                if "it''s" in (place["partition"] or "") and place["plan"] == "bitmaps"
            }
        ),
        "largest": "\"a 'b'\" = 'it''s 0'",
        "largest_rows": sum("it''s 0'" in text for text in KEPT.values()),
    }
    rare = next(group for group in plan["partitions"] if group["attribute"] == "rare")
    assert (rare["by"], rare["largest"], rare["values"]) == ("presence", "rare IS NOT NULL", 1)


@pytest.mark.long
def test_partitions_by_numbers() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    values = ["-0.5", "7", "1e+15", *map(str, range(100, 2100))]
    for key in range(6000):
        value = values[key % len(values)]
        index.add(key, parse_filter(f"n = {value} AND m > {key}"))
    for key in range(5900, 6000):
        (place,) = index.plan_of(key)
        assert float(place["partition"].removeprefix("n = ")) == float(values[key % len(values)])
    (group,) = index.plan()["partitions"]
    assert (group["attribute"], group["values"]) == ("n", len(values))


def test_an_index_without_filters_and_one_that_is_small() -> None:
    index: CompiledIndex[str] = CompiledIndex()
    empty = {"rows": 0, "plan": "one by one", "blocks": 0, "attributes": []}
    assert index.plan()["default"] == empty
    index.add("never", parse_filter("1 = 2"))
    assert (index.plan()["filters"], index.plan_of("never")) == (1, [])
    with pytest.raises(LocalError, match="key 'nobody' is not in the index"):
        index.plan_of("nobody")
    for number in range(200):
        index.add(str(number), parse_filter(f"x > {number} AND s < 'a{number}'"))
    default = index.plan()["default"]
    assert (default["rows"], default["plan"], default["blocks"]) == (200, "bitmaps", 1)
    assert [each["name"] for each in default["attributes"]] == ["s", "x"]
    by_name = {each["name"]: each for each in default["attributes"]}
    assert by_name["x"]["number_buckets"] > 1 == by_name["x"]["string_buckets"]
    assert by_name["s"]["string_buckets"] > 1 == by_name["s"]["number_buckets"]
