"""Random runs of live brokers and clients; the number of a scenario determines all of it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from simulation_scenarios import FILTERS, random_setup

from reefcast.network.sections import LimitsSection
from reefcast.overlay.topology import Edge, edges_of
from reefcast.routing.acyclic import AcyclicOptions
from reefcast.routing.links import Overload
from reefcast.routing.mesh.options import MeshOptions
from reefcast.simulation.checkers import Evidence, check
from reefcast.simulation.faults import Crash, Delay, Fault, Partition
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.wire.faults import (
    Again,
    Freeze,
    Pieces,
    Sever,
    Slices,
    Stop,
    Vanish,
    Wire,
    WireFault,
)
from reefcast.simulation.wire.world import WireWorld
from reefcast.simulation.world import Setup

ROUTINGS = ("flooding", "acyclic", "spr", "idr", "tid-s", "tid-d", "mesh", "spr-mesh", "idr-mesh")
SHAPE = {"mesh": "acyclic", "spr-mesh": "spr", "idr-mesh": "idr"}
START_S, LASTS_S = 1.0, 3.0
"""When publishers start, and for how long they publish."""


@contextmanager
def nobody_reads_logs() -> Iterator[None]:
    """Silence the logs: connections break by the thousand here."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def wire_setup(rng: random.Random, routing: str) -> Setup:
    """Return a small overlay without a covering that keeps statistics, because these need files."""
    setup = random_setup(rng, SHAPE.get(routing, routing), brokers=5)
    overload = Overload(rng.choice((0.1, 1.0, 10.0)), rng.choice((0.005, 0.05)))
    setup = replace(setup, routing=routing, overload=overload)
    if routing in SHAPE:
        mesh = MeshOptions(strategy=rng.choice(("S0", "S1", "S2", "SH")), round_s=0.5)
        return replace(setup, options=mesh if routing == "mesh" else None, broker_options={})
    if routing == "acyclic":
        options = AcyclicOptions(covering=rng.choice(("none", "lazy", "active")))
        return replace(setup, options=options, broker_options={})
    return setup


def wire_of(rng: random.Random, faults: list[WireFault]) -> Wire:
    silence_s = rng.choice((1.0, 5.0))
    latency_s = rng.choice((1e-4, 0.02))
    return Wire(
        faults=faults,
        client_link=LinkSpec(latency_s, 10 ** rng.uniform(5, 8), rng.choice((0.0, 0.002))),
        limits=LimitsSection(silence_s=silence_s, credit=rng.choice((3, 4096))),
        silence_s=rng.choice((2.0, 5.0)),
    )


# --- faults ---------------------------------------------------------------------------------------


def breaks(links: list[Edge], rng: random.Random) -> list[WireFault]:
    """Return faults of the connections between these programs; they lose nothing."""
    return [fault for _ in range(rng.randint(1, 6)) for fault in _break(links, rng)]


def _break(links: list[Edge], rng: random.Random) -> list[WireFault]:
    edge = rng.choice(links)
    at_s = rng.choice((rng.uniform(0.0, START_S), START_S + rng.uniform(0.0, LASTS_S)))
    some, end = (edge,), rng.choice(edge)
    told = rng.choice(((), (edge[0],), (edge[1],), edge))
    kinds: list[WireFault] = [
        Sever(links=some, at_s=at_s, at=end, after_bytes=rng.randrange(1, 400)),
        Sever(links=some, at_s=at_s, at=end, after_bytes=rng.randrange(1, 5000)),
        Sever(links=some, at_s=at_s),
        Vanish(links=some, at_s=at_s, told=told, drains=rng.random() < 0.5),
        Pieces(links=some, from_s=at_s, to_s=at_s + rng.uniform(0.2, 1), most=rng.choice((1, 9))),
    ]
    fault = rng.choice(kinds)
    if isinstance(fault, Sever) and rng.random() < 0.3:  # and soon again, while it is repaired
        later_s = at_s + rng.uniform(0.0, 0.2)
        return [fault, Sever(links=some, at_s=later_s, at=end, after_bytes=rng.randrange(1, 400))]
    return [fault]


def disturbs(setup: Setup, names: list[str], rng: random.Random) -> list[WireFault]:
    """Return faults of the programs that lose nothing."""
    at_s = START_S + rng.uniform(0.0, LASTS_S)
    every: list[WireFault] = [
        Again(at_s=at_s),
        Again(links=(rng.choice(edges_of(setup.graph)),), at_s=at_s),
        Slices(broker=rng.choice(list(setup.graph)), share=rng.choice((0.1, 1.0))),
        Freeze(name=rng.choice(names), from_s=at_s, to_s=at_s + rng.uniform(0.1, 4.0)),
    ]
    return rng.sample(every, rng.randint(0, 3))


def spells(setup: Setup, rng: random.Random) -> list[Fault]:
    edges = edges_of(setup.graph)
    some = tuple(rng.sample(edges, rng.randint(1, len(edges))))
    at_s = START_S + rng.uniform(0.0, LASTS_S)
    every: list[Fault] = [
        Partition(some, at_s, at_s + rng.uniform(0.1, 8.0)),
        Delay(links=some, from_s=at_s, to_s=at_s + 0.5, extra_s=rng.uniform(0.0, 0.1)),
    ]
    return rng.sample(every, rng.choice((0, 0, 1, 2)))


def deaths(setup: Setup, rng: random.Random) -> tuple[list[Fault], list[WireFault]]:
    """Return deaths of one or two brokers, which come back without memory."""
    crashes: list[Fault] = []
    stops: list[WireFault] = []
    for broker in rng.sample(list(setup.graph), rng.randint(1, 2)):
        at_s = START_S + rng.uniform(0.0, LASTS_S)
        back_s = at_s + rng.uniform(0.01, 3.0)
        if rng.random() < 0.7:
            crashes.append(Crash(broker, at_s, back_s))
        else:
            stops.append(Stop(broker=broker, at_s=at_s, restart_s=back_s))
    return crashes, stops


# --- scripts --------------------------------------------------------------------------------------


def clients_of(setup: Setup, rng: random.Random) -> dict[str, str]:
    brokers = list(setup.graph)
    names = [*(f"s{n}" for n in range(4)), *(f"p{n}" for n in range(2)), "g0", "g1"]
    return {name: rng.choice(brokers) for name in names}


def scripts(simulation: Simulation, clients: dict[str, str], rng: random.Random) -> None:
    """Start subscribers that stay, one that changes its subscriptions, publishers that stay, and
    guests."""
    for name, at in clients.items():
        if name.startswith("s"):
            simulation.subscribe(name, at, rng.choice(FILTERS), rng.uniform(0.0, 0.2))
        elif name.startswith("p"):
            simulation.advertise(name, at, "TRUE", rng.uniform(0.0, 0.2))
            for _ in range(25):
                some = {"a": rng.randint(0, 5), "s": rng.choice(("x", "y", "z"))}
                payload = b"." * rng.choice((0, 0, 300))
                at_s = START_S + rng.uniform(0.0, LASTS_S)
                simulation.publish(name, at, some, at_s, payload=payload)
        else:
            come_s = START_S + rng.uniform(0.0, LASTS_S)
            handle = simulation.advertise(name, at, "a >= 0", come_s)
            for i in range(5):
                simulation.publish(name, at, {"a": i, "s": "x"}, come_s + 0.01 * i + 0.01)
            simulation.withdraw(handle, come_s + rng.uniform(0.1, 0.6))
            wanted = simulation.subscribe(name, at, rng.choice(FILTERS), come_s)
            simulation.withdraw(wanted, come_s + rng.uniform(0.1, 2.0))


Drawn = tuple[list[Fault], list[WireFault]]
Faults = Callable[[Setup, dict[str, str], random.Random], Drawn]


def on_links(setup: Setup, clients: dict[str, str], rng: random.Random) -> Drawn:
    """Return faults between brokers only."""
    drawn = breaks(list(edges_of(setup.graph)), rng)
    return spells(setup, rng), drawn + disturbs(setup, list(setup.graph), rng)


def everywhere(setup: Setup, clients: dict[str, str], rng: random.Random) -> Drawn:
    """Return faults between brokers, and between clients and their brokers."""
    links = [*edges_of(setup.graph), *clients.items(), *clients.items()]
    names = [*setup.graph, *clients]
    return spells(setup, rng), breaks(links, rng) + disturbs(setup, names, rng)


def with_deaths(setup: Setup, clients: dict[str, str], rng: random.Random) -> Drawn:
    """Return the faults of `everywhere`, and deaths and stops of brokers."""
    crashes, stops = deaths(setup, rng)
    of_messages, of_wire = everywhere(setup, clients, rng) if rng.random() < 0.5 else ([], [])
    return of_messages + crashes, of_wire + stops


def with_a_stop(setup: Setup, clients: dict[str, str], rng: random.Random) -> Drawn:
    """Return the stop of one broker, with breaks of its links at that time; it loses nothing."""
    broker = rng.choice(list(setup.graph))
    at_s = START_S + rng.uniform(0.0, LASTS_S)
    drawn: list[WireFault] = [
        Stop(broker=broker, at_s=at_s, restart_s=at_s + rng.uniform(0.01, 3.0))
    ]
    links = [edge for edge in edges_of(setup.graph) if broker in edge]
    for _ in range(rng.randint(0, 2)):
        some = (rng.choice(links),)
        breaks_s = at_s + rng.uniform(-0.05, 0.1)
        where = {"at": rng.choice(some[0]), "after_bytes": rng.randrange(1, 2000)}
        drawn.append(Sever(links=some, at_s=breaks_s, **rng.choice(({}, where))))
    return [], drawn


def run_wire(number: int, routing: str, faults: Faults) -> Simulation:
    rng = random.Random(f"{number}/{routing}")
    setup = wire_setup(rng, routing)
    clients = clients_of(setup, rng)
    of_messages, of_wire = faults(setup, clients, rng)
    setup = replace(setup, faults=of_messages)
    simulation = Simulation(setup, wire=wire_of(rng, of_wire))
    for name, at in clients.items():  # also those that faults name before they do anything
        simulation.world.client(name, at)
    scripts(simulation, clients, rng)
    with nobody_reads_logs():
        simulation.run()
    return simulation


def check_wire(number: int, routing: str, faults: Faults, least: int = 1) -> Simulation:
    simulation = run_wire(number, routing, faults)
    assert isinstance(simulation.world, WireWorld)
    report = check(simulation)
    problems = {kind: found for kind, found in report.problems.items() if found}
    if found := simulation.world.problems():
        problems["wire"] = found
    assert not problems, (number, routing, problems)
    assert report.delivered == report.expected
    return simulation


def delivered(simulation: Simulation) -> set[tuple[str, int, str]]:
    """Return who got which publication, whatever the numbers of their subscriptions."""
    rows = Evidence(simulation).delivered
    return {(publisher, seq, client) for publisher, seq, client, _ in rows}
