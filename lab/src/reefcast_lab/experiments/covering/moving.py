"""Subscribers that move: C12 (Fig. 18)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.covering.measuring import (
    CoverKernel,
    counted,
    delays,
    queue_curve,
    simulation,
)
from reefcast_lab.experiments.covering.mobile import mobile_script
from reefcast_lab.experiments.covering.parameters import PAPER, section, slow_costs
from reefcast_lab.experiments.covering.topology import Topology, tiered_topology
from reefcast_lab.experiments.covering.unsubscribing import COMPARED
from reefcast_lab.experiments.grid import runs_of

NAME = "mobile"


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, COMPARED, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    entries, topology = section(NAME, run.scale), tiered_topology()
    deployed_s = entries.deploy_s
    until_s = deployed_s + entries.duration_s
    script = mobile_script(
        topology,
        subscribers=entries.subscribers,
        publishers=entries.publishers,
        selectivity=entries.selectivity,
        deploy_s=deployed_s,
        duration_s=until_s,
        publish_s=entries.publish_gap_s,
        monitor_move_s=entries.monitor_move_s,
        move_s=60.0 / run.x if run.x else math.inf,
        seed=run.seed,
    )
    simulated, kernel = simulation(run, topology, slow_costs(run.scale))
    script.load(simulated, 0.0)
    kernel.sample(topology.graph, deployed_s, until_s, entries.sample_s)
    simulated.advance()
    figures = delays(kernel.record.in_order(), deployed_s, until_s) | dict(_rows(kernel))
    figures["largest_queue"] = float(max(max(sample.queued) for sample in kernel.samples))
    figures |= dict(_by_tier(kernel, topology))
    measures = [Measure(name, 0.0, value) for name, value in figures.items()]
    measures += queue_curve(kernel.samples, deployed_s)
    for sample in kernel.samples:
        measures.append(Measure("rows_now", sample.at_s - deployed_s, float(np.mean(sample.rows))))
    return measures


def _rows(kernel: CoverKernel) -> Iterator[tuple[str, float]]:
    """Yield the mean number of PRT rows per broker over time, and its standard deviation."""
    means = np.array([np.mean(sample.rows) for sample in kernel.samples])
    yield "rows", float(means.mean())
    yield "rows_deviation", float(means.std())


def _by_tier(kernel: CoverKernel, topology: Topology) -> Iterator[tuple[str, float]]:
    """Yield, for the mean broker of each tier (the core first), the false positives: publications
    from neighbours that nobody at or beyond the broker wanted; and all that it routed."""
    for number, tier in enumerate(topology.tiers):
        share = 1 / len(tier)
        yield f"false_positives_{number}", share * counted(kernel, "false_positive", tier)
        yield f"forwarded_{number}", share * counted(kernel, "forwarded", tier)


CAMPAIGN = Campaign(NAME, "movements of players a minute", runs, measure)
