"""Which advertisements a subscription intersects, beside a comparison with each of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.model import covering
from reefcast.model.filters import parse_filter
from reefcast.routing import advertised_texts
from reefcast.routing.advertised_texts import AdvertisedTexts, demanded

PREDICATES = [
    *(f"{name} = '{value}'" for name in ("a", "b", "topic") for value in ("x", "y", "z")),
    *(
        "a = 1",
        "a <> 'x'",
        "a IN ('x', 'y')",
        "a IN ('y', 'z')",
        "a LIKE 'x%'",
        "a IS NULL",
        "a > 'w'",
        "b < 5",
    ),
    *("topic = 'x/#'", "a = b", "a BETWEEN 'x' AND 'x'", "a = 'x' OR b = 'y'", "a = TRUE"),
]
texts = st.lists(st.sampled_from(PREDICATES), min_size=1, max_size=3).map(
    lambda several: " AND ".join(f"({one})" for one in several)
)
changes = st.lists(st.tuples(st.booleans(), texts), max_size=25)


@given(changes, st.lists(texts, min_size=1, max_size=6))
def test_what_is_found_is_what_a_comparison_with_each_finds(
    changes: Sequence[tuple[bool, str]], subscriptions: Sequence[str]
) -> None:
    known, twin = AdvertisedTexts(), list[str]()
    for comes, text in changes:
        if comes or text not in twin:
            known.add(parse_filter(text))
            twin.append(text)
        else:
            known.remove(parse_filter(text))
            twin.remove(text)
    assert bool(known) == bool(twin)
    for text in subscriptions:
        wanted = parse_filter(text)
        found = any(covering.intersects(parse_filter(one), wanted) for one in twin)
        assert known.intersects(wanted) == found
        assert (text in known) == (text in twin)


@given(changes)
def test_nothing_is_left_of_texts_that_came_and_went(changes: Sequence[tuple[bool, str]]) -> None:
    known = AdvertisedTexts()
    for _, text in changes:
        known.add(parse_filter(text))
    for _, text in reversed(changes):
        known.remove(parse_filter(text))
    assert not any(vars(known).values())
    stays = parse_filter("a = 'z'")
    alone = AdvertisedTexts()
    for one in (alone, known):
        one.add(stays)
    for change in (known.add, known.remove):
        for _, text in changes:
            change(parse_filter(text))
    assert vars(known) == vars(alone)


def test_a_subscription_is_compared_with_few_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    known = AdvertisedTexts()
    for process in range(50):
        for activity in range(4):
            text = f"class = 'done' AND process = 'p{process}' AND activity = 'a{activity}'"
            known.add(parse_filter(text))
    known.add(parse_filter("class = 'done'"))
    compared: list[str] = []

    def intersects(one: covering.Filter, other: covering.Filter) -> bool:
        compared.append(one.text)
        return covering.intersects(one, other)

    monkeypatch.setattr(advertised_texts, "intersects", intersects)
    known.remove(parse_filter("class = 'done'"))
    assert not known.intersects(parse_filter("process = 'p99' AND class = 'done'"))
    assert not compared
    assert not known.intersects(parse_filter("class = 'done' AND process = 'p7' AND activity = 5"))
    assert len(compared) == 4
    known.add(parse_filter("class = 'done'"))
    assert known.intersects(parse_filter("process = 'p99' AND class = 'done'"))
    assert compared[4:] == ["class = 'done'"]


def test_a_subscription_is_compared_with_those_that_list_one_of_its_strings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = AdvertisedTexts()
    for broker in range(20):
        feeds = ", ".join(f"'f{broker * 5 + number}'" for number in range(6))
        known.add(parse_filter(f"feed IN ({feeds})"))
    compared: list[str] = []

    def intersects(one: covering.Filter, other: covering.Filter) -> bool:
        compared.append(one.text)
        return covering.intersects(one, other)

    monkeypatch.setattr(advertised_texts, "intersects", intersects)
    assert not known.intersects(parse_filter("feed IN ('f101', 'f102') AND score < 5"))
    assert not compared
    assert known.intersects(parse_filter("feed = 'f27'"))
    assert compared == ["feed IN ('f25', 'f26', 'f27', 'f28', 'f29', 'f30')"]


def test_what_a_filter_demands() -> None:
    demands = demanded(parse_filter("a = 'x' AND b IN ('z', 'y') AND c > 3"))
    assert demands == {"a": ("x",), "b": ("y", "z")}
    for text in (
        "topic = 'x'",
        "a = 'x' OR b = 'y'",
        "a = 1",
        "a LIKE 'x%'",
        "a IN (1, 2)",
        "a = 'x' AND a = 'y'",
    ):
        assert demanded(parse_filter(text)) == {}
    many = " AND ".join(f"a{number} = 'x'" for number in range(65))
    assert demanded(parse_filter(many)) == {}
