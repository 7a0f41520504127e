"""Conditions of CESQL on one attribute, as regions of events: `x = 'a'`, `x IN (1, '2')`,
`x LIKE 'a%'`, `x < 5`, `EXISTS x`, and `x` itself as a Boolean.

An attribute of a publication is a string, a boolean or a number, and CESQL casts; so each condition
is said for each of the three. For booleans, of which there are two, the condition itself is
evaluated. `x = '5'` is the string 5 or the number 5; `x = 5` is the number 5 or any string that
says 5, which no filter can tell exactly: '5', '+5', '005'."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

from reefcast.cesql import evaluation
from reefcast.cesql.evaluation import REQUIRED, Run
from reefcast.cesql.functions import STANDARD
from reefcast.cesql.nodes import Attribute, Comparison, In, Like, Literal, Node
from reefcast.cesql.regions import (
    ALWAYS,
    NEVER,
    UNKNOWN,
    Region,
    among,
    intersection,
    predicate,
    union,
)
from reefcast.cesql.values import (
    ESCAPE,
    INT32_MAX,
    INT32_MIN,
    Value,
    attribute_value,
    cast,
    to_string,
)
from reefcast.model import expression as filters
from reefcast.model.filters import TOPIC
from reefcast.model.patterns import like_parts
from reefcast.model.publication import INT64_MAX, INT64_MIN

_IN_NUMBERS = frozenset("0123456789-+.einaf")
"""The characters of numbers that are written as Strings: -1.5e-07, nan, inf."""
_MOST_DIGITS = 400
"""No finite number has so many when it is written as a String."""
_NOT_FINITE = frozenset({"nan", "inf", "-inf"})


class Regions(NamedTuple):
    """Where a condition is true, where it is false, and where it has no error: where it is one of
    both."""

    true: Region
    false: Region
    sound: Region

    def negated(self) -> Regions:
        """Return the regions of the opposite; NOT of an error is an error."""
        return Regions(self.false, self.true, self.sound)


ANYWHERE = Regions(UNKNOWN, UNKNOWN, UNKNOWN)
"""The regions of a condition of which nothing is known."""
FAILS = Regions(NEVER, NEVER, NEVER)
"""The regions of a condition that is an error for every event."""


def always(value: bool) -> Regions:
    """Return the regions of a constant."""
    return Regions(ALWAYS, NEVER, ALWAYS) if value else Regions(NEVER, ALWAYS, ALWAYS)


def present(name: str) -> Region:
    """Return the region of the events that have an attribute."""
    if not _is_sayable(name):
        return UNKNOWN if name == TOPIC else NEVER
    return predicate(filters.IsNull(filters.Attribute(name), negated=True))


def _is_sayable(name: str) -> bool:
    """Return whether a filter says the same of the attribute as CESQL. `topic` may have several
    values in a filter, and a name with capitals is never one of an attribute in CESQL."""
    return name != TOPIC and name == name.lower()


def exists(name: str) -> Regions:
    """Return the regions of EXISTS."""
    if name in REQUIRED:
        return always(True)
    if name == TOPIC:
        return ANYWHERE
    if not _is_sayable(name):
        return always(False)
    return Regions(present(name), predicate(filters.IsNull(filters.Attribute(name))), ALWAYS)


# --- conditions by kind --------------------------------------------------------------------------


class Kinds(NamedTuple):
    """Where a condition is true and where it is false, for one kind of value."""

    true: Region
    false: Region


def is_text(name: str, text: str) -> Regions:
    """Return the regions of `x = 'text'`, where x is cast to String."""
    node = Comparison("=", Attribute(name), Literal(text))
    numbers = _numbers_among(name, [text])
    return _regions(node, name, _strings_among(name, [text]), numbers, total=True)


def is_integer(name: str, number: int) -> Regions:
    """Return the regions of `x = 5`, where x is cast to Integer."""
    node = Comparison("=", Attribute(name), Literal(number))
    digits = str(abs(number))
    ends = predicate(filters.Like(filters.Attribute(name), f"%{digits}"))
    strings = Kinds(intersection(_integer_strings(name), ends).roughly(), _integer_strings(name))
    others = intersection(_integers(name), _compared(name, "<>", number)).roughly()
    return _regions(node, name, strings, Kinds(_compared(name, "=", number), others))


def is_true(name: str) -> Regions:
    """Return the regions of x as a Boolean."""
    node = Comparison("=", Attribute(name), Literal(True))
    strings = Kinds(_spelled(name, "true"), _spelled(name, "false"))
    others = intersection(_integers(name), _compared(name, "<>", 0)).roughly()
    return _regions(node, name, strings, Kinds(others, _compared(name, "=", 0)))


def is_among(name: str, values: Sequence[Value]) -> Regions:
    """Return the regions of `x IN (values)`, and of `value = x`: each is cast to the type of x."""
    node = In(Attribute(name), tuple(map(Literal, values)))
    texts = [to_string(value) for value in values]
    total = all(cast(value, int) is not None for value in values)
    numbers = _numbers_in(name, values, texts)
    return _regions(node, name, _strings_among(name, texts), numbers, total=total)


def is_like(name: str, pattern: str) -> Regions:
    """Return the regions of `x LIKE 'pattern'`, where x is cast to String."""
    node = Like(Attribute(name), pattern)
    like = filters.Like(filters.Attribute(name), pattern, ESCAPE)
    unlike = filters.Like(filters.Attribute(name), pattern, ESCAPE, negated=True)
    strings = Kinds(predicate(like), predicate(unlike))
    parts = like_parts(pattern, ESCAPE)
    if all(not part.kind for part in parts):
        numbers = _numbers_among(name, ["".join(part.character for part in parts)])
    elif any(part.character not in _IN_NUMBERS for part in parts if not part.kind):
        numbers = Kinds(NEVER, _numbers(name))
    else:
        numbers = _any_number(name)
    return _regions(node, name, strings, numbers, total=True)


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def is_ordered(name: str, operator: str, number: int) -> Regions:
    """Return the regions of `x < 5` and the like, where x is cast to Integer."""
    node = Comparison(operator, Attribute(name), Literal(number))
    strings = Kinds(_integer_strings(name), _integer_strings(name))
    numbers = Kinds(
        *(
            intersection(_integers(name), _compared(name, sign, number)).roughly()
            for sign in (operator, _OPPOSITE[operator])
        )
    )
    return _regions(node, name, strings, numbers)


def _regions(
    node: Node, name: str, strings: Kinds, numbers: Kinds, *, total: bool = False
) -> Regions:
    """Put the kinds together; `total`: there is no error for any string or number."""
    if name == TOPIC:
        return ANYWHERE
    if not _is_sayable(name):
        return FAILS
    outcomes = {value: _outcome(node, {name: value}) for value in (True, False)}
    true, false = (
        union(a, b, _among(name, [value for value in outcomes if outcomes[value] is wanted]))
        for a, b, wanted in (
            (strings.true, numbers.true, True),
            (strings.false, numbers.false, False),
        )
    )
    whole = total and None not in outcomes.values()
    return Regions(true, false, present(name) if whole else union(true, false))


def outcome(node: Node) -> Value | None:
    """Return the value of an expression without attributes; None if it is an error."""
    return _outcome(node, {})


def _outcome(node: Node, attributes: dict[str, object]) -> Value | None:
    run = Run(attributes, STANDARD, complete=False)
    value = evaluation.evaluate(node, run)
    return None if run.problems else value


# --- strings -------------------------------------------------------------------------------------


def _strings_among(name: str, texts: Sequence[str]) -> Kinds:
    literals = tuple(map(filters.Literal, dict.fromkeys(texts)))
    others = filters.In(filters.Attribute(name), literals, negated=True)
    if len(literals) == 1:
        return Kinds(predicate(among(name, literals)), _compared(name, "<>", texts[0]))
    return Kinds(predicate(among(name, literals)), predicate(others))


def _integer_strings(name: str) -> Region:
    """Return the region of the strings that may say an Integer: they begin with a sign or digit."""
    return intersection(_compared(name, ">=", "+"), _compared(name, "<", ":")).roughly()


def _spelled(name: str, word: str) -> Region:
    """Return the region of all ways to write a word with capitals and without."""
    spellings = map("".join, product(*((each, each.upper()) for each in word)))
    return predicate(among(name, map(filters.Literal, spellings)))


# --- numbers -------------------------------------------------------------------------------------


def _numbers(name: str) -> Region:
    return _compared(name, ">=", -math.inf)


def _integers(name: str) -> Region:
    """Return the region of the numbers within 32 bits; those with a fraction are no Integers."""
    return intersection(
        _compared(name, ">=", INT32_MIN), _compared(name, "<=", INT32_MAX)
    ).roughly()


def _any_number(name: str) -> Kinds:
    return Kinds(_numbers(name).roughly(), _numbers(name).roughly())


def _numbers_among(name: str, texts: Sequence[str]) -> Kinds:
    """Return where a number is one of these when it is written as a String, and where not."""
    if not _NOT_FINITE.isdisjoint(texts):  # a filter has no literals for these
        return _any_number(name)
    return _numbers_of(name, [n for n in map(number_written, texts) if n is not None])


def _numbers_in(name: str, values: Sequence[Value], texts: Sequence[str]) -> Kinds:
    """Return where a number is among values: an Integer compares with each as an Integer, until one
    cannot be cast; any other number is a String."""
    if not _NOT_FINITE.isdisjoint(texts):
        return _any_number(name)
    found: list[int | float] = []
    for value in values:
        number = cast(value, int)
        if number is None:
            break
        found.append(int(number))
    whole = len(found) == len(values)
    others = (number for number in map(number_written, texts) if number is not None)
    found += [number for number in others if isinstance(attribute_value(number), str)]
    kinds = _numbers_of(name, found)
    return kinds if whole else kinds._replace(false=kinds.false.roughly())


def _numbers_of(name: str, numbers: Sequence[int | float]) -> Kinds:
    if not numbers:
        return Kinds(NEVER, _numbers(name))
    literals = tuple(map(filters.Literal, dict.fromkeys(numbers)))
    others = filters.In(filters.Attribute(name), literals, negated=True)
    return Kinds(predicate(among(name, literals)), predicate(others))


def number_written(text: str) -> int | float | None:
    """Return the finite number that CESQL writes as this String; None if there is none."""
    if len(text) > _MOST_DIGITS:
        return None
    try:
        whole = int(text)
        number = whole if INT64_MIN <= whole <= INT64_MAX else float(whole)
    except (ValueError, OverflowError):
        try:
            number = float(text)
        except ValueError:
            return None
    written = attribute_value(number)
    return number if math.isfinite(number) and to_string(written or 0) == text else None


def _compared(name: str, sign: str, value: Value | float) -> Region:
    return predicate(filters.Comparison(sign, filters.Attribute(name), filters.Literal(value)))


def _among(name: str, values: Iterable[bool]) -> Region:
    literals = tuple(map(filters.Literal, values))
    return predicate(among(name, literals)) if literals else NEVER
