"""Runs that go on from one settled network, beside networks that settled for one run alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from reefcast.errors import InternalError, LocalError
from reefcast.routing.covering.ghosts import GhostTable
from reefcast_lab.experiments.apart import apart
from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.covering import settling
from reefcast_lab.experiments.covering.crowd import Crowd
from reefcast_lab.experiments.covering.measuring import CoverKernel, simulation
from reefcast_lab.experiments.covering.parameters import costs
from reefcast_lab.experiments.covering.settling import (
    Population,
    Settled,
    adopt,
    after_settling,
    settle,
)
from reefcast_lab.experiments.covering.steady import Passage, acyclic
from reefcast_lab.experiments.covering.topology import core_topology

POPULATION = Population(subscriptions=44, degree=10, selectivity=0.3, gap_s=0.02)
THETA = 0.5


def run(strategy: str) -> Run:
    return Run("covering", "small", "unsubscribing", strategy, 2.0, "", 3)


def settled(strategy: str) -> Settled:
    topology = core_topology()
    crowd = POPULATION.crowd(topology, 3)
    simulated, kernel = simulation(run(strategy), topology, theta=THETA)
    at_s, handles = settle(simulated, crowd, "small", POPULATION.gap_s, roots_first=True)
    return Settled(topology, crowd, simulated, kernel, at_s, handles)


def tables(kernel: CoverKernel) -> dict[str, list[Any]]:
    """Return each broker's PRT, its ghosts and what it has counted, in their order."""
    return {
        name: [
            [(row.id, row.last_hop) for row in acyclic(node).prt],
            [(ghost.id, ghost.link) for ghost in GhostTable(acyclic(node).tree.outgoing)],
            dict(node.core.counters),
        ]
        for name, node in kernel.nodes.items()
    }


def left(network: Settled) -> tuple[dict[str, int], dict[str, int], dict[str, list[Any]]]:
    """Let half of the roots go after some publications, and return the messages until all is quiet
    again, which subscriptions came in between, and what the brokers have then."""
    topology, crowd, simulated, kernel = network.network
    stream = crowd.stream(2000, network.at_s, 0.05, 3)
    Passage(kernel, topology, crowd).take(stream, remember=crowd.roots)
    for number, root in enumerate(crowd.roots[:2]):
        simulated.withdraw(network.handles[root.client], stream.until_s + 10.0 * (number + 1))
    for event in crowd.events(50, stream.until_s + 5.0, 0.5, 4):
        simulated.publish(event.client, event.broker, event.attributes, event.at_s)
    messages = simulated.run().messages
    return messages, kernel.subscriptions_came, tables(kernel)


@pytest.mark.parametrize("strategy", ["packing", "incremental"])
def test_brokers_that_adopt_a_strategy_go_on_as_those_that_settled_with_it(strategy: Any) -> None:
    its_own, others = settled(strategy), settled("active")
    adopt(others.kernel, strategy, THETA)
    assert others.at_s == its_own.at_s
    expected = left(its_own)
    assert left(others) == expected
    ghosts = [ghosts for _, ghosts, _ in expected[2].values()]
    assert any(ghosts) == (strategy == "incremental")


def going(network: Settled) -> Iterator[Measure]:
    messages, came, _ = left(network)
    yield Measure("messages", 0.0, float(sum(messages.values())))
    yield Measure("came", 0.0, float(sum(came.values())))


@pytest.mark.live
def test_runs_with_the_same_population_go_on_from_one_network_and_leave_it_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Crowd] = []

    def counted(simulated: Any, crowd: Crowd, *rest: Any, **more: Any) -> Any:
        made.append(crowd)
        return settle(simulated, crowd, *rest, **more)

    monkeypatch.setattr(settling, "settle", counted)
    monkeypatch.setattr(settling, "_last", {})
    strategies = ("active", "incremental", "active", "lazy")
    found = [after_settling(run(one), POPULATION, costs("small"), going) for one in strategies]
    active, incremental, again, lazy = found
    assert active == again and incremental != active != lazy
    assert len(made) == 2 and len(settling._last) == 1


@pytest.mark.live
def test_what_goes_wrong_apart_is_raised_here() -> None:
    def fails() -> list[Measure]:
        raise LocalError("there is no such broker")

    with pytest.raises(LocalError, match="no such broker"):
        apart(fails)
    with pytest.raises(InternalError, match="ended with status 3 before it was done"):
        apart(lambda: os._exit(3))
