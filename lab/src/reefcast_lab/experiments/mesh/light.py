"""Nothing is full: paths, pure forwarders, delays and traffic of each strategy: M1 to M5 (Figs 9 to
11, Table 2).

As in the paper, all subscribe, and what is measured are all publications from the very first one
on: brokers find their soft links while they go by.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.mesh.crossing import CURVE_S
from reefcast_lab.experiments.mesh.measuring import (
    STRATEGIES,
    MeshRun,
    Observed,
    brokers_with,
)
from reefcast_lab.experiments.mesh.parameters import PAPER, section
from reefcast_lab.experiments.mesh.topology import network
from reefcast_lab.experiments.mesh.traffic import Period, traffic

NAME = "light"
MOST_BYTES = 0.02
"""The share of the bytes that load exchange stays under, says the paper."""


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, STRATEGIES, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    entries, fanout = section(NAME, run.scale), section("mesh", run.scale).fanout
    tree = network("C1", run.scale)
    period = Period(entries.per_minute, entries.duration_s)
    crowd = traffic(f"DT{run.x:g}", tree, (period,), run.scale, run.seed)
    mesh = MeshRun(tree, run.routing, fanout, brokers_with(), run.scale, run.seed)
    mesh.settle(crowd.claims, [])
    observed = mesh.observe(crowd.periods[0], entries.duration_s, to_the_end=True)
    figures = _figures(observed)
    figures["soft_links"] = float(len(mesh.soft_links()))
    singles = [Measure(name, 0.0, value) for name, value in figures.items()]
    return [*singles, *_curves(observed)]


def _figures(observed: Observed) -> dict[str, float]:
    loads = observed.said_bytes["loads"] / (observed.bytes_sent + observed.said_bytes.total())
    busiest = max(observed.passed.out.values()) / observed.passed.published
    return {
        "deliveries": float(observed.deliveries),
        "pure_forwarders": float(observed.passed.sends - observed.deliveries),
        "yield": observed.deliveries / observed.passed.sends,
        "mean_hops": float(observed.passed.hops.mean()),
        "mean_delay_s": float(observed.passed.delay_s.mean()),
        "sends_per_s": observed.passed.sends / observed.duration_s,
        "loads_share": loads,
        "loads_are_few": float(loads < MOST_BYTES),
        "busiest_copies": busiest,
        "busiest_inputs": max(observed.passed.to.values()) / observed.passed.published,
    }


def _curves(observed: Observed) -> Iterator[Measure]:
    """Yield the shares of the deliveries by hops and by delay, and the traffic over time."""
    counts = np.bincount(observed.passed.hops)
    for hops, share in enumerate((counts.cumsum() / counts.sum()).tolist()):
        yield Measure("share_by_hops", float(hops), share)
    ranks = np.arange(1, 100) / 100
    for share, delay_s in zip(ranks, np.quantile(observed.passed.delay_s, ranks), strict=True):
        yield Measure("delay_s_by_share", float(share), float(delay_s))
    for number, sends in enumerate(observed.curve):
        yield Measure("traffic", number * CURVE_S, sends / CURVE_S)


CAMPAIGN = Campaign(NAME, "= number of the dataset DT", runs, measure)
