"""A translation holds for every event that passes the expression, and if it is exact, for no other;
as a filter, and in an index."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import pytest
from cesql_strategies import PATTERNS, SIGNS, VALUES, attributes, conditions, expressions
from hypothesis import given

from reefcast import cesql
from reefcast.cesql.conditions import number_written
from reefcast.cesql.translation import Translation, regions_of
from reefcast.cesql.values import attribute_value, cast, to_string
from reefcast.matching import new_index
from reefcast.matching.interface import EventIndex
from reefcast.model.effort import FilterLimits, steps_of
from reefcast.model.expression import evaluate
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.publication import Publication
from reefcast.network.sections import LimitsSection


def check_regions(text: str, events: list[Mapping[str, object]]) -> None:
    """Compare where an expression is true, false and without an error with its regions."""
    expression = cesql.parse(text)
    regions = regions_of(expression.root)
    for event in events:
        value, error = expression.evaluate(event)
        truth = None if error else cast(value, bool)
        for wanted, region in zip(
            (truth is True, truth is False, truth is not None), regions, strict=True
        ):
            holds = evaluate(region.bound, event) is True  # type: ignore[arg-type]  # values of a publication
            assert holds or not wanted, (text, event, region)
            assert not region.exact or holds is wanted, (text, event, region)


@given(conditions | expressions, attributes, attributes)
def test_regions_of_drawn_expressions(
    text: str, one: dict[str, object], other: dict[str, object]
) -> None:
    check_regions(text, [one, other])


CONSTANTS = (
    *("''", "'ab'", "'b%'", "'5'", "'+5'", "'005'", "'1'", "'true'", "'fAlse'", "'5.5'", "'nan'"),
    *("'2147483648'", "0", "1", "-5", "2147483647", "true"),
)


def of_one_attribute() -> list[str]:
    """Return conditions on `a` of each form, with each constant that may make a difference."""
    found = [f"a {sign} {constant}" for sign, constant in product(SIGNS, CONSTANTS)]
    found += [f"{constant} {sign} a" for sign, constant in product(("=", "<"), CONSTANTS)]
    found += [f"a LIKE '{text}'" for text in PATTERNS if not text.endswith("\\")]
    found += [f"a IN ({one}, {other})" for one, other in product(CONSTANTS[::3], CONSTANTS[1::3])]
    found += [f"{name}(a) = {each}" for name in ("INT", "BOOL", "STRING") for each in CONSTANTS]
    found += [f"{each} = {name}(a)" for name in ("INT", "BOOL", "STRING") for each in CONSTANTS]
    return [*found, "a", "EXISTS a", "INT(a) < 5", "STRING(a) LIKE 'a%'", "a = 1 / 0"]


@pytest.mark.long
def test_each_condition_on_each_value() -> None:
    events: list[Mapping[str, object]] = [{}, *({"a": value} for value in VALUES)]
    for text in of_one_attribute():
        check_regions(text, events)


@pytest.fixture(scope="module")
def index() -> EventIndex[str]:
    return new_index()


@given(conditions | expressions, attributes, attributes)
def test_an_index_of_translations(
    index: EventIndex[str], text: str, one: dict[str, object], other: dict[str, object]
) -> None:
    translated = cesql.translate(text)
    index.add("it", parse_filter(translated.filter.text))
    try:
        for seq, event in enumerate((one, other), start=1):
            found = index.match(Publication("p", seq, 0, event))  # type: ignore[arg-type]  # values of a publication
            passes = translated.expression.matches(event)
            assert bool(found) if passes else not (found and translated.exact)
    finally:
        index.remove("it")


EXACT = {
    "type = 'com.example.left'": "type = 'com.example.left'",
    "type LIKE 'com.example.%' AND source = '/gates'": (
        "type LIKE 'com.example.%' ESCAPE '\\' AND source = '/gates'"
    ),
    "id = 'a' OR id = 'b' OR id = 'c'": "id IN ('a', 'b', 'c')",
    "subject = 'a' OR type = 'b'": "(subject IS NOT NULL AND type = 'b') OR subject = 'a'",
    "EXISTS subject": "subject IS NOT NULL",
    "EXISTS id": "TRUE",
    "NOT EXISTS subject": "subject IS NULL",
    "EXISTS id AND 1 + 1 = 2": "TRUE",
    "Subject = 'a'": "FALSE",
    "1 / 0 = 1 OR type = 'a'": "FALSE",
    "sequence IN ('1', '2')": "sequence IN ('1', '2') OR sequence IN (1, 2)",
    "5 = x": "x = '5' OR x = 5 OR x = TRUE",
}


def meaning(filter: Filter) -> object:
    return filter.conjunctions


@pytest.mark.parametrize("text", EXACT)
def test_exact_translations(text: str) -> None:
    translated = cesql.translate(text)
    assert (translated.exact, translated.residual) == (True, None)
    assert meaning(translated.filter) == meaning(parse_filter(EXACT[text]))


SPLIT = {
    "LOWER(subject) = 'a'": "subject IS NOT NULL",
    "hop < ttl AND type = 'a'": "hop IS NOT NULL AND ttl IS NOT NULL AND type = 'a'",
    "EXISTS subject AND LENGTH(subject) > 5": "subject IS NOT NULL",
    "sequence = 5": "(sequence >= '+' AND sequence < ':' AND sequence LIKE '%5') OR sequence = 5",
    "my_function(x) = 1": "x IS NOT NULL",
    "topic = 'a' AND type = 'b'": "type = 'b'",
    "EXISTS topic": "TRUE",
    "type = 'b' AND sequence % 2 = 0": "type = 'b' AND sequence IS NOT NULL",
}


@pytest.mark.parametrize("text", SPLIT)
def test_a_necessary_condition_and_the_rest(text: str) -> None:
    translated = cesql.translate(cesql.parse(text))
    assert not translated.exact
    assert translated.residual == cesql.parse(text)
    assert meaning(translated.filter) == meaning(parse_filter(SPLIT[text]))


def test_a_text_that_cannot_be_parsed() -> None:
    with pytest.raises(cesql.CesqlError):
        cesql.translate("type =")


LONG_ONES = [
    " OR ".join(f"(a{n} = 'x' AND b{n} LIKE 'y%')" for n in range(70)),
    " XOR ".join(f"a{n} = 'x'" for n in range(20)),
    " AND ".join(f"a{n} != 'x'" for n in range(200)),
    " ".join(f"a{n} = 'x' {('OR', 'AND', 'XOR')[n % 3]}" for n in range(100)) + " z",
    "NOT (" * 90 + "a" + ")" * 90,
    f"id IN ({', '.join(repr(f'n{n}') for n in range(500))})",
    f"id = '{'x' * 16_000}'",
]


@pytest.mark.parametrize("text", LONG_ONES, ids=range(len(LONG_ONES)))
def test_a_broker_takes_the_filters_of_long_expressions(text: str) -> None:
    section = LimitsSection()
    expression, filter, _ = cesql.translate(text)
    steps_of(filter.text, FilterLimits(section.filter_steps, 100, 200))
    names = [f"a{n}" for n in range(200)]
    events: list[Mapping[str, object]] = [
        {},
        dict.fromkeys(names, "x"),
        dict.fromkeys(names, "y") | {"z": True, "id": "n7"},
        {"a0": "x", "b0": "y", "a": "true", "id": "x" * 16_000},
    ]
    for event in events:
        passes = expression.matches(event)
        assert filter.holds(event) or not passes  # type: ignore[arg-type]  # values of a publication


@pytest.mark.parametrize("number", [each for each in VALUES if type(each) in (int, float)])
def test_a_number_is_read_back_from_its_string(number: float) -> None:
    seen = attribute_value(number)
    assert seen is not None
    assert number_written(to_string(seen)) in ((number, None) if number - number else (number,))


def test_translations_are_values() -> None:
    one, other = cesql.translate("a = 'x'"), cesql.translate("a = 'x'")
    assert isinstance(one, Translation)
    assert one == other
