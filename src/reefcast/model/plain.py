"""Plain filters, from their text to their normal form at once: most of what is subscribed to.

A filter is plain if it compares attributes with literals, by a sign or with BETWEEN, and all of it
must hold: `symbol = 'IBM' AND price BETWEEN 80 AND 120`. Everything else, and what is written
oddly, is left to `language` and `normal`, which take ten times as long and say what is right.
"""

from __future__ import annotations

import math
import re

from reefcast.model.constraint import Constraint, compared, intersect, is_empty
from reefcast.model.normal import NEVER, Conjunction, Form
from reefcast.model.publication import INT64_MAX, INT64_MIN, Value
from reefcast.model.quick import KEYWORDS
from reefcast.model.values import kind_of

LONGEST = 1000
"""Characters of a filter that is read here."""
_LONGEST_NUMERAL = 40
_NAME = r"[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*"
_VALUE = r"""
    (?:'[^']*(?:''[^']*)*'
    | (?i:TRUE|FALSE)
    | [+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
"""
_SPACE = r"[ \t\r\n\f]"
_TERM = re.compile(
    rf"""
    {_SPACE}*({_NAME}){_SPACE}*
    (?:(=|<>|<=|>=|<|>){_SPACE}*({_VALUE})
    | (?<={_SPACE})(?i:BETWEEN){_SPACE}+({_VALUE}){_SPACE}+(?i:AND){_SPACE}+({_VALUE}))
    (?:{_SPACE}+((?i:AND)){_SPACE}|{_SPACE}*\Z)
    """,
    re.VERBOSE | re.ASCII,
)


def read(text: str) -> Form | None:
    """Return the normal form of a plain filter; None for any other text."""
    if len(text) > LONGEST or not text.isascii():
        return None
    constraints: dict[str, Constraint] = {}
    at, more = 0, True
    while more:
        term = _TERM.match(text, at)
        if term is None:
            return None
        name, sign, value, low, high, follows = term.groups()
        if name.upper() in KEYWORDS:
            return None
        constraint = _compared(sign, value) if sign else _between(low, high)
        if constraint is None:
            return None
        known = constraints.get(name)
        constraints[name] = constraint if known is None else intersect(known, constraint)
        at, more = term.end(), follows is not None
    if any(map(is_empty, constraints.values())):
        return NEVER
    return (Conjunction(dict(sorted(constraints.items()))),)


def _compared(sign: str, literal: str) -> Constraint | None:
    value = _value(literal)
    return None if value is None else compared(sign, value)


def _between(first: str, second: str) -> Constraint | None:
    low, high = _value(first), _value(second)
    if low is None or high is None or kind_of(low) is not kind_of(high):
        return None
    return intersect(compared(">=", low), compared("<=", high))


def _value(literal: str) -> Value | None:
    """None for a number that no filter may hold."""
    first = literal[0]
    if first == "'":
        return literal[1:-1].replace("''", "'")
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
