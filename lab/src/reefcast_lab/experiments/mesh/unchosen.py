"""Meshes whose links nobody chose: what S1 and S2 make of links within Delta that are there or not
by chance, beside M2 and M11. Counted without a simulation, with the maps and the strategies of the
routing; x is the share of the links in percent.

A broker that chooses its links by what they carry does better with as many.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from reefcast.overlay.topology import Edge, Graph, hops_from
from reefcast.routing.mesh.maps import Wom
from reefcast.routing.mesh.strategies import Paths
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.mesh.distribution import wanted_by
from reefcast_lab.experiments.mesh.feeds import dataset, workload
from reefcast_lab.experiments.mesh.parameters import PAPER, section
from reefcast_lab.experiments.mesh.paths import path_counts, share_with
from reefcast_lab.experiments.mesh.topology import neighbourhood, network

NAME = "unchosen"
DATASETS = ("DT1", "DT2")
MINUTE_S = 60.0

Publications = Sequence[tuple[str, list[str]]]
"""The publisher's broker, and those that want it."""


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, ("S1", "S2"), entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    """Measure; pure forwarders are given for as many publications as in the paper."""
    entries, delta = section(NAME, run.scale), section("mesh", run.scale).delta
    tree = network("C1", run.scale)
    rng = random.Random(f"{run.seed}/mesh/unchosen")
    links = some_links(tree, delta, run.x / 100, rng)
    larger = network("C2", run.scale)
    of_larger = some_links(larger, delta, run.x / 100, rng)
    fanout = section("mesh", run.scale).fanout
    with_room = within_fanout(larger, of_larger, fanout, rng)
    figures = {
        "pairs_with_1000_in_fanout": share_with(path_counts(larger, with_room), 1000),
        "soft_links": float(len(links)),
        "pairs_with_100": share_with(path_counts(tree, links), 100),
        "pairs_with_1000": share_with(path_counts(larger, of_larger), 1000),
    }
    for name in DATASETS:
        published = _published(name, tree, entries.publications, run)
        sends = count_sends(tree, links, published, delta, direct=run.routing == "S2")
        deliveries = sum(len(wanted) for _, wanted in published)
        figures[f"yield_{name}"] = deliveries / sends
        times = entries.paper_publications / len(published)
        figures[f"pure_forwarders_{name}"] = times * (sends - deliveries)
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def some_links(tree: Graph, delta: int, share: float, rng: random.Random) -> list[Edge]:
    """Draw links out of all possible soft links, each with that probability."""
    return [
        (a, b)
        for a in tree
        for b, far in hops_from(tree, a).items()
        if a < b and 1 < far <= delta and rng.random() < share
    ]


def within_fanout(
    tree: Graph, links: Iterable[Edge], fanout: int, rng: random.Random
) -> list[Edge]:
    """Return the links that are left if they come in random order, and one that comes when one of
    its ends has `fanout` links, those of the tree included, is refused."""
    room = {broker: fanout - len(around) for broker, around in tree.items()}
    coming, taken = list(links), []
    rng.shuffle(coming)
    for a, b in coming:
        if room[a] > 0 and room[b] > 0:
            room[a] -= 1
            room[b] -= 1
            taken.append((a, b))
    return taken


def _published(name: str, tree: Graph, number: int, run: Run) -> Publications:
    crowd = workload(list(tree), dataset(name, run.scale), run.seed)
    script = crowd.script(number, subscribe_s=1.0, from_s=1.0, duration_s=MINUTE_S)
    homes = [event.broker for event in script.events]
    return list(zip(homes, wanted_by(tree, script), strict=True))


def count_sends(
    tree: Graph, links: Iterable[Edge], published: Publications, delta: int, *, direct: bool
) -> int:
    """Count copies from broker to broker; `direct`: by S2, else by S1."""
    soft: defaultdict[str, list[str]] = defaultdict(list)
    for a, b in links:
        soft[a].append(b)
        soft[b].append(a)
    sends: dict[str, Callable[[Sequence[str], str | None], tuple[str, ...]]] = {}
    for me in tree:
        sends[me] = _forwarding(tree, me, soft[me], delta, direct=direct)
    copies = 0
    for home, wanted in published:
        todo: list[tuple[str, str | None]] = [(home, None)]
        while todo:
            me, came_from = todo.pop()
            hops = sends[me](wanted, came_from)
            copies += len(hops)
            todo += [(hop, me) for hop in hops]
    return copies


def _forwarding(
    tree: Graph, me: str, soft: Sequence[str], delta: int, *, direct: bool
) -> Callable[[Sequence[str], str | None], tuple[str, ...]]:
    """Return a function that gives a broker's next hops for the brokers that want a publication, by
    where it came from."""
    closer, near = neighbourhood(tree, me, delta)
    anchors = {me: me}
    for broker, up in closer.items():
        anchors[broker] = broker if broker in near else anchors[up]
    paths = Paths(Wom(near, soft), direct)
    return lambda wanted, came_from: paths.sends({anchors[one] for one in wanted}, came_from)


CAMPAIGN = Campaign(NAME, "% of the links within Delta", runs, measure)
