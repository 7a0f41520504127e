"""Strategies that the tests of CESQL share: small domains, so that casts succeed and fail, strings
equal each other, and attributes are missing."""

from __future__ import annotations

import math

from hypothesis import strategies as st

NAMES = ("a", "b", "id", "x1")
STRINGS = (
    *("", "a", "ab", "abc", "b%", "a_c", "\\", "5", "+5", "-5", "005", "0", "1", "2147483648"),
    *("true", "TRUE", "fAlse", "5.5", "-1.5e-07", "nan", "-inf", "1e+300", " 5", ":", "it's", '"'),
)
INTEGERS = (0, 1, -1, 5, -5, 55, 2**31 - 1, -(2**31))
VALUES: tuple[object, ...] = (
    *STRINGS,
    *(str(10**300), True, False, *INTEGERS, 2**31, -(2**40), 2**53 + 1),
    *(5.0, 5.5, -0.0, -1.5e-7, 2.0**31, 2.0**53, 1e300, math.nan, math.inf, -math.inf, 0.5),
)
"""Values of attributes in a publication, which may be numbers that no CloudEvent has."""
PATTERNS = (
    "a%",
    "%",
    "_",
    "a_c",
    "%5",
    "tr%",
    "",
    "b\\%",
    "\\",
    "%e%",
    "5",
    "true",
    "_._",
    "%\\_%",
)
SIGNS = ("=", "!=", "<>", "<", "<=", ">", ">=")


def quoted(text: str, quote: str = "'") -> str:
    """Return a text as a string of CESQL, which cannot say all: a backslash in front of a quote, or
    at the end, takes the meaning from the quote."""
    return quote + text.replace(quote, f"\\{quote}") + quote


sayable = st.sampled_from([text for text in STRINGS if not text.endswith("\\")])
strings = st.builds(quoted, sayable, st.sampled_from("'\""))
patterns = st.sampled_from([quoted(text) for text in PATTERNS if not text.endswith("\\")])
integers = st.sampled_from(INTEGERS).map(str)
booleans = st.sampled_from(("true", "FALSE"))
constants = strings | integers | booleans
names = st.sampled_from((*NAMES, "topic", "Ab"))
attributes = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))

_FUNCTIONS = {"LENGTH": 1, "int": 1, "Bool": 1, "STRING": 1, "IS_INT": 1, "IS_BOOL": 1, "ABS": 1}
_FUNCTIONS |= {"LOWER": 1, "LEFT": 2, "RIGHT": 2, "SUBSTRING": 3, "CONCAT": 2, "no_such": 1}


@st.composite
def tests(draw: st.DrawFn, operands: st.SearchStrategy[str] = names | constants) -> str:
    """Draw an expression with one operator or function, or two, in parentheses."""

    def one_of(*words: str) -> str:
        return draw(st.sampled_from(words))

    def some(least: int, most: int) -> list[str]:
        return draw(st.lists(operands, min_size=least, max_size=most))

    match one_of("logic", "sign", "sign", "arithmetic", "not", "minus", "like", "in", "call"):
        case "logic":
            first, *others = some(2, 3)
            steps = (f" {one_of('AND', 'OR', 'XOR')} {other}" for other in others)
            return f"({first}{''.join(steps)})"
        case "sign":
            left, right = some(2, 2)
            return f"({left} {one_of(*SIGNS)} {right})"
        case "arithmetic":
            left, right = some(2, 2)
            return f"({left} {one_of(*'+-*/%')} {right})"
        case "not":
            return f"(NOT {draw(operands)})"
        case "minus":
            return f"(- {draw(operands)})"
        case "like":
            return f"({draw(operands)} {one_of('', 'NOT')} LIKE {draw(patterns)})"
        case "in":
            return f"({draw(operands)} {one_of('', 'NOT')} IN ({', '.join(some(1, 3))}))"
        case _:
            name = one_of(*_FUNCTIONS)
            return f"{name}({', '.join(some(_FUNCTIONS[name], _FUNCTIONS[name]))})"


@st.composite
def logic(draw: st.DrawFn, operands: st.SearchStrategy[str]) -> str:
    """Draw NOT of an expression, or two with AND, OR or XOR between them."""
    left, right = draw(operands), draw(operands)
    operator = draw(st.sampled_from(("NOT", "AND", "OR", "XOR")))
    return f"(NOT {left})" if operator == "NOT" else f"({left} {operator} {right})"


guards = names.map("EXISTS {}".format)
expressions = st.recursive(names | constants | guards | tests(), tests, max_leaves=6)
conditions = st.recursive(names | guards | tests(), logic, max_leaves=6)
"""Expressions as people write filters: conditions, and what AND, OR, XOR and NOT make of them."""
