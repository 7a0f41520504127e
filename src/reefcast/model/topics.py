"""The topics that a filter is about."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from reefcast.model.constraint import Constraint
from reefcast.model.filters import TOPIC, Filter
from reefcast.model.patterns import topic_pattern_covers

CACHED = 1 << 16


@lru_cache(maxsize=CACHED)
def topics_of(filter: Filter) -> tuple[str, ...] | None:
    """Return the names of the topics that a filter is about, sorted; None if it does not say
    which."""
    found: set[str] = set()
    for conjunction in filter.conjunctions:
        constraint = conjunction.constraints.get(TOPIC)
        if constraint is None or constraint.members is None:
            return None
        found |= _members(constraint)
    return tuple(sorted(found))


@lru_cache(maxsize=CACHED)
def topic_patterns_of(filter: Filter) -> tuple[str, ...] | None:
    """Return the topics that a filter is about, as names and patterns of MATCHES, sorted, none of
    which covers another; None if the filter does not say which. A name that contains a wildcard
    counts as a pattern, and asks for more than the filter matches."""
    found: set[str] = set()
    for conjunction in filter.conjunctions:
        constraint = conjunction.constraints.get(TOPIC)
        topics = None if constraint is None else _meant(constraint)
        if topics is None:
            return None
        found |= topics
    return tuple(
        sorted(
            topic
            for topic in found
            if not any(other != topic and topic_pattern_covers(other, topic) for other in found)
        )
    )


def _meant(constraint: Constraint) -> set[str] | None:
    if constraint.members is not None:
        return _members(constraint)
    matches = [p for p in constraint.patterns if p.operator == "MATCHES" and not p.negated]
    return {matches[0].text} if matches else None


def _members(constraint: Constraint) -> set[str]:
    return {member for member in constraint.members or () if isinstance(member, str)}


def topic_filter(topics: Iterable[str]) -> str:
    """Return the text of a filter for all events published under these names and patterns."""
    quoted = ["'" + topic.replace("'", "''") + "'" for topic in topics]
    return " OR ".join(f"topic MATCHES {text}" for text in quoted)
