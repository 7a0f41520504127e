"""The overlays of all topics as arrays, for measures of whole networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reefcast.experiments.gossip.structure import Graph, graph_of

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

    def union(self) -> Graph:
        """What all topics induce."""
        sources = np.repeat(self.members.astype(np.int64), np.diff(self.bounds))
        return graph_of(self.nodes, sources, self.neighbours)


def stack_of(nodes: Sequence[str], views: Mapping[str, Mapping[str, Sequence[str]]]) -> Stack:
    """Nodes are numbered in the order given, topics in that of `views`: topic -> node -> view."""
    number = {node: i for i, node in enumerate(nodes)}
    members = [number[node] for overlay in views.values() for node in overlay]
    rows = [view for overlay in views.values() for view in overlay.values()]
    return Stack(
        len(nodes),
        _bounds([len(overlay) for overlay in views.values()]),
        np.array(members, np.int32),
        _bounds([len(view) for view in rows]),
        np.array([number[node] for view in rows for node in view], np.int32),
    )


def _bounds(sizes: Sequence[int]) -> Numbers:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
