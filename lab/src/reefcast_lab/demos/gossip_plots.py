"""The plots of the demonstration of gossip, as SVG to be put into a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from reefcast.pipeline import units
from reefcast.pipeline.drawing import AMBER, CORAL, INK, TEAL, VIOLET, svg_for_page
from reefcast_lab.demos.burst_plots import binned as medians
from reefcast_lab.demos.gossip_figures import Due, Figures, all_due, binned
from reefcast_lab.demos.gossip_live import Run
from reefcast_lab.demos.gossip_script import Cast

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BIN_US = 1_000_000


def connections(run: Run, cast: Cast, found: Figures) -> str:
    """Draw how many connections there are over time, beside how many there would be otherwise."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        at_us, counts = (np.array(each) for each in zip(*run.connections, strict=True))
        order = np.argsort(at_us, kind="stable")
        at_s = (at_us[order] - run.started_us) / 1e6
        axes.plot(at_s, counts[order], color=TEAL, linewidth=1.8, label="connections")
        for name, colour, what in (
            ("if each topic had its own", CORAL, "unshared"),
            ("if views were random", AMBER, "unaligned"),
        ):
            _levels(axes, run, found, what, colour, name)
        _moments(axes, run)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("connections between peers")
        _time(axes, cast)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=9, ncols=5)

    return svg_for_page("connections", 10, 4.0, draw)


def _levels(axes: Axes, run: Run, found: Figures, what: str, colour: str, name: str) -> None:
    """Draw the levels of three moments, each over the time that it stands for."""
    assert run.settled and run.aligned and run.ended
    seen = [
        (found.settled, run.started_us, run.settled.at_us),
        (found.aligned, run.settled.at_us, run.aligned.at_us),
        (found.ended, run.killed_us or run.aligned.at_us, run.ended.at_us),
    ]
    for number, (moment, from_us, until_us) in enumerate(seen):
        span = [(at - run.started_us) / 1e6 for at in (from_us, until_us)]
        label = name if number == 0 else None
        value = getattr(moment, what)
        axes.plot(span, [value, value], color=colour, linestyle="--", linewidth=1.2, label=label)


def delivery(run: Run, cast: Cast) -> str:
    """Draw the share of the due deliveries that came, at once and at all; below, how long they
    took."""

    def draw(figure: Figure) -> None:
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        dues = list(all_due(run, cast))
        at_us, prompt, came = binned(dues, run.started_us, BIN_US)
        at_s = (at_us + BIN_US / 2) / 1e6
        above.plot(at_s, came, color=VIOLET, linewidth=1.4, label="in the end")
        above.plot(at_s, prompt, color=TEAL, linewidth=1.6, label="within a second")
        above.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        above.set_ylim(min(prompt.min(initial=1.0) - 0.02, 0.9), 1.005)
        above.set_ylabel("of the peers that\nwanted an event, got it")
        above.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=9, ncols=2)
        _delays(below, dues, run)
        _moments(above, run)
        _moments(below, run, named=False)
        _time(below, cast)

    return svg_for_page("delivery", 10, 5.2, draw)


def _delays(axes: Axes, dues: list[Due], run: Run) -> None:
    """Draw the delays of the deliveries that came."""
    got = [(due.published_us - run.started_us, due.delay_us) for due in dues if due.delay_us >= 0]
    at_us, took_us = np.array(got, dtype=np.int64).reshape(-1, 2).T
    bins, median, longest = medians(at_us, took_us, BIN_US)
    at_s = (bins + 0.5) * BIN_US / 1e6
    axes.plot(at_s, longest, color=TEAL, linewidth=1.2, label="longest")
    axes.plot(at_s, median, color=INK, linewidth=1.0, alpha=0.6, label="median")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.duration(value)))
    axes.set_ylabel("delay")
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=9, ncols=2)


def _moments(axes: Axes, run: Run, *, named: bool = True) -> None:
    assert run.settled is not None
    joined_s = (run.settled.at_us - run.started_us) / 1e6
    label = "peers join" if named else None
    axes.axvspan(0, joined_s, color=INK, alpha=0.06, linewidth=0, label=label)
    if run.killed_us:
        killed_s = (run.killed_us - run.started_us) / 1e6
        axes.axvline(killed_s, color=CORAL, linewidth=1.2, label="the kill" if named else None)


def _time(axes: Axes, cast: Cast) -> None:
    axes.set_xlabel(f"seconds (a round is {cast.plan.round_s:g} s)")
    axes.grid(axis="y")
    axes.margins(x=0.01)
