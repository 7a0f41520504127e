"""Overlays before and after the protocol: what every campaign starts from.

`unaligned`: strongly connected random graphs, one for each topic, on their own. `aligned`: the same
after some rounds of the protocol, where nobody comes, goes or fails; `greedy`: by the rule of the
paper's Listing 1, without the witness rule. Rounds are those of the twin on arrays
(`reefcast.simulation.gossip`), which does what the state machine of the live nodes does.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from reefcast.experiments.gossip.parameters import section
from reefcast.experiments.gossip.scenario import Interests
from reefcast.experiments.gossip.stack import Stack, stack_of
from reefcast.routing.gossip.options import GossipOptions
from reefcast.simulation.gossip.overlays import starting_overlays
from reefcast.simulation.gossip.twin import Twin

UNALIGNED, ALIGNED, GREEDY = "unaligned", "aligned", "greedy"
RULES: dict[str, Literal["witness", "greedy"]] = {ALIGNED: "witness", GREEDY: "greedy"}


class Aligned(NamedTuple):
    """`nodes` are the names of those with a topic. `total`, `unique`: sums over nodes of the sizes
    of their views, and of the different neighbours in them; before the first round and after
    each."""

    nodes: tuple[str, ...]
    stack: Stack
    total: list[int]
    unique: list[int]


def overlays(interests: Interests, routing: str, scale: str, seed: int) -> Aligned:
    """The overlays of these topics; `routing`: unaligned, aligned or greedy."""
    entries = section("protocol", scale)
    started = starting_overlays(interests, seed, entries.degree)
    total, unique = [started.total()], [started.unique()]
    if routing != UNALIGNED:
        options = GossipOptions(ttl=entries.ttl, rule=RULES[routing], seed=seed)
        twin = Twin(started, options)
        for _ in range(entries.rounds):
            twin.round()
            total.append(twin.total())
            unique.append(twin.unique())
        started = twin.overlays
    return Aligned(started.nodes, stack_of(started.nodes, started.views()), total, unique)
