"""Publication delivery without congestion: O7 to O10 (Figs 13 to 15)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from reefcast.matching import new_index, warm_up
from reefcast.matching.interface import EventIndex
from reefcast.model.publication import Publication, PublicationId
from reefcast.routing.tables import Row
from reefcast.simulation.simulation import Result, Simulation
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.octopia import subscribers
from reefcast_lab.experiments.octopia.grid import ALL, PAPER, STATIC
from reefcast_lab.experiments.octopia.market import Market
from reefcast_lab.experiments.octopia.measuring import MeasuringKernel
from reefcast_lab.experiments.octopia.parameters import section
from reefcast_lab.experiments.octopia.settling import Settled, after_settling

NAME = "delivery"


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, ALL, entries.x, entries.seeds)


def measure(run: Run) -> list[Measure]:
    """Measure with x subscribers; publishers publish at random instants, far below any rate that a
    broker or a link could not bear."""
    return after_settling(run, subscribers.population(run), partial(_measures, run))


def _measures(run: Run, settled: Settled) -> Iterator[Measure]:
    entries = section(NAME, run.scale)
    crowd, simulated, kernel = settled.crowd, settled.simulated, settled.kernel
    timed = run.routing in STATIC
    kernel.path = set() if timed else None
    _publish(simulated, crowd, settled.at_s, entries.publications, entries.rate_per_s, run.seed)
    result = simulated.run()
    delivered = kernel.record.in_order()
    figures = {
        "publication_delay_s": float(np.average(delivered.delay_s, weights=delivered.width)),
        **_of_messages(result, entries.publications),
    }
    if timed:
        figures |= matching_delays(
            kernel, crowd, entries.matching_publications, entries.matching_rounds
        )
    return (Measure(name, 0.0, value) for name, value in figures.items())


def _publish(
    simulated: Simulation, crowd: Market, at_s: float, number: int, rate_per_s: float, seed: int
) -> None:
    """Publish `number` quotes of publishers drawn evenly, each with its next quote."""
    rng = random.Random(f"{seed}/octopia/delivery")
    share = -(-number // len(crowd.publishers))
    turns = [publisher for publisher in crowd.publishers for _ in range(share)]
    rng.shuffle(turns)
    quotes = {publisher.name: iter(publisher.events(share)) for publisher in crowd.publishers}
    for publisher in turns[:number]:
        at_s += rng.expovariate(rate_per_s)
        simulated.publish(publisher.name, publisher.broker, next(quotes[publisher.name]), at_s)


def _of_messages(result: Result, publications: int) -> dict[str, float]:
    return {
        "messages_per_publication": result.messages["publish"] / publications,
        "deliveries_per_publication": result.delivered_subscriptions / publications,
    }


# --- O9: time in the matching engine --------------------------------------------------------------


def matching_delays(
    kernel: MeasuringKernel, crowd: Market, publications: int, rounds: int
) -> dict[str, float]:
    """Measure `matching_delay_s`: wall-clock time of the matching engine for one publication at one
    broker of its path, mean; a broker that only passes it on counts as 0 (PADRES, by the spec: only
    host brokers of interested subscribers match). `forward_only_share`: the share of those brokers;
    `matches_per_broker`: the share of the others, so the matches that a broker of a path makes for
    a publication; `matching_delay_matched_s`: the mean of these. Each broker gets an index of its
    own, as when it runs live. Of several rounds the fastest counts for each broker."""
    warm_up()
    hosts = _interested_brokers(crowd)
    by_id = {id: publication for id, (_, publication, _) in kernel.published.items()}
    path = {(id, broker) for id, (_, _, broker) in kernel.published.items()} | (
        kernel.path or set()
    )
    sample = sorted(by_id)[:: max(1, len(by_id) // publications)]
    total, visits, matches = 0.0, 0, 0
    for name, node in kernel.nodes.items():
        here = [id for id in sample if (id, name) in path]
        visits += len(here)
        matched = [id for id in here if not _forwards_only(kernel, id, name, hosts)]
        matches += len(matched)
        total += _time_of(node.core.router.prt, [by_id[id] for id in matched], rounds)
    return {
        "matching_delay_s": total / visits,
        "forward_only_share": 1.0 - matches / visits,
        "matches_per_broker": matches / visits,
        "matching_delay_matched_s": total / matches,
    }


def _interested_brokers(crowd: Market) -> dict[str, set[str]]:
    """Return, by publisher, the brokers with clients that want what it publishes."""
    hosts: dict[str, set[str]] = {publisher.name: set() for publisher in crowd.publishers}
    for subscriber in crowd.subscribers:
        for number in subscriber.matches:
            hosts[crowd.publishers[number].name].add(subscriber.broker)
    return hosts


def _forwards_only(
    kernel: MeasuringKernel, id: PublicationId, broker: str, hosts: dict[str, set[str]]
) -> bool:
    return kernel.setup.routing == "tid-s" and broker not in hosts[id[0]]


def _time_of(rows: Iterable[Row], publications: Sequence[Publication], rounds: int) -> float:
    """Return the seconds in which an index of these rows matches all publications, one by one."""
    index: EventIndex[int] = new_index()
    for key, row in enumerate(rows):
        index.add(key, row.filter)
    if not publications:
        return 0.0
    times = []
    for _ in range(rounds + 1):  # the first one meets cold caches
        start = time.perf_counter()
        for publication in publications:
            index.match(publication)
        times.append(time.perf_counter() - start)
    return min(times[1:])


CAMPAIGN = Campaign(NAME, "subscribers", runs, measure, subscribers.together)
