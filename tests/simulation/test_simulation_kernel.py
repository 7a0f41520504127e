"""The fast kernel against its plain twin, and one run against its repetition."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simulation_scenarios import harmful_faults, harmless_faults, random_scripts, random_setup
from simulation_twins import check_twins

from reefcast.model.messages import Input
from reefcast.routing.mesh.options import MeshOptions
from reefcast.simulation.faults import Delay, Drop, Reorder
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.node import Node
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.senders import Sharing
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import TIMER_RANK, Setup, World


def traced_run(kernel: type[World], number: int, folder: Path) -> Simulation:
    """Return a run of a random scenario with faults, in two stages."""
    rng = random.Random(number)
    setup = random_setup(rng, rng.choice(("acyclic", "flooding", "spr", "idr", "tid-s", "tid-d")))
    faults = harmless_faults(setup, rng) + (harmful_faults(setup, rng) if number % 2 else [])
    trace = TraceOptions(folder, snapshot_s=0.17)
    setup = with_sender(replace(setup, faults=faults, trace=trace), number)
    simulation = Simulation(setup, kernel)
    simulation.world.record.flush = lambda: None
    random_scripts(simulation, rng)
    simulation.run(until_s=rng.choice((0.2, 0.31, 30.0)))
    random_scripts(simulation, rng, start_s=simulation.now_s + 0.1)
    simulation.run()
    return simulation


def with_sender(setup: Setup, number: int) -> Setup:
    """Return the setup with a sender drawn, without the faults that a shared one refuses."""
    rng = random.Random(f"{number}/sender")
    sender = rng.choice(get_args(Sharing))
    if sender == "link":
        return setup
    faults = [fault for fault in setup.faults if isinstance(fault, Drop | Delay | Reorder)]
    machines = {broker: rng.choice("xy") for broker in setup.graph} if sender == "machine" else {}
    return replace(setup, sender=sender, machines=machines, faults=faults)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trace")


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(number=st.integers(0, 2**32))
@example(number=15799)  # a subscription is withdrawn while its answer is on its way
def test_fast_kernel_writes_the_trace_of_its_plain_twin(folder: Path, number: int) -> None:
    check_twins(partial(traced_run, number=number, folder=folder))


@settings(max_examples=20, deadline=None)
@given(number=st.integers(0, 2**32), steps=st.lists(st.floats(0.0, 3.0), max_size=20))
def test_a_run_in_steps_is_one_run(number: int, steps: list[float]) -> None:
    """Wherever it stops, and whether or not somebody asks for the result there."""

    def loaded() -> Simulation:
        rng = random.Random(number)
        simulation = Simulation(random_setup(rng, rng.choice(("acyclic", "idr", "tid-s"))))
        random_scripts(simulation, rng)
        return simulation

    in_steps, at_once = loaded(), loaded()
    for until_s in sorted(steps):
        assert in_steps.advance(until_s) is in_steps.result().quiet
    assert in_steps.advance()
    assert in_steps.result() == at_once.run()


@settings(max_examples=15, deadline=None)
@given(number=st.integers(0, 2**32), served_before=st.randoms(use_true_random=False))
def test_a_run_that_somebody_else_drives_is_one_run(
    number: int, served_before: random.Random
) -> None:
    """One input after the other, whether or not timers that would come first are served by hand."""

    def loaded() -> Simulation:
        rng = random.Random(number)
        setup = random_setup(rng, rng.choice(("acyclic", "spr-mesh", "idr-mesh")))
        if setup.routing != "acyclic":  # timers are often due while a broker is busy
            options, costs = MeshOptions(round_s=0.05), replace(setup.costs, publication_s=0.03)
            setup = replace(setup, options=options, broker_options={}, costs=costs)
        simulation = Simulation(setup)
        random_scripts(simulation, rng)
        simulation.advance(1e-9)  # brokers start
        return simulation

    driven, at_once = loaded(), loaded()
    kernel = driven.world
    assert isinstance(kernel, Kernel)
    while not kernel.is_idle:
        head = kernel.head()
        assert head is not None
        due, rank, node = head
        start = max(due, node.busy_until)
        if rank != TIMER_RANK and node.first_timer()[0] <= start and served_before.random() < 0.5:
            kernel.serve_timer(node)
        kernel.step()
    assert driven.advance()
    assert driven.result() == at_once.run()


@settings(max_examples=10, deadline=None)
@given(number=st.integers(0, 2**32))
def test_its_hooks_are_told_of_every_copy_and_every_input(number: int) -> None:
    rng = random.Random(number)
    simulation = Simulation(random_setup(rng, rng.choice(("acyclic", "idr", "tid-s"))))
    kernel = simulation.world
    assert isinstance(kernel, Kernel)
    put: list[float] = []
    inputs: Counter[str] = Counter()
    busy_s: Counter[str] = Counter()

    def served(node: Node, item: Input, start: float) -> None:
        inputs[type(item).__name__] += 1
        busy_s[node.name] += node.busy_until - start

    kernel.watch = lambda out, publish, at: put.append(at)
    kernel.served = served
    random_scripts(simulation, rng)
    simulation.run()
    record = kernel.record
    assert len(put) == record.forwarded
    assert inputs["Publish"] == record.counters["published"] + record.forwarded
    assert inputs["Subscribe"] >= sum(claim.subscription for claim in simulation.result().claims)
    assert all(busy_s[node.name] <= node.busy_until for node in kernel.nodes.values())


@pytest.mark.soak
def test_many_traces_of_the_fast_kernel_equal_those_of_its_twin(folder: Path) -> None:
    for number in range(3_000):
        check_twins(partial(traced_run, number=number, folder=folder))
