"""Who publishes, who subscribes to what, and where: the stock workload of section 10.

Every publisher has a symbol of its own and advertises a conjunction of seven predicates: the symbol
and the range of each attribute in its history. A subscription is a conjunction of seven too: it
names k symbols and ranges that contain those of all k, so that it matches exactly k publishers, and
each of their publications. A share of the subscriptions names the symbol of the *burst publisher*
(the paper's HRP, high-rate publisher) as well.

One seed gives one market, whatever the routing: runs of two routings are pairs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reefcast.errors import ConfigurationError
from reefcast.model.publication import Value
from reefcast.overlay.scot import Scot
from reefcast.simulation.simulation import Simulation
from reefcast_lab.experiments.octopia.parameters import section, stock_statistics, stocks_file
from reefcast_lab.experiments.octopia.stocks import NUMBERS, Quotes, generate_quotes, read_quotes

SLACK = 0.05
"""A subscription's range is wider at each end by up to this share of it: no two are the same."""


@dataclass(frozen=True)
class Publisher:
    """It publishes its symbol's quotes day after day, from `first_day` on."""

    name: str
    broker: str
    quotes: Quotes
    first_day: int

    @property
    def advertisement(self) -> str:
        terms = [_between(name, low, high) for name, (low, high) in self.quotes.ranges().items()]
        return " AND ".join([f"symbol = {_quoted(self.quotes.symbol)}", *terms])

    def events(self, number: int) -> list[dict[str, Value]]:
        """Return the attributes of its first publications; those of the same day are the same
        object."""
        days = [self.quotes.event(day) for day in range(min(number, len(self.quotes)))]
        return [days[(self.first_day + i) % len(days)] for i in range(number)]


@dataclass(frozen=True)
class Subscriber:
    """`matches`: numbers of the publishers that it wants; `burst`: and the burst publisher."""

    name: str
    broker: str
    filter: str
    matches: tuple[int, ...]
    burst: bool


@dataclass(frozen=True)
class Market:
    """`burst` is the high-rate publisher, where the market has one."""

    publishers: tuple[Publisher, ...]
    subscribers: tuple[Subscriber, ...]
    burst: Publisher | None

    def advertise(self, simulation: Simulation, from_s: float, gap_s: float) -> float:
        """Let all publishers advertise, one every `gap_s`; return when the next one would."""
        publishers = [*self.publishers, *([self.burst] if self.burst else [])]
        for i, one in enumerate(publishers):
            simulation.advertise(one.name, one.broker, one.advertisement, from_s + i * gap_s)
        return from_s + len(publishers) * gap_s

    def subscribe(
        self, simulation: Simulation, from_s: float, gap_s: float, rng: random.Random
    ) -> float:
        """Let all subscribers subscribe at random instants, `gap_s` apart in the mean; return the
        last."""
        at_s = from_s
        for one in self.subscribers:
            at_s += rng.expovariate(1 / gap_s)
            simulation.subscribe(one.name, one.broker, one.filter, at_s)
        return at_s


def market(
    scot: Scot,
    *,
    publishers: int,
    subscribers: int,
    seed: int,
    selectivity: float = 1.0,
    burst_share: float = 0.0,
) -> Market:
    """Place publishers and subscribers at brokers drawn evenly. `selectivity`: share of the
    publishers that a subscription matches, `burst_share`: share of the subscriptions that also
    match the burst publisher, if above 0: at least one in each cluster, none at its own broker.
    Raises `ConfigurationError` if there are fewer symbols than publishers."""
    rng = random.Random(f"{seed}/octopia/market")
    brokers = list(scot.graph)
    wanted = publishers + (burst_share > 0)
    stocks = _stocks(wanted, rng, seed)
    made = [
        Publisher(f"p{i:03d}", rng.choice(brokers), quotes, rng.randrange(len(quotes)))
        for i, quotes in enumerate(stocks)
    ]
    burst = made.pop() if burst_share > 0 else None
    homes = [rng.choice(brokers) for _ in range(subscribers)]
    bursty = _burst_subscribers(scot, homes, burst, burst_share, rng)
    matches = max(1, round(selectivity * publishers))
    all_subscribers = []
    for i, home in enumerate(homes):
        numbers = tuple(sorted(rng.sample(range(publishers), matches)))
        chosen = [made[number].quotes for number in numbers]
        if burst is not None and i in bursty:
            chosen.append(burst.quotes)
        text = _subscription(chosen, rng)
        all_subscribers.append(Subscriber(f"s{i:05d}", home, text, numbers, i in bursty))
    return Market(tuple(made), tuple(all_subscribers), burst)


def _burst_subscribers(
    scot: Scot, homes: Sequence[str], burst: Publisher | None, share: float, rng: random.Random
) -> set[int]:
    """Return the numbers of the subscriptions that match the burst; the first one drawn of each
    cluster comes first."""
    if burst is None:
        return set()
    drawn = [i for i, home in enumerate(homes) if home != burst.broker]
    rng.shuffle(drawn)
    first = {scot.places[homes[i]].cluster: i for i in reversed(drawn)}
    if len(first) < scot.clusters:
        raise ConfigurationError(
            f"{len(homes)} subscribers leave a cluster empty; the burst needs one in each"
        )
    chosen = dict.fromkeys([*sorted(first.values()), *drawn])
    return set(list(chosen)[: max(scot.clusters, round(share * len(homes)))])


def _stocks(wanted: int, rng: random.Random, seed: int) -> list[Quotes]:
    """Return histories of so many different symbols: first those of the file, if one is named, then
    made-up ones."""
    entries = section("stocks")
    if wanted > entries.symbols + 1:
        raise ConfigurationError(
            f"{wanted} publishers need as many symbols, and there are {entries.symbols}"
        )
    path = stocks_file()
    known = list(read_quotes(path)) if path else []
    rng.shuffle(known)
    missing = wanted - len(known)
    if missing <= 0:
        return known[:wanted]
    names = [f"X{i:03d}" for i in range(missing)]
    generator = np.random.default_rng(seed)
    return known + generate_quotes(names, entries.days, stock_statistics(), generator)


def _subscription(chosen: Sequence[Quotes], rng: random.Random) -> str:
    symbols = ", ".join(_quoted(quotes.symbol) for quotes in chosen)
    ranges = [quotes.ranges() for quotes in chosen]
    terms = []
    for name in NUMBERS:
        low, high = min(r[name][0] for r in ranges), max(r[name][1] for r in ranges)
        width = max(high - low, 0.01)
        low -= SLACK * width * rng.random()
        high += SLACK * width * rng.random()
        terms.append(_between(name, round(low, 6), round(high, 6)))
    return " AND ".join([f"symbol IN ({symbols})", *terms])


def _between(name: str, low: float, high: float) -> str:
    return f"{name} BETWEEN {low!r} AND {high!r}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
