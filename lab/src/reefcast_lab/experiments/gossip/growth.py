"""How views grow with topics, and with nodes: G3. x: how many times as many as the fewest of
Table 2 there are of one, with the fewest of the other."""

from __future__ import annotations

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.gossip.aligning import ALIGNED, overlays
from reefcast_lab.experiments.gossip.parameters import PAPER, section
from reefcast_lab.experiments.gossip.scenario import grid_interests
from reefcast_lab.experiments.grid import runs_of

NAME = "growth"
NODES, TOPICS = "more nodes", "more topics"


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, (NODES, TOPICS), entries.times, entries.seeds)


def measure(run: Run) -> list[Measure]:
    entries = section("alignment", run.scale)
    nodes, topics = min(entries.nodes), entries.topics
    if run.routing == NODES:
        nodes = int(nodes * run.x)
    else:
        topics = int(topics * run.x)
    interests = grid_interests(nodes, topics, run.seed)
    found = overlays(interests, ALIGNED, run.scale, run.seed)
    figures = {
        "total_view": found.total[-1],
        "unique_before": found.unique[0],
        "unique_after": found.unique[-1],
    }
    return [Measure(name, 0.0, sum_ / len(found.after.nodes)) for name, sum_ in figures.items()]


CAMPAIGN = Campaign(NAME, "times as many", runs, measure)
