"""What meshes look like: end-to-end paths, M11 (Fig. 1), and what fanout costs covering, M6
(Fig. 12)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np

from reefcast.overlay.topology import Edge
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.mesh.covering_sets import covering_sets
from reefcast_lab.experiments.mesh.feeds import dataset, workload
from reefcast_lab.experiments.mesh.measuring import MeshRun, brokers_with
from reefcast_lab.experiments.mesh.parameters import PAPER, section
from reefcast_lab.experiments.mesh.paths import path_counts, share_with
from reefcast_lab.experiments.mesh.topology import network
from reefcast_lab.experiments.mesh.traffic import Period, traffic

PATHS, COVERING = "paths", "covering"
STRATEGY = "S2"
CONFIGURATIONS = {"C1": "DT1", "C2": "DT3"}
THRESHOLDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


def path_runs(scale: str) -> list[Run]:
    sizes = [len(network(name, scale)) for name in CONFIGURATIONS]
    seeds = section("meshes", scale).seeds
    return runs_of(PAPER, PATHS, scale, (STRATEGY,), sizes, seeds)


def covering_runs(scale: str) -> list[Run]:
    size, seeds = len(network("C3", scale)), section(COVERING, scale).seeds
    return runs_of(PAPER, COVERING, scale, (STRATEGY,), [size], seeds)


def _linked(
    run: Run, configuration: str, data: str, fanout: int, period: Period
) -> tuple[MeshRun, Counter[str]]:
    """Return a network that has found its links, and how many publications came to each broker."""
    tree = network(configuration, run.scale)
    crowd = traffic(data, tree, (period,), run.scale, run.seed)
    mesh = MeshRun(tree, run.routing, fanout, brokers_with(), run.scale, run.seed)
    passed = mesh.settle(crowd.claims, crowd.periods[0])
    assert passed is not None, "S2 finds links"
    came = passed.to + Counter(event.broker for event in crowd.periods[0])
    return mesh, came


def measure_paths(run: Run) -> list[Measure]:
    entries, shared = section("meshes", run.scale), section("mesh", run.scale)
    (name,) = (c for c in CONFIGURATIONS if len(network(c, run.scale)) == run.x)
    period = Period(entries.per_minute, entries.rounds * shared.round_s)
    mesh, _ = _linked(run, name, CONFIGURATIONS[name], shared.fanout, period)
    counts = path_counts(network(name, run.scale), mesh.soft_links())
    figures = {
        "pairs_with_100": share_with(counts, 100),
        "pairs_with_1000": share_with(counts, 1000),
        "most_paths": float(counts.max()),
        "soft_links": float(len(mesh.soft_links())),
    }
    curve = [
        Measure("pairs_by_paths", float(np.log10(least)), share_with(counts, least))
        for least in THRESHOLDS
    ]
    return [*(Measure(name, 0.0, value) for name, value in figures.items()), *curve]


def measure_covering(run: Run) -> list[Measure]:
    """Measure all fanouts, one after the other: each is reported beside the least."""
    entries, shared = section(COVERING, run.scale), section("mesh", run.scale)
    period = Period(entries.per_minute, entries.warm_rounds * shared.round_s)
    tree = network("C3", run.scale)
    subscriptions = workload(list(tree), dataset("DT-C", run.scale), run.seed).subscriptions
    sizes: dict[int, float] = {}
    links: dict[int, float] = {}
    found: dict[int, tuple[Collection[Edge], Counter[str]]] = {}
    evaluations: dict[int, float] = {}
    for fanout in entries.fanouts:
        mesh, came = _linked(run, "C3", "DT-C", fanout, period)
        soft_links = mesh.soft_links()
        found[fanout] = soft_links, came
        links[fanout] = float(len(soft_links))
        sets = covering_sets(tree, soft_links, subscriptions, shared.delta)
        sizes[fanout] = sum(one.rows for one in sets.values()) / len(sets)
        evaluated = sum(came[name] * one.predicates for name, one in sets.items())
        evaluations[fanout] = evaluated / came.total()
    return [
        *_beside_the_least("rows", sizes),
        *_beside_the_least("evaluations", evaluations),
        *_numbers("soft_links", links),
        *_with_longer_chains(run, [found[fanout] for fanout in entries.fanouts[:2]]),
    ]


def _with_longer_chains(
    run: Run, found: list[tuple[Collection[Edge], Counter[str]]]
) -> Iterator[Measure]:
    """Yield both growths, between the same two meshes, for chains that are longer than DT-C's."""
    tree, delta = network("C3", run.scale), section("mesh", run.scale).delta
    longer = replace(dataset("DT-C", run.scale), chain=section(COVERING, run.scale).longer_chain)
    subscriptions = workload(list(tree), longer, run.seed).subscriptions
    rows, evaluations = [], []
    for soft_links, came in found:
        sets = covering_sets(tree, soft_links, subscriptions, delta)
        rows.append(sum(one.rows for one in sets.values()))
        evaluated = sum(came[name] * one.predicates for name, one in sets.items())
        evaluations.append(evaluated / came.total())
    for name, (first, second) in (("rows", rows), ("evaluations", evaluations)):
        yield Measure(f"{name}_growth_longer", 0.0, second / first - 1)


def _numbers(name: str, by_fanout: dict[int, float]) -> Iterator[Measure]:
    first, second = list(by_fanout)[:2]
    yield Measure(name, 0.0, by_fanout[first])
    yield Measure(f"{name}_next", 0.0, by_fanout[second])
    for fanout, number in by_fanout.items():
        yield Measure(f"{name}_by_fanout", float(fanout), number)


def _beside_the_least(name: str, by_fanout: dict[int, float]) -> Iterator[Measure]:
    first, second = list(by_fanout)[:2]
    yield Measure(name, 0.0, by_fanout[first])
    yield Measure(f"{name}_growth", 0.0, by_fanout[second] / by_fanout[first] - 1)
    for fanout, value in by_fanout.items():
        yield Measure(f"{name}_by_fanout", float(fanout), value / by_fanout[first])


PATH_COUNTS = Campaign(PATHS, "brokers", path_runs, measure_paths)
COVERING_SETS = Campaign(COVERING, "brokers", covering_runs, measure_covering)
