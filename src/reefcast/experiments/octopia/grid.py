"""The runs of a campaign: every routing at every x, with every seed."""

from __future__ import annotations

from collections.abc import Iterable

from reefcast.experiments.campaign import Run

PAPER = "octopia"
STATIC = ("spr", "tid-s")
"""One routing of each system: what advertisements and subscriptions do is the same for both."""
ALL = ("spr", "idr", "tid-s", "tid-d")


def runs_of(
    campaign: str,
    scale: str,
    routings: Iterable[str],
    xs: Iterable[float],
    seeds: int,
    variant: str = "",
) -> list[Run]:
    """Seeds are 0, 1, ...; one seed is one market and one set of random delays."""
    return [
        Run(PAPER, scale, campaign, routing, float(x), variant, seed)
        for x in xs
        for routing in routings
        for seed in range(seeds)
    ]
