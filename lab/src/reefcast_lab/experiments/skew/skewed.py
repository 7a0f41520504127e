"""Interests by Zipf's law over topics and brokers; x is its exponent."""

from __future__ import annotations

from reefcast.simulation.checkers import CheckFailedError
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.octopia.grid import ALL
from reefcast_lab.experiments.octopia.measuring import evaluation_overlay, simulation
from reefcast_lab.experiments.skew.crowd import crowd, delay_figures, load_figures
from reefcast_lab.experiments.skew.parameters import NAME as PAPER
from reefcast_lab.experiments.skew.parameters import section

NAME = "skewed"


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, ALL, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    """Measure a run in which nothing changes but what is published. Raises `CheckFailedError`
    unless every subscription got every event that it wants."""
    entries, overlay = section(NAME, run.scale), evaluation_overlay()
    drawn = crowd(list(overlay.graph), run.scale, run.seed, run.x)
    simulated, kernel = simulation(run, overlay)
    _, at_s = drawn.settle(simulated)
    kernel.watched_from_s = at_s
    rate_per_s = section("crowd", run.scale).rate_per_s
    events = drawn.publish(simulated, at_s, entries.lasts_s, rate_per_s, run.seed)
    result = simulated.run()
    owed = sum(events[topic] for interest in drawn.interests for topic in interest.topics)
    if result.delivered_subscriptions != owed:
        raise CheckFailedError(f"{result.delivered_subscriptions} deliveries of {owed} owed")
    figures = {
        **delay_figures(kernel, at_s),
        **load_figures(kernel),
        "messages": result.messages["publish"] / events.total(),
    }
    return [Measure(name, 0.0, value) for name, value in figures.items()]


CAMPAIGN = Campaign(NAME, "exponent of Zipf's law", runs, measure)
