"""What can be counted without simulated time: rows of tables, and the subscriptions that take the
place of roots, for one placement of subscriptions (C4, C5, C7, C8).

Publishers lie behind one broker, so subscriptions travel up a tree. A broker has of each class,
from each neighbour below it,

- with *active* (*packing*, *incremental*): the root alone, if that lies there; else all narrow
  ones;
- with *lazy*: the root, and the narrow ones that came before it.

When a root goes, all narrow ones that lie on its side of a broker come there that had not come
before: up to the publishers, and with *incremental* up to the broker where the unsubscription ends.
How far it travels is the pruning distance: to the first broker by which a share theta of the
publications for the root would have met another subscriber. Prices are drawn evenly, so that this
is the share of all prices that the narrow ones below a broker want.

The twin is the simulation (`unsubscribing`), which records publications instead of expecting them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from reefcast_lab.experiments.campaign import Campaign, Measure, Run, with_x_and_seed
from reefcast_lab.experiments.covering.crowd import PRICES, Crowd, Subscription, workload
from reefcast_lab.experiments.covering.parameters import PAPER, section
from reefcast_lab.experiments.covering.topology import Topology, core_topology, way_up
from reefcast_lab.experiments.covering.unsubscribing import figures_of
from reefcast_lab.experiments.grid import runs_of

NAME, THETA = "placements", "placements_threshold"


@dataclass(frozen=True)
class Counts:
    """`came`: subscriptions that came to each broker after the roots went; `before`, `after`: the
    rows of its PRT. Of the publishers' brokers the first is counted; the others have as many."""

    came: dict[str, int]
    before: dict[str, int]
    after: dict[str, int]


@dataclass
class _Class:
    """What of a class lies at and below each broker: how many narrow ones, how many of them that
    came before the root, and which prices they want. `way`: the brokers from the root's one up to
    that of the publisher; empty without a root."""

    narrow: dict[str, int]
    early: dict[str, int]
    wanted: dict[str, list[tuple[int, int]]]
    way: list[str]

    def share_met(self, broker: str) -> float:
        """Return the share of the prices that somebody at or below a broker wants."""
        met = until = 0
        for low, high in sorted(self.wanted[broker]):
            met += max(0, high + 1 - max(low, until))
            until = max(until, high + 1)
        return met / PRICES


class Structure:
    """The classes of a crowd, laid over the tree."""

    def __init__(self, topology: Topology, crowd: Crowd) -> None:
        self._subscribers = topology.subscribers
        self._brokers = [one for one in topology.graph if one not in topology.publishers[1:]]
        self._ways = {broker: way_up(topology, broker) for broker in topology.subscribers}
        self._probes = [one.broker for one in crowd.probes]
        self.classes = [self._class(crowd, number) for number in range(crowd.classes)]

    def _class(self, crowd: Crowd, number: int) -> _Class:
        narrow, early = (dict.fromkeys(self._brokers, 0) for _ in range(2))
        made = _Class(narrow, early, {broker: [] for broker in self._brokers}, [])
        for one in crowd.of_class(number):
            if one.root:
                made.way = self._ways[one.broker]
                continue
            for broker in self._ways[one.broker]:
                made.narrow[broker] += 1
                made.wanted[broker].append((one.low, one.high))
                made.early[broker] += not made.way
        return made

    def counts(self, gone: Sequence[Subscription], strategy: str, theta: float) -> Counts:
        """Count for these roots, which go."""
        came = dict.fromkeys(self._brokers, 0)
        before = self._rows(strategy)
        after = dict(before)
        for klass in (self.classes[root.klass] for root in gone):
            travelled = len(klass.way) - 1
            if strategy == "incremental":
                travelled = _pruning_distance(klass, theta)
            after[klass.way[0]] -= 1
            for below, broker in zip(klass.way[:travelled], klass.way[1:], strict=False):
                known = klass.early[below] if strategy == "lazy" else 0
                came[broker] += klass.narrow[below] - known
                after[broker] += klass.narrow[below] - known - 1
        return Counts(came, before, after)

    def _rows(self, strategy: str) -> dict[str, int]:
        rows = dict.fromkeys(self._brokers, 0)
        for klass in self.classes:
            for broker in self._subscribers:  # its own clients, and the probe's
                rows[broker] += klass.narrow[broker] + (klass.way[:1] == [broker])
            for below, broker in self._links():
                rows[broker] += _sent(klass, below, strategy)
        for broker in self._probes:
            rows[broker] += 1
        for _, broker in self._links():
            rows[broker] += 1  # of equal subscriptions of probes one
        return rows

    def _links(self) -> list[tuple[str, str]]:
        """Return the links with subscriptions below, from the lower end up."""
        found = {link for way in self._ways.values() for link in pairwise(way)}
        return sorted(found)


def _sent(klass: _Class, broker: str, strategy: str) -> int:
    """Return how many subscriptions of a class a broker has sent on."""
    if broker not in klass.way:
        return klass.narrow[broker]
    return 1 + (klass.early[broker] if strategy == "lazy" else 0)


def _pruning_distance(klass: _Class, theta: float) -> int:
    """Return how many brokers from the root's one on an unsubscription travels."""
    *brokers, _ = klass.way
    enough = (place for place, one in enumerate(brokers) if klass.share_met(one) >= theta)
    return next(enough, len(brokers))


# --- campaigns ------------------------------------------------------------------------------------


def runs(scale: str) -> list[Run]:
    entries = section("unsubscribing", scale)
    strategies = ("active", "lazy", "incremental")
    return runs_of(PAPER, NAME, scale, strategies, entries.degrees, entries.placements)


def theta_runs(scale: str) -> list[Run]:
    entries = section("unsubscribing", scale)
    return runs_of(PAPER, THETA, scale, ("incremental",), entries.thetas, entries.placements)


def measure(run: Run) -> list[Measure]:
    return list(_measure(run, int(run.x), section("network", run.scale).theta))


def measure_theta(run: Run) -> list[Measure]:
    return list(_measure(run, section("unsubscribing", run.scale).degree, run.x))


def _measure(run: Run, degree: int, theta: float) -> Iterator[Measure]:
    entries = section("unsubscribing", run.scale)
    topology, crowd, structure = _placed(entries.roots, degree, entries.selectivity, run.seed)
    gone = crowd.leavers(entries.compared_x, run.seed)
    return measures(structure.counts(gone, run.routing, theta), topology)


def measures(found: Counts, topology: Topology) -> Iterator[Measure]:
    """Yield what campaigns measure of counts: what came, and the rows of the mean core broker."""
    core = topology.tiers[0]
    for name, value in figures_of(found.came, topology).items():
        yield Measure(name, 0.0, value)
    for name, rows in (("rows_before", found.before), ("rows_after", found.after)):
        yield Measure(name, 0.0, sum(rows[broker] for broker in core) / len(core))


@lru_cache(maxsize=1)
def _placed(
    roots: int, degree: int, selectivity: float, seed: int
) -> tuple[Topology, Crowd, Structure]:
    """Place subscriptions; runs that differ in the strategy, or in theta, count the same."""
    topology = core_topology()
    crowd = workload(
        topology,
        subscriptions=roots * (degree + 1),
        degree=degree,
        selectivity=selectivity,
        seed=seed,
    )
    return topology, crowd, Structure(topology, crowd)


def _with_seed(run: Run) -> Hashable:
    return run.seed


CAMPAIGN = Campaign(NAME, "subscriptions covered by a root", runs, measure, with_x_and_seed)
THETAS = Campaign(THETA, "similarity threshold", theta_runs, measure_theta, _with_seed)
