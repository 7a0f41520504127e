"""Simulations that are over are freed."""

from __future__ import annotations

import gc
import weakref

import pytest

from reefcast.matching.scan import ScanIndex
from reefcast.overlay.topology import names, path
from reefcast.simulation.simulation import RUNS_BETWEEN, Simulation
from reefcast.simulation.world import Setup


def alive_after(runs: int) -> int:
    """Run so many simulations, one after the other; return how many still exist at the end."""
    seen: weakref.WeakSet[Simulation] = weakref.WeakSet()
    for _ in range(runs):
        simulation = Simulation(Setup(graph=path(names(2)), index=ScanIndex))
        simulation.subscribe("s", "b1", "TRUE", at_s=0.0)
        simulation.run()
        vars(simulation)["itself"] = simulation  # a cycle, as its parts make
        seen.add(simulation)
    return len(seen)


@pytest.mark.long
def test_no_more_than_some_are_there_at_once() -> None:
    assert alive_after(3 * RUNS_BETWEEN) <= RUNS_BETWEEN + 1


def test_what_a_program_froze_stays_frozen() -> None:
    gc.freeze()
    alive_after(1)
    assert gc.get_freeze_count() > 0
