"""Broad subscriptions go, under a steady stream of publications: C2 to C8 (Figs 9 to 11, Table
III)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from statistics import fmean

import numpy as np

from reefcast.routing.covering.strategies import Strategy
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.covering.measuring import (
    STRATEGIES,
    CoverKernel,
    counted,
    delay_curve,
    delays,
    queue_curve,
    rows_of,
)
from reefcast_lab.experiments.covering.parameters import PAPER, costs, section
from reefcast_lab.experiments.covering.phases import CHUNK_S, Plan, play
from reefcast_lab.experiments.covering.settling import (
    Population,
    Settled,
    after_settling,
    network_of,
)
from reefcast_lab.experiments.covering.topology import Topology
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.parameters import Section

NAME, DEGREE, THETA = "unsubscribing", "degree", "threshold"
COMPARED: tuple[Strategy, ...] = ("active", "incremental")


def _section(run: Run) -> Section:
    return section("unsubscribing", run.scale)


def runs(scale: str) -> list[Run]:
    entries = section("unsubscribing", scale)
    first, others = [entries.compared_x], [x for x in entries.x if x != entries.compared_x]
    return runs_of(PAPER, NAME, scale, STRATEGIES, first, entries.seeds) + runs_of(
        PAPER, NAME, scale, COMPARED, others, entries.seeds
    )


def degree_runs(scale: str) -> list[Run]:
    entries = section("unsubscribing", scale)
    return runs_of(PAPER, DEGREE, scale, COMPARED, entries.simulated_degrees, entries.seeds)


def theta_runs(scale: str) -> list[Run]:
    entries = section("unsubscribing", scale)
    return runs_of(PAPER, THETA, scale, ("incremental",), entries.simulated_thetas, entries.seeds)


def measure(run: Run) -> list[Measure]:
    return _measure(run, _section(run).degree, int(run.x), 0.0)


def measure_degree(run: Run) -> list[Measure]:
    return _measure(run, int(run.x), _section(run).compared_x, 0.0)


def measure_theta(run: Run) -> list[Measure]:
    return _measure(run, _section(run).degree, _section(run).compared_x, run.x)


def _measure(run: Run, degree: int, leavers: int, theta: float) -> list[Measure]:
    entries = _section(run)
    settling = population(entries, degree)
    return after_settling(
        run,
        settling,
        costs(run.scale),
        lambda settled: after_withdrawals(run, settled, leavers, entries),
        theta,
    )


def population(entries: Section, degree: int) -> Population:
    """Return the roots and what they cover."""
    return Population(
        entries.roots * (degree + 1), degree, entries.selectivity, entries.subscribe_gap_s
    )


def after_withdrawals(
    run: Run, settled: Settled, leavers: int, entries: Section
) -> Iterator[Measure]:
    """Have so many roots unsubscribe under a stream of publications, and measure what follows."""
    topology, crowd, simulated, kernel = settled.network
    core = topology.tiers[0]
    yield Measure("rows_before", 0.0, rows_of(kernel, core))
    from_s = kernel.watched_from_s = settled.at_s + entries.warm_s
    until_s = from_s + entries.observe_s
    number = round((entries.warm_s + entries.observe_s) / entries.publish_gap_s)
    stream = crowd.stream(number, settled.at_s, entries.publish_gap_s, run.seed)
    gone = crowd.leavers(leavers, run.seed)
    for place, leaver in enumerate(gone):
        at_s = from_s + place * entries.within_s / leavers
        simulated.withdraw(settled.handles[leaver.client], at_s)
    times_s = np.arange(from_s, until_s, entries.sample_s).tolist()
    plan = Plan(from_s, from_s + entries.within_s, entries.filled_s, core, times_s, CHUNK_S)
    played = play(settled, stream, plan, gone)
    yield Measure("rows_after", 0.0, fmean(played.rows))
    result = simulated.run()
    wrong = counted(kernel, "false_positive", topology.graph) - played.wrong_before
    delivered = kernel.record.in_order()
    figures = delays(delivered, from_s, from_s + entries.steady_s) | _of_bursts(kernel, topology)
    figures |= {"false_positives": wrong, "publish_messages": float(result.messages["publish"])}
    for name, value in figures.items():
        yield Measure(name, 0.0, value)
    yield from delay_curve(delivered, from_s, entries.sample_s)
    yield from queue_curve(kernel.samples, from_s)


def figures_of(came: Mapping[str, int], topology: Topology) -> dict[str, float]:
    """Return how many subscriptions (the paper: in hops) came to brokers to replace others: to each
    core broker, and to the mean inner one."""
    core, inner = topology.tiers[0], topology.tiers[1]
    figures = {f"nrs_{broker}": float(came[broker]) for broker in core}
    return figures | {"nrs_inner": sum(came[broker] for broker in inner) / len(inner)}


def _of_bursts(kernel: CoverKernel, topology: Topology) -> dict[str, float]:
    """Return these figures, and the longest input queue of a core broker."""
    longest = float(max(max(sample.queued) for sample in kernel.samples))
    return figures_of(kernel.subscriptions_came, topology) | {"largest_queue": longest}


def _together(run: Run) -> Hashable:
    return network_of(run, f"degree {run.x:g}" if run.campaign == DEGREE else NAME)


CAMPAIGN = Campaign(NAME, "unsubscriptions", runs, measure, _together)
DEGREES = Campaign(
    DEGREE, "subscriptions covered by a root", degree_runs, measure_degree, _together
)
THETAS = Campaign(THETA, "similarity threshold", theta_runs, measure_theta, _together)
