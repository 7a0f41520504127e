"""Expressions of CESQL that a subscriber may send."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from fuzzing import OFTEN_AND_SOAKED, changed_text, knock
from reefcast import CesqlError
from reefcast.cesql import parse, translate

SEEDS = (
    "a = 1 AND b <> 'x\\'y' OR NOT c XOR d",
    "a IN (1, '2', TRUE) AND b NOT IN (\"p\", 'q', c) OR EXISTS c",
    "a + b * 2 - -c / 4 % 3 > 3 AND (s LIKE 'a%_\\%' OR t NOT LIKE '%z')",
    "CONCAT_WS('-', LEFT(s, 2), SUBSTRING(s, -2, 1), UPPER(TRIM(t))) = 'ab-B-c'",
    "((INT(a) = 1 OR b = 2) AND (c = 3 OR d = 4)) OR NOT (LENGTH(s) < 5 AND ABS(f) >= 6)",
    "'5' = a OR true = b OR s = 'ab' AND type LIKE 'com.example.%'",
)
WORDS = (
    *("AND", "OR", "NOT", "XOR", "IN", "LIKE", "EXISTS", "TRUE", "false", "INT", "CONCAT", "f"),
    *("(", ")", "((((((", "'", '"', ",", "=", "!=", "<>", "<=", ">", "+", "-", "--", "*", "/", "%"),
    *("a", "b", "topic", "Ab", "é", "1", "1a", "'s'", "'a%b'", "\\", "'\\'", "'nan'", "'1e300'"),
    *(" OR a = 1" * 30, " AND b + 1 > 2" * 30, "NOT " * 120, "a," * 100, " XOR a = 'b'" * 40),
    *("'" + "%a" * 100 + "'", "CONCAT(s, s)", "LEFT(s, -1)", "2147483647 + "),
)
EVENTS: list[Mapping[str, object]] = [
    {},
    {"a": 1, "b": 2.5, "s": "ab", "t": "abz", "c": True, "type": "com.example.left"},
    {"a": "5", "b": True, "c": "1", "d": 4, "f": -(2**31), "s": "a" * 1000, "t": " z "},
]


def made(rng: random.Random) -> str:
    return changed_text(rng.choice(SEEDS), rng, WORDS)


class Door:
    """The door of a subscription. What is accepted evaluates without raising anything, and its
    translation holds for what passes."""

    def __init__(self) -> None:
        self.accepted = self.passed = 0

    def __call__(self, text: str) -> None:
        try:
            expression = parse(text)
        except CesqlError as error:
            assert error.kind == "parse"
            assert 0 <= error.position <= len(text)
            return
        self.accepted += 1
        translated = translate(expression)
        for event in EVENTS:
            value, error = expression.evaluate(event)
            assert type(value) in (str, int, bool)
            assert not isinstance(value, int) or -(2**31) <= value < 2**31
            completely, errors = expression.evaluate_completely(event)
            assert type(completely) in (str, int, bool)
            assert bool(errors) is (error is not None)
            holds = translated.filter.holds(event)  # type: ignore[arg-type]  # values of a publication
            passes = expression.matches(event)
            assert holds or not passes
            assert holds is passes or not translated.exact
            self.passed += passes


@pytest.fixture(scope="module")
def door() -> Door:
    parse("a")  # lark is loaded here, not by the first input
    return Door()


@pytest.mark.long
@OFTEN_AND_SOAKED
def test_expressions(door: Door, count: int) -> None:
    knock(door, made, count)
    assert door.accepted
    assert door.passed
