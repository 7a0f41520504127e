"""Changes of the population and the overlay, undone one by one: what can be counted for many
placements without simulated time (`covering.structure`).

A routing is a strategy, alone with the set-up as it is, or with what is undone.
"""

from __future__ import annotations

from functools import lru_cache

from reefcast_lab.experiments.campaign import Campaign, Measure, Run, with_x_and_seed
from reefcast_lab.experiments.covering import structure
from reefcast_lab.experiments.covering.crowd import Crowd, workload
from reefcast_lab.experiments.covering.parameters import section as covering_section
from reefcast_lab.experiments.covering.structure import Structure
from reefcast_lab.experiments.covering.topology import Topology, core_topology
from reefcast_lab.experiments.covering.unsubscribing import COMPARED
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.undone.parameters import PAPER, section

NAME = "counted"
ROOTS, SELECTIVITY, OVERLAY = "38 roots", "selectivity 0.002", "inner brokers 3, 2, 2, 2, 3"
UNDONE = ("", ROOTS, SELECTIVITY, OVERLAY)


def routing(strategy: str, undone: str) -> str:
    """Return what tables call a strategy of which one change is undone; "": none."""
    return f"{strategy}, {undone}" if undone else strategy


def parts(run: Run) -> tuple[str, str]:
    """Return the strategy of a run, and what is undone."""
    strategy, _, undone = run.routing.partition(", ")
    return strategy, undone


def runs(scale: str) -> list[Run]:
    x = covering_section("unsubscribing", scale).compared_x
    routings = [routing(strategy, undone) for undone in UNDONE for strategy in COMPARED]
    return runs_of(PAPER, NAME, scale, routings, [x], section("counted", scale).placements)


def measure(run: Run) -> list[Measure]:
    strategy, undone = parts(run)
    topology, crowd, placed = _placed(undone, run.scale, run.seed)
    theta = covering_section("network", run.scale).theta
    found = placed.counts(crowd.leavers(int(run.x), run.seed), strategy, theta)
    return list(structure.measures(found, topology))


@lru_cache(maxsize=1)
def _placed(undone: str, scale: str, seed: int) -> tuple[Topology, Crowd, Structure]:
    """Place subscriptions; runs that differ in the strategy count the same."""
    before, entries = section("counted", scale), covering_section("unsubscribing", scale)
    topology = core_topology(before.inner_of_core) if undone == OVERLAY else core_topology()
    roots = before.roots if undone == ROOTS else entries.roots
    crowd = workload(
        topology,
        subscriptions=roots * (entries.degree + 1),
        degree=entries.degree,
        selectivity=before.selectivity if undone == SELECTIVITY else entries.selectivity,
        seed=seed,
    )
    return topology, crowd, Structure(topology, crowd)


CAMPAIGN = Campaign(NAME, "unsubscriptions", runs, measure, with_x_and_seed)
