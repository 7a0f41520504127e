"""Large networks: a random tree, or its product with the complete graph of four clusters; who
publishes where, and who wants what of whom."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from reefcast.overlay.scot import Scot, scot
from reefcast.overlay.topology import Graph, names, random_tree
from reefcast.routing.registry import routing_named
from reefcast.routing.router import Shape
from reefcast_lab.experiments.campaign import Run
from reefcast_lab.experiments.tenfold.parameters import section

ROUTINGS = ("acyclic", "flooding", "spr", "tid-s")


@dataclass(frozen=True)
class Network:
    """`publishers`: the broker of each; `wishes`: of each subscription its broker, and the number
    of the publisher that it wants."""

    graph: Graph
    scot: Scot | None
    publishers: Sequence[str]
    wishes: Sequence[tuple[str, int]]


def network(run: Run) -> Network:
    """Draw the network of a run: the same tree, or SCOT, for all routings on one."""
    entries = section("network", run.scale)
    on_a_tree = routing_named(run.routing).overlay is Shape.TREE
    clusters = 1 if on_a_tree else entries.clusters
    tree = random_tree(names(int(run.x) // clusters), random.Random(f"{run.seed}/tenfold/tree"))
    product = None if on_a_tree else scot(tree, clusters)
    graph = product.graph if product else tree
    rng = random.Random(f"{run.seed}/tenfold/clients")
    brokers = list(graph)
    publishers = rng.choices(brokers, k=int(run.x) // entries.brokers_of_a_publisher)
    number = int(run.x) // entries.brokers_of_a_subscription
    wishes = [(rng.choice(brokers), rng.randrange(len(publishers))) for _ in range(number)]
    return Network(graph, product, publishers, wishes)
