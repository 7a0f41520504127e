"""The plots of the demonstration of covering, as SVG to be put into a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from reefcast.pipeline import units
from reefcast.pipeline.drawing import CORAL, INK, TEAL, svg_for_page
from reefcast_lab.demos.burst_figures import Delays, Numbers, comings, goings
from reefcast_lab.demos.burst_live import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {"active": CORAL, "incremental": TEAL}
BIN_US, FINE_US = 100_000, 20_000
"""The bins of the whole run, and those of the monitor's visits."""
BEFORE_S, AFTER_S = 0.3, 0.5
"""Shown before the monitor comes or goes, and after every broker knew."""

Binned = tuple[Numbers, Numbers, Numbers]


def binned(at_us: Numbers, values: Numbers, width_us: int) -> Binned:
    """Return, for each bin with values, where it starts (in bins), their median and their
    largest."""
    order = np.lexsort((values, at_us // width_us))
    bins, sorted_values = (at_us // width_us)[order], values[order]
    names, starts = np.unique(bins, return_index=True)
    ends = np.append(starts[1:], len(bins))
    return names, sorted_values[(starts + ends - 1) // 2], sorted_values[ends - 1]


def timeline(runs: Sequence[Run]) -> str:
    """Draw delay over time, a panel for each run, with the monitor's visits shaded."""

    def draw(figure: Figure) -> None:
        panels = figure.subplots(len(runs), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, run in zip(panels, runs, strict=True):
            _draw_run(axes, run)
        panels[-1].set_xlabel("seconds after the first event")

    return svg_for_page("timeline", 10, 0.6 + 2.5 * len(runs), draw)


def _draw_run(axes: Axes, run: Run) -> None:
    delays = Delays(run)
    bins, median, longest = binned(delays.published_us, delays.delay_us, BIN_US)
    colour = COLOURS[run.covering]
    for number, visit in enumerate(run.visits):
        span = ((at - delays.origin_us) / 1e6 for at in (visit.came_us, visit.left_us))
        name = "the monitor is there" if number == 0 else None
        axes.axvspan(*span, color=INK, alpha=0.08, linewidth=0, label=name)
    at_s = (bins + 0.5) * BIN_US / 1e6
    axes.plot(at_s, longest, color=colour, linewidth=1.4, label="longest in 0.1 s")
    axes.plot(at_s, median, color=INK, linewidth=0.9, alpha=0.6, label="median in 0.1 s")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.duration(value)))
    axes.set_ylabel("delay")
    axes.set_title(run.covering, loc="left", fontsize=11, color=colour, fontweight="bold")
    axes.grid(axis="y")
    axes.margins(x=0.01)
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, fontsize=9)


def moments(runs: Sequence[Run]) -> str:
    """Draw what happens when the monitor comes, and when it leaves: the longest delays, and the
    control messages so far; a line for each visit."""

    def draw(figure: Figure) -> None:
        panels = figure.subplots(2, 2, sharex="col", sharey="row", height_ratios=(3, 2))
        for column, (what, spans_of) in enumerate((("comes", comings), ("goes", goings))):
            for run in runs:
                for number, span in enumerate(spans_of(run.visits)):
                    name = run.covering if number == 0 else None
                    _draw_moment(panels[:, column], run, span, name)
            panels[0, column].set_title(f"the monitor {what}", loc="left", fontsize=11)
            panels[1, column].set_xlabel(f"seconds after it {what}")
        panels[0, 0].set_ylabel("longest delay of an event\npublished then")
        panels[1, 0].set_ylabel("messages between\nbrokers so far")
        panels[0, 1].legend(loc="upper right", fontsize=9)

    return svg_for_page("moments", 10, 5.4, draw)


def _draw_moment(panels: Sequence[Axes], run: Run, span: tuple[int, int], name: str | None) -> None:
    delays = Delays(run)
    start_us, end_us = (at - delays.origin_us for at in span)
    first_us, last_us = start_us - int(BEFORE_S * 1e6), end_us + int(AFTER_S * 1e6)
    look: dict[str, Any] = {
        "color": COLOURS[run.covering],
        "linewidth": 1.3,
        "alpha": 0.8,
        "label": name,
    }

    shown = (delays.published_us >= first_us) & (delays.published_us < last_us)
    at_us = delays.published_us[shown] - start_us
    bins, _, longest = binned(at_us, delays.delay_us[shown], FINE_US)
    panels[0].plot((bins + 0.5) * FINE_US / 1e6, longest, **look)
    panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.duration(value)))

    sent_us = np.array([at for at, _ in run.control], dtype=np.int64) - delays.origin_us
    sent_us = np.sort(sent_us[(sent_us >= first_us) & (sent_us < last_us)]) - start_us
    steps = np.concatenate(((first_us - start_us,), sent_us, (last_us - start_us,))) / 1e6
    so_far = np.concatenate((np.arange(len(sent_us) + 1), (len(sent_us),)))
    panels[1].plot(steps, so_far, drawstyle="steps-post", **look)
    panels[1].yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.short(value)))
    for axes in panels:
        axes.grid(axis="y")
