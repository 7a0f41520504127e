"""Clients that ask for the order of each publisher, on a mesh that mixes it up."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_kernel import PlainKernel

from reefcast.matching.scan import ScanIndex
from reefcast.overlay.topology import edges_of, names, random_tree
from reefcast.routing.mesh.options import MeshOptions
from reefcast.simulation.checkers import check
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup, World

NUMBERS = st.integers(0, 2**32)
WINDOW_S = 3.0  # more than any publication takes


def run(number: int, kernel: type[World] = Kernel) -> Simulation:
    """Return a run in which soft links open in mid-traffic, with delays quite unlike those of other
    links."""
    rng = random.Random(number)
    tree = random_tree(names(rng.randint(4, 10)), rng)
    setup = Setup(
        graph=tree,
        routing="mesh",
        seed=number,
        index=ScanIndex,
        link=LinkSpec(1e-4, 1e7),
        links={edge: LinkSpec(rng.uniform(0.005, 0.08), 1e7, 0.02) for edge in edges_of(tree)},
        options=MeshOptions(strategy=rng.choice(("S1", "S2")), round_s=0.1),
    )
    simulation = Simulation(setup, kernel)
    brokers = list(tree)
    for i in range(8):
        asked = WINDOW_S if i % 2 else 0.0
        wanted = rng.choice(("TRUE", "a < 3", "a = 2"))
        simulation.subscribe(f"s{i}", rng.choice(brokers), wanted, 0.0, order_s=asked)
    homes = {f"p{i}": rng.choice(brokers) for i in range(3)}
    for name, home in homes.items():
        simulation.advertise(name, home, "TRUE", 0.0)
        for _ in range(40):
            simulation.publish(name, home, {"a": rng.randint(0, 4)}, rng.uniform(2.0, 3.0))
    simulation.run(limit=100_000)
    check(simulation).require()
    return simulation


def seqs(simulation: Simulation) -> dict[tuple[str, str], list[int]]:
    """Return the numbers of what came, in order, by client and publisher."""
    found = defaultdict(list)
    for deliver in simulation.world.record.delivered:
        publication = deliver.publish.publication
        for client in deliver.to:
            found[client, publication.publisher].append(publication.seq)
    return found


def in_order(found: list[int]) -> bool:
    return found == sorted(found)


@settings(max_examples=10, deadline=None)
@given(NUMBERS)
def test_who_asks_gets_each_publishers_order(number: int) -> None:
    for (client, _), found in seqs(run(number)).items():
        assert in_order(found) or int(client[1:]) % 2 == 0


def test_who_does_not_ask_may_get_another() -> None:
    assert not all(in_order(found) for n in range(5) for found in seqs(run(n)).values())


@pytest.mark.long
@pytest.mark.parametrize("number", range(3))
def test_both_kernels_hold_alike(number: int) -> None:
    assert seqs(run(number)) == seqs(run(number, PlainKernel))
