"""What the file of parameters says of stocks, overload, costs and links."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from reefcast.routing.links import Overload
from reefcast.simulation.costs import CostModel
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.senders import Sharing
from reefcast_lab.experiments.octopia.stocks import StockStatistics
from reefcast_lab.experiments.parameters import ParameterFile

FILE = Path(__file__).with_name("parameters.toml")
STOCKS_VARIABLE = "REEFCAST_STOCKS"

section = ParameterFile(FILE).section


def stocks_file() -> str:
    """Return the file of quotes that the environment names; "" for the generator."""
    return os.environ.get(STOCKS_VARIABLE, "")


def stock_statistics() -> StockStatistics:
    """Return the statistics of the generator."""
    entries = section("stocks")
    return StockStatistics(**{f.name: getattr(entries, f.name) for f in fields(StockStatistics)})


def overload() -> Overload:
    """Return the paper's tau and t_w."""
    entries = section("overload")
    return Overload(tau=entries.tau, window_s=entries.window_s)


def _factor(variant: str) -> float:
    return float(getattr(section("preset"), variant)) if variant else 1.0


def costs(variant: str) -> CostModel:
    """Return the costs of a broker's CPU; the variant is "", "half" or "double"."""
    entries, factor = section("preset"), _factor(variant)
    control_s = entries.control_s * factor
    return CostModel(
        publication_s=entries.publication_s * factor,
        matched_row_s=entries.matched_row_s * factor,
        table_row_s=entries.table_row_s * factor,
        copy_s=entries.copy_s * factor,
        link_check_s=entries.link_check_s * factor,
        search_row_s=entries.search_row_s * factor,
        advertisement_row_s=entries.advertisement_row_s * factor,
        advertise_s=control_s,
        unadvertise_s=control_s,
        subscribe_s=control_s,
        unsubscribe_s=control_s,
        answer_s=entries.answer_s * factor,
        timer_s=entries.answer_s * factor,
    )


def link(variant: str, per_s: float = 0.0) -> LinkSpec:
    """Return the specification of every link, with a sender of `per_s` publications a second; by
    default the preset's."""
    entries, factor = section("preset"), _factor(variant)
    return LinkSpec(
        latency_s=entries.latency_s * factor,
        bytes_per_s=(per_s or entries.send_rate) * entries.publication_bytes / factor,
        jitter_s=entries.jitter_s * factor,
    )


@dataclass(frozen=True, kw_only=True)
class Wires:
    """Every link, and the links that share a `sender`; `machines`: of brokers, if these do."""

    link: LinkSpec
    sender: Sharing
    machines: Mapping[str, str] = field(default_factory=dict)


def wires(variant: str) -> Wires:
    """Return the preset's wires."""
    return Wires(link=link(variant), sender=section("preset").sender)
