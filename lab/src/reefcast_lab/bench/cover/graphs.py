"""What the covering paper's relation graphs cost, beside the roots that the broker keeps.

Each graph is built with an index, and then changed: some of the last filters go and come again, and
some roots go (and come again, untimed). Then its index is taken away, which leaves the same graph,
and the same is done by traversing, fewer times: to build it that way would take minutes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from reefcast.errors import ConfigurationError, InternalError
from reefcast.matching.cover import Roots, new_cover_index, new_roots, warm_up
from reefcast.model.filters import Filter
from reefcast_lab.bench.cover.measure import SIZES, Times, timed
from reefcast_lab.bench.cover.relation_graphs import (
    RelationGraph,
    SimplifiedGraph,
    TraditionalGraph,
)
from reefcast_lab.bench.cover.workloads import degree_filters, make

GRAPHS: dict[str, type[RelationGraph[int]]] = {
    "traditional": TraditionalGraph,
    "simplified": SimplifiedGraph,
}
R = TypeVar("R", bound=Roots[int])

ROOTS = "roots"
"""How `new_roots` is called in the table."""

ADDED, REMOVED = 2_000, 20
ADDED_TRAVERSING, REMOVED_TRAVERSING = 100, 5

WORKLOADS: dict[str, Callable[[int], list[Filter]]] = {
    "degree": degree_filters,
    "stock": lambda count: make("stock", count, 0)[0],
}
LARGEST = {"stock": 10_000}
"""With more, a filter has hundreds of parents and children, and the traditional graph an edge for
each."""


@dataclass(frozen=True, slots=True)
class GraphRow:
    """`index`: on or off. Microseconds and comparisons per filter added, and per root removed;
    `cpu`: mean of the CPU time, without what other programs of this machine took; `p50`: median by
    the wall clock. `covering_degree`: keys that became roots for each root removed. Comparisons and
    edges are those of graphs."""

    workload: str
    n: int
    graph: str
    index: str
    add_cpu_us: float
    add_p50_us: float
    add_comparisons: float | None
    remove_cpu_us: float
    remove_p50_us: float
    remove_comparisons: float | None
    covering_degree: float
    edges: int | None


def bench(
    workloads: Sequence[str], sizes: Sequence[int], tell: Callable[[str], None]
) -> Iterator[GraphRow]:
    """Yield rows for each workload and size: each graph with and without an index, then the roots.
    No names or sizes: all; `ConfigurationError` for a name that there is not."""
    for workload in workloads:
        if workload not in WORKLOADS:
            names = ", ".join(WORKLOADS)
            raise ConfigurationError(f"the graphs have no workload {workload!r}; there are {names}")
    warm_up()
    for workload in workloads or tuple(WORKLOADS):
        for n in sizes or SIZES:
            if n <= LARGEST.get(workload, n):
                tell(f"{workload}: {n:,} filters")
                yield from _bench_graphs(workload, WORKLOADS[workload](n))


def _bench_graphs(workload: str, filters: list[Filter]) -> Iterator[GraphRow]:
    roots = _filled(new_roots(), filters)
    for name, kind in GRAPHS.items():
        graph = _filled(kind(new_cover_index()), filters)
        if graph.keys() != roots.keys():
            raise InternalError(f"{workload}: the {name} graph has other roots: report it")
        yield _measured(workload, name, "on", graph, filters, (ADDED, REMOVED))
        graph.index = None
        few = (ADDED_TRAVERSING, REMOVED_TRAVERSING)
        yield _measured(workload, name, "off", graph, filters, few)
    yield _measured(workload, ROOTS, "on", roots, filters, (ADDED, REMOVED))


def _filled(roots: R, filters: list[Filter]) -> R:
    for key, filter in enumerate(filters):
        roots.add(key, filter)
    return roots


def _measured(
    workload: str,
    name: str,
    index: str,
    roots: Roots[int],
    filters: list[Filter],
    most: tuple[int, int],
) -> GraphRow:
    """Measure a graph. `most`: how many filters to add, and how many roots to remove."""
    graph = roots if isinstance(roots, RelationGraph) else None
    added, add_comparisons = _add_again(roots, filters, most[0])
    removed, remove_comparisons = _remove_roots(roots, filters, most[1])
    return GraphRow(
        workload=workload,
        n=len(filters),
        graph=name,
        index=index,
        add_cpu_us=round(float(added.cpu.mean()), 2),
        add_p50_us=round(float(np.median(added.wall)), 2),
        add_comparisons=round(add_comparisons, 1) if graph is not None else None,
        remove_cpu_us=round(float(removed.cpu.mean()), 2),
        remove_p50_us=round(float(np.median(removed.wall)), 2),
        remove_comparisons=round(remove_comparisons, 1) if graph is not None else None,
        covering_degree=round(float(removed.hits.mean()), 2),
        edges=len(graph.edges()) if graph is not None else None,
    )


def _add_again(roots: Roots[int], filters: list[Filter], most: int) -> tuple[Times, float]:
    """Add the last filters again, half of all at most; return their mean comparisons, too."""
    last = range(max(len(filters) - most, len(filters) // 2), len(filters))
    for key in last:
        roots.remove(key)
    before = _comparisons(roots)
    times = timed(lambda key: roots.add(key, filters[key]), last)
    return times, (_comparisons(roots) - before) / len(last)


def _remove_roots(roots: Roots[int], filters: list[Filter], most: int) -> tuple[Times, float]:
    """Remove roots, each of which comes back before the next one goes; the hits are the keys that
    became roots."""
    keys = roots.keys()
    chosen = random.Random(1).sample(keys, min(most, len(keys)))
    comparisons = 0

    def come_and_go() -> Iterator[int]:
        nonlocal comparisons
        for key in chosen:
            before = _comparisons(roots)
            yield key
            comparisons += _comparisons(roots) - before
            roots.add(key, filters[key])

    times = timed(lambda key: roots.remove(key).entered, come_and_go())
    return times, comparisons / len(chosen)


def _comparisons(roots: Roots[int]) -> int:
    return roots.comparisons if isinstance(roots, RelationGraph) else 0
