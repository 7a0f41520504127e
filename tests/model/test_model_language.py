from __future__ import annotations

import subprocess
import sys

import pytest

from reefcast.errors import FilterSyntaxError
from reefcast.model.actions import MAX_DEPTH
from reefcast.model.expression import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Minus,
    Not,
    Or,
)
from reefcast.model.language import MAX_LENGTH, parse

A, B, C = Attribute("a"), Attribute("b"), Attribute("c")


def less(left, right):
    return Comparison("<", left, right)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = 5", Comparison("=", A, Literal(5))),
        ("5 <> a", Comparison("<>", Literal(5), A)),
        ("a<=-5", Comparison("<=", A, Literal(-5))),
        ("a >= - 5.5", Comparison(">=", A, Literal(-5.5))),
        ("a = +5", Comparison("=", A, Literal(5))),
        ("a + +5 < -0.0", less(Arithmetic("+", A, Literal(5)), Literal(-0.0))),
        ("a = -9223372036854775808", Comparison("=", A, Literal(-(2**63)))),
        ("a = 9223372036854775807", Comparison("=", A, Literal(2**63 - 1))),
        ("a = 000000000000000000000000005", Comparison("=", A, Literal(5))),
        ("a = 1e2", Comparison("=", A, Literal(100.0))),
        ("a = .5E-1", Comparison("=", A, Literal(0.05))),
        ("a = 'it''s'", Comparison("=", A, Literal("it's"))),
        ("a = ''", Comparison("=", A, Literal(""))),
        (r"a = '\n'", Comparison("=", A, Literal("\\n"))),
        ("a = TRUE", Comparison("=", A, Literal(True))),
        ("a", A),
        ("TRUE", Literal(True)),
        ("((a))", A),
        ("NOT a", Not(A)),
        ("NOT NOT a", Not(Not(A))),
        ("a OR b AND c", Or((A, And((B, C))))),
        ("(a OR b) AND c", And((Or((A, B)), C))),
        ("a AND b AND c", And((A, B, C))),
        ("a AND (b AND c)", And((A, And((B, C))))),
        ("NOT a AND b", And((Not(A), B))),
        ("NOT a < b", Not(less(A, B))),
        ("a BETWEEN 1 AND b + 1 AND c", None),
        ("a IN (1, -2.5)", In(A, (Literal(1), Literal(-2.5)))),
        ("a NOT IN ('x')", In(A, (Literal("x"),), negated=True)),
        ("a LIKE 'x%'", Like(A, "x%")),
        ("a NOT LIKE 'x!%' ESCAPE '!'", Like(A, "x!%", "!", negated=True)),
        ("a IS NULL", IsNull(A)),
        ("a IS NOT NULL", IsNull(A, negated=True)),
        ("a MATCHES 'x/+/#'", Matches(A, "x/+/#")),
        ("a NOT MATCHES 'x'", Not(Matches(A, "x"))),
        ("a < b + c * 2", less(A, Arithmetic("+", B, Arithmetic("*", C, Literal(2))))),
        ("a - b - c < 1", less(Arithmetic("-", Arithmetic("-", A, B), C), Literal(1))),
        ("a -5 < b", less(Arithmetic("-", A, Literal(5)), B)),
        ("a - -5 < b", less(Arithmetic("-", A, Literal(-5)), B)),
        ("-a < -(5)", less(Minus(A), Minus(Literal(5)))),
        ("- -5 < a", less(Minus(Literal(-5)), A)),
        ("(a < b) = c", Comparison("=", less(A, B), C)),
        ("(a < b) IS NULL", IsNull(less(A, B))),
        ('"a" < "and"', less(A, Attribute("and"))),
        ('"a ""b""" < größe', less(Attribute('a "b"'), Attribute("größe"))),
        ("order.price < a", less(Attribute("order.price"), A)),
        ('"order.price" < a', less(Attribute("order.price"), A)),
        ("not.in < größe.ä._1", less(Attribute("not.in"), Attribute("größe.ä._1"))),
        ("NOT a.b", Not(Attribute("a.b"))),
        ("1.<a.e5", less(Literal(1.0), Attribute("a.e5"))),
        ("andy < nothing", less(Attribute("andy"), Attribute("nothing"))),
        ("a\n\tAND\r\nb", And((A, B))),
        ("a and B Or nOT c", Or((And((A, Attribute("B"))), Not(C)))),
    ],
)
def test_what_texts_say(text, expected):
    if expected is None:
        sides = (Comparison(">=", A, Literal(1)), Arithmetic("+", B, Literal(1)))
        expected = And((And((sides[0], Comparison("<=", A, sides[1]))), C))
    assert parse(text) == expected


def test_not_between():
    inside = And((Comparison(">=", A, Literal(1)), Comparison("<=", A, Literal(2))))
    assert parse("a NOT BETWEEN 1 AND 2") == Not(inside)


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("", 1, 1, "expected an attribute"),
        ("   ", 1, 1, "the filter ends"),
        ("a =", 1, 4, "expected an attribute, a number, a string in single quotes"),
        ("a =\n", 1, 4, "the filter ends"),
        ("a = 5 b", 1, 7, "expected AND, OR, '+', '-', '*', '/' or the end of the filter"),
        ("a = 'x' AND\n  b = ,", 2, 7, "found ','"),
        ("(a", 1, 3, "expected ')'"),
        ("a)", 1, 2, "found ')'"),
        ("a IN ()", 1, 7, "expected a number"),
        ("a IN (b)", 1, 7, "found 'b'"),
        ("a IN 5", 1, 6, "expected '('"),
        ("a IS 5", 1, 6, "expected NOT or NULL"),
        ("a NOT 5", 1, 7, "expected BETWEEN, IN, LIKE or MATCHES"),
        ("a LIKE b", 1, 8, "expected a string in single quotes"),
        ("a = NULL", 1, 5, "only after IS"),
        ("NULL", 1, 1, "only after IS"),
        ("a IN (1, NULL)", 1, 10, "only after IS"),
        ("a != 5", 1, 3, "written <>"),
        ("a == 5", 1, 3, "'equal' is written ="),
        ("a = 5 &&\n b = 6", 1, 7, "'and' is written AND"),
        ("a = 5 & b = 6", 1, 7, "'and' is written AND"),
        ("a = 5 || b = 6", 1, 7, "'or' is written OR"),
        ("a\n  => 5", 2, 3, "'at least' is written >="),
        ("a =< 5", 1, 3, "'at most' is written <="),
        ("!a", 1, 1, "'not' is written NOT"),
        ("a = 5 AND !(b = 6)", 1, 11, "'not' is written NOT"),
        ("`a` = 5", 1, 1, "written without quotes"),
        ('a IN ("x")', 1, 7, "single quotes"),
        ('a LIKE "x%"', 1, 8, "double quotes make a name"),
        ("a --5 < 1", 1, 3, "minus signs"),
        ("a = 'x", 1, 5, "no closing quote"),
        ('"a = 5', 1, 1, "no closing double quote"),
        ("a.5 < b", 1, 2, "found '.5'"),
        ("a. < b", 1, 2, "found '.'"),
        ("a.b.", 1, 4, "found '.'"),
        ("a..b < 5", 1, 2, "found '.'"),
        ("a . b", 1, 3, "found '.'"),
        (".a < 5", 1, 1, "found '.'"),
        ("a ; b", 1, 3, "found ';'"),
        ("a = b = c", 1, 7, "found '='"),
        ("a = and", 1, 5, "found 'and'"),
        ("NOT", 1, 4, "the filter ends"),
        ("5", 1, 1, "a filter takes a condition, but this is a number"),
        ("a + 1", 1, 1, "a filter takes a condition, but this is a number"),
        ("'x'", 1, 1, "but this is a string"),
        ("5 AND a", 1, 1, "AND takes a condition"),
        ("a OR\n 'x'", 2, 2, "OR takes a condition"),
        ("NOT 5", 1, 5, "NOT takes a condition"),
        ("a IN (1, 'x')", 1, 10, "starts with a number takes a number, but this is a string"),
        ("a IN (1, TRUE)", 1, 10, "but this is a condition"),
        ("'x' IN (1)", 1, 1, "takes a number"),
        ("5 LIKE 'x'", 1, 1, "LIKE takes a string"),
        ("(a > 5) LIKE 'x'", 1, 1, "LIKE takes a string"),
        ("5 MATCHES 'x'", 1, 1, "MATCHES takes a string"),
        ("5 = 'x'", 1, 5, "= after a number takes a number, but this is a string"),
        ("a + 'x' > 5", 1, 5, "+ takes a number"),
        ("-'x' > 5", 1, 2, "- takes a number"),
        ("a BETWEEN 1 AND 'x'", 1, 17, "BETWEEN takes a number"),
        ("a LIKE 'x!a' ESCAPE '!'", 1, 8, "must be followed by"),
        ("a LIKE 'x' ESCAPE '!!'", 1, 19, "one character"),
        ("a LIKE 'x' ESCAPE ''", 1, 19, "one character"),
        ("a MATCHES 'a/#/b'", 1, 11, "last level"),
        ("a MATCHES ''", 1, 11, "empty"),
        ("a = 9223372036854775808", 1, 5, "64 bits"),
        ("a = -9223372036854775809", 1, 6, "64 bits"),
        ("a = +9223372036854775808", 1, 6, "64 bits"),
        ("a = +b", 1, 6, "expected a number, but found 'b'"),
        ("a = 1e999", 1, 5, "too large"),
        ('"" = 1', 1, 1, "empty"),
        ("a = 'x\ud800'", 1, 7, "half a character"),
    ],
)
def test_errors_say_what_and_where(text, line, column, part):
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert part in str(caught.value)
    assert str(caught.value).startswith(f"line {line}, column {column}: ")


def test_errors_show_the_place_and_what_was_expected():
    with pytest.raises(FilterSyntaxError) as caught:
        parse("a = 1 AND\nb IS 5")
    *_, shown, caret = str(caught.value).split("\n")
    assert shown == "  b IS 5"
    assert caret == "       ^"
    assert caught.value.expected == ("NOT", "NULL")


def test_long_lines_are_cut_around_the_place():
    with pytest.raises(FilterSyntaxError) as caught:
        parse("a = 1 AND " * 100 + "b = , AND " + "c = 1 AND " * 100 + "d")
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) < 100
    assert shown[caret.index("^")] == ","


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000 + "a" + ")" * 10_000,
        "NOT " * 10_000 + "a",
        "- " * 10_000 + "a < 1",
        "a" + " + 1" * 10_000 + " < 1",
        "a < " + "(1 + " * 5_000 + "1" + ")" * 5_000,
        "(a OR " * 5_000 + "a" + ")" * 5_000,
    ],
)
def test_deep_nesting_is_refused(text):
    with pytest.raises(FilterSyntaxError, match="nested too deeply"):
        parse(text)


def test_nesting_up_to_the_limit():
    assert parse("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH) == A
    parse("NOT " * (MAX_DEPTH - 1) + "a")


def test_many_terms_are_not_deep():
    assert len(parse(" OR ".join(["a"] * 5_000)).terms) == 5_000


def test_length_is_bounded():
    head = "a = '"
    longest = head + "x" * (MAX_LENGTH - len(head) - 1) + "'"
    parse(longest)
    with pytest.raises(FilterSyntaxError, match="at most 65536 characters"):
        parse(longest + " ")


def test_long_digits_are_refused_quickly():
    with pytest.raises(FilterSyntaxError, match="64 bits"):
        parse("a = " + "9" * 60_000)


def test_importing_the_model_does_not_load_the_parser():
    code = "import sys, reefcast.model.covering; sys.exit('lark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
