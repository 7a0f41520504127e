"""The figures of docs/explanation/spark-matching.md: a table, and the plot of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reefcast_lab.bench.page_tables import markdown, short
from reefcast_lab.bench.plots import svg
from reefcast_lab.bench.spark import JOIN, LITERAL, REEFCAST, SparkTiming

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = "figures of matching"
_TITLES = (
    *("engine", "subscriptions", "events", "pairs", "s", "s of CPU", "ratio", "ratio of CPU"),
    "events/s of CPU",
)
_LOOKS: Mapping[str, dict[str, Any]] = {
    REEFCAST: {"color": "#d55e00", "marker": "o", "linewidth": 2.2, "zorder": 4},
    JOIN: {"color": "#0072b2", "marker": "s"},
    LITERAL: {"color": "#009e73", "marker": "^"},
}


def figures(rows: Sequence[SparkTiming]) -> str:
    """Return a table with a line for each row; one that was left out says so."""
    return markdown(_TITLES, list(_lines(rows)))


def _lines(rows: Sequence[SparkTiming]) -> Iterator[Sequence[str]]:
    for row in rows:
        case = (row.engine, f"{row.n:,}", f"{row.events:,}")
        if row.seconds is None:
            yield (*case, "left out", *[""] * (len(_TITLES) - len(case) - 1))
            continue
        figures = (row.seconds, row.cpu_s, row.ratio, row.cpu_ratio, row.events_per_cpu_s)
        yield (*case, f"{row.pairs:,}", *map(short, figures))


def plot(rows: Sequence[SparkTiming]) -> str:
    """Draw an SVG: seconds over the number of subscriptions, both logarithmic, a line for each
    engine."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("subscriptions")
        axes.set_ylabel("seconds")
        axes.grid(True)
        for engine, looks in _LOOKS.items():
            points = [(row.n, row.seconds) for row in rows if row.engine == engine and row.seconds]
            if points:
                axes.plot(*zip(*sorted(points), strict=True), label=engine, **looks)
        axes.legend(frameon=False)

    return svg(5.5, 3.6, draw)
