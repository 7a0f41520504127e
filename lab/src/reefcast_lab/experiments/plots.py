"""Curves: means over seeds with 95 % intervals, a line for each routing; and what the paper states
of them (`paper_marks`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reefcast_lab.bench.plots import svg
from reefcast_lab.experiments import paper_marks
from reefcast_lab.experiments.campaign import Plot, Point
from reefcast_lab.experiments.numerals import thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#777777", "#000000")
_MARKERS = "os^Dvx*P"
"""Colours that colour-blind people can distinguish (Okabe and Ito), and marks for print."""

LETTERS, MARK = 13, 6
"""Sizes in a legend: letters in an inch; the room of a mark, in letters."""
ACROSS = 3
"""Panels in a line where not every variant has every x."""

Looks = Mapping[str, dict[str, Any]]


def looks(points: Iterable[Point]) -> Looks:
    """Return colour and mark of each routing, the same in all plots of these points. If there are
    more routings than colours, colours are repeated with other marks, dashed."""
    routings = sorted({point.routing for point in points})
    return {routing: _look(*divmod(i, len(_COLOURS))) for i, routing in enumerate(routings)}


def _look(again: int, place: int) -> dict[str, Any]:
    marker = _MARKERS[(place + 3 * again) % len(_MARKERS)]
    return {"color": _COLOURS[place], "marker": marker, "linestyle": "--" if again else "-"}


def draw(plot: Plot, points: Sequence[Point], looks: Looks, x_name: str) -> str:
    """Draw one plot as SVG; `x_name` says what the campaign's x counts. Without points, draw empty
    axes. A line of panels for each variant; by "at" also a column of panels for each x. Where some
    of these have no points, those that have some follow each other. What the paper states is drawn
    beside the preset, "", alone."""
    mine = [_in_unit(p, plot) for p in points if (p.campaign, p.metric) == _what(plot)]
    if plot.log:
        mine = [point for point in mine if point.mean > 0]
    variants = sorted({point.variant for point in mine}) or [""]
    columns: list[float | None] = [None]
    if plot.by == "at":
        columns = [*sorted({point.x for point in mine})] or columns

    all_of_them = {
        (variant, x): [p for p in mine if p.variant == variant and x in (None, p.x)]
        for variant in variants
        for x in columns
    }
    shown = {place: here for place, here in all_of_them.items() if here or not mine}
    across = len(columns) if len(shown) == len(all_of_them) else min(len(shown), ACROSS)
    down = -(-len(shown) // across)

    def panels(figure: Figure) -> None:
        heights = [point.mean for point in mine]
        grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        for axes in grid.flat[len(shown) :]:
            axes.set_visible(False)
        for axes, ((variant, x), here) in zip(grid.flat, shown.items(), strict=False):
            _panel(axes, plot, here, looks)
            heights += [] if variant else paper_marks.draw(axes, plot, x, here, looks)
            axes.set_title(_title(x, x_name, variant), loc="left")
        if plot.log:
            grid[0][0].set(xscale="log", yscale="log")
        else:
            _limit(grid[0][0], heights)
        _describe(figure, grid, plot)

    wide = 1 + (3.2 * across if across > 1 else 5.4)
    high = 0.7 + (2.4 if down > 1 else 3.0) * down
    labels = {*paper_marks.labels(plot), *(point.routing for point in mine)} if mine else ()
    return svg(wide, high + 0.2 * _lines(labels, wide), panels)


def _what(plot: Plot) -> tuple[str, str]:
    return plot.campaign, plot.measure


def _in_unit(point: Point, plot: Plot) -> Point:
    interval = None if point.interval is None else point.interval * plot.times
    return point._replace(mean=point.mean * plot.times, interval=interval)


def _limit(axes: Axes, heights: Sequence[float]) -> None:
    """Scale the axis by the means and the paper's points: an interval of few seeds may reach far
    beyond, and below 0 where no value can be."""
    if heights and min(heights) >= 0:
        axes.set_ylim(0, min(axes.get_ylim()[1], 1.5 * max(heights)) or 1)


def _describe(figure: Figure, grid: Any, plot: Plot) -> None:
    """Add labels and a legend for all panels, and ticks where a row or column of panels ends."""
    figure.supxlabel(plot.x_label, fontsize="medium")
    figure.supylabel(plot.y_label, fontsize="medium")
    for column in grid.T:
        [axes for axes in column if axes.get_visible()][-1].tick_params(labelbottom=True)
    for line in grid:
        next(axes for axes in line if axes.get_visible()).tick_params(labelleft=True)
    by_label = {
        label: handle
        for axes in grid.flat
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if by_label:
        figure.legend(
            by_label.values(),
            by_label.keys(),
            loc="outside upper left",
            ncols=_columns(by_label, figure.get_figwidth()),
            frameon=False,
        )


def _lines(labels: Collection[str], width: float) -> int:
    """Return how many lines a legend has; one if there is none."""
    return -(-len(labels) // _columns(labels, width)) if labels else 1


def _columns(labels: Collection[str], width: float) -> int:
    """Return how many columns a legend has: as many as fit into a line of this many inches."""
    widest = max(map(len, labels))
    in_a_line = sum(map(len, labels)) + MARK * len(labels) <= LETTERS * width
    return len(labels) if in_a_line else max(1, int(LETTERS * width / (widest + MARK)))


def _title(x: float | None, x_name: str, variant: str) -> str:
    parts = [f"{thin(f'{x:,g}')} {x_name}"] if x is not None else []
    return ", ".join([*parts, variant] if variant else parts)


def _panel(axes: Axes, plot: Plot, points: Sequence[Point], looks: Looks) -> None:
    from matplotlib.ticker import FuncFormatter

    for routing, look in looks.items():
        place = [(p.at if plot.by == "at" else p.x, p) for p in points if p.routing == routing]
        if place:
            place.sort()
            _line(axes, plot, routing, look, place)
    axes.grid(True)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_number))


def _number(value: float, _: object) -> str:
    """Format a number: 20k, 300, 0.02. Never 20m, which would be read as minutes."""
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def _line(
    axes: Axes, plot: Plot, routing: str, look: dict[str, Any], place: list[tuple[float, Point]]
) -> None:
    at = np.array([x for x, _ in place])
    mean = np.array([point.mean for _, point in place])
    half = np.array([point.interval or 0.0 for _, point in place])
    if plot.by == "at":  # as dense as the run makes it: a band, where marks would be a smear
        axes.plot(at, mean, label=routing, color=look["color"])
        axes.fill_between(at, mean - half, mean + half, color=look["color"], alpha=0.2, linewidth=0)
    else:
        axes.errorbar(at, mean, half, label=routing, capsize=2.5, elinewidth=1, **look)
