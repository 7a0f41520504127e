"""What expressions of CESQL evaluate to, by the sections of the standard; and beside a twin."""

from __future__ import annotations

from typing import Any

import pytest
from cesql_strategies import attributes, conditions, expressions
from cesql_twin import result
from hypothesis import given

from reefcast import cesql
from reefcast.cesql.values import attribute_value

EVENT: dict[str, object] = {
    "id": "7",
    "source": "/planes",
    "type": "org.example.left",
    "specversion": "1.0",
    "gate": "B12",
    "seats": 180,
    "late": True,
    "delay": "045",
    "word": "abc",
}


def kind_of(error: cesql.CesqlError | None) -> str | None:
    return None if error is None else error.kind


FINE = {
    # literals (2.2)
    "'it\\'s \"so\"'": 'it\'s "so"',
    '"it\'s \\"so\\""': 'it\'s "so"',
    "'a\\b'": "a\\b",
    "''": "",
    "tRUE": True,
    "+5": 5,
    "-2147483648": -(2**31),
    "0005": 5,
    # attributes (3.2)
    "gate": "B12",
    "seats": 180,
    "late": True,
    # operators (3.4)
    "NOT late": False,
    "NOT 'FALSE'": True,
    "NOT 10": False,
    "- - seats": 180,
    "-'5'": -5,
    "-7 / 2": -3,
    "-7 % 2": -1,
    "7 % -2": 1,
    "-2147483648 % -1": 0,
    "seats-80": 100,
    "TRUE + '5'": 6,
    "late = 1": True,
    "1 = late": True,
    "'TRUE' = true": True,
    "true = 'TRUE'": False,
    "delay = 45": True,
    "45 = delay": False,
    "seats = '180'": True,
    "'180' = seats": True,
    "'a' <> 'A'": True,
    "delay < seats": True,
    "'10' > '9'": True,
    "1 < 2 < 3": True,
    "true AND 'true'": True,
    "false AND 1 / 0 = 1": False,
    "true OR nobody": True,
    "true XOR true": False,
    "EXISTS gate": True,
    "EXISTS nobody": False,
    "EXISTS Gate": False,
    # LIKE (3.4.3)
    "word LIKE 'a%'": True,
    "word LIKE '_b_'": True,
    "word LIKE 'A%'": False,
    "word NOT LIKE '%d'": True,
    "'a%' LIKE 'a\\%'": True,
    "'ab' LIKE 'a\\%'": False,
    "'a\\b' LIKE 'a\\b'": True,
    "'a\\xx' LIKE 'a\\\\%'": False,
    "'a\\%' LIKE 'a\\\\%'": True,
    "'a\nb' LIKE 'a_b'": True,
    "seats LIKE '18_'": True,
    "late LIKE 'tr%'": True,
    # IN (3.4.5)
    "seats IN ('1', '180')": True,
    "delay IN (45)": False,
    "'1' IN (1, 2)": True,
    "late IN ('false', 'TRUE')": True,
    "word NOT IN ('a', 'b')": True,
    "1 IN (1, 1 / 0)": True,
    # functions (3.5)
    "length(word)": 3,
    "LENGTH('\U0001f600')": 1,
    "LENGTH(TRUE)": 4,
    "Concat()": "",
    "CONCAT(word, 1, true)": "abc1true",
    "CONCAT_WS('-')": "",
    "CONCAT_WS('-', 'a', 2, 'c')": "a-2-c",
    "LOWER('ÄB')": "äb",
    "UPPER('äb')": "ÄB",
    "TRIM('\t\u2003 a b \xa0\n')": "a b",
    "TRIM('\x1fa\u200b')": "\x1fa\u200b",
    "LEFT(word, 2)": "ab",
    "LEFT(word, 4)": "abc",
    "RIGHT(word, 2)": "bc",
    "RIGHT(word, 0)": "",
    "RIGHT(word, 9)": "abc",
    "SUBSTRING(word, 2)": "bc",
    "SUBSTRING(word, -2)": "bc",
    "SUBSTRING(word, 0)": "",
    "SUBSTRING(word, 2, 1)": "b",
    "SUBSTRING(word, -3, 2)": "ab",
    "SUBSTRING(word, 2, 2147483647)": "bc",
    "SUBSTRING(word, 3, 0)": "",
    "ABS(-5)": 5,
    # casts (3.7)
    "INT('-0012')": -12,
    "INT('+2147483647')": 2**31 - 1,
    "INT(late)": 1,
    "BOOL('fAlse')": False,
    "BOOL(-5)": True,
    "STRING(-5)": "-5",
    "STRING(late)": "true",
    "IS_INT('5')": True,
    "IS_INT('5.0')": False,
    "IS_INT(true)": True,
    "IS_BOOL(word)": False,
    "IS_BOOL('TRUE')": True,
    'TRUE = "true" AND FALSE = "false"': True,
    'TRUE = "TRUE" OR FALSE = "FALSE"': False,
    # precedence (3.6): AND, OR and XOR have one, and NOT binds before comparisons
    "2 + 3 * 4 - 1": 13,
    "20 / 2 * 5": 50,
    "true OR true AND false": False,
    "true XOR true OR true": True,
    "NOT 1 = 2": False,
    "-1 LIKE '-1'": True,
    "1 + 1 = 2 AND 2 * 2 LIKE '4'": False,
}


@pytest.mark.parametrize("text", FINE)
def test_the_value(text: str) -> None:
    value, error = cesql.evaluate(text, EVENT)
    assert (value, type(value), error) == (FINE[text], type(FINE[text]), None)


FAULTY: dict[str, tuple[Any, str, int]] = {
    "nobody": (False, "missingAttribute", 0),
    "Gate": (False, "missingAttribute", 0),
    'true AND (missingAttribute = "")': (False, "missingAttribute", 10),
    "nobody * 5": (0, "missingAttribute", 0),
    "1 / nobody": (0, "missingAttribute", 4),
    "nobody / 0": (0, "missingAttribute", 0),
    "LENGTH(nobody)": (0, "missingAttribute", 7),
    "LOWER(nobody)": ("", "missingAttribute", 6),
    "-nobody": (0, "missingAttribute", 1),
    "NOT nobody": (False, "missingAttribute", 4),
    "nobody != 1": (False, "missingAttribute", 0),
    "nobody NOT LIKE 'a'": (False, "missingAttribute", 0),
    "1 NOT IN (2, nobody)": (False, "missingAttribute", 13),
    "nobody = 1 OR true": (False, "missingAttribute", 0),
    "5 / 0": (0, "math", 2),
    "5 % 0": (0, "math", 2),
    "true AND (1 != 1 / 0)": (False, "math", 17),
    "1 != 1 / 0": (False, "math", 7),
    "1 / 0 = 0": (False, "math", 2),
    "5 > 1 / 0": (False, "math", 6),
    "(1 / 0) LIKE '0'": (False, "math", 3),
    "(1 / 0) NOT IN (1)": (False, "math", 3),
    "1 IN (1 / 0, 1)": (False, "math", 8),
    "NOT (1 / 0 = 1)": (False, "math", 7),
    "2147483647 + 1": (0, "math", 11),
    "-2147483648 - 1": (0, "math", 12),
    "65536 * 32768": (0, "math", 6),
    "-2147483648 / -1": (0, "math", 12),
    "-(-2147483648)": (0, "math", 0),
    "ABS(-2147483648)": (2**31 - 1, "math", 0),
    "1 + ABS(-2147483648)": (0, "math", 4),
    "'abc' + 1": (0, "cast", 0),
    "1 - '2147483648'": (0, "cast", 4),
    "' 5' < 6": (False, "cast", 0),
    "'1_0' = 10": (False, "cast", 0),
    "'٣' = 3": (False, "cast", 0),
    "NOT 'yes'": (False, "cast", 4),
    "true AND 'yes'": (False, "cast", 9),
    "word = true": (False, "cast", 0),
    "1 IN ('a', 1)": (False, "cast", 6),
    "INT(word)": (0, "cast", 4),
    "BOOL(word)": (False, "cast", 5),
    "LEFT(word, 'x')": ("", "cast", 11),
    "LEFT(word, -1)": ("abc", "functionEvaluation", 0),
    "RIGHT(word, -1)": ("abc", "functionEvaluation", 0),
    "LENGTH(LEFT(word, -1))": (0, "functionEvaluation", 7),
    "SUBSTRING(word, 4)": ("", "functionEvaluation", 0),
    "SUBSTRING(word, -4)": ("", "functionEvaluation", 0),
    "SUBSTRING(word, 1, -1)": ("", "functionEvaluation", 0),
    "SUBSTRING(word, 4, 1)": ("", "functionEvaluation", 0),
    "1 + HALF(4)": (0, "missingFunction", 4),
    "HALF(nobody)": (False, "missingFunction", 0),
    "CONCAT_WS()": (False, "missingFunction", 0),
    "LENGTH()": (False, "missingFunction", 0),
    "LENGTH(": (False, "parse", 7),
}


@pytest.mark.parametrize("text", FAULTY)
def test_the_error(text: str) -> None:
    value, error = cesql.evaluate(text, EVENT)
    assert error is not None
    wanted, kind, position = FAULTY[text]
    assert (value, type(value), error.kind, error.position) == (
        wanted,
        type(wanted),
        kind,
        position,
    )
    assert (error.line, error.column) == (1, position + 1)
    assert str(error).startswith(f"line 1, column {position + 1}: ")


def test_the_required_attributes_always_exist() -> None:
    for name in ("id", "source", "specversion", "type"):
        assert cesql.evaluate(f"EXISTS {name}", {}) == (True, None)
        assert kind_of(cesql.evaluate(name, {})[1]) == "missingAttribute"


def test_none_is_a_missing_attribute() -> None:
    assert cesql.evaluate("EXISTS subject", {"subject": None}) == (False, None)
    assert kind_of(cesql.evaluate("subject", {"subject": None})[1]) == "missingAttribute"


def test_an_error_names_the_place_in_a_text_of_several_lines() -> None:
    _, error = cesql.evaluate("true AND\n  nobody = 1", EVENT)
    assert error is not None
    assert (error.position, error.line, error.column) == (11, 2, 3)
    assert str(error).splitlines()[1:] == ["    nobody = 1", "    ^"]


@pytest.mark.parametrize(
    ("text", "value", "kinds"),
    [
        ("1 != 1 / 0", True, ["math"]),
        ("'a' + 'b' + 5", 5, ["cast", "cast"]),
        ("NOT (nobody = 2)", True, ["missingAttribute"]),
        ("nobody != noone", False, ["missingAttribute"] * 2),
        ("nobody XOR true OR true", True, ["missingAttribute"]),
        ("nobody OR 'yes' OR true", True, ["missingAttribute", "cast"]),
        ("CONCAT(nobody, LEFT('ab', -1), 'c')", "", ["missingAttribute", "functionEvaluation"]),
        ("CONCAT(LEFT('ab', -1), 'c')", "abc", ["functionEvaluation"]),
        ("2147483647 + 1 + 5", 5, ["math"]),
        ("5 IN (nobody, 5)", False, ["missingAttribute"]),
        ("seats > 5", True, []),
    ],
)
def test_complete_evaluation_goes_on(text: str, value: Any, kinds: list[str]) -> None:
    found, errors = cesql.parse(text).evaluate_completely(EVENT)
    assert (found, type(found), [each.kind for each in errors]) == (value, type(value), kinds)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("seats > 5", True),
        ("seats", True),
        ("seats - 180", False),
        ("'true'", True),
        ("gate", False),
        ("nobody", False),
        ("true OR 1 / 0 = 1", True),
        ("ABS(-2147483648)", False),
    ],
)
def test_an_event_passes_where_the_value_is_true_without_an_error(text: str, passes: bool) -> None:
    assert cesql.parse(text).matches(EVENT) is passes


@given(expressions | conditions, attributes)
def test_evaluation_is_as_its_twin_s(text: str, given: dict[str, object]) -> None:
    values = {name: attribute_value(value) for name, value in given.items()}
    expression = cesql.parse(text)
    value, error = expression.evaluate(given)
    twin, kind = result(expression.root, values)
    assert (value, type(value), kind_of(error)) == (twin, type(twin), kind)
    completely, errors = expression.evaluate_completely(given)
    assert bool(errors) is (error is not None)
    if error is not None:
        assert errors[0].args == error.args
    else:
        assert completely == value


def test_like_takes_no_longer_for_many_wildcards() -> None:
    pattern = "%a" * 500 + "%b"
    assert cesql.evaluate(f"word LIKE '{pattern}'", {"word": "a" * 5_000}) == (False, None)


def test_what_concat_returns_is_bounded() -> None:
    value, error = cesql.evaluate("CONCAT(word, word, word)", {"word": "a" * 500_000})
    assert (value, kind_of(error)) == ("", "functionEvaluation")
