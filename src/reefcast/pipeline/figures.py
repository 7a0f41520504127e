"""The report's figures, as SVG to be put into a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from reefcast.pipeline import units
from reefcast.pipeline.drawing import AMBER, CORAL, GREY, SERIES, TEAL, svg_for_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reefcast.pipeline.analysis import Analysis

# --- delays --------------------------------------------------------------------------------------


def delays(analysis: Analysis) -> str:
    """Draw a histogram of delays over a logarithmic axis, and the share delivered within a
    delay."""
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


def over_time(analysis: Analysis) -> str:
    """Draw for each second of the run publications and deliveries above, the longest delay below,
    and the faults of a simulated run."""
    return svg_for_page("time", 10, 4.2, lambda figure: _draw_over_time(figure, analysis))


def _draw_over_time(figure: Figure, analysis: Analysis) -> None:
    counts, delays = figure.subplots(2, 1, sharex=True)
    seconds = analysis.seconds
    at = np.array(_column(seconds, "second"), dtype=float)
    if not analysis.run["simulated"]:  # whose seconds are those of UTC
        at -= at[0]
    for name, colour in (("published", TEAL), ("sent", AMBER), ("deliveries", CORAL)):
        label = "between brokers" if name == "sent" else name
        counts.plot(at, _column(seconds, name), color=colour, label=label)
    counts.set_ylabel("a second")
    counts.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=9)
    for name, colour in (("delay_mean_us", TEAL), ("delay_max_us", CORAL)):
        values = np.array(_column(seconds, name), dtype=float)  # None is NaN: a gap
        delays.plot(at, values, color=colour, label=name.split("_")[1])
    delays.set_yscale("symlog", linthresh=1)
    delays.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.duration(value)))
    delays.set_ylabel("delay")
    delays.set_xlabel("seconds of the run")
    delays.legend(loc="upper left", fontsize=9)
    for axes in (counts, delays):
        axes.grid(axis="y")
        _mark(axes, analysis.run.get("faults", []), at[-1])


def _mark(axes: Axes, faults: list[dict[str, Any]], ended_s: float) -> None:
    """Mark the seconds of each fault by a shade; draw one that takes no time as a line."""
    for fault in faults:
        from_s, to_s = fault["from_s"], fault["to_s"]
        if from_s <= ended_s:
            to_s = ended_s if to_s is None else min(to_s, ended_s)
            axes.axvspan(from_s, to_s, color=GREY, alpha=0.2, linewidth=0)
            axes.axvline(from_s, color=GREY, linewidth=1, linestyle="--")


# --- bars ----------------------------------------------------------------------------------------


def brokers(analysis: Analysis) -> str:
    """Draw the messages that each broker received, forwarded and delivered."""
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
    """Draw the most rows that each table had, per broker."""
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
