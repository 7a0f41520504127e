"""The simulator's kernel with the instruments of these experiments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np

from reefcast.model.messages import Input, PeerMessage, Subscribe
from reefcast.routing.acyclic import AcyclicOptions
from reefcast.routing.covering.strategies import Strategy
from reefcast.simulation.costs import CostModel
from reefcast.simulation.kernel import Kernel
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.node import Node
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.columns import Columns, Delivered
from reefcast_lab.experiments.covering.graph_work import GraphWork
from reefcast_lab.experiments.covering.parameters import costs, section
from reefcast_lab.experiments.covering.topology import Topology

STRATEGIES: tuple[Strategy, ...] = ("active", "lazy", "packing", "incremental")


class Sample(NamedTuple):
    """What stands at one instant: inputs that wait at each of the sampled brokers, rows of their
    PRTs."""

    at_s: float
    queued: list[int]
    rows: list[int]


class CoverKernel(Kernel):
    """Also writes down, from `watched_from_s` on, the seconds of CPU that each broker spent on each
    kind of input, and subscriptions that came from neighbours, alone or packed; and `samples`."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.record: Columns = Columns(list(setup.graph))
        self.served = self.note
        self.watched_from_s = 0.0
        self.spent_s = {name: defaultdict[str, float](float) for name in setup.graph}
        self.subscriptions_came = dict.fromkeys(setup.graph, 0)
        self.samples: list[Sample] = []

    def note(self, node: Node, item: Input, start: float) -> None:
        """Note that a broker was given an input, when it began to handle it, and what it spent."""
        if start < self.watched_from_s:
            return
        self.spent_s[node.name][type(item).__name__] += node.busy_until - start
        if isinstance(item, Subscribe):
            self.subscriptions_came[node.name] += item.id[0] not in node.core.clients
        elif isinstance(item, PeerMessage):
            self.subscriptions_came[node.name] += len(item.says)

    def sample(self, brokers: Collection[str], from_s: float, until_s: float, gap_s: float) -> None:
        """Take a sample of these brokers every `gap_s`."""
        self.sample_at(brokers, np.arange(from_s, until_s, gap_s).tolist())

    def sample_at(self, brokers: Collection[str], times_s: Iterable[float]) -> None:
        """Take a sample of these brokers at each of these times."""
        nodes = [self.nodes[name] for name in brokers]

        def take(now: float) -> None:
            queued = [self.input_queue_len(node, now) for node in nodes]
            rows = [node.core.tables()["PRT"] for node in nodes]
            self.samples.append(Sample(now, queued, rows))

        for at_s in times_s:
            self.add_intervention(at_s, take)


def simulation(
    run: Run, topology: Topology, model: CostModel | None = None, theta: float = 0.0
) -> tuple[Simulation, CoverKernel]:
    """Make a network with the run's strategy, with nobody in it yet; `model` instead of the run's
    costs, `theta` instead of the paper's."""
    network = section("network", run.scale)
    options = {"covering": run.routing, "theta": theta or network.theta}
    setup = Setup(
        graph=topology.graph,
        options=msgspec.convert(options, AcyclicOptions),
        seed=run.seed,
        costs=model or costs(run.scale, run.variant),
        link=LinkSpec(latency_s=network.latency_s),
        keep_deliveries=False,
        comparisons=GraphWork,
    )
    simulated = Simulation(setup, kernel=CoverKernel)
    assert isinstance(simulated.world, CoverKernel)
    return simulated, simulated.world


# --- figures --------------------------------------------------------------------------------------


def delays(delivered: Delivered, from_s: float, steady_from_s: float) -> dict[str, float]:
    """Return the delays of the publications that were published at `from_s` or later."""
    published = delivered.at_s - delivered.delay_s
    late = published >= from_s
    delay, width = delivered.delay_s[late], delivered.width[late]
    figures = {
        "mean_delay_s": float(np.average(delay, weights=width)),
        "largest_delay_s": float(delay.max()),
    }
    steady = published[late] >= steady_from_s
    if steady.any():
        figures["steady_delay_s"] = float(np.average(delay[steady], weights=width[steady]))
    return figures


def delay_curve(delivered: Delivered, from_s: float, gap_s: float) -> Iterator[Measure]:
    """Yield the mean delay over the time of publishing, from `from_s` on, a point for each
    `gap_s`."""
    since = delivered.at_s - delivered.delay_s - from_s
    place = np.floor(since / gap_s).astype(np.int64)
    ours = place >= 0
    total = np.bincount(place[ours], delivered.delay_s[ours] * delivered.width[ours])
    count = np.bincount(place[ours], delivered.width[ours])
    for number in np.flatnonzero(count).tolist():
        yield Measure("delay_s", number * gap_s, float(total[number] / count[number]))


def queue_curve(samples: Iterable[Sample], from_s: float) -> Iterator[Measure]:
    """Yield the longest of the sampled brokers' input queues over time."""
    for sample in samples:
        if sample.at_s >= from_s:
            yield Measure("queue", sample.at_s - from_s, float(max(sample.queued)))


def rows_of(kernel: CoverKernel, brokers: Collection[str]) -> float:
    """Return the rows of the PRT, mean over these brokers."""
    return sum(kernel.nodes[name].core.tables()["PRT"] for name in brokers) / len(brokers)


def counted(kernel: CoverKernel, counter: str, brokers: Iterable[str]) -> float:
    """Return the sum of what these brokers have counted."""
    return float(sum(kernel.nodes[name].core.counters[counter] for name in brokers))
