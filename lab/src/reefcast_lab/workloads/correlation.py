"""How alike sets of interests are, as in StAN's Table 1.

Pearson's correlation of two clients' yes and no over all topics, which is the phi coefficient; a
pair counts as correlated where it differs from 0 in the usual two-sided test: phi^2 times the
number of topics is chi-squared with one degree of freedom. Other readings of that table are
discussed in `experiments/gossip/correlation.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

CRITICAL = {90: 1.6449, 95: 1.9600, 98: 2.3263, 99: 2.5758}
"""Of |z|, by the level of confidence in percent."""


def share_correlated(sets: Flags, confidence: int) -> float:
    """`sets` [client, topic]: of all pairs of clients the share that is correlated at this level;
    0 for less than two clients."""
    clients = len(sets)
    if clients < 2:
        return 0.0
    found = _scores(sets) >= CRITICAL[confidence]
    np.fill_diagonal(found, False)
    return float(found.sum()) / (clients * (clients - 1))


def _scores(sets: Flags) -> Floats:
    """[a, b]: by how many standard deviations the correlation differs from 0; 0 where one of the
    two wants all or nothing."""
    number = sets.shape[1]
    rows = sets.astype(np.float64)
    size = rows.sum(axis=1)
    spread = np.sqrt(size * (number - size))
    with np.errstate(invalid="ignore", divide="ignore"):
        phi = (number * (rows @ rows.T) - np.outer(size, size)) / np.outer(spread, spread)
    return np.asarray(np.nan_to_num(np.sqrt(number) * np.abs(phi)), np.float64)
