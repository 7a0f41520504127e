"""The figures of docs/explanation/performance.md: what a publication and a delivery cost the
processor of each broker, as a table, and as a plot of one dimension of the plan at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reefcast_lab.bench.live.measure import BrokerFigures
from reefcast_lab.bench.live.points import Point
from reefcast_lab.bench.page_tables import markdown, short
from reefcast_lab.bench.plots import svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURES = "live figures"
NAMES = {"mosquitto": "mosquitto", "nats": "NATS", "reefcast": "Reefcast"}
"""The names of the brokers, in their order."""
_LOOKS: dict[str, dict[str, Any]] = {
    "mosquitto": {"color": "#0072b2", "marker": "s"},
    "nats": {"color": "#009e73", "marker": "^"},
    "reefcast": {"color": "#d55e00", "marker": "o", "linewidth": 2.2, "zorder": 4},
}
"""Colours that colour-blind people can distinguish (Okabe and Ito), and marks for print."""
_CPU = {"cpu_us_per_publication": "publication", "cpu_us_per_delivery": "delivery"}
_DELAYS = {"delay_p50_us": "p50", "delay_p99_us": "p99"}
"""Columns, with their titles in the tables."""


def figures(rows: Sequence[BrokerFigures]) -> str:
    """Return two tables with a line for each load, in microseconds of every broker: its CPU for a
    publication and for a delivery; and delays at half of its rate."""
    loads: dict[Point, dict[str, BrokerFigures]] = {}
    for row in rows:
        loads.setdefault(_point(row), {})[row.broker] = row
    return "\n".join(_table(loads, columns) for columns in (_CPU, _DELAYS))


def _table(loads: Mapping[Point, Mapping[str, BrokerFigures]], columns: Mapping[str, str]) -> str:
    """Return a table of some columns of every broker."""
    titles = [f"{each}: {name}" for each in columns.values() for name in NAMES.values()]
    lines = [
        [
            str(point),
            *(
                short(getattr(brokers[name], column)) if name in brokers else ""
                for column in columns
                for name in NAMES
            ),
        ]
        for point, brokers in loads.items()
    ]
    return markdown(["load", *titles], lines)


def _point(row: BrokerFigures) -> Point:
    selectivity = Point().selectivity if row.selectivity is None else row.selectivity
    return Point(
        row.fanout,
        row.payload_bytes,
        row.attributes,
        row.others,
        selectivity,
        row.brokers,
        row.way,
        row.grants,
        row.scraped,
    )


class Panel(NamedTuple):
    """`x`, `y`: columns. `others`: the share that the others' filters match; None: without
    others."""

    title: str
    x: str
    y: str
    others: float | None = None


PANELS = (
    Panel("connections that want everything", "fanout", "cpu_us_per_delivery"),
    Panel("bytes of payload", "payload_bytes", "cpu_us_per_publication"),
    Panel("others, of 0.1 %", "others", "cpu_us_per_publication", 0.001),
    Panel("others, of 2 %", "others", "cpu_us_per_publication", 0.02),
)
SAID = {
    "cpu_us_per_delivery": "µs of CPU per delivery",
    "cpu_us_per_publication": "µs of CPU per publication",
}


def plot(rows: Sequence[BrokerFigures]) -> str:
    """Draw an SVG: a panel for each dimension in which at least two points were measured."""
    panels = [panel for panel in PANELS if len({getattr(r, panel.x) for r in of(rows, panel)}) > 1]

    def draw(figure: Figure) -> None:
        every: Sequence[Axes] = figure.subplots(1, len(panels), squeeze=False)[0] if panels else ()
        for axes, panel in zip(every, panels, strict=True):
            _draw(axes, of(rows, panel), panel)
        for axes in every[:1]:
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(
                handles, labels, loc="outside upper left", ncols=len(_LOOKS), frameon=False
            )

    return svg(1.0 + 2.8 * max(len(panels), 1), 3.2, draw)


def of(rows: Sequence[BrokerFigures], panel: Panel) -> list[BrokerFigures]:
    """Return the rows of a panel: they differ from the base point only in its dimension."""
    base = Point()
    plain = {"fanout": base.fanout, "payload_bytes": base.payload, "attributes": base.attributes}
    plain.pop(panel.x, None)
    return [
        row
        for row in rows
        if all(getattr(row, name) == value for name, value in plain.items())
        and row.selectivity == panel.others
        and (row.brokers, row.way) == (base.brokers, base.way)
        and (row.grants, row.scraped) == (base.grants, base.scraped)
        and getattr(row, panel.y) is not None
        and getattr(row, panel.x) > 0
    ]


def _draw(axes: Axes, rows: Sequence[BrokerFigures], panel: Panel) -> None:
    from matplotlib.ticker import EngFormatter, FuncFormatter, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda us, _: f"{us:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel(panel.title)
    axes.set_ylabel(SAID[panel.y])
    axes.grid(True)
    for broker, looks in _LOOKS.items():
        points = sorted(
            (getattr(r, panel.x), getattr(r, panel.y)) for r in rows if r.broker == broker
        )
        if points:
            axes.plot(*zip(*points, strict=True), label=NAMES[broker], **looks)
