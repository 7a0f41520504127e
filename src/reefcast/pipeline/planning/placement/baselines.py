"""Placements to compare with (section V of the paper)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from reefcast.pipeline.planning.placement.greedy import Counts, choices
from reefcast.pipeline.planning.placement.inputs import Inputs, Placement
from reefcast.pipeline.planning.placement.steps import assign, largest


def greedy_without_limits(made: Inputs) -> Placement:
    """Return `grd_opt`: each topic at the brokers that step 1 chose most often for it, whatever
    their capacity and number. Despite its name it is no optimum."""
    return most_chosen(made, choices(made.graph, made.rates, made.copies))


def most_chosen(made: Inputs, counts: Counts) -> Placement:
    """Return the placement at the most chosen brokers, by these counts of step 1."""
    return {
        topic: tuple(made.brokers[i] for i in largest(of_topic, made.copies))
        for topic, of_topic in zip(made.topics, counts, strict=True)
    }


def at_random(made: Inputs, rng: random.Random) -> Placement:
    """Return `rnd`: storages where the greedy placement puts as many for all topics together,
    topics assigned to them at random as room allows."""
    blind = made.rates.sum(axis=0, keepdims=True)
    chosen = largest(choices(made.graph, blind, made.storages)[0], made.storages)
    return assigned_at_random(made, chosen, rng)


def assigned_at_random(made: Inputs, chosen: Sequence[int], rng: random.Random) -> Placement:
    """Assign topics at random to storages at these brokers."""
    topics = list(range(len(made.topics)))
    rng.shuffle(topics)
    return assign(made, chosen, [(topic, rng.sample(chosen, len(chosen))) for topic in topics])
