"""The greedy placement for one target (section IV-A), for every target and every topic at once.

The target j stands for a server that has everything. A request goes to the nearest of the target
and the storages chosen so far, over the first of the shortest ways (breadth-first: sources in the
order in which they were chosen, neighbours in the order of the graph). P_i is the traffic that
passes through broker i or starts there, D_i its distance from where that traffic ends: with a
storage at i, P_i does not travel D_i. A round adds the broker with the largest gain P_i * D_i, the
first of several. As there is no server, every broker is the target once, and what counts is how
often a broker was chosen.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from reefcast.matching.kernel_cache import njit
from reefcast.overlay.topology import Graph
from reefcast.pipeline.planning.placement.inputs import Rates

Counts = NDArray[np.int64]


def choices(graph: Graph, rates: Rates, rounds: int) -> Counts:
    """Return [topic, broker]: of how many targets a broker was among the `rounds` brokers chosen;
    `rates`: [topic, broker]. The graph is connected and has at least so many brokers."""
    number = {broker: i for i, broker in enumerate(graph)}
    bounds = list(accumulate((len(around) for around in graph.values()), initial=0))
    neighbours = [number[other] for around in graph.values() for other in around]
    return _choices(
        np.array(bounds, np.int32),
        np.array(neighbours, np.int32),
        np.ascontiguousarray(rates, np.float64),
        rounds,
    )


@njit(cache=True)
def _choices(
    bounds: NDArray[np.int32], neighbours: NDArray[np.int32], rates: Rates, rounds: int
) -> Counts:
    topics, brokers = rates.shape
    counts = np.zeros((topics, brokers), np.int64)
    sources = np.empty(rounds + 1, np.int32)
    queue = np.empty(brokers, np.int32)
    parent, hops = np.empty_like(queue), np.empty_like(queue)
    passing = np.empty(brokers)
    for topic in range(topics):
        for target in range(brokers):
            sources[0] = target
            for found in range(1, rounds + 1):
                _forest(bounds, neighbours, sources[:found], queue, parent, hops)
                passing[:] = rates[topic]
                best = _best(queue, parent, hops, passing, sources[1:found])
                sources[found] = best
                counts[topic, best] += 1
    return counts


@njit(cache=True)
def _forest(
    bounds: NDArray[np.int32],
    neighbours: NDArray[np.int32],
    sources: NDArray[np.int32],
    queue: NDArray[np.int32],
    parent: NDArray[np.int32],
    hops: NDArray[np.int32],
) -> None:
    """Find shortest ways to the nearest source: `queue`, all brokers, nearer ones first; `parent`,
    the next hop, -1 of a source; `hops`."""
    hops[:] = -1
    filled = 0
    for source in sources:
        if hops[source] < 0:  # a target may have been chosen, too
            hops[source], parent[source], queue[filled] = 0, -1, source
            filled += 1
    at = 0
    while at < filled:
        node = queue[at]
        at += 1
        for place in range(bounds[node], bounds[node + 1]):
            other = neighbours[place]
            if hops[other] < 0:
                hops[other], parent[other], queue[filled] = hops[node] + 1, node, other
                filled += 1


@njit(cache=True)
def _best(
    queue: NDArray[np.int32],
    parent: NDArray[np.int32],
    hops: NDArray[np.int32],
    passing: NDArray[np.float64],
    chosen: NDArray[np.int32],
) -> int:
    """Return the broker with the largest gain among those not chosen; `passing`: its own requests
    of each broker, to which all that pass through it are added."""
    for at in range(len(queue) - 1, -1, -1):
        node = queue[at]
        if parent[node] >= 0:
            passing[parent[node]] += passing[node]
    best, most = -1, -1.0
    for node in range(len(queue)):
        gain = passing[node] * hops[node]
        if gain > most and not (chosen == node).any():
            best, most = node, gain
    return best
