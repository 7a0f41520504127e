"""The runs of a campaign: every routing at every x, with every seed."""

from __future__ import annotations

from collections.abc import Iterable

from reefcast_lab.experiments.campaign import Run


def runs_of(
    paper: str,
    campaign: str,
    scale: str,
    routings: Iterable[str],
    xs: Iterable[float],
    seeds: int,
    variant: str = "",
) -> list[Run]:
    """Return runs with the seeds 0, 1, ...; one seed is one workload and one set of random
    delays."""
    return [
        Run(paper, scale, campaign, routing, float(x), variant, seed)
        for x in xs
        for routing in routings
        for seed in range(seeds)
    ]
