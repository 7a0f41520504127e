"""What the file of parameters says of costs and of the network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reefcast.simulation.costs import CostModel
from reefcast_lab.experiments.parameters import ParameterFile

FILE = Path(__file__).with_name("parameters.toml")
PAPER = "covering"
OURS, SLOW = "measured", "slow"
"""The preset of this project's own engine; the variant of the paper's slow one."""

section = ParameterFile(FILE).section

PADRES_2011 = CostModel(
    publication_s=2e-4,
    matched_row_s=0.0,
    table_row_s=2e-7,
    copy_s=0.0,
    subscription_row_s=1.2e-7,
    comparison_s=1.9e-6,
    advertise_s=1e-3,
    unadvertise_s=1e-3,
    subscribe_s=0.0,
    unsubscribe_s=1.4e-3,
    answer_s=0.0,
)
"""The preset `padres2011`, the paper's broker (Table II): PADRES on cores of 1.86 GHz.

Its times are means of one load, 42 000 subscriptions; here they scale with what is done. It was
fitted with tables of 14 000 (active), 21 000 (lazy) and 26 000 rows (none) in the five core
brokers, before there were 20 roots; now they hold some 13 000, 18 000 and 24 000 (the page's
evidence on C1), and a subscription meets some 6 000 filters in the graph. So:

- a publication takes 0.2 ms and 0.2 us a row: 2.8, 3.9 and 4.9 ms (the paper: 3.0, 6.2, 7.9; tables
  of three times the size would make a rate of 100 a second impossible);
- matching a subscription takes 0.12 us a row of the tables while they grow: 1.1, 1.3 and 1.8 ms
  (0.81, 1.6, 1.6);
- a comparison takes 1.9 us: 11 ms for looking for covering (12 and 27).
"""


def costs(scale: str, variant: str = "") -> CostModel:
    """Return the costs of a broker's CPU; with variant "" those of the paper's, else of its slow
    one."""
    return slow_costs(scale) if variant == SLOW else _scaled(scale, 1.0, 1.0)


def slow_costs(scale: str) -> CostModel:
    """Return the costs of the paper's slow engine."""
    entries = section("slow", scale)
    return _scaled(scale, entries.row_cost, entries.comparison_cost)


def _scaled(scale: str, row_cost: float, comparison_cost: float) -> CostModel:
    """Return the paper's preset with the costs of rows and of comparisons multiplied by these
    factors, and by that which compensates for the small tables of the small scale."""
    model, times = PADRES_2011, section("network", scale).rows_cost
    return replace(
        model,
        table_row_s=model.table_row_s * times * row_cost,
        subscription_row_s=model.subscription_row_s * times * row_cost,
        comparison_s=model.comparison_s * times * comparison_cost,
    )
