"""Functions that programs define for CESQL."""

from __future__ import annotations

import pytest

from reefcast import LocalError, cesql
from reefcast.cesql import Function, FunctionError


def half(number: int) -> int:
    if number % 2:
        raise FunctionError(f"{number} is odd", number)
    return number // 2


def fails(text: str) -> str:
    raise KeyError(text)


HALF = Function("half", (int,), int, half)
FAILS = Function("FAILS", (str,), str, fails)
COUNT = Function("COUNT_OF", (str, str), int, lambda *texts: len(texts), variadic=str)
WRONG = Function("WRONG", (), str, lambda: 5)
LARGE = Function("LARGE", (), int, lambda: 2**31)
ANY = Function("NAME_OF", (object,), str, lambda value: type(value).__name__)
GIVEN = [HALF, FAILS, COUNT, WRONG, LARGE, ANY, Function("COUNT_OF", (int,), int, abs)]


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("HALF('10') + 1", 6, None),
        ("Half(5)", 5, "functionEvaluation"),
        ("fails('x')", "", "functionEvaluation"),
        ("COUNT_OF(1, true, 'x', 'y')", 4, None),
        ("COUNT_OF(-5)", 5, None),
        ("COUNT_OF()", False, "missingFunction"),
        ("WRONG()", "", "functionEvaluation"),
        ("LARGE()", 0, "functionEvaluation"),
        ("NAME_OF(1 = 1)", "bool", None),
        ("HALF('x')", 0, "cast"),
    ],
)
def test_functions_of_a_program(text: str, value: object, kind: str | None) -> None:
    found, error = cesql.evaluate(text, {}, functions=GIVEN)
    assert (found, type(found), error and error.kind) == (value, type(value), kind)
    again = cesql.parse(text).evaluate({}, cesql.Functions(GIVEN))
    assert (again[0], again[1] and again[1].kind) == (found, kind)


def test_an_error_says_what_happened_in_the_function() -> None:
    _, error = cesql.evaluate("1 + FAILS('x')", {}, functions=[FAILS])
    assert "line 1, column 5: FAILS: KeyError: 'x'" in str(error)


def abc(*types: type, variadic: type | None = None) -> Function:
    return Function("ABC", types, str, str, variadic)


@pytest.mark.parametrize(
    "given",
    [
        [abc(str), abc(int)],
        [abc(variadic=str), abc(str, str, str)],
        [abc(str, str, str), abc(variadic=str)],
        [abc(str, variadic=str), abc(str, str, variadic=str)],
        [Function("length", (int,), int, abs)],
        [Function("CONCAT", (str,), str, str)],
    ],
)
def test_functions_that_cannot_be_told_apart_are_refused(given: list[Function]) -> None:
    with pytest.raises(LocalError, match="cannot be told apart"):
        cesql.evaluate("1", {}, functions=given)


def test_overloads_that_the_standard_allows() -> None:
    functions = cesql.Functions([abc(str), abc(str, str), abc(str, str, str, variadic=str)])
    found = [functions.find("ABC", count) for count in range(5)]
    assert [each and each.signature for each in found] == [
        None,
        "ABC(String)",
        "ABC(String, String)",
        "ABC(String, String, String, String...)",
        "ABC(String, String, String, String...)",
    ]


@pytest.mark.parametrize("name", ["", "_A", "A1", "A-B", "É"])
def test_a_name_that_cannot_be_called_is_refused(name: str) -> None:
    with pytest.raises(LocalError, match="is no name of a function"):
        Function(name, (), str, str)


def test_types_that_cesql_lacks_are_refused() -> None:
    with pytest.raises(LocalError, match="of these types"):
        Function("A", (float,), str, str)
    with pytest.raises(LocalError, match="of these types"):
        Function("A", (), object, str)
