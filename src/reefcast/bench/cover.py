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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reefcast.bench.cover_columns import Columns
from reefcast.bench.cover_workloads import BOXES, WORKLOADS, make
from reefcast.matching.cover import new_cover_index, new_roots, warm_up
from reefcast.matching.cover_scan import ScanCoverIndex
from reefcast.model.filters import Filter

SIZES = (1_000, 10_000, 80_000)
QUESTIONS = ("covering", "covered", "intersecting", "equal")
ASKED = 400
SCANNED = 200_000
"""Filters that the scan looks at for each question: three questions at least."""

BASE_US, HIT_US = 20.0, 0.05
"""The aim: microseconds for a query, and for each key found."""


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds by the wall clock, but `max_cpu_us`. `query`: a question of `CoverIndex`, or a
    change: add, remove, and both with the roots maintained. `in_aim`: share of the queries within
    20 us and 50 ns for each hit. `ratio`: how many times as long the best baseline took, on the
    average; None for baselines and changes."""

    workload: str
    n: int
    engine: str
    query: str
    calls: int
    us_per_query: float
    p50_us: float
    p99_us: float
    max_cpu_us: float
    hits_per_query: float
    in_aim: float | None
    ratio: float | None
    bytes_per_filter: float


def measure(
    sizes: Sequence[int], workloads: Sequence[str], progress: Callable[[str], None]
) -> list[Row]:
    """Rows for each workload and size: each query with each engine, then the changes."""
    progress("compiling")
    warm_up()
    rows: list[Row] = []
    for workload in workloads:
        progress(f"{workload}: making {max(sizes)} filters")
        filters, asked = make(workload, max(sizes), ASKED)
        for n in sizes:
            progress(f"{workload}: {n} filters")
            rows += _measure_queries(workload, filters[:n], asked)
            rows += _measure_roots(workload, filters[:n])
    return rows


def _measure_queries(workload: str, filters: list[Filter], asked: list[Filter]) -> list[Row]:
    index: Any = new_cover_index()
    added = _timed(lambda key: index.add(key, filters[key]), range(len(filters)))
    rows = _measure_engines(workload, filters, asked, index)
    memory = index.memory_bytes() / len(filters)
    order = list(range(len(filters)))
    random.Random(1).shuffle(order)
    removed = _timed(index.remove, order)
    changes = (("add", added), ("remove", removed))
    return rows + [_row(workload, len(filters), "index", *c, memory) for c in changes]


def _measure_engines(
    workload: str, filters: list[Filter], asked: list[Filter], index: Any
) -> list[Row]:
    n = len(filters)
    columns = Columns(filters) if workload in BOXES else None
    scan: ScanCoverIndex[int] = ScanCoverIndex()
    for key, filter in enumerate(filters):
        scan.add(key, filter)
    rows = []
    for query in QUESTIONS:
        scanned = asked[: max(3, SCANNED // n)]
        own = _timed(getattr(index, query), asked)
        mine = _row(workload, n, "index", query, own, index.memory_bytes() / n)
        others = [_row(workload, n, "scan", query, _timed(getattr(scan, query), scanned), 0.0)]
        if columns is not None:
            ask = columns.ask
            timed = _timed(lambda filter, q=query: ask(q, filter), asked)
            others.append(_row(workload, n, "columns", query, timed, columns.memory_bytes() / n))
        best = min(other.us_per_query for other in others)
        rows += [replace(mine, ratio=best / mine.us_per_query), *others]
    return rows


def _measure_roots(workload: str, filters: list[Filter]) -> list[Row]:
    roots: Any = new_roots()
    changes: list[int] = []

    def add(key: int) -> list[int]:
        change = roots.add(key, filters[key])
        return [*change.entered, *change.left]

    def remove(key: int) -> list[int]:
        change = roots.remove(key)
        return [*change.entered, *change.left]

    n = len(filters)
    changes = list(range(n))
    added = _timed(add, changes)
    memory = roots.memory_bytes() / n
    random.Random(1).shuffle(changes)
    removed = _timed(remove, changes)
    named = (("add, roots", added), ("remove, roots", removed))
    return [_row(workload, n, "index", *each, memory) for each in named]


@dataclass(frozen=True, slots=True)
class _Times:
    """Of each call: microseconds by the wall clock and of CPU, and keys in the result."""

    wall: Any
    cpu: Any
    hits: Any


def _timed(call: Callable[[Any], Any], arguments: Iterable[Any]) -> _Times:
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
            hits.append(len(result) if result is not None else 0)
    finally:
        gc.enable()
    return _Times(np.array(wall) / 1e3, np.array(cpu) / 1e3, np.array(hits))


def _row(workload: str, n: int, engine: str, query: str, times: _Times, memory: float) -> Row:
    p50, p99 = np.percentile(times.wall, [50, 99])
    in_aim = None
    if query in QUESTIONS:
        in_aim = round(float(np.mean(times.wall <= BASE_US + HIT_US * times.hits)), 3)
    return Row(
        workload=workload,
        n=n,
        engine=engine,
        query=query,
        calls=len(times.wall),
        us_per_query=round(float(times.wall.mean()), 2),
        p50_us=round(float(p50), 2),
        p99_us=round(float(p99), 2),
        max_cpu_us=round(float(times.cpu.max()), 1),
        hits_per_query=round(float(times.hits.mean()), 2),
        in_aim=in_aim,
        ratio=None,
        bytes_per_filter=round(memory, 1),
    )


ALL_WORKLOADS = tuple(WORKLOADS)
