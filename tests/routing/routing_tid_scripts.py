"""Building blocks for the scripts of TID routing: the order of messages, and who was sent what."""

from __future__ import annotations

from routing_harness import Harness

from reefcast.model.messages import Publish
from reefcast.overlay.topology import Graph, graph
from reefcast.routing.tid_tables import TidHeader

Link = tuple[str, str]
BUSY = 40


class Slow:
    """An order of messages in which these links move only when no other link can."""

    def __init__(self, *links: Link) -> None:
        self.links = links

    def choice(self, ready: list[Link]) -> Link:
        return min(ready, key=lambda ends: ends in self.links)


def overlay(*links: str) -> Graph:
    """Return an overlay; `"ab"` stands for a link between a and b."""
    edges = [(link[0], link[1]) for link in links]
    return graph(sorted({name for edge in edges for name in edge}), edges)


def network_of(routing: str, graph: Graph, **clients: str) -> Harness:
    network = Harness(graph, routing)
    for client, broker in clients.items():
        network.connect(client, broker)
    network.run()
    return network


def run(network: Harness, *slow: str) -> None:
    """Run until the network is quiet; the links in `slow`, such as "ab" for that from a to b, move
    last."""
    network.rng = Slow(*[(link[0], link[1]) for link in slow])
    network.run()


def move(network: Harness, *links: str) -> None:
    """Deliver one message on each of these links, and nothing else."""
    for link in links:
        network.rng = Slow(*[ends for ends in network.queues if ends != (link[0], link[1])])
        assert network.queues[link[0], link[1]]
        network.step()


def drain(network: Harness, *links: str) -> None:
    """Deliver all messages that wait on these links."""
    for link in links:
        move(network, *[link] * len(network.queues[link[0], link[1]]))


def carry(network: Harness, *links: str) -> None:
    """Deliver the next publication on each of these links, and what waits before it."""
    for link in links:
        waiting = [type(item) for item in network.queues[link[0], link[1]]]
        move(network, *[link] * (waiting.index(Publish) + 1))


def last_hops(network: Harness, tid: tuple[str, int], renewed: str = "") -> dict[str, str]:
    """Return, by broker, the last hop of the tree of this client's advertisement. `renewed`: the
    suffix of the tree that replaced the first one."""
    found = {}
    known_as = (f"{tid[0]}@{network.home.get(tid[0], '')}{renewed}", tid[1])
    for name, broker in network.brokers.items():
        tree = broker.router.srt.get(known_as)
        if tree is not None:
            found[name] = tree.last_hop
    return found


def copies(network: Harness) -> list[str]:
    """Return the links between brokers that publications crossed, each with the publisher whose
    tree they followed."""
    found = []
    for copy in network.copies:
        assert isinstance(copy.header, TidHeader) and copy.header.tid is not None
        switched = "*" if copy.header.switched else ""
        found.append(f"{copy.source}{copy.target} {copy.header.tid[0].partition('@')[0]}{switched}")
    return found


def delivered(network: Harness) -> list[tuple[str, int]]:
    return sorted((client, seq) for client, (_, seq), _ in network.delivered)


def total(network: Harness, counter: str) -> int:
    return sum(broker.counters[counter] for broker in network.brokers.values())
