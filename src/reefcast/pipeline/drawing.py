"""SVG drawn with matplotlib's objects (no pyplot, no global state), for pages and as files.

In a page, text takes the page's font, and lines and letters its colour, so that a figure is
readable on a light and on a dark page. A file has colours of its own on white.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib
from matplotlib.figure import Figure

INK = "#010203"
PAPER = "#030201"
"""Stand for the colours of text and ground; replaced in the SVG."""
_DARK, _WHITE = "#22313f", "#ffffff"

TEAL, CORAL, AMBER, VIOLET = "#1b8a9a", "#ee6352", "#eaa63b", "#7768ae"
GREY = "#6b7280"
SERIES = (TEAL, CORAL, AMBER, VIOLET)
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.6,
}

Draw = Callable[[Figure], None]


def svg_for_page(name: str, width: float, height: float, draw: Draw) -> str:
    """Return an SVG element drawn by `draw`; sizes in inches, and `name` makes its ids unique in
    the page."""
    svg = _svg(name, width, height, draw, transparent=True)
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', rf'\1 role="img" aria-label="{name}"', svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(xlink:href="|url\()#', rf"\1#{name}-", svg)
    svg = _with_font(svg, "var(--font)")
    return svg.replace(INK, "currentColor").replace(PAPER, "var(--paper)")


def svg_file(name: str, width: float, height: float, draw: Draw) -> str:
    """Return the text of an SVG file drawn by `draw`; sizes in inches."""
    svg = _svg(name, width, height, draw, transparent=False)
    return _with_font(svg, "sans-serif").replace(INK, _DARK).replace(PAPER, _WHITE)


def _svg(name: str, width: float, height: float, draw: Draw, *, transparent: bool) -> str:
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=transparent, metadata={"Date": None})
    return out.getvalue()


def _with_font(svg: str, font: str) -> str:
    return re.sub(r"font: ([^;\"]*?)'DejaVu Sans'[^;\"]*", rf"font: \1{font}", svg)
