"""The workloads, each at a wanted selectivity: the share of the filters that an event matches.

A filter's intervals lie around a situation drawn as events are, so it asks for what there is. Their
widths are found by trial on a sample; what is reached is measured and reported.

`stock`: seven numbers, a range on each. `stock mixed`: three to seven of them. `stock symbol`: one
of 500 symbols, and a range on each number; selectivity is that among the filters of the symbol.
`flights`: 36 attributes, of which a filter names one to six: airports and carriers by = and IN,
delays, times, distances and weather by ranges. `zipf`: ranges around few hot spots, and symbols, of
which few are in most filters and events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol
from zlib import crc32

import numpy as np

from reefcast.errors import ConfigurationError
from reefcast_lab.bench.matching import marginals
from reefcast_lab.bench.matching.marginals import (
    Marginal,
    bell,
    log_bell,
    spread,
    whole,
    zipf_weights,
)
from reefcast_lab.bench.matching.table import Array, Events, Table, matches

SELECTIVITIES = (0.02, 0.001)
EVENTS = 1024
_SAMPLE = (4000, 512)
"""How many filters and events are sampled to find the widths."""

Rng = np.random.Generator


class Source(Protocol):
    """Makes filters and events. `share`, above 0 and up to 1, says how wide the filters are: for
    independent attributes it is the share of the events that their ranges hold."""

    def table(self, rng: Rng, count: int, share: float) -> Table: ...

    def events(self, rng: Rng, count: int) -> Events: ...

    def for_trial(self) -> Source:
        """Make the source that defines the selectivity."""
        ...


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    selectivity: float
    table: Table
    events: Events


def make(name: str, selectivity: float, rows: int, seed: int = 1) -> Workload:
    """Make a workload, the same for the same arguments; `ConfigurationError` for an unknown
    name."""
    if name not in SOURCES:
        raise ConfigurationError(f"there is no workload {name!r}; there are {', '.join(SOURCES)}")
    source = SOURCES[name]
    share = calibrated(name, selectivity, seed)
    return Workload(
        name,
        selectivity,
        source.table(_rng(seed, name, "filters"), rows, share),
        source.events(_rng(seed, name, "events"), EVENTS),
    )


def _rng(seed: int, *words: str) -> Rng:
    return np.random.default_rng([seed, *(crc32(word.encode()) for word in words)])


@cache
def calibrated(name: str, selectivity: float, seed: int) -> float:
    """Return the `share` with which events match about this share of the filters."""
    trial = SOURCES[name].for_trial()
    rng = _rng(seed, name, "trial")
    rows, count = _SAMPLE
    filters_seed = int(rng.integers(1 << 32))
    events = trial.events(rng, count)
    low, high = np.log(1e-9), 0.0
    for _ in range(14):
        middle = (low + high) / 2
        table = trial.table(np.random.default_rng(filters_seed), rows, float(np.exp(middle)))
        if matches(table, events).mean() < selectivity:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))


# --- parts ---------------------------------------------------------------------------------------


def chosen(rng: Rng, rows: int, of: int, fewest: int, most: int) -> Array:
    """Choose `fewest` to `most` of the columns in each row, evenly; bool (rows, of)."""
    order = np.argsort(rng.random((rows, of)), axis=1).argsort(axis=1)
    return np.asarray(order < rng.integers(fewest, most + 1, rows)[:, None])


def intervals(rng: Rng, centres: Array, used: Array, share: float) -> tuple[Array, Array]:
    """Return ranks (rows, attributes) from and to; in each row, all intervals are about as wide,
    and together contain `share`; infinite where `used` (of the same shape) is false. The centre
    lies anywhere inside."""
    count = np.maximum(used.sum(axis=1, keepdims=True), 1)
    width = np.minimum(share ** (1 / count) * rng.uniform(0.75, 1.25, centres.shape), 1)
    low = np.clip(centres - width * rng.random(centres.shape), 0, 1 - width)
    return np.where(used, low, -np.inf), np.where(used, low + width, np.inf)


def valued(
    of: Sequence[Marginal], low: Array, high: Array, scale: Array | float = 1.0
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return ranks as a table's `low` and `high`; `scale` goes with prices only."""

    def column(marginal: Marginal, ranks: Array) -> Array:
        by = scale if marginal.group == "price" else 1.0
        return np.where(np.isfinite(ranks), _scaled(marginal, ranks, by), ranks)

    return (
        {m.name: column(m, low[:, i]) for i, m in enumerate(of)},
        {m.name: column(m, high[:, i]) for i, m in enumerate(of)},
    )


def _scaled(marginal: Marginal, ranks: Array, by: Array | float) -> Array:
    values = marginal.value(np.clip(ranks, 0, 1))
    return values if isinstance(by, float) else np.asarray(np.round(values * by, 2))


def event_columns(
    of: Sequence[Marginal], ranks: Array, scale: Array | float = 1.0
) -> dict[str, Array | list[str]]:
    columns: dict[str, Array | list[str]] = {}
    for i, m in enumerate(of):
        values = _scaled(m, ranks[:, i], scale if m.group == "price" else 1.0)
        columns[m.name] = values.astype(np.int64) if m.integer else values
    return columns


def words(stem: str, count: int) -> list[str]:
    """Return that many words, ascending."""
    return [f"{stem}{i:0{len(str(count - 1))}d}" for i in range(count)]


def named(vocabulary: list[str], codes: Array) -> list[str]:
    return [vocabulary[code] for code in codes.tolist()]


def integers_of(of: Sequence[Marginal]) -> frozenset[str]:
    return frozenset(m.name for m in of if m.integer)


# --- stock ---------------------------------------------------------------------------------------

_PRICE: Mapping[str, Any] = {"group": "price", "tie": 0.5}
STOCK = (
    *(Marginal(name, log_bell(40, 0.8), **_PRICE) for name in ("open", "high", "low", "close")),
    Marginal("volume", whole(log_bell(400_000, 1.2)), integer=True),
    Marginal("adj_close", log_bell(38, 0.8), **_PRICE),
    Marginal("change", bell(0, 2)),
)
SYMBOLS = 500


@dataclass(frozen=True, slots=True)
class Stock:
    """`fewest`: predicates on numbers, of seven at most. `symbols`: 0 for none; each symbol has a
    price level of its own."""

    fewest: int = 7
    symbols: int = 0

    def table(self, rng: Rng, count: int, share: float) -> Table:
        symbol = rng.integers(max(self.symbols, 1), size=count)
        used = chosen(rng, count, len(STOCK), self.fewest, len(STOCK))
        low, high = intervals(rng, marginals.ranks(rng, count, STOCK), used, share)
        lows, highs = valued(STOCK, low, high, self._level(symbol))
        members, vocabulary = {}, {}
        if self.symbols:
            members["symbol"] = symbol.astype(np.int32)[:, None]
            vocabulary["symbol"] = words("S", self.symbols)
        return Table(lows, highs, members, vocabulary, integers_of(STOCK))

    def events(self, rng: Rng, count: int) -> Events:
        symbol = rng.integers(max(self.symbols, 1), size=count)
        columns = event_columns(STOCK, marginals.ranks(rng, count, STOCK), self._level(symbol))
        if self.symbols:
            columns["symbol"] = named(words("S", self.symbols), symbol)
        return Events(columns)

    def _level(self, symbol: Array) -> Array | float:
        return np.exp(marginals.normal(symbol * 0.618 % 1)) if self.symbols else 1.0

    def for_trial(self) -> Source:
        return Stock(self.fewest, min(self.symbols, 1))


# --- flights -------------------------------------------------------------------------------------


def _clock(ranks: Array) -> Array:
    """Return times of day as the data set writes them: 1435 is 14:35."""
    minutes = np.floor(300 + ranks * 1139.999)
    return np.asarray(minutes // 60 * 100 + minutes % 60)


_delay = whole(log_bell(9, 1.3, shift=-12))
FLIGHT_NUMBERS = (
    Marginal("year", spread(2013, 2013), integer=True),
    Marginal("month", spread(1, 12), integer=True),
    Marginal("day", spread(1, 31), integer=True),
    Marginal("dep_time", _clock, integer=True, group="time", tie=0.95),
    Marginal("sched_dep_time", _clock, integer=True, group="time", tie=0.98),
    Marginal("dep_delay", _delay, integer=True, group="delay", tie=0.9),
    Marginal("arr_time", _clock, integer=True, group="time", tie=0.7),
    Marginal("sched_arr_time", _clock, integer=True, group="time", tie=0.7),
    Marginal("arr_delay", _delay, integer=True, group="delay", tie=0.85),
    Marginal("flight", spread(1, 6000), integer=True),
    Marginal("air_time", whole(log_bell(130, 0.6)), integer=True, group="way", tie=0.95),
    Marginal("distance", whole(log_bell(870, 0.65)), integer=True, group="way", tie=0.98),
    Marginal("hour", spread(5, 23), integer=True, group="time", tie=0.98),
    Marginal("minute", spread(0, 59), integer=True),
    Marginal("time_hour", spread(376_944, 385_703), integer=True),
    Marginal("temp", bell(56, 18), group="air", tie=0.9),
    Marginal("dewp", bell(41, 19), group="air", tie=0.8),
    Marginal("humid", bell(60, 19)),
    Marginal("wind_dir", lambda ranks: np.floor(ranks * 36.999) * 10, integer=True),
    Marginal("wind_speed", log_bell(9.5, 0.5), group="wind", tie=0.9),
    Marginal("wind_gust", log_bell(24, 0.3), group="wind", tie=0.8),
    Marginal("precip", lambda ranks: np.round(np.maximum(0, ranks - 0.93) * 4, 2)),
    Marginal("pressure", bell(1018, 7)),
    Marginal("visib", lambda ranks: np.round(10 * np.minimum(1, ranks * 8), 1)),
    Marginal("plane_year", spread(1985, 2013), integer=True),
    Marginal("engines", spread(1, 4), integer=True),
    Marginal("seats", spread(2, 450), integer=True),
    Marginal("speed", spread(90, 432), integer=True),
)
FLIGHT_WORDS: Mapping[str, tuple[list[str], Array]] = {
    "carrier": (words("C", 16), zipf_weights(16, 0.9)),
    "tailnum": (words("N", 4000), zipf_weights(4000, 0.2)),
    "origin": (["EWR", "JFK", "LGA"], np.array([0.36, 0.33, 0.31])),
    "dest": (words("D", 105), zipf_weights(105, 0.7)),
    "plane_type": (words("T", 3), zipf_weights(3, 4)),
    "manufacturer": (words("M", 30), zipf_weights(30, 1.2)),
    "model": (words("X", 120), zipf_weights(120, 0.8)),
    "engine": (words("E", 5), zipf_weights(5, 3)),
}
FLIGHT_RANGES = (
    *("dep_delay", "arr_delay", "hour", "distance", "air_time", "wind_speed", "visib", "temp"),
    *("month", "sched_dep_time", "seats"),
)
"""What filters bound, one to three of them: delays and wind from below, sight from above."""

_FROM_BELOW, _FROM_ABOVE = ("dep_delay", "arr_delay", "wind_speed"), ("visib",)


def drawn_words(rng: Rng, weights: Array, how_many: Array) -> Array:
    """Draw that many distinct codes in each row, ascending, then -1: int32 (rows, most)."""
    most = int(how_many.max())
    codes = rng.choice(len(weights), (len(how_many), most), p=weights).astype(np.int32)
    beyond = np.int32(len(weights))
    codes[np.arange(most) >= how_many[:, None]] = beyond
    codes.sort(axis=1)
    codes[:, 1:][codes[:, 1:] == codes[:, :-1]] = beyond
    codes.sort(axis=1)
    codes[codes == beyond] = -1
    return codes


class Flights:
    def table(self, rng: Rng, count: int, share: float) -> Table:
        ranges = [m for m in FLIGHT_NUMBERS if m.name in FLIGHT_RANGES]
        used = chosen(rng, count, len(ranges), 1, 3)
        low, high = intervals(rng, marginals.ranks(rng, count, ranges), used, share)
        for i, marginal in enumerate(ranges):
            width = np.where(used[:, i], high[:, i] - low[:, i], np.inf)
            if marginal.name in _FROM_BELOW:
                low[:, i], high[:, i] = 1 - width, np.inf
            elif marginal.name in _FROM_ABOVE:
                low[:, i], high[:, i] = -np.inf, width
        lows, highs = valued(ranges, low, high)
        members = self._members(rng, count)
        vocabulary = {name: FLIGHT_WORDS[name][0] for name in members}
        return Table(lows, highs, members, vocabulary, integers_of(ranges))

    def _members(self, rng: Rng, count: int) -> dict[str, Array]:
        """Draw the words of filters. Place: =, IN of up to 4, the origin, or nothing; carrier: =,
        IN of up to 3, or nothing."""
        place = rng.choice(4, count, p=[0.4, 0.15, 0.2, 0.25])
        carrier = rng.choice(3, count, p=[0.35, 0.1, 0.55])
        how_many = {
            "dest": np.select([place == 0, place == 1], [1, rng.integers(2, 5, count)], 0),
            "origin": (place == 2).astype(np.int64),
            "carrier": np.select([carrier == 0, carrier == 1], [1, rng.integers(2, 4, count)], 0),
        }
        return {
            name: drawn_words(rng, FLIGHT_WORDS[name][1], numbers)
            for name, numbers in how_many.items()
        }

    def events(self, rng: Rng, count: int) -> Events:
        columns = event_columns(FLIGHT_NUMBERS, marginals.ranks(rng, count, FLIGHT_NUMBERS))
        for name, (vocabulary, weights) in FLIGHT_WORDS.items():
            columns[name] = named(vocabulary, rng.choice(len(weights), count, p=weights))
        return Events(columns)

    def for_trial(self) -> Source:
        return self


# --- zipf ----------------------------------------------------------------------------------------

_SPOTS, _ZIPF_SYMBOLS = 100, 10_000
ZIPF = tuple(Marginal(f"x{i}", lambda ranks: np.round(ranks * 1000, 3)) for i in range(6))


class Zipf:
    """Six numbers around 100 hot spots, and a symbol of 10 000; half of the filters name one."""

    def table(self, rng: Rng, count: int, share: float) -> Table:
        used = chosen(rng, count, len(ZIPF), 2, 5)
        low, high = intervals(rng, self._centres(rng, count), used, share)
        lows, highs = valued(ZIPF, low, high)
        symbols = drawn_words(rng, zipf_weights(_ZIPF_SYMBOLS, 1), rng.integers(0, 2, count))
        vocabulary = {"symbol": words("Z", _ZIPF_SYMBOLS)}
        return Table(lows, highs, {"symbol": symbols}, vocabulary)

    def events(self, rng: Rng, count: int) -> Events:
        columns = event_columns(ZIPF, self._centres(rng, count))
        weights = zipf_weights(_ZIPF_SYMBOLS, 1)
        codes = rng.choice(_ZIPF_SYMBOLS, count, p=weights)
        columns["symbol"] = named(words("Z", _ZIPF_SYMBOLS), codes)
        return Events(columns)

    def _centres(self, rng: Rng, count: int) -> Array:
        """Draw ranks around hot spots, for each attribute by itself; the first spots are the
        hottest."""
        shape = (count, len(ZIPF))
        spots = rng.choice(_SPOTS, shape, p=zipf_weights(_SPOTS, 1))
        return np.asarray((spots * 0.618 % 1 + rng.normal(0, 0.004, shape)) % 1)

    def for_trial(self) -> Source:
        return self


SOURCES: Mapping[str, Source] = {
    "stock": Stock(),
    "stock mixed": Stock(fewest=3),
    "stock symbol": Stock(symbols=SYMBOLS),
    "flights": Flights(),
    "zipf": Zipf(),
}
