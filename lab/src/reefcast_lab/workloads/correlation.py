"""How alike sets of interests are, as in StAN's Table 1.

The paper built "a correlation matrix with the subscription sets", and tells for which share of
"nodes" there is a correlation at a level of confidence; no more. We take it so: Pearson's
correlation of the subscription sets of two nodes, which of yes and no is the phi coefficient, over
all topics; the share of the pairs of nodes for which it differs from 0 at that level in the usual
two-sided test (phi^2 times the number of topics is chi-squared with one degree of freedom).

Other readings: the share of the pairs of topics, or of the nodes that correlate with any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

CRITICAL = {90: 1.6449, 95: 1.9600, 98: 2.3263, 99: 2.5758}
"""Critical values of |z|, by the level of confidence in percent."""


def phi(sets: Flags) -> Floats:
    """Return [a, b]: the correlation of two rows; NaN if either has all or nothing."""
    number = sets.shape[1]
    rows = sets.astype(np.float64)
    size = rows.sum(axis=1)
    spread = np.sqrt(size * (number - size))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            (number * (rows @ rows.T) - np.outer(size, size)) / np.outer(spread, spread)
        )


def scores(sets: Flags) -> Floats:
    """Return [a, b]: by how many standard deviations the correlation of two rows differs from 0; 0
    without one, as of a row with itself."""
    found: Floats = np.nan_to_num(np.sqrt(sets.shape[1]) * np.abs(phi(sets)))
    np.fill_diagonal(found, 0.0)
    return found


def share_of_pairs(scores: Floats, confidence: int) -> float:
    """Return the share of the pairs of rows that are correlated at this level; 0 for less than
    two."""
    rows = len(scores)
    if rows < 2:
        return 0.0
    return float((scores >= CRITICAL[confidence]).sum()) / (rows * (rows - 1))


def share_of_rows(scores: Floats, confidence: int) -> float:
    """Return the share of the rows that are correlated with any other."""
    return float((scores >= CRITICAL[confidence]).any(axis=1).mean())
