"""Many tortured runs, one for each seed, in several processes; and what came of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import msgspec

from reefcast.simulation.torture.run import routings, torture

AT_ONCE = 10
"""Seeds that a process is given at a time."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of one run. `problems`: the promises that were broken, one sentence each; `digest`:
    of all of its steps."""

    seed: int
    routing: str
    problems: list[str]
    kills: int
    published: int
    confirmed: int
    handed: int
    steps: int
    digest: str


class Summary:
    """The sum of outcomes, which are added by ascending seed."""

    def __init__(self) -> None:
        self.failed: list[Outcome] = []
        self.runs = 0
        self._routings: dict[str, int] = {}
        self._sums = dict.fromkeys(("kills", "published", "confirmed", "handed", "steps"), 0)
        self._hash = hashlib.sha256()

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of one run."""
        self.runs += 1
        self._routings[outcome.routing] = self._routings.get(outcome.routing, 0) + 1
        for name in self._sums:
            self._sums[name] += getattr(outcome, name)
        self._hash.update(outcome.digest.encode())
        if outcome.problems:
            self.failed.append(outcome)

    def figures(self) -> dict[str, Any]:
        """Return all figures. `failures`: how many runs broke a promise, and `failed` which;
        `handed`: events that consumers got; `digest`: of all steps of all runs."""
        failed = [
            {"seed": each.seed, "routing": each.routing, "problem": each.problems[0]}
            for each in self.failed
        ]
        return {
            "runs": self.runs,
            "failures": len(self.failed),
            **self._sums,
            "routings": self._routings,
            "failed": failed,
            "digest": self._hash.hexdigest(),
        }


def routing_of(seed: int, routing: str | None) -> str:
    """Return the routing that the run of a seed has: the given one, or one of all that confirm."""
    if routing is not None:
        return routing
    names = routings()
    return names[seed % len(names)]


def run_seed(seed: int, routing: str | None = None) -> Outcome:
    """Run one seed."""
    name = routing_of(seed, routing)
    network, problems = torture(seed, name)
    return Outcome(
        seed,
        name,
        problems,
        network.kills,
        sum(publisher.seq for publisher in network.publishers.values()),
        network.confirmations,
        network.handed,
        network.record.steps,
        network.record.digest,
    )


def run_seeds(
    seeds: Iterable[int],
    routing: str | None = None,
    *,
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> Summary:
    """Run these seeds in `jobs` processes. `progress`: called with how many are done."""
    summary = Summary()
    for outcome in _outcomes(seeds, routing, jobs):
        summary.add(outcome)
        progress(summary.runs)
    return summary


def _outcomes(seeds: Iterable[int], routing: str | None, jobs: int) -> Iterator[Outcome]:
    work = partial(run_seed, routing=routing)
    if jobs == 1:
        yield from map(work, seeds)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(work, seeds, chunksize=AT_ONCE)
