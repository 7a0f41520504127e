"""How far the protocol aligns overlays, and what that does to the graph that they induce: G1, G2,
G4 to G6 (Table 2, Table 3, Figs 2 and 3), for each number of topics a campaign; x: nodes."""

from __future__ import annotations

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.gossip.aligning import ALIGNED, GREEDY, UNALIGNED, overlays
from reefcast_lab.experiments.gossip.measures import of_overlays
from reefcast_lab.experiments.gossip.parameters import PAPER, section
from reefcast_lab.experiments.gossip.scenario import grid_interests
from reefcast_lab.experiments.grid import runs_of

TIMES = {"alignment": 1, "alignment-2": 2, "alignment-3": 3}
"""How often the fewest topics each campaign has."""
NAME = next(iter(TIMES))


def _runs(campaign: str, scale: str) -> list[Run]:
    """Return the runs; those by the rule of the paper are what its figures are about."""
    entries = section("alignment", scale)
    routings = (UNALIGNED, ALIGNED, GREEDY)
    return runs_of(PAPER, campaign, scale, routings, entries.nodes, entries.seeds)


def few_runs(scale: str) -> list[Run]:
    return _runs("alignment", scale)


def more_runs(scale: str) -> list[Run]:
    return _runs("alignment-2", scale)


def most_runs(scale: str) -> list[Run]:
    return _runs("alignment-3", scale)


def measure(run: Run) -> list[Measure]:
    topics = TIMES[run.campaign] * section("alignment", run.scale).topics
    interests = grid_interests(int(run.x), topics, run.seed)
    found = overlays(interests, run.routing, run.scale, run.seed)
    return of_overlays(found, run.routing, run.scale, run.seed)


CAMPAIGNS = tuple(
    Campaign(name, "nodes", runs, measure)
    for name, runs in zip(TIMES, (few_runs, more_runs, most_runs), strict=True)
)
