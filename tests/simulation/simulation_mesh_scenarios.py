"""Random meshes for the property tests; the number of a scenario determines all of it.

Rounds are short, so that soft links open and close all the time, under publications that queue up.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import NamedTuple, get_args

import msgspec
from simulation_scenarios import harmless_faults, random_scripts

from reefcast.matching.scan import ScanIndex
from reefcast.overlay.topology import Graph, edges_of, graph, hops_from, names, random_tree
from reefcast.routing.mesh.movable import MovableMesh
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.strategies import StrategyName
from reefcast.simulation.costs import CostModel
from reefcast.simulation.faults import Crash, Cut, Fault, Move
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup, World

COVERINGS = ("none", "lazy", "active")
BURSTS_S = (0.1, 0.4, 0.7, 1.0, 1.3)
"""When many publish at once, and when cuts happen."""


def some_tree(rng: random.Random, most: int = 12) -> Graph:
    """Return a random tree; one in two is long and thin, longer than Delta."""
    brokers = names(rng.randint(2, most))
    if rng.random() < 0.5:
        return random_tree(brokers, rng)
    near = [(brokers[rng.randrange(max(0, i - 2), i)], brokers[i]) for i in range(1, len(brokers))]
    return graph(brokers, near)


def some_options(rng: random.Random, delta: int) -> MeshOptions:
    """Return options for one broker; Delta is not among them."""
    fanout = rng.randint(1, 12)
    return MeshOptions(
        strategy=rng.choice(get_args(StrategyName)),
        delta=delta,
        fanout=fanout,
        maxlinks=fanout + rng.randint(0, 8),
        round_s=rng.choice((0.06, 0.15, 0.4)),
        capacity_per_s=rng.choice((0.0, 10.0, 100.0)),
        load_threshold=rng.choice((0.2, 0.8)),
        covering=rng.choice(COVERINGS),
    )


def mesh_setup(rng: random.Random, most: int = 12) -> Setup:
    """Return a network slow enough for queues to build up, at the brokers and on the links."""
    tree, delta = some_tree(rng, most), rng.randint(1, 5)
    costs, slow = CostModel(), rng.choice((1, 20, 400))
    costs = replace(
        costs, publication_s=costs.publication_s * slow, subscribe_s=costs.subscribe_s * slow
    )
    jitter_s = rng.choice((0.0, 0.002, 0.02))
    soft = LinkSpec(rng.uniform(1e-4, 0.02), 10 ** rng.uniform(4.3, 7), jitter_s)
    links = {
        edge: LinkSpec(rng.uniform(1e-4, 0.02), 10 ** rng.uniform(4.3, 7), jitter_s)
        for edge in edges_of(tree)
    }
    return Setup(
        graph=tree,
        routing="mesh",
        seed=rng.getrandbits(32),
        costs=costs,
        link=soft,
        links=links if rng.random() < 0.8 else {},
        index=ScanIndex,
        broker_options={name: some_options(rng, delta) for name in tree},
    )


def some_cuts(setup: Setup, rng: random.Random) -> list[Fault]:
    """Return failures of soft links: of some pairs of brokers at a time, and of all at once."""
    brokers = list(setup.graph)
    pairs = [(a, b) for a in brokers for b in brokers if a < b]
    return [
        Cut(
            tuple(rng.sample(pairs, rng.choice((1, len(pairs) // 2, len(pairs))))),
            rng.choice(BURSTS_S) + rng.uniform(0.0, 0.1),
        )
        for _ in range(rng.randint(0, 8))
    ]


def some_moves(setup: Setup, delta: int, rng: random.Random) -> list[Fault]:
    """Return moves of links of the tree as it will be then, if each move is over before the next
    one begins; otherwise some are impossible, and are given up. One in two is requested together
    with the one before."""
    tree = {name: list(others) for name, others in setup.graph.items()}
    moves: list[Fault] = []
    times = sorted(rng.uniform(0.05, 1.5) for _ in range(rng.choice((1, 1, 2, 3, 5))))
    for at_s in [time for time in times for _ in range(rng.randint(1, 2))]:
        move = one_move(tree, delta, at_s, rng)
        if move.new != move.old:
            moves.append(move)
    return moves


def one_move(tree: dict[str, list[str]], delta: int, at_s: float, rng: random.Random) -> Move:
    """Move a link of this tree, and return the move. The new link may be the old one."""
    mover = rng.choice(sorted(tree))
    old = rng.choice(tree[mover])
    tree[mover].remove(old)
    tree[old].remove(mover)
    hops = hops_from(tree, old)
    new = rng.choice(sorted(x for x in hops if hops[x] < delta))
    tree[mover].append(new)
    tree[new].append(mover)
    return Move(mover, old, new, at_s)


def some_crash(setup: Setup, move: Move, rng: random.Random) -> Crash:
    """Return a crash around the time of a move, of a broker that takes part in it or of any
    other."""
    options = next(iter(setup.broker_options.values()))
    assert isinstance(options, MeshOptions)
    about = (move.broker, move.old, move.new, options.coordinator)
    name = rng.choice((*about, *rng.sample(sorted(setup.graph), 2)))
    at_s = move.at_s + rng.choice(
        (rng.uniform(0.0, 0.1), rng.uniform(0.0, 0.6), rng.expovariate(2))
    )
    restart_s = at_s + rng.choice((rng.uniform(1e-3, 0.1), rng.uniform(0.1, 1.5)))
    return Crash(name, at_s, restart_s, rng.choice((0.05, 0.2, 60.0)))


def crashes(setup: Setup, rng: random.Random) -> list[Fault]:
    """Return crashes of up to three brokers, some of which their neighbours give up."""
    brokers = rng.sample(list(setup.graph), min(len(setup.graph), rng.randint(1, 3)))
    return [
        Crash(name, rng.uniform(0.1, 0.6), rng.uniform(0.7, 1.5), rng.choice((0.2, 60.0, 60.0)))
        for name in brokers
    ]


def mesh_scripts(simulation: Simulation, rng: random.Random, start_s: float = 0.0) -> None:
    """Let clients come and go as in `random_scripts`, under bursts of publications with some rounds
    in between."""
    random_scripts(simulation, rng, start_s=start_s, actions=rng.choice((20, 60)))
    brokers = list(simulation.setup.graph)
    known = simulation.world.clients
    homes = {f"p{i}": rng.choice(brokers) for i in range(rng.randint(1, 4))}
    for name, broker in homes.items():
        homes[name] = known[name].broker if name in known else broker
        simulation.advertise(name, homes[name], "TRUE", start_s)
    for _ in range(rng.choice((20, 120))):
        name = rng.choice(sorted(homes))
        attributes = {"a": rng.randint(0, 5), "s": rng.choice(("x", "y", "yy", "z"))}
        at_s = start_s + rng.choice(BURSTS_S) + rng.expovariate(30.0)
        simulation.publish(name, homes[name], attributes, at_s)


def mesh_routers(simulation: Simulation) -> dict[str, MovableMesh]:
    """Return the routers of the brokers that are up."""
    found = {}
    for name, node in simulation.world.nodes.items():
        assert isinstance(node.core.router, MovableMesh)
        if node.up:
            found[name] = node.core.router
    return found


def moving_setup(rng: random.Random, most: int = 20) -> tuple[Setup, int]:
    """Return a network whose links can be moved, and its delta."""
    setup, delta = mesh_setup(rng, most), rng.choice((2, 2, 3, 4, 5))
    coordinator = rng.choice(sorted(setup.graph))
    options = {
        name: msgspec.structs.replace(own, delta=delta, coordinator=coordinator)
        for name, own in setup.broker_options.items()
        if isinstance(own, MeshOptions)
    }
    return replace(setup, broker_options=options), delta


def moving_run(number: int, kernel: type[World] = Kernel) -> Simulation:
    """Return a run like `mesh_run`, with moves of primary links in the first stage."""
    rng = random.Random(f"moves {number}")
    setup, delta = moving_setup(rng)
    faults = some_cuts(setup, rng) + harmless_faults(setup, rng)
    faults += some_moves(setup, delta, rng)
    simulation = Simulation(replace(setup, faults=faults), kernel)
    mesh_scripts(simulation, rng)
    simulation.run(until_s=rng.choice((0.72, 30.0, 30.0)), limit=200_000)
    mesh_scripts(simulation, rng, simulation.now_s + 0.1)
    simulation.run(limit=200_000)
    return simulation


class FailingRun(NamedTuple):
    """A run in which a broker crashed while links were moved, and came back. `since_s`: when its
    effects were over; then there were publications and one more `move`."""

    simulation: Simulation
    since_s: float
    move: Move


def failing_run(number: int) -> FailingRun:
    """Return a run like `moving_run` with a crash, in two stages; nothing fails in the second
    one."""
    rng = random.Random(f"failing moves {number}")
    setup, delta = moving_setup(rng)
    faults = some_moves(setup, delta, rng)
    while not faults:
        setup, delta = moving_setup(rng)
        faults = some_moves(setup, delta, rng)
    move = rng.choice(faults)
    assert isinstance(move, Move)
    faults.append(some_crash(setup, move, rng))
    if rng.random() < 0.5:
        faults += some_cuts(setup, rng) + harmless_faults(setup, rng)
    simulation = Simulation(replace(setup, faults=faults))
    mesh_scripts(simulation, rng)
    simulation.run(until_s=30.0, limit=400_000)
    since_s = simulation.now_s
    mesh_scripts(simulation, rng, since_s + 0.1)
    tree = {name: list(router.brokers) for name, router in mesh_routers(simulation).items()}
    last = one_move(tree, delta, since_s + 0.3, rng)
    simulation.world.add_intervention(last.at_s, partial(simulation.world.move, last))
    simulation.run(limit=400_000)
    return FailingRun(simulation, since_s, last)


def mesh_run(
    number: int,
    *,
    harmful: bool = False,
    kernel: type[World] = Kernel,
    trace: TraceOptions | None = None,
) -> Simulation:
    """Return a run in two stages: unless the first one is cut short, the second begins when it is
    quiet. With a trace, its rows stay in memory."""
    rng = random.Random(number)
    setup = mesh_setup(rng)
    faults = some_cuts(setup, rng) + harmless_faults(setup, rng)
    faults += crashes(setup, rng) if harmful else []
    simulation = Simulation(replace(setup, faults=faults, trace=trace), kernel)
    simulation.world.record.flush = lambda: None
    mesh_scripts(simulation, rng)
    simulation.run(until_s=rng.choice((0.45, 0.72, 30.0, 30.0)), limit=200_000)
    mesh_scripts(simulation, rng, simulation.now_s + 0.1)
    simulation.run(limit=200_000)
    return simulation
