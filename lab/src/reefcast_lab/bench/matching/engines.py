"""Reefcast's index and the baselines behind one interface; keys are row numbers."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from reefcast.matching.index import CompiledIndex
from reefcast.matching.kernel_cache import njit
from reefcast.model.publication import Publication
from reefcast_lab.bench.matching.baselines import EndPoints
from reefcast_lab.bench.matching.columns import Columns
from reefcast_lab.bench.matching.table import BATCH, Array, Table

REEFCAST, FLOOR = "reefcast", "floor"
BASELINES = ("columns", "counting", "rein")

_REMOVED = 10_000
"""How many removals are timed, at most."""


@dataclass(frozen=True, slots=True)
class Engine:
    """`match` returns row numbers, `match_batch` offsets and row numbers, in any order for an
    event. `add_us`: the mean of all additions; None for what is built in one go."""

    name: str
    match: Callable[[Publication], Sequence[int] | Array]
    match_batch: Callable[[Mapping[str, Any]], tuple[Array, Array]]
    memory_bytes: int
    add_us: float | None = None


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable Python's garbage collector in the `with` block: it is not timed, and would go through
    a million filters."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def filled(table: Table, tell: Callable[[int], None]) -> tuple[CompiledIndex[int], float]:
    """Return an index of all rows, and the seconds that adding them took; `tell` is called with how
    many there are."""
    index: CompiledIndex[int] = CompiledIndex()
    seconds = 0.0
    with no_collection():
        for start in range(0, len(table), BATCH):
            filters = list(table.filters(start, min(start + BATCH, len(table))))
            begun = perf_counter()
            for key, filter in enumerate(filters, start):
                index.add(key, filter)
            seconds += perf_counter() - begun
            tell(start + len(filters))
    return index, seconds


def removal_us(index: CompiledIndex[int], rows: int) -> float:
    """Return the mean time of removing filters, at random, from an index with that many."""
    keys = random.Random(1).sample(range(rows), min(rows, _REMOVED))
    with no_collection():
        begun = perf_counter()
        for key in keys:
            index.remove(key)
        return (perf_counter() - begun) * 1e6 / len(keys)


def reefcast(index: CompiledIndex[int], seconds: float) -> Engine:
    memory = index.memory_bytes()
    add_us = seconds * 1e6 / len(index)
    return Engine(REEFCAST, index.match, index.match_batch, memory, add_us)


def baselines(table: Table) -> list[Engine]:
    made: tuple[Columns | EndPoints, ...] = (
        Columns(table),
        EndPoints(table, counting=True),
        EndPoints(table, counting=False),
    )
    return [
        Engine(name, engine.match, engine.match_batch, engine.memory_bytes())
        for name, engine in zip(BASELINES, made, strict=True)
    ]


@njit(cache=True)
def _nothing(tables: int, event: int, out: int, room: int) -> int:
    return tables + event + out + room


def floor(table: Table) -> Engine:
    """Make the engine that no index called from Python can beat: it looks up the attributes that
    filters name, and calls a compiled function that does nothing with four integers."""
    names = table.attributes
    nothing = np.zeros(1, np.int64), np.zeros(0, np.int64)

    def match(publication: Publication) -> list[int]:
        list(map(publication.attributes.get, names))
        _nothing(1, 2, 3, 4)
        return []

    return Engine(FLOOR, match, lambda _: nothing, 0)
