"""Networks in which all have subscribed, settled once for all runs that go on from there.

To settle tens of thousands of subscriptions takes most of a run. Runs with the same subscriptions
often differ only in what comes afterwards; and in the strategy: where roots come first nothing is
withdrawn while the network settles, so that *active*, *packing* and *incremental* send the same
messages at the same times, and have the same tables. So a network settles with *active*, and each
run goes on in a copy of the process (`apart`), where the brokers adopt its strategy.

The twin is a network that settles with the run's own strategy. *lazy* keeps what came before its
root, so roots do not come first there, and its network is one of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, cast

from reefcast.routing.covering.outgoing import Active
from reefcast.routing.covering.strategies import Strategy, outgoing
from reefcast.simulation.costs import CostModel
from reefcast.simulation.simulation import Simulation
from reefcast_lab.experiments.apart import apart
from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.covering.crowd import Crowd, workload
from reefcast_lab.experiments.covering.measuring import CoverKernel, simulation
from reefcast_lab.experiments.covering.parameters import section
from reefcast_lab.experiments.covering.steady import acyclic
from reefcast_lab.experiments.covering.topology import Topology, core_topology
from reefcast_lab.experiments.script import Script


class Population(NamedTuple):
    """What subscribes (see `crowd.workload`), one every `gap_s`."""

    subscriptions: int
    degree: int
    selectivity: float
    gap_s: float
    clustered: bool = False

    def crowd(self, topology: Topology, seed: int) -> Crowd:
        return workload(
            topology,
            subscriptions=self.subscriptions,
            degree=self.degree,
            selectivity=self.selectivity,
            seed=seed,
            clustered=self.clustered,
        )


@dataclass(frozen=True)
class Settled:
    """A network without messages under way since `at_s`; `handles`: of the subscriptions, by
    client. Its kernel has watched nothing so far."""

    topology: Topology
    crowd: Crowd
    simulated: Simulation
    kernel: CoverKernel
    at_s: float
    handles: dict[str, int]

    @property
    def network(self) -> tuple[Topology, Crowd, Simulation, CoverKernel]:
        return self.topology, self.crowd, self.simulated, self.kernel


_last: dict[Hashable, Settled] = {}
"""The network that settled last, by all that it depends on."""


def after_settling(
    run: Run,
    population: Population,
    costs: CostModel,
    rest: Callable[[Settled], Iterable[Measure]],
    theta: float = 0.0,
) -> list[Measure]:
    """Measure the `rest` of a run, in the network of its strategy in which this population has
    subscribed; `theta` instead of the paper's."""
    strategy = _start(run)
    settled = _settled(run._replace(routing=strategy), population, costs)

    def measures() -> list[Measure]:
        if run.routing != strategy:
            network = section("network", run.scale)
            adopt(settled.kernel, cast(Strategy, run.routing), theta or network.theta)
        return list(rest(settled))

    return apart(measures)


def _settled(run: Run, population: Population, costs: CostModel) -> Settled:
    key = (run.scale, run.seed, run.routing, population, costs)
    if key not in _last:
        _last.clear()  # before the next one is made: each is large
        topology = core_topology()
        crowd = population.crowd(topology, run.seed)
        simulated, kernel = simulation(run, topology, costs)
        kernel.watched_from_s = math.inf
        first = run.routing != "lazy"
        at_s, handles = settle(simulated, crowd, run.scale, population.gap_s, roots_first=first)
        _last[key] = Settled(topology, crowd, simulated, kernel, at_s, handles)
    return _last[key]


def settle(
    simulated: Simulation, crowd: Crowd, scale: str, gap_s: float, *, roots_first: bool = False
) -> tuple[float, dict[str, int]]:
    """Let all advertise, then all subscribe (`roots_first`: see `Crowd.claims`); return when the
    network was quiet, and the handles of the subscriptions, by client."""
    script = Script(crowd.advertisements(section("network", scale).advertise_gap_s))
    advertised_s = script.claims[-1].from_s + 1.0
    script.claims.extend(
        crowd.claims(advertised_s, gap_s, lambda one: math.inf, roots_first=roots_first)
    )
    handles = script.load(simulated, 0.0)
    simulated.advance()
    by_client = {claim.client: handle for claim, handle in zip(script.claims, handles, strict=True)}
    return simulated.now_s, by_client


def adopt(kernel: CoverKernel, strategy: Strategy, theta: float) -> None:
    """Have brokers that settled with *active* go on with *packing* or *incremental*. All of their
    links are up, so that each has an `Outgoing` already."""
    for node in kernel.nodes.values():
        router = acyclic(node)
        router.counts = strategy == "incremental"
        router.sets_courses = not router.counts
        router.theta = theta
        made = outgoing(strategy, theta, router.counters)
        for link, before in router.tree.outgoing.items():
            after = made()
            assert isinstance(before, Active) and isinstance(after, Active)
            after.wanted, after._roots = before.wanted, before._roots
            router.tree.outgoing[link] = after


def network_of(run: Run, population: str) -> str:
    """Return what runs have in common that go on from the same network, in whichever campaign;
    `population`: a name of it."""
    return f"{population}, seed {run.seed}, {_start(run)}"


def _start(run: Run) -> Strategy:
    """Return the strategy that the network of a run settles with."""
    return "lazy" if run.routing == "lazy" else "active"
