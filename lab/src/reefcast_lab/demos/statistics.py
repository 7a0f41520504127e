"""What a generator of subscriptions must know of the events: quantiles and frequent values."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

PERCENT = 100
_FREQUENT = 40


@dataclass(frozen=True, slots=True)
class Statistics:
    """`quantiles`: attribute -> its values at 0, 1, ..., 100 percent of the events that have it;
    `frequent`: attribute -> its most frequent values with their counts, most frequent first."""

    quantiles: dict[str, tuple[float, ...]]
    frequent: dict[str, tuple[tuple[str, int], ...]]

    def quantile(self, attribute: str, percent: int) -> float:
        return self.quantiles[attribute][percent]

    def draw(self, attribute: str, rng: random.Random, top: int = _FREQUENT) -> str:
        """Draw one of the `top` most frequent values; more frequent ones are likelier."""
        values, counts = zip(*self.frequent[attribute][:top], strict=True)
        return str(rng.choices(values, counts)[0])


def gather(events: pa.Table, numbers: Sequence[str], strings: Sequence[str]) -> Statistics:
    """Compute the statistics of these columns of `events`. Attributes that no event has are left
    out."""
    shares = [percent / PERCENT for percent in range(PERCENT + 1)]
    quantiles, frequent = {}, {}
    for name in numbers:
        values = pc.quantile(events[name], q=shares, interpolation="lower").to_pylist()
        if values[0] is not None:
            quantiles[name] = tuple(values)
    for name in strings:
        values = pc.value_counts(events[name].drop_null().cast(pa.string())).to_pylist()
        falling = sorted(values, key=lambda each: (-each["counts"], each["values"]))
        frequent[name] = tuple((each["values"], each["counts"]) for each in falling[:_FREQUENT])
    return Statistics(quantiles, {name: values for name, values in frequent.items() if values})
