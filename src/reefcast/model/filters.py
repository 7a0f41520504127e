"""Filters: a text of the filter language with its expression and its normal form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from weakref import WeakValueDictionary

import msgspec

from reefcast.model import plain
from reefcast.model.actions import MAX_DEPTH
from reefcast.model.constraint import Constraint
from reefcast.model.expression import (
    Attributes,
    Expression,
    Literal,
    attributes_of,
    evaluate,
    levels_of,
    to_sql,
)
from reefcast.model.hulls import hull_of
from reefcast.model.language import MAX_LENGTH, parse, read_quickly
from reefcast.model.normal import NEVER, Conjunction, Form, normal_form
from reefcast.model.program import Program, demanded, follows_from, program_of
from reefcast.model.publication import Publication
from reefcast.model.values import plain as plain_value

__all__ = [
    "TOPIC",
    "TRUE",
    "Conjunction",
    "Filter",
    "filter_of",
    "has_residuals",
    "hull",
    "is_plain",
    "pack",
    "packed_once",
    "parse_filter",
    "parse_quickly",
]

TOPIC = "topic"
"""The attribute that may have several values in a publication, its topics."""

LATEST = 1 << 12
"""How many filters are kept although nobody uses them: the latest that were asked for."""

LONG = 1 << 10
"""Characters of a filter that is not kept when nobody uses it: it may take a megabyte."""

UNDER_WAY = 64
"""How many filters keep their normal form at hand: parsed filters are usually put into indexes
next."""

_encode = msgspec.msgpack.Encoder(enc_hook=plain_value).encode


def pack(conjunctions: Iterable[Conjunction]) -> bytes:
    """Encode a normal form for indexes: in msgpack, for each conjunction the program of its
    residuals, or nil, and its constraints."""
    conjunctions = list(conjunctions)
    known: dict[int, tuple[Program | None, Mapping[str, Constraint]]] = {}
    for each in conjunctions:  # many of them may share their residuals
        if each.residuals and id(each.residuals) not in known:
            known[id(each.residuals)] = program_of(each.residuals), follows_from(each.residuals)
    return _encode([_packed(each, known) for each in conjunctions])


def _packed(
    conjunction: Conjunction, known: Mapping[int, tuple[Program | None, Mapping[str, Constraint]]]
) -> tuple[Program | None, Mapping[str, Constraint]]:
    if not conjunction.residuals:
        return None, conjunction.constraints
    program, follows = known[id(conjunction.residuals)]
    return program, demanded(conjunction.constraints, follows)


@lru_cache(maxsize=UNDER_WAY)
def _plain_form(text: str) -> Form | None:
    """Return the form of a plain filter; None for any other."""
    return plain.read(text)


class Filter:
    """A parsed filter; two filters with the same text are equal.

    `text` is what its author wrote, `expression` what it means, `conjunctions` its normal form (see
    `model.normal`), which is empty if the filter can never match, and `packed` the normal form as
    indexes read it.
    Of a plain filter (see `model.plain`) only the text is kept until somebody asks for the rest:
    a broker holds many.
    """

    __slots__ = ("__weakref__", "_conjunctions", "_expression", "_hull", "_packed", "text")

    text: str
    _expression: Expression | None
    _conjunctions: Form | None
    _packed: bytes | None
    _hull: Conjunction | None

    def __init__(self, text: str, expression: Expression | None = None) -> None:
        """Make a filter of `text`, which means `expression`; elsewhere use `parse_filter`."""
        self.text = text
        self._hull = None
        if expression is None and _plain_form(text) is not None:
            self._expression = self._conjunctions = self._packed = None
        else:
            self._expression = parse(text) if expression is None else expression
            self._conjunctions = normal_form(self._expression)
            self._packed = pack(self._conjunctions)

    @property
    def expression(self) -> Expression:
        """Return what the text says, as a tree."""
        if self._expression is None:
            self._expression = parse(self.text)
        return self._expression

    @property
    def conjunctions(self) -> Form:
        """Return the normal form: the filter holds where one of them does."""
        if self._conjunctions is None:
            self._conjunctions = _plain_form(self.text) or NEVER
        return self._conjunctions

    @property
    def packed(self) -> bytes:
        """Return the normal form as indexes read it."""
        if self._packed is None:
            self._packed = packed_once(self)
        return self._packed

    def holds(self, attributes: Attributes, topics: Collection[str] = ()) -> bool:
        """Return whether the filter is TRUE for these attributes, by name; None means missing.

        With topics, returns whether it is TRUE for one of them as the value of `topic`. This
        evaluates the expression: the slow, obvious twin of every index. Raises `InvalidValueError`
        for a value that no attribute can have, if the filter looks at it.
        """
        if not topics:
            return evaluate(self.expression, attributes) is True
        return any(
            evaluate(self.expression, {**attributes, TOPIC: topic}) is True for topic in topics
        )

    def matches(self, publication: Publication) -> bool:
        """Return whether the filter is TRUE for the publication's attributes and topics."""
        if self is TRUE:  # what most publishers advertise
            return True
        return self.holds(publication.attributes, publication.topics)

    def looks_at_topics(self) -> bool:
        """Return whether an event's topics can make a difference."""
        if self._conjunctions is None and TOPIC not in self.text:
            return False
        return any(
            TOPIC in c.constraints or any(TOPIC in attributes_of(r) for r in c.residuals)
            for c in self.conjunctions
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"


def packed_once(filter: Filter) -> bytes:
    """Return the packed form for one who asks once: the filter does not keep it."""
    if filter._packed is not None:
        return filter._packed
    return pack(_plain_form(filter.text) or NEVER)


def hull(filter: Filter) -> Conjunction:
    """Return one conjunction that holds wherever the filter does; the filter must not be one that
    never matches."""
    if filter._hull is None:
        conjunctions = filter.conjunctions
        if len(conjunctions) == 1:
            return conjunctions[0]
        filter._hull = hull_of(conjunctions)
    return filter._hull


def has_residuals(filter: Filter) -> bool:
    """Return whether some of it is left to be evaluated; of a plain filter nothing is."""
    form = filter._conjunctions
    return form is not None and any(conjunction.residuals for conjunction in form)


_used: WeakValueDictionary[str, Filter] = WeakValueDictionary()


def parse_filter(text: str) -> Filter:
    """Return the filter that `text` says. Raises `FilterSyntaxError`. While a filter is in use, the
    same text returns the same object; it is freed when nobody uses it."""
    return _latest(text) if len(text) <= LONG else _parsed(text)


@lru_cache(maxsize=LATEST)
def _latest(text: str) -> Filter:
    return _parsed(text)


def _parsed(text: str) -> Filter:
    filter = _used.get(text)
    if filter is None:
        filter = _used[text] = Filter(text)
    return filter


def parse_quickly(text: str) -> Filter | None:
    """Return what `parse_filter` returns; None if the text would take several times as long as
    others (see `language.read_quickly`)."""
    if text not in _used and _plain_form(text) is None:
        expression = read_quickly(text)
        if expression is None:
            return None
        if "${" in text:  # only a role's filter may have parameters, which `parse` says
            return parse_filter(text)
        read = Filter(text, expression)
        _used[text] = read  # as long as `read` is there
    return parse_filter(text)


def filter_of(expression: Expression) -> Filter:
    """Return the filter of an expression, as `parse_filter` does for its text; a long one is not
    parsed. Raises `FilterSyntaxError` if it is too long or too deep for a filter."""
    text = to_sql(expression)
    if not LONG < len(text) <= MAX_LENGTH or text in _used or levels_of(expression) > MAX_DEPTH:
        return parse_filter(text)
    filter = _used[text] = Filter(text, expression)
    return filter


def is_plain(filter: Filter) -> bool:
    """Return whether the filter is plain (see `model.plain`)."""
    return filter._expression is None or _plain_form(filter.text) is not None


TRUE = Filter("TRUE", Literal(True))
"""The filter that matches everything; made without the parser, whose library loads slowly."""
