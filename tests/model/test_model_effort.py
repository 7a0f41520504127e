"""The look at a filter before it is parsed: what people write passes, and what passes is little
work."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from hostile_filters import LEGITIMATE, hostile
from hypothesis import given
from model_strategies import complicated, conditions

from counted_calls import calls_of
from reefcast.errors import FilterSyntaxError, LimitError
from reefcast.matching import new_index
from reefcast.model.effort import ODD, FilterLimits, admit_filter, steps_of
from reefcast.model.expression import Expression, to_sql
from reefcast.model.filters import Filter, parse_filter
from reefcast.network.sections import LimitsSection

SECTION = LimitsSection()
LIMITS = FilterLimits(SECTION.filter_steps, SECTION.filter_depth, SECTION.name_chars)
UNLIMITED = FilterLimits(sys.maxsize, sys.maxsize, sys.maxsize)
MOST_CALLS = 120_000
"""Calls of functions, nearly all of C: 10 ms on a quiet machine."""
KINDS = [name for name, _ in hostile(100)]


@cache
def texts(size: int) -> dict[str, str]:
    """The hostile filters of this size, by kind."""
    return dict(hostile(size))


def take(text: str, index: Any) -> str:
    """Does what a broker does with a filter of a client; returns why not, if so."""
    try:
        read = admit_filter(text, LIMITS)
        filter = parse_filter(text)
        index.add("new", filter)
        index.remove("new")
        del read
    except (LimitError, FilterSyntaxError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", LEGITIMATE)
def test_what_people_write_passes(name: str) -> None:
    index = new_index()
    index.add("other", Filter("a = 1 AND b > 2"))
    assert take(LEGITIMATE[name], index) == ""


@pytest.mark.parametrize("name", LEGITIMATE)
def test_and_is_little_work(name: str) -> None:
    index = new_index()
    index.add("other", Filter("a = 1 AND b > 2"))
    assert calls_of(lambda: take(LEGITIMATE[name], index)) < MOST_CALLS


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param((1000, 2000, 4000, 10_000, 65_000), id="some"),
        pytest.param(range(500, 66_000, 500), id="all", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_hostile_filters_are_little_work(kind: str, sizes: Sequence[int]) -> None:
    """Of every length: the longest that passes is somewhere in between."""
    index = new_index()
    index.add("other", Filter("a = 1 AND b > 2"))
    for size in sizes:
        text = texts(size)[kind]
        assert calls_of(lambda text=text: take(text, index)) < MOST_CALLS, size


def test_each_refusal_names_its_key() -> None:
    for text, key in (
        ("(" * 101 + "a" + ")" * 101, "filter_depth"),
        ("a" * 201 + " = 1", "name_chars"),
        ('"' + "a" * 201 + '" = 1', "name_chars"),
        (" OR ".join(f"a = {i}" for i in range(2000)), "filter_steps"),
        ("a LIKE '" + "%x" * 5000 + "'", "filter_steps"),
        (" AND ".join(f"é{i} = 1" for i in range(300)), "filter_steps"),
        (" AND ".join(f"a{i} = 1" for i in range(300)) + " AND", "filter_steps"),
    ):
        with pytest.raises(LimitError, match=rf"{key} in\s+\[limits\]|of {key} in \[limits\]"):
            admit_filter(text, LIMITS)


def test_looking_stops_at_the_limit() -> None:
    text = "a = 1 AND " * 6000 + "b"
    with pytest.raises(LimitError):
        steps_of(text, LIMITS)

    def look() -> None:
        with suppress(LimitError):
            steps_of(text, LIMITS)

    looked = calls_of(look)
    assert looked < calls_of(lambda: steps_of(text, UNLIMITED)) / 5


def test_names_of_the_greatest_length_pass() -> None:
    assert admit_filter("a" * 200 + " = 1 AND " + '"' + "b" * 200 + '" = 2', LIMITS) is None


def test_a_large_filter_is_parsed_once() -> None:
    text = " AND ".join(f"a{i} = {i} OR b{i} = 1" for i in range(60))
    assert steps_of(text, UNLIMITED) * ODD > LIMITS.steps
    read = admit_filter(text, LIMITS)
    assert read is not None
    assert parse_filter(text) is read


@given(conditions(complicated))
def test_short_filters_pass(expression: Expression) -> None:
    text = to_sql(expression)
    assert admit_filter(text, LIMITS) in (None, parse_filter(text))
