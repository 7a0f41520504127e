"""Random networks with storages for the property tests; the number of a scenario determines all of
it. Storages come first; from `CHANGES_S` on there are publications, questions and faults."""

from __future__ import annotations

import math
import random
from dataclasses import fields, replace
from typing import TypeVar

import msgspec
from simulation_wire_scenarios import (
    ROUTINGS,
    Faults,
    nobody_reads_logs,
    wire_of,
    wire_setup,
    with_deaths,
)

from reefcast.overlay.topology import graph, hops_from
from reefcast.simulation.faults import Crash, Fault
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.wire.faults import Restart, WireFault
from reefcast.simulation.wire.world import WireWorld

CHANGES_S = 10.0
"""By then, storages have told each other everything that they have: see `storage_node`."""
LASTS_S = 50.0
"""For how long the changes last: longer than anybody waits for anything here."""
STORED = ("t", "u", "a/b", "a/c", "a/#", "#")
TOPICS = ("t", "u", "a/b", "a/c", "v")
QUESTIONS = (
    "topic = 't'",
    "topic = 'a/b' AND a > 2",
    "topic MATCHES 'a/#'",
    "topic IN ('t', 'u') AND a < 5",
    "topic MATCHES 'a/+' AND s = 'x' OR topic = 'u' AND s = 'y'",
)
NAMES = {"s": 4, "p": 3, "c": 4}
"""How many storages, publishers, and clients that ask there are, by the first letter of their
names."""
PATIENCE_S = 1.0
"""The patience of brokers with neighbours that do not come back, and of clients that ask."""
AnyFault = TypeVar("AnyFault", Fault, WireFault)


def later(fault: AnyFault) -> AnyFault:
    """Return the same fault, `CHANGES_S` later."""
    times = {each.name for each in fields(fault)} & {"at_s", "restart_s", "from_s", "to_s"}
    return replace(fault, **{name: getattr(fault, name) + CHANGES_S for name in times})


def stay_away(faults: list[Fault], rng: random.Random) -> list[Fault]:
    """Return the faults; some of the brokers that die stay away."""
    return [
        replace(fault, restart_s=math.inf)
        if isinstance(fault, Crash) and rng.random() < 0.3
        else fault
        for fault in faults
    ]


def restarts(rng: random.Random) -> list[WireFault]:
    """Return restarts of some storages."""
    faults: list[WireFault] = []
    for number in range(NAMES["s"]):
        at_s = rng.uniform(0.5, 3.0)
        if rng.random() < 0.4:
            back_s = at_s + rng.uniform(0.01, 2.0)
            faults.append(Restart(client=f"s{number}", at_s=at_s, restart_s=back_s))
    return faults


def network(rng: random.Random, faults: Faults) -> tuple[Simulation, dict[str, str]]:
    """Return a network, and the broker of each client."""
    setup = wire_setup(rng, rng.choice(ROUTINGS))
    brokers = list(setup.graph)
    clients = {
        f"{kind}{n}": rng.choice(brokers) for kind, count in NAMES.items() for n in range(count)
    }
    drawn, of_wire = faults(setup, clients, rng)
    wire = wire_of(rng, [])
    if faults is with_deaths and len(brokers) > 1:
        drawn = stay_away(drawn, rng)
        of_wire += restarts(rng)
        limits = msgspec.structs.replace(wire.limits, link_patience_s=PATIENCE_S)
        wire = replace(wire, limits=limits)
    wire = replace(wire, faults=[later(fault) for fault in of_wire])
    setup = replace(setup, faults=[later(fault) for fault in drawn])
    simulation = Simulation(setup, wire=wire)
    for name, at in clients.items():  # also those that faults name before they do anything
        simulation.world.client(name, at)
    return simulation, clients


def store_scripts(simulation: Simulation, clients: dict[str, str], rng: random.Random) -> list[int]:
    """Start storages; return their handles."""
    some = [name for name in clients if name.startswith("s")][: rng.randint(0, NAMES["s"])]
    return [
        simulation.store(
            name, clients[name], rng.sample(STORED, rng.randint(1, 3)), rng.uniform(0, 0.5)
        )
        for name in some
    ]


def change_scripts(
    simulation: Simulation, clients: dict[str, str], rng: random.Random, handles: list[int]
) -> None:
    """Publish, ask, and give up some storages. Publishers advertise in advance: brokers hold
    publications only for some time for an advertisement that does not settle."""
    for number in range(NAMES["p"]):
        client = f"p{number}"
        simulation.advertise(client, clients[client], "TRUE", rng.uniform(0.0, 0.5))
    for _ in range(rng.choice((5, 60, 200))):
        client = f"p{rng.randrange(NAMES['p'])}"
        attributes = {"a": rng.randint(0, 5), "s": rng.choice(("x", "y"))}
        topics = (rng.choice(TOPICS),)
        at_s = CHANGES_S + rng.uniform(0.0, 3.0)
        simulation.publish(client, clients[client], attributes, at_s, topics=topics)
    for number in range(rng.randint(0, 12)):
        client = f"c{number % NAMES['c']}"
        simulation.request(
            client,
            clients[client],
            rng.choice(QUESTIONS),
            CHANGES_S + rng.uniform(0.0, 4.0),
            handover_s=rng.choice((0.0, 0.0, 0.3)),
            patience_s=PATIENCE_S,
        )
    for handle in handles:
        if rng.random() < 0.2:
            simulation.withdraw(handle, CHANGES_S + rng.uniform(0.0, 3.0))


def changed(number: int, faults: Faults) -> Simulation:
    """Return a network after all its changes, when it is quiet."""
    rng = random.Random(number)
    simulation, clients = network(rng, faults)
    handles = store_scripts(simulation, clients, rng)
    change_scripts(simulation, clients, rng, handles)
    with nobody_reads_logs():
        simulation.run(until_s=CHANGES_S + LASTS_S / 2)
        cut_no_more(simulation)
        simulation.run(until_s=CHANGES_S + LASTS_S)
    return simulation


def cut_no_more(simulation: Simulation) -> None:
    """Cancel the cuts that wait for a thousand bytes: where few bytes pass, they would come at any
    time."""
    assert isinstance(simulation.world, WireWorld)
    for pair in simulation.world.loop.connections.all:
        for end in pair.ends:
            end.left = None


def reachable_from(simulation: Simulation, broker: str) -> set[str]:
    """Return the brokers that can be reached over links that are up."""
    nodes = simulation.world.nodes
    edges = [
        (a, b)
        for a in nodes
        for b in nodes[a].core.router.brokers
        if nodes[a].up and nodes[b].up and a < b
    ]
    return set(hops_from(graph(list(nodes), edges), broker))
