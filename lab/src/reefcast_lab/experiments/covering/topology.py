"""The overlays of the covering paper: trees all, with the brokers that play a part in them.

The paper shows them as pictures (Figs 8 and 17), or says in words how many brokers there are
(VI-G). What it leaves open is settled here: how many inner brokers a core broker has, how the
domains of the workflow network are joined, and the size of the tiered network's regions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reefcast.overlay.topology import Edge, Graph, graph, hops_from

DOMAINS = 4
INNER_OF_CORE = {"A": 2, "B": 2, "C": 2, "D": 2, "E": 4}
"""The paper's Fig. 8 is lost in our copy. Among several overlays of 49 brokers this one was taken
for its two numbers of triggered subscriptions with *active* (VI-C: 700 at A, almost 20 000 at
E)."""
EDGES_OF_INNER = (3, 3, 2)
"""Edge brokers of the inner brokers in turn: 12 of them have 32."""


@dataclass(frozen=True)
class Topology:
    """A tree of brokers.

    `tiers`: from the core outward. `publishers`, `subscribers`: brokers where clients of either
    kind sit. `regions`: brokers that belong together (domains, regions of Fig. 17); none elsewhere.
    """

    graph: Graph
    tiers: tuple[tuple[str, ...], ...]
    publishers: tuple[str, ...]
    subscribers: tuple[str, ...]
    regions: tuple[tuple[str, ...], ...] = ()

    def tier_of(self, broker: str) -> int:
        return next(number for number, tier in enumerate(self.tiers) if broker in tier)


def core_topology(inner_of_core: Mapping[str, int] = INNER_OF_CORE) -> Topology:
    """Make the topology of Fig. 8: the chain A-B-C-D-E, 12 inner and 32 edge brokers; A's are A1,
    ..., theirs A1a, .... Publishers are at the three edge brokers of E's last inner broker,
    subscribers at the 29 others. `inner_of_core`: how many inner brokers each of the core has, 12
    in all."""
    core = tuple(inner_of_core)
    inner = [f"{name}{i}" for name, number in inner_of_core.items() for i in range(1, number + 1)]
    below = {
        broker: [broker + letter for letter in "abc"[: EDGES_OF_INNER[-1 - i % 3]]]
        for i, broker in enumerate(inner)
    }
    edges = [edge for found in below.values() for edge in found]
    links: list[Edge] = [*pairwise(core), *((broker[0], broker) for broker in inner)]
    links += [(broker, edge) for broker, found in below.items() for edge in found]
    publishers = below[inner[-1]]
    return Topology(
        graph=graph([*core, *inner, *edges], links),
        tiers=(core, tuple(inner), tuple(edges)),
        publishers=tuple(publishers),
        subscribers=tuple(edge for edge in edges if edge not in publishers),
    )


def way_up(topology: Topology, broker: str) -> list[str]:
    """Return the brokers from this one to that of the first publisher."""
    hops = hops_from(topology.graph, topology.publishers[0])
    way = [broker]
    while hops[way[-1]]:
        way.append(min(topology.graph[way[-1]], key=hops.__getitem__))
    return way


def outward(topology: Topology) -> list[str]:
    """Return the brokers in the order in which publications come to them: the publishers' first,
    the others by their distance."""
    hops = hops_from(topology.graph, topology.publishers[0])
    return sorted(
        topology.graph, key=lambda broker: (broker not in topology.publishers, hops[broker])
    )


def _domain(name: str) -> tuple[tuple[str, ...], list[Edge]]:
    """Return ten brokers in three levels: a head, three below it, and two below each of these."""
    middle = [f"{name}.{i}" for i in range(1, 4)]
    leaves = [f"{broker}.{i}" for broker in middle for i in (1, 2)]
    links: list[Edge] = [(name, broker) for broker in middle]
    links += [(leaf.rpartition(".")[0], leaf) for leaf in leaves]
    return (name, *middle, *leaves), links


def _domains(letter: str) -> tuple[tuple[tuple[str, ...], ...], list[Edge]]:
    found = [_domain(f"{letter}{i}") for i in range(1, DOMAINS + 1)]
    return tuple(brokers for brokers, _ in found), [edge for _, links in found for edge in links]


def workflow_topology() -> Topology:
    """Make the topology of VI-G: four domains of ten brokers, their heads in a chain. An engine is
    at each of the six brokers at the bottom of a domain; external clients and monitors are at any
    broker."""
    domains, links = _domains("d")
    heads = [domain[0] for domain in domains]
    brokers = [broker for domain in domains for broker in domain]
    return Topology(
        graph=graph(brokers, [*links, *pairwise(heads)]),
        tiers=_tiers(brokers),
        publishers=tuple(broker for broker in brokers if _depth(broker) == 2),
        subscribers=tuple(brokers),
        regions=domains,
    )


def tiered_topology() -> Topology:
    """Make the topology of Fig. 17: four regions of ten brokers in three tiers, and one core broker
    above them all. Clients of either kind are at any broker."""
    regions, links = _domains("r")
    brokers = [broker for region in regions for broker in region]
    return Topology(
        graph=graph(["core", *brokers], [*links, *(("core", region[0]) for region in regions)]),
        tiers=(("core",), *_tiers(brokers)),
        publishers=("core", *brokers),
        subscribers=("core", *brokers),
        regions=regions,
    )


def _depth(broker: str) -> int:
    return broker.count(".")


def _tiers(brokers: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(b for b in brokers if _depth(b) == depth) for depth in range(3))


def cluster(topology: Topology, rng: random.Random) -> tuple[str, ...]:
    """Draw two to four adjacent brokers: a broker of subscribers, drawn evenly, then neighbours of
    those chosen. None of the core, and none with publishers (Fig. 16)."""
    banned = {*topology.tiers[0], *topology.publishers}
    chosen = [rng.choice(topology.subscribers)]
    size = rng.randint(2, 4)
    while len(chosen) < size:
        around = sorted(set(_neighbours(topology.graph, chosen)) - banned - set(chosen))
        if not around:
            break
        chosen.append(rng.choice(around))
    return tuple(chosen)


def _neighbours(graph: Graph, brokers: Sequence[str]) -> Iterator[str]:
    for broker in brokers:
        yield from graph[broker]
