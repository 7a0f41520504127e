"""Who is interested in what: the paper's grid (section 3).

Nodes and the ids of topics are put on a square of cells at random. A topic has more or fewer ids,
a node a wider or narrower radius of interest, both by power laws; a node subscribes to the topics
that have an id within its radius. So nodes that are near to each other have interests in common.

The sizes are the quantiles of the power laws, not drawn from them: what differs between seeds is
where things are. The power law is the same for any number of topics, so that twice the topics give
a node about twice as many subscriptions.

A topic of a single node has no overlay, and a node without a topic takes no part: both are left
out. All draws are numpy's, in arrays.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from reefcast_lab.experiments.gossip.parameters import section

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Interests = dict[str, tuple[str, ...]]
"""By topic the nodes that subscribe to it, two at least; both ascending."""


def generator(seed: int, what: str) -> np.random.Generator:
    """Make another generator for everything that is drawn of one seed."""
    return np.random.default_rng([seed, *what.encode()])


def grid_interests(nodes: int, topics: int, seed: int) -> Interests:
    """Draw interests with the parameters of the section `grid`."""
    return interests_of(grid_matrix(nodes, topics, seed))


def grid_matrix(nodes: int, topics: int, seed: int) -> Flags:
    """Draw [node, topic]: whether it subscribes."""
    entries = section("grid")
    ids = np.rint(power_law(topics, entries.least_ids, entries.ids_exponent)).astype(np.int64)
    radius = power_law(nodes, entries.least_radius, entries.radius_exponent)
    rng = generator(seed, "grid")
    here = rng.integers(entries.side, size=(nodes, 2)).astype(np.float64)
    there = rng.integers(entries.side, size=(int(ids.sum()), 2)).astype(np.float64)
    bounds = np.concatenate([[0], np.cumsum(ids)])
    nearest = [_nearest(here, there[a:b]) for a, b in pairwise(bounds.tolist())]
    within = np.stack(nearest, axis=1) <= np.minimum(radius, entries.side / 2)[:, None]
    return np.asarray(within, np.bool_)


def power_law(number: int, least: float, exponent: float) -> Floats:
    """Return the quantiles of the density x^-exponent from `least` on, the largest first."""
    above = (np.arange(number) + 0.5) / number
    return np.asarray(least * above ** (-1.0 / (exponent - 1.0)), np.float64)


def _nearest(here: Floats, ids: Floats) -> Floats:
    """Return the distance of each node from the nearest of these ids. All distances at once would
    not fit into memory for 100 000 nodes."""
    nearest = np.full(len(here), np.inf)
    for each in ids:
        np.minimum(nearest, ((here - each) ** 2).sum(axis=1), out=nearest)
    return np.asarray(np.sqrt(nearest), np.float64)


def interests_of(matrix: Flags) -> Interests:
    """Return interests whose names are numbers, with as many digits for all."""
    nodes = _names("n", matrix.shape[0])
    found = {}
    for name, column in zip(_names("t", matrix.shape[1]), matrix.T, strict=True):
        members = np.flatnonzero(column)
        if len(members) > 1:
            found[name] = tuple(nodes[i] for i in members)
    return found


def _names(letter: str, number: int) -> list[str]:
    digits = len(str(max(number - 1, 0)))
    return [f"{letter}{i:0{digits}}" for i in range(number)]


def matrix_of(interests: Interests) -> tuple[list[str], Flags]:
    """Return the nodes, ascending; and [node, topic]: whether it subscribes."""
    nodes = sorted({node for members in interests.values() for node in members})
    number = {node: i for i, node in enumerate(nodes)}
    matrix = np.zeros((len(nodes), len(interests)), np.bool_)
    for topic, members in enumerate(interests.values()):
        matrix[[number[node] for node in members], topic] = True
    return nodes, matrix
