"""Workloads: who subscribes to what, and who publishes what and when.

The generated one resembles the stock quotes of the papers: seven numeric attributes, and
subscriptions that bound each of them so that a publication satisfies a given share of them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reefcast.errors import ConfigurationError
from reefcast.model.filters import TOPIC
from reefcast.model.publication import Value
from reefcast.simulation.simulation import Simulation

if TYPE_CHECKING:
    import pyarrow as pa

ATTRIBUTES = ("open", "high", "low", "close", "volume", "change", "turnover")
SETTLE_S = 1.0
"""Time before the first publication, in which subscriptions and advertisements settle."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    client: str
    broker: str
    filter: str


@dataclass(frozen=True, slots=True)
class Event:
    """`at_s`: after the first one."""

    client: str
    broker: str
    at_s: float
    attributes: dict[str, Value]
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    subscribers: Sequence[Subscriber]
    events: Sequence[Event]

    def load(self, simulation: Simulation, settle_s: float = SETTLE_S) -> list[int]:
        """Load the workload into a simulation; return the handles of the subscriptions. Every
        publisher advertises TRUE; all claims are made in the first half of `settle_s`."""
        publishers = {event.client: event.broker for event in self.events}
        claims = len(publishers) + len(self.subscribers)
        step = 0.5 * settle_s / max(claims, 1)
        for i, (client, broker) in enumerate(sorted(publishers.items())):
            simulation.advertise(client, broker, "TRUE", i * step)
        handles = [
            simulation.subscribe(s.client, s.broker, s.filter, (len(publishers) + i) * step)
            for i, s in enumerate(self.subscribers)
        ]
        for event in self.events:
            simulation.publish(
                event.client,
                event.broker,
                event.attributes,
                settle_s + event.at_s,
                topics=event.topics,
            )
        return handles


def stock_filter(rng: random.Random, selectivity: float) -> str:
    """Return a filter of seven intervals over 0..1; uniformly drawn events satisfy it with
    probability `selectivity`."""
    width = selectivity ** (1 / len(ATTRIBUTES))
    terms = []
    for name in ATTRIBUTES:
        low = rng.uniform(0.0, 1.0 - width)
        terms.append(f"{name} BETWEEN {low:.6f} AND {low + width:.6f}")
    return " AND ".join(terms)


def stock_event(rng: random.Random) -> dict[str, Value]:
    return {name: round(rng.random(), 6) for name in ATTRIBUTES}


def stock_workload(
    brokers: Iterable[str],
    *,
    subscriptions: int,
    publications: int,
    rate_per_s: float,
    seed: int,
    publishers: int = 10,
    selectivity: float = 0.02,
    topics: int = 0,
) -> Workload:
    """Return subscribers and publishers at brokers drawn uniformly, one subscription each, and
    publications at random instants (Poisson), by publishers drawn uniformly. With `topics`, each
    publication and subscription is about one of so many, drawn uniformly: t1, t2 and so on."""
    names = list(brokers)
    if not (0 < selectivity <= 1 and rate_per_s > 0 and publishers > 0):
        raise ConfigurationError(
            "a workload needs a selectivity above 0 and up to 1, a rate and publishers above 0"
        )
    rng = random.Random(f"{seed}/workload")
    within = min(selectivity * max(topics, 1), 1.0)
    subscribers = [
        Subscriber(f"s{i}", rng.choice(names), stock_filter(rng, within))
        for i in range(subscriptions)
    ]
    homes = [(f"p{i}", rng.choice(names)) for i in range(publishers)]
    events = []
    at_s = 0.0
    for _ in range(publications):
        client, broker = rng.choice(homes)
        events.append(Event(client, broker, at_s, stock_event(rng)))
        at_s += rng.expovariate(rate_per_s)
    workload = Workload(subscribers, events)
    return about(workload, [f"t{i + 1}" for i in range(topics)], rng) if topics else workload


def about(workload: Workload, topics: Sequence[str], rng: random.Random) -> Workload:
    """Return the workload with one of these topics for each subscription and event."""
    subscribers = [
        replace(s, filter=f"topic = '{rng.choice(topics)}' AND {s.filter}")
        for s in workload.subscribers
    ]
    events = [replace(event, topics=(rng.choice(topics),)) for event in workload.events]
    return Workload(subscribers, events)


def read_workload(
    subscriptions: Path,
    events: Path,
    brokers: Sequence[str],
    *,
    publications: int,
    publishers: int,
    rate_per_s: float,
    seed: int,
) -> Workload:
    """Read a workload from Parquet: subscriptions with the columns `filter`, `broker`, `client`;
    events whose columns are attributes, but for `event` and `time_us`, by which they are ordered.

    Publishers sit at brokers drawn evenly and take turns; events are published evenly in time.
    Raises `ConfigurationError` for a file without these columns, and for one that is no Parquet.
    """
    rows = _read_parquet(subscriptions)
    missing = {"filter", "broker", "client"} - set(rows.column_names)
    if missing:
        raise ConfigurationError(
            f"{subscriptions}: there is no column {', '.join(sorted(missing))}"
        )
    rng = random.Random(f"{seed}/workload")
    homes = [(f"p{i}", rng.choice(brokers)) for i in range(publishers)]
    table = _read_parquet(events)
    order = [name for name in ("time_us", "event") if name in table.column_names]
    if order:
        table = table.sort_by([(name, "ascending") for name in order])
    attributes = table.slice(0, publications).drop_columns(order).to_pylist()
    subscribers = [
        Subscriber(row["client"], row["broker"], row["filter"])
        for row in rows.select(["client", "broker", "filter"]).to_pylist()
    ]
    return Workload(
        subscribers,
        [
            Event(*homes[i % publishers], i / rate_per_s, row, _topics(row.pop(TOPIC, None)))
            for i, row in enumerate(attributes)
        ],
    )


def _topics(value: str | list[str] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise ConfigurationError(f"{path} is not a Parquet file: {error}") from error
