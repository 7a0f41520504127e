"""How else the paper's step 1 and its `rnd` could be read, and what its steps 3 and 4 lose;
computed from the rates.

- savings: the gain of a broker is what all requests save by a storage there; by the formula of the
  paper, which ours follows, only what passes through the broker counts (G = P * D).
- k rounds: `rnd` takes the brokers that were chosen most often in as many rounds as a topic has
  copies; ours has as many rounds as there are storages.
- best step 4: the storages of step 3, with topics assigned to them as well as can be; what is left
  beside the optimum is lost by step 3.
- random step 4: the storages of step 3, with topics assigned to them at random.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reefcast.pipeline.planning.placement.baselines import assigned_at_random, most_chosen
from reefcast.pipeline.planning.placement.greedy import Counts, choices
from reefcast.pipeline.planning.placement.inputs import Inputs, Placement, Rates, mean_hops
from reefcast.pipeline.planning.placement.steps import largest, place, steps_from
from reefcast_lab.experiments.campaign import Campaign, Measure, Run, with_x_and_seed
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.storage.parameters import PAPER, section
from reefcast_lab.experiments.storage.placing import (
    OF_THE_PAPER,
    OURS,
    alike,
    nearer_to_grd_opt,
    placement_of,
    rng_of,
)
from reefcast_lab.experiments.storage.trees import with_capacity

NAME = "readings"
OURS_BY_SAVINGS, WITHOUT_LIMITS_BY_SAVINGS = "pub/sub, savings", "grd_opt, savings"
AT_RANDOM_BY_SAVINGS, AT_RANDOM_K_ROUNDS = "rnd, savings", "rnd, k rounds"
BEST_STEP_4, RANDOM_STEP_4 = "pub/sub, best step 4", "pub/sub, random step 4"
OTHERS = (
    BEST_STEP_4,
    RANDOM_STEP_4,
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
    computed = mean_hops(made, placement)
    measures = [Measure("computed", 0.0, computed)]
    if run.routing in (OURS, BEST_STEP_4):
        nearer = nearer_to_grd_opt(made, run, computed)
        measures.append(Measure("nearer_to_grd_opt", 0.0, nearer))
    return measures


def _other(made: Inputs, run: Run) -> Placement:
    if run.routing == BEST_STEP_4:
        return best_assignment(made, _storages(made), section("placement", run.scale).gap)
    if run.routing == RANDOM_STEP_4:
        return assigned_at_random(made, _storages(made), rng_of(run))
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


def _storages(made: Inputs) -> list[int]:
    """Return the storages of step 3."""
    return [made.brokers.index(broker) for broker in place(made).storage_brokers]


def best_assignment(made: Inputs, storages: list[int], gap: float) -> Placement:
    """Assign topics to storages at these brokers so that no other assignment has fewer mean hops
    by a larger share than `gap`. A variable for each topic and each choice of as many storages as
    a topic has copies."""
    from scipy.optimize import Bounds, milp

    groups = list(combinations(storages, made.copies))
    nearest = np.array([made.hops[:, group].min(axis=1) for group in groups])
    costs = made.rates @ nearest.T
    solved = milp(
        costs.ravel(),
        integrality=np.ones(costs.size),
        bounds=Bounds(0, 1),
        constraints=_assignments(made, storages, groups),
        options={"mip_rel_gap": gap},
    )
    taken = solved.x.reshape(costs.shape).argmax(axis=1)
    return {
        topic: tuple(made.brokers[broker] for broker in groups[number])
        for topic, number in zip(made.topics, taken.tolist(), strict=True)
    }


def _assignments(made: Inputs, storages: list[int], groups: list[tuple[int, ...]]) -> list[Any]:
    """Return the constraints: each topic takes one of the groups, no storage more than its
    capacity."""
    from scipy.optimize import LinearConstraint

    topics = len(made.topics)
    one_each = np.kron(np.eye(topics), np.ones(len(groups)))
    holds = np.array([[float(storage in group) for group in groups] for storage in storages])
    return [
        LinearConstraint(one_each, 1, 1),
        LinearConstraint(np.tile(holds, topics), -np.inf, made.capacity),
    ]


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


CAMPAIGN = Campaign(NAME, "topics of a storage", runs, measure, with_x_and_seed)
