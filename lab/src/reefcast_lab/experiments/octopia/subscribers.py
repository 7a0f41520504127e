"""Subscriber scalability: O4 to O6 (Figs 10 to 12)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import fmean

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.octopia.grid import PAPER, STATIC
from reefcast_lab.experiments.octopia.measuring import delays_s, mean_rows
from reefcast_lab.experiments.octopia.parameters import section
from reefcast_lab.experiments.octopia.settling import (
    Population,
    Settled,
    after_settling,
    network_of,
    population_of,
)

NAME = "subscribers"


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, STATIC, entries.x, entries.seeds)


def population(run: Run) -> Population:
    """Return x subscribers, and their publishers."""
    return population_of(section(NAME, run.scale), int(run.x))


def measure(run: Run) -> list[Measure]:
    """Measure x subscribers that subscribe at random instants, after publishers have advertised. A
    subscription message is Subscribe over an aLink (OctopiA) or Bind (PADRES); CIV_SETs are counted
    apart."""
    return after_settling(run, population(run), partial(_measures, run))


def _measures(run: Run, settled: Settled) -> Iterator[Measure]:
    simulated, kernel = settled.simulated, settled.kernel
    sent = simulated.result().messages
    messages = sent.get("subscribe", 0) + sent.get("bind", 0)
    figures = {
        "prt_rows": mean_rows(kernel, ("PRT",)),
        "subscription_messages": messages / run.x,
        "subscription_delay_s": fmean(delays_s(simulated, kernel, subscriptions=True)),
        "civ_set_messages": sent.get("civ_set", 0) / run.x,
    }
    return (Measure(name, 0.0, value) for name, value in figures.items())


def together(run: Run) -> str:
    """Return what runs with the same subscribers have in common."""
    return network_of(run, population(run))


CAMPAIGN = Campaign(NAME, "subscribers", runs, measure, together)
