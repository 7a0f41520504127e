"""The overlay of a run with the load of its links, as SVG to be put into a page.

A SCOT is drawn as a grid: a column for each region, a row for each cluster, so that aLinks run
along the rows and iLinks up and down the columns. Any other overlay is drawn by its distances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter

from reefcast.overlay.scot import Place, Scot, scot_of
from reefcast.overlay.topology import edges_of, graph
from reefcast.pipeline import units
from reefcast.pipeline.drawing import AMBER, CORAL, INK, PAPER, SERIES, TEAL, svg_for_page
from reefcast.pipeline.layout import positions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reefcast.pipeline.analysis import Analysis

Point = tuple[float, float]
Places = Mapping[str, Point]
Bend = Callable[[str, str], Point]
"""How far the middle of the link between two brokers is off the straight line."""

_ROOM = 0.45
"""Hops left free around the overlay, for circles and words."""
_COLUMN, _ROW = 2.9, 1.25
"""Inches between two regions, and between two clusters."""
_SIDE, _BULGE = 0.55, 0.26
"""By how much a link goes round one broker, and more for each further one; inches."""
_EDGES, _BROKER, _LABEL = "#ffffff", "#14505c", "#22313f"

_LOAD = LinearSegmentedColormap.from_list("load", ("#7cc6c3", TEAL, AMBER, CORAL))
_DASHES = (0, (1.6, 0.7))


def overlay(analysis: Analysis, notes: Mapping[str, str]) -> str:
    """Draw brokers and links; the load of a link is its width and colour and the number on it.
    `notes`: a word or two to be written under a broker."""
    made = scot_run(analysis)
    return _grid(analysis, notes, made) if made else _plane(analysis, notes)


def scot_run(analysis: Analysis) -> Scot | None:
    """Return the SCOT on which the run was; None if it was another overlay."""
    run = analysis.run
    places = {name: Place(**place) for name, place in run.get("places", {}).items()}
    if not places:
        return None
    return scot_of(graph(run["brokers"], ((a, b) for a, b in run["links"])), places)


# --- any overlay ----------------------------------------------------------------------------------


def _plane(analysis: Analysis, notes: Mapping[str, str]) -> str:
    ends = [(link["a"], link["b"]) for link in analysis.links]
    place = positions(analysis.run["brokers"], ends)
    xs, ys = (np.array(axis) for axis in zip(*place.values(), strict=True))
    wide, high = np.ptp(xs) + 2 * _ROOM, np.ptp(ys) + 2 * _ROOM
    height = min(max(10 * high / wide, 2), 5.5) + 0.7

    def draw(figure: Figure) -> None:
        axes = _axes(figure)
        axes.set_xlim(xs.min() - _ROOM, xs.max() + _ROOM)
        axes.set_ylim(ys.min() - _ROOM, ys.max() + _ROOM)
        _draw_links(figure, axes, analysis, place, lambda a, b: (0.0, 0.0), frozenset())
        _draw_brokers(axes, analysis, place, notes, lambda b: _links_go_down(analysis, place, b))

    return svg_for_page("overlay", 10, height, draw)


def _links_go_down(analysis: Analysis, place: Places, broker: str) -> bool:
    """Tell whether there is more room for words above the broker than below."""
    ends = [(link["a"], link["b"]) for link in analysis.links if broker in (link["a"], link["b"])]
    y = place[broker][1]
    return sum(place[a][1] + place[b][1] - 2 * y for a, b in ends) < 0


# --- a SCOT ---------------------------------------------------------------------------------------


def _grid(analysis: Analysis, notes: Mapping[str, str], made: Scot) -> str:
    flat = positions(list(made.tree), edges_of(made.tree))
    columns = sorted(made.tree, key=lambda label: (flat[label][0], label))
    if columns[0] > columns[-1]:
        columns.reverse()
    at = {label: number for number, label in enumerate(columns)}
    place = {
        name: (_COLUMN * at[where.region], -_ROW * where.cluster)
        for name, where in made.places.items()
    }
    left, right = -1.75, _COLUMN * (len(columns) - 1) + 1.3
    bottom, top = -_ROW * (made.clusters - 1) - 0.75, 0.95

    def bend(a: str, b: str) -> Point:
        return _way_round(made.places[a], made.places[b], at)

    def draw(figure: Figure) -> None:
        axes = _axes(figure)
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        _draw_rows(axes, made.clusters, right)
        for label, number in at.items():
            axes.text(_COLUMN * number, 0.68, f"region {label}", ha="center", fontsize=9)
        _draw_links(figure, axes, analysis, place, bend, frozenset(made.i_links))
        _draw_brokers(axes, analysis, place, notes, lambda broker: False)
        _draw_legend(axes)

    return svg_for_page("overlay", right - left, top - bottom + 0.8, draw)


def _way_round(a: Place, b: Place, columns: Mapping[str, int]) -> Point:
    """Return the bend of a link between brokers that are not neighbours in the grid, so that it
    passes those in between: aLinks above them, iLinks by turns to their right and left."""
    across, down = abs(columns[a.region] - columns[b.region]), abs(a.cluster - b.cluster)
    if across + down == 1:
        return 0.0, 0.0
    far = _SIDE + _BULGE * (across + down - 2)
    if across:
        return 0.0, far
    return (far if min(a.cluster, b.cluster) % 2 == 0 else -far), 0.0


def _draw_rows(axes: Axes, clusters: int, right: float) -> None:
    for index in range(clusters):
        y, colour = -_ROW * index, SERIES[index % len(SERIES)]
        axes.add_patch(
            FancyBboxPatch(
                (-1.65, y - 0.46),
                right + 1.5,
                0.92,
                boxstyle="round,pad=0,rounding_size=0.12",
                facecolor=colour,
                alpha=0.10,
                edgecolor="none",
                zorder=0,
            )
        )
        axes.text(-1.55, y, f"cluster {index}", ha="left", va="center", fontsize=9)


def _draw_legend(axes: Axes) -> None:
    handles = [
        Line2D([], [], color=INK, linewidth=2.5, label="aLink, inside a cluster"),
        Line2D([], [], color=INK, linewidth=2.5, linestyle=_DASHES, label="iLink, inside a region"),
    ]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, fontsize=9)


# --- what both are made of ------------------------------------------------------------------------


def _axes(figure: Figure) -> Axes:
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_aspect("equal")
    return axes


def _draw_links(
    figure: Figure,
    axes: Axes,
    analysis: Analysis,
    place: Places,
    bend: Bend,
    dashed: frozenset[tuple[str, str]],
) -> None:
    most = max((link["publications"] for link in analysis.links), default=0) or 1
    for link in analysis.links:
        a, b, load = link["a"], link["b"], link["publications"]
        _draw_link(axes, place[a], place[b], bend(a, b), load, most, dashed=(a, b) in dashed)
    scale = matplotlib.cm.ScalarMappable(Normalize(0, most), _LOAD)
    bar = figure.colorbar(scale, ax=axes, orientation="horizontal", shrink=0.32, aspect=38, pad=0)
    bar.outline.set_visible(False)
    bar.ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.short(value)))
    bar.set_label("publications on a link, both directions", fontsize=9)


def _draw_link(
    axes: Axes, a: Point, b: Point, bend: Point, load: int, most: int, *, dashed: bool
) -> None:
    middle = (a[0] + b[0]) / 2 + bend[0], (a[1] + b[1]) / 2 + bend[1]
    control = middle[0] + bend[0], middle[1] + bend[1]  # the curve passes halfway between
    axes.add_patch(
        PathPatch(
            Path([a, control, b], [Path.MOVETO, Path.CURVE3, Path.CURVE3]),
            facecolor="none",
            edgecolor=to_hex(_LOAD(load / most)),
            linewidth=1.5 + 8 * load / most,
            capstyle="butt",
            linestyle=_DASHES if dashed else "solid",
            zorder=1,
        )
    )
    axes.text(
        *middle,
        units.short(load),
        ha="center",
        va="center",
        fontsize=8.5,
        color="#ffffff",
        zorder=2,
        bbox={"boxstyle": "round,pad=0.28", "facecolor": _LABEL, "edgecolor": "none"},
    )


def _draw_brokers(
    axes: Axes,
    analysis: Analysis,
    place: Places,
    notes: Mapping[str, str],
    above: Callable[[str], bool],
) -> None:
    """Draw each broker, the larger the more it delivered. `above`: whether words about a broker go
    above it."""
    most = max((row["deliveries"] for row in analysis.brokers), default=0) or 1
    for row in analysis.brokers:
        broker = row["broker"]
        x, y = place[broker]
        area = 650 + 1500 * row["deliveries"] / most
        axes.scatter([x], [y], s=area, color=_BROKER, edgecolors=_EDGES, linewidths=2, zorder=3)
        axes.text(
            x,
            y,
            broker,
            ha="center",
            va="center",
            color="#ffffff",
            fontsize=10,
            fontweight="bold",
            zorder=4,
        )
        if broker in notes:
            away = area**0.5 / 2 + 4
            _draw_note(axes, (x, y), notes[broker], away if above(broker) else -away)


def _draw_note(axes: Axes, point: Point, words: str, away: float) -> None:
    """Write words next to a point. `away`: in points, upwards."""
    axes.annotate(
        words,
        point,
        xytext=(0, away),
        textcoords="offset points",
        ha="center",
        va="bottom" if away > 0 else "top",
        fontsize=9,
        zorder=4,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": PAPER, "edgecolor": "none"},
    )
