"""What a paper states of a curve in numbers, drawn beside ours in the colours of our lines: hollow
marks; dotted lines where it gives no place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reefcast_lab.experiments.campaign import PaperPoint, Plot, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HOLLOW: dict[str, Any] = {"markerfacecolor": "none", "markersize": 9}
_STYLES: Mapping[str, dict[str, Any]] = {
    "paper": {**_HOLLOW, "linestyle": ""},
    "paper: mean or peak": {"linestyle": ":", "marker": ""},
    "paper: ratio to ours": {**_HOLLOW, "linestyle": ":"},
}
"""What each kind of a paper's statement is called in the legend, and how it looks."""
_GREY = "#555555"
BEGINS = "Hollow marks and dotted lines are what the paper states in numbers"
"""Begins what a page says of the paper's points in a plot."""


class _Shown(NamedTuple):
    """The places of one statement in one panel; none where a line goes through the whole panel."""

    number: int
    point: PaperPoint
    xs: tuple[float, ...]
    ys: tuple[float, ...]


def labels(plot: Plot) -> list[str]:
    """Return what the legend says of the paper's points, in the order of `_STYLES`."""
    kinds = {_kind(point) for point in plot.points}
    return [label for label in _STYLES if label in kinds]


def draw(
    axes: Axes, plot: Plot, panel: float | None, ours: Sequence[Point], looks: Mapping[str, Any]
) -> list[float]:
    """Draw what the paper states of one panel's lines; return how high that is. `panel`: its x of
    the campaign, of a plot by "at". Lines of which we have no value are left out."""
    drawn = [shown for shown in _shown(plot, panel, ours) if shown.point.line in looks]
    for shown in drawn:
        look = {key: looks[shown.point.line][key] for key in ("color", "marker")}
        style = look | _STYLES[_kind(shown.point)]
        gid = f"paper-{shown.number}" + ("" if panel is None else f"-{panel:g}")
        if shown.xs:
            axes.plot(shown.xs, shown.ys, gid=gid, **style)
        else:
            axes.axhline(shown.ys[0], gid=gid, **style)
    for kind in {_kind(shown.point): None for shown in drawn}:
        axes.plot([], [], label=kind, **{"color": _GREY, "marker": "o", **_STYLES[kind]})
    return [y for shown in drawn for y in shown.ys]


def sources(plot: Plot) -> str:
    """Return a sentence that says where the paper's points stand; "" if there are none."""
    if not plot.points:
        return ""
    named = "; ".join(dict.fromkeys(point.source for point in plot.points))
    return f"{BEGINS}: {named}."


def _kind(point: PaperPoint) -> str:
    if point.over:
        return "paper: ratio to ours"
    return "paper: mean or peak" if point.x is None else "paper"


def _shown(plot: Plot, panel: float | None, ours: Sequence[Point]) -> Iterator[_Shown]:
    for number, point in enumerate(plot.points):
        if not ours or point.panel not in (None, panel):
            continue
        if not point.over:
            yield _Shown(number, point, () if point.x is None else (point.x,), (point.y,))
        elif places := sorted(_multiples(plot, point, ours)):
            xs, ys = zip(*places, strict=True)
            yield _Shown(number, point, xs, ys)


def _multiples(
    plot: Plot, point: PaperPoint, ours: Sequence[Point]
) -> Iterator[tuple[float, float]]:
    """Yield places of a ratio that the paper states: so many times ours of the other line."""
    for one in ours:
        x = one.at if plot.by == "at" else one.x
        if one.routing == point.over and point.x in (None, x):
            yield x, one.mean * point.y
