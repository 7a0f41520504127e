"""Topics, their publishers, and clients that want some of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reefcast.simulation.simulation import Simulation
from reefcast_lab.experiments.octopia.measuring import MeasuringKernel
from reefcast_lab.experiments.skew.parameters import section
from reefcast_lab.workloads.draws import zipf

START_S = 1.0
GAP_S = 0.2
"""Between two advertisements: no congestion."""
SUBSCRIPTION_GAP_S = 0.05
SETTLE_S = 5.0
PAYLOAD = bytes(89)
"""Makes an event about as long as OctopiA's, by which the rate of senders is given."""


class Interest(NamedTuple):
    """What one client wants, and where it is."""

    topics: tuple[int, ...]
    broker: str

    @property
    def filter(self) -> str:
        return f"about IN ({', '.join(map(str, self.topics))})"


@dataclass(frozen=True)
class Crowd:
    """`homes`: the brokers of the topics' publishers; `chances`: of an event, to be about each
    topic."""

    homes: Sequence[str]
    interests: Sequence[Interest]
    chances: Sequence[float]

    def settle(self, simulation: Simulation) -> tuple[list[int], float]:
        """Have all advertise, then subscribe, without congestion; return the handles of the
        subscriptions, and the time at which all has settled."""
        for topic, home in enumerate(self.homes):
            at_s = START_S + topic * GAP_S
            simulation.advertise(f"p{topic}", home, f"about = {topic}", at_s)
        at_s = START_S + len(self.homes) * GAP_S + SETTLE_S
        handles = []
        for number, interest in enumerate(self.interests):
            name = f"s{number}"
            handles.append(simulation.subscribe(name, interest.broker, interest.filter, at_s))
            at_s += SUBSCRIPTION_GAP_S
        simulation.advance(until_s=at_s + SETTLE_S)
        return handles, at_s + SETTLE_S

    def publish(
        self, simulation: Simulation, from_s: float, lasts_s: float, rate_per_s: float, seed: int
    ) -> Counter[int]:
        """Publish at random instants about topics drawn by their chances; return how many events
        each topic has."""
        rng = random.Random(f"{seed}/skew/publications")
        counted: Counter[int] = Counter()
        at_s = from_s + rng.expovariate(rate_per_s)
        while at_s < from_s + lasts_s:
            (topic,) = rng.choices(range(len(self.homes)), self.chances)
            counted[topic] += 1
            home = self.homes[topic]
            simulation.publish(f"p{topic}", home, {"about": topic}, at_s, payload=PAYLOAD)
            at_s += rng.expovariate(rate_per_s)
        return counted


def crowd(brokers: Sequence[str], scale: str, seed: int, exponent: float = 0.0) -> Crowd:
    """Draw a crowd: publishers at brokers drawn evenly; interests whose topics and brokers are
    drawn by Zipf's law, each by a ranking of its own; events are about topics by the same law: what
    is wanted most is published most. The topics that are wanted at a broker are spread over clients
    there, each of them once: else brokers would be busy handing events to clients, which no choice
    of links changes."""
    entries = section("crowd", scale)
    rng = random.Random(f"{seed}/skew/crowd")
    homes = [rng.choice(list(brokers)) for _ in range(entries.topics)]
    topics, places = list(range(entries.topics)), list(brokers)
    rng.shuffle(topics)
    rng.shuffle(places)
    number = entries.interests
    by_rank = zipf(len(topics), exponent).tolist()
    about = rng.choices(topics, by_rank, k=number)
    where = rng.choices(places, zipf(len(places), exponent).tolist(), k=number)
    chance = dict(zip(topics, by_rank, strict=True))
    wanted: dict[str, dict[int, None]] = {}
    for topic, broker in zip(about, where, strict=True):
        wanted.setdefault(broker, {})[topic] = None
    most = entries.topics_of_client
    interests = [
        Interest(tuple(those)[first : first + most], broker)
        for broker, those in wanted.items()
        for first in range(0, len(those), most)
    ]
    return Crowd(homes, interests, [chance[topic] for topic in range(len(homes))])


def load_figures(kernel: MeasuringKernel) -> dict[str, float]:
    """Measure how evenly publications spread over directed links, and over brokers: the most over
    the mean (1 is even); and the mean length of a link's queue when a publication came onto it."""
    queues = kernel.queues()
    put = np.array([count for count, _, _ in queues.values()], dtype=np.float64)
    sent: Counter[str] = Counter()
    for (source, _), (count, _, _) in queues.items():
        sent[source] += count
    by_broker = np.array([sent[name] for name in kernel.nodes], dtype=np.float64)
    return {
        "link_imbalance": float(put.max() / put.mean()),
        "broker_imbalance": float(by_broker.max() / by_broker.mean()),
        "queue_len": sum(total for _, total, _ in queues.values()) / max(1.0, float(put.sum())),
    }


def delay_figures(kernel: MeasuringKernel, from_s: float) -> dict[str, float]:
    """Measure the delays of all that was delivered from that time on: mean, 99th percentile."""
    delivered = kernel.record.in_order()
    later = delivered.at_s >= from_s
    delay_s = np.repeat(delivered.delay_s[later], delivered.width[later])
    return {
        "delay_s": float(delay_s.mean()),
        "delay_99_s": float(np.quantile(delay_s, 0.99)),
    }
