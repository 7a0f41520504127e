"""Many tortured runs, one for each seed, in several processes; and what came of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import msgspec

from reefcast_lab.torture.live import LiveTorture
from reefcast_lab.torture.record import Record
from reefcast_lab.torture.run import routings, torture

AT_ONCE = 10
"""Seeds that a process is given at a time."""
LIVE_EVERY = 20
"""The last of so many seeds is a run of whole live nodes (`live`)."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of one run. `live`: it was one of whole live nodes. `problems`: the promises that
    were broken, one sentence each; `digest`: of all of its steps."""

    seed: int
    routing: str
    live: bool
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
        self.runs = self._live = 0
        self._routings: dict[str, int] = {}
        self._sums = dict.fromkeys(("kills", "published", "confirmed", "handed", "steps"), 0)
        self._hash = hashlib.sha256()

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of one run."""
        self.runs += 1
        self._live += outcome.live
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
            "live_runs": self._live,
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


def is_live(seed: int) -> bool:
    """Return whether the run of a seed is one of whole live nodes."""
    return seed % LIVE_EVERY == LIVE_EVERY - 1


def run_seed(seed: int, routing: str | None = None) -> Outcome:
    """Run one seed."""
    return run_text(seed, routing)[0]


def run_text(
    seed: int, routing: str | None = None, *, text: bool = False
) -> tuple[Outcome, list[str]]:
    """Run one seed; return what came of it, and with `text` the network and the last steps."""
    name = routing_of(seed, routing)
    if is_live(seed):
        live = LiveTorture(seed, name, text=text)
        live.run()
        sums = (live.world.kills, live.published, len(live.confirmed), live.handed)
        return _outcome(seed, name, live.problems, sums, live.record), [
            *live.described(),
            *(live.record.lines or ()),
        ]
    network, problems = torture(seed, name, text=text)
    sums = (network.kills, network.published, network.confirmations, network.handed)
    return _outcome(seed, name, problems, sums, network.record), [
        *network.described(),
        *(network.record.lines or ()),
    ]


def _outcome(
    seed: int, routing: str, problems: list[str], sums: tuple[int, int, int, int], record: Record
) -> Outcome:
    return Outcome(seed, routing, is_live(seed), problems, *sums, record.steps, record.digest)


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
