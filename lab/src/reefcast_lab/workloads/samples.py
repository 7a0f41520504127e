"""A sample of events, small enough for every process, and its quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast.pipeline.matching.shared import stream_of
from reefcast_lab.workloads.draws import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    Floats = NDArray[np.float64]

SAMPLED = 10_000


@dataclass(frozen=True, slots=True)
class Sample:
    """`ranks` [attribute, event]: between 0 and 1, the same for equal values, NaN where it is
    missing; `values`: of each attribute those that there are, each once, ascending; `middles`:
    their ranks; `whole`: numbers of the events that have all attributes."""

    names: tuple[str, ...]
    is_whole_number: tuple[bool, ...]
    values: tuple[Floats, ...]
    middles: tuple[Floats, ...]
    ranks: Floats
    whole: NDArray[np.int64]

    def ends(self, middle: Floats, reach: float) -> Iterator[tuple[str, str, str]]:
        """Yield, for each attribute, its name and the values this far below and above these ranks,
        as filters write them; the value in the middle is always between them."""
        for i, name in enumerate(self.names):
            asked = (middle[i] - reach, middle[i], middle[i] + reach)
            low, here, high = np.interp(asked, self.middles[i], self.values[i]).tolist()
            if self.is_whole_number[i]:
                yield (
                    name,
                    str(min(math.ceil(low), round(here))),
                    str(max(math.floor(high), round(here))),
                )
            else:
                yield name, repr(low), repr(high)


def sample_of(events: DataFrame, names: Sequence[str], seed: int) -> bytes:
    """Return at most `SAMPLED` events, drawn by their numbers, as an Arrow stream. Executors keep
    as many each, the driver too."""
    drawn = events.orderBy(uniform(seed, "sample", F.col("event")), "event").limit(SAMPLED)
    table = drawn.select(*(F.col(f"`{name}`") for name in names)).toArrow()
    data = stream_of(table)
    if not read_sample(data, names).whole.size:
        raise ConfigurationError(f"no event of the sample has all of {', '.join(names)}")
    return data


def read_sample(data: bytes, names: Sequence[str]) -> Sample:
    import pyarrow as pa

    table = pa.ipc.open_stream(data).read_all()
    columns = [np.asarray(table[name].to_numpy(), np.float64) for name in names]  # NaN: missing
    known = [np.sort(column[~np.isnan(column)]) for column in columns]
    values = [np.unique(there) for there in known]
    ranks = np.array([_ranks(there, c) for there, c in zip(known, columns, strict=True)])
    return Sample(
        names=tuple(names),
        is_whole_number=tuple(pa.types.is_integer(table[name].type) for name in names),
        values=tuple(values),
        middles=tuple(_ranks(*each) for each in zip(known, values, strict=True)),
        ranks=ranks,
        whole=np.flatnonzero(~np.isnan(ranks).any(axis=0)),
    )


def _ranks(known: Floats, asked: Floats) -> Floats:
    """Return the middle of the places that a value has among the known ones, from 0 to 1."""
    places = np.searchsorted(known, asked, "left") + np.searchsorted(known, asked, "right")
    return np.where(np.isnan(asked), np.nan, places / (2 * max(len(known), 1)))
