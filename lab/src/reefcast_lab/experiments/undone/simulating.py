"""Changes of rules, costs and times, undone one by one: what follows when all roots unsubscribe
under a stream of publications (`covering.unsubscribing`).

All start from the same settled network: what is undone concerns what comes afterwards only.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

from reefcast.routing.covering.ghosts import Incremental
from reefcast.routing.covering.suspicion import Suspicion
from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.covering.graph_work import GraphWork
from reefcast_lab.experiments.covering.measuring import CoverKernel
from reefcast_lab.experiments.covering.parameters import costs
from reefcast_lab.experiments.covering.parameters import section as covering_section
from reefcast_lab.experiments.covering.settling import Settled, after_settling
from reefcast_lab.experiments.covering.steady import acyclic
from reefcast_lab.experiments.covering.unsubscribing import (
    COMPARED,
    after_withdrawals,
    population,
)
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.experiments.undone.counting import parts, routing
from reefcast_lab.experiments.undone.parameters import PAPER, section

NAME = "simulated"
FREE, SHORT = "removals free", "observed for 40 minutes"
STATISTICS, WINDOWS = "statistics of 100 s", "a test every 100 publications"
UNDONE: Sequence[tuple[str, Sequence[str]]] = (
    ("", COMPARED),
    (FREE, COMPARED),
    (SHORT, COMPARED),
    (STATISTICS, ("incremental",)),  # only there somebody keeps statistics, and ghosts
    (WINDOWS, ("incremental",)),
)


class Windows(Suspicion):
    """The former test of whether a share exceeds `limit`, which judges every `size` publications by
    themselves. Its value counts a publication as 1, and one that counts towards the share as
    `size` + 2."""

    def __init__(self, limit: float, size: int) -> None:
        super().__init__(limit)
        self._most, self._size = limit * size, size

    def after(self, suspicion: float, counts: bool) -> float:
        suspicion += self._size + 2 if counts else 1
        counted, others = divmod(int(suspicion), self._size + 2)
        if counted + others < self._size:
            return suspicion
        return math.inf if counted > self._most + 1e-9 else 0.0

    @staticmethod
    def is_certain(suspicion: float) -> bool:
        return suspicion == math.inf


def runs(scale: str) -> list[Run]:
    x = covering_section("unsubscribing", scale).compared_x
    routings = [routing(strategy, undone) for undone, which in UNDONE for strategy in which]
    return runs_of(PAPER, NAME, scale, routings, [x], section("simulated", scale).seeds)


def measure(run: Run) -> list[Measure]:
    strategy, undone = parts(run)
    before, entries = section("simulated", run.scale), covering_section("unsubscribing", run.scale)
    settling = population(entries, entries.degree)
    if undone == SHORT:
        entries = entries.with_values(observe_s=before.observe_s)
    if undone == STATISTICS:
        entries = entries.with_values(warm_s=before.warm_s)

    def rest(settled: Settled) -> Iterator[Measure]:
        if undone == FREE:
            _remove_free(settled.kernel)
        if undone == WINDOWS:
            _judge_by_windows(settled.kernel, before.window)
        return after_withdrawals(run, settled, int(run.x), entries)

    return after_settling(run._replace(routing=strategy), settling, costs(run.scale), rest)


def _remove_free(kernel: CoverKernel) -> None:
    for node in kernel.nodes.values():
        assert isinstance(node.comparisons, GraphWork)
        node.comparisons.removes_free = True


def _judge_by_windows(kernel: CoverKernel, size: int) -> None:
    for node in kernel.nodes.values():
        router = acyclic(node)
        for outgoing in router.tree.outgoing.values():
            assert isinstance(outgoing, Incremental)
            outgoing.suspicion = Windows(1 - router.theta, size)


def _together(run: Run) -> Hashable:
    return run.seed, parts(run)[0]


CAMPAIGN = Campaign(NAME, "unsubscriptions", runs, measure, _together)
