"""What a delivered publication costs in statistics: a row in the SQLite store of a broker.

The baseline writes the same rows into the same store, each in a transaction of its own. Rows come
evenly from a number of pairs (of a subscription and an advertisement). With a thousand of them each
row of a batch lies far from all others in the file: the worst case. The memory of the simulator's
twin is shown for comparison.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from reefcast.errors import InternalError
from reefcast.routing.covering.statistics import MemoryStatistics, Statistics
from reefcast.statistics.store import BATCH, StatisticsStore

PAIRS = (100, 1_000, 50_000)
UNBATCHED = 5_000
"""Rows that the baseline gets: it is slow."""
PUBLISHERS = 20
RATE_PER_S = 5_000.0


@dataclass(frozen=True, slots=True)
class StatisticsTiming:
    """Microseconds for each row: of CPU, and by the wall clock of a machine shared with others.
    `longest_cpu_us`: of the calls for `BATCH` rows, in one of which they are written. `ratio`: how
    many times as much CPU a row takes unbatched; None for others than the batched store."""

    engine: str
    pairs: int
    rows: int
    cpu_us_per_row: float
    us_per_row: float
    longest_cpu_us: float
    bytes_per_row: float
    ratio: float | None = None


def bench(
    rows: int, pairs: Sequence[int], tell: Callable[[str], None]
) -> Iterator[StatisticsTiming]:
    """Yield rows for each number of pairs (none: `PAIRS`): the store, unbatched, and in memory. The
    garbage collector is off, so that its pauses do not count for the store."""
    for number in pairs or PAIRS:
        tell(f"{number:,} pairs: {rows:,} rows")
        with tempfile.TemporaryDirectory() as folder:
            batched = _stored("store", Path(folder) / "batched", rows, number, _written_at_end)
            single = _stored("unbatched", Path(folder) / "single", UNBATCHED, number, _written)
        ratio = round(single.cpu_us_per_row / batched.cpu_us_per_row, 1)
        yield replace(batched, ratio=ratio)
        yield single
        yield _timed("memory", MemoryStatistics(), rows, number, lambda row: None)


def _stored(
    engine: str, path: Path, rows: int, pairs: int, after: Callable[[StatisticsStore, bool], None]
) -> StatisticsTiming:
    store = StatisticsStore(path, 0.0, _complain)
    measured = _timed(engine, store, rows, pairs, lambda row: after(store, row == rows - 1))
    store.close()
    return replace(measured, bytes_per_row=round(path.stat().st_size / store.rows, 1))


def _written_at_end(store: StatisticsStore, last: bool) -> None:
    if last:
        store.flush()


def _written(store: StatisticsStore, last: bool) -> None:
    store.flush()


def _timed(
    engine: str, statistics: Statistics, rows: int, pairs: int, after: Callable[[int], None]
) -> StatisticsTiming:
    calls = [
        ((f"p{row % PUBLISHERS}", row), (f"p{row % PUBLISHERS}", 1), ("s", row % pairs), row % 7, 1)
        for row in range(rows)
    ]
    times = [(time.perf_counter_ns(), time.thread_time_ns())]
    gc.disable()
    for row, call in enumerate(calls):
        statistics.record(*call, row / RATE_PER_S)
        after(row)
        if row % BATCH == BATCH - 1 or row == rows - 1:
            times.append((time.perf_counter_ns(), time.thread_time_ns()))
    gc.enable()
    wall, cpu = (times[-1][clock] - times[0][clock] for clock in (0, 1))
    longest = max(end[1] - start[1] for start, end in pairwise(times))
    return StatisticsTiming(
        engine=engine,
        pairs=pairs,
        rows=rows,
        cpu_us_per_row=round(cpu / rows / 1e3, 2),
        us_per_row=round(wall / rows / 1e3, 2),
        longest_cpu_us=round(longest / 1e3, 2),
        bytes_per_row=0.0,
    )


def _complain(sentence: str) -> None:
    raise InternalError(f"a new file is sound: {sentence}")
