"""A SCOT drawn as in the paper's Fig. 3: clusters are layers, regions stand upright in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch, Polygon
from matplotlib.path import Path

from reefcast.overlay.topology import edges_of
from reefcast.pipeline.drawing import CORAL, SERIES, TEAL, svg_file
from reefcast.pipeline.layout import positions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reefcast.overlay.scot import Scot

# All in inches.
_HOP = 1.15
_SLANT, _FLAT = 0.45, 0.5
"""How far a layer's depth leans to the right and goes up: it is seen from above and in front."""
_LEAN = _SLANT / _FLAT
_COLUMN = 0.38
"""Between two regions at least: so that their iLinks do not run into one another's brokers."""
_LETTER, _ROW = 0.075, 0.3
"""Width of a letter and height of a broker's name."""
_ASIDE, _BULGE = 0.12, 0.08
"""By how much an iLink goes round the layers that it passes: at least, and more for each."""
_GAP, _ROOM, _MARGIN = 0.45, 0.5, 0.2
"""Between two layers, around a layer's brokers, around the whole."""
_NAME, _LEGEND = 0.9, 0.65
"""Width of a cluster's name, height of the legend."""
A_LINK, I_LINK, INNER, EDGE = TEAL, CORAL, "#14505c", "#6b8f97"

Point = tuple[float, float]
Places = dict[str, Point]


def scot_figure(made: Scot) -> str:
    """Return the text of an SVG file; every broker bears its name, aLinks and iLinks differ."""
    layer = layer_of(made)
    ground = _ground_of(layer)
    xs, ys = zip(*ground, strict=True)
    step = max(ys) - min(ys) + _GAP
    place = {
        name: (layer[at.region][0], layer[at.region][1] - at.cluster * step)
        for name, at in made.places.items()
    }
    left, right = min(xs) - _NAME, max(xs) + _MARGIN
    top, bottom = max(ys) + _LEGEND, min(ys) - (made.clusters - 1) * step - _MARGIN

    def draw(figure: Figure) -> None:
        figure.set_layout_engine("none")  # one unit is one inch
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        for index in range(made.clusters):
            _draw_ground(axes, [(x, y - index * step) for x, y in ground], index)
        _draw_links(axes, made, place)
        _draw_brokers(axes, made, place)
        _draw_legend(axes)

    return svg_file("scot", right - left, top - bottom, draw)


def layer_of(made: Scot) -> Places:
    """Return where the regions stand in the first layer: like the tree, the first label rather to
    the left, with room for the names, and no two in one column."""
    labels = list(made.tree)
    flat = positions(labels, edges_of(made.tree))
    side = _HOP if flat[labels[0]][0] <= flat[labels[-1]][0] else -_HOP
    tilted = {
        label: (side * x + _HOP * _SLANT * y, _HOP * _FLAT * y) for label, (x, y) in flat.items()
    }
    longest = max(len(name) for name in made.graph)
    room = 0.25 + _LETTER * longest
    placed: Places = {}
    for label in sorted(tilted, key=lambda label: (tilted[label], label)):
        x, y = tilted[label]
        for other_x, other_y in placed.values():
            x = max(x, other_x + (room if abs(y - other_y) < _ROW else _COLUMN))
        placed[label] = (x, y)
    return {label: placed[label] for label in made.tree}


def _ground_of(layer: Places) -> list[Point]:
    """Return the corners of what a layer stands on, lower left first: a leaning rectangle around
    it."""
    upright = [x - _LEAN * y for x, y in layer.values()]
    ys = [y for _, y in layer.values()]
    left, right = min(upright) - _ROOM, max(upright) + _ROOM
    low, high = min(ys) - _ROOM * _FLAT, max(ys) + _ROOM * _FLAT
    corners = ((left, low), (right, low), (right, high), (left, high))
    return [(x + _LEAN * y, y) for x, y in corners]


def _draw_ground(axes: Axes, corners: list[Point], index: int) -> None:
    colour = SERIES[index % len(SERIES)]
    axes.add_patch(Polygon(corners, facecolor=colour, alpha=0.13, edgecolor="none", zorder=0))
    x, y = corners[0]
    axes.text(x - 0.1, y, f"cluster {index}", ha="right", va="bottom", fontsize=9)


def _draw_links(axes: Axes, made: Scot, place: Places) -> None:
    for a, b in made.i_links:
        away = abs(made.places[a].cluster - made.places[b].cluster)
        bulge = _ASIDE + _BULGE * (away - 1) if away > 1 else 0.0
        axes.add_patch(_i_link(place[a], place[b], bulge))
    for a, b in made.a_links:
        (x1, y1), (x2, y2) = place[a], place[b]
        axes.plot((x1, x2), (y1, y2), color=A_LINK, linewidth=2.4, zorder=2)


def _i_link(a: Point, b: Point, bulge: float) -> PathPatch:
    """Draw an iLink: straight from one layer to the next; to others it goes round those between."""
    (x1, y1), (x2, y2) = a, b
    middle = ((x1 + x2) / 2 + 2 * bulge, (y1 + y2) / 2)
    path = Path([a, middle, b], [Path.MOVETO, Path.CURVE3, Path.CURVE3])
    return PathPatch(
        path, edgecolor=I_LINK, facecolor="none", linewidth=1, linestyle=(0, (4, 2)), zorder=1
    )


def _draw_brokers(axes: Axes, made: Scot, place: Places) -> None:
    for name, (x, y) in place.items():
        box = {"boxstyle": "round,pad=0.3", "edgecolor": "#ffffff", "linewidth": 0.8}
        axes.text(
            x,
            y,
            name,
            ha="center",
            va="center",
            fontsize=8,
            color="#ffffff",
            zorder=3,
            parse_math=False,
            bbox={**box, "facecolor": EDGE if made.is_edge(name) else INNER},
        )


def _draw_legend(axes: Axes) -> None:
    handles = [
        Line2D([], [], color=A_LINK, linewidth=2.4, label="aLink"),
        Line2D([], [], color=I_LINK, linewidth=1, linestyle=(0, (4, 2)), label="iLink"),
        Patch(facecolor=INNER, label="inner broker"),
        Patch(facecolor=EDGE, label="edge broker"),
    ]
    axes.legend(handles=handles, loc="upper left", ncols=2, fontsize=9)
