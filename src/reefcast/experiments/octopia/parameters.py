"""The file of parameters, read: values only; units and sources are for the reader of the file."""

from __future__ import annotations

import os
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from reefcast.errors import ConfigurationError
from reefcast.experiments.octopia.stocks import StockStatistics
from reefcast.routing.links import Overload
from reefcast.simulation.costs import CostModel
from reefcast.simulation.links import LinkSpec

FILE = Path(__file__).with_name("parameters.toml")
STOCKS_VARIABLE = "REEFCAST_STOCKS"


class Section:
    """The entries of one section at one scale, as attributes."""

    def __init__(self, name: str, scale: str, entries: dict[str, dict[str, Any]]) -> None:
        self._name = name
        self._values = {key: _value(f"{name}.{key}", scale, e) for key, e in entries.items()}

    def __getattr__(self, key: str) -> Any:
        try:
            return self._values[key]
        except KeyError:
            raise ConfigurationError(f"{FILE.name} has no {self._name}.{key}") from None


def _value(key: str, scale: str, entry: dict[str, Any]) -> Any:
    for name in ("unit", "source"):
        if not entry.get(name):
            raise ConfigurationError(f"{FILE.name}: {key} has no {name}; give one")
    value = entry.get("value", entry.get(scale))
    if value is None:
        raise ConfigurationError(f"{FILE.name}: {key} has no value for the scale {scale!r}")
    return value


@cache
def _file() -> dict[str, dict[str, dict[str, Any]]]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@cache
def section(name: str, scale: str = "paper") -> Section:
    """Raises `ConfigurationError` for a section that the file does not have."""
    entries = _file().get(name)
    if entries is None:
        raise ConfigurationError(f"{FILE.name} has no section {name!r}")
    return Section(name, scale, entries)


def stocks_file() -> str:
    """The file of quotes that the environment names; "" for the generator."""
    return os.environ.get(STOCKS_VARIABLE, "")


def stock_statistics() -> StockStatistics:
    """What the generator makes."""
    entries = section("stocks")
    return StockStatistics(**{f.name: getattr(entries, f.name) for f in fields(StockStatistics)})


def overload() -> Overload:
    """The paper's tau and t_w."""
    entries = section("overload")
    return Overload(tau=entries.tau, window_s=entries.window_s)


def _factor(variant: str) -> float:
    return float(getattr(section("preset"), variant)) if variant else 1.0


def costs(variant: str) -> CostModel:
    """What the CPU of a broker takes; the variant is "", "half" or "double"."""
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


def link(variant: str) -> LinkSpec:
    """What every link is like."""
    entries, factor = section("preset"), _factor(variant)
    return LinkSpec(
        latency_s=entries.latency_s * factor,
        bytes_per_s=entries.link_rate * entries.publication_bytes / factor,
        jitter_s=entries.jitter_s * factor,
    )
