"""What tables hold and messages cross, counted from the overlay alone; x is the number of brokers.

A subscription wants one publisher. So
- an advertisement crosses every link of a tree (`acyclic`), goes to the other clusters (SPR), or is
  flooded (TID-S), in which every broker sends it to all neighbours but the one from which it came;
  flooding itself tells nobody;
- a subscription crosses the links on the shortest way to the publisher (`acyclic`, TID-S: all trees
  of a flood have shortest ways), those of its cluster (SPR), or none (flooding);
- a publication crosses the links between its publisher and all who want it: on a tree those of the
  ways together; with SPR those inside each cluster that wants it, and one into each other cluster;
  flooded, every link, as an advertisement does. With TID-S it depends on which of equally long ways
  the floods took, and is not counted.

The twin is the simulation (`simulated`), which counts what is sent and stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from reefcast.overlay.scot import Scot
from reefcast.overlay.topology import Graph, edges_of, hops_from
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.tenfold.networks import ROUTINGS, Network, network
from reefcast_lab.experiments.tenfold.parameters import NAME as PAPER
from reefcast_lab.experiments.tenfold.parameters import section

NAME = "structural"


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, ROUTINGS, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    return [Measure(*each) for each in figures(run.routing, network(run))]


def figures(routing: str, drawn: Network) -> Iterator[tuple[str, float, float]]:
    """Yield name, 0, value of each figure; means over brokers, subscriptions or publishers."""
    count = {"acyclic": on_a_tree, "flooding": flooded, "spr": in_clusters, "tid-s": by_trees}
    for name, value in count[routing](drawn).items():
        yield name, 0.0, value


def on_a_tree(drawn: Network) -> dict[str, float]:
    hops = _ways(drawn)
    copies = [
        len(links_to(parents_from(drawn.graph, home), _homes(drawn, number)))
        for number, home in enumerate(drawn.publishers)
    ]
    return {
        "advertise_messages": float(len(drawn.graph) - 1),
        "advertisement_rows": float(len(drawn.publishers)),
        "subscription_messages": _mean(hops),
        "subscription_rows": sum(each + 1 for each in hops) / len(drawn.graph),
        "publication_messages": _mean(copies),
        "hops": _mean(hops),
    }


def flooded(drawn: Network) -> dict[str, float]:
    return {
        "subscription_rows": len(drawn.wishes) / len(drawn.graph),
        "publication_messages": float(_flood(drawn.graph)),
        "hops": _mean(_ways(drawn)),
    }


def by_trees(drawn: Network) -> dict[str, float]:
    hops = _ways(drawn)
    return {
        "advertise_messages": float(_flood(drawn.graph)),
        "advertisement_rows": float(len(drawn.publishers)),
        "subscription_messages": _mean(hops),
        "subscription_rows": sum(each + 1 for each in hops) / len(drawn.graph),
        "hops": _mean(hops),
    }


def in_clusters(drawn: Network) -> dict[str, float]:
    overlay = drawn.scot
    assert overlay is not None
    copies = [
        _copies_of_spr(overlay, home, _homes(drawn, number))
        for number, home in enumerate(drawn.publishers)
    ]
    return {
        "advertise_messages": float(overlay.clusters - 1),
        "advertisement_rows": len(drawn.publishers) * overlay.clusters / len(drawn.graph),
        "subscription_messages": float(len(overlay.tree) - 1),
        "subscription_rows": len(drawn.wishes) / overlay.clusters,
        "publication_messages": _mean(copies),
        "hops": _mean(_ways(drawn)),
    }


def _copies_of_spr(overlay: Scot, home: str, wanted: Iterable[str]) -> int:
    """Return the links that a publication crosses: into each other cluster one, and inside."""
    place = overlay.places[home]
    parents = parents_from(overlay.tree, place.region)
    inside: dict[int, set[str]] = defaultdict(set)
    for broker in wanted:
        inside[overlay.places[broker].cluster].add(overlay.places[broker].region)
    links = sum(len(links_to(parents, regions)) for regions in inside.values())
    return links + len(inside.keys() - {place.cluster})


# --- counting -------------------------------------------------------------------------------------


def _mean(values: Iterable[float]) -> float:
    each = list(values)
    return sum(each) / len(each)


def _flood(graph: Graph) -> int:
    """Return the messages of a flood: each broker sends to all neighbours except the one from which
    it came."""
    return 2 * len(edges_of(graph)) - (len(graph) - 1)


def _homes(drawn: Network, publisher: int) -> set[str]:
    """Return the brokers with clients that want this publisher."""
    return {broker for broker, wanted in drawn.wishes if wanted == publisher}


def _ways(drawn: Network) -> list[int]:
    """Return the links on the shortest way from each subscription to its publisher."""
    by_publisher: dict[int, list[str]] = defaultdict(list)
    for broker, number in drawn.wishes:
        by_publisher[number].append(broker)
    ways = []
    for number, brokers in by_publisher.items():
        hops = hops_from(drawn.graph, drawn.publishers[number])
        ways += [hops[broker] for broker in brokers]
    return ways


def parents_from(tree: Graph, root: str) -> dict[str, str]:
    """Return for each broker of a tree the next one on its way to the root."""
    parents: dict[str, str] = {}
    waiting = [root]
    for name in waiting:
        for other in tree[name]:
            if other != root and other not in parents:
                parents[other] = name
                waiting.append(other)
    return parents


def links_to(parents: Mapping[str, str], brokers: Iterable[str]) -> set[str]:
    """Return the links of all ways from these brokers to the root, each by its farther end."""
    links: set[str] = set()
    for broker in brokers:
        at = broker
        while at in parents and at not in links:
            links.add(at)
            at = parents[at]
    return links


CAMPAIGN = Campaign(NAME, "brokers", runs, measure)
