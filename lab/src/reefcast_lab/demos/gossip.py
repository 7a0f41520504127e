"""The demonstration of gossip: peers in a few processes find each other, share connections among
topics, and lose a process; and a report. Everything that it makes is the page `GossipPlan.report`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reefcast.client.loop import new_event_loop
from reefcast_lab.demos.gossip_figures import Figures, figures
from reefcast_lab.demos.gossip_live import run_live
from reefcast_lab.demos.gossip_report import render
from reefcast_lab.demos.gossip_script import Cast, GossipPlan


def run_gossip(plan: GossipPlan, tell: Callable[[str], None]) -> Figures:
    """Runs it and writes the report; returns also if something was lost. `tell` is called with what
    happens. Raises `ConfigurationError` for what cannot be, and `PeerError` if a process does not
    do its part."""
    cast = Cast(plan.validate())
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        run = runner.run(run_live(cast, tell))
    found = figures(run, cast)
    plan.out.mkdir(parents=True, exist_ok=True)
    plan.report.write_text(render(run, cast, found), encoding="utf-8")
    return found
