"""How many ways there are through a mesh: end-to-end forwarding paths (paper, Fig. 1).

A publication never leaves the primary path to where it goes; strategies differ in the brokers of it
that they bypass. So a forwarding path from A to B is a way along the primary path, by real links
that each lead nearer to B: a set of hops from one of its brokers to a later one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from reefcast.errors import ConfigurationError
from reefcast.overlay.topology import Edge, Graph, hops_from

Ints = NDArray[np.int64]


def path_counts(tree: Graph, soft_links: Iterable[Edge]) -> Ints:
    """Return the number of forwarding paths between any two brokers, in the order of `tree`:
    symmetric, with 1 for a broker and itself. Besides soft links, those of the tree count. Raises
    `ConfigurationError` for a link to an unknown broker."""
    number = {broker: i for i, broker in enumerate(tree)}
    hops = _hops(tree, number)
    linked = hops == 1
    for a, b in soft_links:
        if a not in number or b not in number:
            raise ConfigurationError(f"soft link {a} - {b}: both ends must be brokers of the tree")
        linked[number[a], number[b]] = linked[number[b], number[a]] = True
    return _counts(hops, _nearer(tree, number, hops), linked)


def _hops(tree: Graph, number: dict[str, int]) -> Ints:
    hops = np.zeros((len(tree), len(tree)), np.int64)
    for start, row in number.items():
        for broker, distance in hops_from(tree, start).items():
            hops[row, number[broker]] = distance
    return hops


def _nearer(tree: Graph, number: dict[str, int], hops: Ints) -> Ints:
    """Return [a, b]: the neighbour of b that is one hop nearer to a; b itself where a is b."""
    nearer = np.tile(np.arange(len(tree)), (len(tree), 1))
    for broker, around in tree.items():
        b = number[broker]
        for other in around:
            n = number[other]
            rows = hops[:, n] < hops[:, b]
            nearer[rows, b] = n
    return nearer


def _counts(hops: Ints, nearer: Ints, linked: NDArray[np.bool_]) -> Ints:
    """Count the paths, by increasing distance: the last hop to b comes from a broker of the primary
    path that is linked with it."""
    counts = np.eye(len(hops), dtype=np.int64)
    longest = int(hops[linked].max(initial=0))
    for distance in range(1, int(hops.max(initial=0)) + 1):
        starts, ends = np.nonzero(hops == distance)
        last, ways = ends, np.zeros(len(ends), np.int64)
        for _ in range(min(distance, longest)):
            last = nearer[starts, last]
            ways += np.where(linked[last, ends], counts[starts, last], 0)
        counts[starts, ends] = ways
    return counts


def share_with(counts: Ints, least: int) -> float:
    """Return the share of the pairs of two different brokers with at least this many paths."""
    pairs = counts[np.triu_indices(len(counts), 1)]
    return float((pairs >= least).mean()) if len(pairs) else 0.0
