"""Hints on why a predicate has another value than expected: what people overlook, in a sentence.

`hints_for` looks at one predicate that is not what its filter needs and at the event, and says what
may be wrong: a name in other letters, a number published as a string, NaN, an integer against a
float, a pattern that is not one. It says nothing where the values speak for themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import permutations

from reefcast.model.expression import (
    Arithmetic,
    Attribute,
    Attributes,
    Comparison,
    Expression,
    In,
    Like,
    Literal,
    Matches,
    Minus,
    attributes_of,
    children,
    evaluate,
    literal_to_sql,
)
from reefcast.model.filters import TOPIC
from reefcast.model.patterns import is_like, is_topic_match, like_parts
from reefcast.model.publication import Value
from reefcast.model.values import Kind, compare, is_nan, kind_of
from reefcast.model.wording import kind_in_words, readable, readable_name, readable_value

SIMILAR = 0.8
"""Likeness, as `difflib` counts it, from which on two names may be a slip of the pen."""


def hints_for(predicate: Expression, attributes: Attributes) -> tuple[str, ...]:
    """Return sentences that may help, most often none or one; `predicate` is FALSE or UNKNOWN where
    TRUE was needed, or the other way round."""
    if not attributes_of(predicate):
        return ("this is the same for every event",)
    found = [
        *(_missing(predicate, attributes) or _name_for_string(predicate, attributes)),
        *_arithmetic(predicate, attributes),
        *_of_predicate(predicate, attributes),
    ]
    return tuple(dict.fromkeys(found))


def _of_predicate(predicate: Expression, attributes: Attributes) -> Iterator[str]:
    match predicate:
        case Attribute(name):
            value = attributes.get(name)
            if value is not None and not isinstance(value, bool):
                yield f"{_is_a(predicate, value)}, and a condition needs a boolean"
        case Comparison():
            yield from _comparison(predicate, attributes)
        case In(operand, values):
            value = evaluate(operand, attributes)
            if value is not None:
                yield from _membership(operand, value, [each.value for each in values])
        case Like(operand, pattern, escape, False):
            value = evaluate(operand, attributes)
            yield from _like(operand, value, pattern, escape)
        case Like(operand) | Matches(operand) if not isinstance(
            value := evaluate(operand, attributes), str
        ):
            yield from _no_string(operand, value)
        case Matches(operand, pattern):
            yield from _topics(str(evaluate(operand, attributes)), pattern)


def _is(expression: Expression, value: Value) -> str:
    if isinstance(expression, Literal):
        return readable_value(value)
    return f"{readable(expression)} = {readable_value(value)}"


def _is_a(expression: Expression, value: Value) -> str:
    return f"{_is(expression, value)} is {kind_in_words(value)}"


# --- attributes and arithmetic -------------------------------------------------------------------


def _missing(predicate: Expression, attributes: Attributes) -> list[str]:
    return list(_similar(predicate, attributes))


def _name_for_string(predicate: Expression, attributes: Attributes) -> Iterator[str]:
    """Yield a hint for a word without quotes, or in double quotes: it is a name."""
    if not isinstance(predicate, Comparison):
        return
    for one, other in permutations(children(predicate)):
        if (
            isinstance(one, Attribute)
            and one.name not in attributes
            and isinstance(other, Attribute)
            and isinstance(attributes.get(other.name), str)
        ):
            yield (
                f"{readable_name(one.name)} is the name of an attribute; a string is written "
                f"{literal_to_sql(one.name)}, in single quotes"
            )


def _similar(predicate: Expression, attributes: Attributes) -> Iterator[str]:
    for name in sorted(attributes_of(predicate) - attributes.keys()):
        others = [each for each in attributes if each.casefold() == name.casefold()]
        similar = others or get_close_matches(name, attributes, n=1, cutoff=SIMILAR)
        if others:
            yield f"it has {readable_name(others[0])}: names are case-sensitive"
        elif similar:
            yield f"it has {readable_name(similar[0])}: is one of the two names misspelt?"


def _arithmetic(expression: Expression, attributes: Attributes) -> Iterator[str]:
    """Yield hints about the innermost operations without a value."""
    for child in children(expression):
        yield from _arithmetic(child, attributes)
    if not isinstance(expression, Arithmetic | Minus):
        return
    values = [(child, evaluate(child, attributes)) for child in children(expression)]
    for child, value in values:
        if value is not None and kind_of(value) is not Kind.NUMBER:
            yield f"{_is_a(child, value)}, and arithmetic takes numbers"
            return
    if any(value is None for _, value in values) or evaluate(expression, attributes) is not None:
        return
    divided = isinstance(expression, Arithmetic) and expression.operator == "/"
    what = "is a division by zero" if divided else "does not fit into int64"
    yield f"{readable(expression)} {what}, and so UNKNOWN"


# --- comparisons ---------------------------------------------------------------------------------


def _comparison(predicate: Comparison, attributes: Attributes) -> Iterator[str]:
    left, right = predicate.left, predicate.right
    a, b = evaluate(left, attributes), evaluate(right, attributes)
    if a is None or b is None:
        return
    if kind_of(a) is not kind_of(b):
        yield _unlike(left, a, right, b)
    elif isinstance(a, str) and isinstance(b, str):
        yield from _strings(predicate, a, b)
    elif isinstance(a, int | float) and isinstance(b, int | float):
        yield from _numbers(a, b, predicate.operator in ("=", "<>"))


def _unlike(left: Expression, a: Value, right: Expression, b: Value) -> str:
    if isinstance(left, Literal):
        left, a, right, b = right, b, left, a
    both = f"{_is_a(left, a)} and {_is(right, b)} {kind_in_words(b)}"
    advice = _advice(a, b) if isinstance(right, Literal) else ""
    return f"{both}: unlike kinds do not compare{advice}"


def _advice(value: Value, constant: Value) -> str:
    """Return what to do if an event's value and the filter's constant are of unlike kinds."""
    if isinstance(value, str) and _reads_as(value, kind_of(constant)):
        return f"; publish it as {kind_in_words(constant)}"
    if isinstance(constant, str) and _reads_as(constant, kind_of(value)):
        return "; write the constant without quotes"
    if isinstance(value, bool):
        return "; compare it with TRUE or FALSE"
    return "; publish it as a boolean" if isinstance(constant, bool) else ""


def _reads_as(text: str, kind: Kind) -> bool:
    if kind is Kind.BOOLEAN:
        return text.strip().casefold() in ("true", "false")
    return kind is Kind.NUMBER and _number(text) is not None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _numbers(a: float, b: float, equality: bool) -> Iterator[str]:
    if is_nan(a) or is_nan(b):
        yield "NaN equals itself and exceeds every number"
    elif compare(a, b) == 0:
        return
    elif type(a) is not type(b) and float(a) == float(b):
        yield (
            f"an integer and a float compare exactly: {readable_value(a)} is not "
            f"{readable_value(b)}, though it is the nearest float"
        )
    elif equality and float in (type(a), type(b)) and math.isclose(a, b):
        yield (
            f"{readable_value(a)} and {readable_value(b)} differ by a rounding; compare with a "
            "range instead"
        )


def _strings(predicate: Comparison, a: str, b: str) -> Iterator[str]:
    equality = predicate.operator in ("=", "<>")
    constant = next((s.value for s in children(predicate) if isinstance(s, Literal)), "")
    if equality and a != b:
        yield from _nearly_equal(a, b)
        if isinstance(constant, str) and Attribute(TOPIC) in children(predicate):
            if "+" in constant or "#" in constant:
                yield f"{predicate.operator} takes + and # literally; MATCHES knows wildcards"
        elif isinstance(constant, str) and "%" in constant:
            yield f"{predicate.operator} takes % literally; LIKE knows patterns"
    elif not equality and _number(a) is not None and _number(b) is not None:
        yield "strings compare character by character, not as numbers: '10' < '9'"


def _nearly_equal(a: str, b: str) -> Iterator[str]:
    if a.strip() == b.strip():
        yield "the two strings differ in blanks at an end"
    elif a.strip().casefold() == b.strip().casefold():
        yield "strings are case-sensitive"


def _membership(operand: Expression, value: Value, values: list[Value]) -> Iterator[str]:
    if kind_of(value) is not kind_of(values[0]):
        yield _unlike(operand, value, Literal(values[0]), values[0])
    elif isinstance(value, str) and value not in values:
        for each in values:
            yield from _nearly_equal(value, str(each))
    elif isinstance(value, int | float) and all(compare(value, each) != 0 for each in values):
        for each in values:
            if isinstance(each, int | float):
                yield from _numbers(value, each, True)


# --- patterns ------------------------------------------------------------------------------------


def _no_string(operand: Expression, value: Value | None) -> Iterator[str]:
    if value is not None:
        yield f"{_is_a(operand, value)}, and patterns match only strings"


def _like(operand: Expression, value: Value | None, pattern: str, escape: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield from _no_string(operand, value)
    elif is_like(value, pattern, escape):
        return  # under a NOT, and then the values say it all
    elif is_like(value.casefold(), pattern.casefold(), escape.casefold()[:1]):
        yield "LIKE is case-sensitive"
    elif not escape and _holds_with_backslash(value, pattern):
        yield "a backslash is an ordinary character; add ESCAPE '\\'"
    elif is_like(value, f"%{pattern}%", escape):
        yield "LIKE has to match the whole string; put % where anything may stand"
    elif not any(part.kind for part in like_parts(pattern, escape)) and set(pattern) & set("*?"):
        yield "the wildcards of LIKE are % (any run of characters) and _ (one)"


def _holds_with_backslash(value: str, pattern: str) -> bool:
    try:
        return "\\" in pattern and is_like(value, pattern, "\\")
    except ValueError:
        return False  # it escapes something ordinary


def _topics(topic: str, pattern: str) -> Iterator[str]:
    if is_topic_match(topic, pattern):
        return
    levels, needed = topic.split("/"), pattern.split("/")
    if topic.startswith("$") and needed[0] in ("+", "#"):
        yield "a pattern that starts with a wildcard matches no topic that starts with $"
    elif is_topic_match(topic.casefold(), pattern.casefold()):
        yield "topics are case-sensitive"
    elif is_topic_match(topic.strip("/"), pattern.strip("/")):
        yield "a slash at an end makes one more level, an empty one"
    elif "#" not in needed and len(levels) != len(needed):
        yield (
            f"the topic has {len(levels)} levels and the pattern {len(needed)}: "
            "+ is exactly one, # the rest"
        )
