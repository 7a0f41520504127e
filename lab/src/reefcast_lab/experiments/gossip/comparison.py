"""Beside what the paper names instead: the stacked overlays as they were, and one overlay for all
topics, for which everybody's interests are known. x: how many of the nodes crash, in percent.

Who can be reached is told by publications to all neighbours that live: what fails is not replaced.
"""

from __future__ import annotations

import numpy as np

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.gossip.aligning import ALIGNED, UNALIGNED, usual_overlays
from reefcast_lab.experiments.gossip.alternatives import (
    clustered,
    disclosed,
    minimal,
    needed_by,
    overlays_of,
)
from reefcast_lab.experiments.gossip.dissemination import ALL, faults
from reefcast_lab.experiments.gossip.parameters import PAPER, section
from reefcast_lab.experiments.gossip.scenario import (
    generator,
    grid_interests,
    matrix_of,
)
from reefcast_lab.experiments.gossip.spreading import publications, spread
from reefcast_lab.experiments.gossip.stack import Stack, stack_of
from reefcast_lab.experiments.gossip.structure import Graph, clustering, distances, graph_of
from reefcast_lab.experiments.grid import runs_of

NAME = "alternatives"
CLUSTERED, MINIMAL = "clustered", "minimal"
ROUTINGS = (UNALIGNED, ALIGNED, CLUSTERED, MINIMAL)


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, ROUTINGS, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    entries = section("dissemination", run.scale)
    stack, links, known = _built(run)
    failing = faults(stack.nodes, run.x / 100, 0.0, run.seed)
    rng = generator(run.seed, "publications")
    published = publications(stack, failing, entries.publications, 1, rng)
    reached = spread(stack, published, failing, ALL, rng)
    figures = {
        "connections": float(links.out_degrees().mean()),
        "most_connections": float(links.out_degrees().max()),
        "clustering": clustering(links),
        "mean_path": distances(links).mean,
        "reached": reached.delivered_share,
        "whole": reached.whole_share,
        "copies": reached.copies_per_delivery,
        "disclosed": known,
    }
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def _built(run: Run) -> tuple[Stack, Graph, float]:
    """Return the overlays, their connections, and how many interests of others a node must know.
    With messages about one topic each, it learns of none."""
    if run.routing in (UNALIGNED, ALIGNED):
        found = usual_overlays(run.routing, run.scale, run.seed)
        return stack_of(found), Graph(*found.union()).undirected(), 0.0
    entries = section("dissemination", run.scale)
    _, sets = matrix_of(grid_interests(entries.nodes, entries.topics, run.seed))
    rng = generator(run.seed, run.routing)
    if run.routing == MINIMAL:
        links = minimal(sets, rng)
    else:
        started = stack_of(usual_overlays(UNALIGNED, run.scale, run.seed))
        links = clustered(sets, needed_by(started), rng)
    graph = graph_of(len(sets), *np.nonzero(links)).undirected()
    return overlays_of(sets, links), graph, disclosed(sets, links)


CAMPAIGN = Campaign(NAME, "% of the nodes crashed", runs, measure)
