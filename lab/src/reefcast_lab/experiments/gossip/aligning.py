"""Overlays before and after the protocol: what every campaign starts from.

`unaligned`: strongly connected random graphs, one for each topic, on their own. `aligned`: the same
after some rounds of the protocol, where nobody comes, goes or fails; `greedy`: by the rule of the
paper's Listing 1, without the witness rule. Rounds are those of the twin on arrays
(`reefcast_lab.rounds`), which does what the state machine of the live nodes does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from reefcast.routing.gossip.options import GossipOptions
from reefcast_lab.experiments.gossip.parameters import section
from reefcast_lab.experiments.gossip.scenario import Interests, grid_interests
from reefcast_lab.rounds.overlays import Overlays, starting_overlays
from reefcast_lab.rounds.twin import Twin

UNALIGNED, ALIGNED, GREEDY = "unaligned", "aligned", "greedy"
RULES: dict[str, Literal["witness", "greedy"]] = {ALIGNED: "witness", GREEDY: "greedy"}


class Aligned(NamedTuple):
    """`before`, and `after` the last round. `total`, `unique`: sums over nodes of the sizes of
    their views, and of the different neighbours in them; before the first round and after each."""

    before: Overlays
    after: Overlays
    total: list[int]
    unique: list[int]


@lru_cache(maxsize=8)
def usual_overlays(routing: str, scale: str, seed: int) -> Overlays:
    """Make the overlays of the section `dissemination`, which many runs use."""
    entries = section("dissemination", scale)
    interests = grid_interests(entries.nodes, entries.topics, seed)
    return overlays(interests, routing, scale, seed).after


def overlays(
    interests: Interests, routing: str, scale: str, seed: int, degree: float | None = None
) -> Aligned:
    """Make the overlays of these topics; `routing`: unaligned, aligned or greedy. `degree`: mean
    view size in a topic of n nodes when it starts, in times ln n; the file's by default."""
    entries = section("protocol", scale)
    before = after = starting_overlays(interests, seed, degree or entries.degree)
    total, unique = [before.total()], [before.unique()]
    if routing != UNALIGNED:
        options = GossipOptions(ttl=entries.ttl, rule=RULES[routing], seed=seed)
        twin = Twin(before, options)
        for _ in range(entries.rounds):
            twin.round()
            total.append(twin.total())
            unique.append(twin.unique())
        after = twin.overlays
    return Aligned(before, after, total, unique)
