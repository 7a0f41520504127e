"""Filters: a text of the filter language with its expression and its normal form."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from weakref import WeakValueDictionary

import msgspec

from reefcast.model.expression import Attributes, Expression, Literal, attributes_of, evaluate
from reefcast.model.language import parse
from reefcast.model.normal import Conjunction, normal_form
from reefcast.model.publication import Publication
from reefcast.model.values import plain

__all__ = ["TOPIC", "TRUE", "Conjunction", "Filter", "parse_filter"]

TOPIC = "topic"
"""The attribute of which a publication may have several values, its topics."""

LATEST = 1 << 12
"""Filters that are kept although nobody uses them: the latest that were asked for."""

_encode = msgspec.msgpack.Encoder(enc_hook=plain).encode


def pack(conjunctions: Iterable[Conjunction]) -> bytes:
    """Encode a normal form for indexes: in msgpack, for each conjunction whether it has residuals,
    and its constraints."""
    return _encode([(bool(c.residuals), c.constraints) for c in conjunctions])


class Filter:
    """A parsed filter; two filters with the same text are equal.

    `text` is what its author wrote, `expression` what it means, `conjunctions` its normal form (see
    `model.normal`), which is empty if the filter can never match, and `packed` the normal form as
    indexes read it.
    """

    __slots__ = ("__weakref__", "conjunctions", "expression", "packed", "text")

    text: str
    expression: Expression
    conjunctions: tuple[Conjunction, ...]
    packed: bytes

    def __init__(self, text: str, expression: Expression) -> None:
        """`parse_filter` is the way to a filter; `expression` is what `text` says."""
        self.text = text
        self.expression = expression
        self.conjunctions = normal_form(expression)
        self.packed = pack(self.conjunctions)

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


_used: WeakValueDictionary[str, Filter] = WeakValueDictionary()


@lru_cache(maxsize=LATEST)
def parse_filter(text: str) -> Filter:
    """Return the filter that `text` says. Raises `FilterSyntaxError`. While a filter is in use, the
    same text returns the same object; it is freed when nobody uses it."""
    filter = _used.get(text)
    if filter is None:
        filter = _used[text] = Filter(text, parse(text))
    return filter


TRUE = Filter("TRUE", Literal(True))
"""What everything satisfies; made without the parser, whose library takes its time to load."""
