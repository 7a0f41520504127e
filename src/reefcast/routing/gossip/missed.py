"""The nodes that a node could not reach, and wants to reach again."""

from __future__ import annotations

from typing import NamedTuple

from reefcast.routing.gossip.streams import NodeId

MOST_MISSED = 32
"""How many nodes are remembered: those that were found missing last."""
MISSED_ROUNDS = 600
"""For how many rounds they are remembered."""


class Missing(NamedTuple):
    """`neighbour`: whether it was in the view. `since`: the round in which it was needed last."""

    neighbour: bool
    since: int


class MissedNodes(dict[NodeId, Missing]):
    """The missed nodes of one topic, in the order in which they were needed last."""

    def add(self, node: NodeId, neighbour: bool, round: int) -> None:
        before = self.pop(node, None)
        self[node] = Missing(neighbour or (before is not None and before.neighbour), round)
        if len(self) > MOST_MISSED:
            del self[next(iter(self))]

    def forget(self, round: int) -> None:
        """Forget the nodes that have not been needed for long."""
        for node in [x for x, missing in self.items() if missing.since <= round - MISSED_ROUNDS]:
            del self[node]
