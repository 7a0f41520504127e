"""Hypothesis strategies that the tests of the model share: small domains, so that brute force sees
every case (end points, points between and outside, other types, NaN, missing)."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from reefcast.model.expression import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Minus,
    Not,
    Or,
)
from reefcast.model.publication import INT64_MAX, INT64_MIN, Value

NUMBER_ENDS: tuple[Value, ...] = (0, 1, 2.0, 3, -0.0)
STRING_ENDS: tuple[Value, ...] = ("", "a", "ab", "b", "a/b")
NUMBERS: tuple[Value, ...] = (
    *(-math.inf, -1, -0.0, 0, 0.5, 1, 1.0, 1.5, 2, 2.5, 3, 4.5, math.inf, math.nan),
)
TEXTS: tuple[Value, ...] = (
    *("", "\0", "A", "a", "a\0", "a/", "a/b", "a/b/c", "aa", "ab", "abc", "ac", "b", "bb", "c"),
    *("$a", "a/+"),
)
DOMAIN: tuple[Value | None, ...] = (None, True, False, *NUMBERS, *TEXTS)
"""The values of an attribute for brute force, with points in every gap between the ends above."""

EXTREMES: tuple[Value, ...] = (
    *(INT64_MIN, INT64_MAX, 2**53, 2**53 + 1, float(2**53), 1e308, 5e-324, 0.1),
    *("it's", '"', "\\", "\n", "\uffff", "\U0001f600", "%", "_"),
)

LIKE_PATTERNS = ("a", "a%", "%", "_", "a_", "%b", "a%c", "", "%%", "ab%", "_b%", "b%")
TOPIC_PATTERNS = ("a", "a/b", "#", "+", "a/#", "a/+", "+/b", "a/+/#", "a/b/#", "+/#", "$a")
SIGNS = ("=", "<>", "<", "<=", ">", ">=")

number_literals = st.sampled_from(NUMBER_ENDS).map(Literal)
string_literals = st.sampled_from(STRING_ENDS).map(Literal)
boolean_literals = st.booleans().map(Literal)
literals = number_literals | string_literals | boolean_literals
finite_literals = literals | st.sampled_from(EXTREMES).map(Literal)
names = st.sampled_from(("a", "b"))
attributes = names.map(Attribute)
odd_attributes = st.sampled_from(
    ("a", "b", "and", "select", 'odd "name', "größe", "a.b", "a.5")
).map(Attribute)


def predicates_of(attribute: st.SearchStrategy[Attribute]) -> st.SearchStrategy[Expression]:
    """Draw predicates of one attribute and constants that become constraints; patterns are left
    out."""
    lists = st.one_of(
        st.lists(number_literals, min_size=1, max_size=3),
        st.lists(string_literals, min_size=1, max_size=3),
        st.lists(boolean_literals, min_size=1, max_size=2),
    ).map(tuple)
    signs = st.sampled_from(SIGNS)
    return st.one_of(
        st.builds(Comparison, signs, attribute, literals),
        st.builds(Comparison, signs, literals, attribute),
        st.builds(In, attribute, lists, st.booleans()),
        st.builds(IsNull, attribute, st.booleans()),
        attribute,
    )


def pattern_predicates(attribute: st.SearchStrategy[Attribute]) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.builds(Like, attribute, st.sampled_from(LIKE_PATTERNS), st.just(""), st.booleans()),
        st.just(Like(Attribute("a"), "a!%%", "!")),
        st.builds(Matches, attribute, st.sampled_from(TOPIC_PATTERNS)),
        st.builds(Not, st.builds(Matches, attribute, st.sampled_from(TOPIC_PATTERNS))),
    )


def sums(operands: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Draw arithmetic over attributes and numbers."""
    return st.recursive(
        operands,
        lambda inner: st.one_of(
            st.builds(Arithmetic, st.sampled_from("+-*/"), inner, inner), st.builds(Minus, inner)
        ),
        max_leaves=4,
    )


simple = predicates_of(attributes)
patterned = simple | pattern_predicates(attributes)
arithmetic = sums(attributes | number_literals)
complicated = st.one_of(
    patterned,
    st.builds(Comparison, st.sampled_from(SIGNS), arithmetic, arithmetic),
    st.builds(In, arithmetic, st.just((Literal(1), Literal(2.5))), st.booleans()),
    st.builds(IsNull, arithmetic, st.booleans()),
    st.just(Comparison("=", Literal(1), Literal(1.0))),
    boolean_literals,
)


def conditions(
    predicates: st.SearchStrategy[Expression], max_leaves: int = 6
) -> st.SearchStrategy[Expression]:
    """Draw AND, OR and NOT over predicates."""
    return st.recursive(
        predicates,
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.lists(inner, min_size=2, max_size=3).map(lambda terms: And(tuple(terms))),
            st.lists(inner, min_size=2, max_size=3).map(lambda terms: Or(tuple(terms))),
        ),
        max_leaves=max_leaves,
    )


def conjunctions(predicates: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(predicates, min_size=2, max_size=4).map(lambda terms: And(tuple(terms)))
    return predicates | several
