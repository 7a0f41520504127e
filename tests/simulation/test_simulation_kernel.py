"""The fast kernel against its plain twin, and against itself."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulation_scenarios import harmful_faults, harmless_faults, random_scripts, random_setup

from reefcast.model.trace import KINDS
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.plain import PlainKernel
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Result, Simulation
from reefcast.simulation.world import World

Rows = dict[tuple[str, str], list[tuple[object, ...]]]


def outcome(kernel: type[World], number: int, folder: Path) -> tuple[Result, Rows]:
    """A random scenario with faults, in two stages; all that it wrote, sorted."""
    rng = random.Random(number)
    setup = random_setup(rng, rng.choice(("acyclic", "flooding", "spr", "idr", "tid-s", "tid-d")))
    faults = harmless_faults(setup, rng) + (harmful_faults(setup, rng) if number % 2 else [])
    trace = TraceOptions(folder, snapshot_s=0.17)
    simulation = Simulation(replace(setup, faults=faults, trace=trace), kernel)
    record = simulation.world.record
    record.flush = lambda: None
    random_scripts(simulation, rng)
    simulation.run(until_s=rng.choice((0.2, 0.31, 30.0)))
    random_scripts(simulation, rng, start_s=simulation.now_s + 0.1)
    result = simulation.run()
    rows = {
        (broker, kind): sorted(zip(*recorder.columns(kind), strict=True), key=repr)
        for broker, recorder in record.recorders.items()
        for kind in KINDS
    }
    return result, rows


def to_the_microsecond(result: Result) -> Result:
    """As the trace has its times. The twins add up the seconds of a transmission during which the
    bandwidth changes in another order, so that their last bits may differ."""
    claims = [
        replace(
            claim,
            requested_s=round(claim.requested_s, 6),
            settled_s=round(claim.settled_s, 6),
            ended_s=round(claim.ended_s, 6),
        )
        for claim in result.claims
    ]
    return replace(result, claims=claims, duration_s=round(result.duration_s, 6))


def check_twins(number: int, folder: Path) -> None:
    fast, fast_rows = outcome(Kernel, number, folder)
    plain, plain_rows = outcome(PlainKernel, number, folder)
    for key, rows in plain_rows.items():
        assert fast_rows[key] == rows, key
    assert to_the_microsecond(fast) == to_the_microsecond(plain)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trace")


@settings(max_examples=60, deadline=None)
@given(number=st.integers(0, 2**32))
def test_fast_kernel_writes_the_trace_of_its_plain_twin(folder: Path, number: int) -> None:
    check_twins(number, folder)


@pytest.mark.soak
def test_many_traces_of_the_fast_kernel_equal_those_of_its_twin(folder: Path) -> None:
    for number in range(3_000):
        check_twins(number, folder)
