"""What is measured of the overlays of all topics: rows G1, G2, and G4 to G6."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from reefcast.experiments.campaign import Measure
from reefcast.experiments.gossip.aligning import UNALIGNED, Aligned
from reefcast.experiments.gossip.parameters import section
from reefcast.experiments.gossip.stack import Numbers, Stack
from reefcast.experiments.gossip.structure import Graph, clustering, distances

SHARES = (*np.arange(1, 100) / 100, 0.995, 1.0)
"""Of the nodes, for distributions of degrees."""
LOW = 0.25
"""The share of the nodes whose degrees are called low."""
EARLY = 5
"""The first few rounds."""


def of_overlays(found: Aligned, routing: str, scale: str) -> list[Measure]:
    """Means are over nodes with a topic."""
    graph = found.stack.union()
    figures = {
        **_sizes(found),
        **_degrees(graph),
        **_shape(graph),
        **_orphans(found.stack),
    }
    singles = [Measure(name, 0.0, value) for name, value in figures.items()]
    return [*singles, *_curves(found, graph, routing, scale)]


def _sizes(found: Aligned) -> dict[str, float]:
    """`early_share`: of the fall of the unique view, how much is done after the first few rounds."""
    nodes = len(found.nodes)
    first, last = found.unique[0], found.unique[-1]
    figures = {
        "nodes": float(nodes),
        "topics": float(len(found.stack.starts) - 1),
        "subscriptions": len(found.stack.members) / nodes,
        "total_view": found.total[-1] / nodes,
        "unique_view": last / nodes,
        "views_per_link": found.total[-1] / last,
    }
    if len(found.unique) > EARLY and first > last:
        early = (first - found.unique[EARLY]) / (first - last)
        figures |= {"early_share": early, "mostly_early": float(early > 0.5)}
    return figures


def _degrees(graph: Graph) -> dict[str, float]:
    """`in_beside_out`: the largest difference between the shares of nodes that have at most some
    in-degree, and that out-degree."""
    out, into = graph.out_degrees(), graph.in_degrees()
    return {
        "most_out": float(out.max()),
        "most_in": float(into.max()),
        "low_out": float(np.quantile(out, LOW)),
        "low_in": float(np.quantile(into, LOW)),
        "in_beside_out": _apart(out, into),
    }


def _apart(one: Numbers, other: Numbers) -> float:
    most = int(max(one.max(), other.max())) + 1
    shares = [np.bincount(degrees, minlength=most).cumsum() / len(degrees) for degrees in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def _shape(graph: Graph) -> dict[str, float]:
    both = graph.undirected()
    directed, undirected = distances(graph), distances(both)
    return {
        "clustering": clustering(both),
        "diameter": float(directed.diameter),
        "mean_path": directed.mean,
        "reached": directed.reached,
        "undirected_diameter": float(undirected.diameter),
        "undirected_path": undirected.mean,
        "connections": float(both.out_degrees().mean()),
        "most_connections": float(both.out_degrees().max()),
    }


def _orphans(stack: Stack) -> dict[str, float]:
    """Nodes that nobody points to in one of their topics."""
    topics = np.repeat(np.arange(len(stack.starts) - 1), np.diff(stack.starts))
    links = np.repeat(topics, np.diff(stack.bounds)) * stack.nodes + stack.neighbours
    known = np.unique(links)
    return {"orphans": float(len(stack.members) - len(known))}


def _curves(found: Aligned, graph: Graph, routing: str, scale: str) -> Iterator[Measure]:
    """Degrees by the share of the nodes that have at most so many; views by round."""
    for name, degrees in (("out", graph.out_degrees()), ("in", graph.in_degrees())):
        for share in SHARES:
            value = np.quantile(degrees, share, method="inverted_cdf")
            yield Measure(f"{name}_by_share", float(share), float(value))
    nodes, rounds = len(found.nodes), section("protocol", scale).rounds
    if routing == UNALIGNED:  # nothing changes: a line to compare with
        found = found._replace(total=found.total * (rounds + 1), unique=found.unique * (rounds + 1))
    for number, (total, unique) in enumerate(zip(found.total, found.unique, strict=True)):
        yield Measure("total_by_round", float(number), total / nodes)
        yield Measure("unique_by_round", float(number), unique / nodes)
