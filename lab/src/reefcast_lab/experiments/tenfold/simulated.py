"""The same networks, simulated: what is sent and stored while clients come one after the other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from reefcast.simulation.links import LinkSpec
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.tenfold.networks import ROUTINGS, Network, network
from reefcast_lab.experiments.tenfold.parameters import NAME as PAPER
from reefcast_lab.experiments.tenfold.parameters import section

NAME = "simulated"


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, ROUTINGS, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    """Measure all that `structural` counts, of a run in which each publisher publishes once."""
    entries, drawn = section("network", run.scale), network(run)
    link = LinkSpec(latency_s=entries.latency_s)
    setup = Setup(graph=drawn.graph, scot=drawn.scot, routing=run.routing, seed=run.seed, link=link)
    simulated = Simulation(setup)
    _populate(simulated, drawn, entries.gap_s)
    sent = simulated.run().messages
    subscribed = sent.get("subscribe", 0) + sent.get("bind", 0)
    figures = {
        "advertise_messages": sent.get("advertise", 0) / len(drawn.publishers),
        "advertisement_rows": rows(simulated, ("CLT", "SRT")),
        "subscription_messages": subscribed / len(drawn.wishes),
        "subscription_rows": rows(simulated, ("PRT",)),
    }
    for number, broker in enumerate(drawn.publishers):
        at_s = simulated.now_s + number * entries.gap_s
        simulated.publish(f"p{number}", broker, {"about": number}, at_s)
    copies = simulated.run().messages["publish"]
    figures["publication_messages"] = copies / len(drawn.publishers)
    figures["hops"] = float(np.mean(simulated.deliveries().hops))
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def _populate(simulated: Simulation, drawn: Network, gap_s: float) -> None:
    """Have all advertise, then subscribe, one after the other."""
    for number, broker in enumerate(drawn.publishers):
        simulated.advertise(f"p{number}", broker, f"about = {number}", number * gap_s)
    from_s = len(drawn.publishers) * gap_s
    for number, (broker, wanted) in enumerate(drawn.wishes):
        at_s = from_s + number * gap_s
        simulated.subscribe(f"s{number}", broker, f"about = {wanted}", at_s)


def rows(simulated: Simulation, tables: Iterable[str]) -> float:
    """Return the rows of the one of these tables that a broker has, mean over the brokers."""
    held = [node.core.tables() for node in simulated.world.nodes.values()]
    return sum(each.get(name, 0) for each in held for name in tables) / len(held)


CAMPAIGN = Campaign(NAME, "brokers", runs, measure)
