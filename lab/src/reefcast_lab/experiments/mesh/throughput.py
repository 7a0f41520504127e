"""More than brokers or uplinks can bear: what is delivered in a given time: M7 to M10 (Figs 13 and
14)."""

from __future__ import annotations

from collections.abc import Sequence

from reefcast.overlay.topology import Graph
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.mesh.distribution import distribution
from reefcast_lab.experiments.mesh.measuring import (
    STRATEGIES,
    Brokers,
    MeshRun,
    brokers_on,
    brokers_with,
)
from reefcast_lab.experiments.mesh.parameters import PAPER, section
from reefcast_lab.experiments.mesh.topology import network
from reefcast_lab.experiments.mesh.traffic import SOCIAL, Period, Traffic, traffic
from reefcast_lab.experiments.parameters import Section
from reefcast_lab.experiments.script import Script

DATASETS = {"throughput-DT1": "C1", "throughput-DT2": "C1", "throughput-DT3": "C2"}
UPLINKS, PLANETLAB, FRIENDS = "uplinks", "planetlab", "friends"
VARIANTS = ("half", "double")
"""Variants of the time that a publication takes at a broker."""


# --- which runs -----------------------------------------------------------------------------------


def _throughput_runs(name: str, scale: str) -> list[Run]:
    """Return the runs. S0, which has no fanout, stands beside the least and the largest; SH, which
    costs more than it gains here, beside the largest."""
    entries = section("throughput", scale)
    fanouts, seeds = entries.fanouts, entries.seeds
    ends = [fanouts[0], fanouts[-1]]
    return [
        *runs_of(PAPER, name, scale, ("S1", "S2"), fanouts, seeds),
        *runs_of(PAPER, name, scale, ("S0",), ends, seeds),
        *runs_of(PAPER, name, scale, ("SH",), fanouts[-1:], seeds),
    ]


def dt1_runs(scale: str) -> list[Run]:
    name, largest = "throughput-DT1", section("throughput", scale).fanouts[-1:]
    return [*_throughput_runs(name, scale), *_variant_runs(name, scale, largest)]


def dt2_runs(scale: str) -> list[Run]:
    return _throughput_runs("throughput-DT2", scale)


def dt3_runs(scale: str) -> list[Run]:
    return _throughput_runs("throughput-DT3", scale)


def _runs(name: str, scale: str, strategies: Sequence[str]) -> list[Run]:
    entries = section(name, scale)
    return runs_of(PAPER, name, scale, strategies, entries.x, entries.seeds)


def uplinks_runs(scale: str) -> list[Run]:
    return _runs(UPLINKS, scale, STRATEGIES)


def planetlab_runs(scale: str) -> list[Run]:
    return _runs(PLANETLAB, scale, ("S0", "S1", "S2"))


def friends_runs(scale: str) -> list[Run]:
    strategies, fanouts = ("S0", "S1", "S2"), section(FRIENDS, scale).x[:1]
    return [*_runs(FRIENDS, scale, strategies), *_variant_runs(FRIENDS, scale, fanouts)]


def _variant_runs(name: str, scale: str, fanouts: Sequence[float]) -> list[Run]:
    """Return the runs that show how much depends on the time that a publication takes."""
    seeds = section("throughput", scale).variant_seeds
    return [
        run
        for variant in VARIANTS
        for run in runs_of(PAPER, name, scale, ("S0", "S1", "S2"), fanouts, seeds, variant)
    ]


# --- what is measured -----------------------------------------------------------------------------


def measure_throughput(run: Run) -> list[Measure]:
    """Measure with x as the fanout."""
    entries = section("throughput", run.scale)
    tree = network(DATASETS[run.campaign], run.scale)
    dataset = run.campaign.removeprefix("throughput-")
    return _measured(run, entries, tree, dataset, int(run.x), brokers_with(_publication_s(run)))


def _publication_s(run: Run) -> float:
    entries = section("throughput", run.scale)
    times = getattr(entries, run.variant) if run.variant else 1.0
    return float(entries.publication_s * times)


def measure_uplinks(run: Run) -> list[Measure]:
    """Measure with x as the publications per second that an uplink carries."""
    entries = section(UPLINKS, run.scale)
    brokers = brokers_on(run.x * entries.frame_bytes, entries.frame_bytes)
    return _measured(run, entries, network("C1", run.scale), "DT1", _fanout(run), brokers)


def measure_planetlab(run: Run) -> list[Measure]:
    """Measure with x as the number of the dataset."""
    entries = section(PLANETLAB, run.scale)
    brokers = brokers_on(entries.uplink_bytes_per_s, entries.frame_bytes)
    tree = network("CPL", run.scale)
    return _measured(run, entries, tree, f"DT{run.x:g}", _fanout(run), brokers)


def measure_friends(run: Run) -> list[Measure]:
    """Measure with x as the fanout."""
    entries = section(FRIENDS, run.scale)
    takes_s = _publication_s(run) * entries.slower
    tree = network("C1", run.scale)
    return _measured(run, entries, tree, SOCIAL, int(run.x), brokers_with(takes_s))


def _fanout(run: Run) -> int:
    return int(section("mesh", run.scale).fanout)


def _measured(
    run: Run, entries: Section, tree: Graph, dataset: str, fanout: int, brokers: Brokers
) -> list[Measure]:
    round_s = section("mesh", run.scale).round_s
    warm = Period(entries.warm_per_minute, entries.warm_rounds * round_s)
    measured = Period(entries.per_minute, entries.duration_s)
    crowd = traffic(dataset, tree, (warm, measured), run.scale, run.seed)
    mesh = MeshRun(tree, run.routing, fanout, brokers, run.scale, run.seed)
    mesh.settle(crowd.claims, crowd.periods[0])
    observed = mesh.observe(crowd.periods[1], entries.duration_s, to_the_end=False)
    published = observed.passed.published
    figures = {
        "deliveries_per_min": 60 * observed.deliveries / observed.duration_s,
        "delivered_share": observed.deliveries / due(tree, crowd),
        "mean_hops": float(observed.passed.hops.mean()),
        "yield": observed.deliveries / observed.passed.sends,
        "sends_per_s": observed.passed.sends / observed.duration_s,
        "busiest_copies": max(observed.passed.out.values()) / published,
        "soft_links": float(len(mesh.soft_links())),
    }
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def due(tree: Graph, crowd: Traffic) -> float:
    """Return the deliveries that are due for the publications of the last period, if there were
    time enough."""
    subscriptions = [claim for claim in crowd.claims if not claim.advertises]
    spread = distribution(tree, Script(subscriptions, crowd.periods[-1]))
    return spread.deliveries.mean * spread.publications


DT1 = Campaign("throughput-DT1", "fanout", dt1_runs, measure_throughput)
DT2 = Campaign("throughput-DT2", "fanout", dt2_runs, measure_throughput)
DT3 = Campaign("throughput-DT3", "fanout", dt3_runs, measure_throughput)
UPLINK = Campaign(UPLINKS, "publications a second on an uplink", uplinks_runs, measure_uplinks)
LAB = Campaign(PLANETLAB, "= number of the dataset DT", planetlab_runs, measure_planetlab)
SOCIAL_TRACE = Campaign(FRIENDS, "fanout", friends_runs, measure_friends)
