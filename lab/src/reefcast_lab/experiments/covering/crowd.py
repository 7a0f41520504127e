"""Subscriptions of a given covering degree, and publications of a given selectivity.

The covering degree is the mean of |NRS(S)| over the root subscriptions S (paper, VI-A). Here it is
exact, and the same for every root: a root wants a *class* at any price; `degree` others want it at
prices of an interval each. These intervals are equally wide and no two the same, so that none of
them covers another: they become roots when theirs goes. Filters left over once all roots have
theirs want a narrower interval within that of one of these, and become no roots.

A publication is of one class and one price, drawn evenly. So it matches the root of its class, and
each subscription under it with probability `selectivity`, by the width of the intervals.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from reefcast.errors import ConfigurationError
from reefcast.matching.cover import Roots, new_roots
from reefcast.model.filters import Filter, parse_filter
from reefcast_lab.experiments.covering.topology import Topology, cluster
from reefcast_lab.experiments.script import Claim, Event

PRICES = 1_000_000
"""Prices are whole numbers from 0 up to this one."""
ADVERTISEMENT = f"class IS NOT NULL AND price BETWEEN 0 AND {PRICES - 1}"
PROBES = -1
"""The number of the class of probes, which a subscriber at every broker that has any wants."""

Place = Callable[[int], str]
"""Where the next subscription of a class sits."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """`klass`: the number of its class; `root`: whether it is the root of it; prices from `low` to
    `high`."""

    client: str
    broker: str
    filter: str
    klass: int
    root: bool
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class Stream:
    """Publications as columns: which publisher, class (`PROBES`: of a probe) and price, and when.
    `first`: the number of the first of them."""

    publishers: tuple[tuple[str, str], ...]
    publisher: NDArray[np.int64]
    klass: NDArray[np.int64]
    price: NDArray[np.int64]
    at_s: NDArray[np.float64]
    first: int = 0

    def __len__(self) -> int:
        return len(self.at_s)

    @property
    def until_s(self) -> float:
        """When the last of them is published."""
        return float(self.at_s[-1]) if len(self) else -math.inf

    def part(self, begin: int, end: int) -> Stream:
        """Return the publications from number `begin` to before `end`."""
        cut = slice(begin, end)
        columns = (self.publisher[cut], self.klass[cut], self.price[cut], self.at_s[cut])
        return Stream(self.publishers, *columns, self.first + begin)

    def merged(self, other: Stream) -> Stream:
        """Return both, in the order of time; of two at one time its own one first."""
        mine, theirs = (
            (each.publisher, each.klass, each.price, each.at_s) for each in (self, other)
        )
        order = np.argsort(np.concatenate((self.at_s, other.at_s)), kind="stable")
        publisher, klass, price, at_s = (
            np.concatenate(pair)[order] for pair in zip(mine, theirs, strict=True)
        )
        return Stream(self.publishers, publisher, klass, price, at_s)

    def events(self) -> Iterator[Event]:
        columns = (self.publisher, self.klass, self.price, self.at_s)
        for place, klass, price, at_s in zip(*(each.tolist() for each in columns), strict=True):
            client, broker = self.publishers[place]
            yield Event(client, broker, {"class": _class(klass), "price": price}, at_s)


@dataclass(frozen=True)
class Crowd:
    """`subscriptions` in the order in which they are made; `probes`: those for probes, which no
    other one covers or is covered by. Every publisher advertises all classes."""

    publishers: tuple[tuple[str, str], ...]
    subscriptions: tuple[Subscription, ...]
    probes: tuple[Subscription, ...]
    classes: int

    @property
    def roots(self) -> list[Subscription]:
        return [one for one in self.subscriptions if one.root]

    def of_class(self, number: int) -> list[Subscription]:
        return self._by_class.get(number, [])

    @cached_property
    def _by_class(self) -> dict[int, list[Subscription]]:
        found: dict[int, list[Subscription]] = {PROBES: list(self.probes)}
        for one in self.subscriptions:
            found.setdefault(one.klass, []).append(one)
        return found

    def advertisements(self, gap_s: float) -> list[Claim]:
        """Return the claims of all publishers, which advertise one every `gap_s`."""
        return [
            Claim(client, broker, ADVERTISEMENT, i * gap_s, advertises=True)
            for i, (client, broker) in enumerate(self.publishers)
        ]

    def claims(
        self,
        from_s: float,
        gap_s: float,
        until: Callable[[Subscription], float],
        *,
        roots_first: bool = False,
    ) -> list[Claim]:
        """Return the claims of the probes and then of all others, which subscribe one every
        `gap_s`; `until`: when one leaves, inf for never. `roots_first`: what is covered in the end
        is covered from the beginning. With strategies that withdraw what is covered, tables are the
        same afterwards, after half of the messages."""
        others = self.subscriptions
        if roots_first:
            others = tuple(sorted(others, key=lambda one: not one.root))
        return [
            Claim(one.client, one.broker, one.filter, from_s + i * gap_s, until(one))
            for i, one in enumerate((*self.probes, *others))
        ]

    def leavers(self, number: int, seed: int) -> list[Subscription]:
        """Return who unsubscribes: roots in random order, then others."""
        rng = random.Random(f"{seed}/covering/leavers")
        roots, others = self.roots, [one for one in self.subscriptions if not one.root]
        rng.shuffle(roots)
        missing = max(0, number - len(roots))
        return roots[:number] + rng.sample(others, missing)

    def events(self, number: int, from_s: float, gap_s: float, seed: int) -> Iterator[Event]:
        """Yield publications of the publishers in turn, one every `gap_s`."""
        return self.stream(number, from_s, gap_s, seed).events()

    def stream(self, number: int, from_s: float, gap_s: float, seed: int) -> Stream:
        """Make the publications of `events`."""
        rng = random.Random(f"{seed}/covering/events")
        drawn = [(rng.randrange(self.classes), rng.randrange(PRICES)) for _ in range(number)]
        klass, price = np.array(drawn, np.int64).reshape(number, 2).T
        turn = np.arange(number)
        return Stream(
            self.publishers,
            turn % len(self.publishers),
            klass,
            price,
            np.asarray(from_s + turn * gap_s, np.float64),
        )

    def probe_stream(self, number: int, from_s: float, gap_s: float) -> Stream:
        """Make publications of the publishers in turn for a subscriber at every broker that has
        any, one every `gap_s`."""
        turn = np.arange(number)
        return Stream(
            self.publishers,
            turn % len(self.publishers),
            np.full(number, PROBES),
            np.zeros(number, np.int64),
            np.asarray(from_s + turn * gap_s, np.float64),
        )


def workload(
    topology: Topology,
    *,
    subscriptions: int,
    degree: int,
    selectivity: float,
    seed: int,
    clustered: bool = False,
) -> Crowd:
    """Make that many subscriptions of this covering degree, in random order, and a publisher at
    each broker for publishers. They are at brokers for subscribers drawn evenly, or (`clustered`)
    those of a class within a cluster of adjacent brokers (Fig. 16). Raises `ConfigurationError` for
    a degree that they cannot have, and for intervals that cannot all be different."""
    _check(subscriptions, degree, selectivity)
    rng = random.Random(f"{seed}/covering/workload")
    classes = subscriptions // (degree + 1)
    place = _clusters(topology, classes, rng) if clustered else _anywhere(topology, rng)
    filters = list(_filters(subscriptions, degree, selectivity, rng))
    rng.shuffle(filters)
    made = [
        Subscription(f"s{i:05d}", place(klass), _wanted(klass, low, high), klass, root, low, high)
        for i, (klass, root, low, high) in enumerate(filters)
    ]
    return Crowd(
        publishers=tuple((f"p{i}", broker) for i, broker in enumerate(topology.publishers)),
        subscriptions=tuple(made),
        probes=tuple(_probe(broker) for broker in topology.subscribers),
        classes=classes,
    )


def _check(subscriptions: int, degree: int, selectivity: float) -> None:
    if not 0 <= degree < subscriptions:
        raise ConfigurationError(
            f"{subscriptions} subscriptions cannot have a covering degree of {degree}: there must "
            "be more of them than that"
        )
    width = round(selectivity * PRICES)
    if not (width >= 2 and degree <= PRICES - width):
        raise ConfigurationError(
            f"no {degree} intervals of prices match a share of {selectivity} of the publications "
            f"each; give a selectivity from {2 / PRICES} to {1 - degree / PRICES}"
        )


def _probe(broker: str) -> Subscription:
    wanted = f"class = '{_class(PROBES)}'"
    return Subscription(f"probe-{broker}", broker, wanted, PROBES, False, 0, PRICES - 1)


def _class(number: int) -> str:
    return "probe" if number == PROBES else f"c{number:04d}"


def _filters(
    subscriptions: int, degree: int, selectivity: float, rng: random.Random
) -> Iterator[tuple[int, bool, int, int]]:
    """Yield (class, whether it is a root, its least price, its largest)."""
    width = round(selectivity * PRICES)
    classes = subscriptions // (degree + 1)
    over = subscriptions - classes * (degree + 1)
    for klass in range(classes):
        yield klass, True, 0, PRICES - 1
        lows = rng.sample(range(PRICES - width + 1), degree)
        for low in lows:
            yield klass, False, low, low + width - 1
        for low in lows[: len(range(klass, over, classes))]:
            yield klass, False, low, low + width - 2


def _wanted(klass: int, low: int, high: int) -> str:
    return f"class = '{_class(klass)}' AND price BETWEEN {low} AND {high}"


def _anywhere(topology: Topology, rng: random.Random) -> Place:
    return lambda klass: rng.choice(topology.subscribers)


def _clusters(topology: Topology, classes: int, rng: random.Random) -> Place:
    clusters = [cluster(topology, rng) for _ in range(classes)]
    return lambda klass: rng.choice(clusters[klass])


def covering_degree(filters: Iterable[str]) -> float:
    """Measure the mean of |NRS(S)| over the root subscriptions: each root is removed, found to make
    others roots, and added again. For few roots: 80 000 filters of 38 roots take some seconds."""
    roots: Roots[int] = new_roots()
    known = [parse_filter(text) for text in filters]
    for key, filter in enumerate(known):
        roots.add(key, filter)
    triggered = [_triggered(roots, key, known[key]) for key in list(roots.keys())]
    return fmean(triggered) if triggered else 0.0


def _triggered(roots: Roots[int], key: int, filter: Filter) -> int:
    change = roots.remove(key)
    roots.add(key, filter)
    return len(change.entered)
