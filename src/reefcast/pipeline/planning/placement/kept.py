"""Counting requests for the topics and patterns that storages keep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from reefcast.model.patterns import topic_pattern_covers
from reefcast.pipeline.planning.placement.inputs import RatesByBroker


def rates_of_kept(rates: RatesByBroker, kept: Collection[str]) -> RatesByBroker:
    """Return the rates of what is kept: requests for `orders/7` count for `orders/#`, if that is
    kept and nothing narrower; for what nobody keeps yet they count for itself. All that is kept is
    there, with 0 at every broker if nobody asks for it: it must be placed, too. Cost: topics asked
    for times topics kept."""
    found: dict[str, defaultdict[str, float]] = {}
    place: dict[str, str] = {}
    for broker, of_broker in rates.items():
        found[broker] = defaultdict(float)
        for topic, rate in of_broker.items():
            if topic not in place:
                place[topic] = _kept_as(topic, kept)
            found[broker][place[topic]] += rate
        for topic in kept:
            found[broker][topic] += 0.0
    return found


def _kept_as(topic: str, kept: Collection[str]) -> str:
    covering = [own for own in kept if topic_pattern_covers(own, topic)]
    narrowest = [
        own for own in covering if all(topic_pattern_covers(other, own) for other in covering)
    ]
    return min(narrowest or covering, default=topic)
