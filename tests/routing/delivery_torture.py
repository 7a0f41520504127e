"""Runs of the network of `delivery_network` in which everything happens that may, chosen by a
seed."""

from __future__ import annotations

import random

from delivery_network import Network, Publisher

from reefcast.overlay.scot import scot
from reefcast.overlay.topology import edges_of, graph

KEEPS_ORDER = ("acyclic", "spr")


class Torture:
    """A run of a network in which everything happens that may; its generator chooses."""

    def __init__(self, network: Network, publications: int) -> None:
        self.network, self.rng = network, network.rng
        self.left = publications
        self.wants = 0

    def run(self, rounds: int = 60) -> list[str]:
        """Let it happen, then let all come to an end; return what is wrong."""
        network, rng = self.network, self.rng
        for name in rng.sample(network.names, min(2, len(network.names))):
            self._new_publisher(name)
        self._want()
        if rng.random() < 0.7:
            network.settle()
        for _ in range(rounds):
            network.run(rng.choice((0, 1, 2, 5, 20)))
            self._something()
            if network.problems:
                return network.problems
        return network.judge()

    def _new_publisher(self, broker: str) -> None:
        network = self.network
        publisher = Publisher(f"p{len(network.publishers)}", broker)
        publisher.advertises = self.rng.choice(("", "x >= 0", "x >= 0 AND x < 10"))
        network.publishers[publisher.name] = publisher
        if broker in network.cores:
            network.attach(publisher)

    def _want(self) -> None:
        network, rng = self.network, self.rng
        if self.wants < 6:
            self.wants += 1
            name = f"s{rng.randrange(3)}"
            wanted = network.sessions.get(name)
            home = rng.choice(network.names) if wanted is None else wanted.home
            filter = f"x >= {rng.randrange(8)}"
            if wanted is None or filter not in wanted.asked:
                network.want(name, home, filter)

    def _something(self) -> None:
        network, rng = self.network, self.rng
        down = [name for name in network.names if name not in network.cores]
        roll = rng.random()
        if roll < 0.45 and self.left:
            publisher = rng.choice(sorted(network.publishers.values(), key=lambda p: p.name))
            for _ in range(rng.choice((1, 1, 3))):
                if publisher.broker in network.cores and self.left:
                    self.left -= 1
                    what = {"x": rng.randrange(10), "text": "-" * rng.choice((0, 0, 100))}
                    network.publish(publisher, what, confirm=rng.random() < 0.8)
        elif roll < 0.60 and network.cores:
            network.kill(rng.choice(sorted(network.cores)))
        elif roll < 0.78 and down:
            network.start(rng.choice(down))
        elif roll < 0.84:
            edge = rng.choice(network.edges)
            network.toggle(min(edge), max(edge))
        elif roll < 0.90:
            network.pass_time(rng.choice((0.5, 3.0, 6.0, 30.0)))
        elif roll < 0.93 and down:
            network.give_up(rng.choice(down))
        elif roll < 0.95:
            self._want()
        elif roll < 0.98:
            network.pass_by(rng.choice(network.names), f"x >= {rng.randrange(8)}")
        else:
            publisher = rng.choice(sorted(network.publishers.values(), key=lambda p: p.name))
            network.move(publisher, rng.choice(network.names))


def torture(seed: int, routing: str = "acyclic") -> tuple[Network, list[str]]:
    """Run a random network under this routing."""
    rng = random.Random(seed)
    names = "abcde"[: rng.randint(2, 5)]
    edges = [(names[rng.randrange(at)], names[at]) for at in range(1, len(names))]
    product, options = None, {}
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
        ordered=routing in KEEPS_ORDER,
        custody_bytes=rng.choice((300, 1 << 20, 1 << 20)),
        **options,
    )
    return network, Torture(network, 25).run()
