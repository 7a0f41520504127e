"""Publisher scalability: O1 to O3 (Figs 7 to 9)."""

from __future__ import annotations

from statistics import fmean

from reefcast.overlay.topology import edges_of, hops_from
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.octopia.grid import PAPER, STATIC
from reefcast_lab.experiments.octopia.market import market
from reefcast_lab.experiments.octopia.measuring import (
    delays_s,
    evaluation_overlay,
    mean_rows,
    simulation,
)
from reefcast_lab.experiments.octopia.parameters import section

NAME = "publishers"
START_S = 1.0


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, STATIC, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    """Measure publishers that advertise one after the other; nobody subscribes. OctopiA's brokers
    answer CIV_UNSET, because there are no subscriptions: counted apart. Answers that only say that
    all is settled are no part of either protocol, and do not count."""
    entries = section(NAME, run.scale)
    overlay = evaluation_overlay()
    simulated, kernel = simulation(run, overlay)
    crowd = market(overlay, publishers=int(run.x), subscribers=0, seed=run.seed)
    crowd.advertise(simulated, START_S, entries.gap_s)
    sent = simulated.run().messages
    figures = {
        "advertisement_delay_s": fmean(delays_s(simulated, kernel, subscriptions=False)),
        "advertisements_stored": mean_rows(kernel, ("CLT", "SRT")),
        "advertise_messages": sent.get("advertise", 0) / run.x,
        "civ_unset_messages": sent.get("civ_unset", 0) / run.x,
        "structural_messages": structural_messages(run.routing),
        "brokers_in_a_row": fmean(
            brokers_in_a_row(run.routing, publisher.broker) for publisher in crowd.publishers
        ),
    }
    return [Measure(name, 0.0, value) for name, value in figures.items()]


def structural_messages(routing: str) -> float:
    """Return the messages of one advertisement, counted from the overlay alone: each other cluster
    once; or a flood, in which each broker sends to all neighbours except the one from which it
    came."""
    overlay = evaluation_overlay()
    if routing in ("spr", "idr"):
        return float(overlay.clusters - 1)
    return float(2 * len(edges_of(overlay.graph)) - (len(overlay.graph) - 1))


def brokers_in_a_row(routing: str, home: str) -> float:
    """Return how many brokers handle an advertisement one after the other until the last one has
    it, counted from the overlay alone: its host and a secondary broker; or all on the way of a
    flood from its host to the broker farthest away."""
    if routing in ("spr", "idr"):
        return 2.0
    return 1.0 + max(hops_from(evaluation_overlay().graph, home).values())


CAMPAIGN = Campaign(NAME, "publishers", runs, measure)
