from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import (
    SIGNS,
    arithmetic,
    conditions,
    finite_literals,
    odd_attributes,
    patterned,
    predicates_of,
    sums,
)

from reefcast.model.expression import (
    Arithmetic,
    Attribute,
    Comparison,
    In,
    Like,
    Literal,
    Minus,
    attributes_of,
    evaluate,
    to_sql,
)
from reefcast.model.language import parse
from reefcast.model.publication import INT64_MAX, INT64_MIN

INF, NAN = math.inf, math.nan
T, F, U = True, False, None


def value_of(text: str, **attributes):
    return evaluate(parse(text), attributes)


@pytest.mark.parametrize(
    ("text", "attributes", "expected"),
    [
        ("a = 5", {"a": 5.0}, T),
        ("a = 5", {"a": "5"}, U),
        ("a = 5", {}, U),
        ("a = 1", {"a": True}, U),
        ("a = TRUE", {"a": 1}, U),
        ("a <> 5", {"a": 5}, F),
        ("a <> 5", {"a": True}, U),
        ("a = 9007199254740993", {"a": 9007199254740992.0}, F),
        ("a > 1e308", {"a": NAN}, T),
        ("a = b", {"a": NAN, "b": NAN}, T),
        ("a > b", {"a": NAN, "b": INF}, T),
        ("a < b", {"a": INF, "b": NAN}, T),
        ("a = 0", {"a": -0.0}, T),
        ("a < 0", {"a": -0.0}, F),
        ("a < TRUE", {"a": False}, T),
        ("a > FALSE", {"a": False}, F),
        ("a < 'b'", {"a": "B"}, T),
        ("a BETWEEN 1 AND 3", {"a": 3}, T),
        ("a NOT BETWEEN 1 AND 3", {"a": 3.5}, T),
        ("a NOT BETWEEN 1 AND 3", {}, U),
        ("a IN (1, 2)", {"a": 2.0}, T),
        ("a IN (1, 2)", {"a": True}, U),
        ("a IN (TRUE)", {"a": 1}, U),
        ("a IN (1, 2)", {}, U),
        ("a NOT IN (1, 2)", {"a": NAN}, T),
        ("a LIKE 'x%'", {"a": "xy"}, T),
        ("a NOT LIKE 'x%'", {"a": "xy"}, F),
        ("a LIKE 'x%'", {"a": 5}, U),
        ("a NOT LIKE 'x%'", {}, U),
        ("a MATCHES 'x/#'", {"a": "x/y/z"}, T),
        ("a MATCHES 'x/+'", {"a": "x/y/z"}, F),
        ("a MATCHES 'x/+'", {"a": 5}, U),
        ("a IS NULL", {}, T),
        ("a IS NULL", {"a": 0}, F),
        ("a IS NOT NULL", {"a": NAN}, T),
        ("(a > 5) IS NULL", {"a": "x"}, T),
        ("a", {"a": True}, T),
        ("NOT a", {"a": False}, T),
        ("NOT a", {"a": 0}, U),
        ("(a > 5) = b", {"a": 6, "b": True}, T),
    ],
)
def test_meaning(text, attributes, expected):
    assert value_of(text, **attributes) is expected


@pytest.mark.parametrize(
    ("text", "attributes", "expected"),
    [
        ("a + b = 3", {"a": 1, "b": 2.0}, T),
        ("a / b = 25e-1", {"a": 5, "b": 2}, T),
        ("a / b = 1", {"a": 5, "b": 0}, U),
        ("a / b = 1", {"a": 5.0, "b": -0.0}, U),
        ("a + 1 > 0", {"a": INT64_MAX}, U),
        ("a - 1 < 0", {"a": INT64_MIN}, U),
        ("a * 2 > 0", {"a": INT64_MAX}, U),
        ("-a > 0", {"a": INT64_MIN}, U),
        ("a + 1.0 > 0", {"a": INT64_MAX}, T),
        ("a * 10 > 0", {"a": 1e308}, T),
        ("a + 1 > 0", {"a": "1"}, U),
        ("a + 1 > 0", {"a": True}, U),
        ("-a > 0", {"a": True}, U),
        ("-a = 2", {"a": -2}, T),
        ("a - 2 - 1 = 7", {"a": 10}, T),
        ("a - (2 - 1) = 9", {"a": 10}, T),
        ("a + 2 * 3 = 7", {"a": 1}, T),
        ("a / 2 / 2 = 1", {"a": 4}, T),
        ("-a + 5 = 4", {"a": 1}, T),
    ],
)
def test_arithmetic(text, attributes, expected):
    assert value_of(text, **attributes) is expected


TRUTHS = {"t": True, "f": False}
KLEENE_AND = {"tt": T, "tf": F, "tu": U, "ff": F, "fu": F, "uu": U}
KLEENE_OR = {"tt": T, "tf": T, "tu": T, "ff": F, "fu": U, "uu": U}


@pytest.mark.parametrize("pair", KLEENE_AND)
def test_kleene_logic(pair):
    for left, right in (pair, pair[::-1]):
        assert value_of(f"{left} AND {right}", **TRUTHS) is KLEENE_AND[pair]
        assert value_of(f"{left} OR {right}", **TRUTHS) is KLEENE_OR[pair]


def test_a_number_is_no_truth():
    assert value_of("a AND b", a=1, b=True) is None
    assert value_of("a AND b", a=0, b=True) is None
    assert value_of("a OR b", a=1, b=False) is None
    assert value_of("a AND b", a=0, b=False) is False


def test_literals_are_equal_only_with_their_types():
    assert Literal(1) != Literal(1.0)
    assert Literal(1) != Literal(True)
    assert Literal(math.nan) == Literal(float("nan"))
    assert len({Literal(1), Literal(1.0), Literal(True), Literal(1)}) == 3
    assert In(Attribute("a"), (Literal(1),)) != In(Attribute("a"), (Literal(True),))


def test_attributes_of():
    text = "a > b + 5 AND (NOT c OR d IN (1)) AND \"e\" LIKE 'x' AND f IS NULL AND -g * h < 1"
    assert attributes_of(parse(text)) == set("abcdefgh")


hard = st.one_of(
    predicates_of(odd_attributes),
    st.builds(Comparison, st.sampled_from(SIGNS), odd_attributes, finite_literals),
    st.builds(Comparison, st.sampled_from(SIGNS), arithmetic, sums(odd_attributes)),
    st.builds(Comparison, st.just("="), conditions(predicates_of(odd_attributes)), odd_attributes),
    st.builds(
        Like,
        odd_attributes,
        st.text("a%_'\\\n\U0001f600", max_size=5),
        st.sampled_from(("", "!", "x")),
        st.booleans(),
    ),
    patterned,
)


@given(conditions(hard))
def test_parsing_the_text_of_an_expression_gives_it_back(expression):
    assert parse(to_sql(expression)) == expression


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_floats_without_a_literal_are_said_by_arithmetic(value):
    expression = parse(to_sql(Comparison("=", Attribute("a"), Literal(value))))
    assert evaluate(expression, {"a": value}) is True
    assert evaluate(expression, {"a": 1.0}) is False


def test_texts_are_read_by_spark_too():
    """Fractions have an exponent (otherwise they are decimals), names are quoted, and no two minus
    signs come in a row."""
    expression = Comparison("<", Minus(Literal(-1)), Arithmetic("-", Attribute("x"), Literal(-0.1)))
    assert to_sql(expression) == '-(-1) < "x" - -0.1e0'
