"""Roots and what they cover: subscriptions of a given covering degree, spread over an overlay.

A root wants all of its class; the subscriptions that it covers want an interval of prices each,
all as wide as each other, so that none of them covers another. With a degree of 0 there are roots
alone. Only subscriptions of one cluster meet: those of a class stand all in one (together), or
anywhere (spread).
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from reefcast_lab.experiments.parameters import Section


class Wish(NamedTuple):
    """A subscription of a client of its own: a class, and prices from `low` to `high`."""

    client: str
    broker: str
    kind: int
    low: int
    high: int
    root: bool

    @property
    def filter(self) -> str:
        return f"class = {self.kind} AND price BETWEEN {self.low} AND {self.high}"


class Event(NamedTuple):
    kind: int
    price: int


def wishes(
    clusters: Sequence[Sequence[str]], entries: Section, degree: int, seed: int
) -> list[Wish]:
    """Draw the subscriptions, in the order in which they are made; those of a class stand at
    brokers of one of the `clusters`."""
    rng = random.Random(f"{seed}/clusters/wishes")
    most = entries.prices - 1
    width = round(entries.width * entries.prices)
    drawn = []
    for number in range(entries.subscriptions):
        kind, place = divmod(number, degree + 1)
        low = 0 if place == 0 else rng.randrange(entries.prices - width)
        high = most if place == 0 else low + width - 1
        name = f"s{number:05d}"
        drawn.append(
            Wish(name, rng.choice(clusters[kind % len(clusters)]), kind, low, high, root=place == 0)
        )
    rng.shuffle(drawn)
    return drawn


def owed(wanted: Iterable[Wish], events: Iterable[Event]) -> int:
    """Return how many deliveries these events are."""
    prices: dict[int, list[int]] = defaultdict(list)
    for event in events:
        prices[event.kind].append(event.price)
    for each in prices.values():
        each.sort()
    return sum(
        bisect_right(prices[one.kind], one.high) - bisect_right(prices[one.kind], one.low - 1)
        for one in wanted
    )
