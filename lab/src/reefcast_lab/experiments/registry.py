"""The papers whose evaluations can be run, and the choice of claims by their ids."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reefcast.errors import ConfigurationError
from reefcast_lab.experiments.campaign import SCALES, Campaign, Claim, Paper, Run

NAMES = (
    "octopia",
    "covering",
    "mesh",
    "gossip",
    "storage",
    "undone",
    "sharing",
    "outage",
    "skew",
    "clusters",
    "tenfold",
)


def papers() -> dict[str, Paper]:
    """Return the papers by name; this imports their packages."""
    modules = {name: f"reefcast_lab.experiments.{name}.claims" for name in NAMES}
    return {name: importlib.import_module(module).PAPER for name, module in modules.items()}


class Selection(NamedTuple):
    """Claims of one paper, and the campaigns that they are computed from."""

    paper: Paper
    claims: tuple[Claim, ...]
    campaigns: tuple[Campaign, ...]


def select(papers: Mapping[str, Paper], ids: Iterable[str]) -> list[Selection]:
    """Return the claims of these ids ("octopia/O4"; "octopia" for all), by paper, in the papers'
    order.

    Raises `ConfigurationError` for an id that there is not."""
    wanted = set(ids)
    known = {claim.id for paper in papers.values() for claim in paper.claims}
    for id in sorted(wanted - known - set(papers)):
        raise ConfigurationError(
            f"there is no experiment {id!r}; `reefcast-lab experiment list` names them all"
        )
    chosen = []
    for paper in papers.values():
        claims = tuple(c for c in paper.claims if paper.name in wanted or c.id in wanted)
        needed = {claim.campaign for claim in claims}
        campaigns = tuple(c for c in paper.campaigns if c.name in needed)
        chosen += [Selection(paper, claims, campaigns)] if claims else []
    return chosen


def paper_named(papers: Mapping[str, Paper], name: str) -> Paper:
    """Return the paper of this name. Raises `ConfigurationError` if there is none."""
    if name not in papers:
        raise ConfigurationError(f"there is no paper {name!r}: take {' or '.join(papers)}")
    return papers[name]


def runs_of(campaigns: Iterable[Campaign], scale: str, seeds: int | None) -> list[Run]:
    """Return all runs of a scale; `seeds` in place of how many the campaigns would take.

    Largest x first: x mostly is a size, and a long run that starts last is what all wait for.
    Raises `ConfigurationError` for a scale that there is not."""
    if scale not in SCALES:
        raise ConfigurationError(f"there is no scale {scale!r}: take {' or '.join(SCALES)}")
    runs = [run for campaign in campaigns for run in campaign.runs(scale)]
    if seeds is not None:
        cases = dict.fromkeys(run._replace(seed=0) for run in runs)
        runs = [run._replace(seed=seed) for run in cases for seed in range(seeds)]
    return sorted(runs, key=lambda run: -run.x)
