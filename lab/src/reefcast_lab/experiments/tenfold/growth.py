"""How figures grow with the brokers: exponents of a power law, fitted on logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from reefcast_lab.bench.page_tables import markdown
from reefcast_lab.experiments.effects import t_quantile
from reefcast_lab.experiments.evidence_tables import NONE, Case, Found
from reefcast_lab.experiments.tenfold.networks import ROUTINGS
from reefcast_lab.experiments.tenfold.simulated import NAME as SIMULATED
from reefcast_lab.experiments.tenfold.structural import NAME as STRUCTURAL

METRICS = {
    "advertise_messages": "messages of an advertisement",
    "advertisement_rows": "rows of advertisements",
    "subscription_messages": "messages of a subscription",
    "subscription_rows": "rows of subscriptions",
    "publication_messages": "messages of a publication",
    "hops": "links to a subscriber",
}


class Exponent(NamedTuple):
    """The slope of a line through logarithms, and half the width of its 95 % interval: None where
    two points leave no room for one."""

    slope: float
    interval: float | None


def exponent(points: Sequence[tuple[float, float]]) -> Exponent | None:
    """Return the slope of y = a x^slope, fitted by least squares on the logarithms of points with
    both above 0; None if these have fewer than two x."""
    above = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in above}) < 2:
        return None
    x, y = np.array(above).T
    from_mean = x - x.mean()
    spread = float((from_mean**2).sum())
    slope = float((from_mean * y).sum() / spread)
    if len(above) == 2:
        return Exponent(slope, None)
    residuals = y - y.mean() - slope * from_mean
    freedom = len(above) - 2
    error = math.sqrt(float((residuals**2).sum()) / freedom / spread)
    return Exponent(slope, t_quantile(freedom) * error)


def table(found: Found, campaign: str) -> str:
    """Return a table of exponents, a line for each figure, a column for each routing."""
    lines = [
        [title, *(_cell(found, campaign, metric, routing) for routing in ROUTINGS)]
        for metric, title in METRICS.items()
    ]
    return markdown(["exponent of", *ROUTINGS], lines)


def _cell(found: Found, campaign: str, metric: str, routing: str) -> str:
    points = [
        (x, value)
        for x in found.xs(campaign)
        for value in found.seeds(campaign, metric, Case(x, routing)).values()
    ]
    fitted = exponent(points)
    if fitted is None:
        return NONE
    slope = f"{fitted.slope + 0.0:.2f}".replace("-0.00", "0.00")
    return slope if fitted.interval is None else f"{slope} ± {fitted.interval:.2f}"


COMPUTED: dict[str, Callable[[Found], str]] = {
    "structural_growth": lambda found: table(found, STRUCTURAL),
    "simulated_growth": lambda found: table(found, SIMULATED),
}
"""What texts of the page name."""
