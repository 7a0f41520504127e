"""How interests are spread, and how alike they are: Fig. 1 and Table 1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from reefcast_lab.experiments.campaign import Campaign, Measure, Run
from reefcast_lab.experiments.gossip.parameters import PAPER, section
from reefcast_lab.experiments.gossip.scenario import Flags, grid_matrix
from reefcast_lab.experiments.grid import runs_of
from reefcast_lab.workloads.correlation import (
    CRITICAL,
    scores,
    share_of_pairs,
    share_of_rows,
)

NAME = "interests"
GRID = "grid"


def runs(scale: str) -> list[Run]:
    entries = section(NAME, scale)
    return runs_of(PAPER, NAME, scale, (GRID,), [entries.nodes], entries.seeds)


def measure(run: Run) -> list[Measure]:
    matrix = grid_matrix(int(run.x), section(NAME, run.scale).topics, run.seed)
    found = scores(matrix.T)
    topics = [
        Measure(f"topic_pairs_{confidence}", 0.0, share_of_pairs(found, confidence))
        for confidence in CRITICAL
    ]
    return [*of_matrix(matrix), *topics]


def of_matrix(matrix: Flags) -> Iterator[Measure]:
    """Yield the measures of [node, topic]: correlations of the nodes that have any; and Fig. 1, by
    the rank from the largest on."""
    sets = matrix[matrix.any(axis=1)]
    found = scores(sets)
    for confidence in CRITICAL:
        yield Measure(f"pairs_{confidence}", 0.0, share_of_pairs(found, confidence))
        yield Measure(f"nodes_{confidence}", 0.0, share_of_rows(found, confidence))
    yield Measure("without", 0.0, float(len(matrix) - len(sets)))
    for name, counts in (("subscribers", sets.sum(axis=0)), ("subscriptions", sets.sum(axis=1))):
        yield Measure(f"mean_{name}", 0.0, float(counts.mean()))
        yield Measure(f"median_{name}", 0.0, float(np.median(counts)))
        yield Measure(f"most_{name}", 0.0, float(counts.max()))
        for rank, count in enumerate(np.sort(counts)[::-1].tolist(), 1):
            yield Measure(f"{name}_by_rank", float(rank), float(count))


CAMPAIGN = Campaign(NAME, "nodes", runs, measure)
