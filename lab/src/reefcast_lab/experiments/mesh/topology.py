"""The overlays of the mesh paper (Table 1): trees whose inner brokers have three links.

The paper says how many brokers there are and their degree, not how the tree grows: breadth-first
here. A random tree of as many brokers has other path counts than the paper's Fig. 1.
"""

from __future__ import annotations

from reefcast.errors import ConfigurationError
from reefcast.overlay.topology import Graph, graph, hops_from, names
from reefcast.routing.mesh.maps import Neighbourhood
from reefcast_lab.experiments.mesh.parameters import section

CONFIGURATIONS = ("C1", "C2", "C3", "CPL")


def network(configuration: str, scale: str = "paper") -> Graph:
    """Return one of `CONFIGURATIONS` at that scale; the first broker is the root. Raises
    `ConfigurationError` for any other name."""
    if configuration not in CONFIGURATIONS:
        raise ConfigurationError(
            f"there is no configuration {configuration!r}; take one of {', '.join(CONFIGURATIONS)}"
        )
    sizes = section("overlay", scale)
    return tree(getattr(sizes, configuration), sizes.degree)


def tree(brokers: int, degree: int) -> Graph:
    """Make a tree breadth-first: `degree` brokers below the root, and `degree` - 1 below every
    other one, while there are brokers."""
    nodes, under = names(brokers), degree - 1
    return graph(nodes, ((nodes[max(i - 2, 0) // under], nodes[i]) for i in range(1, brokers)))


def neighbourhood(tree: Graph, me: str, delta: int) -> tuple[dict[str, str], Neighbourhood]:
    """Return, by broker, nearest first, the next one towards `me`; and the map of those within
    `delta`."""
    hops = hops_from(tree, me)
    closer = {
        broker: next(other for other in tree[broker] if hops[other] < hops[broker])
        for broker in hops
        if broker != me
    }
    return closer, Neighbourhood(me, {x: up for x, up in closer.items() if hops[x] <= delta})
