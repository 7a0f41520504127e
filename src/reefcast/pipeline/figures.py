"""The report's figures, as SVG to be put into a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from reefcast.pipeline import units
from reefcast.pipeline.drawing import AMBER, CORAL, PAPER, SERIES, TEAL, svg_for_page
from reefcast.pipeline.layout import positions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reefcast.pipeline.analysis import Analysis
    from reefcast.pipeline.costs import Cost

Places = Mapping[str, tuple[float, float]]
_ROOM = 0.45
"""Hops left free around the overlay, for circles and words."""

_LOAD = LinearSegmentedColormap.from_list("load", ("#7cc6c3", TEAL, AMBER, CORAL))


# --- the overlay ---------------------------------------------------------------------------------


def overlay(analysis: Analysis, notes: Mapping[str, str]) -> str:
    """Brokers and links; the load of a link is its width and colour and the number on it.
    `notes`: a word or two to be written under a broker."""
    ends = [(link["a"], link["b"]) for link in analysis.links]
    place = positions(analysis.run["brokers"], ends)
    xs, ys = (np.array(axis) for axis in zip(*place.values(), strict=True))
    wide, high = np.ptp(xs) + 2 * _ROOM, np.ptp(ys) + 2 * _ROOM
    height = min(max(10 * high / wide, 2), 5.5) + 0.7

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(xs.min() - _ROOM, xs.max() + _ROOM)
        axes.set_ylim(ys.min() - _ROOM, ys.max() + _ROOM)
        _draw_overlay(figure, axes, analysis, place, notes)

    return svg_for_page("overlay", 10, height, draw)


def _draw_overlay(
    figure: Figure, axes: Axes, analysis: Analysis, place: Places, notes: Mapping[str, str]
) -> None:
    most = max((link["publications"] for link in analysis.links), default=0) or 1
    for link in analysis.links:
        _draw_link(axes, place[link["a"]], place[link["b"]], link["publications"], most)
    _draw_brokers(axes, analysis, place, notes)
    scale = matplotlib.cm.ScalarMappable(Normalize(0, most), _LOAD)
    bar = figure.colorbar(scale, ax=axes, orientation="horizontal", shrink=0.32, aspect=38, pad=0)
    bar.outline.set_visible(False)
    bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.short(value)))
    bar.set_label("publications on a link, both directions", fontsize=9)


def _draw_link(
    axes: Axes, a: tuple[float, float], b: tuple[float, float], load: int, most: int
) -> None:
    colour = to_hex(_LOAD(load / most))
    (x1, y1), (x2, y2) = a, b
    axes.plot(
        (x1, x2), (y1, y2), color=colour, linewidth=1.5 + 9 * load / most,
        solid_capstyle="round", zorder=1,
    )  # fmt: skip
    axes.text(
        (x1 + x2) / 2, (y1 + y2) / 2, units.short(load), ha="center", va="center", fontsize=8.5,
        color="#ffffff", zorder=2,
        bbox={"boxstyle": "round,pad=0.28", "facecolor": "#22313f", "edgecolor": "none"},
    )  # fmt: skip


def _draw_brokers(
    axes: Axes,
    analysis: Analysis,
    place: Places,
    notes: Mapping[str, str],
) -> None:
    most = max((row["deliveries"] for row in analysis.brokers), default=0) or 1
    for row in analysis.brokers:
        x, y = place[row["broker"]]
        area = 650 + 1500 * row["deliveries"] / most
        axes.scatter(
            [x], [y], s=area, color="#14505c", edgecolors="#ffffff", linewidths=2, zorder=3
        )
        axes.text(
            x, y, row["broker"], ha="center", va="center", color="#ffffff", fontsize=10,
            fontweight="bold", zorder=4,
        )  # fmt: skip
        if row["broker"] in notes:
            above = _links_go_down(analysis, place, row["broker"])
            away = area**0.5 / 2 + 4
            axes.annotate(
                notes[row["broker"]], (x, y), xytext=(0, away if above else -away),
                textcoords="offset points", ha="center", va="bottom" if above else "top",
                fontsize=9, zorder=4,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": PAPER, "edgecolor": "none"},
            )  # fmt: skip


def _links_go_down(analysis: Analysis, place: Places, broker: str) -> bool:
    """Whether there is more room for words above the broker than below."""
    ends = [(link["a"], link["b"]) for link in analysis.links if broker in (link["a"], link["b"])]
    y = place[broker][1]
    return sum(place[a][1] + place[b][1] - 2 * y for a, b in ends) < 0


# --- delays --------------------------------------------------------------------------------------


def delays(analysis: Analysis) -> str:
    """Histogram over a logarithmic axis, and the share delivered within a delay."""
    return svg_for_page("delays", 6.4, 3.6, lambda figure: _draw_delays(figure, analysis))


def _draw_delays(figure: Figure, analysis: Analysis) -> None:
    low, high, counts = (
        np.array([row[name] for row in analysis.delay_bins], dtype=float)
        for name in ("low_us", "high_us", "count")
    )
    shares = counts / counts.sum()
    axes = figure.add_subplot()
    axes.bar(low, 100 * shares, width=high - low, align="edge", color=TEAL, alpha=0.75, linewidth=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.duration(value)))
    axes.set_xlabel("delay, publisher to broker of the subscriber")
    axes.set_ylabel("share of the deliveries, %", color=TEAL)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    within = axes.twinx()
    within.plot(high, 100 * np.cumsum(shares), color=CORAL, linewidth=2)
    within.set_ylim(0, 102)
    within.spines["right"].set_visible(True)
    within.set_ylabel("delivered within, %", color=CORAL)


# --- bars ----------------------------------------------------------------------------------------


def brokers(analysis: Analysis) -> str:
    """Messages that each broker took in, passed on and handed out."""
    parts = (
        ("published", "from publishers"),
        ("sent", "to other brokers"),
        ("deliveries", "to subscribers"),
    )

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        names = [row["broker"] for row in analysis.brokers]
        _stack(axes, names, [(label, _column(analysis.brokers, key)) for key, label in parts])
        axes.set_ylabel("publications")

    return svg_for_page("brokers", 6.4, 3.6, draw)


def tables(analysis: Analysis) -> str:
    """The most rows that each table had, per broker."""
    kinds = sorted({row["table"] for row in analysis.tables})
    names = [row["broker"] for row in analysis.brokers]
    rows = {(row["table"], row["broker"]): row["most"] for row in analysis.tables}

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        _stack(axes, names, [(k, [rows.get((k, name), 0) for name in names]) for k in kinds])
        axes.set_ylabel("rows at most")

    return svg_for_page("tables", 6.4, 3.6, draw)


def _column(rows: list[dict[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows]


def _stack(axes: Axes, names: list[str], series: list[tuple[str, list[float]]]) -> None:
    bottom = np.zeros(len(names))
    for (label, values), colour in zip(series, SERIES, strict=False):
        axes.bar(names, values, bottom=bottom, label=label, color=colour, width=0.72, linewidth=0)
        bottom += np.array(values, dtype=float)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.short(value)))
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.tick_params(axis="x", length=0)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(series), fontsize=9)


def costs(compared: list[Cost]) -> str:
    """Publications between brokers and to subscribers, for each way to serve them."""
    return svg_for_page("costs", 10, 1.1 + 0.55 * len(compared), lambda f: _draw_costs(f, compared))


def _draw_costs(figure: Figure, compared: list[Cost]) -> None:
    axes = figure.add_subplot()
    names = [cost.name for cost in compared]
    links = np.array([cost.link_messages for cost in compared], dtype=float)
    clients = np.array([cost.client_messages for cost in compared], dtype=float)
    axes.barh(names, links, color=TEAL, height=0.6, label="between brokers")
    axes.barh(names, clients, left=links, color=CORAL, height=0.6, label="to subscribers")
    for row, (cost, total) in enumerate(zip(compared, links + clients, strict=True)):
        text = f"{units.short(cost.messages)} messages, {units.size(cost.size_bytes)}"
        axes.annotate(
            text, (total, row), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9
        )
    axes.invert_yaxis()
    axes.set_xlim(0, 1.28 * max(links + clients))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.short(value)))
    axes.set_xlabel("publications")
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, fontsize=9)
