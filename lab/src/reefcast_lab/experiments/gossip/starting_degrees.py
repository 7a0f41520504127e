"""What alignment does to distances where topics start with fewer links: beside G6 (Table 3).
x: mean view size in times ln n.

The paper says that its starting graphs are strongly connected, not how many links they have. A
random graph is strongly connected, nearly always, from a little over ln n on.
"""

from __future__ import annotations

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.gossip.aligning import ALIGNED, GREEDY, UNALIGNED, overlays
from reefcast_lab.experiments.gossip.measures import of_overlays
from reefcast_lab.experiments.gossip.parameters import PAPER, section
from reefcast_lab.experiments.gossip.scenario import grid_interests
from reefcast_lab.experiments.grid import runs_of

NAME = "starting-degrees"


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, (UNALIGNED, ALIGNED, GREEDY), entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    usual = section("dissemination", run.scale)
    interests = grid_interests(usual.nodes, usual.topics, run.seed)
    found = overlays(interests, run.routing, run.scale, run.seed, run.x)
    measures = of_overlays(found, run.routing, run.scale, run.seed)
    return [measure for measure in measures if measure.at == 0.0 and "_by_" not in measure.metric]


CAMPAIGN = Campaign(NAME, "times ln n links of a node when a topic starts", runs, measure)
