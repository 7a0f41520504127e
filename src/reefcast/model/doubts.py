"""Warnings about filters that are legal and look like a mistake, before any event comes.

Only what is certain or very likely is doubted: a filter that no event can match, a string in double
quotes (they make a name of it), a number in single quotes that is compared by order. `hints`
explains what a given event shows to be wrong."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from reefcast.model.expression import (
    And,
    Attribute,
    Comparison,
    Expression,
    Literal,
    children,
    literal_to_sql,
)
from reefcast.model.filters import TOPIC, Filter
from reefcast.model.wording import readable, readable_name

_QUOTED = re.compile(r"""'[^']*(?:''[^']*)*'|"([^"]*(?:""[^"]*)*)["]""")
_NUMBER = re.compile(r"\s*[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*")
"""A number without leading zeros, which codes and times of day have."""


def doubts_about(filter: Filter) -> tuple[str, ...]:
    """Return sentences about parts of the filter that look like a mistake, most often none; each
    quotes its part."""
    found = list(_never(filter))
    if "'" in filter.text or '"' in filter.text:
        quoted = _quoted_names(filter.text) if '"' in filter.text else ()
        for comparison in _comparisons(filter.expression):
            if quoted:
                found += _name_for_string(comparison, quoted)
            found += _string_for_number(comparison)
    return tuple(dict.fromkeys(found))


def _never(filter: Filter) -> Iterator[str]:
    if filter.conjunctions or isinstance(filter.expression, Literal):  # FALSE is meant
        return
    yield f"no event can match it{_several_topics(filter.expression)}"


def _several_topics(expression: Expression) -> str:
    terms = children(expression) if isinstance(expression, And) else ()
    if sum(Attribute(TOPIC) in children(term) for term in terms) > 1:
        return ": an event is looked at with one of its topics at a time"
    return ""


def _comparisons(expression: Expression) -> Iterator[Comparison]:
    left = [expression]
    while left:
        each = left.pop()
        left += reversed(children(each))
        if isinstance(each, Comparison):
            yield each


def _quoted_names(text: str) -> set[str]:
    names = _QUOTED.findall(text)
    return {name.replace('""', '"') for name in names if name}


def _name_for_string(comparison: Comparison, quoted: Collection[str]) -> Iterator[str]:
    """Yield a doubt if one of two names is quoted without need: then a string was meant. (A filter
    that quotes both quotes all.)"""
    left, right = comparison.left, comparison.right
    if not (isinstance(left, Attribute) and isinstance(right, Attribute)):
        return
    for name, other in ((left.name, right.name), (right.name, left.name)):
        equality = comparison.operator in ("=", "<>")
        needless = equality or readable_name(name) == name or _NUMBER.fullmatch(name)
        if name in quoted and other not in quoted and needless:
            written = '"' + name.replace('"', '""') + '"'
            yield (
                f"{written} is the name of an attribute, for it stands in double quotes; the "
                f"string is written {literal_to_sql(name)}, in single quotes"
            )


def _string_for_number(comparison: Comparison) -> Iterator[str]:
    """Yield a doubt if a number in quotes is compared by order. Equality is left alone: many codes
    and numbers are texts."""
    for operand in children(comparison):
        text = operand.value if isinstance(operand, Literal) else None
        if (
            comparison.operator not in ("=", "<>")
            and isinstance(text, str)
            and _NUMBER.fullmatch(text)
        ):
            yield (
                f"{readable(comparison)} compares with a string, character by character, and is "
                f"never TRUE for a number; the number is written {text.strip()}, without quotes"
            )
