"""Random networks with storages for the property tests: everything about one follows from its
number. Storages come first; from `CHANGES_S` on there are publications, questions and faults."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from simulation_mesh_scenarios import moving_setup, some_cuts, some_moves
from simulation_scenarios import harmful_faults, harmless_faults, random_setup

from reefcast.overlay.topology import graph, hops_from
from reefcast.simulation.faults import Crash, Fault
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup, World

CHANGES_S = 30.0
STORED = ("t", "u", "a/b", "a/c", "a/#", "#")
TOPICS = ("t", "u", "a/b", "a/c", "v")
QUESTIONS = (
    "topic = 't'",
    "topic = 'a/b' AND a > 2",
    "topic MATCHES 'a/#'",
    "topic IN ('t', 'u') AND a < 5",
    "topic MATCHES 'a/+' AND s = 'x' OR topic = 'u' AND s = 'y'",
)
ROUTINGS = ("acyclic", "flooding", "spr", "idr", "tid-s", "tid-d", "mesh")


def later(fault: Fault) -> Fault:
    """The same, `CHANGES_S` later."""
    names = {"at_s", "restart_s", "from_s", "to_s"} & set(fault.__slots__)
    return replace(fault, **{name: getattr(fault, name) + CHANGES_S for name in names})


def history_setup(rng: random.Random, *, harm: bool) -> Setup:
    """With `harm` brokers crash; some of them for ever. Else nothing is lost."""
    routing = rng.choice(ROUTINGS)
    if routing == "mesh":
        setup, delta = moving_setup(rng, most=8)
        faults = harmless_faults(setup, rng) + some_cuts(setup, rng)
        faults += [] if harm else some_moves(setup, delta, rng)
    else:
        setup = random_setup(rng, routing)
        faults = harmless_faults(setup, rng)
    if harm and len(setup.graph) > 1:
        crashes = [fault for fault in harmful_faults(setup, rng) if isinstance(fault, Crash)]
        faults += [
            replace(crash, link_patience_s=0.2, restart_s=math.inf) if rng.random() < 0.3 else crash
            for crash in crashes
        ]
    return replace(setup, faults=[later(fault) for fault in faults])


def store_scripts(simulation: Simulation, rng: random.Random) -> list[int]:
    """Handles of the storages."""
    brokers = list(simulation.setup.graph)
    return [
        simulation.store(
            f"s{i}", rng.choice(brokers), rng.sample(STORED, rng.randint(1, 3)), rng.uniform(0, 0.5)
        )
        for i in range(rng.randint(0, 4))
    ]


def change_scripts(simulation: Simulation, rng: random.Random, handles: list[int]) -> None:
    """Publications and questions, and some storages that are given up."""
    brokers = list(simulation.setup.graph)
    homes = {f"p{i}": rng.choice(brokers) for i in range(3)}
    for _ in range(rng.choice((5, 60, 400))):
        client = rng.choice(list(homes))
        attributes = {"a": rng.randint(0, 5), "s": rng.choice(("x", "y"))}
        topics = (rng.choice(TOPICS),)
        at_s = CHANGES_S + rng.uniform(0.0, 1.5)
        simulation.publish(client, homes[client], attributes, at_s, topics=topics)
    for number in range(rng.randint(0, 12)):
        ask(simulation, rng, f"c{number % 4}", at_s=CHANGES_S + rng.uniform(0.0, 2.0))
    for handle in handles:
        if rng.random() < 0.2:
            simulation.withdraw(handle, CHANGES_S + rng.uniform(0.0, 1.5))


def ask(simulation: Simulation, rng: random.Random, client: str, at_s: float) -> int:
    known = simulation.world.clients.get(client)
    broker = rng.choice(list(simulation.setup.graph)) if known is None else known.broker
    handover_s = rng.choice((0.0, 0.0, 0.3))
    return simulation.request(
        client, broker, rng.choice(QUESTIONS), at_s, handover_s=handover_s, patience_s=1.0
    )


def changed(number: int, kernel: type[World], *, harm: bool) -> Simulation:
    """A network after all its changes, quiet."""
    rng = random.Random(number)
    simulation = Simulation(history_setup(rng, harm=harm), kernel)
    handles = store_scripts(simulation, rng)
    simulation.run(until_s=CHANGES_S - 1)
    change_scripts(simulation, rng, handles)
    simulation.run(until_s=CHANGES_S + 100)
    return simulation


def reachable_from(simulation: Simulation, broker: str) -> set[str]:
    """Brokers, over the links that are up."""
    nodes = simulation.world.nodes
    edges = [
        (a, b)
        for a in nodes
        for b in nodes[a].core.router.brokers
        if nodes[a].up and nodes[b].up and a < b
    ]
    return set(hops_from(graph(list(nodes), edges), broker))
