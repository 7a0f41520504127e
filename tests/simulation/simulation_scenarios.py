"""Random scenarios for the property tests; the number of a scenario determines all of it."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import get_args

from reefcast.matching.scan import ScanIndex
from reefcast.overlay.scot import Scot, scot
from reefcast.overlay.topology import edges_of, names, random_tree
from reefcast.routing.acyclic import AcyclicOptions
from reefcast.routing.covering.strategies import Strategy
from reefcast.routing.links import Overload
from reefcast.routing.router import RoutingOptions
from reefcast.routing.scot import ScotOptions
from reefcast.simulation.costs import CostModel
from reefcast.simulation.faults import (
    BandwidthChange,
    Crash,
    Delay,
    Drop,
    Fault,
    Partition,
    Reorder,
)
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

FILTERS = (
    "TRUE",
    "a < 3",
    "a >= 3",
    "a = 2",
    "a BETWEEN 1 AND 4 AND s = 'x'",
    "s IN ('x', 'y')",
    "s = 'z' OR a = 0",
    "NOT (s = 'x')",
    "s LIKE 'y%'",
    "a > 1 AND s <> 'z'",
)


def random_setup(rng: random.Random, routing: str = "acyclic", brokers: int = 6) -> Setup:
    """Return a small random overlay of the kind that the routing is for, slow enough for queues to
    build up."""
    slow = rng.choice((1, 20, 400))
    costs = CostModel()
    costs = replace(
        costs,
        publication_s=costs.publication_s * slow,
        # Advertisements settle in less than the patience with which publications wait for them:
        # what goes out after that may miss a subscription, rightly.
        subscribe_s=costs.subscribe_s * min(slow, 20),
        table_row_s=rng.choice((0.0, 1e-6)),
    )
    made = random_scot(rng, brokers) if routing not in ("acyclic", "flooding") else None
    graph = made.graph if made else random_tree(names(rng.randint(2, brokers)), rng)
    jitter_s = rng.choice((0.0, 0.002, 0.02))
    links = {
        edge: LinkSpec(rng.uniform(1e-4, 0.02), 10 ** rng.uniform(4.3, 7), jitter_s)
        for edge in edges_of(graph)
    }
    names_of = list(graph)
    covering = {name: random_covering(rng, routing) for name in names_of}
    one = covering[names_of[0]]
    return Setup(
        graph=graph,
        routing=routing,
        seed=rng.getrandbits(32),
        costs=costs,
        links=links,
        index=ScanIndex,
        scot=made,
        overload=Overload(rng.choice((0.0, 1.0, 10.0)), rng.choice((0.005, 0.05))),
        options=one,
        broker_options=covering if one is not None and rng.random() < 0.5 else {},
    )


def random_covering(rng: random.Random, routing: str) -> RoutingOptions | None:
    """Return one covering strategy for all brokers, or one for each."""
    if routing == "acyclic":
        return AcyclicOptions(covering=rng.choice(get_args(Strategy)), theta=rng.choice((0.3, 0.9)))
    if routing in ("spr", "idr"):
        return ScotOptions(covering=rng.choice(get_args(Strategy)[:-1]))
    return None


def random_scot(rng: random.Random, brokers: int) -> Scot:
    """Return a random SCOT of two clusters at least."""
    clusters = rng.randint(2, 3)
    regions = rng.randint(1, max(1, brokers // clusters))
    return scot(random_tree("abcdef"[:regions], rng), clusters)


def random_scripts(
    simulation: Simulation, rng: random.Random, *, start_s: float = 0.0, actions: int = 40
) -> None:
    """Let clients advertise, subscribe, withdraw both, and publish, within half a second."""
    brokers = list(simulation.setup.graph)
    clients = {f"c{i}": rng.choice(brokers) for i in range(rng.randint(2, 6))}
    known = simulation.world.clients
    clients = {name: known[name].broker if name in known else at for name, at in clients.items()}
    handles: list[tuple[int, float]] = []
    for _ in range(actions):
        client = rng.choice(list(clients))
        at_s = start_s + rng.uniform(0.0, 0.5)
        kind = rng.choice(("publish", "publish", "publish", "subscribe", "advertise", "withdraw"))
        if kind == "publish":
            attributes = {"a": rng.randint(0, 5), "s": rng.choice(("x", "y", "yy", "z", None))}
            simulation.publish(client, clients[client], attributes, at_s)
        elif kind == "withdraw" and handles:
            handle, since = handles.pop(rng.randrange(len(handles)))
            simulation.withdraw(handle, since + rng.uniform(0.0, 0.5))
        elif kind == "advertise":
            text = rng.choice(("TRUE", "TRUE", *FILTERS))
            handles.append((simulation.advertise(client, clients[client], text, at_s), at_s))
        elif kind == "subscribe":
            text = rng.choice(FILTERS)
            handles.append((simulation.subscribe(client, clients[client], text, at_s), at_s))


def harmless_faults(setup: Setup, rng: random.Random) -> list[Fault]:
    """Return faults that may delay messages but lose none."""
    edges = edges_of(setup.graph)
    some = tuple(rng.sample(edges, rng.randint(1, len(edges))))
    every: list[Fault] = [
        Partition(some, 0.1, rng.uniform(0.15, 0.8)),
        BandwidthChange(some, rng.uniform(0.05, 0.5), rng.uniform(0.1, 2.0)),
        Delay(0.03, links=some, from_s=0.1, to_s=0.4),
        Reorder(0.2, 0.1),
    ]
    return rng.sample(every, rng.randint(0, len(every)))


def harmful_faults(setup: Setup, rng: random.Random) -> list[Fault]:
    """Return faults that may lose publications."""
    brokers = rng.sample(list(setup.graph), 2)
    crashes = [
        Crash(brokers[0], rng.uniform(0.05, 0.5), rng.uniform(0.6, 1.5), rng.choice((0.3, 60.0))),
        Crash(brokers[1], rng.uniform(0.05, 0.5), rng.uniform(0.6, 1.5)),
    ]
    every: list[Fault] = [*crashes, Drop(0.1, from_s=0.0, to_s=0.5)]
    return rng.sample(every, rng.randint(1, len(every)))
