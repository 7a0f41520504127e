"""Counts on arrays equal what the router does with the same publications in the simulator."""

from __future__ import annotations

import random

import numpy as np
import pytest

from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.router import Gossip
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.gossip.scenario import grid_interests
from reefcast_lab.experiments.gossip.spreading import Faults, Publications, Spread, spread
from reefcast_lab.experiments.gossip.stack import stack_of
from reefcast_lab.rounds.overlays import Overlays

MEETING_S, ROUND_S = 12.0, 0.5
PUBLICATIONS = 300


def met(fanout: int) -> Simulation:
    """Return brokers that found each other through two contacts, and subscribe to all topics."""
    interests = grid_interests(80, 12, 1)
    brokers = sorted({node for members in interests.values() for node in members})
    options = GossipOptions(
        contacts=("c0", "c1"), round_s=ROUND_S, fanout=fanout, seed=1, wave_rounds=5
    )
    graph = {name: [] for name in (*options.contacts, *brokers)}
    simulation = Simulation(Setup(graph=graph, routing="gossip", seed=1, options=options))
    for topic, members in interests.items():
        for node in (*options.contacts, *members):
            simulation.subscribe(f"client of {node}", node, f"topic = '{topic}'", 0.1)
    simulation.run(until_s=MEETING_S)
    return simulation


def routers(simulation: Simulation) -> dict[str, Gossip]:
    found = {name: node.core.router for name, node in simulation.world.nodes.items()}
    assert all(isinstance(router, Gossip) for router in found.values())
    return found


def views(simulation: Simulation) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for name, router in routers(simulation).items():
        for topic, known in router.memberships.items():
            found.setdefault(topic, {})[name] = list(known.overlay.view)
    return found


def both(simulation: Simulation, topics: int, fanout: int) -> tuple[Spread, int, int]:
    """Return the counts on arrays, and the deliveries and copies in the simulator before the next
    round."""
    overlays = Overlays.of(views(simulation))
    rng = random.Random(1)
    record = simulation.world.record
    copies, delivered = record.forwarded, record.delivered_clients
    publishers, chosen = [], []
    for number in range(PUBLICATIONS):
        node, router = rng.choice(sorted(routers(simulation).items()))
        mine = sorted(router.memberships)
        if len(mine) < topics:
            continue
        some = sorted(rng.sample(mine, topics))
        at_s = simulation.now_s + 0.01 + 0.001 * number
        simulation.publish(f"client of {node}", node, {}, at_s, topics=tuple(some))
        publishers.append(overlays.nodes.index(node))
        chosen.append([overlays.topics.index(topic) for topic in some])
    simulation.run(until_s=simulation.now_s + ROUND_S - 0.01)
    published = Publications(np.array(publishers), np.array(chosen))
    faults = Faults(np.zeros(len(overlays.nodes), np.bool_), 0.0)
    found = spread(stack_of(overlays), published, faults, fanout, np.random.default_rng(1))
    return found, record.delivered_clients - delivered - len(publishers), record.forwarded - copies


@pytest.mark.parametrize("topics", [pytest.param(1, marks=pytest.mark.soak), 3])
def test_to_all_neighbours(topics: int) -> None:
    """Which of several copies comes first is random, and nothing is sent back on that link."""
    found, delivered, copies = both(met(0), topics, 0)
    assert found.delivered_share == 1.0
    assert delivered == found.delivered.sum()
    assert copies == pytest.approx(found.copies.sum(), rel=0.02)


@pytest.mark.parametrize("topics", [1, pytest.param(3, marks=pytest.mark.soak)])
def test_to_two_of_each_topic(topics: int) -> None:
    found, delivered, copies = both(met(2), topics, 2)
    assert 0.6 < found.delivered_share < 1.0
    assert copies == pytest.approx(found.copies.sum(), rel=0.05)
    assert delivered == pytest.approx(found.delivered.sum(), rel=0.05)
