"""One run of a torture: a random network under a routing, and what was wrong in it."""

from __future__ import annotations

import random
from typing import Any

from reefcast.overlay.scot import scot
from reefcast.overlay.topology import edges_of, graph
from reefcast.routing.registry import routing_named
from reefcast.simulation.torture.network import Network
from reefcast.simulation.torture.script import Torture


def torture(seed: int, routing: str = "acyclic") -> tuple[Network, list[str]]:
    """Run a random network under this routing."""
    rng = random.Random(seed)
    names = "abcde"[: rng.randint(2, 5)]
    edges = [(names[rng.randrange(at)], names[at]) for at in range(1, len(names))]
    product = None
    options: dict[str, Any] = {}
    if routing in ("spr", "idr"):
        labels = sorted({name for edge in edges[:2] for name in edge})
        product = scot(graph(labels, edges[:2]), rng.choice((1, 2, 3)))
        edges = list(edges_of(product.graph))
        options["covering"] = rng.choice(("none", "lazy", "active", "packing"))
    elif routing == "acyclic":
        options["covering"] = rng.choice(("none", "lazy", "active", "packing", "incremental"))
    network = Network(
        edges,
        seed,
        routing,
        scot=product,
        ordered=routing_named(routing).keeps_order,
        **options,
    )
    return network, Torture(network, 25).run()
