"""Networks in which a broker dies: overlays, the place of that broker, who wants what.

Overlays come from a random tree. Routings for trees get one of so many brokers; the others, except
gossip, its product with a complete graph of clusters (a SCOT), which has as many. The broker that
dies stands at a leaf of the tree, inside, or at its hub; of a SCOT it is one of the brokers of that
label. All brokers have a client that wants some topics.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reefcast.overlay.scot import Place, Scot, scot
from reefcast.overlay.topology import Graph, hops_from, names, random_tree
from reefcast.routing.capabilities import OpensLinks
from reefcast.routing.registry import routing_named
from reefcast.routing.router import RoutingOptions, Shape
from reefcast.simulation.simulation import Simulation
from reefcast_lab.experiments.campaign import Run
from reefcast_lab.experiments.outage.parameters import section
from reefcast_lab.experiments.parameters import Section

LEAF, INNER, HUB = "leaf", "inner", "hub"


@dataclass(frozen=True)
class Network:
    """`dead`: the broker that dies. `publishers`: their brokers, by name; publisher "p3" publishes
    about topic "t3". `wanted`: by broker the numbers of the topics that its client wants."""

    graph: Graph
    scot: Scot | None
    dead: str
    publishers: Mapping[str, str]
    wanted: Mapping[str, tuple[int, ...]]
    apart: Mapping[str, int] = field(default_factory=dict)

    def populate(self, simulation: Simulation) -> None:
        """Have publishers advertise and clients subscribe, all within the first second."""
        for name, broker in self.publishers.items():
            simulation.advertise(name, broker, f"topic = '{_topic(name)}'", at_s=0.1)
        step = 0.8 / len(self.wanted)
        for number, (broker, topics) in enumerate(self.wanted.items()):
            for topic in topics:
                at_s = 0.2 + number * step
                simulation.subscribe(client_of(broker), broker, f"topic = 't{topic}'", at_s)

    def publish(
        self, simulation: Simulation, end_s: float, period_s: float, begin_s: float
    ) -> None:
        """Have each publisher publish until the end, all of them out of step."""
        for number, (name, broker) in enumerate(self.publishers.items()):
            at_s = begin_s + period_s * number / len(self.publishers)
            while at_s < end_s:
                simulation.publish(name, broker, {}, at_s, topics=(_topic(name),))
                at_s += period_s

    def pairs(self) -> Iterator[tuple[str, str, bool]]:
        """Yield each publisher and broker whose client wants its events, without the broker that
        dies; and whether the two are in one piece while that is gone."""
        for name, home in self.publishers.items():
            for broker, topics in self.wanted.items():
                if broker != self.dead and int(name[1:]) in topics:
                    yield name, broker, self.apart.get(home) == self.apart.get(broker)


def client_of(broker: str) -> str:
    return f"s-{broker}"


def _topic(publisher: str) -> str:
    return f"t{publisher[1:]}"


def network(run: Run, place: str) -> Network:
    """Draw the network of a run; every routing on the same overlay gets the same one of a seed."""
    shape = routing_named(run.routing).overlay
    clusters = section("network").clusters if shape is not Shape.TREE else 1
    tree = random_tree(names(int(run.x) // clusters), random.Random(f"{run.seed}/outage/tree"))
    label = place_in(tree, place)
    product = scot(tree, clusters) if clusters > 1 else None
    graph = product.graph if product else tree
    dead = _standing_at(product, label) if product else label
    if shape is Shape.NONE:
        graph, product = {name: [] for name in graph}, None
    rng = random.Random(f"{run.seed}/outage/clients")
    traffic = section("traffic", run.scale)
    return Network(
        graph=graph,
        scot=product,
        dead=dead,
        publishers=_publishers(graph, dead, traffic, rng),
        wanted={
            broker: tuple(sorted(rng.sample(range(traffic.publishers), traffic.topics)))
            for broker in graph
        },
        apart={} if shape is Shape.NONE else pieces(graph, dead),
    )


def _standing_at(product: Scot, label: str) -> str:
    return next(name for name, place in product.places.items() if place == Place(label, 0))


def _publishers(graph: Graph, dead: str, traffic: Section, rng: random.Random) -> dict[str, str]:
    homes = rng.sample([broker for broker in graph if broker != dead], traffic.publishers)
    return {f"p{number}": home for number, home in enumerate(homes)}


def place_in(tree: Graph, place: str) -> str:
    """Return a broker of a tree: the first leaf, the hub (the one on most of the paths between
    others), or of those between the median by these paths."""
    leaves = [name for name in tree if len(tree[name]) == 1]
    if place == LEAF:
        return leaves[0]
    inner = sorted((name for name in tree if name not in leaves), key=lambda n: paths(tree, n))
    return inner[-1] if place == HUB else inner[(len(inner) - 1) // 2]


def paths(tree: Graph, broker: str) -> int:
    """Return how many pairs of other brokers have their path across this one."""
    counts: dict[int, int] = {}
    for piece in pieces(tree, broker).values():
        counts[piece] = counts.get(piece, 0) + 1
    others = len(tree) - 1
    return (others**2 - sum(count**2 for count in counts.values())) // 2


def pieces(graph: Graph, without: str) -> dict[str, int]:
    """Return the number of the piece that each other broker is in once this one is gone."""
    rest = {
        name: [other for other in around if other != without]
        for name, around in graph.items()
        if name != without
    }
    found: dict[str, int] = {}
    for number, name in enumerate(rest):
        if name not in found:
            found |= dict.fromkeys(hops_from(rest, name), number)
    return found


def options(run: Run, network: Network, place: str) -> RoutingOptions:
    """Return the routing's options. Of gossip the broker that dies is a contact of topics if it is
    the hub; there is no other hub."""
    kind, entries = routing_named(run.routing), section("network", run.scale)
    if kind.overlay is Shape.NONE:
        others = [broker for broker in network.graph if broker != network.dead]
        contacts = others[:: len(others) // entries.contacts][: entries.contacts - 1]
        contacts.append(network.dead if place == HUB else others[-1])
        return kind.options(contacts=tuple(contacts), seed=run.seed)
    if issubclass(kind, OpensLinks):
        return kind.options(round_s=entries.mesh_round_s)
    return kind.options()
