"""Filters and events that are as bad as an index could meet; `worst` measures what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from reefcast_lab.bench.matching import marginals
from reefcast_lab.bench.matching.marginals import Marginal, bell
from reefcast_lab.bench.matching.table import Array, Events, Table
from reefcast_lab.bench.matching.workloads import (
    Rng,
    Stock,
    chosen,
    event_columns,
    intervals,
    named,
    valued,
    words,
)

EVENTS = 512
STRINGS = 1_000_000

Made = tuple[Table, Events]


def _numbers(low: Array, high: Array) -> Table:
    """Make a table of bounds, float64 (rows, attributes)."""
    names = words("x", low.shape[1])
    return Table(
        {name: low[:, i] for i, name in enumerate(names)},
        {name: high[:, i] for i, name in enumerate(names)},
        {},
        {},
    )


def _events(values: Array) -> Events:
    return Events({name: values[:, i] for i, name in enumerate(words("x", values.shape[1]))})


def boundaries_equal(rng: Rng, rows: int) -> Made:
    """Make filters of seven numbers, each at least or at most 500; the events' values are close to
    500, or equal."""
    upward = rng.random((rows, 7)) < 0.5
    table = _numbers(np.where(upward, 500.0, -np.inf), np.where(upward, np.inf, 500.0))
    return table, _events(500.0 + rng.integers(-2, 3, (EVENTS, 7)))


def identical(rng: Rng, rows: int) -> Made:
    """Make filters with the same seven ranges; every event matches every filter."""
    table = _numbers(np.full((rows, 7), 100.0), np.full((rows, 7), 900.0))
    return table, _events(rng.uniform(100, 900, (EVENTS, 7)))


def distinct_strings(rng: Rng, rows: int) -> Made:
    """Make a filter for each of a million strings of one attribute, whatever the number of rows
    asked for; half of the events have a string that no filter names."""
    vocabulary = words("key-", 2 * STRINGS)
    codes = 2 * rng.permutation(STRINGS).astype(np.int32)[:, None]
    table = Table({}, {}, {"key": codes}, {"key": vocabulary})
    return table, Events({"key": named(vocabulary, rng.integers(2 * STRINGS, size=EVENTS))})


def heavy_tails(rng: Rng, rows: int) -> Made:
    """Make seven ranges whose widths are log-normal, over six orders of magnitude."""
    centres = rng.lognormal(0, 2, (rows, 7))
    widths = rng.lognormal(2, 3, (rows, 7))
    return _numbers(centres - widths, centres + widths), _events(rng.lognormal(0, 2, (EVENTS, 7)))


def clustered(rng: Rng, rows: int) -> Made:
    """Make seven ranges, all around ten points and a millionth wide; the events are inside."""

    def near(count: int) -> Array:
        points = rng.integers(10, size=(count, 1)) * 100.0
        return np.asarray(points + rng.normal(0, 1e-4, (count, 7)))

    centres = near(rows)
    return _numbers(centres - 1e-4, centres + 1e-4), _events(near(EVENTS))


def nested(rng: Rng, rows: int) -> Made:
    """Make filters whose three ranges contain those of all before."""
    reach = np.repeat(np.arange(1.0, rows + 1)[:, None], 3, axis=1)
    return _numbers(-reach, reach), _events(rng.uniform(0.9 * rows, 1.1 * rows, (EVENTS, 3)))


def drifting(rng: Rng, rows: int) -> Made:
    """Make seven ranges that move from filter to filter, as times do: the first ones say nothing
    about the last."""
    low = np.repeat(np.arange(float(rows))[:, None], 7, axis=1) + rng.uniform(0, 50, (rows, 7))
    at = rng.uniform(0, rows, (EVENTS, 1)) + rng.uniform(0, 50, (EVENTS, 7))
    return _numbers(low, low + 100), _events(at)


def one_attribute(rng: Rng, rows: int) -> Made:
    """Make ranges of a thousandth on the same attribute of seven."""
    low = np.full((rows, 7), -np.inf)
    low[:, 0] = rng.uniform(0, 999, rows)
    high = np.where(np.isfinite(low), low + 1, np.inf)
    return _numbers(low, high), _events(rng.uniform(0, 1000, (EVENTS, 7)))


def many_attributes(rng: Rng, rows: int) -> Made:
    """Make events with 200 attributes; a filter bounds one of them, to a hundredth."""
    of = [Marginal(name, bell(0, 10)) for name in words("x", 200)]
    low, high = intervals(
        rng, marginals.ranks(rng, rows, of), chosen(rng, rows, len(of), 1, 1), 0.01
    )
    table = Table(*valued(of, low, high), {}, {})
    return table, Events(event_columns(of, marginals.ranks(rng, EVENTS, of)))


def one_symbol(rng: Rng, rows: int) -> Made:
    """Make seven ranges, and an equality that all filters share: partitions do not help."""
    stock = Stock(symbols=1)
    return stock.table(rng, rows, 0.02), stock.events(rng, EVENTS)


CASES: Mapping[str, Callable[[Rng, int], Made]] = {
    "boundaries equal": boundaries_equal,
    "identical": identical,
    "a million strings": distinct_strings,
    "heavy tails": heavy_tails,
    "clustered": clustered,
    "nested": nested,
    "drifting": drifting,
    "one attribute": one_attribute,
    "200 attributes": many_attributes,
    "one symbol": one_symbol,
}
