"""Random values by their ranks: attributes that hang together, with whatever distribution each.

A rank is a number between 0 and 1, spread evenly for each attribute; attributes of one group are
correlated. A monotone function makes values of ranks, so an interval of ranks of width w holds a
share w of the values, and the width of a filter's intervals says how selective it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from reefcast_lab.bench.matching.table import Array

_GRID = np.linspace(1e-6, 1 - 1e-6, 20_001)
_NORMAL = np.array([NormalDist().inv_cdf(rank) for rank in _GRID])


def normal(ranks: Array) -> Array:
    """Return ranks as values of the standard normal distribution; beyond 1e-6 of the ends, its
    value."""
    return np.asarray(np.interp(ranks, _GRID, _NORMAL))


@dataclass(frozen=True, slots=True)
class Marginal:
    """`value` makes values of ranks, monotonely. `group` and `tie`: the share of the variance that
    the attribute has in common with the others of its group (no group: none)."""

    name: str
    value: Callable[[Array], Array]
    integer: bool = False
    group: str = ""
    tie: float = 0.0


def spread(low: float, high: float) -> Callable[[Array], Array]:
    """Return integers from `low` to `high`, evenly."""
    return lambda ranks: np.floor(low + ranks * (high - low + 0.999999))


def bell(mean: float, deviation: float) -> Callable[[Array], Array]:
    return lambda ranks: np.round(mean + deviation * normal(ranks), 2)


def log_bell(median: float, sigma: float, shift: float = 0.0) -> Callable[[Array], Array]:
    """Log-normal, to two digits."""
    return lambda ranks: np.round(shift + median * np.exp(sigma * normal(ranks)), 2)


def whole(value: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda ranks: np.rint(value(ranks))


def ranks(rng: np.random.Generator, count: int, marginals: Sequence[Marginal]) -> Array:
    """Draw float64 ranks (count, attributes)."""
    common = {
        group: rng.standard_normal(count)
        for group in sorted({m.group for m in marginals if m.group})
    }
    made = np.empty((count, len(marginals)))
    for i, marginal in enumerate(marginals):
        own = rng.standard_normal(count)
        if marginal.group:
            own = np.sqrt(marginal.tie) * common[marginal.group] + np.sqrt(1 - marginal.tie) * own
        made[:, i] = np.interp(own, _NORMAL, _GRID)
    return made


def zipf_weights(count: int, exponent: float) -> Array:
    """Return the probabilities of `count` things, the first the most popular."""
    weights = 1 / np.arange(1, count + 1) ** exponent
    return np.asarray(weights / weights.sum())
