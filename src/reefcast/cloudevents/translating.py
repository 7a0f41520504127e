"""Filters of the CloudEvents Subscriptions API as filters of Reefcast, so that indexes serve them.

A *prefilter* matches every event for which the dialects hold, and perhaps some more; `exact`: none
but these. Whoever delivers evaluates the dialects again where it is not exact. It cannot be exact

- for attributes that events which were not published as CloudEvents get when they become some
  (`mapping`): their `id`, for instance, is in no attribute of theirs;
- where an Integer is compared by its text: `{"prefix": {"n": "5"}}` holds for 57;
- for `sql`: its translation (`cesql.translation`) is about events published as CloudEvents, which
  have the same attributes on both sides. All others match.

Rules
-----
- Each condition has a text for "it holds" and one for "it does not hold"; so `not` is pushed down
  to the conditions, and UNKNOWN never has to be negated. A text that may match too much is never
  negated: what does not match it need not be all.
- An event with an attribute `specversion` is a valid CloudEvent, or no subscription gets it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reefcast import cesql
from reefcast.cesql.nodes import Attribute, Exists, walk
from reefcast.cesql.translation import translate
from reefcast.cloudevents.context import (
    DATA_TYPE,
    SPECVERSION,
    VERSION,
    is_name,
    is_uri_reference,
)
from reefcast.cloudevents.events import CloudEvent
from reefcast.cloudevents.filters import (
    AllOf,
    AnyOf,
    Condition,
    FilterExpression,
    Not,
    Sql,
)
from reefcast.cloudevents.mapping import (
    DEFAULT_SOURCE,
    DEFAULT_TYPE,
    EXPIRY_TIME,
    OTHERS,
    claimed_event,
    event_of,
)
from reefcast.model.filters import TOPIC
from reefcast.model.language import MAX_LENGTH
from reefcast.model.publication import Publication


class Prefilter(NamedTuple):
    """See the module's docstring. `text`: of a filter of Reefcast."""

    text: str
    exact: bool


ALL, NONE = Prefilter("TRUE", True), Prefilter("FALSE", True)
ANYTHING = Prefilter("TRUE", False)
NOT_PUBLISHED_AS_ONE = f"{SPECVERSION} IS NULL"
ALWAYS_TEXTS = frozenset(("type", "subject", "source", "dataschema", DATA_TYPE, "time"))
"""Attributes that are texts in every CloudEvent."""
MADE = frozenset(("id", "time", DATA_TYPE, EXPIRY_TIME, TOPIC, OTHERS, "dataschema"))
"""Attributes that an event may get, lose or change when it becomes a CloudEvent."""
MADE_ALWAYS = frozenset((DATA_TYPE, EXPIRY_TIME))
"""The ones that an event may get which is published as a CloudEvent."""
_DIGITS = re.compile(r"-?[0-9]*", re.ASCII)
_INT32 = "BETWEEN -2147483648 AND 2147483647"
_REPLACED = "\ufffd"


def prefilter_of(filter: FilterExpression) -> Prefilter:
    """Return the prefilter of a filter."""
    made = _true(filter)
    return made if len(made.text) <= MAX_LENGTH else ANYTHING


def delivered_event(publication: Publication) -> CloudEvent | None:
    """Return the event that subscriptions see of a publication; None if it says that it is a
    CloudEvent, and is none."""
    if SPECVERSION in publication.attributes:
        return claimed_event(publication)
    return event_of(publication)


def _true(filter: FilterExpression) -> Prefilter:
    """Return what matches if the filter holds."""
    match filter:
        case AllOf(filters):
            return _both(map(_true, filters))
        case AnyOf(filters):
            return _either(map(_true, filters))
        case Not(inner):
            return _false(inner)
        case Condition():
            return _held(filter)
        case Sql(text):
            return _passed(text)


def _false(filter: FilterExpression) -> Prefilter:
    """Return what matches if the filter does not hold."""
    match filter:
        case AllOf(filters):
            return _either(map(_false, filters))
        case AnyOf(filters):
            return _both(map(_false, filters))
        case Not(inner):
            return _true(inner)
        case Condition():
            return _missed(filter)
        case Sql():
            return ANYTHING


def _both(parts: Iterable[Prefilter]) -> Prefilter:
    return _joined("AND", list(parts), NONE.text, ALL)


def _either(parts: Iterable[Prefilter]) -> Prefilter:
    return _joined("OR", list(parts), ALL.text, NONE)


def _joined(word: str, parts: Sequence[Prefilter], strong: str, neutral: Prefilter) -> Prefilter:
    """Join prefilters. `strong`: the text of one that decides alone; `neutral`: one that may be
    left out, the result if there are no others."""
    for part in parts:
        if part.text == strong and part.exact:
            return part
    exact = all(part.exact for part in parts)
    if any(part.text == strong for part in parts):
        return Prefilter(strong, exact)
    texts = dict.fromkeys(part.text for part in parts if part.text != neutral.text)
    if len(texts) < 2:
        return Prefilter(next(iter(texts), neutral.text), exact)
    return Prefilter("(" + f" {word} ".join(texts) + ")", exact)


def _passed(text: str) -> Prefilter:
    """Return what matches if a CESQL expression is true."""
    expression = cesql.parse(text)
    names = {node.name for node in walk(expression.root) if isinstance(node, Attribute | Exists)}
    if not all(map(is_name, names)) or names & {*MADE_ALWAYS, OTHERS}:
        return ANYTHING
    translated = translate(expression).filter.text
    return _either((Prefilter(translated, False), Prefilter(NOT_PUBLISHED_AS_ONE, False)))


# --- conditions ----------------------------------------------------------------------------------


def _held(condition: Condition) -> Prefilter:
    name = condition.name
    if name == SPECVERSION:
        return ALL if condition.holds({SPECVERSION: VERSION}) else NONE
    if name == OTHERS:
        return ANYTHING
    exact, texts = True, [_as_text(condition)]
    if name not in ALWAYS_TEXTS:
        numbers, flags = _as_others(condition)
        texts += [*numbers, *flags]
        exact = not numbers
    if _REPLACED in condition.text:
        texts, exact = [f"{_quoted(name)} IS NOT NULL"], False
    if name in MADE or _may_be_default(condition):
        texts.append(NOT_PUBLISHED_AS_ONE)
        exact = False
    if name in MADE_ALWAYS:
        texts.append(f"{_quoted(name)} IS NULL")
    if name == "source" and not (
        condition.operator == "exact" and is_uri_reference(condition.text)
    ):
        exact = False
    return _either(Prefilter(text, exact) for text in texts)


def _missed(condition: Condition) -> Prefilter:
    held = _held(condition)
    if not held.exact:
        return ANYTHING
    if condition.name == SPECVERSION:
        return NONE if held == ALL else ALL
    name = _quoted(condition.name)
    others = [f"{name} IS NULL", f"NOT ({_as_text(condition)})", f"{name} < 0", f"{name} >= 0"]
    flags = [] if condition.name in ALWAYS_TEXTS else _as_others(condition)[1]
    others += [each for each in (f"{name} = TRUE", f"{name} = FALSE") if each not in flags]
    return _either(Prefilter(text, True) for text in others)


def _as_text(condition: Condition) -> str:
    name, text = _quoted(condition.name), condition.text
    if condition.operator == "exact":
        return f"{name} = {_literal(text)}"
    for character in "!%_":
        text = text.replace(character, "!" + character)
    pattern = f"{text}%" if condition.operator == "prefix" else f"%{text}"
    escape = " ESCAPE '!'" if "!" in text else ""
    return f"{name} LIKE {_literal(pattern)}{escape}"


def _as_others(condition: Condition) -> tuple[list[str], list[str]]:
    """Return texts for the Integers and the Booleans for which the condition may hold."""
    name, text = _quoted(condition.name), condition.text
    numbers = []
    if _DIGITS.fullmatch(text):
        if condition.operator != "exact":
            numbers = [f"{name} {_INT32}"]
        elif text == str(_integer(text)):
            numbers = [f"{name} = {text}"]
    flags = [
        f"{name} = {'TRUE' if flag else 'FALSE'}"
        for flag in (True, False)
        if condition.holds({condition.name: flag})
    ]
    return numbers, flags


def _integer(text: str) -> int:
    """Return the number that digits are, 0 if it is no Integer."""
    return int(text) if text.strip("-") and len(text) <= 11 else 0


def _may_be_default(condition: Condition) -> bool:
    """Return whether the condition may hold for what events get as `type` or `source`."""
    text, operator = condition.text, condition.operator
    if condition.name == "type":
        return condition.holds({"type": DEFAULT_TYPE})
    if condition.name != "source":
        return False
    if operator == "suffix" or text.startswith(DEFAULT_SOURCE):
        return True
    return operator == "prefix" and DEFAULT_SOURCE.startswith(text)


def _quoted(name: str) -> str:
    return f'"{name}"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
