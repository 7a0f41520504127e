"""The graph that all topics together induce: a node points to another one if it has it in its view
of any topic. As arrays: `neighbours[bounds[v] : bounds[v + 1]]` are those that v points to,
ascending.

- *Degrees* are of that directed graph: out, the physical links that a node keeps up for its views
  (the paper's unique view size); in, how many nodes keep one up to it.
- *Clustering* is the mean over nodes of the local coefficient of Watts and Strogatz (1998) in the
  undirected graph, where a link in either direction counts, as in what the paper cites on
  robustness; 0 for a node with less than two neighbours.
- *Distances* are along views, as messages go; the diameter is the longest of the shortest ways
  between any two nodes that have one. They come for the undirected graph too, as connections carry
  both ways.

All counts are exact. Costs: a breadth-first search from 64 nodes at a time, a bit for each, for as
many steps as the diameter: nodes x links x diameter / 64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reefcast.matching.kernel_cache import njit

Bounds = NDArray[np.int64]
Nodes = NDArray[np.int32]

BLOCK = 64
"""Words: nodes that are searched from at a time, 64 in each."""


class Graph(NamedTuple):
    """See the module's docstring."""

    bounds: Bounds
    neighbours: Nodes

    def out_degrees(self) -> Bounds:
        return np.diff(self.bounds)

    def in_degrees(self) -> Bounds:
        return np.bincount(self.neighbours, minlength=len(self.bounds) - 1)

    def undirected(self) -> Graph:
        """Return the graph with every link in both directions."""
        size = len(self.bounds) - 1
        sources = np.repeat(np.arange(size), self.out_degrees())
        return graph_of(
            size,
            np.concatenate([sources, self.neighbours]),
            np.concatenate([self.neighbours, sources]),
        )


class Distances(NamedTuple):
    """`reached`: the share of the ordered pairs of nodes that have a way; the others are of those
    pairs alone."""

    diameter: int
    mean: float
    reached: float


def graph_of(size: int, sources: NDArray[np.int64], targets: NDArray[np.int64] | Nodes) -> Graph:
    """Make the graph of links from one to the other; links that occur twice count once."""
    codes = np.unique(sources * size + targets)
    degrees = np.bincount(codes // size, minlength=size)
    bounds = np.concatenate([[0], np.cumsum(degrees)])
    return Graph(bounds.astype(np.int64), (codes % size).astype(np.int32))


def clustering(undirected: Graph) -> float:
    """Return the mean of the local coefficients."""
    return float(_triangles_over_pairs(*undirected).mean())


def distances(graph: Graph) -> Distances:
    """Return the distances from every node to every other."""
    size = len(graph.bounds) - 1
    longest, total, pairs = _all_distances(*graph)
    return Distances(
        int(longest),
        total / pairs if pairs else 0.0,
        pairs / (size * (size - 1)) if size > 1 else 1.0,
    )


@njit(cache=True)
def _triangles_over_pairs(bounds: Bounds, neighbours: Nodes) -> NDArray[np.float64]:
    size = len(bounds) - 1
    found = np.zeros(size)
    near = np.zeros(size, np.bool_)
    for node in range(size):
        around = neighbours[bounds[node] : bounds[node + 1]]
        for other in around:
            near[other] = True
        linked = 0
        for other in around:
            for third in neighbours[bounds[other] : bounds[other + 1]]:
                linked += near[third]
        for other in around:
            near[other] = False
        if len(around) > 1:
            found[node] = linked / (len(around) * (len(around) - 1))
    return found


@njit(cache=True)
def _all_distances(bounds: Bounds, neighbours: Nodes) -> tuple[int, float, int]:
    """Return the longest distance, the sum of all distances, and the number of pairs. The bits of a
    row are the nodes reached so far, `BLOCK` words of them at a time; a step further, it has those
    of its neighbours' rows, too."""
    size = len(bounds) - 1
    longest, total, pairs = 0, 0.0, 0
    for first in range(0, size, 64 * BLOCK):
        words = (min(size - first, 64 * BLOCK) + 63) // 64
        reached = np.zeros((size, words), np.uint64)
        for node in range(first, min(first + 64 * BLOCK, size)):
            reached[node, (node - first) // 64] = np.uint64(1) << np.uint64((node - first) % 64)
        further = reached.copy()
        hops, more = 0, True
        while more:
            hops, found = hops + 1, 0
            for node in range(size):
                for other in neighbours[bounds[node] : bounds[node + 1]]:
                    for word in range(words):
                        further[node, word] |= reached[other, word]
                for word in range(words):
                    found += _ones(further[node, word] & ~reached[node, word])
            reached[:] = further
            more = found > 0
            if more:
                longest, total, pairs = max(longest, hops), total + hops * found, pairs + found
    return longest, total, pairs


@njit(cache=True)
def _ones(word: np.uint64) -> int:
    """Return how many bits are set."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    pairs = np.uint64(0x3333333333333333)
    word = (word & pairs) + ((word >> np.uint64(2)) & pairs)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))
