"""What is computed for publications between changes of tables, beside the simulation of all of
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_covering import SLOW, UNSUBSCRIBING

from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.covering import parameters, phases, settling, slow, unsubscribing
from reefcast_lab.experiments.covering.steady import departures

TINY = UNSUBSCRIBING | {"filled_s": 1.0, "observe_s": 60.0, "steady_s": 20.0051}
"""No publication at the border between two points of a curve."""


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for key, value in TINY.items():
        monkeypatch.setitem(parameters.section("unsubscribing", "small")._values, key, value)
    monkeypatch.setitem(parameters.section("network", "small")._values, "rows_cost", 400.0)
    for module in (unsubscribing, slow):
        monkeypatch.setattr(module, "CHUNK_S", 5.0)
    monkeypatch.setattr(settling, "apart", lambda work: work())  # what is patched here is counted
    yield


def measured() -> list[Measure]:
    settling._last.clear()  # the network of the last run, which went on in it
    run = Run("covering", "small", "unsubscribing", "incremental", 8.0, "", 1)
    return unsubscribing.measure(run)


def test_what_is_computed_is_what_would_be_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics, too: a pruning distance decides all that follows."""
    computed: list[int] = []
    take = phases.Passage.take

    def counting(self: phases.Passage, *given: Any, **more: Any) -> int:
        computed.append(take(self, *given, **more))
        return computed[-1]

    with monkeypatch.context() as patch:
        patch.setattr(phases.Passage, "take", counting)
        quick = measured()
    with monkeypatch.context() as patch:
        patch.setattr(phases.Play, "_at_rest", lambda self: False)
        patch.setitem(parameters.section("unsubscribing", "small")._values, "filled_s", 20.0)
        simulated = measured()
    assert sum(computed) > 1000
    found = {(one.metric, round(one.at, 6)): one.value for one in quick}
    expected = {(one.metric, round(one.at, 6)): one.value for one in simulated}
    wrong = {
        place: (found.get(place), expected.get(place))
        for place in found.keys() | expected.keys()
        if found.get(place) != pytest.approx(expected.get(place), rel=1e-4, abs=1e-6)
    }
    assert not wrong


PROBED = SLOW | {"filled_s": 1.0, "publications": 2000, "probes": 30, "probes_after_s": 30.0}


def test_probes_that_are_computed_are_those_that_would_be_simulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = parameters.section("slow", "small")._values
    for key, value in PROBED.items():
        monkeypatch.setitem(values, key, value)
    run = Run("covering", "small", "slow_engine", "incremental", 3.0, "", 1)
    passed: list[int] = []
    take = phases.Passage.take

    def counting(self: phases.Passage, *given: Any, **more: Any) -> int:
        passed.append(take(self, *given, **more))
        return passed[-1]

    with monkeypatch.context() as patch:
        patch.setattr(phases.Passage, "take", counting)
        settling._last.clear()
        quick = slow.measure(run)
    with monkeypatch.context() as patch:
        patch.setattr(phases.Play, "_at_rest", lambda self: False)
        patch.setitem(values, "filled_s", 20.0)
        settling._last.clear()
        simulated = slow.measure(run)
    assert passed[-1] > 800  # the probes are among them
    found = {(one.metric, round(one.at, 6)): one.value for one in quick}
    expected = {(one.metric, round(one.at, 6)): one.value for one in simulated}
    assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)
    assert found["probe_deliveries", 0.0] == 30 * 29


TIMES = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 9)).map(
        lambda pair: (pair[0] * 1.0, pair[1] * 1.0)
    ),
    max_size=30,
)


@given(TIMES, st.integers(0, 60))
def test_departures_are_those_of_a_queue_that_serves_one_after_the_other(
    customers: list[tuple[float, float]], busy_until: int
) -> None:
    arrival = np.array(sorted(at for at, _ in customers), np.float64)
    service = np.array([long for _, long in customers], np.float64)
    free, ends = float(busy_until), []
    for at, long in zip(arrival.tolist(), service.tolist(), strict=True):
        free = max(free, at) + long
        ends.append(free)
    assert departures(arrival, service, float(busy_until)).tolist() == ends
