"""Stock quotes: read from a file, or made with the same statistics.

A file is a CSV (gzipped or not) with the columns date, open, high, low, close, volume and name, a
row for each symbol and day. The generator makes random walks: a day's return is a jump over night
and one over the day, both with a part that all symbols share; the day's range is lognormal, and
volume is lognormal with memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reefcast.errors import ConfigurationError
from reefcast.model.publication import Value

NUMBERS = ("open", "high", "low", "close", "volume", "change")
"""The numeric attributes; with the symbol, the seven of the paper."""
COLUMNS = ("date", "open", "high", "low", "close", "volume", "name")
SHORTEST_DAYS = 250
"""Symbols with a shorter history are left out: their ranges say little."""

Column = NDArray[np.float64]


@dataclass(frozen=True)
class Quotes:
    """The history of one symbol: a column of equal length for each of `NUMBERS`."""

    symbol: str
    columns: dict[str, Column]

    def __len__(self) -> int:
        return len(self.columns["close"])

    def event(self, day: int) -> dict[str, Value]:
        """Return the attributes of the quote of that day; after the last day comes the first
        again."""
        at = day % len(self)
        event: dict[str, Value] = {"symbol": self.symbol}
        for name in NUMBERS:
            value = float(self.columns[name][at])
            event[name] = int(value) if name == "volume" else value
        return event

    def ranges(self) -> dict[str, tuple[float, float]]:
        """Return the least and the largest value of each numeric attribute."""
        return {
            name: (float(column.min()), float(column.max()))
            for name, column in self.columns.items()
        }


@dataclass(frozen=True)
class StockStatistics:
    """What data and generator have in common; logarithms are natural.

    `level_*`: of ln of a symbol's median closing price. `volatility_*`: of ln of the standard
    deviation of a symbol's daily log returns. `correlation`: of the returns of two symbols, mean.
    `gap_share`: standard deviation of ln(open / last close) over that of returns. `range_ratio`:
    mean of ln(high / low) over the standard deviation of returns; `range_sd`: of ln of it, within a
    symbol. `volume_mean`, `volume_sd`: of a symbol's mean ln volume; `volume_within`,
    `volume_memory`: standard deviation and autocorrelation of ln volume within a symbol.
    """

    level_mean: float
    level_sd: float
    volatility_mean: float
    volatility_sd: float
    correlation: float
    gap_share: float
    range_ratio: float
    range_sd: float
    volume_mean: float
    volume_sd: float
    volume_within: float
    volume_memory: float


def _quotes(symbol: str, day: dict[str, Any]) -> Quotes:
    close = day["close"]
    change = np.diff(close, prepend=close[0]) / np.concatenate((close[:1], close[:-1]))
    columns = {name: np.asarray(day[name], dtype=np.float64) for name in NUMBERS[:-1]}
    return Quotes(symbol, columns | {"change": np.round(change, 6)})


@lru_cache(maxsize=1)
def read_quotes(path: str) -> tuple[Quotes, ...]:
    """Read quotes by symbol, in its order. Rows that no market makes (a low above the high, no
    volume) and symbols with a short history are left out. Raises `ConfigurationError` for a file
    that cannot be read or has other columns."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        table = csv.read_csv(Path(path))
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigurationError(f"stocks {path}: {error}") from error
    missing = sorted(set(COLUMNS) - set(table.column_names))
    if missing:
        raise ConfigurationError(f"stocks {path}: there is no column {', '.join(missing)}")
    table = table.select(list(COLUMNS)).sort_by([("name", "ascending"), ("date", "ascending")])
    rows = {name: table[name].to_numpy() for name in COLUMNS}
    sane = (rows["low"] > 0) & (rows["volume"] > 0)
    for name in ("open", "close"):
        sane &= (rows["low"] <= rows[name]) & (rows[name] <= rows["high"])
    rows = {name: column[sane] for name, column in rows.items()}
    symbols, first = np.unique(rows["name"], return_index=True)
    last = np.append(first[1:], len(rows["name"]))
    return tuple(
        _quotes(str(symbol), {name: column[a:b] for name, column in rows.items()})
        for symbol, a, b in zip(symbols, first, last, strict=True)
        if b - a >= SHORTEST_DAYS
    )


def generate_quotes(
    symbols: Sequence[str], days: int, statistics: StockStatistics, rng: np.random.Generator
) -> list[Quotes]:
    """Generate a history of that many days for each symbol."""
    shared = rng.standard_normal((2, days))
    return [_walk(symbol, shared, statistics, rng) for symbol in symbols]


def _walk(
    symbol: str, shared: NDArray[np.float64], like: StockStatistics, rng: np.random.Generator
) -> Quotes:
    days = shared.shape[1]
    volatility = np.exp(rng.normal(like.volatility_mean, like.volatility_sd))
    own = rng.standard_normal((2, days))
    steps = np.sqrt(like.correlation) * shared + np.sqrt(1 - like.correlation) * own
    over_night = like.gap_share * volatility * steps[0]
    over_day = np.sqrt(1 - like.gap_share**2) * volatility * steps[1]
    level = np.cumsum(over_night + over_day)
    level += rng.normal(like.level_mean, like.level_sd) - np.median(level)
    # What is left of the range beyond the way from opening to closing lies above and below.
    middle = np.log(like.range_ratio * volatility) - like.range_sd**2 / 2
    beyond = np.exp(rng.normal(middle, like.range_sd, days)) - np.abs(over_day)
    beyond = np.maximum(beyond, 0.0)
    above = beyond * rng.random(days)
    opening = level - over_day
    rounded = {
        "open": np.exp(opening),
        "high": np.exp(np.maximum(opening, level) + above),
        "low": np.exp(np.minimum(opening, level) - (beyond - above)),
        "close": np.exp(level),
    }
    day = {name: np.maximum(np.round(column, 2), 0.01) for name, column in rounded.items()}
    return _quotes(symbol, day | {"volume": _volumes(days, like, rng)})


def _volumes(days: int, like: StockStatistics, rng: np.random.Generator) -> Column:
    noise = rng.standard_normal(days) * np.sqrt(1 - like.volume_memory**2)
    memory = np.empty(days)
    last = rng.standard_normal()
    for day in range(days):
        last = memory[day] = like.volume_memory * last + noise[day]
    mean = rng.normal(like.volume_mean, like.volume_sd)
    return np.asarray(np.maximum(np.round(np.exp(mean + like.volume_within * memory)), 1.0))


def statistics_of(quotes: Sequence[Quotes]) -> StockStatistics:
    """Compute the statistics of these histories; the correlation is of those with the most days."""
    rows = [_statistics_of_one(one) for one in quotes]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    longest = max(map(len, quotes))
    returns = [np.diff(np.log(q.columns["close"])) for q in quotes if len(q) == longest]
    pairs = np.corrcoef(np.array(returns))[np.triu_indices(len(returns), 1)]
    means = {
        "level_mean": columns["level"].mean(),
        "level_sd": columns["level"].std(),
        "volatility_mean": columns["volatility"].mean(),
        "volatility_sd": columns["volatility"].std(),
        "correlation": pairs.mean(),
        "volume_mean": columns["volume"].mean(),
        "volume_sd": columns["volume"].std(),
    }
    for name in ("gap_share", "range_ratio", "range_sd", "volume_within", "volume_memory"):
        means[name] = np.median(columns[name])
    return StockStatistics(**{f.name: float(means[f.name]) for f in fields(StockStatistics)})


def _statistics_of_one(quotes: Quotes) -> dict[str, float]:
    column = quotes.columns
    returns = np.diff(np.log(column["close"]))
    gaps = np.log(column["open"][1:] / column["close"][:-1])
    ranges = np.log(column["high"] / column["low"])
    volume = np.log(column["volume"])
    return {
        "level": float(np.log(np.median(column["close"]))),
        "volatility": float(np.log(returns.std())),
        "gap_share": float(gaps.std() / returns.std()),
        "range_ratio": float(ranges.mean() / returns.std()),
        "range_sd": float(np.log(ranges[ranges > 0]).std()),
        "volume": float(volume.mean()),
        "volume_within": float(volume.std()),
        "volume_memory": float(np.corrcoef(volume[1:], volume[:-1])[0, 1]),
    }
