"""What is legal in a filter and looks like a mistake, and what does not."""

from __future__ import annotations

import pytest

from reefcast.model.doubts import doubts_about
from reefcast.model.explanation import explain
from reefcast.model.filters import parse_filter

NEVER = "no event can match it"
NAME = "is the name of an attribute, for it stands in double quotes; the string is written"
NUMBER = "is never TRUE for a number; the number is written"


@pytest.mark.parametrize(
    ("text", "doubts"),
    [
        ("price > 5 AND price < 3", [NEVER]),
        ("price > 'abc' AND price < 3", [NEVER]),
        ("symbol = 'IBM' AND symbol = 'HPQ'", [NEVER]),
        ("symbol LIKE 'A%' AND symbol = 'IBM'", [NEVER]),
        ("1 = 2", [NEVER]),
        ("NOT (a IS NULL OR a IS NOT NULL)", [NEVER]),
        ("topic = 'a' AND topic = 'b'", [f"{NEVER}: an event is looked at with one of its topics"]),
        ('symbol = "IBM"', [f"\"IBM\" {NAME} 'IBM', in single quotes"]),
        ('"IBM" <> symbol', [f"\"IBM\" {NAME} 'IBM'"]),
        ('x = 1 OR NOT (city = "New York")', [f"\"New York\" {NAME} 'New York'"]),
        ('symbol > "IBM"', [f'"IBM" {NAME}']),
        ('price > "100"', [f'"100" {NAME}']),
        ('a = "it\'s ""so"""', [f'"it\'s ""so""" {NAME} \'it\'\'s "so"\'']),
        ("price > '100'", ["price > '100' compares with a string, character by character, and"]),
        ("price > ' -1.5e3 '", [f"{NUMBER} -1.5e3, without quotes"]),
        ("'100' <= price", [f"{NUMBER} 100, without quotes"]),
        ("x BETWEEN '1' AND '5'", ["x >= '1' compares", "x <= '5' compares"]),
        ("price > '1' AND symbol = \"IBM\"", [NUMBER, NAME]),
    ],
)
def test_what_is_doubted(text: str, doubts: list[str]) -> None:
    found = doubts_about(parse_filter(text))
    assert len(found) == len(doubts)
    for sentence, part in zip(found, doubts, strict=True):
        assert part in sentence


@pytest.mark.parametrize(
    "text",
    [
        "TRUE",
        "FALSE",
        "symbol = 'IBM' AND price < 100",
        "a = b",
        '"a" = "b"',
        '"a" + "b" > "c"',
        '"dep delay" > 5',
        'arr_delay > "dep delay"',
        "code = '100'",
        "code <> '100'",
        "code IN ('1', '2')",
        "code LIKE '1%'",
        "day > '2026-01-31'",
        "time >= '0930'",
        "name > 'M'",
        "name = 'the \"IBM\"' AND a = IBM",
        "x > 5 OR (x > 5 AND x < 3)",
        "topic = 'a' OR topic = 'b'",
        "a IS NULL",
    ],
)
def test_ordinary_filters_are_not_doubted(text: str) -> None:
    assert doubts_about(parse_filter(text)) == ()


def hints(text: str, event: dict[str, object]) -> tuple[str, ...]:
    [node] = explain(parse_filter(text), event).decisive()
    return node.hints


def test_an_event_without_the_attribute_shows_that_a_string_was_meant() -> None:
    hint = ("IBM is the name of an attribute; a string is written 'IBM', in single quotes",)
    assert hints('symbol = "IBM"', {"symbol": "IBM"}) == hint
    assert hints("IBM = symbol", {"symbol": "IBM"}) == hint
    assert hints('symbol = "IBM"', {"symbol": "IBM", "IBM": "x"}) == ()
    assert hints("a = b", {"a": 1}) == ()
    [similar] = hints('symbol = "Name"', {"symbol": "IBM", "name": "x"})
    assert "names are case-sensitive" in similar


def test_an_event_with_a_number_shows_that_a_number_was_meant() -> None:
    [hint] = hints("price > '100'", {"price": 120})
    assert hint.endswith("unlike kinds do not compare; write the constant without quotes")
