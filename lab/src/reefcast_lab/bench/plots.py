"""Plots as files of their own: SVG with a white ground, for pages light and dark.

Drawn with matplotlib's objects (no pyplot, no global state); the same input gives the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "reefcast",
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "grid.linewidth": 0.5,
    "grid.color": "#dddddd",
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
}


def svg(width: float, height: float, draw: Callable[[Figure], None]) -> str:
    """Return what `draw` draws, as the text of an SVG file; sizes in inches."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
