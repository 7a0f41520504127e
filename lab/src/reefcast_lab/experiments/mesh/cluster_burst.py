"""OctopiA's burst with a mesh of soft links inside each cluster, which its authors leave to future
work: what that buys over the tree of aLinks that a burst crosses there. Measured as O12 and O13
are, with their overlay, costs and workload."""

from __future__ import annotations

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.mesh.parameters import PAPER, section
from reefcast_lab.experiments.octopia import burst
from reefcast_lab.experiments.octopia.parameters import section as octopia_section

NAME = "cluster_burst"
ROUTINGS = ("spr", "spr-mesh", "idr", "idr-mesh")


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, ROUTINGS, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    number = section(NAME, run.scale).publications
    entries = octopia_section(burst.NAME, run.scale).with_values(publications=number)
    return burst.measured(run, entries)


CAMPAIGN = Campaign(NAME, "publications/minute of the burst", runs, measure)
