"""Plain filters, from their text directly to their normal form: most subscriptions are plain.

A filter is plain if it compares attributes with literals, by a sign or with BETWEEN, IN or LIKE,
and all of it must hold: `symbol = 'IBM' AND price BETWEEN 80 AND 120`. Everything else, and
anything written in an unusual way, is left to `language` and `normal`, which take several times as
long and define what is right."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import reduce

from reefcast.model.constraint import (
    Constraint,
    Pattern,
    among,
    compared,
    intersect,
    intervals_in_one,
    is_empty,
)
from reefcast.model.constraint import matching as matching_pattern
from reefcast.model.normal import NEVER, Conjunction, Form
from reefcast.model.patterns import like_parts
from reefcast.model.publication import INT64_MAX, INT64_MIN, Value
from reefcast.model.quick import KEYWORDS
from reefcast.model.values import kind_of

LONGEST = 64 * 1024
"""The longest filter that is read here, in characters."""
MOST_TERMS = 100
"""The most terms of one filter."""
MOST_MEMBERS = 2000
"""The most members that are looked at again because of other terms of their attribute."""
_LONGEST_NUMERAL = 40
_NAME = r"(?>[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*)"
_STRING = r"(?>'[^']*(?:''[^']*)*')"
_VALUE = rf"""
    (?>{_STRING}
    | (?i:TRUE|FALSE)
    | [+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
"""
_SPACE = r"[ \t\r\n\f]"
_TERM = re.compile(
    rf"""
    {_SPACE}*({_NAME}){_SPACE}*
    (?:(=|<>|<=|>=|<|>){_SPACE}*({_VALUE})
    | (?<={_SPACE})(?i:BETWEEN){_SPACE}+({_VALUE}){_SPACE}+(?i:AND){_SPACE}+({_VALUE})
    | (?<={_SPACE})((?i:NOT){_SPACE}+)?
      (?:(?i:IN){_SPACE}*\({_SPACE}*({_VALUE}(?:{_SPACE}*,{_SPACE}*{_VALUE})*){_SPACE}*\)
      | (?i:LIKE){_SPACE}*({_STRING})))
    (?:{_SPACE}+((?i:AND)){_SPACE}|{_SPACE}*\Z)
    """,
    re.VERBOSE | re.ASCII,
)
_VALUES = re.compile(_VALUE, re.VERBOSE | re.ASCII)


def read(text: str) -> Form | None:
    """Return the normal form of a plain filter; None for any other text."""
    if len(text) > LONGEST or not text.isascii():
        return None
    demands: dict[str, list[Constraint]] = {}
    at = terms = 0
    more: str | None = text
    while more is not None:
        term = _TERM.match(text, at)
        terms += 1
        if term is None or terms > MOST_TERMS:
            return None
        name, sign, value, low, high, negation, listed, pattern, more = term.groups()
        if name.upper() in KEYWORDS:
            return None
        if sign is not None:
            constraint = _compared(sign, value)
        elif low is not None:
            constraint = _between(low, high)
        elif listed is not None:
            constraint = _among(listed, negation is not None)
        else:
            constraint = _like(pattern, negation is not None)
        if constraint is None:
            return None
        demands.setdefault(name, []).append(constraint)
        at = term.end()
    if terms > len(demands) and _looked_at_again(demands.values()) > MOST_MEMBERS:
        return None
    constraints = {
        name: reduce(intersect, intervals_in_one(found)) if len(found) > 1 else found[0]
        for name, found in demands.items()
    }
    if any(map(is_empty, constraints.values())):
        return NEVER
    return (Conjunction(dict(sorted(constraints.items()))),)


def _looked_at_again(demands: Iterable[list[Constraint]]) -> int:
    """Return how many members there are, once for each other term of their attribute."""
    return sum(
        (len(found) - 1) * sum(len(each.members or ()) for each in found) for found in demands
    )


def _compared(sign: str, literal: str) -> Constraint | None:
    value = _value(literal)
    return None if value is None else compared(sign, value)


def _between(first: str, second: str) -> Constraint | None:
    low, high = _value(first), _value(second)
    if low is None or high is None or kind_of(low) is not kind_of(high):
        return None
    return intersect(compared(">=", low), compared("<=", high))


def _among(listed: str, negated: bool) -> Constraint | None:
    found = [_value(literal) for literal in _VALUES.findall(listed)]
    values = [value for value in found if value is not None]
    if len(values) < len(found) or len(set(map(kind_of, values))) > 1:
        return None
    return among(values, negated)


def _like(literal: str, negated: bool) -> Constraint | None:
    text = _unquoted(literal)
    try:
        like_parts(text, "")
    except ValueError:
        return None
    return matching_pattern(Pattern("LIKE", text, negated=negated))


def _value(literal: str) -> Value | None:
    """Return what is written there; None for a number that no filter may hold."""
    first = literal[0]
    if first == "'":
        return _unquoted(literal)
    if first in "tTfF":
        return first in "tT"
    if len(literal) > _LONGEST_NUMERAL:
        return None
    digits = literal[1:] if first in "+-" else literal
    if digits.isdigit():
        number = int(literal)
        return number if INT64_MIN <= number <= INT64_MAX else None
    fraction = float(literal)
    return fraction if math.isfinite(fraction) else None


def _unquoted(literal: str) -> str:
    return literal[1:-1].replace("''", "'")
