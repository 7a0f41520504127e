"""Keys of retained values: what a publication is the last value of.

A key is a topic, or names and values of attributes. It is derived from the publication, by client
and brokers alike, so that nobody can say one thing and publish another. Numbers that filters find
equal (1 and 1.0, 0.0 and -0.0) make the same key; 1, TRUE and '1' make three.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

import msgspec

from reefcast.errors import ConfigurationError
from reefcast.model.publication import INT64_MAX, INT64_MIN, Publication, Value

Key = bytes
By = tuple[str, ...]
"""The names of the attributes that make the key, sorted; none: the topic makes it."""

_encode = msgspec.msgpack.Encoder().encode


def names_of(by: Iterable[str]) -> By:
    """Return names of attributes in the form in which they travel."""
    return tuple(sorted(set(by)))


def key_of(publication: Publication, by: By) -> Key:
    """Return the key of a publication. Raises `ConfigurationError` if it has none, or several."""
    if by:
        return key_by_attributes(
            {name: publication.attributes[name] for name in by if name in publication.attributes},
            by,
        )
    if len(publication.topics) != 1:
        has = f"{len(publication.topics)} topics" if publication.topics else "no topic"
        raise ConfigurationError(
            f"a publication is retained under its topic, and this one has {has}: give it exactly "
            'one, topics=["..."], or name the attributes that make its key, retain=("symbol",)'
        )
    return key_by_topic(publication.topics[0])


def key_by_topic(topic: str) -> Key:
    """Return the key of what is retained under a topic."""
    return _encode(topic)


def key_by_attributes(values: Mapping[str, Value], by: By) -> Key:
    """Return the key that the attributes `by` make with these values. Raises
    `ConfigurationError`."""
    missing = [name for name in by if name not in values]
    if missing:
        raise ConfigurationError(
            f"a publication is retained under its attributes {', '.join(by)}, and this one has no "
            + " and no ".join(missing)
        )
    return _encode([[name, _canonical(name, values[name])] for name in by])


def _canonical(name: str, value: Value) -> Value:
    if not isinstance(value, float):
        return value
    if not isfinite(value):
        raise ConfigurationError(
            f"attribute {name!r} is {value}, which makes no key: retain under another attribute"
        )
    whole = int(value)
    return whole if whole == value and INT64_MIN <= whole <= INT64_MAX else value
