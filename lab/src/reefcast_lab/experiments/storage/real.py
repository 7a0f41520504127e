"""The same on a real network, with all its links: GraphML, for instance of the Internet Topology
Zoo. It is read from where the environment says; without it there are no runs of this campaign."""

from __future__ import annotations

import os
from pathlib import Path

from reefcast.network.tree_sources import graphml
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.storage.parameters import PAPER, section
from reefcast_lab.experiments.storage.placing import (
    OF_THE_PAPER,
    OPTIMUM,
    inputs_of,
    measures_of,
    together,
)

NAME = "real"
VARIABLE = "REEFCAST_TOPOLOGY"


def topology_file() -> str:
    """Return the file that the environment names; "" for none."""
    return os.environ.get(VARIABLE, "")


def runs(scale: str) -> list[Run]:
    """Return the runs; none without the file."""
    entries, seeds = section(NAME, scale), section("placement", scale).optimum_seeds
    if not topology_file():
        return []
    return [
        *runs_of(PAPER, NAME, scale, OF_THE_PAPER, entries.x, entries.seeds),
        *runs_of(PAPER, NAME, scale, (OPTIMUM,), entries.x, min(seeds, entries.seeds)),
    ]


def measure(run: Run) -> list[Measure]:
    overlay = graphml(Path(topology_file()))
    made = inputs_of(overlay, run.scale, run.seed, copies=int(run.x))
    return [*measures_of(made, run), Measure("brokers", 0.0, float(len(overlay)))]


CAMPAIGN = Campaign(NAME, "copies of a topic", runs, measure, together)
