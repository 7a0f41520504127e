"""What is measured of the overlays of all topics: rows G1, G2, and G4 to G6."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from reefcast_lab.experiments.campaign import Measure
from reefcast_lab.experiments.gossip.aligning import UNALIGNED, Aligned
from reefcast_lab.experiments.gossip.parameters import section
from reefcast_lab.experiments.gossip.stack import Numbers, stack_of
from reefcast_lab.experiments.gossip.structure import Graph, clustering, distances
from reefcast_lab.rounds.overlays import Overlays, best_overlays

SHARES = (*(np.arange(1, 100) / 100).tolist(), 0.995, 1.0)
"""Shares of the nodes, for distributions of degrees."""
LOW = 0.25
"""The share of the nodes whose degrees are called low."""
EARLY = 10
"""The first few rounds."""
LIKE = 0.05
"""Two distributions are called alike that differ by at most this share of the nodes everywhere."""


def of_overlays(found: Aligned, routing: str, scale: str, seed: int) -> list[Measure]:
    """Return measures of overlays; means are over nodes with a topic."""
    graph = Graph(*found.after.union())
    figures = {
        **_sizes(found),
        **_pieces(found.after),
        **_degrees(graph),
        **_shape(graph),
    }
    if routing != UNALIGNED:
        best = best_overlays(found.before, seed).unique() / len(found.before.nodes)
        figures |= {**_fall(found.unique), **_beside(found, graph), "unique_limit": best}
    singles = [Measure(name, 0.0, value) for name, value in figures.items()]
    return [*singles, *_degree_curves(graph), *_view_curves(found, routing, scale)]


def _sizes(found: Aligned) -> dict[str, float]:
    nodes = len(found.after.nodes)
    return {
        "nodes": float(nodes),
        "topics": float(len(found.after.topics)),
        "subscriptions": len(found.after.members) / nodes,
        "total_view": found.total[-1] / nodes,
        "unique_view": found.unique[-1] / nodes,
    }


def _pieces(overlays: Overlays) -> dict[str, float]:
    """Measure the parts of overlays. `orphans`: subscriptions whose node is in no view of the
    topic."""
    stack = stack_of(overlays)
    topics = np.repeat(stack.topic_of_member(), np.diff(stack.bounds))
    known = np.unique(topics * stack.nodes + stack.neighbours)
    return {
        "orphans": float(len(stack.members) - len(known)),
        "connected": float(overlays.connected().mean()),
    }


def _degrees(graph: Graph) -> dict[str, float]:
    """Measure the degrees. `in_beside_out`: the largest difference between the shares of the nodes
    that have at most some in-degree, and that out-degree."""
    out, into = graph.out_degrees(), graph.in_degrees()
    apart = _apart(out, into)
    return {
        "most_out": float(out.max()),
        "most_in": float(into.max()),
        "low_out": _low(out),
        "low_in": _low(into),
        "in_beside_out": apart,
        "in_like_out": float(apart <= LIKE),
    }


def _low(degrees: Numbers) -> float:
    return float(np.quantile(degrees, LOW))


def _apart(one: Numbers, other: Numbers) -> float:
    values = np.unique(np.concatenate([one, other]))
    shares = [np.searchsorted(np.sort(x), values, "right") / len(x) for x in (one, other)]
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


def _fall(unique: Sequence[int]) -> dict[str, float]:
    """Measure the fall. `mostly_early`: whether most of it comes in the first few rounds; and the
    rounds for half of it, and for nine tenths."""
    done = unique[0] - np.array(unique)
    whole = done[-1]
    return {
        "early_share": float(done[EARLY] / whole) if whole else 0.0,
        "mostly_early": float(2 * done[EARLY] > whole),
        "half_rounds": float(np.argmax(2 * done >= whole)),
        "most_rounds": float(np.argmax(10 * done >= 9 * whole)),
    }


def _beside(found: Aligned, after: Graph) -> dict[str, float]:
    """Compare the degrees. `highest_fall_most`: whether the highest fell by a larger share than the
    low ones."""
    before = Graph(*found.before.union())
    falls = []
    for of in (Graph.out_degrees, Graph.in_degrees):
        first, last = of(before), of(after)
        falls.append(last.max() / first.max() < _low(last) / _low(first))
    return {"highest_fall_most": float(all(falls))}


def _degree_curves(graph: Graph) -> Iterator[Measure]:
    """Yield degrees by the share of the nodes that have at most this degree."""
    for name, degrees in (("out", graph.out_degrees()), ("in", graph.in_degrees())):
        values = np.quantile(degrees, SHARES, method="inverted_cdf")
        for share, value in zip(SHARES, values.tolist(), strict=True):
            yield Measure(f"{name}_by_share", share, float(value))


def _view_curves(found: Aligned, routing: str, scale: str) -> Iterator[Measure]:
    """Yield view sizes by round; of a routing that never changes them, a line to compare with."""
    times = section("protocol", scale).rounds + 1 if routing == UNALIGNED else 1
    for name, sums in (("total", found.total * times), ("unique", found.unique * times)):
        for number, value in enumerate(sums):
            yield Measure(f"{name}_by_round", float(number), value / len(found.after.nodes))
