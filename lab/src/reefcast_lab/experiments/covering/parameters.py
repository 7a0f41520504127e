"""What the file of parameters says of costs and of the network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from reefcast.simulation.costs import CostModel, preset
from reefcast_lab.experiments.parameters import ParameterFile

FILE = Path(__file__).with_name("parameters.toml")
PAPER = "covering"
OURS, SLOW = "measured", "slow"
"""The preset of this project's own engine; the variant of the paper's slow one."""

section = ParameterFile(FILE).section


def costs(scale: str, variant: str = "") -> CostModel:
    """What the CPU of a broker takes; with variant "" that of the paper's, else of its slow one."""
    return slow_costs(scale) if variant == SLOW else _scaled(scale, 1.0, 1.0)


def slow_costs(scale: str) -> CostModel:
    """What it takes with the paper's slow engine."""
    entries = section("slow", scale)
    return _scaled(scale, entries.row_cost, entries.comparison_cost)


def _scaled(scale: str, row_cost: float, comparison_cost: float) -> CostModel:
    """The paper's preset; the costs of rows and of comparisons times these, and times what makes
    up for the small scale's small tables."""
    model, times = preset("padres2011"), section("network", scale).rows_cost
    return replace(
        model,
        table_row_s=model.table_row_s * times * row_cost,
        subscription_row_s=model.subscription_row_s * times * row_cost,
        comparison_s=model.comparison_s * times * comparison_cost,
    )
