"""Each operator of the language, alone and with others: the index finds what its twin finds, with
rows in a list, in blocks, in blocks whose cuts were made for other rows, and in partitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_harness import LONG, NUMBERS, SPECIAL, STRINGS, Both, event, number_to_sql

from inner_loop import examples
from reefcast.matching.index import CompiledIndex
from reefcast.model.expression import literal_to_sql
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.publication import INT64_MIN, Publication

NAMES = ("a", "b", "c", "topic")
IN_BLOCKS = 25
"""How many rows make a block."""

names = st.sampled_from(NAMES)
few_characters = st.text("ab/é🐠%_!$\n", max_size=5)
levels = st.lists(st.sampled_from(("a", "b", "", "é", "$s")), min_size=1, max_size=4)
topics = levels.map("/".join)
numbers = st.sampled_from(NUMBERS) | st.integers(-3, 3)
strings = st.sampled_from(STRINGS) | few_characters | topics
values = st.one_of(
    numbers,
    st.sampled_from(SPECIAL),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    strings,
    strings,
    st.text(max_size=3),
    st.sampled_from(LONG),
    st.booleans(),
)
publications = st.builds(
    event, st.dictionaries(names, values), st.lists(topics | strings, max_size=3)
)
number_literals = (numbers | st.sampled_from(SPECIAL) | st.floats()).map(number_to_sql)
string_literals = strings.map(literal_to_sql)
literals = number_literals | string_literals | st.sampled_from(("TRUE", "FALSE"))


def listed(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(items, min_size=1, max_size=5).map(lambda texts: f"({', '.join(texts)})")


plain_numbers = (numbers.filter(lambda number: number != INT64_MIN) | st.floats()).filter(
    math.isfinite
)
lists = st.one_of(
    listed(plain_numbers.map(literal_to_sql)),
    listed(string_literals),
    listed(st.sampled_from(("TRUE", "FALSE"))),
)
escaped_parts = st.sampled_from(("%", "_", "a", "b", "é", "🐠", "!%", "!_", "!!"))
plain_parts = st.sampled_from(("%", "_", "a", "b", "é", "🐠", "!", "/"))
tails = st.sampled_from(("", "/#"))
topic_levels = st.lists(
    st.sampled_from(("a", "b", "", "é", "+", "$s")), min_size=1, max_size=4
).map("/".join)
topic_patterns = st.builds("{}{}".format, topic_levels, tails).filter(bool) | st.just("#")


def like(parts: st.SearchStrategy[str], quote: str, operator: str) -> st.SearchStrategy[str]:
    patterns = st.lists(parts, max_size=6).map("".join)
    return st.builds(f"{{}} {operator} {{}}{quote}".format, names, patterns.map(literal_to_sql))


def any_like(operator: str) -> st.SearchStrategy[str]:
    return like(plain_parts, "", operator) | like(escaped_parts, " ESCAPE '!'", operator)


OPERATORS: dict[str, st.SearchStrategy[str]] = {
    sign: st.builds(f"{{}} {sign} {{}}".format, names, literals)
    for sign in ("=", "<>", "<", "<=", ">", ">=")
}
OPERATORS |= {
    "BETWEEN numbers": st.builds(
        "{} BETWEEN {} AND {}".format, names, number_literals, number_literals
    ),
    "BETWEEN strings": st.builds(
        "{} BETWEEN {} AND {}".format, names, string_literals, string_literals
    ),
    "NOT BETWEEN": st.builds(
        "{} NOT BETWEEN {} AND {}".format, names, number_literals, number_literals
    ),
    "IN": st.builds("{} IN {}".format, names, lists),
    "NOT IN": st.builds("{} NOT IN {}".format, names, lists),
    "LIKE": any_like("LIKE"),
    "NOT LIKE": any_like("NOT LIKE"),
    "MATCHES": st.builds("topic MATCHES {}".format, topic_patterns.map(literal_to_sql)),
    "NOT MATCHES": st.builds("NOT topic MATCHES {}".format, topic_patterns.map(literal_to_sql)),
    "IS NULL": st.builds("{} IS NULL".format, names),
    "IS NOT NULL": st.builds("{} IS NOT NULL".format, names),
    "booleans": names | st.builds("NOT {}".format, names) | st.sampled_from(("TRUE", "FALSE")),
    "attributes": st.builds(
        "{} {} {}".format, names, st.sampled_from(("=", "<>", "<", ">=")), names
    ),
    "arithmetic": st.builds(
        "{} {} {} {} {}".format,
        *(names, st.sampled_from("+-*/"), st.sampled_from(("1", "2.5", "b"))),
        *(st.sampled_from(("=", "<", ">")), names | number_literals),
    ),
}
predicates = st.one_of(*OPERATORS.values())
conjunctions = st.lists(predicates, min_size=1, max_size=4).map(
    lambda terms: " AND ".join(f"({term})" for term in terms)
)
disjunctions = st.lists(conjunctions, min_size=1, max_size=3).map(" OR ".join)
nested = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)


# --- the four surroundings ------------------------------------------------------------------------


def in_a_list(both: Both, filters: Sequence[Filter]) -> None:
    for key, filter in enumerate(filters):
        both.add(key, filter)


def in_blocks(both: Both, filters: Sequence[Filter]) -> None:
    """Add filters until they make a block, with cuts that fit them."""
    for key in range(max(IN_BLOCKS, len(filters))):
        both.add(key, filters[key % len(filters)])


def under_other_cuts(both: Both, filters: Sequence[Filter]) -> None:
    """Add filters to a block whose cuts were made for the first one alone."""
    for key in range(IN_BLOCKS + len(filters)):
        both.add(key, filters[max(0, key - IN_BLOCKS)])


def filler() -> Both:
    """Return an index with partitions: by the values of `a` and `b`, by the presence of `c`."""
    both, keys = Both(), count(-1, -1)
    for number in range(1100):
        both.add(next(keys), parse_filter(f"a = 'f{number % 40}' AND f IS NULL AND g > 1"))
        both.add(next(keys), parse_filter(f"b = {number % 40 + 5000} AND f IS NULL AND g > 1"))
        if number % 60 == 0:
            both.add(next(keys), parse_filter(f"c > {number} AND f IS NULL AND g > 1"))
    kinds = {(each["attribute"], each["by"]) for each in both.index.plan()["partitions"]}
    assert kinds >= {("a", "value"), ("b", "value"), ("c", "presence")}
    return both


def check(filters: Sequence[Filter], events: Sequence[Publication], partitioned: Both) -> None:
    for fill in (in_a_list, in_blocks, under_other_cuts):
        both = Both()
        if filters:
            fill(both, filters)
        both.check(events)
    for fill in (in_a_list, in_blocks):
        before = len(partitioned.index)
        if filters:
            fill(partitioned, filters)
        partitioned.check(events)
        for key in [key for key in partitioned.filters if key >= 0]:
            partitioned.remove(key)
        assert len(partitioned.index) == before


@pytest.fixture(scope="module")
def partitioned() -> Both:
    return filler()


@pytest.mark.parametrize("operator", OPERATORS)
def test_one_operator(operator: str, partitioned: Both) -> None:
    filters = st.lists(OPERATORS[operator].map(parse_filter), min_size=1, max_size=8)

    @settings(max_examples=examples(60))
    @given(filters, st.lists(publications, min_size=1, max_size=6))
    def agrees(filters: list[Filter], events: list[Publication]) -> None:
        check(filters, events, partitioned)

    agrees()


def test_every_short_pattern_on_every_short_string() -> None:
    """Random patterns rarely have a last part that would overlap what comes before it."""
    patterns = ["".join(p) for size in range(1, 5) for p in product("aé%_", repeat=size)]
    both = Both()
    for key, pattern in enumerate(patterns):
        both.add(key, parse_filter(f"s LIKE '{pattern}'"))
    strings = ["".join(s) for size in range(5) for s in product("aé", repeat=size)]
    both.check([event({"s": string}) for string in strings])


@pytest.mark.long
@pytest.mark.parametrize("texts", [conjunctions, disjunctions, nested], ids=["and", "or", "nested"])
def test_operators_together(texts: st.SearchStrategy[str], partitioned: Both) -> None:
    @settings(max_examples=examples(200))
    @given(
        st.lists(texts.map(parse_filter), max_size=12),
        st.lists(publications, min_size=1, max_size=6),
    )
    def agrees(filters: list[Filter], events: list[Publication]) -> None:
        check(filters, events, partitioned)

    agrees()


def test_the_order_of_numbers_is_exact() -> None:
    """Each number is compared with each, int64 and float64 mixed, and Python's exact comparison
    decides."""
    every = (*NUMBERS, *SPECIAL)
    both = Both()
    keys = count()
    for number in every:
        for sign in ("<", "<=", "=", ">=", ">", "<>"):
            both.add(next(keys), parse_filter(f"a {sign} {number_to_sql(number)}"))
    both.check([event({"a": number}) for number in every])


@pytest.mark.parametrize("limit", [2**53, 2**62, 2**63 - 1025, 10, 0])
def test_numbers_side_by_side(limit: int) -> None:
    """The numbers lie where floats are further apart than integers."""
    numbers = [sign * (limit + step) for step in range(-4, 1030) for sign in (1, -1)]
    numbers = [number for number in numbers if abs(number) < 2**63]
    chosen = [*numbers[:24], *numbers[-24:]]
    both = Both()
    for key, number in enumerate(chosen):
        text = f"a >= {number} AND a < {number + 1}" if key % 2 else f"a IN ({number}, 5)"
        both.add(key, parse_filter(text))
        both.add(-1 - key, parse_filter(f"a > {number} AND a <> {float(number)!r}"))
    events = [event({"a": value}) for number in chosen for value in (number, float(number))]
    both.check(events)


def test_subclasses_of_the_types_are_taken_as_they_are() -> None:
    import numpy as np

    index: CompiledIndex[str] = CompiledIndex()
    index.add("key", parse_filter("a > 1"))
    assert index.match(event({"a": np.float64(1.5)})) == ["key"]
