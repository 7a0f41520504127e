from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_strategies import DOMAIN, complicated, conditions, patterned

from reefcast.model.constraint import Kind, is_empty
from reefcast.model.expression import And, Literal, Not, Or, attributes_of, evaluate
from reefcast.model.language import parse
from reefcast.model.normal import (
    ALWAYS,
    MAX_CONJUNCTIONS,
    MULTIPLIED,
    NEVER,
    Conjunction,
    normal_form,
)

ROWS = [
    {name: value for name, value in zip("ab", pair, strict=True) if value is not None}
    for pair in itertools.product(DOMAIN, DOMAIN)
]
rows = st.lists(st.sampled_from(ROWS), min_size=30, max_size=30)


def agree(expression, some_rows) -> None:
    form = normal_form(expression)
    assert len(form) <= MAX_CONJUNCTIONS
    for row in some_rows:
        expected = evaluate(expression, row) is True
        assert any(conjunction.holds(row) for conjunction in form) == expected, row


@settings(max_examples=300)
@given(conditions(complicated), rows)
def test_normal_form_means_the_expression(expression, some_rows):
    agree(expression, some_rows)


@settings(max_examples=100)
@given(conditions(patterned, max_leaves=4))
def test_normal_form_means_the_expression_for_every_value(expression):
    if attributes_of(expression) <= {"a"}:
        agree(expression, [row for row in ROWS if "b" not in row])


@settings(max_examples=200)
@given(conditions(patterned))
def test_predicates_over_one_attribute_leave_no_residual_but_ors(expression):
    for conjunction in normal_form(expression):
        assert all(isinstance(each, Or | Not | And) for each in conjunction.residuals)
        assert list(conjunction.constraints) == sorted(conjunction.constraints)
        assert not any(map(is_empty, conjunction.constraints.values()))


def constraints(text: str) -> list[dict]:
    return [dict(conjunction.constraints) for conjunction in normal_form(parse(text))]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("NOT (a < 5)", "a >= 5"),
        ("NOT (a < 5 OR b = 'x')", "a >= 5 AND b <> 'x'"),
        ("NOT (a < 5 AND b = 'x')", "a >= 5 OR b <> 'x'"),
        ("5 > a", "a < 5"),
        ("a < 2 + 3", "a < 5"),
        ("a < -(-(5))", "a < 5"),
        ("NOT NOT a", "a = TRUE"),
        ("NOT a", "a = FALSE"),
        ("NOT (a IS NULL)", "a IS NOT NULL"),
        ("NOT (a NOT LIKE 'x_')", "a LIKE 'x_'"),
        ("a = 1 OR a = 2", "a IN (2, 1)"),
        ("(a = 1 OR a = 2) AND b", "a IN (1, 2) AND b"),
        ("a = 1 AND b OR b AND a = 2", "a IN (1, 2) AND b"),
        ("a AND TRUE", "a"),
        ("a OR FALSE", "a"),
        ("a AND 1 = 1.0", "a"),
        ("a > b", "b < a"),
        ("a + 1 = b", "b = a + 1"),
        ("a > b + (1 + 1)", "a > b + 2"),
        ("NOT (a > b)", "a <= b"),
        ("NOT (a + b IN (1))", "a + b NOT IN (1)"),
        ("a > b AND a > b", "a > b"),
    ],
)
def test_different_texts_of_one_form(text, same):
    assert normal_form(parse(text)) == normal_form(parse(same))


@pytest.mark.parametrize(
    "text",
    [
        "FALSE",
        "a AND NOT a",
        "a < 5 AND a > 5",
        "a = 'x' AND a > 3",
        "a IS NULL AND a = 1",
        "a = 1 / 0",
        "a > 9223372036854775807 + 1",
        "NOT (a > 9223372036854775807 + 1)",
        "1 = 2",
        "1 / 0 = 1",
        "a IN (1, 2) AND a NOT IN (2, 1)",
        "a LIKE 'x%' AND a < 'x'",
        "a < FALSE",
        "NOT TRUE",
    ],
)
def test_contradictions_have_no_conjunctions(text):
    assert normal_form(parse(text)) == NEVER


@pytest.mark.parametrize("text", ["TRUE", "NOT FALSE", "1 < 2", "a OR TRUE", "(1 / 0 = 1) IS NULL"])
def test_tautologies(text):
    assert Conjunction({}) in normal_form(parse(text))


def test_always_is_the_form_of_true():
    assert normal_form(Literal(True)) == ALWAYS


def test_several_predicates_over_one_attribute_become_one_constraint():
    [form] = constraints("a > 5 AND b = 'x' AND a <= 9 AND a <> 7")
    assert list(form) == ["a", "b"]
    assert form["a"].kind is Kind.NUMBER
    assert (form["a"].low, form["a"].low_open, form["a"].high) == (5, True, 9)
    assert form["a"].excluded == (7,)


def test_conditions_over_several_attributes_are_residuals():
    [conjunction] = normal_form(parse("a = 1 AND b > c + 5 AND (d < 2) = e"))
    assert list(conjunction.constraints) == ["a"]
    assert set(conjunction.residuals) == {parse("c + 5 < b"), parse("(d < 2) = e")}


def test_of_many_ors_one_is_multiplied_out():
    terms = [f"(a{n} > 1 OR b{n} > 1)" for n in range(9)]
    first, second = normal_form(parse(" AND ".join([*terms, "c = 1"])))
    assert (list(first.constraints), list(second.constraints)) == (["a0", "c"], ["b0", "c"])
    assert first.residuals == second.residuals
    assert set(first.residuals) == set(map(parse, terms[1:]))


def test_of_few_ors_all_are_multiplied_out():
    form = normal_form(parse(" AND ".join(f"(a{n} > 1 OR b{n} > 1)" for n in range(3))))
    assert [(len(each.constraints), each.residuals) for each in form] == [(3, ())] * MULTIPLIED
    contradictory = [f"(a = {n} OR b = {n})" for n in range(6)]
    assert normal_form(parse(" AND ".join(contradictory))) == NEVER


def test_a_form_that_would_be_too_large_is_one_residual():
    expression = parse(" OR ".join(f"a{n} > 1" for n in range(MAX_CONJUNCTIONS + 1)))
    assert normal_form(expression) == (Conjunction({}, (expression,)),)
    fits = parse(" OR ".join(f"a{n} > 1" for n in range(MAX_CONJUNCTIONS)))
    assert len(normal_form(fits)) == MAX_CONJUNCTIONS


def test_many_equalities_are_one_set_and_not_too_large():
    [form] = constraints(" OR ".join(f"a = {n}" for n in range(2000)))
    assert len(form["a"].members) == 2000


def test_the_work_for_a_hostile_filter_is_bounded():
    """There are few conjunctions at the end, but they are merged again and again."""
    terms = " AND ".join(f"(a{n % 2} > {n % 3} OR a{n % 3} > 1)" for n in range(2000))
    assert len(normal_form(parse(terms))) <= MULTIPLIED


def test_only_conjunctions_that_are_alike_otherwise_are_united():
    assert len(normal_form(parse("a = 1 AND b > c OR a = 2 AND b < c"))) == 2
    assert len(normal_form(parse("a = 1 AND b > 3 OR a = 2 AND b < 3"))) == 2
    assert len(normal_form(parse("a = 1 OR a = 'x'"))) == 2
    assert len(normal_form(parse("a = 1 AND b > c OR a = 2 AND b > c"))) == 1
