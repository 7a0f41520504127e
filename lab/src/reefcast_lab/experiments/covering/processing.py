"""What covering costs and saves where nobody unsubscribes: C1 (Table II)."""

from __future__ import annotations

from collections.abc import Iterator

from reefcast.routing.covering.strategies import Strategy
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.covering.crossing import Crossing
from reefcast_lab.experiments.covering.crowd import workload
from reefcast_lab.experiments.covering.graph_work import GraphWork
from reefcast_lab.experiments.covering.measuring import CoverKernel, rows_of, simulation
from reefcast_lab.experiments.covering.parameters import PAPER, section
from reefcast_lab.experiments.covering.settling import settle
from reefcast_lab.experiments.covering.topology import core_topology
from reefcast_lab.experiments.grid import runs_of

NAME = "processing"
COMPARED: tuple[Strategy, ...] = ("active", "lazy", "none")


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, COMPARED, [entries.subscriptions], entries.seeds)


def measure(run: Run) -> list[Measure]:
    entries, topology = section(NAME, run.scale), core_topology()
    crowd = workload(
        topology,
        subscriptions=int(run.x),
        degree=entries.degree,
        selectivity=entries.selectivity,
        seed=run.seed,
    )
    simulated, kernel = simulation(run, topology)
    at_s, _ = settle(simulated, crowd, run.scale, entries.subscribe_gap_s)
    stream = crowd.stream(entries.simulated, at_s, entries.publish_gap_s, run.seed)
    Crossing(kernel, crowd, stream).run()
    core = topology.tiers[0]
    times = entries.publications / entries.simulated
    figures = dict(_of_brokers(kernel, core, times)) | {"rows": rows_of(kernel, core)}
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def _of_brokers(
    kernel: CoverKernel, brokers: tuple[str, ...], times: float
) -> Iterator[tuple[str, float]]:
    """Yield the CPU seconds of the mean broker; `times`: how often a publication counts. What it
    spends on subscriptions beyond comparisons is the matching with advertisements."""
    share = 1 / len(brokers)
    spent = {
        kind: share * sum(kernel.spent_s[broker][kind] for broker in brokers)
        for kind in ("Publish", "Subscribe", "Unsubscribe")
    }
    spent["Publish"] *= times
    counters = [kernel.nodes[broker].comparisons for broker in brokers]
    comparisons = share * sum(each.taken for each in counters if isinstance(each, GraphWork))
    covering_s = kernel.costs.comparison_s * comparisons
    yield "covering_s", covering_s
    yield "matching_s", spent["Subscribe"] - covering_s
    yield "unsubscriptions_s", spent["Unsubscribe"]
    yield "publications_s", spent["Publish"]
    yield "total_s", sum(spent.values())
    yield "subscriptions", share * sum(kernel.subscriptions_came[broker] for broker in brokers)


CAMPAIGN = Campaign(NAME, "subscriptions", runs, measure)
