"""Path selection: O11 (Fig. 16), in wall-clock time of the real routers.

All subscriptions are there; a random half of all links is overloaded, as they are around a burst. A
sample of publications is routed from broker to broker, by the routers alone, and what each router
was asked is asked again and again while the clock runs: each time about publications with new ids,
made before, for a router that remembers ids would drop what it was asked once. The rows of the PRT
that match are looked up before: the time is that from matched rows to next hops.

A run also times SPR, in turns with its own routing and on the same machine: `selection_over_spr` is
the ratio of the two, which does not depend on what else the machine did meanwhile.

What the paper's broker looks at is counted beside it (`looks`), by the rules of the paper's text.
"""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median
from typing import Any

import msgspec

from reefcast.matching import new_index
from reefcast.matching.interface import EventIndex
from reefcast.model.messages import LinkName, Publish
from reefcast.model.publication import Publication, PublicationId
from reefcast.routing.router import Decision, Router
from reefcast.routing.scot import ScotRouter
from reefcast.routing.tables import NextHops, Row, next_hops_of
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.octopia.grid import ALL, PAPER
from reefcast_lab.experiments.octopia.market import Market
from reefcast_lab.experiments.octopia.measuring import MeasuringKernel
from reefcast_lab.experiments.octopia.parameters import section
from reefcast_lab.experiments.octopia.settling import (
    Population,
    Settled,
    after_settling,
    network_of,
    population_of,
    settle,
)

NAME = "selection"
REFERENCE = "spr"
IDS_OF_A_TURN = 1_000_000
"""More than a publisher's publications in the sample."""


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, ALL, [entries.subscribers], entries.seeds)


def measure(run: Run) -> list[Measure]:
    reference = run._replace(routing=REFERENCE)
    return after_settling(reference, population(run), partial(_measures, run))


def population(run: Run) -> Population:
    """Return the subscribers of all runs, and their publishers."""
    entries = section(NAME, run.scale)
    return population_of(entries, entries.subscribers)


def together(run: Run) -> str:
    """Return what the runs of a seed have in common: the network of the reference."""
    return network_of(run._replace(routing=REFERENCE), population(run))


def _measures(run: Run, reference: Settled) -> Iterator[Measure]:
    entries = section(NAME, run.scale)
    visits = {REFERENCE: list(_visits(run, reference))}
    if run.routing != REFERENCE:
        visits[run.routing] = list(_visits(run, settle(run, population(run))))
    times: dict[str, list[float]] = {routing: [] for routing in visits}
    with _no_garbage_collection():
        for turn in range(entries.rounds + 1):
            for routing, first in visits.items():
                times[routing].append(_time_of(_anew(first, turn)))
    seconds = {routing: median(spent[1:]) for routing, spent in times.items()}
    figures = {
        "selection_s": seconds[run.routing],
        "selection_over_spr": seconds[run.routing] / seconds[REFERENCE],
        **_counted(_anew(visits[run.routing], entries.rounds + 1)),
    }
    return (Measure(name, 0.0, value) for name, value in figures.items())


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# --- what the routers are asked -------------------------------------------------------------------


class MatchedRows:
    """Stands where the PRT looks rows up: they are known already, and only turned into next
    hops."""

    def __init__(self, router: Router) -> None:
        self.rows: Sequence[Row] = ()
        self._index: EventIndex[Row] = new_index()
        for row in router.prt:
            self._index.add(row, row.filter)
        router.prt.next_hops = self.next_hops
        router.prt.digests = self.digests  # type: ignore[assignment]  # a stub

    def find(self, publication: Publication) -> Sequence[Row]:
        return self._index.match(publication)

    def next_hops(self, publications: Sequence[Publication]) -> list[NextHops]:
        return [next_hops_of(self.rows) for _ in publications]

    def digests(
        self,
        publications: Sequence[Publication],
        keys: Sequence[Any],
        digest: Callable[[Sequence[Row], Any], Any],
    ) -> list[Any]:
        return [digest(self.rows, key) for key in keys]


@dataclass(frozen=True)
class Visit:
    """A publication came by `link` to a broker, where these rows match."""

    router: Router
    matched: MatchedRows
    rows: Sequence[Row]
    batch: tuple[Publish]
    link: LinkName


def _visits(run: Run, settled: Settled) -> Iterator[Visit]:
    """Yield what the routers of one network are asked about the sample."""
    entries, kernel = section(NAME, run.scale), settled.kernel
    overload_links(kernel, entries.overloaded_share, random.Random(f"{run.seed}/octopia/overload"))
    lookups = {name: MatchedRows(node.core.router) for name, node in kernel.nodes.items()}
    sample = _sample(settled.crowd, entries.publications)
    for publish, home in sample:
        yield from _route(kernel, lookups, publish, home)


def overload_links(kernel: MeasuringKernel, share: float, rng: random.Random) -> None:
    """Give that share of all directed links a queue far above tau, for ever."""
    for node in kernel.nodes.values():
        for out in node.links.values():
            if rng.random() < share:
                out.queued.extend([math.inf] * rng.randrange(20, 200))


def _sample(crowd: Market, number: int) -> list[tuple[Publish, tuple[LinkName, str]]]:
    """Return publications of all publishers in turn, each with the client and its broker."""
    share = -(-number // len(crowd.publishers))
    made = [
        (
            Publish(Publication(publisher.name, i, 0, attributes, (), b"")),
            (publisher.name, publisher.broker),
        )
        for publisher in crowd.publishers
        for i, attributes in enumerate(publisher.events(share))
    ]
    return made[:: max(1, len(made) // number)]


def _route(
    kernel: MeasuringKernel,
    lookups: dict[str, MatchedRows],
    publish: Publish,
    home: tuple[LinkName, str],
) -> Iterator[Visit]:
    """Yield the visits of one publication, from its publisher on."""
    waiting = [(publish, *home)]
    for copy, link, broker in waiting:
        router = kernel.nodes[broker].core.router
        rows = lookups[broker].find(copy.publication)
        visit = Visit(router, lookups[broker], rows, (copy,), link)
        yield visit
        for hop, header in _ask(visit).hops:
            waiting.append((Publish(copy.publication, header), broker, hop))


def _ask(visit: Visit) -> Decision:
    visit.matched.rows = visit.rows
    router, batch, link = visit.router, visit.batch, visit.link
    (decision,) = router.route(batch, router.match(batch, link), link)
    return decision


def _anew(visits: Sequence[Visit], turn: int) -> list[Visit]:
    """Return the same visits with publications like the first ones, and ids of this turn. All
    copies of a publication keep one id, so that a router remembers within a turn what it would
    remember live."""
    made: dict[PublicationId, Publication] = {}
    renewed = []
    for visit in visits:
        (publish,) = visit.batch
        first = publish.publication
        if first.id not in made:
            seq = (turn + 1) * IDS_OF_A_TURN + first.seq
            made[first.id] = msgspec.structs.replace(first, seq=seq)
        renewed.append(replace(visit, batch=(Publish(made[first.id], publish.header),)))
    return renewed


def _time_of(visits: Sequence[Visit]) -> float:
    """Return the mean seconds of a visit."""
    start = time.perf_counter()
    for visit in visits:
        visit.matched.rows = visit.rows
        router, batch, link = visit.router, visit.batch, visit.link
        for _ in router.route(batch, router.match(batch, link), link):
            pass
    return (time.perf_counter() - start) / len(visits)


# --- what the paper's broker looks at -------------------------------------------------------------


def _counted(visits: Sequence[Visit]) -> dict[str, float]:
    """Count `looks` for a publication and broker, mean; `looks_at_home`: at the publisher's broker
    alone. `searches`: the share of the visits in which TID-D searches; `rows_matched`, `prt_rows`:
    of a visit, mean."""
    answers = [(visit, _ask(visit)) for visit in visits]
    return {
        "looks": fmean(looks(visit, decision) for visit, decision in answers),
        "looks_at_home": fmean(
            looks(visit, decision)
            for visit, decision in answers
            if visit.link not in visit.router.brokers
        ),
        "searches": fmean(decision.searched > 0 for _, decision in answers),
        "rows_matched": fmean(decision.matched or 0 for _, decision in answers),
        "prt_rows": fmean(len(visit.router.prt) for visit, _ in answers),
    }


def looks(visit: Visit, decision: Decision) -> float:
    """Count what the paper's broker looks at to choose the next hops of one publication, once it
    has the matching subscriptions.

    - OctopiA: the last hop of each of them; at the publisher's broker a bit for each other cluster;
      IDR the load of each target link that it may take, too.
    - PADRES: the last hop and the TID of each of them; where it does not match, the next hops of
      the tree. TID-D looks also at the load of each next link, and where one is overloaded it goes
      through the TIDs of all subscriptions of the PRT, one by one.
    """
    router, matched = visit.router, decision.matched
    if isinstance(router, ScotRouter):
        bits = 0 if router.is_neighbour(visit.link) else len(router.i_links)
        return float((matched or 0) + bits + decision.checked)
    rows = len(decision.hops) if matched is None else 2 * matched
    searched = len(router.prt) if decision.searched else 0
    return float(rows + decision.checked + searched)


CAMPAIGN = Campaign(NAME, "subscribers", runs, measure, together)
