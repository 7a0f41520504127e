"""The paper's three experiments (Fig. 4): over the number of brokers, of the topics that a storage
keeps, and of the copies of a topic. On random trees."""

from __future__ import annotations

from reefcast.experiments.campaign import Campaign, Measure, Run
from reefcast.experiments.grid import runs_of
from reefcast.experiments.storage.parameters import PAPER, section
from reefcast.experiments.storage.placing import (
    OURS,
    PLACEMENTS,
    inputs_of,
    measures_of,
    tree_of,
)
from reefcast.storage.placement.inputs import Inputs, mean_hops
from reefcast.storage.placement.steps import place

BROKERS, CAPACITY, COPIES = "brokers", "capacity", "copies"


def _runs(campaign: str, scale: str) -> list[Run]:
    entries = section(campaign, scale)
    return runs_of(PAPER, campaign, scale, PLACEMENTS, entries.x, entries.seeds)


def broker_runs(scale: str) -> list[Run]:
    return _runs(BROKERS, scale)


def capacity_runs(scale: str) -> list[Run]:
    return _runs(CAPACITY, scale)


def copy_runs(scale: str) -> list[Run]:
    return _runs(COPIES, scale)


def measure_brokers(run: Run) -> list[Measure]:
    return measures_of(inputs_of(tree_of(int(run.x), run.seed), run.scale, run.seed), run)


def measure_capacity(run: Run) -> list[Measure]:
    overlay = tree_of(section("placement", run.scale).brokers, run.seed)
    return measures_of(inputs_of(overlay, run.scale, run.seed, capacity=int(run.x)), run)


def measure_copies(run: Run) -> list[Measure]:
    """`falls`, of pub/sub: whether there are fewer hops than with a copy less."""
    measures = measures_of(_with_copies(run, int(run.x)), run)
    if run.routing == OURS and run.x > 1:
        hops = next(each.value for each in measures if each.metric == "mean_hops")
        fewer = _with_copies(run, int(run.x) - 1)
        falls = hops < mean_hops(fewer, place(fewer).placement)
        measures.append(Measure("falls", 0.0, float(falls)))
    return measures


def _with_copies(run: Run, copies: int) -> Inputs:
    overlay = tree_of(section("placement", run.scale).brokers, run.seed)
    return inputs_of(overlay, run.scale, run.seed, copies=copies)


OVER_BROKERS = Campaign(BROKERS, "brokers", broker_runs, measure_brokers)
OVER_CAPACITY = Campaign(CAPACITY, "topics of a storage", capacity_runs, measure_capacity)
OVER_COPIES = Campaign(COPIES, "copies of a topic", copy_runs, measure_copies)
