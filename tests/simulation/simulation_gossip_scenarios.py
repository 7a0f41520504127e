"""Random networks of gossip for the property tests; the number of a scenario determines all of it.

Rounds are short beside everything else, so that views change all the time under the publications.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import msgspec
import networkx as nx

from reefcast.matching.scan import ScanIndex
from reefcast.model.filters import parse_filter
from reefcast.overlay.topology import Graph, names
from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.router import Gossip
from reefcast.simulation.costs import CostModel
from reefcast.simulation.faults import Crash, Drop
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup, World

CONDITIONS = ("", " AND a < 3", " AND a >= 3", " AND (a = 2 OR s = 'x')", " AND s <> 'z'")
Pair = tuple[str, int, str, int]
"""Publisher, seq, client, and number of the subscription."""
ON_THE_WAY_S = 3.0
"""More seconds than any publication takes."""
HEALED_ROUNDS = 50
"""After how many rounds a network has recovered from crashes (docs/explanation/gossip.md)."""


def unlinked(count: int) -> Graph:
    """Return brokers that know only the contacts."""
    return {name: [] for name in names(count)}


def gossip_setup(rng: random.Random, most: int = 40) -> Setup:
    """Return a network slow enough for queues to build up, at the brokers and on the
    connections."""
    graph = unlinked(rng.randint(5, most))
    slow = rng.choice((1, 1, 20, 100))
    costs = CostModel()
    costs = replace(
        costs,
        publication_s=costs.publication_s * slow,
        subscribe_s=costs.subscribe_s * min(slow, 4),
    )
    link = LinkSpec(rng.uniform(1e-4, 0.02), 10 ** rng.uniform(5, 7), rng.choice((0, 0.002, 0.01)))
    options = GossipOptions(
        contacts=tuple(rng.sample(list(graph), rng.randint(1, 4))),
        round_s=rng.choice((0.3, 0.5, 1.0)),
        ttl=rng.choice((3, 5)),
        seed=rng.getrandbits(32),
    )
    return Setup(
        graph=graph,
        routing="gossip",
        seed=rng.getrandbits(32),
        costs=costs,
        link=link,
        index=ScanIndex,
        options=options,
    )


def some_filter(rng: random.Random, topics: int) -> str:
    some = [f"'t{k}'" for k in sorted(rng.sample(range(topics), min(topics, rng.randint(1, 3))))]
    about = f"topic = {some[0]}" if len(some) == 1 else f"topic IN ({', '.join(some)})"
    return about + rng.choice(CONDITIONS)


def gossip_scripts(
    simulation: Simulation,
    rng: random.Random,
    topics: int,
    *,
    start_s: float = 0.0,
    lasts_s: float = 10.0,
    publications: int = 60,
) -> None:
    """Let clients subscribe, unsubscribe and publish all the time; some publishers advertise
    first."""
    brokers = list(simulation.setup.graph)
    known = simulation.world.clients
    for number in range(rng.randint(5, 2 * len(brokers))):
        client = f"c{number}"
        home = known[client].broker if client in known else rng.choice(brokers)
        at_s = start_s + rng.uniform(0.0, lasts_s) * rng.choice((0.1, 0.1, 1.0))
        handle = simulation.subscribe(client, home, some_filter(rng, topics), at_s)
        if rng.random() < 0.3:
            simulation.withdraw(handle, at_s + rng.uniform(0.0, lasts_s))
    homes = {f"p{number}": rng.choice(brokers) for number in range(rng.randint(1, 5))}
    for client, home in homes.items():
        homes[client] = known[client].broker if client in known else home
        if rng.random() < 0.5:
            simulation.advertise(client, homes[client], "TRUE", start_s)
    for _ in range(publications):
        publish_some(simulation, rng, homes, topics, start_s + rng.uniform(0.0, lasts_s))


def publish_some(
    simulation: Simulation, rng: random.Random, homes: dict[str, str], topics: int, at_s: float
) -> None:
    client = rng.choice(sorted(homes))
    some = rng.sample(range(topics), min(topics, rng.choice((1, 1, 2, 3))))
    attributes = {"a": rng.randint(0, 5), "s": rng.choice(("x", "y", "z"))}
    about = tuple(f"t{k}" for k in some)
    simulation.publish(client, homes[client], attributes, at_s, topics=about)


def gossip_run(
    number: int, *, kernel: type[World] = Kernel, trace: TraceOptions | None = None, most: int = 40
) -> Simulation:
    """Return a run of ten seconds in which everything happens except faults."""
    rng = random.Random(number)
    simulation = Simulation(replace(gossip_setup(rng, most), trace=trace), kernel)
    simulation.world.record.flush = lambda: None
    gossip_scripts(simulation, rng, rng.randint(1, 8))
    simulation.run(until_s=20.0)
    return simulation


def lossy_run(number: int, *, kernel: type[World] = Kernel, most: int = 25) -> Simulation:
    """Return a run in which one message in five is lost, of all that may be, and repaired."""
    rng = random.Random(f"lossy {number}")
    setup = gossip_setup(rng, most)
    assert isinstance(setup.options, GossipOptions)
    fanout = rng.choice((0, 0, 1, 2))
    options = msgspec.structs.replace(setup.options, repair=True, kept_rounds=10, fanout=fanout)
    setup = replace(setup, options=options, faults=[Drop(0.2, control=0.2)])
    simulation = Simulation(setup, kernel)
    gossip_scripts(simulation, rng, rng.randint(1, 6))
    simulation.run(until_s=10.0 + 2 * options.kept_rounds * options.round_s)
    return simulation


def crashes(setup: Setup, rng: random.Random, lasts_s: float) -> list[Crash]:
    """Return crashes of 20 to 30 % of the brokers, some of which come back; each topic keeps a
    contact."""
    assert isinstance(setup.options, GossipOptions)
    contacts = setup.options.contacts
    others = [name for name in setup.graph if name not in contacts]
    others += contacts[1:2]
    count = max(1, round(rng.uniform(0.2, 0.3) * len(setup.graph)))
    return [
        Crash(name, at_s, at_s + rng.uniform(0.3, lasts_s) if rng.random() < 0.4 else math.inf)
        for name in rng.sample(others, count)
        for at_s in [rng.uniform(1.0, lasts_s)]
    ]


def healed_after_s(setup: Setup) -> float:
    """Return the seconds in which a network recovers from crashes (docs/explanation/gossip.md)."""
    assert isinstance(setup.options, GossipOptions)
    return HEALED_ROUNDS * setup.options.round_s


def crashing_run(
    number: int, *, kernel: type[World] = Kernel, most: int = 30
) -> tuple[Simulation, float]:
    """Return a run in which brokers crash while everything happens; from the returned time on,
    brokers that are up publish to each other."""
    rng = random.Random(f"crashes {number}")
    setup = gossip_setup(rng, most)
    faults = crashes(setup, rng, 8.0)
    simulation = Simulation(replace(setup, faults=faults), kernel)
    topics = rng.randint(1, 8)
    gossip_scripts(simulation, rng, topics)
    last_s = max(16.0, *(fault.restart_s for fault in faults if fault.restart_s < math.inf), 0.0)
    again_s = last_s + healed_after_s(setup)
    live = [
        x for x in setup.graph if not any(f.broker == x and f.restart_s == math.inf for f in faults)
    ]
    homes = {f"q{number}": rng.choice(live) for number in range(3)}
    for _ in range(30):
        publish_some(simulation, rng, homes, topics, again_s + rng.uniform(0.0, 3.0))
    simulation.run(until_s=again_s + 3.0 + max(ON_THE_WAY_S, 6 * setup.options.round_s))
    return simulation, again_s


# --- the truth ------------------------------------------------------------------------------------


def delivered(simulation: Simulation) -> list[Pair]:
    rows = simulation.deliveries()
    return list(
        zip(rows.publisher, rows.seq.tolist(), rows.client, rows.number.tolist(), strict=True)
    )


def demanded(
    simulation: Simulation,
    from_s: float = 0.0,
    to_s: float = math.inf,
    on_the_way_s: float = ON_THE_WAY_S,
) -> set[Pair]:
    """Return what flooding would deliver of the publications of that time: to all subscriptions
    that had settled before, and that last for as long as a publication may take."""
    result = simulation.result()
    claims = [c for c in result.claims if c.subscription and c.settled_s < math.inf]
    pairs = set()
    for published in result.published:
        publication = published.publication
        at_s = publication.time_us / 1e6
        if not from_s <= at_s < to_s or publication.id in result.refused:
            continue
        for claim in claims:
            there = claim.settled_s < at_s and at_s + on_the_way_s < claim.ended_s
            if there and parse_filter(claim.filter).matches(publication):
                pairs.add((*publication.id, claim.client, claim.number))
    return pairs


def gossip_of(simulation: Simulation, broker: str) -> Gossip:
    router = simulation.world.nodes[broker].core.router
    assert isinstance(router, Gossip)
    return router


def live_routers(simulation: Simulation) -> dict[str, Gossip]:
    return {
        name: gossip_of(simulation, name)
        for name, node in simulation.world.nodes.items()
        if node.up
    }


def topic_graphs(simulation: Simulation) -> dict[str, nx.DiGraph]:
    """Return, by topic, the graph of who has whom in its view."""
    graphs: dict[str, nx.DiGraph] = {}
    for name, router in live_routers(simulation).items():
        for topic, known in router.memberships.items():
            graph = graphs.setdefault(topic, nx.DiGraph())
            graph.add_node(name)
            graph.add_edges_from((name, other) for other in known.overlay.view)
    return graphs
