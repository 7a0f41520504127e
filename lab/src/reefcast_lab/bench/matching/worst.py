"""What the index costs at its worst: adding, removing and matching what is made to hurt it.

Everything is done twice, on two indexes, in the same order, and for each single call the lesser of
the two times counts: what other programs took is hardly there twice, a rebuild always. The events
go through each full index three times. Python's garbage collector is off meanwhile. So `max` is the
longest pause of any call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from zlib import crc32

import numpy as np

from reefcast.matching.index import CompiledIndex
from reefcast.model.publication import Publication
from reefcast_lab.bench.matching.adversarial import CASES, Made
from reefcast_lab.bench.matching.cases import case_of, each_case, timed_us
from reefcast_lab.bench.matching.engines import no_collection
from reefcast_lab.bench.matching.table import Array, Table

SEED = 1
RUNS, PASSES = 2, 3
CHUNK = 1000
"""Filters that are made at a time; one event is matched after each chunk is added."""


@dataclass(frozen=True, slots=True)
class WorstRow:
    """`match_*`: single calls, with all filters there. `busy_match_max_us`: the longest of the
    calls that came between additions. `add_*`, `remove_*`: half of the filters are removed, at
    random, and added again at the end; that counts as adding too."""

    workload: str
    n: int
    matches_per_event: float
    match_p50_us: float
    match_p99_us: float
    match_max_us: float
    busy_match_max_us: float
    add_p50_us: float
    add_p99_us: float
    add_max_us: float
    remove_p50_us: float
    remove_p99_us: float
    remove_max_us: float
    memory_bytes_per_filter: float


def worst_cases(
    names: Sequence[str], sizes: Sequence[int], tell: Callable[[str], None]
) -> Iterator[WorstRow]:
    """Return a row for each of `adversarial.CASES`, or of those named, at each size."""
    return each_case(worst, names or CASES, sizes, tell)


def worst(name: str, rows: int) -> WorstRow:
    """Return the figures of one of `adversarial.CASES`; `ConfigurationError` for another name."""
    table, events = case_of(CASES, name)(np.random.default_rng([SEED, crc32(name.encode())]), rows)
    with no_collection():
        runs = [_run((table, events)) for _ in range(RUNS)]
    adds, removes, matches, busy = (
        np.minimum.reduce([times[i] for times, _, _ in runs]) for i in range(4)
    )
    _, found, memory = runs[0]
    return WorstRow(
        name,
        len(table),
        found / len(events),
        *_percentiles(matches),
        float(busy.max()),
        *_percentiles(adds),
        *_percentiles(removes),
        memory / len(table),
    )


def _percentiles(times: Array) -> tuple[float, float, float]:
    """Return p50, p99 and the maximum."""
    return float(np.percentile(times, 50)), float(np.percentile(times, 99)), float(times.max())


def _run(made: Made) -> tuple[tuple[Array, Array, Array, Array], int, int]:
    """Return (microseconds of additions, removals, matches and matches in between; keys found;
    bytes)."""
    table, events = made
    index: CompiledIndex[int] = CompiledIndex()
    publications = events.publications
    index.match(publications[0])
    adds, busy = _add(index, table, np.arange(len(table)), publications)
    memory = index.memory_bytes()
    found = sum(len(index.match(publication)) for publication in publications)
    passes = [
        timed_us(index.match, ((p,) for p in publications), perf_counter) for _ in range(PASSES)
    ]
    keys = np.random.default_rng(SEED).permutation(len(table))[: len(table) // 2]
    removes = timed_us(index.remove, ((key,) for key in keys.tolist()), perf_counter)
    again, still_busy = _add(index, table, np.sort(keys), publications)
    times = (
        np.concatenate([adds, again]),
        np.array(removes),
        np.min(passes, axis=0),
        np.concatenate([busy, still_busy]),
    )
    return times, found, memory


def _add(
    index: CompiledIndex[int], table: Table, rows: Array, publications: Sequence[Publication]
) -> tuple[Array, Array]:
    adds: list[float] = []
    busy: list[float] = []
    for number, start in enumerate(range(0, len(rows), CHUNK)):
        keys = rows[start : start + CHUNK].tolist()
        first, last = keys[0], keys[-1] + 1
        made = list(table.filters(first, last))
        adds += timed_us(index.add, ((key, made[key - first]) for key in keys), perf_counter)
        busy += timed_us(index.match, [(publications[number % len(publications)],)], perf_counter)
    return np.array(adds), np.array(busy)
