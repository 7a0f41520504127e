"""One run: an overlay, rates, and where one of the placements puts storages.

Hops are computed from the rates, over all requests: a simulation of requests at random would tell
the same with noise. That requests go to the nearest storage is what the protocol is tested for.
"""

from __future__ import annotations

import random

import numpy as np

from reefcast.errors import InternalError
from reefcast.experiments.campaign import Measure, Run
from reefcast.experiments.storage.parameters import section
from reefcast.overlay.topology import Graph, names, random_tree
from reefcast.storage.placement.baselines import at_random, greedy_without_limits
from reefcast.storage.placement.inputs import (
    Inputs,
    Placement,
    checked,
    mean_hops,
    shares_served,
)
from reefcast.storage.placement.optimum import optimum
from reefcast.storage.placement.steps import place

OURS, WITHOUT_LIMITS, AT_RANDOM, OPTIMUM = "pub/sub", "grd_opt", "rnd", "optimum"
PLACEMENTS = (OURS, WITHOUT_LIMITS, AT_RANDOM, OPTIMUM)


def tree_of(brokers: int, seed: int) -> Graph:
    return random_tree(names(brokers), random.Random(f"{seed}/storage/tree"))


def inputs_of(
    overlay: Graph,
    scale: str,
    seed: int,
    *,
    copies: int | None = None,
    capacity: int | None = None,
) -> Inputs:
    """Rates at random, the same for one seed and overlay; the file's numbers by default."""
    entries = section("placement", scale)
    rng = random.Random(f"{seed}/storage/rates")
    rates = [[entries.highest_rate * rng.random() for _ in overlay] for _ in range(entries.topics)]
    return checked(
        overlay,
        tuple(names(entries.topics)),
        np.array(rates),
        copies or entries.copies,
        capacity or entries.capacity,
    )


def measures_of(made: Inputs, run: Run) -> list[Measure]:
    """`nearer_to_grd_opt`: whether pub/sub is nearer to it than to rnd."""
    placement, bound = _placement(made, run)
    hops = mean_hops(made, placement)
    shares = shares_served(made, placement)
    figures = {
        "mean_hops": hops,
        "brokers_with_storages": float(len(shares)),
        "busiest_share": max(shares.values()),
    }
    if bound is not None:
        figures["bound"] = bound
    if run.routing == OURS:
        less = hops - mean_hops(made, greedy_without_limits(made))
        more = mean_hops(made, at_random(made, _rng(run))) - hops
        figures["nearer_to_grd_opt"] = float(abs(less) < more)
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def _placement(made: Inputs, run: Run) -> tuple[Placement, float | None]:
    """And of the optimum: what none is below."""
    if run.routing == OURS:
        return place(made).placement, None
    if run.routing == WITHOUT_LIMITS:
        return greedy_without_limits(made), None
    if run.routing == AT_RANDOM:
        return at_random(made, _rng(run)), None
    entries = section("placement", run.scale)
    best = optimum(made, entries.time_limit_s, entries.gap)
    if best is None:
        raise InternalError(f"{run}: no placement within {entries.time_limit_s} s")
    return best.placement, best.bound


def _rng(run: Run) -> random.Random:
    return random.Random(f"{run.seed}/storage/rnd")
