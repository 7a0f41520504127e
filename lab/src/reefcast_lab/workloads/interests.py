"""Topics that clients have in common, correlated as strongly as asked.

The grid of StAN's evaluation (section 3; `experiments/gossip` has it for numpy): clients and the
ids of topics lie on a square of cells at random, a topic has more or fewer ids, a client a wider or
narrower radius of interest, both by power laws; a client subscribes to the topics that have an id
within its radius.

How alike interests are is told as in the paper's Table 1: the share of the pairs of clients whose
sets of topics are correlated (Pearson) at a level of confidence. That they are comes from some
topics being wanted by many; that neighbours want the same adds little to it (we measured: places
drawn anew for each topic give the same shares). So for a weaker correlation a client takes with
some probability, in the place of a topic, one drawn evenly: which makes topics equally popular, and
leaves clients with as many. That probability is found by halves, with some hundred of the clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from reefcast.errors import ConfigurationError
from reefcast.pipeline.matching.shared import parallelism
from reefcast_lab.workloads.correlation import scores, share_of_pairs

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

SIDE = 1000
LEAST_IDS, IDS_EXPONENT = 1.0, 1.95
LEAST_RADIUS, RADIUS_EXPONENT = 40.0, 3.0
"""What reaches Table 1 at 1 000 clients, 100 topics: see `experiments/gossip/parameters.toml`."""

TRIED, HALVINGS = 400, 12
CLIENTS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Grid:
    """`shuffled`: how likely a client takes another topic in the place of one."""

    clients: int
    topics: int
    shuffled: float = 0.0
    seed: int = 0

    def topic_ids(self) -> tuple[Floats, NDArray[np.int64]]:
        """Return [id, 2]: cells; and where the ids of each topic begin and end."""
        number = np.rint(_power_law(_quantiles(self.topics), LEAST_IDS, IDS_EXPONENT))
        ends = np.concatenate([[0], np.cumsum(number)]).astype(np.int64)
        rng = np.random.default_rng([self.seed, *b"topics"])
        return rng.integers(SIDE, size=(ends[-1], 2)).astype(np.float64), ends

    def radius(self, clients: NDArray[np.int64]) -> Floats:
        """Return the radius of each client; the first have the largest."""
        widest = _power_law((clients + 0.5) / self.clients, LEAST_RADIUS, RADIUS_EXPONENT)
        return np.minimum(widest, SIDE / 2)


def interests(spark: SparkSession, grid: Grid) -> DataFrame:
    """Return client (int64), topic (int64): who subscribes to what."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _interests(batches, grid)

    rows = spark.range(0, grid.clients, 1, parallelism(spark))
    return rows.mapInArrow(run, "client BIGINT, topic BIGINT")


def correlated(clients: int, topics: int, share: float, confidence: int, seed: int) -> Grid:
    """Return the grid of which this share of the pairs of clients is correlated. Raises
    `ConfigurationError` for a share that no grid of this many topics has."""
    tried = np.unique(np.linspace(0, clients - 1, min(clients, TRIED)).astype(np.int64))
    grid = Grid(clients, topics, 0.0, seed)

    def reached(shuffled: float) -> float:
        sets = wanted_by(replace(grid, shuffled=shuffled), tried)
        return share_of_pairs(scores(sets), confidence)

    most, least = reached(0.0), reached(1.0)
    if not least <= share <= most:
        raise ConfigurationError(
            f"{topics} topics on the grid correlate {least:.2f} to {most:.2f} of the pairs of "
            f"clients at {confidence} %, not {share:g}; more topics correlate more"
        )
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) > share else (low, middle)
    return replace(grid, shuffled=(low + high) / 2)


# --- in the executors ----------------------------------------------------------------------------


def _interests(batches: Iterator[pa.RecordBatch], grid: Grid) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        numbers = batch.column(0).to_numpy()
        for start in range(0, len(numbers), CLIENTS_AT_ONCE):
            some = numbers[start : start + CLIENTS_AT_ONCE]
            client, topic = np.nonzero(wanted_by(grid, some))
            columns = [pa.array(some[client]), pa.array(topic)]
            yield pa.RecordBatch.from_arrays(columns, names=["client", "topic"])


def wanted_by(grid: Grid, clients: NDArray[np.int64]) -> Flags:
    """Return [client, topic]: whether it subscribes. Everything of a client is drawn with a
    generator of its own."""
    ids, ends = grid.topic_ids()
    own = [np.random.default_rng([grid.seed, int(client)]) for client in clients]
    here = np.array([rng.integers(SIDE, size=2) for rng in own], np.float64)
    apart = np.stack([_nearest(here, ids[a:b]) for a, b in pairwise(ends.tolist())], axis=1)
    within = apart <= grid.radius(clients)[:, None]
    taken = np.array([_taken(rng, grid) for rng in own])
    return np.asarray(np.take_along_axis(within, taken, axis=1), np.bool_)


def _taken(rng: np.random.Generator, grid: Grid) -> NDArray[np.int64]:
    """Return, by topic, the topic itself, or the one that the client takes instead. The draws do
    not depend on the probability, so that a larger one changes more."""
    shuffled, others = rng.random(grid.topics), rng.integers(grid.topics, size=grid.topics)
    return np.where(shuffled < grid.shuffled, others, np.arange(grid.topics))


def _nearest(here: Floats, ids: Floats) -> Floats:
    """Return the distance of each client from the nearest of these."""
    squares = ((here[:, None, :] - ids[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(np.sqrt(squares.min(axis=1)), np.float64)


def _quantiles(number: int) -> Floats:
    return np.asarray((np.arange(number) + 0.5) / number, np.float64)


def _power_law(above: Floats, least: float, exponent: float) -> Floats:
    """Return the quantiles of the density x^-exponent from `least` on: the values above which these
    shares are."""
    return np.asarray(least * above ** (-1.0 / (exponent - 1.0)), np.float64)
