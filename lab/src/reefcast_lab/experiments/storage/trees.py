"""The paper's three experiments (Fig. 4): over the number of brokers, of the topics that a storage
keeps, and of the copies of a topic. On random trees. The first two also with topics that are asked
for more or less often (`placing.popular`)."""

from __future__ import annotations

from collections.abc import Iterable

from reefcast.pipeline.planning.placement.inputs import Inputs, mean_hops
from reefcast.pipeline.planning.placement.steps import place
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.storage.parameters import PAPER, section
from reefcast_lab.experiments.storage.placing import (
    OF_THE_PAPER,
    OPTIMUM,
    OURS,
    DrawRates,
    alike,
    inputs_of,
    measures_of,
    popular,
    together,
    tree_of,
)

BROKERS, CAPACITY, COPIES = "brokers", "capacity", "copies"
POPULAR_BROKERS, POPULAR_CAPACITY = "popular-brokers", "popular-capacity"


def _runs(campaign: str, section_name: str, scale: str, placements: Iterable[str]) -> list[Run]:
    entries = section(section_name, scale)
    return runs_of(PAPER, campaign, scale, placements, entries.x, entries.seeds)


def _with_optimum(campaign: str, scale: str) -> list[Run]:
    """Return runs of the paper's placements, and of the optimum, which takes longest, with fewer
    seeds."""
    entries, seeds = section(campaign, scale), section("placement", scale).optimum_seeds
    return [
        *_runs(campaign, campaign, scale, OF_THE_PAPER),
        *runs_of(PAPER, campaign, scale, (OPTIMUM,), entries.x, seeds),
    ]


# --- over the brokers -----------------------------------------------------------------------------


def broker_runs(scale: str) -> list[Run]:
    return _with_optimum(BROKERS, scale)


def popular_broker_runs(scale: str) -> list[Run]:
    return _runs(POPULAR_BROKERS, BROKERS, scale, OF_THE_PAPER)


def measure_brokers(run: Run) -> list[Measure]:
    return _with_brokers(run, alike)


def measure_popular_brokers(run: Run) -> list[Measure]:
    return _with_brokers(run, popular)


def _with_brokers(run: Run, draw: DrawRates) -> list[Measure]:
    overlay = tree_of(int(run.x), run.seed)
    return measures_of(inputs_of(overlay, run.scale, run.seed, draw=draw), run)


# --- over what a storage keeps --------------------------------------------------------------------


def capacity_runs(scale: str) -> list[Run]:
    return _with_optimum(CAPACITY, scale)


def popular_capacity_runs(scale: str) -> list[Run]:
    return _runs(POPULAR_CAPACITY, POPULAR_CAPACITY, scale, OF_THE_PAPER)


def measure_capacity(run: Run) -> list[Measure]:
    return measures_of(with_capacity(run, alike), run)


def measure_popular_capacity(run: Run) -> list[Measure]:
    return measures_of(with_capacity(run, popular), run)


def with_capacity(run: Run, draw: DrawRates) -> Inputs:
    """Measure storages that keep `x` topics."""
    overlay = tree_of(section("placement", run.scale).brokers, run.seed)
    return inputs_of(overlay, run.scale, run.seed, capacity=int(run.x), draw=draw)


# --- over the copies of a topic -------------------------------------------------------------------


def copy_runs(scale: str) -> list[Run]:
    return _with_optimum(COPIES, scale)


def measure_copies(run: Run) -> list[Measure]:
    """Measure `falls`, of pub/sub: whether there are fewer hops than with a copy less, as
    computed."""
    made = _with_copies(run, int(run.x))
    measures = measures_of(made, run)
    if run.routing == OURS and run.x > 1:
        fewer = _with_copies(run, int(run.x) - 1)
        falls = mean_hops(made, place(made).placement) < mean_hops(fewer, place(fewer).placement)
        measures.append(Measure("falls", 0.0, float(falls)))
    return measures


def _with_copies(run: Run, copies: int) -> Inputs:
    overlay = tree_of(section("placement", run.scale).brokers, run.seed)
    return inputs_of(overlay, run.scale, run.seed, copies=copies)


OVER_BROKERS = Campaign(BROKERS, "brokers", broker_runs, measure_brokers, together)
OVER_CAPACITY = Campaign(CAPACITY, "topics of a storage", capacity_runs, measure_capacity, together)
OVER_COPIES = Campaign(COPIES, "copies of a topic", copy_runs, measure_copies, together)
POPULAR_OVER_BROKERS = Campaign(
    POPULAR_BROKERS, "brokers", popular_broker_runs, measure_popular_brokers, together
)
POPULAR_OVER_CAPACITY = Campaign(
    POPULAR_CAPACITY,
    "topics of a storage",
    popular_capacity_runs,
    measure_popular_capacity,
    together,
)
