from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_strategies import DOMAIN, complicated, conditions, conjunctions, patterned, simple

from reefcast.model import covering, listed
from reefcast.model.constraint import (
    among,
    compared,
    constraint_covers,
    exclusive,
    intersect,
    is_empty,
    satisfies,
)
from reefcast.model.covering import covers, equals, intersects
from reefcast.model.expression import to_sql
from reefcast.model.filters import TRUE, Filter, parse_filter
from reefcast.model.listed import SPARSE

ROWS = [
    {name: value for name, value in zip("ab", pair, strict=True) if value is not None}
    for pair in itertools.product(DOMAIN, DOMAIN)
]


def as_filter(expression) -> Filter:
    return Filter(to_sql(expression), expression)


def rows_of(filter: Filter) -> set[int]:
    """Return the rows that a filter matches by its normal form, which is tested elsewhere and is
    faster."""
    return {
        number
        for number, row in enumerate(ROWS)
        if any(conjunction.holds(row) for conjunction in filter.conjunctions)
    }


exact = conjunctions(simple).map(as_filter)
any_filter = conditions(complicated, max_leaves=4).map(as_filter)
pattern_filter = conditions(patterned, max_leaves=4).map(as_filter)


@settings(max_examples=300)
@given(exact, exact)
def test_exact_for_conjunctions_of_intervals_and_sets(f, g):
    ours, theirs = rows_of(f), rows_of(g)
    assert covers(f, g) == (ours >= theirs)
    assert intersects(f, g) == bool(ours & theirs)
    assert equals(f, g) == (ours == theirs)


@settings(max_examples=200)
@given(any_filter | pattern_filter, any_filter | pattern_filter)
def test_sound_for_everything(f, g):
    ours, theirs = rows_of(f), rows_of(g)
    assert ours >= theirs or not covers(f, g)
    assert intersects(f, g) or not ours & theirs
    assert ours == theirs or not equals(f, g)


@given(any_filter)
def test_everything_covers_itself_and_true_covers_everything(f):
    assert covers(f, f)
    assert covers(TRUE, f)
    assert covers(f, Filter("another text", f.expression))


TOPICS = ("a", "a/b", "b", "$a")
PUBLICATIONS = [
    (attributes, topics)
    for attributes in ({}, {"b": 1}, {"topic": 5}, {"topic": "a"}, {"topic": True, "b": 1})
    for count in range(3)
    for topics in itertools.combinations(TOPICS, count)
]
topic_names = st.sampled_from(("topic", "topic", "b"))
topic_filters = st.builds(
    lambda predicates, sign: f" {sign} ".join(predicates),
    st.lists(
        st.sampled_from(
            (
                *("topic = 'a'", "topic <> 'a'", "topic IN ('a', 'b')", "topic IS NULL", "b = 1"),
                *("topic IS NOT NULL", "topic MATCHES 'a/#'", "NOT topic MATCHES '+'", "topic = 5"),
                *("topic", "topic LIKE '%b'", "b IS NULL", "topic > 'a'", "topic < 'a/b'"),
            )
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(("AND", "OR")),
).map(parse_filter)


@settings(max_examples=400)
@given(topic_filters, topic_filters)
def test_sound_for_publications_with_several_topics(f, g):
    """Two filters may hold for different topics of one publication."""
    for attributes, topics in PUBLICATIONS:
        ours, theirs = f.holds(attributes, topics), g.holds(attributes, topics)
        assert ours or not theirs or not covers(f, g), (attributes, topics)
        assert intersects(f, g) or not (ours and theirs), (attributes, topics)


@pytest.mark.parametrize(
    ("f", "g", "expected"),
    [
        ("topic = 'a'", "topic = 'b'", True),
        ("topic = 'a' AND x < 1", "topic = 'b' AND x > 1", False),
        ("topic = 'a'", "topic IS NULL", False),
        ("topic = 'a'", "topic = 5", False),
        ("topic MATCHES 'a/#'", "topic MATCHES 'b/#'", True),
        ("subject = 'a'", "subject = 'b'", False),
        ("subject LIKE 'a%'", "subject LIKE 'b%'", False),
        ("subject MATCHES 'a/#'", "subject MATCHES 'b/#'", False),
        ("a > 5 AND a < 7", "a > 5", True),
        ("a > 5", "a < 6", True),
        ("a > b", "a < b", True),  # nothing is said about residuals
        ("FALSE", "TRUE", False),
        ("x = 1 OR x = 5", "x > 4 OR x < 0", True),
        ("x = 1 OR x = 5", "x > 5 OR x < 0", False),
    ],
)
def test_intersection(f, g, expected):
    assert intersects(parse_filter(f), parse_filter(g)) is expected
    assert intersects(parse_filter(g), parse_filter(f)) is expected


@pytest.mark.parametrize(
    ("f", "g", "expected"),
    [
        ("a > 5", "a > 6", True),
        ("a > 5", "a > 6 AND b = 'x'", True),
        ("a > 5 AND b = 'x'", "a > 6", False),
        ("a IN (1, 2, 3)", "a = 1 OR a = 3", True),
        ("a = 1 OR a = 3", "a IN (1, 3)", True),
        ("a < 5 OR a > 7", "a > 8 AND b", True),
        ("a > b", "b < a AND c", True),
        ("a > b + 1", "a > b", False),
        ("x + 1 > y", "x + 1.0 > y", False),
        ("s LIKE 'a%'", "s LIKE 'ab%'", True),
        ("s LIKE 'a%'", "s LIKE 'ab_'", True),
        ("s LIKE 'a_c'", "s = 'abc'", True),
        ("s LIKE 'a_c'", "s LIKE 'a_c' AND t = 1", True),
        ("s NOT LIKE 'a%'", "s LIKE 'b%'", True),
        ("s NOT LIKE 'a%'", "s > 'c'", True),
        ("s > 'a'", "s LIKE 'b_'", True),
        ("topic MATCHES 'a/#'", "topic MATCHES 'a/+/b'", True),
        ("topic MATCHES 'a/+'", "topic MATCHES 'a/#'", False),
        ("topic MATCHES 'a/+'", "topic = 'a/b'", True),
        ("TRUE", "a > 5", True),
        ("a > 5", "TRUE", False),
        ("a > 5", "FALSE", True),
        ("FALSE", "a > 5", False),
        ("a IS NOT NULL", "a <> 5", True),
    ],
)
def test_covering(f, g, expected):
    assert covers(parse_filter(f), parse_filter(g)) is expected


def test_equal_filters_of_different_texts():
    assert equals(parse_filter("NOT (a < 5 OR a > 7)"), parse_filter("a BETWEEN 5 AND 7"))
    assert not equals(parse_filter("a >= 5"), parse_filter("a > 5"))


@pytest.mark.parametrize("most", [0, 20])
@given(any_filter | pattern_filter, any_filter | pattern_filter)
def test_bounds_of_the_work_never_deny_an_intersection_or_invent_a_covering(most, f, g):
    meets, within = intersects(f, g), covers(f, g)
    with pytest.MonkeyPatch.context() as patch:
        for bound in ("FEW_PAIRS", "MOST_WORK", "MOST_TESTS"):
            patch.setattr(covering, bound, most)
        assert intersects(f, g) or not meets
        assert within or not covers(f, g)
        assert intersects(f, g) == intersects(g, f)


def test_many_alternatives_are_compared_by_their_hulls():
    def alternatives(term: str, numbers: range) -> Filter:
        return parse_filter(" OR ".join(term.format(i, i + 2) for i in numbers))

    f = alternatives("(a > {0} AND b < {0})", range(100))
    assert not intersects(f, alternatives("(a < -{1} AND b = {0})", range(100)))
    assert intersects(f, alternatives("(a > {0} AND b < {0})", range(7, 107)))


def test_not_so_many_alternatives_are_compared():
    f = parse_filter(" OR ".join(f"(a = {i} AND b = {i})" for i in range(9)))
    near = parse_filter(" OR ".join(f"(a = {i} AND b > {i})" for i in range(7, 16)))
    assert not intersects(f, near)


long_lists = st.lists(
    st.sampled_from([*range(40), 0.5, 2**53 + 1, float(2**53), math.inf, math.nan]), min_size=1
)
number_constraints = st.one_of(
    st.builds(among, long_lists, st.booleans()),
    st.builds(
        lambda low, high, out: intersect(intersect(low, high), out),
        st.builds(compared, st.sampled_from((">", ">=")), st.integers(-1, 20)),
        st.builds(compared, st.sampled_from(("<", "<=", "<>")), st.integers(15, 41)),
        st.builds(among, long_lists, st.just(True)),
    ),
)


@pytest.mark.parametrize("sparse", [1, SPARSE, 1000])
@given(number_constraints, number_constraints)
def test_long_lists_are_compared_as_short_ones(sparse, a, b):
    values = [*sorted({*range(-2, 43), 0.5, 20.5, 2**53, 2**53 + 1}), math.inf, math.nan]
    both = [v for v in values if satisfies(a, v) and satisfies(b, v)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listed, "SPARSE", sparse)
        assert exclusive(a, b) == is_empty(intersect(a, b))
        if both:
            assert not exclusive(a, b)
        if constraint_covers(a, b):
            assert all(satisfies(a, v) for v in values if satisfies(b, v))
        if a.members is not None or b.members is not None:  # then the values tell all
            assert exclusive(a, b) is not bool(both)
        if b.members is not None:
            within = all(satisfies(a, v) for v in b.members)
            assert constraint_covers(a, b) == within
