"""A placement of storages, as an SVG file: brokers sized by their requests, storages with the
topics that they keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.lines import Line2D

from reefcast.overlay.topology import edges_of
from reefcast.pipeline.drawing import CORAL, INK, TEAL, svg_file
from reefcast.pipeline.layout import positions
from reefcast.pipeline.planning.placement.inputs import Inputs, Placement, storages_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROOM = 0.8
"""Hops left free around the overlay."""
_WIDTH, _TALLEST = 10.0, 9.0
_SMALLEST, _LARGEST = 30.0, 420.0
"""Areas of circles, in points^2."""
_NAMED = 60
"""Up to this many brokers, all show their names."""
_TOPICS = 4
"""How many topics of a storage are named."""


def placement_figure(made: Inputs, placement: Placement) -> str:
    """Return the text of an SVG file that shows the placement."""
    place = positions(made.brokers, edges_of(made.graph))
    xs, ys = (np.array(axis) for axis in zip(*place.values(), strict=True))
    wide, high = np.ptp(xs) + 2 * _ROOM, np.ptp(ys) + 2 * _ROOM
    height = min(max(_WIDTH * high / wide, 2.5), _TALLEST) + 0.5

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_xlim(xs.min() - _ROOM, xs.max() + _ROOM)
        axes.set_ylim(ys.min() - _ROOM, ys.max() + _ROOM)
        for a, b in edges_of(made.graph):
            (x1, y1), (x2, y2) = place[a], place[b]
            axes.plot((x1, x2), (y1, y2), color=INK, alpha=0.35, linewidth=1, zorder=1)
        _draw_brokers(axes, made, placement, place)

    return svg_file("placement", _WIDTH, height, draw)


def _draw_brokers(
    axes: Axes, made: Inputs, placement: Placement, place: dict[str, tuple[float, float]]
) -> None:
    asked = made.rates.sum(axis=0)
    areas = _SMALLEST + (_LARGEST - _SMALLEST) * asked / asked.max()
    kept = {storage.broker: storage.topics for storage in storages_of(placement)}
    for broker, area in zip(made.brokers, areas.tolist(), strict=True):
        x, y = place[broker]
        axes.scatter([x], [y], s=area, color=CORAL if broker in kept else TEAL, zorder=2)
        if broker in kept or len(made.brokers) <= _NAMED:
            words = "\n".join([broker, *_words(kept.get(broker, ()))])
            axes.annotate(
                words,
                (x, y),
                (0, -(area**0.5) / 2 - 3),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=8,
                parse_math=False,
                zorder=3,
            )
    kinds = ((CORAL, "broker with a storage, and the topics that it keeps"), (TEAL, "broker"))
    handles = [
        Line2D([], [], color=colour, marker="o", linestyle="", label=label)
        for colour, label in kinds
    ]
    axes.legend(handles=handles, loc="upper left", fontsize=9, title="area: requests a second")


def _words(topics: tuple[str, ...]) -> list[str]:
    more = [f"and {len(topics) - _TOPICS} more"] if len(topics) > _TOPICS else []
    return [*topics[:_TOPICS], *more]
