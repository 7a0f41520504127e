"""The quick reader reads every text as lark does, or leaves it to lark."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_strategies import complicated, conditions, finite_literals, odd_attributes
from test_model_against_spark import Writer

from reefcast.errors import FilterSyntaxError
from reefcast.model.expression import Comparison, Expression, to_sql
from reefcast.model.language import _slowly, parse
from reefcast.model.quick import read

TOKENS = (
    *("a", "b", "_x1", "and", "OR", "Not", "IN", "between", "LIKE", "escape", "matches", "is"),
    *("null", "TRUE", "false", '"a"', '"odd ""name"', '""', '"', "'a'", "''", "'it''s'", "'a/#'"),
    *(
        "'%!'",
        "'!'",
        "'",
        "0",
        "5",
        "007",
        "1.5",
        ".5",
        "1.",
        "1e5",
        "1E-5",
        "1.5e+3",
        "1e999",
        ".",
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "!=",
        "+",
        "-",
    ),
    *("a.b", "_a1.in.B", "a.5", "5.a", "a.", ".a", "not.a", "1.e5.a", "a.ö"),
    *("--", "*", "/", "(", ")", ",", ";", "\n", "\t", "\v", "²", "٣"),
)


def by_lark(text: str) -> Expression | None:
    try:
        return _slowly(text)
    except FilterSyntaxError:
        return None


@given(st.lists(st.tuples(st.sampled_from(TOKENS), st.sampled_from(("", " ")))))
def test_words_in_any_order(pieces: list[tuple[str, str]]) -> None:
    text = "".join(word + space for word, space in pieces)
    found = read(text)
    assert found == by_lark(text) or (found is None and not text.isascii())


@pytest.mark.long
def test_filters_with_a_word_changed() -> None:
    """Most texts of random words are no filters; these nearly are."""
    rng = random.Random(4)
    writer = Writer(rng)
    read_at_all = 0
    for _ in range(1500):
        words = writer.condition(1).split(" ")
        for _ in range(rng.randrange(3)):
            words[rng.randrange(len(words))] = rng.choice(TOKENS)
        text = " ".join(words)
        found = read(text)
        assert found == by_lark(text) or (found is None and not text.isascii()), text
        read_at_all += found is not None
    assert read_at_all > 400


@given(conditions(complicated, max_leaves=8))
def test_texts_of_expressions(expression: Expression) -> None:
    text = to_sql(expression)
    assert read(text) == by_lark(text) is not None


@given(odd_attributes, finite_literals)
def test_literals_and_names(attribute: Expression, literal: Expression) -> None:
    text = to_sql(Comparison("=", attribute, literal))
    assert read(text) == by_lark(text) is not None


@pytest.mark.parametrize("depth", [99, 100, 101, 5000])
@pytest.mark.parametrize(("start", "end"), [("(", ")"), ("NOT ", ""), ("- ", "")])
def test_nesting(depth: int, start: str, end: str) -> None:
    """Lark counts levels, and refuses what is nested too deeply; the stack must never overflow."""
    text = start * depth + "a" + end * depth + (" = 1" if start == "- " else "")
    assert read(text) == by_lark(text)


@pytest.mark.parametrize(
    "text", ["größe = 1", "a i\u017f NULL", "a li\u212ae 'x'", "a \u0131n (1)", "a = 1 \u017f b"]
)
def test_what_is_left_to_lark(text: str) -> None:
    """Unicode has other ways to write keywords."""
    assert read(text) is None


def test_errors_are_those_of_lark() -> None:
    with pytest.raises(FilterSyntaxError, match="line 1, column 31: expected NOT or NULL"):
        parse("dest = 'SFO' AND dep_delay IS 5")
    with pytest.raises(FilterSyntaxError, match="does not fit into 64 bits"):
        parse("a = 9223372036854775808")
