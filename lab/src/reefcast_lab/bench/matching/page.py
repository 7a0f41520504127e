"""The figures of docs/explanation/matching.md: tables between marks, and the plot of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reefcast_lab.bench.matching.cliffs import CliffRow
from reefcast_lab.bench.matching.engines import BASELINES, REEFCAST
from reefcast_lab.bench.matching.measure import BATCHED, SINGLE, MatchTiming
from reefcast_lab.bench.matching.worst import WorstRow
from reefcast_lab.bench.page_tables import markdown, short
from reefcast_lab.bench.plots import svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURES, WORST, CLIFFS = "figures", "worst cases", "cliffs"
ENGINES = (REEFCAST, *BASELINES)


# --- tables --------------------------------------------------------------------------------------


def figures(rows: Sequence[MatchTiming]) -> str:
    """Return a table for each mode, with a line for each workload and size, and a table of other
    costs."""
    parts = [
        f"Microseconds per event, {title}:\n\n{markdown(_TITLES[mode], _lines(rows, mode))}"
        for mode, title in ((SINGLE, "single calls"), (BATCHED, "batches of 256"))
    ]
    costs = [
        (*_case(row), *map(short, (row.memory_bytes_per_filter, row.add_us, row.remove_us)))
        for row in rows
        if row.engine == REEFCAST and row.mode == SINGLE
    ]
    titles = (*_CASE, "bytes per filter", "add µs", "remove µs")
    return "\n".join([*parts, f"What Reefcast's index costs:\n\n{markdown(titles, costs)}"])


_CASE = ("workload", "filters")
_TITLES = {
    SINGLE: (*_CASE, *ENGINES, "ratio", "p99", "keys", "ns per key", "floor", "call"),
    BATCHED: (*_CASE, *ENGINES, "ratio", "p99", "keys", "ns per key"),
}


def _case(row: MatchTiming) -> tuple[str, str]:
    return f"{row.workload}, {row.selectivity:.1%}", f"{row.n:,}"


def _lines(rows: Sequence[MatchTiming], mode: str) -> Iterable[Sequence[str]]:
    for mine in rows:
        if mine.engine != REEFCAST or mine.mode != mode:
            continue
        by = {row.engine: row for row in rows if (_case(row), row.mode) == (_case(mine), mode)}
        line = [*_case(mine), *(short(by[engine].us_per_event) for engine in ENGINES)]
        line += map(short, (mine.ratio, mine.p99_us, mine.matches_per_event, mine.ns_per_match))
        if mine.call_share is not None:
            line += [short(mine.floor_us), f"{mine.call_share:.0%}"]
        yield line


def worst_cases(rows: Sequence[WorstRow]) -> str:
    titles = (
        *("workload", "filters", "keys", "match p50", "p99", "max", "max while adding"),
        *("add p50", "p99", "max", "remove p50", "p99", "max", "bytes per filter"),
    )
    lines = [
        [
            row.workload,
            f"{row.n:,}",
            *map(short, (row.matches_per_event, row.match_p50_us, row.match_p99_us)),
            *map(short, (row.match_max_us, row.busy_match_max_us)),
            *map(short, (row.add_p50_us, row.add_p99_us, row.add_max_us)),
            *map(short, (row.remove_p50_us, row.remove_p99_us, row.remove_max_us)),
            short(row.memory_bytes_per_filter),
        ]
        for row in rows
    ]
    return markdown(titles, lines)


def cliffs(rows: Sequence[CliffRow]) -> str:
    titles = (
        *("case", "filters", "µs per event", "ns per filter", "keys", "ns per key"),
        *("scan, ns per filter", "ratio", "bytes per filter", "parse µs", "add p50", "max"),
    )
    lines = [
        [
            row.workload,
            f"{row.n:,}",
            *map(short, (row.us_per_event, row.ns_per_filter)),
            *map(short, (row.matches_per_event, row.ns_per_match)),
            *map(short, (row.scan_ns_per_filter, row.ratio, row.memory_bytes_per_filter)),
            *map(short, (row.parse_us, row.add_p50_us, row.add_max_us)),
        ]
        for row in rows
    ]
    return markdown(titles, lines)


# --- the plot ------------------------------------------------------------------------------------

_LOOKS: Mapping[str, dict[str, Any]] = {
    REEFCAST: {"color": "#d55e00", "marker": "o", "linewidth": 2.2, "zorder": 4},
    "columns": {"color": "#0072b2", "marker": "s"},
    "counting": {"color": "#009e73", "marker": "^"},
    "rein": {"color": "#777777", "marker": "D"},
}
"""Colours that colour-blind people can distinguish (Okabe and Ito), and marks for print."""


def plot(rows: Sequence[MatchTiming]) -> str:
    """Draw an SVG: microseconds per event over the number of filters; a column of panels for each
    workload, a line of panels for each selectivity and mode."""
    workloads = list(dict.fromkeys(row.workload for row in rows))
    kinds = list(dict.fromkeys((row.selectivity, row.mode) for row in rows))

    def draw(figure: Figure) -> None:
        panels = figure.subplots(
            len(kinds), len(workloads), sharex=True, sharey=True, squeeze=False
        )
        for line, kind in zip(panels, kinds, strict=True):
            line[0].set_ylabel(f"µs per event\n{kind[1]}, {kind[0]:.1%} match")
            for axes, workload in zip(line, workloads, strict=True):
                mine = [r for r in rows if (r.workload, r.selectivity, r.mode) == (workload, *kind)]
                _draw(axes, mine)
        for axes, workload in zip(panels[0], workloads, strict=True):
            axes.set_title(workload, loc="left", fontweight="bold")
        for axes in panels[-1]:
            axes.set_xlabel("filters")
        handles, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=len(ENGINES), frameon=False)

    return svg(1.2 + 2.5 * len(workloads), 0.9 + 2.3 * len(kinds), draw)


def _draw(axes: Axes, rows: Sequence[MatchTiming]) -> None:
    from matplotlib.ticker import EngFormatter, FuncFormatter, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda us, _: f"{us:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.margins(0.08)
    axes.grid(True)
    for engine in ENGINES:
        points = sorted((row.n, row.us_per_event) for row in rows if row.engine == engine)
        axes.plot(*zip(*points, strict=True), label=engine, **_LOOKS[engine])
