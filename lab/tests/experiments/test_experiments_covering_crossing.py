"""The compiled loop does what the kernel does, to the last digit, while tables change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tiny_covering import SLOW, UNSUBSCRIBING

from reefcast.errors import LocalError
from reefcast.overlay.topology import path
from reefcast.routing.acyclic import AcyclicOptions
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.covering import (
    crossing,
    own,
    parameters,
    phases,
    processing,
    settling,
    slow,
    unsubscribing,
)
from reefcast_lab.experiments.covering.crossing import Crossing
from reefcast_lab.experiments.covering.crowd import Crowd, Stream, Subscription
from reefcast_lab.experiments.covering.graph_work import GraphWork
from reefcast_lab.experiments.covering.measuring import CoverKernel, Sample, counted
from reefcast_lab.experiments.covering.settling import Population, Settled
from reefcast_lab.experiments.covering.steady import acyclic
from reefcast_lab.experiments.covering.topology import Topology
from reefcast_lab.experiments.script import Script

TINY: dict[str, dict[str, Any]] = {
    "network": {"rows_cost": 400.0},
    "processing": {"degree": 10, "publications": 120, "simulated": 60, "selectivity": 0.1},
    "unsubscribing": UNSUBSCRIBING,
    "slow": SLOW,
    "own": {"matched": 3.0, "warm_s": 1.0, "observe_s": 3.0, "slow_rate": 20.0},
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, values in TINY.items():
        for key, value in values.items():
            monkeypatch.setitem(parameters.section(name, "small")._values, key, value)
    monkeypatch.setattr(settling, "apart", lambda work: work())  # what is patched here is used
    monkeypatch.setattr(settling, "_last", {})
    monkeypatch.setattr(crossing, "ROOM", 256)  # so that room is made
    yield


class Kernels:
    """What `Crossing` does, with the kernel: its twin."""

    def __init__(self, settled: Settled, stream: Stream, plan: phases.Plan | None = None) -> None:
        self.simulated, self.kernel = settled.simulated, settled.kernel
        Script(events=list(stream.events())).load(self.simulated, 0.0)
        if plan is not None:
            self.kernel.sample_at(plan.brokers, plan.sample_at_s)


def play(
    settled: Settled, stream: Stream, plan: phases.Plan, remember: Iterable[Subscription]
) -> phases.Played:
    filled = int(np.searchsorted(stream.at_s, plan.from_s - plan.filled_s))
    kernel = Kernels(settled, stream.part(filled, len(stream)), plan).kernel
    settled.simulated.advance(plan.from_s)
    wrong = counted(kernel, "false_positive", settled.topology.graph)
    settled.simulated.advance(stream.until_s)
    return phases.Played([len(acyclic(kernel.nodes[name]).prt) for name in plan.brokers], wrong)


def both(measure: Any, module: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> list[Measure]:
    """Measure a run with the loop, and with the kernel in its place; they are the same."""
    compiled = list(measure(run))
    settling._last.clear()
    monkeypatch.setattr(module, "play", play)
    assert compiled == list(measure(run))
    return compiled


@pytest.mark.parametrize("strategy", ["active", "lazy", "packing"])
def test_unsubscriptions_are_the_same_in_the_kernel(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run("covering", "small", "unsubscribing", strategy, 8.0, "", 1)
    found = both(unsubscribing.measure, unsubscribing, run, monkeypatch)
    figures = {measure.metric: measure.value for measure in found if not measure.at}
    assert figures["largest_queue"] > 100 and figures["rows_after"] > figures["rows_before"]


def test_a_slow_engine_is_the_same_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("covering", "small", "slow_engine", "active", 3.0, "", 1)
    found = both(slow.measure, slow, run, monkeypatch)
    assert {one.metric: one.value for one in found}["probe_deliveries"] == 10 * 29


def test_our_own_engine_is_the_same_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("covering", "small", "own_engine", "active", 30.0, "", 1)
    found = both(own.measure, own, run, monkeypatch)
    assert {one.metric: one.value for one in found}["mean_delay_s"] > 0


def test_the_time_that_publications_take_is_the_same_in_the_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run("covering", "small", "processing", "none", 88.0, "", 1)
    compiled = processing.measure(run)

    class Simulated:
        def __init__(self, kernel: CoverKernel, crowd: Crowd, stream: Stream) -> None:
            self.stream = stream

        def run(self) -> None:
            Script(events=list(self.stream.events())).load(made[0], 0.0)
            made[0].advance()

    made: list[Any] = []
    simulation = processing.simulation

    def kept(*given: Any) -> Any:
        made[:] = simulation(*given)
        return made

    monkeypatch.setattr(processing, "simulation", kept)
    monkeypatch.setattr(processing, "Crossing", Simulated)
    assert processing.measure(run) == compiled
    assert {one.metric: one.value for one in compiled}["publications_s"] > 0


POPULATION = Population(subscriptions=33, degree=10, selectivity=0.4, gap_s=0.02)
STRATEGIES = st.sampled_from(["none", "active", "lazy", "packing"])
TICK_S = 1 / 64
"""Sums of it are exact, so that publications, withdrawals and samples fall on the same instants."""


def path_network(strategy: str, seed: int) -> Settled:
    """Return a path of brokers with clients of either kind at both ends: publications go both ways,
    some subscribers sit where publishers do, and a message takes a while on a link."""
    names = ("b1", "b2", "b3", "b4")
    topology = Topology(path(names), (names,), ("b1", "b4"), names)
    setup = Setup(
        graph=topology.graph,
        options=msgspec.convert({"covering": strategy}, AcyclicOptions),
        seed=seed,
        costs=replace(parameters.costs("small"), copy_s=1e-3),
        link=LinkSpec(latency_s=1e-3, bytes_per_s=4_000.0),
        keep_deliveries=False,
        comparisons=GraphWork,
    )
    simulated = Simulation(setup, kernel=CoverKernel)
    assert isinstance(simulated.world, CoverKernel)
    crowd = POPULATION.crowd(topology, seed)
    at_s, handles = settling.settle(simulated, crowd, "small", POPULATION.gap_s)
    return Settled(topology, crowd, simulated, simulated.world, at_s, handles)


def settled(strategy: str, seed: int) -> Settled:
    run = Run("covering", "small", "unsubscribing", strategy, 2.0, "", seed)
    return settling._settled(run, POPULATION, parameters.costs("small"))


def left(network: Settled, gap: int, leaves: list[int], *, loop: bool) -> list[Any]:
    """Publish, and let subscribers go, each so many ticks after the first publication; return what
    the network has and has done in the end."""
    _, crowd, simulated, kernel = network.network
    first_s = math.ceil(network.at_s) + 1.0
    kernel.watched_from_s = first_s + 8 * TICK_S
    stream = crowd.stream(150, first_s, gap * TICK_S, 5)
    for one, after in zip(crowd.subscriptions, leaves, strict=False):
        simulated.withdraw(network.handles[one.client], first_s + after * TICK_S)
    times_s = [first_s + each * TICK_S for each in range(300)]
    if loop:
        Crossing(kernel, crowd, stream, ["b1", "b3"], times_s).run()
    else:
        Kernels(network, stream, phases.Plan(0.0, 0.0, 0.0, ["b1", "b3"], times_s, 0.0))
    result = simulated.run()
    return [
        [each.tolist() for each in kernel.record.in_order()],
        result.messages,
        Counter(result.discards),  # none is as many as zero
        [node.busy_until for node in kernel.nodes.values()],
        {
            name: {kind: s for kind, s in spent.items() if s}
            for name, spent in kernel.spent_s.items()
        },
        kernel.samples,
        {name: [row.id for row in acyclic(node).prt] for name, node in kernel.nodes.items()},
        {name: node.core.counters["false_positive"] for name, node in kernel.nodes.items()},
    ]


@settings(max_examples=25)
@example("active", 0, 1, [0] * 20)
@example("active", 0, 1, [3 * place % 40 for place in range(20)])
@given(
    STRATEGIES,
    st.integers(0, 3),
    st.integers(1, 6),
    st.lists(st.integers(0, 60), min_size=8, max_size=20),
)
def test_any_withdrawals_are_the_same_in_the_kernel(
    strategy: str, seed: int, gap: int, leaves: list[int]
) -> None:
    with_loop, with_kernel = (
        left(path_network(strategy, seed), gap, leaves, loop=loop) for loop in (True, False)
    )
    assert with_loop == with_kernel
    assert with_loop[0][0]


def test_a_sample_has_the_rows_that_were_there() -> None:
    network = settled("active", 1)
    _, crowd, simulated, kernel = network.network
    root = crowd.roots[0]
    simulated.withdraw(network.handles[root.client], network.at_s + 1.0)
    way = Crossing(kernel, crowd, crowd.stream(0, 0.0, 1.0, 1), ["E4"], [network.at_s])
    way.run()
    (before,) = way.rows_at(network.at_s)
    (after,) = way.rows_at(network.at_s + 100.0)
    assert after == before + 10 - 1
    assert kernel.samples == [Sample(network.at_s, [0], [before])]


def test_the_loop_refuses_what_it_cannot_do() -> None:
    network = settled("incremental", 1)
    _, crowd, simulated, kernel = network.network
    with pytest.raises(LocalError, match="keeps statistics"):
        Crossing(kernel, crowd, crowd.stream(1, network.at_s, 1.0, 1))
    settling._last.clear()
    network = settled("active", 1)
    _, crowd, simulated, kernel = network.network
    (event,) = crowd.events(1, network.at_s, 1.0, 1)
    simulated.publish(event.client, event.broker, event.attributes, event.at_s)
    simulated.advance(network.at_s + 1e-4)
    with pytest.raises(LocalError, match="without messages under way"):
        Crossing(kernel, crowd, crowd.stream(1, network.at_s, 1.0, 1))
