"""Random meshes under load, judged by the checkers: soft links that open, close and fail, and
brokers that crash. Each broker has options of its own."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_mesh_scenarios import mesh_run, mesh_scripts, mesh_setup
from simulation_twins import check_twins

from reefcast.matching.scan import ScanIndex
from reefcast.overlay.topology import names, path
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.router import Mesh
from reefcast.simulation.checkers import check
from reefcast.simulation.costs import CostModel
from reefcast.simulation.faults import Crash, Cut, Fault
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

NUMBERS = st.integers(0, 2**32)


def check_run(number: int, *, harmful: bool = False) -> None:
    simulation = mesh_run(number, harmful=harmful)
    report = check(simulation).require()
    assert report.delivered == report.expected


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(NUMBERS)
def test_exactly_once_whatever_happens_to_soft_links(number: int) -> None:
    check_run(number)


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(NUMBERS)
def test_after_crashes_a_mesh_heals(number: int) -> None:
    check_run(number, harmful=True)


# --- against flooding, and against the plain kernel -----------------------------------------------


def settled_deliveries(number: int, routing: str) -> list[tuple[str, int, str, int]]:
    """Return what is delivered of publications after all subscriptions have settled."""
    rng = random.Random(number)
    setup = mesh_setup(rng)
    options = setup.broker_options if routing == "mesh" else {}
    simulation = Simulation(replace(setup, routing=routing, broker_options=options))
    mesh_scripts(simulation, rng)
    simulation.run()
    start_s = simulation.now_s
    brokers = list(setup.graph)
    for at in range(100):
        client = f"q{rng.randrange(3)}"
        broker = brokers[int(client[1:]) % len(brokers)]
        simulation.publish(client, broker, {"a": rng.randint(0, 5), "s": "x"}, start_s + at * 5e-3)
    simulation.run()
    rows = simulation.deliveries()
    every = zip(rows.publisher, rows.seq.tolist(), rows.client, rows.number.tolist(), strict=True)
    return sorted(row for row in every if row[0].startswith("q"))


@pytest.mark.long
@settings(max_examples=8, deadline=None)
@given(NUMBERS)
def test_every_mix_of_strategies_delivers_what_flooding_delivers(number: int) -> None:
    assert settled_deliveries(number, "mesh") == settled_deliveries(number, "flooding")


def check_kernels(number: int, folder: Path) -> None:
    """Compare the kernels on a random scenario, in two stages."""
    trace = TraceOptions(folder, snapshot_s=0.17)
    check_twins(
        lambda kernel: mesh_run(number, harmful=number % 2 == 1, kernel=kernel, trace=trace)
    )


@pytest.fixture(scope="session")
def trace_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mesh")


@pytest.mark.long
@settings(max_examples=5, deadline=None)
@given(NUMBERS)
def test_both_kernels_write_the_same_trace_of_a_mesh(trace_folder: Path, number: int) -> None:
    check_kernels(number, trace_folder)


@pytest.mark.soak
def test_many_random_meshes(trace_folder: Path) -> None:
    for number in range(3_000):
        check_run(number)
        check_run(number, harmful=True)
        assert settled_deliveries(number, "mesh") == settled_deliveries(number, "flooding")
        if number % 3 == 0:
            check_kernels(number, trace_folder)


# --- soft links that fail -------------------------------------------------------------------------


def loaded_path(*faults: Fault, publication_s: float = 5e-3) -> Simulation:
    """Return a path on which b1 publishes faster than b6, at the other end, can handle; both ends
    would profit from links over several hops."""
    setup = Setup(
        graph=path(names(6)),
        routing="mesh",
        costs=replace(CostModel(), publication_s=publication_s),
        options=MeshOptions(round_s=0.5, strategy="S2"),
        faults=faults,
        index=ScanIndex,
    )
    simulation = Simulation(setup)
    for broker in ("b4", "b5", "b6"):
        simulation.subscribe(f"s-{broker}", broker, "TRUE", 0.0)
    simulation.advertise("p", "b1", "TRUE", 0.0)
    for i in range(1000):
        simulation.publish("p", "b1", {"a": i}, 0.5 + i * 4e-3)
    return simulation


def mesh_of(simulation: Simulation, broker: str) -> Mesh:
    router = simulation.world.nodes[broker].core.router
    assert isinstance(router, Mesh)
    return router


def test_soft_links_open_by_themselves_and_what_they_carry_skips_brokers() -> None:
    simulation = loaded_path()
    result = simulation.run()
    assert mesh_of(simulation, "b1").soft_links
    assert result.messages["publish"] < 0.75 * 1000 * 5  # five links of the path
    assert check(simulation).require().delivered == 3000


def test_a_soft_link_that_is_cut_under_load_loses_and_doubles_nothing() -> None:
    pairs = [(f"b{i}", f"b{j}") for i in range(1, 7) for j in range(i + 1, 7)]
    cuts = [Cut(tuple(pairs), at_s) for at_s in (1.501, 2.7, 3.303, 4.01)]
    simulation = loaded_path(*cuts)
    simulation.run()
    assert sum(mesh_of(simulation, f"b{i}").counters["tunnelled"] for i in range(1, 7)) > 100
    report = check(simulation).require()
    assert (report.expected, report.delivered) == (3000, 3000)


def test_what_arrived_before_the_cut_and_was_not_acknowledged_is_a_duplicate() -> None:
    """b4 goes on with its queue although the link is gone; the copies that come again through the
    tunnel end there."""
    cut = Cut((("b1", "b2"), ("b1", "b3"), ("b1", "b4"), ("b1", "b5")), 3.303)
    simulation = loaded_path(cut)
    result = simulation.run()
    assert result.discards["duplicate"] > 0
    assert check(simulation).require().delivered == 3000


def test_what_the_core_sends_on_a_link_that_is_cut_comes_back_to_it() -> None:
    """b1 is so busy that it learns of the cut long afterwards: everything that it sends until then
    goes through the tunnel."""
    cut = Cut((("b1", "b2"), ("b1", "b3"), ("b1", "b4"), ("b1", "b5")), 3.303)
    simulation = loaded_path(cut, publication_s=6e-3)
    simulation.run()
    tunnelled = mesh_of(simulation, "b1").counters["tunnelled"]
    assert tunnelled > 50
    assert check(simulation).require().delivered == 3000


@pytest.mark.parametrize("patience_s", [0.2, 60.0])
def test_a_crash_takes_its_soft_links_along_and_they_come_again(patience_s: float) -> None:
    simulation = loaded_path(Crash("b3", 1.7, 2.3, patience_s), publication_s=1e-3)
    simulation.run()
    check(simulation).require()
    ups = [state for i in range(1, 7) for state in mesh_of(simulation, f"b{i}").soft_links.values()]
    assert ups
    assert all(state.up for state in ups)
    opened = sum(state is SoftLink.OPENED for state in ups)
    assert opened * 2 >= len(ups)


def test_a_broker_that_never_comes_back_is_bypassed_by_nobody() -> None:
    simulation = loaded_path(Crash("b3", 1.7, link_patience_s=0.2), publication_s=1e-3)
    simulation.run(until_s=4.0)
    for broker in ("b1", "b2"):
        near = mesh_of(simulation, broker).mesh.mom
        assert set(near.brokers) <= {"b1", "b2"}
        assert set(mesh_of(simulation, broker).soft_links) <= {"b1", "b2"}
