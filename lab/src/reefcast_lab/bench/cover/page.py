"""The figures of docs/explanation/covering-index.md."""

from __future__ import annotations

from collections.abc import Sequence

from reefcast_lab.bench.cover.graphs import GraphRow
from reefcast_lab.bench.cover.measure import QUERIES, CoverTiming
from reefcast_lab.bench.page_tables import markdown, short

FIGURES, GRAPHS = "figures", "graphs"


def figures(rows: Sequence[CoverTiming]) -> str:
    """Return a table of the queries, and one of the changes."""
    asked = [
        (
            *(mine.workload, f"{mine.n:,}", mine.query, short(mine.matches_per_event)),
            *map(short, (mine.us_per_event, mine.p50_us, mine.p99_us)),
            *(_other(rows, mine, engine) for engine in ("columns", "scan")),
            *(short(mine.ratio), f"{mine.in_aim or 0:.0%}"),
        )
        for mine in rows
        if mine.engine == "index" and mine.query in QUERIES
    ]
    changed = [
        (
            *(row.workload, f"{row.n:,}", row.query),
            *map(short, (row.us_per_event, row.p50_us, row.p99_us)),
            *(
                short(row.max_cpu_us / 1e3),
                short(row.matches_per_event),
                short(row.memory_bytes_per_filter),
            ),
        )
        for row in rows
        if row.engine == "index" and row.query not in QUERIES
    ]
    return (
        f"Microseconds per query:\n\n{markdown(_ASKED, asked)}\n"
        f"Microseconds per change:\n\n{markdown(_CHANGED, changed)}"
    )


def graphs(rows: Sequence[GraphRow]) -> str:
    lines = [
        (
            *(row.workload, f"{row.n:,}", row.graph, row.index),
            *map(short, (row.add_cpu_us, row.add_p50_us, row.add_comparisons)),
            *map(short, (row.remove_cpu_us, row.remove_p50_us, row.remove_comparisons)),
            *(short(row.covering_degree), "" if row.edges is None else f"{row.edges:,}"),
        )
        for row in rows
    ]
    return markdown(_GRAPHS, lines, "lrll" + "r" * 8)


_GRAPHS = (
    *("workload", "filters", "graph", "index", "add, mean of CPU", "add, p50", "comparisons"),
    *("remove a root, mean of CPU", "p50", "comparisons", "new roots", "edges"),
)
_ASKED = (
    *("workload", "filters", "query", "keys found", "mean", "p50", "p99"),
    *("columns", "scan", "ratio", "within 20 µs + 50 ns per key"),
)
_CHANGED = (
    *("workload", "filters", "change", "mean", "p50", "p99", "longest, ms of CPU"),
    *("roots changed", "bytes per filter"),
)


def _other(rows: Sequence[CoverTiming], mine: CoverTiming, engine: str) -> str:
    """Return another engine's mean; nothing if it cannot serve this workload."""
    case = (mine.workload, mine.n, mine.query, engine)
    found = [r for r in rows if (r.workload, r.n, r.query, r.engine) == case]
    return short(found[0].us_per_event) if found else ""
