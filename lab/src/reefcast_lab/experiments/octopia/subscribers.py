"""Subscriber scalability: O4 to O6 (Figs 10 to 12)."""

from __future__ import annotations

import random
from statistics import fmean

from reefcast.overlay.scot import Scot
from reefcast.simulation.simulation import Simulation
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.octopia.grid import PAPER, STATIC
from reefcast_lab.experiments.octopia.market import Market, market
from reefcast_lab.experiments.octopia.measuring import (
    MeasuringKernel,
    delays_s,
    evaluation_overlay,
    mean_rows,
    simulation,
)
from reefcast_lab.experiments.octopia.parameters import Wires, section
from reefcast_lab.experiments.parameters import Section

NAME = "subscribers"
START_S = 1.0
SETTLE_S = 5.0
"""Between the advertisements, the subscriptions and what comes after them."""


def settled_market(
    run: Run, overlay: Scot, crowd: Market, wired: Wires | None = None
) -> tuple[Simulation, MeasuringKernel, float]:
    """Make a network in which all have advertised and subscribed, without congestion; return it,
    and its time. `wired`: as for `simulation`."""
    simulated, kernel = simulation(run, overlay, wired)
    rng = random.Random(f"{run.seed}/octopia/subscribers")
    at_s = crowd.advertise(simulated, START_S, section("publishers", run.scale).gap_s)
    gap_s = section(NAME, run.scale).gap_s
    at_s = crowd.subscribe(simulated, at_s + SETTLE_S, gap_s, rng)
    simulated.run(until_s=at_s + SETTLE_S)
    return simulated, kernel, at_s + SETTLE_S


def settled_crowd(
    run: Run, entries: Section, subscribers: int
) -> tuple[Market, Simulation, MeasuringKernel, float]:
    """Make a market of the publishers and the selectivity of `entries` on the papers' overlay, and
    `settled_market` of it."""
    overlay = evaluation_overlay()
    crowd = market(
        overlay,
        publishers=entries.publishers,
        subscribers=subscribers,
        seed=run.seed,
        selectivity=entries.selectivity,
    )
    return crowd, *settled_market(run, overlay, crowd)


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, STATIC, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    """Measure x subscribers that subscribe at random instants, after publishers have advertised. A
    subscription message is Subscribe over an aLink (OctopiA) or Bind (PADRES); CIV_SETs are counted
    apart."""
    _, simulated, kernel, _ = settled_crowd(run, section(NAME, run.scale), int(run.x))
    sent = simulated.result().messages
    messages = sent.get("subscribe", 0) + sent.get("bind", 0)
    figures = {
        "prt_rows": mean_rows(kernel, ("PRT",)),
        "subscription_messages": messages / run.x,
        "subscription_delay_s": fmean(delays_s(simulated, kernel, subscriptions=True)),
        "civ_set_messages": sent.get("civ_set", 0) / run.x,
    }
    return [Measure(name, 0.0, value) for name, value in figures.items()]


CAMPAIGN = Campaign(NAME, "subscribers", runs, measure)
