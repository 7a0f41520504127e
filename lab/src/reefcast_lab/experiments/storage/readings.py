"""How else the paper's step 1 and its `rnd` could be read; computed from the rates.

- savings: the gain of a broker is what all requests save by a storage there; by the formula of the
  paper, which ours follows, only what passes through the broker counts (G = P * D).
- k rounds: `rnd` takes the brokers that were chosen most often in as many rounds as a topic has
  copies; ours has as many rounds as there are storages.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reefcast.pipeline.planning.placement.baselines import assigned_at_random, most_chosen
from reefcast.pipeline.planning.placement.greedy import Counts, choices
from reefcast.pipeline.planning.placement.inputs import Inputs, Placement, Rates, mean_hops
from reefcast.pipeline.planning.placement.steps import largest, steps_from
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.storage.parameters import PAPER, section
from reefcast_lab.experiments.storage.placing import OF_THE_PAPER, alike, placement_of, rng_of
from reefcast_lab.experiments.storage.trees import with_capacity

NAME = "readings"
OURS_BY_SAVINGS, WITHOUT_LIMITS_BY_SAVINGS = "pub/sub, savings", "grd_opt, savings"
AT_RANDOM_BY_SAVINGS, AT_RANDOM_K_ROUNDS = "rnd, savings", "rnd, k rounds"
OTHERS = (
    OURS_BY_SAVINGS,
    WITHOUT_LIMITS_BY_SAVINGS,
    AT_RANDOM_BY_SAVINGS,
    AT_RANDOM_K_ROUNDS,
)


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, (*OF_THE_PAPER, *OTHERS), entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    made = with_capacity(run, alike)
    placement = _other(made, run) if run.routing in OTHERS else placement_of(made, run)[0]
    return [Measure("computed", 0.0, mean_hops(made, placement))]


def _other(made: Inputs, run: Run) -> Placement:
    if run.routing == OURS_BY_SAVINGS:
        return steps_from(made, choices_by_savings(made.hops, made.rates, made.copies)).placement
    if run.routing == WITHOUT_LIMITS_BY_SAVINGS:
        return most_chosen(made, choices_by_savings(made.hops, made.rates, made.copies))
    blind = made.rates.sum(axis=0, keepdims=True)
    if run.routing == AT_RANDOM_K_ROUNDS:
        counts = choices(made.graph, blind, made.copies)
    else:
        counts = choices_by_savings(made.hops, blind, made.storages)
    return assigned_at_random(made, largest(counts[0], made.storages), rng_of(run))


def choices_by_savings(hops: NDArray[np.int64], rates: Rates, rounds: int) -> Counts:
    """Choose as `greedy.choices` does, with the other gain."""
    brokers = len(hops)
    counts = np.zeros((len(rates), brokers), np.int64)
    for topic, of_topic in enumerate(rates):
        for target in range(brokers):
            near = hops[:, target]
            chosen: list[int] = []
            for _ in range(rounds):
                nearer = np.minimum(near[:, None], hops)
                gains = of_topic @ (near[:, None] - nearer)
                gains[chosen] = -1.0
                chosen.append(int(gains.argmax()))
                near = nearer[:, chosen[-1]]
            counts[topic, chosen] += 1
    return counts


CAMPAIGN = Campaign(NAME, "topics of a storage", runs, measure)
