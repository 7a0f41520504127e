"""How fast the covering index is, beside columns of numpy and the scan of all filters.

Every engine answers the same questions about filters that it has not seen, in calls from Python
with a list of keys as the result; the collector of garbage is off, so that its pauses are not taken
for those of the index. The longest call is given in CPU time, for a machine shared with others
pauses by itself. The scan asks `model.covering` about each filter, which takes so long that it gets
a few questions only.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from reefcast.errors import ConfigurationError, InternalError
from reefcast.matching.cover import RootChange, new_cover_index, new_roots, warm_up
from reefcast.matching.cover.scan import ScanCoverIndex
from reefcast.model.filters import Filter
from reefcast_lab.bench.cover.columns import Columns
from reefcast_lab.bench.cover.workloads import BOXES, WORKLOADS, make

SIZES = (1_000, 10_000, 80_000)
QUERIES = ("covering", "covered", "intersecting", "equal")
ASKED = 400
SCANNED = 200_000
"""Filters that the scan looks at for each question: three questions at least."""

LARGEST = {"language": 10_000}
"""Where Python decides about candidates, more filters would take hours."""

BASE_US, HIT_US = 20.0, 0.05
"""The aim: microseconds for a query, and for each key found."""


@dataclass(frozen=True, slots=True)
class CoverTiming:
    """Microseconds by the wall clock, but `max_cpu_us`. An event is one call; rows are named as
    those of matching. `query`: a question of `CoverIndex`, or a change: add, remove, and both with
    the roots maintained, where the matches are keys that became roots or ceased to be. `in_aim`:
    share of the queries within 20 us and 50 ns for each match. `ratio`: how many times as long the
    best baseline took, on the average; None for baselines and changes."""

    workload: str
    n: int
    engine: str
    query: str
    calls: int
    us_per_event: float
    p50_us: float
    p99_us: float
    max_cpu_us: float
    matches_per_event: float
    in_aim: float | None
    ratio: float | None
    memory_bytes_per_filter: float


def bench(
    workloads: Sequence[str], sizes: Sequence[int], tell: Callable[[str], None]
) -> Iterator[CoverTiming]:
    """Yield rows for each workload and size: each query with each engine, then the changes. No
    names or sizes: all; `ConfigurationError` for a name that there is not."""
    for workload in workloads:
        if workload not in WORKLOADS:
            names = ", ".join(WORKLOADS)
            raise ConfigurationError(f"there is no workload {workload!r}; there are {names}")
    sizes = sizes or SIZES
    warm_up()
    for workload in workloads or tuple(WORKLOADS):
        fitting = [n for n in sizes if n <= LARGEST.get(workload, n)]
        if not fitting:
            continue
        tell(f"{workload}: making {max(fitting):,} filters")
        filters, asked = make(workload, max(fitting), ASKED)
        for n in fitting:
            tell(f"{workload}: {n:,} filters")
            yield from _bench_index(workload, filters[:n], asked)
            yield from _bench_roots(workload, filters[:n])


def _bench_index(
    workload: str, filters: list[Filter], asked: list[Filter]
) -> Iterator[CoverTiming]:
    index: Any = new_cover_index()
    n = len(filters)
    added = timed(lambda key: index.add(key, filters[key]), range(n))
    yield from _bench_engines(workload, filters, asked, index)
    memory = index.memory_bytes() / n
    order = list(range(n))
    random.Random(1).shuffle(order)
    removed = timed(index.remove, order)
    yield _row(workload, n, "index", "add", added, memory)
    yield _row(workload, n, "index", "remove", removed, memory)


def _bench_engines(
    workload: str, filters: list[Filter], asked: list[Filter], index: Any
) -> Iterator[CoverTiming]:
    n = len(filters)
    columns = Columns(filters) if workload in BOXES else None
    scan: ScanCoverIndex[int] = ScanCoverIndex()
    for key, filter in enumerate(filters):
        scan.add(key, filter)
    for query in QUERIES:
        own = timed(getattr(index, query), asked)
        mine = _row(workload, n, "index", query, own, index.memory_bytes() / n)
        few = asked[: max(3, SCANNED // n)]
        others = [_row(workload, n, "scan", query, timed(getattr(scan, query), few), 0.0)]
        if columns is not None:
            theirs = timed(partial(columns.ask, query), asked)
            others.append(_row(workload, n, "columns", query, theirs, columns.memory_bytes() / n))
            _compare(workload, query, own, theirs)
        best = min(other.us_per_event for other in others)
        yield replace(mine, ratio=round(best / mine.us_per_event, 2))
        yield from others


def _compare(workload: str, query: str, own: Times, other: Times) -> None:
    if not np.array_equal(own.hits, other.hits):
        raise InternalError(f"{workload}, {query}: the engines found different filters: report it")


def _bench_roots(workload: str, filters: list[Filter]) -> Iterator[CoverTiming]:
    roots: Any = new_roots()

    def changed(change: RootChange[int]) -> list[int]:
        return [*change.entered, *change.left]

    n = len(filters)
    order = list(range(n))
    added = timed(lambda key: changed(roots.add(key, filters[key])), order)
    memory = roots.memory_bytes() / n
    random.Random(1).shuffle(order)
    removed = timed(lambda key: changed(roots.remove(key)), order)
    yield _row(workload, n, "index", "add, roots", added, memory)
    yield _row(workload, n, "index", "remove, roots", removed, memory)


@dataclass(frozen=True, slots=True)
class Times:
    """The times of each call, microseconds by the wall clock and of CPU, and keys in the result."""

    wall: Any
    cpu: Any
    hits: Any


def timed(call: Callable[[Any], Any], arguments: Iterable[Any]) -> Times:
    wall, cpu, hits = [], [], []
    gc.collect()
    gc.disable()
    try:
        for argument in arguments:
            cpu_start = time.thread_time_ns()
            start = time.perf_counter_ns()
            result = call(argument)
            wall.append(time.perf_counter_ns() - start)
            cpu.append(time.thread_time_ns() - cpu_start)
            hits.append(0 if result is None else len(result))
            result = None  # to free it takes no part of the next call's time
    finally:
        gc.enable()
    return Times(np.array(wall) / 1e3, np.array(cpu) / 1e3, np.array(hits))


def _row(
    workload: str, n: int, engine: str, query: str, times: Times, memory: float
) -> CoverTiming:
    p50, p99 = np.percentile(times.wall, [50, 99])
    in_aim = None
    if query in QUERIES:
        in_aim = round(float(np.mean(times.wall <= BASE_US + HIT_US * times.hits)), 3)
    return CoverTiming(
        workload=workload,
        n=n,
        engine=engine,
        query=query,
        calls=len(times.wall),
        us_per_event=round(float(times.wall.mean()), 2),
        p50_us=round(float(p50), 2),
        p99_us=round(float(p99), 2),
        max_cpu_us=round(float(times.cpu.max()), 1),
        matches_per_event=round(float(times.hits.mean()), 2),
        in_aim=in_aim,
        ratio=None,
        memory_bytes_per_filter=round(memory, 1),
    )
