"""Filters that match a given share of events: of any, however their attributes hang together.

A filter is a box around an event drawn at random: an interval of each of some attributes. Quantiles
of each attribute alone would not do, for a high opening comes with a high closing price. So the box
is grown around its event, in the ranks of the attributes, until it holds the wanted share of a
sample of the events: exactly, whatever their distribution is, but for the sample's error. Of 10 000
events and a share of 0.02 that is 7 % of the share for a filter, and little for the mean of many.

With Zipf's law filters differ: the share of the filter of rank r is in proportion to r^-exponent,
1 at most; `selectivity` is the mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast.pipeline.matching.shared import Shared, parallelism, share
from reefcast_lab.datasets.filter_text import attribute
from reefcast_lab.workloads.draws import uniform
from reefcast_lab.workloads.samples import Sample, read_sample, sample_of

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    Floats = NDArray[np.float64]

NUMBER_TYPES = ("bigint", "int", "double", "float")
NO_ATTRIBUTES = ("event", "time_us")


@dataclass(frozen=True, slots=True)
class Boxes:
    """So many filters that match this share of the events, in the mean; `zipf`: the exponent, 0 for
    the same share of all. `attributes`: of numbers; all, if none are named."""

    filters: int
    selectivity: float
    zipf: float = 0.0
    attributes: tuple[str, ...] = ()
    seed: int = 0

    def shares(self) -> Floats:
        """Return the share of each filter, the largest first. Raises `ConfigurationError` for
        impossible shares."""
        if not (0 < self.selectivity <= 1 and self.zipf >= 0 and self.filters > 0):
            raise ConfigurationError(
                "give a selectivity above 0 and up to 1, an exponent of Zipf's law from 0 on, and "
                "at least one filter"
            )
        falling = np.arange(1, self.filters + 1, dtype=np.float64) ** -self.zipf
        return np.minimum(1.0, _factor(falling, self.selectivity) * falling)


def _factor(falling: Floats, mean: float) -> float:
    """Return the factor with which the values, cut off at 1, have this mean; by bisection."""
    low, high = 0.0, 1.0 / float(falling.min())
    for _ in range(100):
        middle = (low + high) / 2
        reached = float(np.minimum(1.0, middle * falling).mean())
        low, high = (middle, high) if reached < mean else (low, middle)
    return high


def box_filters(events: DataFrame, wanted: Boxes) -> DataFrame:
    """Return number, filter: the broadest first. Runs a job, for the sample. Raises
    `ConfigurationError` if there is no attribute of numbers, and if no event has all that are
    named."""
    names = numbers_of(events, wanted.attributes)
    shares = wanted.shares()
    spark = events.sparkSession
    shared = share(spark, sample_of(events, names, wanted.seed))
    rows = spark.range(0, wanted.filters, 1, parallelism(spark)).select(
        "id", *(uniform(wanted.seed, what, F.col("id")).alias(what) for what in ("centre", "edge"))
    )
    shares_shared = share(spark, shares.tobytes())

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _boxes(batches, shared, shares_shared, names)

    return rows.mapInArrow(run, "number BIGINT, filter STRING")


def numbers_of(events: DataFrame, named: Sequence[str]) -> list[str]:
    """Return the numeric attributes: those that are named, or all."""
    kinds = dict(events.dtypes)
    numeric = [
        name for name, kind in kinds.items() if kind in NUMBER_TYPES and name not in NO_ATTRIBUTES
    ]
    unfit = sorted(set(named) - set(numeric))
    if unfit or not numeric:
        raise ConfigurationError(
            f"{', '.join(unfit) or 'the events'}: no attribute of numbers; there are "
            f"{', '.join(numeric) or 'none'}"
        )
    return list(named) or numeric


# --- in the executors ----------------------------------------------------------------------------


def _boxes(
    batches: Iterator[pa.RecordBatch], shared: Shared, shares: Shared, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    sample = read_sample(shared.data.value, names)
    of_all = np.frombuffer(shares.data.value, np.float64)
    for batch in batches:
        drawn = zip(*(batch.column(i).to_numpy() for i in range(3)), strict=True)
        texts = [
            box_around(sample, int(centre * len(sample.whole)), float(of_all[number]), edge)
            for number, centre, edge in drawn
        ]
        columns = [batch.column("id"), pa.array(texts, pa.string())]
        yield pa.RecordBatch.from_arrays(columns, names=["number", "filter"])


def box_around(sample: Sample, centre: int, wanted: float, edge: float) -> str:
    """Return the filter that matches this share of the sample's other events. `centre`: number of
    an event that has all attributes; `edge`: a draw from [0, 1), see `_reach`."""
    at = sample.whole[centre]
    ranks = sample.ranks[:, at]
    apart = np.abs(sample.ranks - ranks[:, None]).max(axis=0)  # NaN where one is missing
    apart[at] = np.nan
    apart = np.round(apart, DIGITS)
    reach = _reach(apart, wanted * (sample.ranks.shape[1] - 1), len(ranks), edge)
    terms = [
        f"{attribute(name)} BETWEEN {low} AND {high}"
        for name, low, high in sample.ends(ranks, reach + 10.0**-DIGITS)
    ]
    return " AND ".join(terms)


DIGITS = 9
"""Digits of a difference of ranks that count: any two that differ do so before; below, it is an
error of floats."""


def _reach(apart: Floats, wanted: float, attributes: int, edge: float) -> float:
    """Return how far to go to have this number of events, on average: as far as one event, which
    gives too few, or as the next, which gives too many; `edge` chooses. Below the nearest event,
    volume decides."""
    there = apart[~np.isnan(apart)]
    if wanted >= len(there):
        return 1.0
    far = float(np.partition(there, int(wanted))[int(wanted)])
    nearer = there[there < far]
    more = int((there == far).sum())
    part = (wanted - len(nearer)) / more
    if more == 1 and not len(nearer):
        return float(far * part ** (1 / attributes))
    return far if edge < part else float(nearer.max(initial=0.0))
