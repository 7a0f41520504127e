"""The algebra against brute force: a domain with the end points, points between and outside."""

from __future__ import annotations

import itertools
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_strategies import (
    DOMAIN,
    LIKE_PATTERNS,
    NUMBER_ENDS,
    SIGNS,
    STRING_ENDS,
    TOPIC_PATTERNS,
)

from reefcast.model.constraint import (
    EMPTY,
    MISSING,
    PRESENT,
    Constraint,
    Kind,
    Pattern,
    among,
    compared,
    constraint_covers,
    exclusive,
    intersect,
    intervals_in_one,
    is_empty,
    matching,
    satisfies,
    unite,
)
from reefcast.model.expression import (
    Attribute,
    Comparison,
    In,
    Literal,
    evaluate,
)

INF, NAN = float("inf"), float("nan")
ENDS = (*NUMBER_ENDS, *STRING_ENDS, True, False)
EXTRAS = (INF, -INF, NAN)

values = st.sampled_from((*ENDS, *EXTRAS))
signs = st.sampled_from(SIGNS)
lists = st.one_of(
    st.lists(st.sampled_from((*NUMBER_ENDS, *EXTRAS)), min_size=1, max_size=3),
    st.lists(st.sampled_from(STRING_ENDS), min_size=1, max_size=3),
    st.lists(st.booleans(), min_size=1, max_size=2),
)
plain = st.one_of(
    st.builds(compared, signs, values),
    st.builds(among, lists, st.booleans()),
    st.sampled_from((MISSING, PRESENT, EMPTY)),
)
patterns = st.one_of(
    st.builds(Pattern, st.just("LIKE"), st.sampled_from(LIKE_PATTERNS), st.just(""), st.booleans()),
    st.builds(
        Pattern, st.just("MATCHES"), st.sampled_from(TOPIC_PATTERNS), st.just(""), st.booleans()
    ),
)


def intersections(basics):
    return st.lists(basics, min_size=1, max_size=4).map(lambda some: reduce(intersect, some))


sets = intersections(plain)
with_patterns = intersections(plain | st.builds(matching, patterns))


def holding(constraint) -> list:
    """Return positions in the domain, not values: 1 == True and nan != nan."""
    return [n for n, value in enumerate(DOMAIN) if satisfies(constraint, value)]


@given(signs, values)
def test_compared_means_the_comparison(sign, value):
    for each in DOMAIN:
        row = {} if each is None else {"a": each}
        expected = evaluate(Comparison(sign, Attribute("a"), Literal(value)), row) is True
        assert satisfies(compared(sign, value), each) == expected, each


@given(lists, st.booleans())
def test_among_means_in(listed, negated):
    expression = In(Attribute("a"), tuple(map(Literal, listed)), negated)
    for each in DOMAIN:
        row = {} if each is None else {"a": each}
        expected = evaluate(expression, row) is True
        assert satisfies(among(listed, negated), each) == expected, each


@given(patterns)
def test_matching_means_the_pattern(pattern):
    for each in DOMAIN:
        expected = isinstance(each, str) and pattern.holds(each)
        assert satisfies(matching(pattern), each) == expected, each


@settings(max_examples=400)
@given(with_patterns, with_patterns)
def test_intersection_is_and(a, b):
    assert holding(intersect(a, b)) == [n for n in holding(a) if n in holding(b)]


@given(st.lists(with_patterns, min_size=1, max_size=6))
def test_intervals_in_one_hold_where_all_do(constraints):
    one_by_one = reduce(intersect, constraints)
    assert reduce(intersect, intervals_in_one(constraints)) == one_by_one


@given(with_patterns, with_patterns)
def test_exclusive_is_an_empty_intersection(a, b):
    assert exclusive(a, b) == is_empty(intersect(a, b))


@settings(max_examples=400)
@given(sets)
def test_emptiness_is_exact(constraint):
    assert is_empty(constraint) == (not holding(constraint))


EVERY_INTERVAL = [
    intersect(compared(first, low), compared(second, high))
    for low, high in ((1, 1), (1, 2.0), (-INF, 1), (1, INF), (-INF, INF), (NAN, 1), ("", "a"))
    for first in SIGNS
    for second in SIGNS
]


def test_every_pair_of_intervals_at_the_same_ends():
    """Random draws seldom contain pairs such as `a > 1` and `a >= 1`."""
    found = {constraint: set(holding(constraint)) for constraint in EVERY_INTERVAL}
    for (a, ours), (b, theirs) in itertools.product(found.items(), repeat=2):
        assert constraint_covers(a, b) == (ours >= theirs), (a, b)
        assert set(holding(intersect(a, b))) == ours & theirs, (a, b)


@given(with_patterns)
def test_emptiness_is_sound(constraint):
    assert not (is_empty(constraint) and holding(constraint))


@settings(max_examples=1000)
@given(sets, sets)
def test_covering_is_exact(a, b):
    assert constraint_covers(a, b) == (set(holding(a)) >= set(holding(b)))


@settings(max_examples=400)
@given(sets, sets)
def test_the_form_is_canonical(a, b):
    assert (a == b) == (holding(a) == holding(b))


@settings(max_examples=400)
@given(with_patterns, with_patterns)
def test_covering_is_sound_with_patterns(a, b):
    if constraint_covers(a, b):
        assert set(holding(a)) >= set(holding(b))
    assert constraint_covers(a, a)
    assert constraint_covers(a, intersect(a, b))


@given(lists, lists)
def test_union_of_members(some, others):
    a, b = among(some), among(others)
    if a.kind is b.kind:
        assert set(holding(unite([a, b]))) == {*holding(a), *holding(b)}


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        (compared("=", True), Constraint(kind=Kind.BOOLEAN, members=(True,))),
        (compared("<", 5), Constraint(kind=Kind.NUMBER, high=5, high_open=True)),
        (among([3, 1.0, 1]), Constraint(kind=Kind.NUMBER, members=(1.0, 3))),
        (among([5]), compared("=", 5)),
        (intersect(compared(">=", 5), compared("<=", 5)), compared("=", 5)),
        (intersect(compared(">=", 5), compared("<>", 5)), compared(">", 5)),
        (intersect(compared(">", 5), compared("<", 6)), None),
        (intersect(compared(">", 5), compared("<", 5)), EMPTY),
        (intersect(compared("<", 9), compared("=", "x")), EMPTY),
        (compared(">=", -INF), Constraint(kind=Kind.NUMBER)),
        (compared("<", ""), EMPTY),
        (compared("<=", ""), compared("=", "")),
        (compared(">", INF), compared("=", NAN)),
        (compared("<>", NAN), compared("<=", INF)),
        (matching(Pattern("LIKE", "x")), compared("=", "x")),
        (matching(Pattern("LIKE", "x", negated=True)), compared("<>", "x")),
        (matching(Pattern("LIKE", "%")), Constraint(kind=Kind.STRING)),
        (matching(Pattern("LIKE", "%", negated=True)), EMPTY),
        (
            matching(Pattern("LIKE", "ab%")),
            Constraint(kind=Kind.STRING, low="ab", high="ac", high_open=True),
        ),
        (
            matching(Pattern("MATCHES", "a/+/b")),
            Constraint(
                kind=Kind.STRING,
                low="a/",
                high="a0",
                high_open=True,
                patterns=(Pattern("MATCHES", "a/+/b"),),
            ),
        ),
        (
            intersect(
                matching(Pattern("LIKE", "a%")), matching(Pattern("LIKE", "a%", negated=True))
            ),
            EMPTY,
        ),
    ],
)
def test_the_form(constraint, expected):
    if expected is None:
        expected = Constraint(kind=Kind.NUMBER, low=5, low_open=True, high=6, high_open=True)
    assert constraint == expected
