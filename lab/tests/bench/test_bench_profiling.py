"""The profile of a load: which process used the time, and how much for each message."""

from __future__ import annotations

import time

import pytest

from reefcast_lab.bench.live.measure import functions as profiled
from reefcast_lab.bench.live.points import Point
from reefcast_lab.bench.profiling import LARGEST, Samples, largest


def _burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


def test_time_belongs_to_who_used_the_processor_not_to_who_slept() -> None:
    samples = Samples()
    with samples.taken():
        _burn(0.2)
        _sleep(0.2)
    costs = largest("case", samples.functions(), 10)
    assert costs[0].function == "test_bench_profiling.py: _burn"
    assert costs[0].share > 0.5
    assert costs[0].us > 0.5 * 0.2e6 / 10


def test_nobody_looks_after_the_end() -> None:
    samples = Samples()
    with samples.taken():
        _burn(0.05)
    before = samples.functions()
    _burn(0.05)
    assert samples.functions() == before


def test_the_largest_come_first_and_shares_are_of_all() -> None:
    functions = {f"f{i}": float(i) for i in range(20)}
    costs = largest("case", functions, 1_000_000)
    assert [cost.function for cost in costs] == [f"f{19 - i}" for i in range(LARGEST)]
    assert costs[0].share == 19 / 190
    assert costs[0].us == 19.0


@pytest.mark.live
def test_a_live_broker_is_looked_at_while_publications_pass() -> None:
    functions, count = profiled(Point(), 20_000)
    assert 0 < count <= 20_000
    assert sum(functions.values()) > 0
    assert any(function.startswith(("server/", "routing/")) for function in functions)
