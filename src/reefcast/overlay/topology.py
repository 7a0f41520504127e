"""Topologies: undirected graphs of broker names, and generators of trees.

A graph is a dict `name -> sorted neighbours`; an edge stands at both of its ends.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterable, Sequence

from reefcast.errors import ConfigurationError

Graph = dict[str, list[str]]
Edge = tuple[str, str]


def names(n: int) -> list[str]:
    """Return `b01`, `b02`, ...: with as many digits as the largest needs, so that they sort."""
    width = len(str(n))
    return [f"b{i:0{width}d}" for i in range(1, n + 1)]


def graph(nodes: Iterable[str], edges: Iterable[Edge]) -> Graph:
    """Build a graph. Raises `ConfigurationError` for an edge to an unknown node, to itself, or
    given twice."""
    neighbours: dict[str, set[str]] = {node: set() for node in nodes}
    for a, b in edges:
        for end in (a, b):
            if end not in neighbours:
                raise ConfigurationError(f"link {a} - {b}: there is no broker named {end!r}")
        if a == b:
            raise ConfigurationError(f"link {a} - {b}: a broker has no link to itself")
        if b in neighbours[a]:
            raise ConfigurationError(f"link {a} - {b} is given twice")
        neighbours[a].add(b)
        neighbours[b].add(a)
    return {node: sorted(around) for node, around in neighbours.items()}


def edges_of(graph: Graph) -> list[Edge]:
    """Return each edge once, smaller name first, sorted."""
    return sorted((a, b) for a, around in graph.items() for b in around if a < b)


def path(nodes: Sequence[str]) -> Graph:
    return graph(nodes, itertools.pairwise(nodes))


def star(nodes: Sequence[str]) -> Graph:
    """Return a star; the first node is the centre."""
    return graph(nodes, ((nodes[0], node) for node in nodes[1:]))


def balanced_tree(nodes: Sequence[str], fanout: int) -> Graph:
    """Return a tree filled breadth-first: each node gets `fanout` children while there are
    nodes."""
    return graph(nodes, ((nodes[(i - 1) // fanout], nodes[i]) for i in range(1, len(nodes))))


def random_tree(nodes: Sequence[str], rng: random.Random) -> Graph:
    """Return a tree in which each node after the first hangs on one of those before it, chosen
    uniformly."""
    return graph(nodes, ((nodes[rng.randrange(i)], nodes[i]) for i in range(1, len(nodes))))


def hops_from(graph: Graph, start: str) -> dict[str, int]:
    """Return the hops from `start` to every node that can be reached."""
    hops = {start: 0}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for other in graph[node]:
            if other not in hops:
                hops[other] = hops[node] + 1
                waiting.append(other)
    return hops


def diameter(graph: Graph) -> int:
    """Return the longest of the shortest paths, in hops, of a connected graph."""
    return max(max(hops_from(graph, node).values()) for node in graph)


def is_connected(graph: Graph) -> bool:
    return not graph or len(hops_from(graph, next(iter(graph)))) == len(graph)


def is_tree(graph: Graph) -> bool:
    return is_connected(graph) and len(edges_of(graph)) == max(len(graph) - 1, 0)


def centre(graph: Graph) -> str:
    """Return the node whose farthest node is nearest; of several the one nearest to all in sum,
    then the first by name. For a connected graph that is not empty."""

    def farness(node: str) -> tuple[int, int, str]:
        hops = hops_from(graph, node).values()
        return max(hops), sum(hops), node

    return min(graph, key=farness)


def spanning_tree(network: Graph) -> Graph:
    """Return the breadth-first tree from the centre of a connected graph: every node is as near to
    the centre as it was, and the diameter is at most twice the distance of the farthest."""
    start = centre(network)
    reached = {start}
    edges: list[Edge] = []
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        new = [other for other in network[node] if other not in reached]
        reached.update(new)
        edges += [(node, other) for other in new]
        waiting.extend(new)
    return graph(network, edges)
