"""A slow matching engine, and what is clustered in the network: C10 and C11 (Figs 13 to 16)."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import numpy as np

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.columns import Delivered
from reefcast_lab.experiments.covering.crowd import Crowd, Stream
from reefcast_lab.experiments.covering.measuring import (
    STRATEGIES,
    CoverKernel,
    counted,
    queue_curve,
    rows_of,
)
from reefcast_lab.experiments.covering.parameters import PAPER, section, slow_costs
from reefcast_lab.experiments.covering.phases import CHUNK_S, Plan, play
from reefcast_lab.experiments.covering.settling import (
    Population,
    Settled,
    after_settling,
    network_of,
)
from reefcast_lab.experiments.covering.unsubscribing import COMPARED
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.parameters import Section

SLOW, MIDDLE = "slow_engine", "slow_engine_middle"
DEGREE, CLUSTERED = "slow_engine_degree", "clustered"


def runs(scale: str) -> list[Run]:
    entries = section("slow", scale)
    first, others = [entries.compared_x], [x for x in entries.x if x != entries.compared_x]
    return runs_of(PAPER, SLOW, scale, STRATEGIES, first, entries.seeds) + runs_of(
        PAPER, SLOW, scale, COMPARED, others, entries.seeds
    )


def middle_runs(scale: str) -> list[Run]:
    entries = section("slow", scale)
    return runs_of(PAPER, MIDDLE, scale, COMPARED, [entries.middle_x], entries.seeds)


def degree_runs(scale: str) -> list[Run]:
    entries = section("slow", scale)
    return runs_of(PAPER, DEGREE, scale, COMPARED, entries.degrees, entries.seeds)


def clustered_runs(scale: str) -> list[Run]:
    entries = section("slow", scale)
    return runs_of(PAPER, CLUSTERED, scale, STRATEGIES, [entries.compared_x], entries.seeds)


def measure(run: Run) -> list[Measure]:
    return _measure(run, section("slow", run.scale).degree, int(run.x))


def measure_degree(run: Run) -> list[Measure]:
    return _measure(run, int(run.x), section("slow", run.scale).compared_x)


def measure_clustered(run: Run) -> list[Measure]:
    return _measure(run, section("slow", run.scale).degree, int(run.x), clustered=True)


def _measure(run: Run, degree: int, leavers: int, *, clustered: bool = False) -> list[Measure]:
    entries = section("slow", run.scale)
    population = Population(
        entries.subscriptions, degree, entries.selectivity, entries.subscribe_gap_s, clustered
    )
    rest = partial(_rest, run, leavers=leavers)
    return after_settling(run, population, slow_costs(run.scale), rest)


def _rest(run: Run, settled: Settled, leavers: int) -> list[Measure]:
    entries, at_s = section("slow", run.scale), settled.at_s
    topology, crowd, simulated, kernel = settled.network
    core, inner = topology.tiers[0], topology.tiers[1]
    from_s = at_s + entries.warm_s
    gone_s = from_s + leavers * entries.unsubscribe_gap_s
    until_s = at_s + entries.publications * entries.publish_gap_s
    stream, probes = _published(crowd, entries, at_s, gone_s + entries.probes_after_s, run.seed)
    gone = crowd.leavers(leavers, run.seed)
    for number, leaver in enumerate(gone):
        unsubscribed_s = from_s + number * entries.unsubscribe_gap_s
        simulated.withdraw(settled.handles[leaver.client], unsubscribed_s)
    times_s = np.arange(from_s, until_s, entries.sample_s).tolist()
    plan = Plan(from_s, gone_s, entries.filled_s, core, times_s, CHUNK_S)
    play(settled, stream, plan, gone)
    simulated.advance()
    figures = _of_probes(kernel.record.in_order(), probes) | {
        "rows_core": rows_of(kernel, core),
        "rows_inner": rows_of(kernel, inner),
        "largest_queue": float(max(max(sample.queued) for sample in kernel.samples)),
        "false_positives": counted(kernel, "false_positive", topology.graph),
        "congested_s": _congested_s(kernel, from_s, entries.congested),
    }
    measures = [Measure(name, 0.0, value) for name, value in figures.items()]
    return measures + list(queue_curve(kernel.samples, from_s))


def _published(
    crowd: Crowd, entries: Section, from_s: float, probes_s: float, seed: int
) -> tuple[Stream, list[float]]:
    """Return the stream that begins at `from_s`, with the probes in it that begin at `probes_s`,
    each half-way between two of its publications; and the times of the probes."""
    gap_s = entries.publish_gap_s
    stream = crowd.stream(entries.publications, from_s, gap_s, seed)
    first_s = from_s + gap_s * (round((probes_s - from_s) / gap_s) + 0.5)
    probes = crowd.probe_stream(entries.probes, first_s, gap_s)
    return stream.merged(probes), probes.at_s.tolist()


def _of_probes(delivered: Delivered, published_s: list[float]) -> dict[str, float]:
    """Measure the delays of what was published at these times; nothing else was."""
    us = np.round((delivered.at_s - delivered.delay_s) * 1e6).astype(np.int64)
    probes = np.round(np.array(published_s) * 1e6).astype(np.int64)
    delay_s = delivered.delay_s[np.isin(us, [*probes, *(probes + 1), *(probes - 1)])]
    low, high = np.quantile(delay_s, (0.1, 0.9))
    return {
        "probe_delay_s": float(delay_s.mean()),
        "probe_delay_p10_s": float(low),
        "probe_delay_p90_s": float(high),
        "probe_deliveries": float(len(delay_s)),
    }


def _congested_s(kernel: CoverKernel, from_s: float, queued: int) -> float:
    """Return how long after `from_s` some core broker still had more than `queued` waiting, as far
    as samples were taken."""
    late = [sample.at_s - from_s for sample in kernel.samples if max(sample.queued) > queued]
    return max(late, default=0.0)


def _together(run: Run) -> Hashable:
    populations = {SLOW: "slow", MIDDLE: "slow", DEGREE: f"slow, degree {run.x:g}"}
    return network_of(run, populations.get(run.campaign, CLUSTERED))


CAMPAIGN = Campaign(SLOW, "unsubscriptions", runs, measure, _together)
BETWEEN = Campaign(MIDDLE, "unsubscriptions", middle_runs, measure, _together)
DEGREES = Campaign(
    DEGREE, "subscriptions covered by a root", degree_runs, measure_degree, _together
)
CLUSTERS = Campaign(CLUSTERED, "unsubscriptions", clustered_runs, measure_clustered, _together)
