"""One run: an overlay, rates, where one of the placements puts storages, and how far requests go.

Hops are computed from the rates, over all requests. For the first seeds they are measured beside
that, in a simulation of the network (`asking`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable

import numpy as np

from reefcast.errors import InternalError
from reefcast.overlay.topology import Graph, names, random_tree
from reefcast.pipeline.planning.placement.baselines import at_random, greedy_without_limits
from reefcast.pipeline.planning.placement.inputs import (
    Inputs,
    Placement,
    Rates,
    checked,
    mean_hops,
    shares_served,
)
from reefcast.pipeline.planning.placement.optimum import optimum
from reefcast.pipeline.planning.placement.steps import place
from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.storage.asking import answered
from reefcast_lab.experiments.storage.parameters import section

OURS, WITHOUT_LIMITS, AT_RANDOM, OPTIMUM = "pub/sub", "grd_opt", "rnd", "optimum"
OF_THE_PAPER = (OURS, WITHOUT_LIMITS, AT_RANDOM)
PLACEMENTS = (*OF_THE_PAPER, OPTIMUM)

DrawRates = Callable[[int, int, float, random.Random], Rates]
"""[topic, broker] of so many topics and brokers, up to the highest rate."""


def together(run: Run) -> Hashable:
    """Return what runs share a task: one that is only computed takes some milliseconds."""
    simulated = run.seed < section("placement", run.scale).simulated_seeds
    return run if simulated or run.routing == OPTIMUM else run.x


def tree_of(brokers: int, seed: int) -> Graph:
    return random_tree(names(brokers), random.Random(f"{seed}/storage/tree"))


def alike(topics: int, brokers: int, highest: float, rng: random.Random) -> Rates:
    """Draw rates of topics that vary from broker to broker, over the whole range."""
    return np.array([[highest * rng.random() for _ in range(brokers)] for _ in range(topics)])


def popular(topics: int, brokers: int, highest: float, rng: random.Random) -> Rates:
    """Draw rates of topics whose range begins at 0 and ends at a rate of its own."""
    highest_of = [highest * rng.random() for _ in range(topics)]
    return np.array([[most * rng.random() for _ in range(brokers)] for most in highest_of])


def inputs_of(
    overlay: Graph,
    scale: str,
    seed: int,
    *,
    copies: int | None = None,
    capacity: int | None = None,
    draw: DrawRates = alike,
) -> Inputs:
    """Draw rates at random, the same for one seed and overlay; the file's numbers by default."""
    entries = section("placement", scale)
    rng = random.Random(f"{seed}/storage/rates")
    rates = draw(entries.topics, len(overlay), entries.highest_rate, rng)
    topics = tuple(names(entries.topics))
    return checked(overlay, topics, rates, copies or entries.copies, capacity or entries.capacity)


def measures_of(made: Inputs, run: Run) -> list[Measure]:
    """Return measures: `computed` and `bound` are from the rates; all of `Answered`, and `off`,
    are simulated, where the seed is one of the first. `nearer_to_grd_opt`: whether pub/sub is
    nearer to it than to rnd."""
    placement, bound = placement_of(made, run)
    computed = mean_hops(made, placement)
    figures = {
        "computed": computed,
        "computed_busiest": max(shares_served(made, placement).values()),
        "brokers_with_storages": float(len({b for kept in placement.values() for b in kept})),
    }
    if run.seed < section("placement", run.scale).simulated_seeds:
        simulated = answered(made, placement, run.scale, run.seed)
        off = abs(simulated.mean_hops / computed - 1)
        figures |= {**simulated._asdict(), "off": off}
    if bound is not None:
        figures["bound"] = bound
    if run.routing == OURS:
        figures["nearer_to_grd_opt"] = nearer_to_grd_opt(made, run, computed)
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def placement_of(made: Inputs, run: Run) -> tuple[Placement, float | None]:
    """Return the placement, and for the optimum the lower bound."""
    if run.routing == OURS:
        return place(made).placement, None
    if run.routing == WITHOUT_LIMITS:
        return greedy_without_limits(made), None
    if run.routing == AT_RANDOM:
        return at_random(made, rng_of(run)), None
    entries = section("placement", run.scale)
    best = optimum(made, entries.time_limit_s, entries.gap)
    if best is None:
        raise InternalError(f"{run}: no placement within {entries.time_limit_s} s")
    return best.placement, best.bound


def nearer_to_grd_opt(made: Inputs, run: Run, computed: float) -> float:
    """Return 1 if these mean hops are nearer to those of grd_opt than to those of rnd, else 0."""
    less = computed - mean_hops(made, greedy_without_limits(made))
    more = mean_hops(made, at_random(made, rng_of(run))) - computed
    return float(abs(less) < more)


def rng_of(run: Run) -> random.Random:
    """Return the generator by which rnd assigns."""
    return random.Random(f"{run.seed}/storage/rnd")
