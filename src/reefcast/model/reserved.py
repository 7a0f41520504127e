"""The topics that belong to brokers: those that begin with `$reefcast/`.

Advisory events have such topics. A filter *names* them if one of its alternatives demands a topic
below `$reefcast/`: `topic LIKE '$reefcast/%'` does, `TRUE`, `price > 0` and `topic NOT LIKE
'$reefcast/%'` do not. Only subscriptions that name them get them; so no other subscriber sees
advisory events because his filter happens to match everything."""

from __future__ import annotations

from collections.abc import Iterable

from reefcast.model.constraint import Constraint
from reefcast.model.filters import TOPIC, Filter
from reefcast.model.publication import Publication

RESERVED = "$reefcast/"
_BEHIND = "$reefcast0"
"""The first text behind all that begin with `RESERVED`."""
MAY_NOT_PUBLISH = (
    "topics that begin with '$reefcast/' are for what brokers say of themselves: choose another one"
)


def names_reserved(filter: Filter) -> bool:
    """Return whether a filter names reserved topics."""
    if RESERVED not in filter.text:  # nearly all
        return False
    return any(
        TOPIC in each.constraints and _is_within(each.constraints[TOPIC])
        for each in filter.conjunctions
    )


def _is_within(constraint: Constraint) -> bool:
    if constraint.members is not None:
        return any(isinstance(each, str) and is_reserved(each) for each in constraint.members)
    if any(is_reserved(each.text) and not each.negated for each in constraint.patterns):
        return True
    low, high = constraint.low, constraint.high
    return isinstance(low, str) and isinstance(high, str) and low >= RESERVED and high <= _BEHIND


def is_reserved(topic: object) -> bool:
    """Return whether a topic is the brokers'."""
    return isinstance(topic, str) and topic.startswith(RESERVED)


def any_reserved(topics: Iterable[str]) -> bool:
    """Return whether one of these topics is the brokers'."""
    return any(map(is_reserved, topics))


def claims_reserved(publication: Publication) -> bool:
    """Return whether a publication has a reserved topic, be it as the attribute `topic`."""
    return is_reserved(publication.attributes.get(TOPIC)) or any_reserved(publication.topics)
