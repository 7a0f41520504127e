"""The reader of plain filters agrees with the language and the normal form, or leaves a filter to
them."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from model_strategies import complicated, conditions
from test_model_quick import TOKENS

from reefcast.errors import FilterSyntaxError
from reefcast.model.expression import Expression, to_sql
from reefcast.model.filters import Filter, has_residuals, pack, packed_once
from reefcast.model.language import parse
from reefcast.model.normal import Form, normal_form
from reefcast.model.plain import LONGEST, MOST_TERMS, read

SPACES = st.sampled_from(["", " ", "  ", "\t", "\n", "\r\n", "\f", "\v", "\x1c", " \t "])
NAMES = st.sampled_from(
    ["a", "b", "c", "topic", "a.b", "not.a", "_1", "A", "AND", "between", "Not", "a.", "1a", "ö"]
)
SIGNS = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "!=", "LIKE", "IS"])
LITERALS = st.one_of(
    st.integers(-10, 10).map(str),
    st.integers(-(2**64), 2**64).map(str),
    st.floats(allow_nan=False).map(repr),
    st.text("ab'\"%;\\ö\0 ", max_size=4).map(lambda text: "'" + text.replace("'", "''") + "'"),
    st.sampled_from(
        [
            "TRUE",
            "false",
            "True",
            "NULL",
            "b",
            "'a",
            "'a''",
            "''a'",
            '"a"',
            "1.",
            ".5",
            ".",
            "+",
            "-.5",
            "+1",
            "-0",
            "-0.0",
            "+-1",
            "1e5",
            "1E-5",
            "1e",
            "1e999",
            "-1e999",
            "007",
            "0x1",
            "1_0",
            "5a",
            "5.a",
            "1.5.2",
            "²",
            "٣",
            "(1)",
            "-(1)",
            "'a'+'b'",
            "1+1",
            "''",
            "''''",
        ]
    ),
)


@st.composite
def terms(draw: st.DrawFn) -> str:
    """Draw a term with any spaces that may be left out, or without some that may not."""
    words = [draw(NAMES)]
    kind = draw(st.sampled_from(["sign", "between", "in", "like"]))
    if kind == "sign":
        words += [draw(SIGNS), draw(LITERALS)]
    elif kind == "between":
        between = draw(st.sampled_from(["BETWEEN", "between", "NOT BETWEEN", "Between"]))
        words += [between, draw(LITERALS), draw(st.sampled_from(["AND", "and", "OR"]))]
        words.append(draw(LITERALS))
    elif kind == "in":
        values = draw(st.lists(LITERALS, max_size=4))
        words += [draw(st.sampled_from(["IN", "not in", "NOT  IN", "IN NOT"])), "("]
        words += [each for value in values for each in (value, ",")][:-1]
        words.append(draw(st.sampled_from([")", ")", ")", ",)", ""])))
    else:
        pattern = st.text("ab%_\\/# ", max_size=4).map(lambda text: f"'{text}'")
        words.append(draw(st.sampled_from(["LIKE", "Like", "NOT LIKE", "like not"])))
        words.append(draw(st.one_of(pattern, pattern, LITERALS)))
        words.append(draw(st.sampled_from(["", "", "ESCAPE '!'"])))
    spaces = st.one_of(st.just(" "), st.just(" "), SPACES)
    return "".join(part for word in words for part in (word, draw(spaces)))


@st.composite
def almost_plain(draw: st.DrawFn) -> str:
    parts = draw(st.lists(terms(), min_size=1, max_size=4))
    join = draw(st.sampled_from(["AND ", " AND ", " and ", "AND", " OR ", " AND NOT "]))
    return draw(SPACES) + join.join(parts) + draw(SPACES)


def by_the_book(text: str) -> Form | None:
    try:
        return normal_form(parse(text))
    except FilterSyntaxError:
        return None


def check(text: str) -> None:
    form = read(text)
    if form is not None:
        expected = by_the_book(text)
        assert form == expected, text
        assert repr(form) == repr(expected)  # -0.0 and 0.0, 1 and 1.0 and True


@given(almost_plain())
@example("a = 1 AND b = 2AND c = 3")
@example("a BETWEEN 1 AND 2 AND a > 1.5 AND a < 1.7")
@example("aBETWEEN 1 AND 2")
@example("a = 'x' AND a = 'y'")
@example("a < FALSE")
@example("a >= ''")
@example("a BETWEEN 2 AND 1")
@example("a BETWEEN 'a' AND 1")
def test_texts_that_are_nearly_plain(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from(TOKENS), max_size=12).map(" ".join))
def test_any_tokens(text: str) -> None:
    check(text)


@given(conditions(complicated, max_leaves=8))
def test_filters_as_they_are_written_out(condition: Expression) -> None:
    check(to_sql(condition))


PLAIN = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from(["=", "<", "<=", ">", ">=", "<>"])
        ).flatmap(lambda head: st.integers(-9, 9).map(lambda n: f"{head[0]} {head[1]} {n}")),
        st.sampled_from(["s = 'x'", "s <> 'it''s'", "t = TRUE", "a BETWEEN -1.5 AND 2e3"]),
        st.sampled_from(["a IN (1, 2.5,-3)", "s NOT IN ('x')", "s LIKE 'x%'", "s NOT LIKE '_%x'"]),
    ),
    min_size=1,
    max_size=9,
).map(" AND ".join)


@given(PLAIN)
def test_plain_filters_are_read_here(text: str) -> None:
    form = read(text)
    assert form is not None
    filter = Filter(text)
    expected = by_the_book(text)
    assert packed_once(filter) == filter.packed == pack(expected) == packed_once(filter)
    assert not has_residuals(filter)
    assert filter.conjunctions == expected
    assert filter.expression == parse(text)


@pytest.mark.parametrize(
    "text",
    ["a LIKE 'x!%' ESCAPE '!'", "a > b", "a = 1 OR b = 2", "NOT a = 1", "(a = 1)", "a", "TRUE"],
)
def test_what_is_not_plain_is_left_to_others(text: str) -> None:
    assert read(text) is None
    filter = Filter(text)
    assert (filter.conjunctions, filter.expression) == (by_the_book(text), parse(text))
    assert has_residuals(filter) == any(c.residuals for c in filter.conjunctions)


def test_too_many_terms_and_texts_that_are_too_long_are_left_to_others() -> None:
    assert read(" AND ".join(["a > 1"] * MOST_TERMS)) is not None
    assert read(" AND ".join(["a > 1"] * (MOST_TERMS + 1))) is None
    text = "a IN (" + ", ".join(map(str, range(12_000))) + ")"
    check(text[: LONGEST // 2].rpartition(",")[0] + ")")
    assert read(text[: LONGEST // 2].rpartition(",")[0] + ")") is not None
    assert len(text) > LONGEST
    assert read(text) is None


@pytest.mark.parametrize("text", ["topic = 'a' AND b = 1", "b = 1", "\"topic\" = 'a'", "c > topic"])
def test_whether_it_looks_at_topics(text: str) -> None:
    assert Filter(text).looks_at_topics() == ("topic" in text)
