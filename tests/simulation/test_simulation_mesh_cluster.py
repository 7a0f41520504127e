"""OctopiA with a mesh inside each cluster: exactly once, under churn and cuts, on both kernels."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_kernel import PlainKernel

from reefcast.overlay.scot import Scot, scot
from reefcast.overlay.topology import path, random_tree
from reefcast.routing.mesh.options import MeshOptions
from reefcast.simulation.checkers import check
from reefcast.simulation.faults import Cut
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.simulation import Result, Simulation
from reefcast.simulation.world import Setup, World

SECONDS = 12.0


def scripted(overlay: Scot, routing: str, seed: int, kernel: type[World]) -> Simulation:
    """Return a run in which subscriptions come and go, soft links open, close and are cut, and
    somebody publishes all the time."""
    rng = random.Random(seed)
    names = sorted(overlay.graph)
    options = {
        name: MeshOptions(
            strategy=rng.choice(("S0", "S1", "S2", "SH")),
            covering=rng.choice(("none", "lazy", "active")),
            fanout=rng.choice((3, 8)),
            maxlinks=16,
            round_s=1.5,
            capacity_per_s=20,
        )
        for name in names
    }
    pairs = tuple((a, b) for a in names for b in names if a < b)
    cuts = [Cut(pairs, 4.0 + 3.1 * i) for i in range(3)]
    setup = Setup(
        graph=overlay.graph,
        scot=overlay,
        routing=routing,
        seed=seed,
        broker_options=options,
        faults=cuts,
    )
    simulated = Simulation(setup, kernel=kernel)
    homes = {f"p{i}": rng.choice(names) for i in range(3)}
    for name, home in homes.items():
        simulated.advertise(name, home, "x >= 0", at_s=0.1)
    for i in range(30):
        low, came = rng.randrange(90), rng.uniform(0, 8)
        wanted = f"x BETWEEN {low} AND {low + rng.randrange(20)}"
        handle = simulated.subscribe(f"s{i}", rng.choice(names), wanted, at_s=came)
        if rng.random() < 0.4:
            simulated.withdraw(handle, rng.uniform(came, SECONDS))
    for i in range(300):
        name = rng.choice(sorted(homes))
        simulated.publish(name, homes[name], {"x": rng.randrange(100)}, at_s=1 + i * SECONDS / 350)
    return simulated


@pytest.mark.long
@settings(max_examples=4, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    routing=st.sampled_from(["spr-mesh", "idr-mesh"]),
    clusters=st.integers(1, 3),
)
def test_every_subscriber_gets_each_publication_once(
    seed: int, routing: str, clusters: int
) -> None:
    tree = random_tree([f"t{i}" for i in range(7)], random.Random(seed))
    overlay = scot(tree, clusters)
    results: list[Result] = []
    for kernel in (Kernel, PlainKernel):
        simulated = scripted(overlay, routing, seed, kernel)
        results.append(simulated.run())
        report = check(simulated)
        assert report.correct, (report, seed)
        assert report.expected
    fast, plain = results
    assert (fast.messages, fast.unseed) == (plain.messages, plain.unseed)


def test_soft_links_spare_brokers_in_a_cluster() -> None:
    """The publisher is at one end of a chain and the subscriber at the other: after some rounds the
    copies take a soft link."""
    overlay = scot(path([f"t{i}" for i in range(4)]), 2)
    names = {(p.region, p.cluster): name for name, p in overlay.places.items()}
    first, last = names["t0", 0], names["t3", 0]
    sent = {}
    for routing in ("spr", "spr-mesh"):
        options = MeshOptions(round_s=1.0) if routing == "spr-mesh" else None
        setup = Setup(graph=overlay.graph, scot=overlay, routing=routing, options=options)
        simulated = Simulation(setup)
        simulated.subscribe("s", last, "x >= 0", at_s=0.0)
        simulated.advertise("p", first, "x >= 0", at_s=0.5)
        for i in range(400):
            simulated.publish("p", first, {"x": i}, at_s=1 + i / 50)
        sent[routing] = simulated.run().messages["publish"]
    assert sent["spr"] == 400 * 3
    assert sent["spr-mesh"] < 400 * 2
