"""What remains of the problem with this project's own engine: ever larger sets of subscriptions
behind a root, and the costs that its brokers really have."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import numpy as np

from reefcast.simulation.costs import preset
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.covering.measuring import delay_curve, delays, queue_curve
from reefcast_lab.experiments.covering.parameters import OURS, PAPER, section
from reefcast_lab.experiments.covering.phases import Plan, play
from reefcast_lab.experiments.covering.settling import (
    Population,
    Settled,
    after_settling,
    network_of,
)
from reefcast_lab.experiments.covering.unsubscribing import COMPARED
from reefcast_lab.experiments.grid import runs_of

CHUNK_S = 1.0
"""See `phases.CHUNK_S`: tables change for some seconds at most."""
SLOWLY, FAST = "own_engine", "own_engine_fast"


def runs(scale: str) -> list[Run]:
    return _runs(SLOWLY, scale)


def fast_runs(scale: str) -> list[Run]:
    return _runs(FAST, scale)


def _runs(campaign: str, scale: str) -> list[Run]:
    entries = section("own", scale)
    return runs_of(PAPER, campaign, scale, COMPARED, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    return _measure(run, section("own", run.scale).slow_rate)


def measure_fast(run: Run) -> list[Measure]:
    return _measure(run, section("own", run.scale).fast_rate)


def _measure(run: Run, per_s: float) -> list[Measure]:
    entries, degree = section("own", run.scale), int(run.x)
    population = Population(
        entries.roots * (degree + 1), degree, entries.matched / degree, entries.subscribe_gap_s
    )
    return after_settling(run, population, preset(OURS), partial(_rest, run, per_s=per_s))


def _rest(run: Run, settled: Settled, per_s: float) -> list[Measure]:
    entries, at_s = section("own", run.scale), settled.at_s
    topology, crowd, simulated, kernel = settled.network
    from_s = at_s + entries.warm_s
    number = round((entries.warm_s + entries.observe_s) * per_s)
    stream = crowd.stream(number, at_s, 1 / per_s, run.seed)
    gone = crowd.leavers(entries.leavers, run.seed)
    for leaver in gone:
        simulated.withdraw(settled.handles[leaver.client], from_s)
    core = topology.tiers[0]
    times_s = np.arange(from_s, from_s + entries.observe_s, entries.sample_s).tolist()
    plan = Plan(from_s, from_s, entries.filled_s, core, times_s, CHUNK_S)
    play(settled, stream, plan, gone)
    simulated.advance()
    delivered = kernel.record.in_order()
    figures = delays(delivered, from_s, from_s + entries.observe_s / 2)
    figures["largest_queue"] = float(max(max(sample.queued) for sample in kernel.samples))
    measures = [Measure(name, 0.0, value) for name, value in figures.items()]
    measures += delay_curve(delivered, from_s, entries.sample_s)
    return measures + list(queue_curve(kernel.samples, from_s))


def _together(run: Run) -> Hashable:
    return network_of(run, f"own, degree {run.x:g}")


X = "subscriptions covered by a root"
CAMPAIGN = Campaign(SLOWLY, X, runs, measure, _together)
FASTER = Campaign(FAST, X, fast_runs, measure_fast, _together)
