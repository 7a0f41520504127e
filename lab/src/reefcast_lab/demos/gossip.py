"""The demonstration of gossip: peers in a few processes find each other, share connections among
topics, and lose a process; and a report. Everything that it makes is the page `GossipPlan.report`.
"""

from __future__ import annotations

from functools import partial

from reefcast_lab.demos import harness
from reefcast_lab.demos.gossip_figures import Figures, figures, lacks
from reefcast_lab.demos.gossip_live import run_live
from reefcast_lab.demos.gossip_report import render
from reefcast_lab.demos.gossip_script import Cast, GossipPlan


def run_gossip(plan: GossipPlan, tell: harness.Tell) -> Figures:
    """Run the demonstration and write the report; return also if something was lost. `tell` is
    called with progress messages. Raises `ConfigurationError` for an impossible plan, and
    `PeerError` if a process does not do its part."""
    cast = Cast(plan.validate())
    run = harness.run(run_live(cast, partial(lacks, cast=cast), tell))
    found = figures(run, cast)
    harness.write_page(plan.report, render(run, cast, found))
    return found
