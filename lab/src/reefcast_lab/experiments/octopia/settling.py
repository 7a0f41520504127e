"""Networks in which all have advertised and subscribed, settled once for all runs that go on from
there.

To settle ten thousand subscriptions takes half a minute, and runs with the same ones often differ
only in what comes afterwards. So each run goes on in a copy of the process (`apart`) that has the
network. The twin is a network that settles for one run alone (`settle`)."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from reefcast.overlay.scot import Scot
from reefcast.simulation.simulation import Simulation
from reefcast_lab.experiments.apart import apart
from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.octopia.market import Market, market
from reefcast_lab.experiments.octopia.measuring import (
    MeasuringKernel,
    evaluation_overlay,
    simulation,
)
from reefcast_lab.experiments.octopia.parameters import Wires, section
from reefcast_lab.experiments.parameters import Section

START_S = 1.0
SETTLE_S = 5.0
"""Between the advertisements, the subscriptions and what comes after them."""


class Population(NamedTuple):
    """What publishes and subscribes (see `market`)."""

    publishers: int
    subscribers: int
    selectivity: float
    burst_share: float = 0.0


def population_of(entries: Section, subscribers: int) -> Population:
    """Return the population of a campaign without a burst."""
    return Population(entries.publishers, subscribers, entries.selectivity)


@dataclass(frozen=True)
class Settled:
    """A network without messages under way, at its time `at_s`."""

    overlay: Scot
    crowd: Market
    simulated: Simulation
    kernel: MeasuringKernel
    at_s: float


_last: dict[Hashable, Settled] = {}
"""The network that settled last, by all that it depends on."""


def after_settling(
    run: Run, population: Population, rest: Callable[[Settled], Iterable[Measure]]
) -> list[Measure]:
    """Measure the `rest` of a run, in the network of its routing and preset in which this
    population has subscribed."""
    key = (run.scale, run.seed, run.routing, run.variant, population)
    if key not in _last:
        _last.clear()  # before the next one is made: each is large
        _last[key] = settle(run, population)
    settled = _last[key]
    return apart(lambda: list(rest(settled)))


def settle(run: Run, population: Population, wired: Wires | None = None) -> Settled:
    """Make a network on the papers' overlay in which all have advertised and subscribed, without
    congestion; on other wires than the preset's if they are given."""
    overlay = evaluation_overlay()
    crowd = market(overlay, seed=run.seed, **population._asdict())
    simulated, kernel = simulation(run, overlay, wired)
    rng = random.Random(f"{run.seed}/octopia/subscribers")
    at_s = crowd.advertise(simulated, START_S, section("publishers", run.scale).gap_s)
    gap_s = section("subscribers", run.scale).gap_s
    at_s = crowd.subscribe(simulated, at_s + SETTLE_S, gap_s, rng) + SETTLE_S
    simulated.advance(until_s=at_s)
    return Settled(overlay, crowd, simulated, kernel, at_s)


def network_of(run: Run, population: Population) -> str:
    """Return what runs have in common that go on from the same network, in whichever campaign."""
    return f"{population}, {run.routing}, preset {run.variant!r}, seed {run.seed}"
