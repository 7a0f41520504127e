"""The times of all engines on a workload, in rounds that go through all of them in turn.

A round is a batch of events, the next round takes the next batch; what counts is the median of the
rounds. A round's time is that of the thread's processor, so that what else the machine does is not
in it: long rounds, those of slow engines, would be interrupted more often than short ones. Times
start at the decoded event: a `Publication` for single calls, columns for batches. All engines must
find the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from reefcast.errors import InternalError
from reefcast.matching import warm_up
from reefcast.matching.memory import keep_no_small_pieces
from reefcast_lab.bench.matching.engines import (
    FLOOR,
    REEFCAST,
    Engine,
    baselines,
    filled,
    floor,
    no_collection,
    reefcast,
    removal_us,
)
from reefcast_lab.bench.matching.table import BATCH, Array
from reefcast_lab.bench.matching.workloads import SELECTIVITIES, SOURCES, Workload, make

SINGLE, BATCHED = "single", "batch"
MOST_ROUNDS = 200
ENGINE_S = 0.5
"""After this time an engine takes part in no more rounds of a mode."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MatchTiming:
    """One engine on one workload. `selectivity`: the wanted one; `matches_per_event` is what came
    of it. `us_per_event`: the median of the rounds. `p50_us`, `p99_us`: of single events, each with
    the median of its times on the wall clock; for batches, of the rounds. `ns_per_match`: None
    where less than one filter matches. `ratio`: the best baseline's `us_per_event` in this mode to
    this one's. `add_us`, `remove_us`: means, of Reefcast. `floor_us`: see `engines.floor`, and
    `call_share` its share of `us_per_event`, for Reefcast's single calls."""

    workload: str
    selectivity: float
    n: int
    engine: str
    mode: str
    us_per_event: float
    p50_us: float
    p99_us: float
    rounds: int
    matches_per_event: float
    ns_per_match: float | None
    ratio: float
    memory_bytes_per_filter: float
    add_us: float | None = None
    remove_us: float | None = None
    floor_us: float | None = None
    call_share: float | None = None


def bench(workloads: Sequence[str], sizes: Sequence[int], tell: Tell) -> Iterator[MatchTiming]:
    """Yield the rows of each workload, or of all if none is named, at each selectivity and size."""
    keep_no_small_pieces()  # as a broker does
    warm_up()
    for name in workloads or SOURCES:
        for selectivity in SELECTIVITIES:
            for n in sizes:
                yield from measure(make(name, selectivity, n), tell)


def measure(workload: Workload, tell: Tell) -> list[MatchTiming]:
    """Return a row for each engine and mode."""
    title = f"{workload.name}, {workload.selectivity:.1%}, {len(workload.table):,} filters"
    tell(f"{title}: adding")
    step = 100_000
    index, seconds = filled(
        workload.table, lambda n: tell(f"{title}: {n:,} added") if n % step < BATCH <= n else None
    )
    engines = [reefcast(index, seconds), *baselines(workload.table)]
    tell(f"{title}: matching")
    found = _checked(engines, workload)
    with no_collection():
        batches = len(workload.events.batches)
        single = _rounds([*engines, floor(workload.table)], _single(workload), batches)
        batched = _rounds(engines, _batched(workload), batches)
    remove_us = removal_us(index, len(workload.table))
    return [
        *_rows(workload, SINGLE, engines, single, found, remove_us),
        *_rows(workload, BATCHED, engines, batched, found, remove_us),
    ]


def _checked(engines: Sequence[Engine], workload: Workload) -> float:
    """Return the matches per event. Raises `InternalError` if an engine finds something else than
    the others."""
    total = 0
    for number, batch in enumerate(workload.events.batches):
        expected = _sorted_rows(*engines[0].match_batch(batch))
        total += sum(map(len, expected))
        publications = workload.events.publications[number * BATCH : (number + 1) * BATCH]
        for engine in engines if number == 0 else engines[:1]:
            ways = [_sorted_rows(*engine.match_batch(batch))]
            ways.append([sorted(engine.match(p)) for p in publications])
            if any(way != expected for way in ways):
                raise InternalError(
                    f"{engine.name} and {engines[0].name} disagree on {workload.name} with "
                    f"{len(workload.table)} filters; one of them is wrong: report it"
                )
    return total / len(workload.events)


def _sorted_rows(offsets: Array, rows: Array) -> list[list[int]]:
    return [np.sort(part).tolist() for part in np.split(rows, offsets[1:-1])]


@dataclass(slots=True)
class _Times:
    """The times of one engine. `rounds`: microseconds per event of each; `events`: those of each
    event, none for batches."""

    rounds: list[float]
    events: Array


Run = Callable[[Engine, int], tuple[float, list[float]]]
"""Gets the number of a batch; returns microseconds per event of the batch after it, and those of
single events of this one: so what counts follows other events of the same engine, as in a broker,
and not another engine, which has had the caches to itself."""


def _single(workload: Workload) -> Run:
    every = [
        workload.events.publications[start : start + BATCH]
        for start in range(0, len(workload.events), BATCH)
    ]

    def run(engine: Engine, number: int) -> tuple[float, list[float]]:
        match = engine.match
        each = []
        for publication in every[number]:
            begun = perf_counter()
            match(publication)
            each.append((perf_counter() - begun) * 1e6)
        batch = every[(number + 1) % len(every)]
        begun = thread_time()
        for publication in batch:
            match(publication)
        return (thread_time() - begun) * 1e6 / len(batch), each

    return run


def _batched(workload: Workload) -> Run:
    every = workload.events.batches

    def run(engine: Engine, number: int) -> tuple[float, list[float]]:
        engine.match_batch(every[number])
        batch = every[(number + 1) % len(every)]
        begun = thread_time()
        engine.match_batch(batch)
        return (thread_time() - begun) * 1e6 / BATCH, []

    return run


def _rounds(engines: Sequence[Engine], run: Run, batches: int) -> dict[str, _Times]:
    """Time all engines; each takes each batch at least once."""
    times: dict[str, list[tuple[float, list[float]]]] = {engine.name: [] for engine in engines}
    spent: dict[str, float] = defaultdict(float)
    for number in range(MOST_ROUNDS):
        for engine in engines:
            if number < batches or spent[engine.name] < ENGINE_S:
                begun = perf_counter()
                times[engine.name].append(run(engine, number % batches))
                spent[engine.name] += perf_counter() - begun
    return {name: _summed(rounds, batches) for name, rounds in times.items()}


def _summed(rounds: list[tuple[float, list[float]]], batches: int) -> _Times:
    of_batches = [
        np.median([each for _, each in rounds[first::batches]], axis=0) for first in range(batches)
    ]
    return _Times([whole for whole, _ in rounds], np.concatenate(of_batches))


def _rows(
    workload: Workload,
    mode: str,
    engines: Sequence[Engine],
    times: dict[str, _Times],
    found: float,
    remove_us: float,
) -> list[MatchTiming]:
    median = {name: float(np.median(each.rounds)) for name, each in times.items()}
    best = min(us for name, us in median.items() if name not in (REEFCAST, FLOOR))
    rows = []
    for engine in engines:
        us = median[engine.name]
        each = times[engine.name].events if mode == SINGLE else times[engine.name].rounds
        more: dict[str, Any] = {}
        if engine.name == REEFCAST:
            more = {"add_us": engine.add_us, "remove_us": remove_us}
            if mode == SINGLE:
                more |= {"floor_us": median[FLOOR], "call_share": median[FLOOR] / us}
        rows.append(
            MatchTiming(
                workload=workload.name,
                selectivity=workload.selectivity,
                n=len(workload.table),
                engine=engine.name,
                mode=mode,
                us_per_event=us,
                p50_us=float(np.percentile(each, 50)),
                p99_us=float(np.percentile(each, 99)),
                rounds=len(times[engine.name].rounds),
                matches_per_event=found,
                ns_per_match=us * 1e3 / found if found >= 1 else None,
                ratio=best / us,
                memory_bytes_per_filter=engine.memory_bytes / len(workload.table),
                **more,
            )
        )
    return rows
