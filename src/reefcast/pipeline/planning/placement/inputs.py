"""The inputs of a placement: the overlay, the requests for each topic, and the limits."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reefcast.errors import ConfigurationError
from reefcast.network.plan_file import PlannedStorage
from reefcast.overlay.topology import Graph, hops_from, is_connected

Rates = NDArray[np.float64]
RatesByBroker = Mapping[str, Mapping[str, float]]
"""Requests a second, by broker and topic; what is missing is 0."""

Placement = Mapping[str, tuple[str, ...]]
"""The brokers whose storages keep a topic, by topic."""


@dataclass(frozen=True)
class Inputs:
    """rates: requests a second, [topic, broker], in the order of `topics` and of the graph.

    copies: storages that keep a topic (k of the paper); capacity: topics that a storage keeps (CL);
    storages: how many there are (M).
    """

    graph: Graph
    topics: tuple[str, ...]
    rates: Rates
    copies: int
    capacity: int
    storages: int

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(self.graph)

    @cached_property
    def hops(self) -> NDArray[np.int64]:
        """The distances from one broker to another: [broker, broker]."""
        brokers = self.brokers
        found = [hops_from(self.graph, one) for one in brokers]
        return np.array([[hops[other] for other in brokers] for hops in found], np.int64)


def inputs(
    graph: Graph,
    rates: RatesByBroker,
    copies: int,
    capacity: int,
    storages: int | None = None,
) -> Inputs:
    """Return the inputs of a placement of all topics that `rates` names, in the order of their
    names; `storages`: by default as few as can keep all copies.

    Raises `ConfigurationError`, with the numbers, for what no placement can fulfil.
    """
    topics = tuple(sorted({topic for of_broker in rates.values() for topic in of_broker}))
    for broker in rates:
        if broker not in graph:
            raise ConfigurationError(f"requests at {broker!r}: there is no such broker")
    table = [[_rate(rates, broker, topic) for broker in graph] for topic in topics]
    return checked(graph, topics, np.array(table, np.float64), copies, capacity, storages)


def _rate(rates: RatesByBroker, broker: str, topic: str) -> float:
    rate = float(rates.get(broker, {}).get(topic, 0.0))
    if not (math.isfinite(rate) and rate >= 0):
        raise ConfigurationError(
            f"requests at {broker!r} for {topic!r}: {rate} a second is not a rate; give 0 or more"
        )
    return rate


def checked(
    graph: Graph,
    topics: tuple[str, ...],
    rates: Rates,
    copies: int,
    capacity: int,
    storages: int | None = None,
) -> Inputs:
    """Return the inputs as `inputs` does, for rates that are a table already."""
    if not rates.sum() > 0:
        raise ConfigurationError("nobody asks for anything: give a rate above 0")
    if not is_connected(graph):
        raise ConfigurationError("the overlay is not connected: no storage is near to all brokers")
    if copies < 1 or capacity < 1:
        raise ConfigurationError(
            f"{copies} copies of a topic, {capacity} topics for a storage: give 1 or more of each"
        )
    if storages is None:
        storages = fewest_storages(len(topics), copies, capacity)
    _check_limits(len(graph), len(topics), copies, capacity, storages)
    return Inputs(graph, topics, rates, copies, capacity, storages)


def fewest_storages(topics: int, copies: int, capacity: int) -> int:
    """Return the fewest storages that keep all copies: ceil(T * k / CL), and k at least, as copies
    stand at different ones."""
    return max(copies, math.ceil(topics * copies / capacity))


def _check_limits(brokers: int, topics: int, copies: int, capacity: int, storages: int) -> None:
    """Raise unless there is a placement: within these limits copies can go round the storages one
    after the other."""
    if storages > brokers:
        raise ConfigurationError(
            f"{storages} storages at {brokers} brokers: a broker has one at most; take fewer "
            "copies, or a larger capacity"
        )
    if copies > storages:
        raise ConfigurationError(
            f"{copies} copies of a topic in {storages} storages: copies stand at different ones; "
            "take more storages, or fewer copies"
        )
    if storages * capacity < topics * copies:
        raise ConfigurationError(
            f"{topics} topics x {copies} copies = {topics * copies}, but {storages} storages x "
            f"{capacity} topics = {storages * capacity}: take at least "
            f"{fewest_storages(topics, copies, capacity)} storages, or a larger capacity"
        )


def storages_of(placement: Placement) -> tuple[PlannedStorage, ...]:
    """Return what each storage keeps, by the names of their brokers; none that keeps nothing."""
    kept: defaultdict[str, list[str]] = defaultdict(list)
    for topic, brokers in sorted(placement.items()):
        for broker in brokers:
            kept[broker].append(topic)
    return tuple(PlannedStorage(broker, tuple(kept[broker])) for broker in sorted(kept))


def mean_hops(made: Inputs, placement: Placement) -> float:
    """Return the hops from the broker of a request to the nearest storage that keeps the topic: the
    mean over requests."""
    total = 0.0
    for topic, rates in zip(made.topics, made.rates, strict=True):
        total += float(rates @ _hops_to(made, placement[topic]).min(axis=1))
    return total / float(made.rates.sum())


def shares_served(made: Inputs, placement: Placement) -> dict[str, float]:
    """Return the share of all requests that each storage answers, by its broker: a request goes to
    the nearest storages that keep the topic, to equally near ones by turns."""
    shares = {broker: 0.0 for kept in placement.values() for broker in kept}
    for topic, rates in zip(made.topics, made.rates, strict=True):
        hops = _hops_to(made, placement[topic])
        nearest = hops == hops.min(axis=1, keepdims=True)
        served = (rates / nearest.sum(axis=1)) @ nearest / made.rates.sum()
        for broker, share in zip(placement[topic], served.tolist(), strict=True):
            shares[broker] += share
    return shares


def _hops_to(made: Inputs, kept: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the hops by [broker, storage]."""
    brokers = made.brokers
    return made.hops[:, [brokers.index(broker) for broker in kept]]
