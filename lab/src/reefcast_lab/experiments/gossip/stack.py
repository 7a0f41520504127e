"""The views of all topics with the numbers of their nodes, whatever they come from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reefcast_lab.rounds.overlays import Overlays

Numbers = NDArray[np.int64]
Nodes = NDArray[np.int32]


class Stack(NamedTuple):
    """Nodes and topics are numbers. The subscribers of topic t are `members[starts[t] : starts[t +
    1]]`; the view of the i-th of all members is `neighbours[bounds[i] : bounds[i + 1]]`."""

    nodes: int
    starts: Numbers
    members: Nodes
    bounds: Numbers
    neighbours: Nodes

    def topic_of_member(self) -> Numbers:
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


def stack_of(overlays: Overlays) -> Stack:
    """Make a stack of overlays, whose views are numbers within the topic."""
    first = np.repeat(overlays.starts[:-1], np.diff(overlays.starts))
    rows = np.repeat(first, np.diff(overlays.bounds)) + overlays.targets
    return Stack(
        len(overlays.nodes),
        overlays.starts,
        overlays.members,
        overlays.bounds,
        overlays.members[rows],
    )
