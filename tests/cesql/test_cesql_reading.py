"""How texts of CESQL are read: precedence, beside a twin that puts parentheses around everything;
what is wrong with others; and limits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cesql_strategies import SIGNS
from hypothesis import given
from hypothesis import strategies as st

from reefcast import CesqlError, cesql
from reefcast.cesql.actions import MAX_DEPTH
from reefcast.cesql.nodes import Arithmetic, Comparison, In, Like, Logic, Minus, Node, Not
from reefcast.cesql.reading import MAX_LENGTH, MAX_TOKENS

LEVELS = (("*", "/", "%"), ("+", "-"), SIGNS, ("AND", "OR", "XOR"))
"""The binary operators, those that bind tightest first (section 3.6)."""
operators = st.sampled_from([each for level in LEVELS for each in level])
operands = st.sampled_from(("a", "b1", "7", "'s'", "TRUE", "EXISTS c", "F(1 + 2)"))
prefixes = st.lists(st.sampled_from(("NOT", "- ")), max_size=2)
postfixes = st.lists(st.sampled_from(("LIKE 'x'", "NOT LIKE 'x'", "IN (1, 2)", "NOT IN ('y')")))


@st.composite
def chains(draw: st.DrawFn) -> tuple[str, str]:
    """Draw an expression without parentheses, and the same with all of them."""
    flat, whole = [], []
    for _ in range(draw(st.integers(1, 6))):
        before, operand, behind = draw(prefixes), draw(operands), draw(postfixes)
        flat.append(" ".join((*before, operand, *behind)))
        for prefix in reversed(before):
            operand = f"({prefix} {operand})"
        for postfix in behind:
            operand = f"({operand} {postfix})"
        whole.append(operand)
    signs = draw(st.lists(operators, min_size=len(flat) - 1, max_size=len(flat) - 1))
    text = " ".join([flat[0], *(f"{s} {o}" for s, o in zip(signs, flat[1:], strict=True))])
    for level in LEVELS:
        at = 0
        while at < len(signs):
            if signs[at] in level:
                whole[at : at + 2] = [f"({whole[at]} {signs.pop(at)} {whole[at + 1]})"]
            else:
                at += 1
    return text, whole[0]


def paired(node: Node) -> Node:
    """Return a node with chains of operators as pairs, from left to right."""
    match node:
        case Logic(first, steps) | Arithmetic(first, steps):
            made = paired(first)
            for step in steps:
                made = type(node)(made, (replace(step, operand=paired(step.operand)),))
            return made
        case Comparison(operator, left, right):
            return Comparison(operator, paired(left), paired(right))
        case Not() | Minus() | Like() | In():
            return replace(node, operand=paired(node.operand))
        case _:
            return node


@given(chains())
def test_operators_bind_as_the_standard_says(texts: tuple[str, str]) -> None:
    flat, whole = texts
    assert paired(cesql.parse(flat).root) == paired(cesql.parse(whole).root)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("not a LIKE 'x' or exists b", "NOT a like 'x' OR EXISTS b"),
        ("a in(1,2)xor concat('a')='a'", "a IN (1, 2) XOR CONCAT('a') = 'a'"),
        ("a <> 1", "a != 1"),
        ("a-1", "a - 1"),
        ("4-1", "4 - 1"),
        ("1+-1", "1 + -1"),
        ("((a))", "a"),
        ("\ta\r\n", "a"),
    ],
)
def test_different_texts_say_the_same(one: str, other: str) -> None:
    assert cesql.parse(one).root == cesql.parse(other).root


@pytest.mark.parametrize(
    ("text", "position", "said"),
    [
        ("", 0, "but the expression ends"),
        ("a =", 3, "expected an attribute or a function, an integer"),
        ("a b", 2, "found 'b'"),
        ("(a", 2, "the expression ends"),
        ("a == 1", 3, "'equal' is written ="),
        ("a && b", 2, "'and' is written AND"),
        ("a.b = 1", 1, "no nested attributes"),
        ("1.5", 1, "no fractions"),
        ("my_name = 1", 0, "small letters and digits only"),
        ("f1(2)", 0, "is no name of a function"),
        ("EXISTS (a)", 7, "EXISTS takes the name of an attribute"),
        ("a LIKE b", 7, "the pattern of LIKE is a string in quotes"),
        ("a LIKE 5", 7, "the pattern of LIKE is a string in quotes"),
        ("a IN ()", 6, "found ')'"),
        ("a IN 5", 5, "expected '('"),
        ("'a", 0, "has no closing quote"),
        ("'a\\'", 0, "has no closing quote"),
        ("a = 'x''y'", 7, "a ' within a string is written \\'"),
        ("2147483648", 0, "does not fit into 32 bits"),
        ("-2147483649", 0, "does not fit into 32 bits"),
        ("- 2147483648", 2, "does not fit into 32 bits"),
        ("9" * 5000, 0, "does not fit into 32 bits"),
        ("1 + + 1", 4, "write it without a space"),
        ("größe = 1", 2, "found 'ö'"),
        ("a = '\ud800'", 5, "lone surrogate"),
        ("a" * (MAX_LENGTH + 1), MAX_LENGTH, "at most 16384 characters"),
        ("a+" * (MAX_TOKENS // 2) + "a", MAX_TOKENS, "at most 1024 words"),
        ("NOT " * (2 * MAX_DEPTH) + "a", 4 * MAX_DEPTH, "nested too deeply"),
        ("(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1), MAX_DEPTH + 1, "nested too deeply"),
        ("((" * 300 + "a", 601, "the expression ends"),
    ],
)
def test_what_is_wrong_with_a_text(text: str, position: int, said: str) -> None:
    with pytest.raises(CesqlError) as caught:
        cesql.parse(text)
    assert (caught.value.kind, caught.value.position) == ("parse", position)
    assert said in str(caught.value)
    value, error = cesql.evaluate(text, {})
    assert value is False
    assert error is not None
    assert error.args == caught.value.args


@pytest.mark.parametrize("text", ["a = 1" + " OR a = 1" * 255, "1" + "+1" * 511])
def test_a_long_expression_is_not_a_deep_one(text: str) -> None:
    value, error = cesql.evaluate(text, {"a": 2})
    assert (value, error) == ((False, None) if "OR" in text else (512, None))


def test_the_latest_expressions_are_kept() -> None:
    assert cesql.parse("a = 17") is cesql.parse("a = 17")
    assert cesql.parse("a = 17") == cesql.parse("a = 17")
    assert repr(cesql.parse("a = 17")) == "Expression('a = 17')"
